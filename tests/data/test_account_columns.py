"""Columns that accounts use: recognised, named in the data check, settled at their stamps, kept by coarser bars."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import pacesetter as ps
from pacesetter.data.quality import readiness
from pacesetter.errors import ConfigError, DataError
from pacesetter.frames import read_frame
from pacesetter.market.bars import Bar, MarketBars
from pacesetter.market.parameters import configure_market, expand_key


def hourly(count: int = 48, **columns: object) -> pd.DataFrame:
    index = pd.date_range("2024-01-01", periods=count, freq="h", tz="UTC", name="timestamp")
    close = 100 + np.arange(count, dtype=float)
    return pd.DataFrame({"open": close, "high": close + 1, "low": close - 1, "close": close, **columns}, index)


def test_every_column_is_named_with_its_use() -> None:
    frame = hourly(Funding=0.001, foo=1.0, comment="x", mark=100.0)
    report = readiness(read_frame(frame.reset_index()))
    assert report.columns == (
        "funding_rate: used as funding",
        "foo: not used",
        "mark_price: used as the mark price of market.margin",
        "comment: not used",
    )


def test_funding_is_settled_at_the_open_of_the_bar_it_is_stamped_with() -> None:
    rates = np.arange(48) / 1000
    opened = ps.load(hourly(funding_rate=rates), stamp="open")
    closed = ps.load(hourly(funding_rate=rates), stamp="close")
    assert opened["funding_rate"][:, 0].tolist() == rates.tolist()
    # A rate stamped at a close is settled there, which is the open of the next bar.
    assert closed["funding_rate"][1:, 0].tolist() == rates[:-1].tolist()
    assert np.isnan(closed["funding_rate"][0, 0])


def test_coarser_bars_keep_what_was_settled() -> None:
    frame = hourly(funding_rate=0.001, dividend=0.0, split=0.0)
    frame.iloc[30, frame.columns.get_loc("split")] = 2.0
    panel = ps.load(frame, stamp="open").resample("1D")
    assert panel["funding_rate"][:, 0] == pytest.approx([0.024, 0.024])
    assert panel["split"][:, 0].tolist() == [1.0, 2.0]


def test_a_repaired_bar_settles_nothing() -> None:
    frame = hourly(funding_rate=0.001).drop(index=hourly().index[10])
    other = hourly(funding_rate=0.001)
    both = pd.concat([frame.assign(symbol="A"), other.assign(symbol="B")]).reset_index().sort_values("timestamp")
    panel = ps.load(both, stamp="open", fill="forward")
    assert panel["funding_rate"][10].tolist() == [0.0, 0.001]


def test_funding_without_a_time_of_day_is_refused() -> None:
    days = pd.date_range("2024-01-01", periods=30, freq="D", name="timestamp")
    frame = pd.DataFrame({"close": np.arange(30) + 100.0, "funding_rate": 0.001}, days)
    with pytest.raises(DataError, match=r"funding_rate has no time of day at which it is settled, only dates"):
        ps.load(frame)
    assert "funding_rate" in ps.load(frame, allow=["funding_stamp"]).fields


def test_a_rate_that_is_repeated_at_every_bar_is_refused() -> None:
    bars = np.arange(200)
    stamped = np.where(bars % 8 == 0, 1e-4 * (1 + np.sin(bars)), np.nan)
    frame = hourly(200, funding_rate=stamped)
    assert "funding_rate" in ps.load(frame).fields
    frame["funding_rate"] = frame["funding_rate"].ffill()
    with pytest.raises(DataError, match=r"is at every bar, where it would be settled, and changes every 8 bars only"):
        ps.load(frame)
    assert "funding_rate" in ps.load(frame, allow=["funding_stamp"]).fields
    frame["funding_rate"] = 1e-4 * (1 + np.sin(bars))  # as at exchanges that settle every hour
    assert "funding_rate" in ps.load(frame).fields
    findings = readiness(read_frame(hourly(funding_rate=np.nan).reset_index())).findings
    (finding,) = (each for each in findings if each.rule == "funding_stamp")
    assert finding.severity == "warning"
    assert "funding_rate has no value, so that none is paid" in finding.sentence()


def test_raw_closes_with_events_are_adjusted_forwards() -> None:
    frame = hourly(6, dividend=[0, 0, 2.0, 0, 0, 0], split=[0, 0, 0, 0, 2.0, 0])
    frame["close"] = [100.0, 100, 98, 98, 49, 50]
    frame["open"] = frame["high"] = frame["low"] = frame["close"]
    panel = ps.load(frame, close="unadjusted")
    assert panel.close[:, 0] == pytest.approx([100, 100, 100, 100, 100, 100 / 49 * 50])
    assert panel["close_unadjusted"][:, 0].tolist() == frame["close"].tolist()
    shorter = ps.load(frame.iloc[:4], close="unadjusted")
    assert shorter.close[:, 0].tolist() == panel.close[:4, 0].tolist()
    with pytest.raises(DataError, match=r"neither an adjusted close nor a dividend or split column"):
        ps.load(hourly(6), close="unadjusted")


def test_an_adjusted_close_beside_it_gives_dividends_and_splits() -> None:
    raw = np.array([100.0, 100, 98, 98, 49, 50])
    frame = hourly(6).assign(open=raw, high=raw, low=raw, close=raw, adj_close=[49.0, 49, 49, 49, 49, 50])
    bars = MarketBars.from_panel(ps.load(frame, close="unadjusted")).values[:, 0]
    assert bars[:, Bar.SPLIT].tolist() == [0, 0, 0, 0, 2.0, 0]
    assert bars[:, Bar.DIVIDEND] == pytest.approx([0, 0, 2.0, 0, 0, 0])
    assert bars[:, Bar.FACTOR] * bars[:, Bar.CLOSE] == pytest.approx(raw)


def test_keys_that_a_person_would_guess() -> None:
    market = configure_market({"lot": 1, "funding": 0.1, "margin": "cross", "leverage": 5, "minimum_notional": 10})
    assert (market.lot, market.margin.mode, market.orders.minimum_trade) == (1.0, "cross", 10.0)
    assert expand_key("margin", "isolated") == {"margin.mode": "isolated"}
    for wrong, right in (("lots", "lot"), ("fundings", "funding"), ("margins", "margin"), ("dividend", "dividends")):
        with pytest.raises(ConfigError, match=rf"did you mean 'market.{right}'"):
            expand_key(wrong, 1)
    with pytest.raises(ConfigError, match=r"did you mean 'data\.currency'"):
        expand_key("currency", "USD")
    with pytest.raises(ConfigError, match=r"market\.funding"):
        configure_market({"funding": "sometimes"})
