"""Deep Sea Treasure (Vamplew et al. 2011): the usual world with a known front, which methods are held against.

A submarine starts in the upper left corner of an 11 × 11 sea. Deeper treasures are worth more and take longer: the
objectives are treasure and −1 a step. Treasures and depths are those of mo-gymnasium's maps, convex and concave.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from pacesetter.arrays import Array
from pacesetter.methods.objectives.tabular import VectorQ, World

__all__ = ["STATED", "WORST", "chebyshev_front", "deep_sea", "weighted_front"]

Kind = Literal["convex", "concave"]
DEPTHS = (1, 2, 3, 4, 4, 4, 7, 7, 9, 10)
TREASURES = {
    "convex": (0.7, 8.2, 11.5, 14.0, 15.1, 16.1, 19.6, 20.3, 22.4, 23.7),
    "concave": (1.0, 2.0, 3.0, 5.0, 8.0, 16.0, 24.0, 50.0, 74.0, 124.0),
}
WORST = (0.0, -50.0)  # the usual reference point
# (map, discount) -> hypervolume of the whole front above it
STATED = {("convex", 1.0): 994.3, ("convex", 0.99): 854.85, ("concave", 1.0): 4_255.0, ("concave", 0.99): 3_688.38}
MOVES = ((-1, 0), (1, 0), (0, -1), (0, 1))  # (row, column)
SIZE, STEPS = 11, 26  # more steps than any direct path takes
TRANSITIONS, BATCH = 200_000, 5_000
BEYOND = (125.0, 0.0)  # Chebyshev's reference: better than every point


def deep_sea(kind: Kind) -> World:
    """The world of one map."""
    depth = (*DEPTHS, SIZE)
    following = np.zeros((SIZE * SIZE, len(MOVES)), np.int64)
    rewards, ends = np.zeros((SIZE * SIZE, len(MOVES), 2)), np.zeros((SIZE * SIZE, len(MOVES)), bool)
    rewards[:, :, 1] = -1.0
    for place, move in np.ndindex(SIZE * SIZE, len(MOVES)):
        row, column = divmod(place, SIZE)
        to_row, to_column = row + MOVES[move][0], column + MOVES[move][1]
        is_sea = 0 <= to_row < SIZE and 0 <= to_column < SIZE and to_row <= depth[to_column]
        if not is_sea:
            to_row, to_column = row, column
        following[place, move] = to_row * SIZE + to_column
        if to_column < len(DEPTHS) and to_row == DEPTHS[to_column]:
            rewards[place, move, 0], ends[place, move] = TREASURES[kind][to_column], True
    return World(following, rewards, ends, steps=STEPS)


def weighted_front(kind: Kind, gamma: float, count: int = 24, most: float = 5.0) -> Array:
    """(policy, 2) what trained policies reach whose sums cost a step a fifth to `most` times a unit of treasure."""
    cost = np.geomspace(0.2, most, count)
    return _train_tabular(kind, gamma, np.stack([1 / (1 + cost), cost / (1 + cost)], axis=1), None)


def chebyshev_front(kind: Kind, gamma: float) -> Array:
    """(policy, 2) what trained policies reach that aim from the reference at each treasure: w ∝ 1 / (z − x)."""
    steps = np.arange(len(DEPTHS)) + np.array(DEPTHS)
    paid = gamma ** (steps - 1) * np.array(TREASURES[kind])
    spent = steps if gamma == 1 else (1 - gamma**steps) / (1 - gamma)
    aim = 1 / np.stack([BEYOND[0] - paid, BEYOND[1] + spent], axis=1)
    return _train_tabular(kind, gamma, aim / aim.sum(1, keepdims=True), np.array(BEYOND))


def _train_tabular(kind: Kind, gamma: float, preferences: Array, reference: Array | None) -> Array:
    learner = VectorQ(deep_sea(kind), preferences, gamma, reference)
    learner.learn(TRANSITIONS, batch=BATCH)
    return learner.play()
