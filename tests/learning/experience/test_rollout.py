"""Rewards in deviations, and statistics by symbol."""

from __future__ import annotations

import numpy as np
import torch

from pacesetter.learning.experience.rollout import (
    ReturnScale,
    action_mix,
    by_symbol,
    explained_variance,
    select,
    sharpe,
)
from pacesetter.rewards.sharpe import sharpe as defined


def test_rows_are_sorted_by_symbol() -> None:
    entry = torch.arange(2 * 6).view(2, 6)  # two steps of two symbols with three environments
    assert by_symbol(entry, 2).tolist() == [[0, 1, 2, 6, 7, 8], [3, 4, 5, 9, 10, 11]]
    chosen = select({"x": by_symbol(entry, 2)}, torch.tensor([[5, 0], [1, 1]]))
    assert chosen["x"].tolist() == [8, 0, 4, 4]


def test_rewards_come_in_deviations_of_each_symbols_discounted_return() -> None:
    torch.manual_seed(0)
    scale, rewards = ReturnScale(2, 4, 0.5), torch.randn(50, 4) * torch.tensor([1.0, 1.0, 100.0, 100.0])
    ended = torch.zeros(50, 4, dtype=torch.bool)
    ended[::7] = True
    for half in (slice(25), slice(25, 50)):
        scale.observe(rewards[half], ended[half])
    running, sums = np.zeros(4), []
    for reward, end in zip(rewards.numpy(), ended.numpy(), strict=True):
        running = 0.5 * running + reward
        sums.append(running.copy())
        running[end] = 0
    deviations = np.stack(sums).reshape(50, 2, 2).std(axis=(0, 2)).repeat(2)
    scaled = scale(rewards.view(50, 2, 2)).view(50, 4)
    np.testing.assert_allclose(scaled, np.clip(rewards / deviations, -10, 10), rtol=1e-5)


def test_statistics_by_symbol() -> None:
    returns = torch.tensor([[0.01, 0.03], [0.02, 0.02]])
    torch.testing.assert_close(sharpe(returns, 4.0), torch.tensor([2 * 0.02 / (0.01 * 2**0.5), 0.0]))
    steady = 1e-3 * (1 + 1e-12 * torch.randn(2, 50, dtype=torch.float64))  # interest on cash, and rounding
    torch.testing.assert_close(sharpe(steady, 252.0), torch.from_numpy(defined(steady.numpy().T, 252.0)))
    assert not sharpe(steady, 252.0).any()
    targets = torch.tensor([[1.0, 2.0, 3.0], [1.0, 1.0, 1.0]])
    torch.testing.assert_close(explained_variance(targets - 5, targets), torch.tensor([1.0, 0.0]))
    torch.testing.assert_close(explained_variance(torch.zeros(2, 3), targets), torch.tensor([0.0, 0.0]))
    assert action_mix(torch.tensor([[0, 2, 2, 1]]), 3, 0.1).tolist() == [[0.25, 0.25, 0.5]]
    orders = torch.tensor([[[-1.0], [0.05], [0.5], [0.1]]])
    assert action_mix(orders, None, 0.1).tolist() == [[0.25, 0.25, 0.5]]
    assert action_mix(orders, None, 0.2).tolist() == [[0.25, 0.5, 0.25]]
