"""Deep Sea Treasure, convex and concave: trained policies reach the stated hypervolumes.

Treasures and depths are those of mo-gymnasium's maps; reference (0, −50).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pacesetter.learning.objectives.front import hypervolume, is_efficient, spread_preferences
from pacesetter.learning.objectives.tabular import VectorQ, World

DEPTHS = (1, 2, 3, 4, 4, 4, 7, 7, 9, 10)
TREASURES = {
    "convex": (0.7, 8.2, 11.5, 14.0, 15.1, 16.1, 19.6, 20.3, 22.4, 23.7),
    "concave": (1.0, 2.0, 3.0, 5.0, 8.0, 16.0, 24.0, 50.0, 74.0, 124.0),
}
WORST = (0.0, -50.0)
MOVES = ((-1, 0), (1, 0), (0, -1), (0, 1))  # (row, column)
SIZE = 11


def deep_sea(kind: str) -> World:
    """(treasure, −1 a step) on an 11 × 11 grid from its upper left corner; 26 steps are more than any path takes."""
    depth = (*DEPTHS, SIZE)
    following = np.zeros((SIZE * SIZE, len(MOVES)), np.int64)
    rewards, ends = np.zeros((SIZE * SIZE, len(MOVES), 2)), np.zeros((SIZE * SIZE, len(MOVES)), bool)
    rewards[:, :, 1] = -1.0
    for row in range(SIZE):
        for column in range(SIZE):
            for move, (down, right) in enumerate(MOVES):
                to_row, to_column = row + down, column + right
                is_sea = 0 <= to_row < SIZE and 0 <= to_column < SIZE and to_row <= depth[to_column]
                if not is_sea:
                    to_row, to_column = row, column
                place = row * SIZE + column
                following[place, move] = to_row * SIZE + to_column
                if to_column < len(DEPTHS) and to_row == DEPTHS[to_column]:
                    rewards[place, move, 0], ends[place, move] = TREASURES[kind][to_column], True
    return World(following, rewards, ends, steps=26)


def trained(kind: str, gamma: float, preferences: NDArray[Any], reference: NDArray[Any] | None = None) -> NDArray[Any]:
    learner = VectorQ(deep_sea(kind), preferences, gamma, reference)
    learner.learn(200_000, batch=5_000)
    return learner.play()


def weights(count: int, most: float = 5.0) -> NDArray[Any]:
    """Sums in which a step costs from a fifth to `most` times what a unit of treasure is worth."""
    cost = np.geomspace(0.2, most, count)
    return np.stack([1 / (1 + cost), cost / (1 + cost)], axis=1)


@pytest.mark.parametrize(("gamma", "stated"), [(1.0, 994.3), (0.99, 854.85)])
def test_weighted_sums_reach_the_convex_front(gamma: float, stated: float) -> None:
    reached = trained("convex", gamma, weights(24))
    assert 0.99 * stated < hypervolume(reached, WORST) <= stated * 1.0001


def test_chebyshev_reaches_the_concave_front_and_weighted_sums_cannot() -> None:
    """Stated: 4,255. Weighted sums find its two ends alone; Chebyshev is asked for every trade-off between them."""
    ends = trained("concave", 1.0, weights(12, 20.0))
    assert len(np.unique(ends, axis=0)) == 2
    assert hypervolume(ends, WORST) < 0.99 * 4255
    # Weights that point from the reference to evenly spaced times: w ∝ 1 / (z − x).
    reference, times = np.array([125.0, 0.0]), np.arange(1.0, 20.0)
    value = np.interp(times, np.arange(10) + np.array(DEPTHS), TREASURES["concave"])
    aim = 1 / np.stack([reference[0] - value, times - reference[1]], axis=1)
    reached = trained("concave", 1.0, aim / aim.sum(1, keepdims=True), reference)
    assert 0.99 * 4255 < hypervolume(reached, WORST) <= 4255
    assert is_efficient(np.unique(reached, axis=0)).sum() == 10


def test_discounted_concave_front() -> None:
    gamma, reference, steps = 0.99, np.array([125.0, 0.0]), np.arange(10) + np.array(DEPTHS)
    paid = gamma ** (steps - 1) * np.array(TREASURES["concave"])
    spent = -(1 - gamma**steps) / (1 - gamma)
    aim = 1 / np.stack([reference[0] - paid, -spent], axis=1)
    reached = trained("concave", gamma, aim / aim.sum(1, keepdims=True), reference)
    assert hypervolume(reached, WORST) == pytest.approx(3688.38, rel=0.01)


# ---- the volume -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("objectives", [2, 3, 5])
def test_the_volume_is_that_of_drawn_points(objectives: int) -> None:
    draw = np.random.default_rng(objectives)
    points = draw.random((7, objectives))
    inside = draw.random((200_000, objectives))
    share = (inside[:, None] <= points[None]).all(2).any(1).mean()
    assert hypervolume(points, np.zeros(objectives)) == pytest.approx(share, abs=0.005)


def test_points_that_are_beaten_or_below_the_reference_add_nothing() -> None:
    assert hypervolume([[2.0, 1.0], [1.0, 2.0], [1.0, 1.0], [-1.0, 9.0]], [0.0, 0.0]) == 3.0
    assert hypervolume([[1.0, -1.0]], [0.0, 0.0]) == 0.0
    assert is_efficient([[1.0, 1.0], [1.0, 1.0], [0.0, 1.0]]).tolist() == [True, True, False]


def test_preferences_are_spread_from_the_corners_on() -> None:
    spread = spread_preferences(8, 3)
    assert spread[:3].tolist() == np.eye(3).tolist()
    assert spread.shape == (8, 3)
    np.testing.assert_allclose(spread.sum(1), 1.0)
    assert len(spread_preferences(0, 3)) == 0
