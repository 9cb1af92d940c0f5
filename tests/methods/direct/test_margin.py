"""Liquidations in the ledger that direct learns through: the kernel's own, with gradients."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from pacesetter.evaluation.backtest.backtest import backtest
from pacesetter.market.ledger import Column, Flag
from pacesetter.market.parameters import Costs, Limits, Margin, MarketParameters, Orders
from pacesetter.methods.direct.ledger import Fills, Rules, Settled, settle
from pacesetter.methods.direct.margin import WIDTH, Marks
from pacesetter.panel import Panel

from .conftest import Make, market_panel
from .test_ledger import Scripted, rolled

LEVERAGE = 12.0


def rules_of(mode: Any, leverage: float = LEVERAGE, **options: Any) -> MarketParameters:
    return MarketParameters(
        costs=Costs(commission_bps=4.0, spread_bps=2.0, slippage_bps=1.0),
        limits=Limits(position_cap_fraction=leverage, gross_leverage=leverage, shorting=True, ruin_fraction=0.0),
        orders=Orders(minimum_trade=0.0),
        margin=Margin(mode, liquidation_fee_bps=30.0),
        **options,
    )


def perpetuals(symbols: int, seed: int, has_marks: bool) -> Panel:
    """Bars that gap now and then, with funding, so that margins are used up at opens, inside bars and at closes."""
    panel, rng = market_panel(0.4, seed=seed, bars=200, symbols=symbols), np.random.default_rng(seed)
    shape = panel.mask.shape
    jumps = np.exp(np.cumsum(rng.choice([-0.15, 0.0, 0.15], (shape[0], 1), p=[0.02, 0.96, 0.02]), axis=0))
    fields = {name: panel[name] * jumps for name in ("open", "high", "low", "close")}
    fields["high"], fields["low"] = fields["high"] * 1.03, fields["low"] * 0.97
    fields["funding_rate"] = rng.normal(0.0, 0.001, shape)
    if has_marks:
        fields["mark_price"] = fields["close"] * np.exp(rng.normal(0.0, 0.01, shape))
    return Panel.from_fields(panel.index, panel.symbols, fields, panel.mask)


@pytest.mark.parametrize(
    ("mode", "symbols", "has_marks"),
    [("cross", 1, False), ("cross", 4, False), ("cross", 4, True), ("isolated", 1, False), ("isolated", 4, True)],
)
def test_liquidations_are_those_of_the_kernel(mode: str, symbols: int, has_marks: bool) -> None:
    first, liquidated, covered = 60, 0, 0.0
    for seed in range(4):
        panel, rng = perpetuals(symbols, seed, has_marks), np.random.default_rng(seed)
        shares = rng.choice([0.0, 0.4, 1.0], (len(panel), symbols)) * LEVERAGE * 0.9 / symbols
        targets = shares * np.repeat(rng.choice([-1.0, 1.0], (len(panel) // 10, 1)), 10, axis=0)
        market = rules_of(mode, bars_per_year=panel.bars_per_year)
        played = backtest(Scripted(targets), panel, first=first, market=market, window_bars=2)
        # An account that has nothing left is at its end; the ledger keeps a speck of it.
        is_over = played.ledger[:, Column.EQUITY] < 1_000.0
        count = int(is_over.argmax()) + 1 if is_over.any() else len(is_over)
        np.testing.assert_allclose(
            rolled(panel, targets, market, first)[:count], played.returns[:count], rtol=0, atol=2e-9
        )
        liquidated += int((played.ledger[:, Column.FLAGS].astype(int) & Flag.LIQUIDATED != 0).sum())
        covered += float(played.ledger[:, Column.COVERED].sum())
    assert liquidated > 3
    assert covered > 0 or symbols == 1


def one_bar(opened: float, low: float, closed: float) -> Fills:
    """A bar of one symbol whose margin nothing but its prices decides."""
    prices = (torch.full((1,), value, dtype=torch.float64) for value in (low, max(opened, closed), 0.0, 0.0))
    ratios = (torch.full((1,), value, dtype=torch.float64) for value in (opened, closed, 1.0))
    return Fills(*ratios, marks=Marks(*prices))


def play(held: float | torch.Tensor, fills: Fills, softness: float = 0.0, mode: str = "cross") -> Settled:
    position = torch.as_tensor(held, dtype=torch.float64).reshape(1)
    wealth = torch.tensor(1.0, dtype=torch.float64)
    rules = Rules.of(rules_of(mode, 5.0), softness)
    return settle(position, position, wealth, fills, rules, paid=position.detach().clone())


@pytest.mark.parametrize("mode", ["cross", "isolated"])
def test_a_level_inside_the_bar_by_hand(mode: str) -> None:
    # Four of equity 1 are held, at a maintenance of .1: 4p − 3 = .4p at p = 5 / 6. Alone with .8: 4p − 3.2 = .4p.
    level = 3.0 / 3.6 if mode == "cross" else 3.2 / 3.6
    settled = play(4.0, one_bar(1.0, 0.7, 0.95), mode=mode)
    assert float(settled.held) == 0.0
    assert float(settled.earned) == pytest.approx(4 * (level - 1) - 0.003 * 4 * level)
    kept = play(4.0, one_bar(1.0, level + 0.01, 0.95), mode=mode)
    assert float(kept.earned) == pytest.approx(-0.2)


def test_a_gap_takes_no_more_than_the_margin() -> None:
    crossed, alone = play(4.0, one_bar(0.5, 0.5, 0.5)), play(4.0, one_bar(0.5, 0.5, 0.5), mode="isolated")
    assert float(crossed.earned) == pytest.approx(-1.0)
    assert float(torch.log1p(crossed.earned)) > -25  # a number, which can be learned from
    assert float(alone.earned) == pytest.approx(-0.8)


CASES = {
    "kept": (1.5, one_bar(1.0, 0.97, 1.01)),
    "at the open": (4.0, one_bar(0.8, 0.75, 0.9)),
    "inside the bar": (4.0, one_bar(1.0, 0.7, 0.95)),
    "a gap": (4.0, one_bar(0.5, 0.5, 0.5)),
}


@pytest.mark.parametrize("mode", ["cross", "isolated"])
@pytest.mark.parametrize("name", CASES)
def test_gradients_are_exact_on_both_sides_of_a_liquidation(name: str, mode: str) -> None:
    held, fills = CASES[name]
    position = torch.tensor([held], dtype=torch.float64, requires_grad=True)

    def earned(position: torch.Tensor) -> torch.Tensor:
        wealth = torch.ones((), dtype=torch.float64)
        return settle(position, position, wealth, fills, Rules.of(rules_of(mode, 5.0)), paid=position).earned

    assert (float(play(held, fills, mode=mode).held) == 0.0) == (name != "kept")
    assert torch.autograd.gradcheck(earned, (position,))


def test_near_its_margin_an_account_is_told_to_hold_less() -> None:
    # Sold at the low, it misses the rise to the close. The forward pass does not know by how little it escaped.
    fills = one_bar(1.0, 3.0 / 3.6, 1.1)
    gradients = {}
    for softness in (0.0, 1e-4):
        for held in (3.9, 2.0):
            position = torch.tensor(held, dtype=torch.float64, requires_grad=True)
            settled = play(position, fills, softness)
            assert float(settled.earned.detach()) == pytest.approx(0.1 * held, abs=1e-6)
            (gradients[softness, held],) = torch.autograd.grad(settled.earned.sum(), position)
    assert float(gradients[1e-4, 3.9]) < float(gradients[0.0, 3.9]) - 1.0
    assert float(gradients[1e-4, 2.0]) == pytest.approx(float(gradients[0.0, 2.0]), abs=1e-3)
    assert WIDTH < 0.1


def test_direct_learns_in_an_account_with_a_margin(make_learner: Make, planted: Panel) -> None:
    market = replace(rules_of("cross", 5.0), bars_per_year=planted.bars_per_year)
    learner = make_learner(market=market, segment_bars=48)
    learner.learn(3 * learner.round_steps)
    assert learner.series.marks is not None
    assert learner.rules.venue is not None
    statistics = learner.statistics()
    assert all(np.isfinite(value) for value in statistics.values())
    returns = learner.roll(torch.arange(0, 400, 48), 48)
    assert bool(torch.isfinite(returns).all())
    assert float(returns.detach().std()) > 0
