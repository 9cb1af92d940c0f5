"""The optimal allocations as the programs that Clarabel solves, written as skfolio and CVXPY would write them.

    min ½ x'Px + q'x   of Ax + s = b, s in cones

The same numbers in the same places give the same shares bit for bit. What is saved is the making of the problem, which
CVXPY repeats for every call and which takes some fifteen times as long as solving it. With L L' = Σ the risk √(w'Σw) is
the length of L'w, a second-order cone; the shares w are not negative and not above a cap.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pacesetter.arrays import Array

__all__ = ["Program", "least_variance", "most_utility", "parity_of_risk", "shrunk_covariance", "solve"]

TOLERANCE = 1e-9  # of the gap, as skfolio asks for


class Program(NamedTuple):
    """What is minimised, and under which conditions, in the order zero, not negative, second-order, exponential cones.

    quadratic        (place in x, its number on the diagonal of P)        linear   (x,) q
    rows, bounds     (row, x) A and (row,) b
    equal, positive  rows of the first two kinds; those of L'w follow, then three for each of the `logarithms`
    shares           where they are in x        total   where what they are a part of is; None: 1
    """

    quadratic: tuple[int, float]
    linear: Array
    rows: Array
    bounds: Array
    equal: int
    positive: int
    logarithms: int
    shares: slice
    total: int | None = None


def shrunk_covariance(returns: Array) -> Array:
    """(k, k) covariance of (bar, k) returns by Ledoit and Wolf (2004)."""
    from sklearn.covariance import ledoit_wolf

    covariance: Array = ledoit_wolf(returns)[0]
    return covariance


def least_variance(root: Array, cap: float) -> Program:
    """The shares whose return varies least; `root` (k, k) is L."""
    count = len(root)
    risk, shares = 0, slice(1, count + 1)
    rows, bounds = _limits(count, count + 1, risk, shares, cap)
    rows[-count:, shares] = -root.T
    return Program((risk, 2.0), np.zeros(count + 1), rows, bounds, 1, 2 * count + 1, 0, shares)


def most_utility(root: Array, mean: Array, cap: float, aversion: float) -> Program:
    """The shares with the largest mean return − aversion · variance."""
    count = len(root)
    risk, shares = count, slice(0, count)
    rows, bounds = _limits(count, count + 1, risk, shares, cap)
    rows[-count:, shares] = -root.T
    linear = np.append(-mean, 0.0)
    return Program((risk, 2.0 * aversion), linear, rows, bounds, 1, 2 * count + 1, 0, shares)


def parity_of_risk(root: Array, cap: float) -> Program:
    """The shares with an equal part of the variance each: in proportion, its least with Σ log w ≥ 0."""
    count = len(root)
    # x: the risk, log w, w and Σ w
    risk, logarithms, shares, total = 0, slice(1, count + 1), slice(count + 1, 2 * count + 1), 2 * count + 1
    own, bounds = _limits(count, 2 * count + 2, risk, shares, cap)
    own[0, total], bounds[0] = -1.0, 0.0
    capped = slice(count + 2, 2 * count + 2)
    own[capped, total], bounds[capped] = -cap, 0.0
    own[-count:, shares] = -root.T
    summed = np.zeros((1, 2 * count + 2))
    summed[0, logarithms] = -1.0
    cones = np.zeros((count, 3, 2 * count + 2))  # log w_i, 1 and w_i
    each = np.arange(count)
    cones[each, 0, each + 1] = cones[each, 2, each + count + 1] = -1.0
    rows = np.vstack([own[:2], summed, own[2:], cones.reshape(3 * count, -1)])
    bounds = np.concatenate([bounds[:2], [0.0], bounds[2:], np.tile([0.0, 1.0, 0.0], count)])
    return Program((risk, 2.0), np.zeros(len(rows[0])), rows, bounds, 1, 2 * count + 2, count, shares, total)


def solve(program: Program) -> Array | None:
    """(k,) shares; None where the solver does not say that it solved the program."""
    import clarabel
    from scipy.sparse import csc_array

    settings = clarabel.DefaultSettings()
    settings.verbose, settings.tol_gap_abs, settings.tol_gap_rel = False, TOLERANCE, TOLERANCE
    size, (place, number) = len(program.linear), program.quadratic
    quadratic = csc_array(([number], ([place], [place])), shape=(size, size))
    solver = clarabel.DefaultSolver(
        quadratic, program.linear, csc_array(program.rows), program.bounds, _cones(clarabel, program), settings
    )
    solution = solver.solve()
    if solution.status != clarabel.SolverStatus.Solved:
        return None
    optimum = np.array(solution.x)
    shares: Array = optimum[program.shares] / (1.0 if program.total is None else optimum[program.total])
    return shares


def _limits(count: int, size: int, risk: int, shares: slice, cap: float) -> tuple[Array, Array]:
    """A and b of Σ w = 1, risk ≥ 0, 0 ≤ w ≤ cap, and of the second-order cone but for L'w, its last rows."""
    rows, bounds = np.zeros((3 * count + 3, size)), np.zeros(3 * count + 3)
    rows[0, shares], bounds[0] = 1.0, 1.0
    rows[1, risk] = -1.0
    rows[2 : count + 2, shares] = -np.eye(count)
    rows[count + 2 : 2 * count + 2, shares], bounds[count + 2 : 2 * count + 2] = np.eye(count), cap
    rows[2 * count + 2, risk] = -1.0
    return rows, bounds


def _cones(clarabel: Any, program: Program) -> Sequence[Any]:
    first = program.equal + program.positive
    measured = len(program.bounds) - first - 3 * program.logarithms
    plain = [clarabel.ZeroConeT(program.equal), clarabel.NonnegativeConeT(program.positive)]
    return [*plain, clarabel.SecondOrderConeT(measured), *[clarabel.ExponentialConeT()] * program.logarithms]
