"""The lasso by coordinate descent on cross-products, to its optimum: no fit stops before it.

    min_b ½ bᵀGb − mᵀb + Σ_k penalty_k |b_k|          G = XᵀX, m = Xᵀy

Sweeps go over the coordinates that are not 0, and over all of them once those have settled: a sweep costs what the
solution uses, not what there is. Where inputs are nearly alike sweeps are slow; the optimum under the signs so far is
then solved for, and taken up to the first coordinate that changes its sign (Lee, Battle, Raina & Ng 2007).
"""

from __future__ import annotations

import numpy as np

from pacesetter.arrays import Array
from pacesetter.compiled import njit
from pacesetter.errors import DataError, RunError

__all__ = ["lasso"]

TOLERANCE = 1e-8  # of the gradient, as a share of the largest |m|
SWEEPS = 10  # before signs are solved for; more where that costs more
RIDGE = 1e-12  # of what is solved, as a share of its diagonal: two inputs may be the same
MOST_ROUNDS = 10_000


def lasso(gram: Array, moments: Array, penalty: float | Array, start: Array | None = None) -> Array:
    """(input, response) the optimum for each response, from the solutions of a larger penalty where they are given.

    gram   (input, input)        moments, start   (input, response)        penalty   one, or one for each input
    """
    if not (np.isfinite(gram).all() and np.isfinite(moments).all()):
        raise DataError("a lasso needs finite inputs and returns; an input or a return is infinite or missing")
    size, responses = moments.shape
    penalties = np.ascontiguousarray(np.broadcast_to(np.asarray(penalty, float), size))
    matrix, solution = np.ascontiguousarray(gram, float), np.zeros((responses, size))
    if start is not None:
        solution[:] = start.T
    wanted = np.ascontiguousarray(moments.T, float)
    for place in range(responses):
        if not _descend(matrix, wanted[place], penalties, solution[place]):
            raise RunError(f"a lasso of {size} inputs did not reach its optimum in {MOST_ROUNDS:,} rounds; report it")
    return np.ascontiguousarray(solution.T)


@njit(cache=True)
def _descend(gram: Array, moments: Array, penalties: Array, beta: Array) -> bool:
    """Move `beta` to the optimum; whether the optimality conditions hold there."""
    size = len(moments)
    everywhere = np.arange(size)
    gradient = moments.copy()  # m − G b
    for k in range(size):
        for i in range(size if beta[k] != 0.0 else 0):
            gradient[i] -= gram[k, i] * beta[k]
    close = TOLERANCE * np.abs(moments).max()
    for _ in range(MOST_ROUNDS):
        # What enters is found here, and an optimum among all is one.
        if _sweep(gram, gradient, penalties, beta, everywhere) <= close:
            return True
        used = np.flatnonzero(beta)
        for _ in range(SWEEPS + len(used) ** 2 // (10 * size)):
            if _sweep(gram, gradient, penalties, beta, used) <= close:
                break
        else:
            _solve_signs(gram, gradient, penalties, beta, np.flatnonzero(beta))
    return False


@njit(cache=True)
def _sweep(gram: Array, gradient: Array, penalties: Array, beta: Array, places: Array) -> float:
    """Minimise along each of some coordinates; the largest step, as it changes the coordinate's gradient."""
    largest = 0.0
    for k in places:
        own = gram[k, k]
        if own <= 0.0:  # an input that never moves
            continue
        # The gradient without k's own part: soft-thresholding it is the exact minimum along coordinate k.
        pull = gradient[k] + own * beta[k]
        new = np.sign(pull) * max(abs(pull) - penalties[k], 0.0) / own
        step = new - beta[k]
        if step != 0.0:
            # Kept up to date, the gradient costs one row per coordinate that moves and nothing for the others.
            for i in range(len(gradient)):
                gradient[i] -= gram[k, i] * step
            beta[k] = new
            largest = max(largest, own * abs(step))
    return largest


@njit(cache=True)
def _solve_signs(gram: Array, gradient: Array, penalties: Array, beta: Array, used: Array) -> None:
    """Move the used coordinates towards the optimum under their signs, until one of them is 0."""
    count = len(used)
    system, wanted = np.empty((count, count)), np.empty(count)
    for a in range(count):
        for b in range(count):
            system[a, b] = gram[used[a], used[b]]
        system[a, a] *= 1.0 + RIDGE
        wanted[a] = gradient[used[a]] - penalties[used[a]] * np.sign(beta[used[a]])
    step = np.linalg.solve(system, wanted)
    share, first = 1.0, -1
    for a in range(count):
        if step[a] * beta[used[a]] < 0.0 and -beta[used[a]] / step[a] < share:
            share, first = -beta[used[a]] / step[a], a
    for a in range(count):
        k, move = used[a], share * step[a]
        if a == first:
            move = -beta[k]
        beta[k] += move
        for i in range(len(gradient)):
            gradient[i] -= gram[k, i] * move
