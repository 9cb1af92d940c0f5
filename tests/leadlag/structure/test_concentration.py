"""Contribution per asset, Herfindahl and Gini at hand values."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pacesetter.leadlag.structure.concentration import contributions, gini, herfindahl, leadership_table
from pacesetter.leadlag.structure.ranking import row_mean

ONE_LEADS_ALL = np.array([[0.0, 1.0, 3.0], [-1.0, 0.0, 0.0], [-3.0, 0.0, 0.0]])
CHAIN = np.array([[0.0, 1.0, 2.0], [-1.0, 0.0, 1.0], [-2.0, -1.0, 0.0]])


def test_contributions_by_hand() -> None:
    np.testing.assert_allclose(contributions(np.stack([ONE_LEADS_ALL, CHAIN])), [[1, 0, 0], [0.75, 0.25, 0]])


def test_absent_assets_and_empty_matrices_have_no_contribution() -> None:
    matrix = CHAIN.copy()
    matrix[1] = matrix[:, 1] = np.nan
    np.testing.assert_array_equal(contributions(matrix), [1, np.nan, 0])
    assert np.isnan(contributions(np.zeros((3, 3)))).all()


@pytest.mark.parametrize(
    ("shares", "index", "coefficient"),
    [
        ([0.25, 0.25, 0.25, 0.25], 0.25, 0.0),
        ([1.0, 0.0, 0.0, 0.0], 1.0, 0.75),
        ([0.75, 0.25, 0.0], 0.625, 0.5),
        ([0.5, np.nan, 0.5], 0.5, 0.0),
    ],
)
def test_herfindahl_and_gini_by_hand(shares: list[float], index: float, coefficient: float) -> None:
    assert herfindahl(np.array(shares)) == pytest.approx(index)
    assert gini(np.array(shares)) == pytest.approx(coefficient)


def test_nothing_known_gives_nan() -> None:
    nothing = np.full((2, 3), np.nan)
    assert np.isnan(herfindahl(nothing)).all()
    assert np.isnan(gini(nothing)).all()


@given(st.lists(st.floats(0.01, 1.0), min_size=2, max_size=12))
@settings(max_examples=50, deadline=None, derandomize=True)
def test_gini_equals_the_mean_absolute_difference(values: list[float]) -> None:
    shares = np.array(values) / np.sum(values)
    difference = np.abs(shares[:, None] - shares).mean() / (2 * shares.mean())
    assert gini(shares) == pytest.approx(difference)
    assert 1 / len(shares) - 1e-12 <= herfindahl(shares) <= 1


def test_the_table_says_who_leads_how_often() -> None:
    matrices = np.stack([CHAIN, CHAIN, -CHAIN, CHAIN])
    table = leadership_table(row_mean(matrices), contributions(matrices), ("A", "B", "C"), quantile=0.34)
    assert table.index.tolist() == ["A", "B", "C"]
    assert table["leads"].tolist() == [0.75, 0.0, 0.25]
    assert table["windows"].tolist() == [4, 4, 4]
    np.testing.assert_allclose(table["mean_rank"], [1.5, 2, 2.5])
    np.testing.assert_allclose(table["contribution"], [0.5625, 0.25, 0.1875])
