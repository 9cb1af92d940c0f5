"""The journal's tables, as the newest migration leaves them. Every row names its run; times are UTC."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import JSON, Column, DateTime, Double, Index, Integer, MetaData, String, Table, Text
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator

__all__ = [
    "METADATA",
    "Moment",
    "actions",
    "audit",
    "checkpoints",
    "decisions",
    "equity",
    "events",
    "fills",
    "orders",
    "positions",
]

METADATA = MetaData()


class Moment(TypeDecorator[datetime]):
    """A UTC moment to the microsecond; SQLite, which knows no zones, keeps it without."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> datetime | None:
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        # PostgreSQL answers in the session's zone, SQLite in none.
        return None if value is None else value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def _run() -> Column[str]:
    return Column("run", String(128), primary_key=True)


def _time(is_key: bool = True) -> Column[datetime]:
    return Column("time", Moment, primary_key=is_key, nullable=False)


def _symbol(is_key: bool = True) -> Column[str]:
    return Column("symbol", String(64), primary_key=is_key, nullable=False)


def _number(name: str, nullable: bool = False) -> Column[float]:
    return Column(name, Double, nullable=nullable)


decisions = Table(
    "decisions",
    METADATA,
    _run(),
    _time(),
    _symbol(),
    Column("action_space", String(16), nullable=False),  # discrete, continuous, hybrid, target (was weights)
    _number("raw_action", nullable=True),  # as the policy gave it; none leaves the symbol as it is
    _number("smoothed_action"),  # as it was acted on
    _number("curiosity_reward", nullable=True),
    Column("option", String(64)),
)

orders = Table(
    "orders",
    METADATA,
    _run(),
    Column("client_id", String(128), primary_key=True),
    _time(is_key=False),
    _symbol(is_key=False),
    _number("quantity"),
    _number("price"),
    Column("status", String(16), nullable=False),
    Column("reason", String(64), nullable=False, default=""),  # of a denial
    Column("kind", String(16)),  # market, limit or stop; empty in rows of earlier versions
)

fills = Table(
    "fills",
    METADATA,
    _run(),
    Column("fill_id", String(160), primary_key=True),
    Column("client_id", String(128)),  # none where a stop or a loss limit acted by itself
    _time(is_key=False),
    _symbol(is_key=False),
    _number("quantity"),
    _number("price"),
    _number("commission"),
    Column("reason", String(64), nullable=False),
)

positions = Table(
    "positions",
    METADATA,
    _run(),
    _time(),
    _symbol(),
    _number("quantity"),
    _number("entry_price"),
    _number("price"),
)

equity = Table(
    "equity",
    METADATA,
    _run(),
    _time(),
    _number("equity"),
    _number("cash"),
    _number("exposure"),
    _number("drawdown"),
    Column("state", String(16), nullable=False),
    Column("vitals", JSON, nullable=False),
)

events = Table(
    "events",
    METADATA,
    Column("event_id", Integer, primary_key=True, autoincrement=True),
    Column("run", String(128), nullable=False),
    _time(is_key=False),
    Column("kind", String(32), nullable=False),
    Column("message", Text, nullable=False),
)

audit = Table(
    "audit",
    METADATA,
    _run(),
    Column("sequence", Integer, primary_key=True, autoincrement=False),
    Column("kind", String(32), nullable=False),
    Column("content", Text, nullable=False),  # canonical JSON, as it was hashed
    Column("hash", String(64), nullable=False),
)

checkpoints = Table(
    "checkpoints",
    METADATA,
    _run(),
    _time(is_key=False),
    Column("state", JSON, nullable=False),
)

for _table in (orders, fills, events):
    Index(f"ix_{_table.name}_run_time", _table.c.run, _table.c.time)

# The view of all action spaces on one scale; made by a migration, so not part of METADATA.
actions = Table(
    "actions",
    MetaData(),
    _run(),
    _time(),
    _symbol(),
    Column("action_space", String(16)),
    _number("order_size"),  # in [-1, 1]: what a discrete order stands for, the smoothed order, or the weight
    Column("side", String(8)),  # buy, hold inside ±0.1, sell; a weight is a target and has none
    Column("option", String(64)),
    _number("quantity"),  # held after the bar
    _number("unrealised_pnl"),  # of what is held, against its mean entry price
    _number("pnl"),  # of the symbol since the run began, after commissions
    Column("order_kind", String(16)),  # market or limit, where the bar had an order; not the stop of what is held
)
