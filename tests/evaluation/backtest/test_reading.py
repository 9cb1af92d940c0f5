"""What an agent reads of many bars at once is what it reads of each, and nothing of a later bar."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from pacesetter.agents.agent import Agent, Observation
from pacesetter.arrays import Array
from pacesetter.data.synthetic import Synthetic
from pacesetter.envs.batch.bank import Bank
from pacesetter.envs.batch.observation import ObservationBuilder
from pacesetter.evaluation.backtest.backtest import PlayedMarket, backtest, backtest_many
from pacesetter.evaluation.backtest.reading import CHUNK_BARS, MarketReading, share_readings
from pacesetter.features import feature_table
from pacesetter.market.parameters import MarketParameters
from pacesetter.market.risk import RiskOptions
from pacesetter.methods.direct.options import GROUPS
from pacesetter.methods.direct.policy import DirectPolicy
from pacesetter.panel import Panel
from pacesetter.policies.agent import AgentPolicy

NAMES = ["return_1", "gap", "volatility_20"]
FIRST = 260
NEAR: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-6}  # single precision, summed in another order


class BarByBar(Agent):
    """The same agent, asked with windows."""

    takes_rows = True

    def __init__(self, agent: Agent) -> None:
        self.agent = agent

    def act(self, observation: Observation, deterministic: bool = True) -> Array:
        assert "window" in observation
        return self.agent.act(observation, deterministic)


@pytest.fixture(scope="module")
def panel() -> Panel:
    return Synthetic(symbols=4, bars=600, groups=1, seed=3).read()


def bank_of(panel: Panel) -> Bank:
    return Bank.from_panels(panel, feature_table(panel, NAMES), is_whole=True)


def random_policy(panel: Panel, **options: Any) -> DirectPolicy:
    """One with an opinion on everything, so that no input goes unread."""
    made: dict[str, Any] = {"gap": 1, "groups": GROUPS, "features": {2: "volatility_20"}, "side_cost": 1e-3}
    policy = DirectPolicy(panel.symbols, lags=3, volatility_bars=20, **made | options)
    draw = torch.Generator().manual_seed(1)
    with torch.no_grad():
        policy.weights.copy_(0.1 * torch.randn(policy.weights.shape, generator=draw))
        policy.beta.copy_(torch.rand(policy.beta.shape, generator=draw))
        policy.typical.fill_(0.01)
        policy.follow(policy.weights)
        policy.recency.copy_(torch.tensor([0.6, 0.5]))
        policy.intraday.fill_(1.0)
        if policy.team is not None:
            policy.team.own.copy_(0.2 * torch.randn(policy.team.own.shape, generator=draw))
    return policy.eval()


@pytest.mark.parametrize("options", [{}, {"team": {"width": 6, "cross": True}}, {"groups": ["lags"]}])
def test_many_bars_at_once_are_read_as_each_is(panel: Panel, options: dict[str, Any]) -> None:
    policy = random_policy(panel, **options)
    builder = ObservationBuilder(bank_of(panel), policy.history_bars)
    rows = policy.read_market(builder.market(0, FIRST, FIRST + 50))
    for place, t in enumerate(range(FIRST, FIRST + 50)):
        with torch.no_grad():
            window = torch.tensor(np.array(builder.market(0, t, t + 1)["window"]))
            alone = policy.read(policy.moves(window))
        for name, expected in alone._asdict().items():
            np.testing.assert_allclose(rows[name][place], expected[0].numpy(), **NEAR)


@pytest.mark.parametrize("options", [{}, {"team": {"width": 6}}])
@pytest.mark.parametrize("risk", [None, RiskOptions(0.1, tracking_error=0.04, base="inverse_volatility", scale=1.0)])
def test_a_backtest_that_reads_ahead_is_that_which_reads_bar_by_bar(
    panel: Panel, options: dict[str, Any], risk: RiskOptions | None
) -> None:
    policy, bank = random_policy(panel, **options), bank_of(panel)
    played = [
        backtest(
            AgentPolicy(agent, "direct", "target", is_whole=True),
            panel,
            first=FIRST,
            bank=bank,
            window_bars=policy.history_bars,
            risk=risk,
        )
        for agent in (policy, BarByBar(policy))
    ]
    assert len(played[0]) > 2 * CHUNK_BARS
    assert np.abs(played[0].fills[..., 1]).sum() > 0
    np.testing.assert_allclose(played[0].orders, played[1].orders, rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(played[0].equity, played[1].equity, rtol=1e-6)


def test_accounts_side_by_side_read_their_market_once(panel: Panel, monkeypatch: pytest.MonkeyPatch) -> None:
    policy, bank, read = random_policy(panel), bank_of(panel), list[int]()
    own = policy.read_market

    def count(market: Observation) -> dict[str, Array]:
        read.append(len(market["window"]))
        return own(market)

    monkeypatch.setattr(policy, "read_market", count)
    agent = AgentPolicy(policy, "direct", "target", is_whole=True)
    markets = [PlayedMarket(panel, bank, MarketParameters())] * 3
    results = backtest_many(agent, markets, first=FIRST, window_bars=policy.history_bars)
    assert len(results) == 3
    # The last bar decides nothing, and none is read twice.
    assert sum(read) == len(panel) - 1 - FIRST


def test_a_later_bar_changes_no_order_before_it(panel: Panel) -> None:
    policy, changed = random_policy(panel), FIRST + CHUNK_BARS // 2
    blocks = panel.blocks.copy()
    blocks[:, changed:] *= np.linspace(1.0, 3.0, len(panel) - changed)[:, None]
    other = replace(panel, blocks=blocks, truth=None)
    orders = [
        backtest(
            AgentPolicy(policy, "direct", "target", is_whole=True),
            each,
            first=FIRST,
            bank=bank_of(each),
            window_bars=policy.history_bars,
        ).orders
        for each in (panel, other)
    ]
    before = changed - FIRST
    np.testing.assert_array_equal(orders[0][:before], orders[1][:before])
    assert (orders[0][before + 1 :] != orders[1][before + 1 :]).any()


def test_a_bar_gives_its_own_row_only(panel: Panel) -> None:
    policy = random_policy(panel)
    reading = MarketReading(ObservationBuilder(bank_of(panel), policy.history_bars), FIRST + 300)
    row = reading.at(FIRST + 130)(policy)
    assert {name: values.shape for name, values in row.items()} == {"signal": (4,), "volatility": (4,), "team": (0,)}


def test_accounts_one_after_another_share_what_was_read_of_their_market(
    panel: Panel, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy, bank, read = random_policy(panel), bank_of(panel), list[int]()
    own = policy.read_market
    monkeypatch.setattr(policy, "read_market", lambda market: read.append(len(market["window"])) or own(market))
    fit = AgentPolicy(policy, "direct", "target", is_whole=True)

    def play(first: int = FIRST) -> Array:
        return backtest(fit, panel, first=first, bank=bank, window_bars=policy.history_bars).ledger

    alone = play()
    once = len(read)
    with share_readings():
        np.testing.assert_array_equal(play(), alone)
        np.testing.assert_array_equal(play(), alone)
        assert len(read) == 2 * once
        play(FIRST + 1)  # other chunks, whose last digits may differ
        assert len(read) == 3 * once
    play()
    assert len(read) == 4 * once  # an agent may have learned since
