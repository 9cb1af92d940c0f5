"""The risk step bar by bar: the tables' own numbers from any stored state, and the backtest's account to the bit."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from trading import make_trader

from pacesetter.data.loading import load
from pacesetter.errors import ConfigError, RunError
from pacesetter.evaluation.backtest.backtest import backtest
from pacesetter.market.bars import Bar
from pacesetter.market.covariance import make_tables
from pacesetter.market.parameters import Limits, MarketParameters
from pacesetter.market.risk import RiskOptions
from pacesetter.market.state import Account, Position
from pacesetter.panel import Panel
from pacesetter.policies.policy import Policy, Snapshot
from pacesetter.serving.journal import tables as stored_tables
from pacesetter.serving.risk.guard import Guard
from pacesetter.serving.risk.limits import GuardLimits
from pacesetter.serving.trader.desk import Desk, GuardedPolicy
from pacesetter.serving.trader.feeds import ReplayFeed
from pacesetter.serving.trader.sizing import MarketTracker, ServedRisk
from pacesetter.stamps import bars_per_day

FIRST, SCALE = 190, 0.7
RISKS = {
    "inverse_volatility": RiskOptions(0.1, "inverse_volatility", 0.04, scale=SCALE),
    "cash": RiskOptions(0.1, scale=SCALE),
    "given": RiskOptions(None, {"S1": 0.6, "S3": 0.4}, scale=SCALE),
}


class Views(Policy):
    """Signed views by the trend, and a part of what the policy believes to hold, so that it must be told right."""

    name, action = "views", "target"

    def decide(self, seen: Snapshot) -> Any:
        closes = seen.panel.close[-10:]
        held = np.asarray(seen.observation["position"][:, 0], dtype=np.float64)
        views = np.nan_to_num(closes[-1] / closes[0] - 1.0) + 0.3 * held
        return np.where(seen.panel.mask[-1], views, np.nan)


@pytest.fixture(scope="module")
def panel() -> Panel:
    """Daily bars of four symbols, one of which lists late, and some of which miss bars."""
    whole = load("synthetic", symbols=4, bars=260, seed=5, volatility=0.3)
    mask = whole.mask.copy()
    mask[:175, 1] = False
    mask[200:203, 2], mask[217, 3], mask[235:, 0] = False, False, False
    return replace(whole, mask=mask, truth=None)


@pytest.fixture(scope="module")
def market(panel: Panel) -> MarketParameters:
    limits = Limits(position_cap_fraction=0.5)
    return replace(MarketParameters(limits=limits), bars_per_year=panel.bars_per_year)


def open_guard(market: MarketParameters) -> Guard:
    return Guard(GuardLimits.of(market).without_breakers())


def tracker_of(panel: Panel, symbols: tuple[str, ...] | None = None) -> MarketTracker:
    return MarketTracker(symbols or panel.symbols, 20.0, bars_per_day(panel.index), panel.bars_per_year)


@pytest.mark.parametrize("freq", ["1D", "1h"])
def test_bars_in_parts_give_the_tables_to_the_bit(freq: str, panel: Panel) -> None:
    bars = panel if freq == "1D" else load("synthetic", symbols=3, bars=400, freq=freq, seed=2)
    tables, tracker, at = make_tables(bars), tracker_of(bars), 0
    for stop in (1, 2, 33, 34, 161, 202, len(bars)):
        tracker.append(bars.rows(max(at - 5, 0), stop))  # old bars are passed over
        at = stop
        np.testing.assert_array_equal(tracker.volatilities, tables.volatilities[stop - 1])
        np.testing.assert_array_equal(tracker.correlations, tables.correlations[tables.days[stop - 1]])


def test_a_stored_state_goes_on_for_the_same_and_for_fewer_symbols_in_another_order(panel: Panel) -> None:
    before = tracker_of(panel)
    before.append(panel.rows(0, 202))
    chosen = (panel.symbols[3], panel.symbols[1])
    for symbols in (panel.symbols, chosen):
        some = panel.select(list(symbols))
        after = tracker_of(panel, symbols)
        after.restore(before.to_bytes(), panel.symbols, panel.index[201])
        after.append(some.rows(180, None))
        tables = make_tables(some, daily_bars=1, bars_per_year=panel.bars_per_year)
        np.testing.assert_array_equal(after.volatilities, tables.volatilities[-1])
        np.testing.assert_array_equal(after.correlations, tables.correlations[-1])
    with pytest.raises(RunError, match="not those of 2 symbols"):
        after.restore(before.to_bytes(), chosen, panel.index[201])


def test_no_return_is_counted_across_a_long_gap(panel: Panel) -> None:
    tracker = tracker_of(panel)
    tracker.append(panel.rows(0, 210))
    before, far = tracker.volatilities.copy(), panel.rows(228, 229)
    tracker.append(replace(far, blocks=far.blocks * 3.0))
    moved = tracker.volatilities > before
    assert not moved.any()


@pytest.mark.parametrize("base", RISKS)
def test_the_guarded_account_is_the_backtest_to_the_bit(base: str, panel: Panel, market: MarketParameters) -> None:
    risk = RISKS[base]
    expected = backtest(Views(), panel, first=FIRST, market=market, risk=risk)
    guarded = GuardedPolicy(Views(), open_guard(market), panel, market, ServedRisk.on(risk, panel))
    behind = backtest(guarded, panel, first=FIRST, market=guarded.market)
    assert behind.equity.tolist() == expected.equity.tolist()
    np.testing.assert_array_equal(behind.fills, expected.fills)
    assert not guarded.desk.guard.denials
    assert (expected.fills[..., 1] != 0).sum() > 20


@pytest.mark.parametrize("base", RISKS)
def test_paper_with_a_restart_is_the_backtest_to_the_bit(
    base: str, panel: Panel, market: MarketParameters, tmp_path: Path
) -> None:
    risk = RISKS[base]
    expected = backtest(Views(), panel, first=FIRST, market=market, risk=risk)

    def trader() -> Any:
        desk = Desk(Views(), open_guard(market), panel.symbols, market, risk=ServedRisk.on(risk, panel))
        made = make_trader(tmp_path, "target", panel, feed=ReplayFeed(panel, FIRST))
        made.desk = desk
        return made

    equity = []
    for bars in (1, 13, 1, None):  # stopped and started again in the middle
        paper = trader()
        paper.run(bars)
        equity = [row["equity"] for row in paper.journal.rows(stored_tables.equity)]
        paper.journal.close()
    assert equity == expected.equity.tolist()


def test_targets_above_one_are_traded_where_the_account_may_borrow(panel: Panel) -> None:
    limits = Limits(position_cap_fraction=1.5, gross_leverage=3.0, shorting=True)
    market = replace(MarketParameters(limits=limits), bars_per_year=panel.bars_per_year)
    risk = RiskOptions(0.6, "inverse_volatility", 0.4, scale=20.0)
    expected = backtest(Views(), panel, first=FIRST, market=market, risk=risk)
    guarded = GuardedPolicy(Views(), open_guard(market), panel, market, ServedRisk.on(risk, panel))
    behind = backtest(guarded, panel, first=FIRST, market=guarded.market)
    assert behind.equity.tolist() == expected.equity.tolist()
    assert np.abs(expected.held).max() > 1.0


def test_of_a_given_account_only_what_exceeds_the_base_is_a_view(panel: Panel, market: MarketParameters) -> None:
    options = RISKS["inverse_volatility"]
    closes = panel.close[FIRST]

    class Nothing(Views):
        def decide(self, seen: Snapshot) -> Any:
            return np.zeros(4)

    base = backtest(Nothing(), panel, first=FIRST, market=market, risk=options).wanted[0]
    risk, account, positions = ServedRisk.on(options, panel), np.zeros(len(Account)), np.zeros((4, len(Position)))
    risk.begin(panel.rows(0, FIRST + 1))
    account[Account.EQUITY], positions[:, Position.QUANTITY] = 1e5, 1e5 * base / closes
    risk.adopt(account, positions, closes)
    np.testing.assert_allclose(risk.views_held(account, positions, closes), 0.0, atol=1e-12)
    positions[0, Position.QUANTITY] += 7e3 / closes[0]
    risk.adopt(account, positions, closes)
    np.testing.assert_allclose(risk.views_held(account, positions, closes), [0.07 / SCALE, 0.0, 0.0, 0.0], atol=1e-12)


def test_a_bar_asked_about_again_is_answered_alike(panel: Panel, market: MarketParameters) -> None:
    risk = ServedRisk.on(RISKS["inverse_volatility"], panel)
    desk = Desk(Views(), open_guard(market), panel.symbols, market, risk=risk)
    guarded = GuardedPolicy(Views(), open_guard(market), panel, market, risk)
    guarded.desk = desk
    backtest(guarded, panel, first=FIRST, last=FIRST + 20, market=guarded.market)
    seen = panel.rows(0, FIRST + 20)
    state = json.loads(json.dumps(risk.to_dict()))
    account = desk.broker.account, desk.broker.positions
    first = guarded.tickets[-1].actions
    again = ServedRisk.on(RISKS["inverse_volatility"], panel)
    again.restore(state)
    for step in (risk, again):
        step.begin(seen)
        views = Views().decide(Snapshot(seen, len(seen) - 1, {"position": np.zeros((4, 1))}, None, FIRST))
        held = np.float32(step.views_held(*account, desk._last_bars[:, Bar.CLOSE]))  # as observations hold it
        views += 0.3 * held.astype(np.float64)
        np.testing.assert_array_equal(step.size(views, *account, desk._last_bars, desk._rules), first)


def test_what_does_not_fit_is_refused(panel: Panel, market: MarketParameters) -> None:
    with pytest.raises(ConfigError, match="scale is not known"):
        ServedRisk.on(RiskOptions(0.1), panel)

    class Discrete(Views):
        action = "discrete"

    with pytest.raises(ConfigError, match="risk sizes weights"):
        Desk(Discrete(), Guard(), panel.symbols, market, risk=ServedRisk.on(RISKS["cash"], panel))


def test_contributions_to_risk_by_hand() -> None:
    tracker = MarketTracker(("A", "B"), 20.0, 1, 252.0)
    tracker.volatilities, tracker.correlations = np.array([0.2, 0.1]), np.array([0.5], dtype=np.float32)
    # w = (0.5, 0.5): variances 0.01 and 0.0025, covariance 0.0025: parts 0.0125 and 0.005 of 0.0175
    half = np.array([0.5, 0.5])
    np.testing.assert_allclose(tracker.contributions(half), [0.0125 / 0.0175, 0.005 / 0.0175])
    assert tracker.volatility(half) == pytest.approx(np.sqrt(0.0175))
    assert tracker.contributions(np.zeros(2)).tolist() == [0.0, 0.0]
