"""A fleet played on later bars: returns, drawdowns and actions by symbol."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from pacesetter.envs.batch.bank import Bank
from pacesetter.errors import ConfigError
from pacesetter.learning.experience.market import FleetMarket
from pacesetter.learning.fleet.validation import FleetPlay, play


def test_measures_by_hand() -> None:
    returns = torch.tensor([[0.5, -0.5, 0.0, torch.nan], [0.1, 0.1, 0.1, 0.1]])
    nothing = torch.zeros_like(returns)
    found = FleetPlay(("A", "B"), torch.tensor([3, 1]), returns, *[nothing] * 4, torch.zeros(2, 7), 4.0)
    torch.testing.assert_close(found.growth, torch.tensor([-0.25, 1.1**4 - 1]))
    torch.testing.assert_close(found.drawdown, torch.tensor([0.5, 0.0]))
    assert found.sharpe[0] == 0
    torch.testing.assert_close(
        found.align_returns(6)[:, 1], torch.tensor([torch.nan, torch.nan, 0.1, 0.1, 0.1, 0.1]), equal_nan=True
    )
    assert found.align_returns(6)[4:, 0].tolist() == [0.5, -0.5]


def test_costs_are_what_parts_the_sharpe_ratios() -> None:
    returns, costs = torch.tensor([[0.01, -0.02, 0.0]]), torch.tensor([[0.01, 0.02, 0.01]])
    nothing = torch.zeros_like(returns)
    found = FleetPlay(("A",), torch.tensor([0]), returns, costs, *[nothing] * 3, torch.zeros(1, 7), 252.0)
    assert found.sharpe[0] < 0 < found.gross_sharpe[0]
    assert found.sharpe_together == pytest.approx(float(found.sharpe[0]))


def test_every_symbol_is_played_once_to_the_end(bank: Bank, make_learner: Callable[..., Any]) -> None:
    fleet = make_learner().fleet
    market = FleetMarket(bank, 1, starts="fixed", first_bar=200, window_bars=6)
    found = play(fleet, market)
    assert found.returns.shape == (4, 99)
    assert torch.isfinite(found.returns).all()
    torch.testing.assert_close(found.mix.sum(1), torch.ones(4))
    assert torch.equal(found.returns, play(fleet, market).returns)
    with pytest.raises(ConfigError, match="fixed starts"):
        play(fleet, FleetMarket(bank, 1, window_bars=6))
