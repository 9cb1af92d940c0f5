"""Hypervolume and efficient points against independent answers: inclusion and exclusion, and moocore.

moocore is asked where it is installed (extra `dev`); its answers of version 0.3.2 are kept as numbers.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pacesetter.methods.objectives.front import hypervolume, is_efficient

Array = NDArray[Any]
CASES = [(9, 2), (9, 3), (8, 5), (8, 6)]  # points and objectives
# (points, objectives) -> hypervolume above 0 and the efficient ones, by moocore 0.3.2
BY_MOOCORE = {(9, 2): (258.0, 10), (9, 3): (4_180.0, 10), (8, 5): (884_945.0, 9), (8, 6): (17_123_576.0, 9)}


def lattice(points: int, objectives: int) -> Array:
    """(point, objective) whole numbers from 0 to 22: some that nothing beats, one of them twice, and two beaten."""
    i, j = np.arange(1, points + 1)[:, None], np.arange(objectives)[None]
    values = (i * 5 * (-1) ** j + i**2 * (j // 2)) % 22 + 1
    return np.vstack([values, values[:1], values[1:3] - 1]).astype(float)


def inclusion_exclusion(points: Array) -> float:
    """The volume of the union of boxes from 0: Σ over subsets of (−1)^(size + 1) · volume of what they share."""
    sizes = range(1, len(points) + 1)
    subsets = [list(rows) for size in sizes for rows in combinations(range(len(points)), size)]
    return float(sum((-1) ** (len(rows) + 1) * points[rows].min(0).prod() for rows in subsets))


@pytest.mark.parametrize("case", CASES)
def test_the_volume_is_that_of_the_union_of_boxes(case: tuple[int, int]) -> None:
    points = lattice(*case)
    wanted = inclusion_exclusion(points[:-3])
    assert hypervolume(points, np.zeros(case[1])) == pytest.approx(wanted, rel=1e-12)
    # Another reference moves all points alike.
    assert hypervolume(points - 3.0, np.full(case[1], -3.0)) == pytest.approx(wanted, rel=1e-12)
    # In the units of another currency.
    assert hypervolume(points * [10.0, *[1.0] * (case[1] - 1)], np.zeros(case[1])) == pytest.approx(10 * wanted)


@pytest.mark.parametrize("case", CASES)
def test_volume_and_efficient_points_are_those_of_moocore(case: tuple[int, int]) -> None:
    points = lattice(*case)
    volume, count = BY_MOOCORE[case]
    assert hypervolume(points, np.zeros(case[1])) == pytest.approx(volume, rel=1e-12)
    assert is_efficient(points).sum() == count


@pytest.mark.parametrize("objectives", [2, 3, 4, 5])
def test_drawn_points_as_moocore_has_them_where_it_is_installed(objectives: int) -> None:
    moocore = pytest.importorskip("moocore")
    draw = np.random.default_rng(objectives)
    for points in (draw.normal(size=(12, objectives)), draw.integers(0, 4, (12, objectives)).astype(float)):
        worst = np.full(objectives, -0.5)
        wanted = moocore.hypervolume(points, ref=worst, maximise=True)
        assert hypervolume(points, worst) == pytest.approx(wanted, rel=1e-9)
        # Equal points are efficient together, here and with `keep_weakly`.
        kept = moocore.is_nondominated(points, maximise=True, keep_weakly=True)
        assert is_efficient(points).tolist() == kept.tolist()
