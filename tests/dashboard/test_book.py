"""The paper trader's book, from the journal that a real trader wrote."""

from __future__ import annotations

import shutil
import sqlite3
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import text

from pacesetter.dashboard.book import Book, JournalReader, _realised_gains, age_text, equity_figure, pnl_figure
from pacesetter.errors import RunError
from pacesetter.serving.journal import tables
from pacesetter.serving.journal.journal import Journal


@pytest.fixture(scope="module")
def book(journal: str) -> Book:
    reader = JournalReader(journal)
    assert reader.runs() == ["paper"]
    return reader.book("paper")


def test_money_adds_up(book):
    """Cash and positions are the equity, and the symbols' profits are what it gained, but for interest."""
    assert book.last["cash"] + book.holdings()["value"].sum() == pytest.approx(book.last["equity"])
    gained = book.last["equity"] - book.equity["equity"].iloc[0]
    assert book.pnl().sum() == pytest.approx(gained, abs=1e-6 * book.last["equity"])


def test_realised_and_unrealised_are_the_profit_by_symbol(book):
    parts = (
        book.trades()
        .groupby("symbol")["realised"]
        .sum()
        .add(book.holdings().set_index("symbol")["unrealised"], fill_value=0.0)
    )
    for symbol, pnl in book.pnl().items():
        assert parts[symbol] == pytest.approx(pnl)


def test_a_halt_after_the_newest_bar_counts(book):
    assert book.last["state"] == "active"
    assert book.state == "halted"
    assert book.reason == "drilled by the test"


def test_alerts_of_one_shape_are_folded_and_changes_of_policy_are_not(book):
    times = pd.date_range("2026-01-01", periods=4, tz="UTC")
    kinds, messages = ["alert", "alert", "policy", "policy"], ["drawdown 0.06", "drawdown 0.07"]
    messages += ["0002-toy takes over: update 1, drift of earned", "0003-toy takes over: update 2, drift of earned"]
    events = pd.DataFrame({"time": times, "kind": kinds, "message": messages})
    folded = replace(book, events=events).alerts()
    assert folded["message"].tolist() == [messages[3], messages[2], messages[1]]
    assert folded["times"].tolist() == [1, 1, 2]


def test_trades_are_newest_first_with_times_in_utc(book):
    times = book.trades()["time"]
    assert times.is_monotonic_decreasing
    assert str(times.dt.tz) == "UTC"
    assert len(book.trades()) == len(book.fills)
    assert set(book.trades()["order_kind"]) == {"market"}


def test_trades_of_a_journal_without_kinds_of_orders_have_none(book):
    older = replace(book, orders=book.orders.drop(columns="kind"))
    assert older.trades()["order_kind"].isna().all()


def test_limits_used_where_the_journal_has_them(book):
    limits = {"reduce_fraction": 0.02, "halt_fraction": 0.03, "drawdown_fraction": 0.1, "gross_fraction": 1.0}
    limits |= {"symbol_fraction": 0.2, "day_count": 50, "stale_bars": 2.0}
    told = Book(book.run, book.equity, book.positions, book.fills, book.orders, book.events, {"limits": limits})
    used = told.limits().set_index("name")
    assert used.loc["gross_fraction", "used"] == pytest.approx(book.last["exposure"])
    assert used.loc["drawdown_fraction", "share"] == pytest.approx(book.last["drawdown"] / 0.1)
    assert Book(book.run, book.equity, book.positions, book.fills, book.orders, book.events, {}).limits().empty


def test_age_of_the_data(book):
    assert book.age_seconds(book.equity.index[-1] + timedelta(hours=2)) == 7200


def test_figures(book):
    assert [len(line.x) for line in equity_figure(book).data] == [40, 40, 40]
    assert list(pnl_figure(book.pnl()).data[0].x) == list(book.pnl().index)


def test_a_book_is_read_again_only_where_the_journal_grew(journal, tmp_path):
    path = Path(journal.removeprefix("sqlite:///"))
    url = f"sqlite:///{shutil.copy(path, tmp_path)}"
    reader, trader = JournalReader(url), Journal(url, "paper")
    first = reader.book("paper")
    assert reader.book("paper") is first
    trader.note("alert", "written a moment ago")
    grown = reader.book("paper")
    assert grown.events["message"].iloc[-1] == "written a moment ago"
    assert len(grown.events) == len(first.events) + 1
    assert grown.is_newer(first)
    assert not grown.is_newer(replace(grown, guard={}))
    trader.close()


def test_nothing_can_be_written(journal):
    with JournalReader(journal).engine.connect() as connection, pytest.raises(Exception, match="readonly"):
        connection.execute(text("DELETE FROM equity"))


def test_the_names_it_reads_by_are_the_journals(journal):
    known = {table.name for table in tables.METADATA.sorted_tables}
    assert {"equity", "positions", "fills", "orders", "events", "checkpoints"} <= known


@pytest.mark.parametrize("url", ["nonsense", "sqlite:////no/such/file.db", "oracle://x"])
def test_what_is_no_journal_is_refused_in_one_sentence(url):
    with pytest.raises(RunError, match="journal"):
        JournalReader(url).runs()


def test_another_database_is_refused(tmp_path):
    sqlite3.connect(tmp_path / "other.db").execute("CREATE TABLE x (y)").connection.close()
    with pytest.raises(RunError, match="not a paper trader's journal"):
        JournalReader(f"sqlite:///{tmp_path / 'other.db'}").runs()


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.integers(-5, 5).filter(bool), st.floats(1, 100)), min_size=1, max_size=12))
def test_a_book_that_ends_flat_realised_what_its_cash_gained(trades):
    quantity, price = np.array([*trades, (0, 50.0)], dtype=float).T
    quantity[-1] = -quantity.sum()
    fills = pd.DataFrame({"time": pd.date_range("2020-01-01", periods=len(price), tz="UTC"), "symbol": "A"})
    fills = fills.assign(quantity=quantity, price=price, commission=0.5, reason="order")[quantity != 0]
    none = pd.DataFrame(columns=["symbol", "quantity", "price", "entry_price"])
    book = Book("x", pd.DataFrame(), none, fills, none, none, {})
    gained = -(fills["quantity"] * fills["price"] + fills["commission"]).sum()
    assert book.trades()["realised"].sum() == pytest.approx(gained, abs=1e-6)


def test_an_age_is_said_by_its_largest_part():
    texts = [age_text(pd.Timedelta(text)) for text in ("9564D 14:25:13", "3h 25min", "7min", "12s")]
    assert texts == ["9,564 days", "3 h 25 min", "7 min", "12 s"]


def test_a_fill_of_nothing_realises_its_commission():
    fills = pd.DataFrame({"symbol": ["A", "A"], "quantity": [0.0, 2.0], "price": [5.0, 6.0], "commission": [0.1, 0.2]})
    assert _realised_gains(fills) == pytest.approx([-0.1, -0.2])
