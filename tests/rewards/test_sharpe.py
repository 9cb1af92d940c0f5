"""The one Sharpe ratio: of arrays, of what is known of them, and of their sums."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pacesetter.learning.experience import rollout as fleet_rollout
from pacesetter.learning.fleet.validation import FleetPlay
from pacesetter.rewards.sharpe import sharpe, sharpe_of_known, sharpe_of_sums


@given(seed=st.integers(0, 1000), bars=st.integers(2, 60), drift=st.floats(-0.01, 0.01))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_arrays_sums_and_tensors_agree(seed: int, bars: int, drift: float) -> None:
    returns = 0.02 * np.random.default_rng(seed).standard_normal((bars, 3)) + drift
    expected = returns.mean(axis=0) / returns.std(axis=0, ddof=1) * np.sqrt(252)
    np.testing.assert_allclose(sharpe(returns, 252), expected)
    sums = [
        sharpe_of_sums(bars, *each, 252) for each in zip(returns.sum(axis=0), (returns**2).sum(axis=0), strict=True)
    ]
    np.testing.assert_allclose(sums, expected, rtol=1e-6)
    np.testing.assert_allclose(fleet_rollout.sharpe(torch.from_numpy(returns.T), 252).numpy(), expected)


def test_what_is_not_known_is_left_out() -> None:
    returns = np.random.default_rng(0).standard_normal((2, 8))
    returns[0, 5:] = np.nan
    known = [float(sharpe(returns[0, :5], 252)), float(sharpe(returns[1], 252))]
    np.testing.assert_allclose(sharpe_of_known(returns.T, 252), known)
    other = torch.zeros(2, 8)
    played = FleetPlay(("A", "B"), other[:, 0], torch.from_numpy(returns), other, other, other, other, other, 252.0)
    assert played.sharpe.tolist() == pytest.approx(known)


@pytest.mark.parametrize("returns", [[], [0.1], [0.001] * 7, [0.0] * 3])
def test_where_nothing_moves_it_is_none(returns: list[float]) -> None:
    array = np.array(returns)
    assert float(sharpe(array, 252)) == 0.0
    assert sharpe_of_sums(len(array), array.sum(), (array**2).sum(), 252) == 0.0
