"""Rankings find a planted order; persistence measures have hand values."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pacesetter.errors import ConfigError
from pacesetter.leadlag.structure.ranking import (
    RANKINGS,
    mark_leaders,
    rank_autocorrelation,
    ranks,
    row_mean,
    serial_rank,
)


def chain(order: list[int]) -> np.ndarray:
    """S[i, j] = sign of how much earlier i stands in `order` than j."""
    place = np.argsort(order)
    return np.sign(place[None, :] - place[:, None]).astype(float)


def absent(matrix: np.ndarray, asset: int) -> np.ndarray:
    matrix = matrix.copy()
    matrix[..., asset, :] = matrix[..., :, asset] = np.nan
    return matrix


@pytest.mark.parametrize("name", list(RANKINGS))
@given(order=st.permutations(range(7)))
@settings(max_examples=25, deadline=None, derandomize=True)
def test_a_planted_chain_is_ranked_exactly(name: str, order: list[int]) -> None:
    assert np.argsort(ranks(RANKINGS[name](chain(order)))).tolist() == list(order)


@pytest.mark.parametrize("name", list(RANKINGS))
def test_an_absent_asset_has_no_rank_and_does_not_disturb(name: str) -> None:
    scores = RANKINGS[name](absent(chain([4, 2, 0, 1, 3]), 2))
    np.testing.assert_array_equal(ranks(scores), [2, 3, np.nan, 4, 1])


@pytest.mark.parametrize("name", list(RANKINGS))
def test_stacks_equal_single_matrices(name: str) -> None:
    stack = np.stack([chain([0, 1, 2, 3]), absent(chain([3, 1, 0, 2]), 0), np.full((4, 4), np.nan)])
    np.testing.assert_array_equal(RANKINGS[name](stack), [RANKINGS[name](matrix) for matrix in stack])


def test_row_mean_is_the_mean_over_others() -> None:
    np.testing.assert_allclose(row_mean(np.array([[0, 0.5, 0.3], [-0.5, 0, 0.1], [-0.3, -0.1, 0]])), [0.4, -0.2, -0.2])


def test_serial_rank_resolves_a_reversed_comparison_where_row_means_tie() -> None:
    # Fogel, d'Aspremont, Vojnovic, section 4: a reversed comparison makes scores tie; the similarity still orders them
    matrix = chain(list(range(20)))
    matrix[4, 12], matrix[12, 4] = -1.0, 1.0
    assert len(np.unique(row_mean(matrix).round(12))) == 18
    assert np.argsort(-serial_rank(matrix)).tolist() == list(range(20))


def test_ties_share_their_mean_rank() -> None:
    np.testing.assert_array_equal(ranks(np.array([0.1, 0.3, 0.1, np.nan])), [2.5, 1, 2.5, np.nan])


def test_leading_takes_the_top_quantile_of_the_observed() -> None:
    scores = np.array([[5.0, 4, 3, 2, 1], [np.nan, 1, 2, np.nan, np.nan], [np.nan] * 5])
    expected = [[True, True, False, False, False], [False, False, True, False, False], [False] * 5]
    assert mark_leaders(scores, 0.4).tolist() == expected


def test_leading_refuses_overlapping_quantiles() -> None:
    with pytest.raises(ConfigError, match=r"quantile=0\.6"):
        mark_leaders(np.zeros(5), 0.6)


def test_persistence_of_a_kept_and_a_reversed_ranking() -> None:
    scores = np.array([[4.0, 3, 2, 1], [40.0, 30, 20, 10], [1.0, 2, 3, 4]])
    np.testing.assert_allclose(rank_autocorrelation(scores), [1, -1])
    np.testing.assert_allclose(rank_autocorrelation(scores, lag=2), [-1])


def test_persistence_compares_assets_seen_in_both_windows() -> None:
    scores = np.array([[4.0, 3, 2, np.nan], [np.nan, 3, 2, 9], [np.nan, np.nan, np.nan, 1]])
    np.testing.assert_array_equal(rank_autocorrelation(scores), [1, np.nan])


def test_persistence_refuses_a_lag_beyond_the_windows() -> None:
    with pytest.raises(ConfigError, match="lag=3"):
        rank_autocorrelation(np.zeros((3, 2)), lag=3)


def test_one_window_of_two_assets() -> None:
    np.testing.assert_array_equal(ranks(serial_rank(chain([1, 0]))), [2, 1])
