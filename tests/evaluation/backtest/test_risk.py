"""Backtests with a stated risk: the base alone, views around it, what a policy sees, and nothing where it is off."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pacesetter as ps
from pacesetter.errors import ConfigError, DataError
from pacesetter.evaluation.backtest.backtest import Backtest, backtest, risk_tables
from pacesetter.evaluation.baselines.catalogue import make_baseline
from pacesetter.market import Accounts, Column, Costs, Limits, MarketBars, MarketParameters, OrderKind
from pacesetter.market.covariance import make_tables
from pacesetter.market.risk import RiskColumn, RiskOptions
from pacesetter.policies.market_rows import market_bank
from pacesetter.policies.policy import Policy, Snapshot

FIRST = 200
WIDE = MarketParameters(limits=Limits(position_cap_fraction=1.0))
BASE = RiskOptions(0.1, "inverse_volatility", tracking_error=0.04)


@pytest.fixture(scope="module")
def market() -> ps.Panel:
    return ps.load("synthetic", symbols=3, bars=900, seed=1)


@dataclass
class Constant(Policy):
    """A policy with the same weights at every bar, which remembers what it was shown."""

    weights: Any
    name: str = "constant"
    action: str = "target"

    def __post_init__(self) -> None:
        self.seen: list[np.ndarray] = []

    def decide(self, snapshot: Snapshot) -> np.ndarray:
        self.seen.append(np.array(snapshot.observation["position"][:, 0]))
        return np.array(self.weights, dtype=float)


@pytest.mark.parametrize("name", ["hold", "equal_weight", "cash", "momentum"])
def test_where_risk_is_off_nothing_changes(market: ps.Panel, name: str) -> None:
    bank = market_bank(market)
    plain, off = (
        backtest(make_baseline(name, bank), market, first=FIRST, bank=bank, risk=risk) for risk in (None, RiskOptions())
    )
    for table in ("ledger", "fills", "orders", "held", "wanted"):
        assert np.array_equal(getattr(plain, table), getattr(off, table), equal_nan=True)
    assert off.risk is None


def test_without_risk_a_backtest_is_the_kernel_alone(market: ps.Panel) -> None:
    played = backtest(Constant([0.1, 0.05, 0.2]), market, first=FIRST)
    rules = MarketParameters(bars_per_year=market.bars_per_year)
    accounts = Accounts(MarketBars.from_panel(market), rules, kind=OrderKind.TARGET)
    accounts.open(at=FIRST)
    for row in played.ledger:
        accounts.step([[0.1, 0.05, 0.2]])
        assert np.array_equal(accounts.ledger[0], row)


def test_the_base_alone_has_the_volatility_that_was_asked(market: ps.Panel) -> None:
    played = backtest(Constant([0, 0, 0]), market, first=FIRST, market=WIDE, risk=BASE)
    assert played.risk is not None
    assert played.risk[:, RiskColumn.VOLATILITY_BEFORE] == pytest.approx(0.1)
    realised = played.returns.std() * np.sqrt(market.bars_per_year)
    assert realised == pytest.approx(0.1, rel=0.15)
    assert played.held is not None
    assert played.held.sum(axis=1) == pytest.approx(played.ledger[:, Column.NET_EXPOSURE])
    # The band of a fifth leaves most bars without a trade.
    assert (played.ledger[:, Column.TURNOVER] == 0).mean() > 0.5


def test_views_are_seen_in_their_own_units_and_do_not_depend_on_them(market: ps.Panel) -> None:
    small, large = Constant([0.01, -0.02, 0.0]), Constant([1.0, -2.0, 0.0])
    one, other = (backtest(each, market, first=FIRST, market=WIDE, risk=BASE) for each in (small, large))
    assert one.returns == pytest.approx(other.returns, abs=1e-9)
    alone = backtest(Constant([0, 0, 0]), market, first=FIRST, market=WIDE, risk=BASE)
    assert not np.allclose(one.returns, alone.returns)
    # After the first bar a policy sees its own views as held, not the base.
    shown = np.array(large.seen[-500:])
    assert np.median(shown, axis=0) == pytest.approx([1.0, -2.0, 0.0], abs=0.1)


def test_nothing_after_a_bar_changes_what_was_held_before(market: ps.Panel) -> None:
    t = 600
    closes = market.close.copy()
    closes[t + 1 :] *= np.linspace(1, 3, len(market) - t - 1)[:, None]
    own = ps.Panel.from_fields(market.index, market.symbols, {"close": market.close})
    other = ps.Panel.from_fields(market.index, market.symbols, {"close": closes})
    kept, changed = (
        backtest(Constant([0.5, -0.2, 0]), each, first=FIRST, market=WIDE, risk=BASE) for each in (own, other)
    )
    assert kept.wanted is not None
    assert changed.wanted is not None
    assert np.array_equal(kept.wanted[: t - FIRST + 1], changed.wanted[: t - FIRST + 1])
    assert not np.array_equal(kept.wanted, changed.wanted)


def test_a_base_may_be_given_by_symbol(market: ps.Panel) -> None:
    found = ps.backtest("cash", market, first=FIRST, risk={"base": {"S0": 0.75, "S2": 0.25}}, position_cap=1)
    assert found.wanted.iloc[0].tolist() == pytest.approx([0.75, 0, 0.25])


def test_symbols_that_enter_and_halt_are_held_once_they_have_joined(market: ps.Panel) -> None:
    closes = market.close.copy()
    closes[:400, 1] = np.nan
    closes[600:605, 2] = np.nan
    panel = ps.Panel.from_fields(market.index, market.symbols, {"close": closes})
    played = backtest(Constant([0, 0, 0]), panel, first=FIRST, market=WIDE, risk=BASE)
    assert played.held is not None
    assert (played.held[: 420 - FIRST, 1] == 0).all()
    assert (played.held[425 - FIRST :, 1] > 0).all()
    assert (played.held[600 - FIRST : 610 - FIRST, 2] > 0).all()
    assert np.isfinite(played.ledger).all()


def test_it_is_stored_and_loaded(market: ps.Panel, tmp_path: Path) -> None:
    played = backtest(Constant([0.1, 0, 0]), market, first=FIRST, market=WIDE, risk=BASE)
    again = Backtest.load(played.save(tmp_path))
    for table in ("risk", "held", "wanted"):
        assert np.array_equal(getattr(again, table), getattr(played, table))
    assert {"scale", "volatility_before", "volatility_after", "limits_bound"} <= set(
        pd.read_parquet(tmp_path / "ledger.parquet")
    )


def test_bad_input_gets_a_sentence(market: ps.Panel) -> None:
    still = np.full(market.close.shape, 10.0)
    panel = ps.Panel.from_fields(market.index, market.symbols, {"close": still})
    with pytest.raises(
        DataError, match="20 days of returns before the first decision at bar 25, but no price ever moves"
    ):
        backtest(Constant([0, 0, 0]), panel, first=25, risk=BASE)
    with pytest.raises(DataError, match="the first has them at bar 20"):
        backtest(Constant([0, 0, 0]), market, first=15, window_bars=2, risk=BASE)
    with pytest.raises(DataError, match="no bars before bar 21"):
        backtest(Constant([0, 0, 0]), market, first=21, window_bars=22, risk=BASE)
    with pytest.raises(ConfigError, match="gives continuous orders"):
        backtest(Constant([0, 0, 0], action="continuous"), market, first=FIRST, risk=BASE)


def test_tables_are_made_once_for_a_panel(market: ps.Panel) -> None:
    own, other = risk_tables(market, BASE), risk_tables(market, RiskOptions(0.3, {"S0": 1.0}))
    assert own.correlations is other.correlations  # whatever the base
    np.testing.assert_array_equal(own.base, make_tables(market, "inverse_volatility").base)
    assert other.base[-1].tolist() == [1.0, 0.0, 0.0]
    assert risk_tables(market, RiskOptions(0.3, half_life_days=10)).correlations is not own.correlations


# ---- in Python ------------------------------------------------------------------------------------------------------


def test_a_cut_is_never_silent(market: ps.Panel) -> None:
    with pytest.warns(ps.errors.LimitWarning, match=r"100% of equity was asked.*30%.*position_cap=0.15 took 70.0%"):
        found = ps.backtest({"S0": 0.6, "S1": 0.4}, market, first=FIRST)
    assert found.wanted.iloc[0].tolist() == [0.6, 0.4, 0.0]
    assert found.weights.iloc[0].tolist() == pytest.approx([0.15, 0.15, 0.0], abs=0.01)
    with pytest.warns(ps.errors.LimitWarning, match=r"leverage=1 took 100.0% \(allow it by leverage=2\)"):
        halved = ps.backtest({"S0": 1.0, "S1": 1.0}, market, first=FIRST, position_cap=1)
    assert halved.weights.iloc[0].sum() == pytest.approx(1, abs=0.01)
    with pytest.warns(ps.errors.LimitWarning, match="shorting=false took 5"):
        ps.backtest({"S0": -0.5}, market, first=FIRST, risk={"scale": 1, "target_volatility": 4}, position_cap=1)


def test_keys_that_a_person_would_guess(market: ps.Panel) -> None:
    found = ps.backtest(
        {"S0": 1.2, "S1": -0.4}, market, first=FIRST, leverage=2, shorting=True, position_cap=2, costs=2
    )
    assert found.weights.iloc[0].tolist() == pytest.approx([1.2, -0.4, 0], abs=0.02)
    rules = found.options["market"]
    assert rules.costs == Costs(commission_bps=2, spread_bps=0, slippage_bps=0)
    row = found.backtest.ledger[0]
    assert row[Column.COST] == pytest.approx(2e-4 * row[Column.TURNOVER] * row[Column.EQUITY_BEFORE], rel=1e-6)
    with pytest.raises(ConfigError, match=r"unknown option 'market.leverge'; did you mean 'leverage'"):
        ps.backtest("hold", market, leverge=2)
    with pytest.raises(ConfigError, match="given twice"):
        ps.backtest("hold", market, leverage=2, limits={"gross_leverage": 3})
    with pytest.raises(ConfigError, match=r"market\.costs=-1 must be 0 or more"):
        ps.backtest("hold", market, costs=-1)
    with pytest.raises(ConfigError, match=r"unknown option 'risk.target_volatilty'; did you mean 'target_volatility'"):
        ps.backtest("hold", market, risk={"target_volatilty": 0.1})


def test_weights_are_sized_by_the_bars_before_them(market: ps.Panel) -> None:
    found = ps.backtest({"S0": 0.02, "S1": 0.02}, market, first=FIRST, risk={"target_volatility": 0.1}, position_cap=1)
    assert found.summary()["volatility"] == pytest.approx(0.1, rel=0.3)
    assert found.risk["scale"].iloc[0] > 3
    late = pd.DataFrame([[0.1, 0.0, 0.0]], index=market.index[350:351], columns=list(market.symbols))
    with pytest.raises(ConfigError, match="the scale of its weights cannot be measured"):
        ps.backtest(late, market, first=FIRST, risk={"target_volatility": 0.1})
    given = ps.backtest(late, market, first=FIRST, risk={"target_volatility": 0.1, "scale": 1.0})
    assert given.weights.iloc[-1, 0] == pytest.approx(0.1, abs=0.02)
    assert ps.backtest("hold", market, first=FIRST).risk.empty


def test_a_verdict_compares_accounts_with_the_same_risk(market: ps.Panel) -> None:
    found = ps.backtest(
        "cash", market, first=FIRST, risk={"target_volatility": 0.1, "base": "equal_weight"}, position_cap=1, leverage=3
    )
    assert found.options["risk"].base == "equal_weight"
    assert found.verdict(against=["hold"], draws=20).baselines == 1


def test_shares_that_no_account_could_hold_are_refused_by_name():
    panel = ps.load("synthetic", symbols=2, bars=300, seed=1)
    first, second = panel.symbols
    with pytest.raises(ConfigError, match=rf"asks for 150% of equity in {first} at .*allow it by leverage=1.5"):
        ps.backtest({first: 1.5, second: 0.2}, panel)
    with pytest.raises(ConfigError, match=rf"asks for -20% of equity in {second} at .*allow it by shorting=true"):
        ps.backtest({first: 0.1, second: -0.2}, panel)
    assert ps.backtest({first: 1.5, second: 0.2}, panel, leverage=2, position_cap=2).weights.max().max() > 1.2
