"""A network feed whose source loses a symbol, breaks or doubles a bar, or re-bases its history."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from trading import make_trader

from pacesetter.data import online
from pacesetter.data.loading import load
from pacesetter.errors import DataError, RunError
from pacesetter.market.state import Account, Position
from pacesetter.panel import Panel
from pacesetter.policies.policy import Policy, Snapshot
from pacesetter.serving.journal.journal import tables
from pacesetter.serving.trader.feeds import OnlineFeed, ReplayFeed, find_adjustments
from pacesetter.serving.trader.paper import PaperTrader

SYMBOLS = ("A", "B", "C")
KNOWN = 200  # bars at the start


class Source:
    """What Yahoo would answer: hourly bars up to `upto`, changed by whatever `change` does to a symbol's table."""

    def __init__(self) -> None:
        panel = load("synthetic", symbols=len(SYMBOLS), bars=240, seed=3)
        self.index = pd.date_range("2024-03-01", periods=len(panel), freq="1h", tz="UTC")
        self.panel, self.upto = panel, KNOWN
        self.change: Any = lambda symbol, frame: frame
        self.asked: list[str] = []

    def fetch(self, symbol: str) -> pd.DataFrame:
        self.asked.append(symbol)
        column = SYMBOLS.index(symbol)
        fields = {name: self.panel[name][: self.upto, column] for name in self.panel.fields}
        return self.change(symbol, pd.DataFrame(fields, index=self.index[: self.upto]))


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> Source:
    made = Source()
    monkeypatch.setattr(online.Yahoo, "fetch", lambda self, symbol: made.fetch(symbol))
    return made


class Holder(Policy):
    """Always a tenth of each."""

    name, action = "holder", "target"

    def decide(self, snapshot: Snapshot) -> Any:
        return np.full(len(SYMBOLS), 0.1)


def trader_of(folder: Path, source: Source) -> PaperTrader:
    clock: Any = SimpleNamespace(now=lambda bar: bar.timestamp(), sleep=lambda seconds: None)
    options = {"symbols": list(SYMBOLS), "start": "2024-03-01", "freq": "1h", "cache": str(folder / "cache")}
    feed = OnlineFeed("yahoo", {**options, "calendar": "24/7"}, clock)
    panel = feed.history(None)
    return make_trader(folder, panel=panel, feed=feed, policy=Holder())


def trade_one(trader: PaperTrader) -> None:
    """The next bar as within a run, which a second `run` would begin with a restart."""
    for bar in trader._new_bars():
        trader._trade(bar)
        return


def bar_later(trader: PaperTrader, source: Source) -> Panel:
    """Let the source have one bar more, trade it, and give all bars so far."""
    source.upto += 1
    trade_one(trader)
    assert trader._panel is not None
    assert trader._panel.index[-1] == source.index[source.upto - 1] + pd.Timedelta("1h")
    return trader._panel


def events(trader: PaperTrader, kind: str) -> list[str]:
    return [row["message"] for row in trader.journal.rows(tables.events) if row["kind"] == kind]


def vanished(symbol: str, frame: pd.DataFrame) -> pd.DataFrame:
    return frame[:0] if symbol == "B" else frame


def broken(symbol: str, frame: pd.DataFrame) -> pd.DataFrame:
    if symbol == "B":
        frame.loc[frame.index[KNOWN], "close"] = np.nan
    return frame


def doubled(symbol: str, frame: pd.DataFrame) -> pd.DataFrame:
    return pd.concat([frame, frame[-1:]]) if symbol == "B" else frame


@pytest.mark.parametrize("change", [vanished, broken, doubled])
def test_trouble_with_one_symbol_does_not_stop_the_others(change: Any, source: Source, tmp_path: Path) -> None:
    trader = trader_of(tmp_path, source)
    trader.run(1)
    source.change = change
    panels = [bar_later(trader, source) for _ in range(3)]
    trader._read_state()  # nor is a restart refused
    expected = {
        "vanished": [[True, False, True]] * 3,
        "broken": [[True, False, True], [True] * 3, [True] * 3],  # only the bar that is broken is missing
        "doubled": [[True] * 3] * 3,  # the bar is taken once
    }[change.__name__]
    assert panels[-1].mask[-3:].tolist() == expected
    assert len(events(trader, "feed")) == 1  # however often it is asked
    assert events(trader, "feed")[0].startswith("'B' has missing bars: ")
    source.change = lambda symbol, frame: frame
    assert bar_later(trader, source).mask[-1].all()
    source.change = change
    if change is vanished:  # once more, and told again
        bar_later(trader, source)
        assert len(events(trader, "feed")) == 2
    trader.journal.close()


def test_an_exit_goes_on_while_a_symbol_is_missing(source: Source, tmp_path: Path) -> None:
    trader = trader_of(tmp_path, source)
    trader.run(1)
    bar_later(trader, source)
    assert np.all(trader.desk.broker.positions[:, Position.QUANTITY] > 0)
    source.change = vanished
    trader.desk.policy.decide = lambda seen: np.zeros(len(SYMBOLS))  # type: ignore[method-assign]
    bar_later(trader, source)
    bar_later(trader, source)
    held = trader.desk.broker.positions[:, Position.QUANTITY]
    assert held[0] == held[2] == 0.0 < held[1]  # B has no bar that could fill it
    trader.journal.close()


def test_a_source_that_is_down_is_asked_for_few_symbols(source: Source, tmp_path: Path) -> None:
    trader = trader_of(tmp_path, source)
    source.change = lambda symbol, frame: frame[:0]
    feed = trader.feed
    last = source.index[KNOWN]
    source.asked.clear()
    with pytest.raises(DataError, match="yahoo has no finished 1h bar of 'A'"):
        feed.after(last)
    assert len(source.asked) <= 8
    trader.journal.close()


# ---- re-based histories --------------------------------------------------------------------------------------------


def by(factor: float, symbol: str = "B") -> Any:
    """All prices of a symbol so many times as high."""

    def change(name: str, frame: pd.DataFrame) -> pd.DataFrame:
        if name == symbol:
            frame[["open", "high", "low", "close"]] *= factor
            frame["volume"] /= factor
        return frame

    return change


@pytest.mark.parametrize("factor", [0.25, 8.0, 0.5, 1.2])
def test_a_split_is_neither_profit_nor_loss(factor: float, source: Source, tmp_path: Path) -> None:
    plain = trader_of(tmp_path / "plain", source)
    plain.run(1)
    for _ in range(2):
        bar_later(plain, source)
    source.upto = KNOWN
    trader = trader_of(tmp_path / "split", source)
    trader.run(1)
    bar_later(trader, source)
    equity = trader.desk.equity
    source.change, source.upto = by(factor), source.upto + 1
    with pytest.raises(RunError, match=r"yahoo has re-based the history of 'B' by .*, as for a split"):
        trade_one(trader)
    assert trader.desk.equity == equity  # nothing was booked
    trader.journal.close()
    again = trader_of(tmp_path / "split", source)
    again.run(1)
    assert events(again, "split") == [f"the history of 'B' was re-based by {factor:.6g}; the book is rescaled"]
    # The same account but for the order of B that was in flight, which is small.
    assert again.desk.equity == pytest.approx(plain.desk.equity, rel=1e-3)
    held = [each.desk.broker.positions[1, Position.QUANTITY] for each in (plain, again)]
    assert held[1] * factor == pytest.approx(held[0], rel=0.05)
    cash = again.desk.broker.account[Account.CASH]
    assert cash == pytest.approx(plain.desk.broker.account[Account.CASH], rel=0.01)
    fills = [row for row in again.journal.rows(tables.fills) if row["reason"] == "split"]
    assert [(row["symbol"], row["price"]) for row in fills] == [("B", 0.0)]
    assert again.journal.holdings()["B"] == pytest.approx(held[1])
    again.journal.close()
    source.upto += 1
    once_more = trader_of(tmp_path / "split", source)  # it is done once
    once_more.run(1)
    assert len(events(once_more, "split")) == 1
    for each in (plain, once_more):
        each.journal.close()


def test_a_dividend_is_told_and_changes_no_book(source: Source, tmp_path: Path) -> None:
    trader = trader_of(tmp_path, source)
    trader.run(1)
    bar_later(trader, source)
    source.change, source.upto = by(0.99), source.upto + 1
    for _ in range(2):
        trade_one(trader)
        source.upto += 1
    assert [message for message in events(trader, "feed") if "re-adjusted the history of 'B' by -1.00%" in message]
    assert not events(trader, "split")
    trader.journal.close()


def test_one_corrected_bar_is_not_a_re_based_history() -> None:
    panel = load("synthetic", symbols=2, bars=60, seed=1)
    blocks = panel.blocks.copy()
    blocks[panel.fields.index("close"), -1, 0] *= 2.0
    assert find_adjustments(panel, replace(panel, blocks=blocks).rows(-7, None)) == {}
    assert find_adjustments(panel, replace(panel, blocks=panel.blocks * [[[0.25, 1.0]]]).rows(-7, None)) == {
        panel.symbols[0]: 0.25
    }


def test_the_digest_of_bars_is_that_of_each_in_turn_in_any_order() -> None:
    panel = load("synthetic", symbols=2, bars=60, delisted_share=0.5, seed=1)
    feed, digest, expected = ReplayFeed(panel, 10), hashlib.sha256(), []
    values = np.where(np.isnan(panel.blocks), np.nan, panel.blocks) + 0.0
    for moment, bar in zip(panel.index.asi8, values.swapaxes(0, 1), strict=True):
        digest.update(moment.tobytes() + bar.tobytes())
        expected.append(digest.hexdigest())
    for row in (10, 11, 40, 40, 3, 59):
        assert feed.digest(panel.index[row]) == expected[row]
