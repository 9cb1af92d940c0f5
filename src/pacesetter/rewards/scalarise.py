"""Scalarisation: one number from a vector of objectives. NumPy and torch alike.

Values are (component, env), weights and the reference point (component, 1).
"""

from __future__ import annotations

from functools import reduce
from operator import add

from pacesetter.arrays import Values
from pacesetter.rewards.elementwise import namespace

__all__ = ["ACCRUED", "PREFERENCE", "chebyshev", "weighted_sum"]

# entries (component,) of an observation: the weights in force, and what the episode has added up so far
PREFERENCE, ACCRUED = "preference", "accrued"


def weighted_sum(values: Values, weights: Values) -> Values:
    """(env,) Σ_c w_c·x_c of (component, env) values, added in order, so that no batch size changes a bit of it."""
    # Not `sum` or a product: both may add in another order for another batch size.
    total: Values = reduce(add, values * weights)
    return total


def chebyshev(values: Values, weights: Values, reference: Values) -> Values:
    """(env,) −max_c w_c·|z_c − x_c|: the worst weighted distance to the reference point z, which is 0 at best.

    Unlike a weighted sum it can reach every Pareto-optimal point, also where the front is not convex.
    """
    worst: Values = namespace(values).amax(abs(reference - values) * weights, 0)
    return -worst
