"""The direct policy: what it reads, what it wants, and where it does not trade."""

from __future__ import annotations

import math

import numpy as np
import torch

from pacesetter.evaluation.backtest.backtest import PlayedMarket, backtest_many
from pacesetter.evaluation.backtest.refitted import RefittedPolicy
from pacesetter.market.parameters import MarketParameters
from pacesetter.market.risk import RiskOptions
from pacesetter.methods.direct.options import GROUPS
from pacesetter.methods.direct.policy import DirectPolicy, Moves, market_price
from pacesetter.methods.direct.series import MarketSeries
from pacesetter.panel import Panel
from pacesetter.policies.agent import AgentPolicy

from .conftest import whole_bank


def test_the_price_of_market_risk_solves_its_equation() -> None:
    signal = torch.randn(50, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for price in (0.0, 0.1, 3.0):
        found = market_price(signal, torch.tensor(price, dtype=torch.float64))
        torch.testing.assert_close(found, price * (signal - found).clamp_min(0).sum(-1, keepdim=True))
        found = market_price(signal, torch.tensor(price, dtype=torch.float64), shorting=True)
        torch.testing.assert_close(found, price * (signal - found).sum(-1, keepdim=True))


def test_nothing_is_traded_inside_the_zone_and_no_more_than_its_edge_outside() -> None:
    policy = DirectPolicy(("A", "B", "C"), cap=0.2, side_cost=1e-3).double()
    volatility = torch.full((1, 3), 0.01, dtype=torch.float64)
    signal = torch.tensor([[0.5, 0.1, -0.4]], dtype=torch.float64)
    flat, full = torch.zeros_like(signal), torch.full_like(signal, 0.2)
    least, most = policy.target(signal, volatility, flat), policy.target(signal, volatility, full)
    assert (least <= most).all()
    assert (least < most).any()
    assert most[0, 2] == 0.0  # a clear fall leaves nothing
    inside = (least + most) / 2
    torch.testing.assert_close(policy.target(signal, volatility, inside), inside)
    assert (policy.target(1e3 * signal, volatility, flat) <= 0.2).all()


def test_training_reads_what_an_observation_shows(planted: Panel) -> None:
    bank = whole_bank(planted, ["return_1", "gap"])
    policy = DirectPolicy(planted.symbols, lags=3, volatility_bars=20, gap=1, groups=GROUPS)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        policy.weights.copy_(torch.randn(policy.weights.shape, generator=generator))
        policy.beta.copy_(torch.rand(policy.beta.shape, generator=generator))
        policy.typical.fill_(0.01)
        policy.follow(policy.weights)
        policy.recency.copy_(torch.tensor([0.6, 0.5]))
        policy.intraday.fill_(1.0)
    series = MarketSeries.of(bank, policy, MarketParameters())
    assert series.first == 20 + 3 - 1
    for t in (policy.history_bars - 1, 300, len(planted) - 1):
        window = torch.tensor(bank.windows[0][:, t - policy.history_bars + 1 : t + 1])[None]
        moves = policy.moves(window)
        z, volatility, fast, *_ = moves
        place = t - series.first
        assert series.intraday is not None
        torch.testing.assert_close(z[0], series.intraday[place])
        torch.testing.assert_close(fast[0], series.fast[place])
        torch.testing.assert_close(volatility[0], series.volatility[place])
        held = torch.zeros(1, len(planted.symbols), 7)
        target, confidence = policy({"window": window, "position": held})
        expected = policy.target(policy.signal(moves), volatility, held[..., 0])
        assert torch.equal(target, expected)
        assert (confidence >= 0.5).all()


def test_later_bars_change_nothing_that_was_read(planted: Panel) -> None:
    policy = DirectPolicy(planted.symbols)
    whole, early = (
        MarketSeries.of(whole_bank(panel), policy, MarketParameters()) for panel in (planted, planted.rows(0, 500))
    )
    assert torch.equal(whole.z[: len(early)], early.z)
    assert torch.equal(whole.to_open[: len(early) - 1], early.to_open)
    assert torch.equal(whole.earned[: len(early) - 2], early.earned)


def test_an_aim_is_the_mean_of_what_is_said_of_the_bars_to_come() -> None:
    groups = tuple(name for name in GROUPS if name not in ("features", "recent"))
    policy = DirectPolicy(("A", "B", "C"), lags=3, groups=groups).double()
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        policy.scale.copy_(0.5 + torch.rand(policy.scale.shape, generator=generator))
        weights = torch.randn(policy.weights.shape, dtype=torch.float64, generator=generator)
        seen = torch.randn(1, 3, 120, dtype=torch.float64, generator=generator)
        # Moves to come are 0 on average, which is what is expected of them.
        moves = torch.cat([seen, torch.zeros(1, 3, 200, dtype=torch.float64)], -1)
        said, volatility = [], torch.full((1, 3), 0.01, dtype=torch.float64)
        for later in range(120):
            shown = Moves(moves[..., : 120 + later], volatility, volatility, seen[..., :0], volatility)
            said.append(policy.raw_inputs(shown) / policy.scale @ weights)
        for share in (1.0, 0.5, 0.125):
            expected = sum(share * (1 - share) ** k * part for k, part in enumerate(said))
            own = policy.raw_inputs(Moves(seen, volatility, volatility, seen[..., :0], volatility)) / policy.scale
            # Slow means are of 40 bars, and what leaves them is not counted.
            torch.testing.assert_close(own @ policy.aim_ahead(weights, share), expected, rtol=0, atol=2e-2)
        torch.testing.assert_close(policy.aim_ahead(weights, 1.0), weights)


def test_a_speed_goes_a_part_of_the_way() -> None:
    policy = DirectPolicy(("A", "B"), cap=0.2).double()
    signal, volatility = (torch.full((1, 2), value, dtype=torch.float64) for value in (0.5, 0.01))
    held = torch.tensor([[0.0, 0.2]], dtype=torch.float64)
    whole = policy.target(signal, volatility, held)
    with torch.no_grad():
        policy.log_speed.fill_(math.log(0.25))
    torch.testing.assert_close(policy.target(signal, volatility, held), held + 0.25 * (whole - held))


def test_it_reads_no_more_of_a_market_than_it_says(planted: Panel) -> None:
    names, generator = ["volatility_10", "return_1", "rsi_14", "gap"], torch.Generator().manual_seed(1)
    fits = []
    for features in ({2: "rsi_14"}, {}):
        policy = DirectPolicy(
            planted.symbols, lags=3, volatility_bars=20, column=1, gap=3, groups=GROUPS, features=features
        )
        with torch.no_grad():
            policy.weights.copy_(torch.randn(policy.weights.shape, generator=generator))
            policy.typical.fill_(0.01)
        fits.append(AgentPolicy(policy, "direct", "target", is_whole=True))
    assert fits[1].window_features == ("return_1", "gap")
    bars = policy.history_bars
    walk = RefittedPolicy(tuple(fits), planted.index[[200, 230]])
    few = walk.window_features
    assert few == ("return_1", "gap", "rsi_14")
    risk = RiskOptions(target_volatility=0.1, base="inverse_volatility", tracking_error=0.04, scale=1.0)
    market = PlayedMarket(planted, whole_bank(planted, names), risk=risk)
    whole = backtest_many(walk, [market] * 2, first=200, last=260, window_bars=bars)[1]
    market = PlayedMarket(planted, whole_bank(planted, list(few)), risk=risk)
    narrow = backtest_many(walk.on_features(few), [market] * 2, first=200, last=260, window_bars=bars)[1]
    np.testing.assert_array_equal(narrow.orders, whole.orders)
    np.testing.assert_array_equal(narrow.ledger, whole.ledger)
    assert (whole.fills[..., 1] != 0).sum() > 20
