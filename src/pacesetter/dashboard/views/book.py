"""Book: equity, positions, limits, alerts and trades of the paper trader; and the one button, for an admin key only."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from pacesetter.dashboard.book import Book, age_text, equity_figure, pnl_figure
from pacesetter.dashboard.settings import current_settings
from pacesetter.dashboard.texts import say
from pacesetter.dashboard.views.parts import chart, contain_errors, halted_banner, open_book, table, trading_runs

__all__ = ["show_book"]

SECONDS = 0.25  # between two looks at the journal: what a trader writes is on the page within a second
DRAWN = "book.drawn"
HOLDINGS = {"share": "percent", "value": "%.0f", "unrealised": "%+.0f", "price": "%.2f", "entry_price": "%.2f"}
TRADES = {"quantity": "%+.4g", "price": "%.2f", "value": "%+.0f", "commission": "%.2f", "realised": "%+.2f"}
LIMITS = {"used": "%.4g", "limit": "%.4g", "share": "percent"}


def show_book() -> None:
    """The page."""
    halted_banner(is_own_page=True)
    with contain_errors():
        _kill()
    with contain_errors():
        runs = trading_runs()
        if not runs:
            st.info(say("book.empty"))
            return
        run = st.selectbox(say("book.run"), runs, key="book.run") if len(runs) > 1 else runs[0]
        book = open_book(run)
        if book is not None:
            st.session_state[DRAWN] = book
            _watch(run)
            chart(equity_figure(book), "book.equity")
            _holdings(book)
            _options(book)
            _limits(book)
            _events(book)
            st.subheader(say("book.trades"))
            table(book.trades(), "book.trades", file_name="trades.csv", formats=TRADES)


@st.fragment(run_every=SECONDS)
def _watch(run: str) -> None:
    """The first line as the book stands now, read again by itself; the page is drawn again where the journal grew."""
    with contain_errors():
        book = open_book(run)
        if book is not None:
            _draw_status(book)
            # Most looks find nothing new: they draw one line and no picture.
            if book.is_newer(st.session_state[DRAWN]):
                st.rerun()


def _draw_status(book: Book) -> None:
    """The first line: money, risk state, and how old the data is."""
    vitals: dict[str, object] = book.last["vitals"] or {}
    age = age_text(pd.Timedelta(seconds=round(book.age_seconds())))
    shown = {
        "book.equity": f"{book.last['equity']:,.0f}",
        "book.cash": f"{book.last['cash']:,.0f}",
        "book.exposure": f"{book.last['exposure']:.0%}",
        "book.drawdown": f"{book.last['drawdown']:.1%}",
        "book.state": say(f"state.{book.state}"),
        "book.data_age": say("book.bars_old", bars=vitals.get("data_age_bars", float("nan"))),
    }
    for place, (key, value) in zip(st.columns(len(shown)), shown.items(), strict=True):
        place.metric(say(key), value)
    if book.state == "reducing":
        st.warning(say("book.reducing", reason=book.reason))
    st.caption(say("book.newest", time=f"{book.equity.index[-1]:%Y-%m-%d %H:%M}", age=age, bars=len(book.equity)))


def _holdings(book: Book) -> None:
    left, right = st.columns(2)
    with left:
        st.subheader(say("book.positions"))
        table(book.holdings(), "book.positions", formats=HOLDINGS)
    with right:
        chart(pnl_figure(book.pnl()), "book.pnl")


def _options(book: Book) -> None:
    """The option in force for each symbol, where the policy has options."""
    if not book.options.empty:
        st.subheader(say("book.options"))
        table(book.options, "book.options")


def _limits(book: Book) -> None:
    """Each limit and how much of it is used; refusals by reason."""
    st.subheader(say("book.limits"))
    limits = book.limits()
    if limits.empty:
        st.caption(say("book.no_limits"))
    else:
        limits.insert(0, "rule", [say(f"limit.{name}") for name in limits.pop("name")])
        table(limits, "book.limits", formats=LIMITS)
    denials = book.guard.get("denials", {})
    if denials:
        st.warning(say("book.denied", what=", ".join(f"{name} {count}" for name, count in sorted(denials.items()))))


def _events(book: Book) -> None:
    st.subheader(say("book.alerts"))
    if book.events.empty:
        st.caption(say("book.no_alerts"))
    else:
        table(book.alerts(), "book.alerts", formats={"message": 600})
        with st.expander(say("book.every_event", count=len(book.events))):
            table(book.events[["time", "kind", "message"]].iloc[::-1], "book.events", file_name="events.csv")


def _kill() -> None:
    """The kill button, for who types an admin key; without one there is none."""
    switch, admin = current_settings().switch, current_settings().admin
    if switch is None or switch.is_engaged():
        return
    with st.expander(say("kill.title")):
        if admin is None:
            st.caption(say("kill.no_key"))
            return
        token = st.text_input(say("kill.token"), type="password", key="kill.token")
        # Asked for again at every action: the page keeps no session that could stay unlocked.
        name = admin(token) if token else None
        if name is None:
            st.caption(say("kill.wrong" if token else "kill.locked"))
        elif st.button(say("kill.button"), type="primary", key="kill.button"):
            switch.engage(say("kill.reason", name=name))
            st.rerun()
