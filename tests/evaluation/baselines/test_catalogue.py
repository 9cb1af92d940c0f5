"""All baselines in one call, and the equal-weight curve against a direct computation.

Runs `evaluation.baselines.rules`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pacesetter.data import load
from pacesetter.errors import ConfigError
from pacesetter.evaluation.backtest.backtest import backtest
from pacesetter.evaluation.baselines.catalogue import (
    BASELINES,
    drop_equal,
    evaluate_baselines,
    left_out_sentence,
    make_baseline,
    possible_baselines,
)
from pacesetter.features import feature_table
from pacesetter.market import Costs, Limits, MarketParameters, Orders
from pacesetter.panel import Panel
from pacesetter.policies.market_rows import market_bank

FREE = MarketParameters(
    costs=Costs(commission_bps=0, spread_bps=0, slippage_bps=0),
    limits=Limits(position_cap_fraction=1.0, gross_leverage=2.0),
    orders=Orders(minimum_trade=0.0),
)
ALL = {
    *("cash", "hold", "equal_weight", "inverse_volatility", "minimum_variance", "risk_parity", "mean_variance"),
    *("momentum", "random", "rule", "expert", "ridge", "lasso", "ridge_sized", "lasso_sized"),
}
FORECASTS = {"ridge", "lasso", "ridge_sized", "lasso_sized"}  # stay in cash where nothing is found


def direct_equal_weight(panel: Panel, first: int, every: int = 21) -> pd.Series:
    """Equity of equal amounts renewed every so many bars: fixed at a close, filled at the next open."""
    opens, closes = pd.DataFrame(panel.open), pd.DataFrame(panel.close)
    equity, held, parts = 100_000.0, pd.Series(0.0, index=opens.columns), []
    for t in range(first, len(panel) - 1, every):
        wanted, bars = equity / len(held) / closes.loc[t], closes.loc[t + 1 : t + every]
        at_open = equity + held @ (opens.loc[t + 1] - closes.loc[t])
        parts.append(at_open + (bars - opens.loc[t + 1]) @ wanted)
        equity, held = parts[-1].iloc[-1], wanted
    return pd.concat(parts)


def test_a_baseline_that_reads_no_features_does_the_same_with_few() -> None:
    panel = load("synthetic", symbols=4, bars=200, seed=1)
    plain = sorted(name for name in BASELINES if not BASELINES[name].reads_features)
    assert {"cash", "hold", "equal_weight", "momentum", "carry"} <= set(plain)
    banks = market_bank(panel), market_bank(panel, feature_table(panel, ["return_1"]))
    for name in (name for name in plain if not BASELINES[name].lacks(banks[0])):
        results = [
            backtest(make_baseline(name, bank, FREE), panel, first=120, bank=bank, market=FREE, window_bars=1)
            for bank in banks
        ]
        np.testing.assert_array_equal(results[0].equity, results[1].equity, name)


def test_every_baseline_plays_the_same_bars() -> None:
    panel = load("synthetic", symbols=8, bars=420, seed=1)
    found = evaluate_baselines(panel, 300)
    assert set(found) == ALL
    assert all(result.times.equals(panel.index[301:]) for result in found.values())
    assert not found["cash"].returns.any()
    assert all(np.isfinite(result.returns).all() for result in found.values())
    assert all(result.returns.any() for name, result in found.items() if name not in {"cash", *FORECASTS})
    again = evaluate_baselines(panel, 300, ["random", "minimum_variance"])
    assert all((result.ledger == found[name].ledger).all() for name, result in again.items())


def test_baselines_that_earn_the_same_under_the_cap_count_once() -> None:
    panel = load("synthetic", symbols=3, bars=420, seed=1)
    found = evaluate_baselines(panel, 300, ["cash", "equal_weight", "inverse_volatility", "hold", "random"])
    kept, told = drop_equal(found)
    assert list(kept) == ["cash", "equal_weight", "hold"]
    assert (
        told == "Shown and counted once: inverse_volatility, random have the same returns as equal_weight at every bar."
    )
    assert drop_equal(kept) == (kept, "")


def test_which_of_equal_baselines_is_counted_does_not_hang_on_imports() -> None:
    names = possible_baselines(market_bank(load("synthetic", symbols=3, bars=420, seed=1)))
    assert names == ["cash", *sorted({*names} - {"cash"})]


def test_one_symbol_is_market_enough() -> None:
    panel = load("synthetic", symbols=1, bars=420, seed=1)
    found = evaluate_baselines(panel, 300, sorted(ALL))
    for name in ALL - {"cash", "hold", "rule", "expert", *FORECASTS}:  # why they are left out unless they are named
        np.testing.assert_array_equal(found[name].orders, found["equal_weight"].orders)


def test_the_cap_is_that_of_the_market() -> None:
    bank = market_bank(load("synthetic", symbols=2, bars=300))
    market = MarketParameters(limits=Limits(position_cap_fraction=0.4))
    assert make_baseline("equal_weight", bank, market).cap == 0.4  # type: ignore[attr-defined]


def test_a_baseline_is_possible_where_it_finds_what_it_reads() -> None:
    panel = load("synthetic", symbols=2, bars=300)
    assert set(possible_baselines(market_bank(panel))) == ALL
    assert set(possible_baselines(market_bank(panel, feature_table(panel, ["return_1"])))) == ALL - {"rule", "expert"}
    assert set(possible_baselines(market_bank(panel, supervised=np.full((2, 300, 2), 0.5)))) == ALL | {"supervised"}


def test_what_is_left_out_is_said_with_what_it_needs() -> None:
    panel = load("synthetic", symbols=1, bars=300)
    assert possible_baselines(market_bank(panel)) == [
        "cash",
        "equal_weight",
        "expert",
        "hold",
        "lasso",
        "lasso_sized",
        "ridge",
        "ridge_sized",
        "rule",
    ]
    said = left_out_sentence(market_bank(panel, feature_table(panel, ["return_1"])))
    assert said.startswith("Left out: ")
    assert "inverse_volatility, " in said
    assert " without a second symbol (with one they equal equal_weight); " in said
    assert "rule without features " in said
    assert "expected without the feature leadlag_expected" in said
    assert "supervised without class probabilities" in said


def test_an_unknown_baseline_or_option_is_refused() -> None:
    panel = load("synthetic", symbols=2, bars=300)
    with pytest.raises(ConfigError, match="unknown baseline 'equal_wait'; did you mean 'equal_weight'"):
        evaluate_baselines(panel, 200, ["equal_wait"])
    with pytest.raises(ConfigError, match=r"unknown option 'hold\.evry_bars'"):
        make_baseline("hold", market_bank(panel), evry_bars=3)


def test_the_equal_weight_curve_is_that_of_pandas() -> None:
    panel = load("synthetic", symbols=7, bars=500, seed=4)
    found = evaluate_baselines(panel, 250, ["equal_weight"], market=FREE)["equal_weight"]
    np.testing.assert_allclose(found.equity[1:], direct_equal_weight(panel, 250), rtol=1e-9)


def test_143_stocks_in_one_call_and_the_equal_weight_curve_is_that_of_pandas(us143: Path) -> None:
    panel = load("parquet", path=str(us143))
    bank = market_bank(panel, feature_table(panel, ["return_1"]))
    names = ["equal_weight", "minimum_variance", "momentum", "hold"]
    first = len(panel) - 150  # an optimisation of 143 shares takes a tenth of a second
    found = evaluate_baselines(panel, first, names, bank=bank)
    assert list(found) == names
    assert all(len(result) == 149 and result.equity[-1] > 0 for result in found.values())
    whole = evaluate_baselines(panel, 252, ["equal_weight"], market=FREE, bank=bank)["equal_weight"]
    np.testing.assert_allclose(whole.equity[1:], direct_equal_weight(panel, 252), rtol=1e-9)
