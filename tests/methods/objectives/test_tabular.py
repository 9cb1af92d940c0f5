"""Deep Sea Treasure, convex and concave: trained policies reach the stated hypervolumes.

Runs `methods.objectives.deep_sea`.
"""

from __future__ import annotations

import numpy as np
import pytest

from pacesetter.methods.objectives.deep_sea import STATED, WORST, chebyshev_front, weighted_front
from pacesetter.methods.objectives.front import hypervolume, is_efficient, spread_preferences


@pytest.mark.parametrize("gamma", [1.0, 0.99])
def test_weighted_sums_reach_the_convex_front(gamma: float) -> None:
    stated = STATED["convex", gamma]
    assert 0.99 * stated < hypervolume(weighted_front("convex", gamma), WORST) <= stated * 1.0001


def test_chebyshev_reaches_the_concave_front_and_weighted_sums_cannot() -> None:
    """Weighted sums find its two ends alone; Chebyshev is asked for every trade-off between them."""
    stated = STATED["concave", 1.0]
    ends = weighted_front("concave", 1.0, 12, 20.0)
    assert len(np.unique(ends, axis=0)) == 2
    assert hypervolume(ends, WORST) < 0.99 * stated
    reached = chebyshev_front("concave", 1.0)
    assert 0.99 * stated < hypervolume(reached, WORST) <= stated
    assert is_efficient(np.unique(reached, axis=0)).sum() == 10


def test_discounted_concave_front() -> None:
    assert hypervolume(chebyshev_front("concave", 0.99), WORST) == pytest.approx(STATED["concave", 0.99], rel=0.01)


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


def test_preferences_of_two_objectives_lie_at_equal_distances() -> None:
    assert spread_preferences(5, 2)[:, 0].tolist() == [1.0, 0.0, 0.75, 0.5, 0.25]
    np.testing.assert_allclose(spread_preferences(5, 2).sum(1), 1.0)
    assert [len(spread_preferences(count, 2)) for count in (0, 1, 2)] == [0, 1, 2]
