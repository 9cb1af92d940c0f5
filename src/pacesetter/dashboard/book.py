"""The paper trader's book, read from its journal by table names: this package does not import the trader."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots
from sqlalchemy import Connection, Engine, MetaData, Table, create_engine, func, make_url, select
from sqlalchemy.exc import ArgumentError, NoSuchTableError, SQLAlchemyError

from pacesetter.dashboard.texts import say
from pacesetter.errors import RunError
from pacesetter.evaluation.report.pictures import PALETTE, style_figure, thin_bars

__all__ = ["Book", "JournalReader", "age_text", "equity_figure", "pnl_figure"]

HALTED = "halted"
MOST_EVENTS = 500
LIVE_BARS, DAY_SECONDS = 5, 86_400.0  # without a bar for longer, a book is a replay or has ended
NUMBERS = r"[-+]?\d[\d.,:%T-]*"  # alerts that differ in these only are one


@dataclass(frozen=True, eq=False)
class Book:
    """How a paper trader stands at its newest bar.

    equity      by time: equity, cash, exposure, drawdown, state, vitals
    positions   open at that bar: symbol, quantity, entry_price, price
    options     in force at that bar: symbol and option; empty for a policy without options
    fills, orders, events   as the journal has them, in order of time
    guard       what the risk guard remembers; its `limits` where the journal keeps them
    head        the newest hash of the journal's audit chain; empty where it has none
    """

    run: str
    equity: pd.DataFrame
    positions: pd.DataFrame
    fills: pd.DataFrame
    orders: pd.DataFrame
    events: pd.DataFrame
    guard: Mapping[str, Any]
    options: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=["symbol", "option"]))
    head: str = ""

    def is_newer(self, other: Book) -> bool:
        """Whether the journal has grown since the other was read; without an audit chain, by a bar."""
        return (self.head, len(self.equity)) != (other.head, len(other.equity))

    @property
    def last(self) -> pd.Series:
        """The newest row of the equity."""
        return self.equity.iloc[-1]

    @property
    def state(self) -> str:
        """active, reducing or halted; an event after the newest bar counts, as a halt between bars does."""
        changes = self.events[self.events["kind"].isin(["halt", "resume"])]
        # Equity has a row for each bar; a halt between two bars is known only from its event.
        if len(changes) and changes["time"].iloc[-1] >= self.equity.index[-1]:
            return HALTED if changes["kind"].iloc[-1] == "halt" else "active"
        return str(self.last["state"])

    @property
    def reason(self) -> str:
        """Why it is not active; empty while it is."""
        halts = self.events[self.events["kind"] == "halt"]
        if self.state == HALTED and len(halts):
            return str(halts["message"].iloc[-1])
        return str(self.guard.get("reason", "")) if self.state != "active" else ""

    def holdings(self) -> pd.DataFrame:
        """The open positions with their value, share of equity and unrealised P&L, the largest first."""
        table = self.positions.drop(columns=["run", "time"], errors="ignore").copy()
        table["value"] = table["quantity"] * table["price"]
        table["share"] = table["value"] / self.last["equity"]
        table["unrealised"] = table["quantity"] * (table["price"] - table["entry_price"])
        return table.sort_values("value", key=np.abs, ascending=False, ignore_index=True)

    def trades(self) -> pd.DataFrame:
        """Every fill, the newest first: its value, what it realised against the mean entry price, the order's kind."""
        table = self.fills[["time", "symbol", "quantity", "price", "commission", "reason"]].copy()
        # Journals of early versions know of no kinds, and a stop has no order.
        has_kinds = "kind" in self.orders
        table["order_kind"] = (
            self.fills["client_id"].map(self.orders.set_index("client_id")["kind"]) if has_kinds else None
        )
        table["value"] = table["quantity"] * table["price"]
        table["realised"] = _realised_gains(table)
        return table.iloc[::-1].reset_index(drop=True)

    def pnl(self) -> pd.Series:
        """(symbol,) money earned after commission: what was received less what was paid, and what is held now."""
        flows = -(self.fills["quantity"] * self.fills["price"] + self.fills["commission"])
        held = self.positions["quantity"] * self.positions["price"]
        parts = [flows.groupby(self.fills["symbol"]).sum(), held.groupby(self.positions["symbol"]).sum()]
        # A symbol that was sold has no position, one that was never traded here no flow: absent counts as 0.
        total = parts[0].add(parts[1], fill_value=0.0)
        return total.sort_values(ascending=False).rename("pnl")

    def limits(self) -> pd.DataFrame:
        """What is used of each limit: `limit`, `used` and `share` of it; empty where the journal has no limits."""
        limits = self.guard.get("limits")
        if not limits:
            return pd.DataFrame(columns=["name", "used", "limit", "share"])
        equity, shares = float(self.last["equity"]), self.holdings()["share"].abs()
        # Where the guard has not seen a day begin, there is no loss to show.
        day_equity = self.guard.get("day_equity") or equity
        loss = max(1 - equity / day_equity, 0.0)
        used = {
            "reduce_fraction": loss,
            "halt_fraction": loss,
            "drawdown_fraction": float(self.last["drawdown"]),
            "gross_fraction": float(self.last["exposure"]),
            "symbol_fraction": float(shares.max()) if len(shares) else 0.0,
            "day_count": float(max(self.guard.get("day_orders", {}).values(), default=0)),
            "stale_bars": float((self.last["vitals"] or {}).get("data_age_bars", np.nan)),
        }
        rows = [(name, value, float(limits[name]), value / limits[name]) for name, value in used.items()]
        return pd.DataFrame(rows, columns=["name", "used", "limit", "share"])

    def is_live(self, now: datetime | None = None) -> bool:
        """Whether bars still come: the newest is a few bars old at most, a long weekend of daily ones."""
        bar = pd.Timedelta(self.equity.index.to_series().diff().median())
        usual = DAY_SECONDS if pd.isna(bar) else bar.total_seconds()
        # At least a day: intraday bars stop over night.
        return self.age_seconds(now) < max(LIVE_BARS * usual, DAY_SECONDS)

    def alerts(self) -> pd.DataFrame:
        """Events folded by kind and message: how often, when first and last; the latest first."""
        events = self.events[["time", "kind", "message"]]
        shape = events["message"].str.replace(NUMBERS, "…", regex=True)
        # Changes of policy stay apart: their numbers name bundles and updates.
        shape = shape.where(events["kind"] != "policy", events["message"])
        spans = {"times": ("time", "size"), "first": ("time", "min"), "last": ("time", "max")}
        folded = events.groupby([events["kind"], shape], sort=False).agg(**spans, latest=("message", "last"))
        folded = folded.droplevel(1).reset_index().rename(columns={"latest": "message"})
        table = folded[["last", "kind", "times", "message", "first"]]
        return table.sort_values("last", ascending=False, ignore_index=True)

    def age_seconds(self, now: datetime | None = None) -> float:
        """From the newest bar until now."""
        return float(((now or datetime.now(UTC)) - self.equity.index[-1]).total_seconds())


def _realised_gains(fills: pd.DataFrame) -> list[float]:
    """What each fill, in order of time, realised against the mean entry price, after its commission."""
    held: dict[str, tuple[float, float]] = {}  # symbol -> quantity, mean entry price
    realised = []
    rows: Any = fills.itertuples()
    for row in rows:
        before, entry = held.get(row.symbol, (0.0, 0.0))
        after = before + row.quantity
        is_adding = before * row.quantity >= 0.0
        # At most what was held: an order that turns the position round closes it and opens the rest.
        closed = 0.0 if is_adding else float(np.clip(-row.quantity, -abs(before), abs(before)))
        realised.append(closed * (row.price - entry) - row.commission)
        if is_adding and after != 0.0:  # a fill of nothing in a flat symbol has no entry price
            entry = (before * entry + row.quantity * row.price) / after
        elif before * after < 0.0:  # turned round: what is held now was opened here
            entry = row.price
        held[row.symbol] = (after, entry)
    return realised


# ---- reading --------------------------------------------------------------------------------------------------------


class JournalReader:
    """A journal in SQLite or PostgreSQL, opened so that nothing can be written; read again only where it grew."""

    def __init__(self, url: str) -> None:
        self.engine = _read_only(url)
        self._read: dict[str, tuple[str, Book]] = {}  # run -> head of its audit chain, and the book as of it

    def runs(self) -> list[str]:
        """Names of the trading runs in it, the one with the newest bar first; none before a first bar."""
        with self._reading() as connection:
            equity = _table(connection, "equity")
            newest = func.max(equity.c.time)
            rows = connection.execute(select(equity.c.run, newest).group_by(equity.c.run).order_by(newest.desc()))
            return [str(run) for run, _ in rows]

    def book(self, run: str) -> Book:
        """All that the page shows of a run, as of its newest bar; refuses a run without one."""
        with self._reading() as connection:
            head, (known, book) = _chain_head(connection, run), self._read.get(run, ("", None))
            if book is None or head != known or not head:
                book = self._read_book(connection, run, head)
                self._read[run] = head, book
            return book

    def _read_book(self, connection: Connection, run: str, head: str) -> Book:
        equity = _rows(connection, "equity", run)
        if equity.empty:
            raise RunError(say("book.no_bar", run=run))
        positions = _rows(connection, "positions", run, at=equity["time"].iloc[-1])
        decided = _rows(connection, "decisions", run, at=equity["time"].iloc[-1])
        states = _rows(connection, "checkpoints", run)["state"]
        return Book(
            run=run,
            equity=equity.set_index("time"),
            positions=positions,
            fills=_rows(connection, "fills", run),
            orders=_rows(connection, "orders", run),
            events=_rows(connection, "events", run)[-MOST_EVENTS:],
            guard=dict(states.iloc[-1]["desk"]["guard"]) if len(states) else {},
            options=_options(decided),
            head=head,
        )

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        try:
            with self.engine.connect().execution_options(postgresql_readonly=True) as connection:
                yield connection
        except NoSuchTableError as problem:
            raise RunError(say("book.no_journal", url=_url_without_password(self.engine))) from problem
        except SQLAlchemyError as problem:
            reason = str(getattr(problem, "orig", None) or problem).splitlines()[0]
            raise RunError(say("book.unreadable", url=_url_without_password(self.engine), reason=reason)) from problem


def _chain_head(connection: Connection, run: str) -> str:
    """The hash of the newest audit record, which every write to a journal adds; empty where there is none."""
    try:
        audit = _table(connection, "audit")
    except NoSuchTableError:  # of an early version
        return ""
    newest = select(audit.c.hash).where(audit.c.run == run).order_by(audit.c.sequence.desc()).limit(1)
    return connection.execute(newest).scalar() or ""


def _options(decided: pd.DataFrame) -> pd.DataFrame:
    """Symbol and option of the decisions that had one; journals of early versions know of none."""
    if "option" not in decided:
        return pd.DataFrame(columns=["symbol", "option"])
    return decided.loc[decided["option"].notna(), ["symbol", "option"]].reset_index(drop=True)


def _read_only(url: str) -> Engine:
    """An engine that cannot write; refuses an address that is none."""
    try:
        parsed = make_url(url)
        if parsed.drivername == "postgresql":
            parsed = parsed.set(drivername="postgresql+psycopg")
        if parsed.get_backend_name() == "sqlite":
            # SQLite's own read-only mode: a mistake here cannot write to a trader's journal, nor make an empty one.
            parsed = parsed.set(database=f"file:{parsed.database}", query={"mode": "ro", "uri": "true"})
        return create_engine(parsed)
    except (ArgumentError, SQLAlchemyError, ImportError) as problem:
        raise RunError(say("book.address", kind=type(problem).__name__)) from problem


def _url_without_password(engine: Engine) -> str:
    return engine.url.render_as_string(hide_password=True)


def _table(connection: Connection, name: str) -> Table:
    return Table(name, MetaData(), autoload_with=connection)


def _rows(connection: Connection, name: str, run: str, at: Any = None) -> pd.DataFrame:
    """The run's rows of a table in order of time, or those of one moment; times are UTC."""
    table = _table(connection, name)
    asked = select(table).where(table.c.run == run)
    if at is not None:
        # SQLite stores times without a zone, and compares them as text.
        at = at.to_pydatetime()
        asked = asked.where(table.c.time == (at.replace(tzinfo=None) if connection.dialect.name == "sqlite" else at))
    rows = connection.execute(asked.order_by(table.c.time, *table.primary_key.columns)).mappings().all()
    frame = pd.DataFrame([dict(row) for row in rows], columns=[column.name for column in table.columns])
    return frame.assign(time=pd.to_datetime(frame["time"], utc=True))


# ---- figures --------------------------------------------------------------------------------------------------------


def age_text(age: pd.Timedelta) -> str:
    """A length of time as a person would say it: its largest part, seconds only below a minute."""
    if age.days >= 1:
        return say("age.days", count=age.days)
    seconds = int(age.total_seconds())
    hours, minutes = divmod(seconds // 60, 60)
    if hours:
        return say("age.hours", hours=hours, minutes=minutes)
    return say("age.minutes", count=minutes) if minutes else say("age.seconds", count=seconds)


def equity_figure(book: Book) -> go.Figure:
    """Equity above drawdown above exposure, over time."""
    rows, table = thin_bars(len(book.equity)), book.equity
    figure = make_subplots(rows=3, cols=1, shared_xaxes=True, row_heights=[0.5, 0.25, 0.25], vertical_spacing=0.05)
    # a drawdown has no sign anywhere; it hangs down because its axis does
    lines = (("equity", True, ",.0f"), ("drawdown", "reversed", ".1%"), ("exposure", True, ".0%"))
    for place, (name, direction, form) in enumerate(lines, start=1):
        line = {"color": PALETTE[place - 1], "width": 1.6}
        figure.add_scatter(x=table.index[rows], y=table[name].iloc[rows], line=line, row=place, col=1)
        figure.update_yaxes(title=say(f"book.{name}"), tickformat=form, autorange=direction, row=place, col=1)
        figure.update_yaxes(title_standoff=14, automargin=True, row=place, col=1)
    return style_figure(figure, say("book.course"), 480).update_layout(
        showlegend=False, uirevision="equity", margin={"l": 95}
    )


def pnl_figure(pnl: pd.Series) -> go.Figure:
    """Profit and loss by symbol."""
    colours = [PALETTE[0] if gain > 0 else PALETTE[5] for gain in pnl]
    figure = style_figure(go.Figure(go.Bar(x=pnl.index, y=pnl, marker_color=colours)), say("book.pnl"), 320)
    return figure.update_xaxes(type="category").update_layout(uirevision="pnl")
