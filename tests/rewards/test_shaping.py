"""Normalisation is causal and its statistics merge; smoothing follows its recursion."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from pacesetter.rewards.shaping import NO_STATISTICS, Statistic, merge, normalise, smooth, summarise

EMPTY = np.array(NO_STATISTICS)[:, None]


def batch(seed: int, envs: int, components: int = 1) -> NDArray[np.float64]:
    return np.random.default_rng(seed).normal(3.0, 2.0, (components, envs))


def test_summary_by_hand() -> None:
    np.testing.assert_allclose(summarise(np.array([[1.0, 3.0, 8.0]]))[:, 0], [3, 4, 26, 1, 8])


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.integers(1, 30), st.integers(1, 30), st.integers(0, 1000))
def test_merged_statistics_are_those_of_all_values(first: int, second: int, seed: int) -> None:
    a, b = batch(seed, first, 2), batch(seed + 1, second, 2)
    together = summarise(np.concatenate([a, b], axis=1))
    np.testing.assert_allclose(merge(summarise(a), summarise(b)), together, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(merge(summarise(b), summarise(a)), together, rtol=1e-10, atol=1e-10)


def test_merging_with_nothing_changes_nothing() -> None:
    seen = summarise(batch(0, 9))
    np.testing.assert_array_equal(merge(EMPTY, seen), seen)
    np.testing.assert_array_equal(merge(seen, EMPTY), seen)
    np.testing.assert_array_equal(merge(EMPTY, EMPTY), EMPTY)


def test_each_component_is_normalised_as_asked() -> None:
    values = np.array([[0.0, 4.0], [0.0, 4.0], [0.0, 4.0], [7.0, 7.0]])
    is_zscore = np.array([True, False, False, True])
    is_minmax = np.array([False, True, False, False])
    shaped = normalise(values, summarise(values), is_zscore, is_minmax)
    np.testing.assert_array_equal(shaped, [[-1, 1], [-1, 1], [0, 4], [0, 0]])


def test_smoothing_starts_at_the_first_value_and_follows_the_recursion() -> None:
    rates = np.array([0.5, 1.0])
    once = smooth(np.array([[8.0], [8.0]]), np.full((2, 1), np.nan), rates)
    twice = smooth(np.array([[4.0], [4.0]]), once, rates)
    np.testing.assert_array_equal([once[:, 0], twice[:, 0]], [[8, 8], [6, 4]])


@pytest.mark.parametrize("is_zscore", [True, False])
def test_torch_gives_the_same(is_zscore: bool) -> None:
    values, mask = batch(5, 17, 2), np.array([is_zscore, is_zscore])
    expected = normalise(values, merge(summarise(batch(6, 4, 2)), summarise(values)), mask, ~mask)
    tensor, other, chosen = torch.as_tensor(values), torch.as_tensor(batch(6, 4, 2)), torch.as_tensor(mask)
    actual = normalise(tensor, merge(summarise(other), summarise(tensor)), chosen, ~chosen)
    np.testing.assert_allclose(actual.numpy(), expected, rtol=0, atol=1e-12)
    rates = np.array([0.3, 0.6])
    np.testing.assert_allclose(
        smooth(tensor, tensor * 2, torch.as_tensor(rates)).numpy(), smooth(values, values * 2, rates), atol=1e-12
    )


def test_statistic_names_the_rows() -> None:
    assert summarise(batch(1, 5))[Statistic.COUNT, 0] == 5
