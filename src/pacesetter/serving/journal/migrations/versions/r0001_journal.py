"""The journal: decisions, orders, fills, positions, equity, events, audit, checkpoints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from alembic import op

from pacesetter.errors import RunError
from pacesetter.serving.journal.tables import Moment

revision = "0001"
down_revision = None

Columns = Sequence[tuple[str, Any]]
TABLES = ("decisions", "orders", "fills", "positions", "equity", "events", "audit", "checkpoints")


def upgrade() -> None:
    run, time, symbol = ("run", sa.String(128)), ("time", Moment()), ("symbol", sa.String(64))
    _table("decisions", [run, time, symbol], [("action_space", sa.String(16)), ("smoothed_action", sa.Double())])
    money: list[tuple[str, object]] = [("quantity", sa.Double()), ("price", sa.Double())]
    status = [("status", sa.String(16)), ("reason", sa.String(64))]
    _table("orders", [run, ("client_id", sa.String(128))], [time, symbol, *money, *status])
    paid = [("commission", sa.Double()), ("reason", sa.String(64))]
    _table("fills", [run, ("fill_id", sa.String(160))], [time, symbol, *money, *paid], [("client_id", sa.String(128))])
    _table("positions", [run, time, symbol], [*money, ("entry_price", sa.Double())])
    measures: list[tuple[str, object]] = [(name, sa.Double()) for name in ("equity", "cash", "exposure", "drawdown")]
    _table("equity", [run, time], [*measures, ("state", sa.String(16)), ("vitals", sa.JSON())])
    _table("events", [("event_id", sa.Integer())], [run, time, ("kind", sa.String(32)), ("message", sa.Text())])
    links = [("kind", sa.String(32)), ("content", sa.Text()), ("hash", sa.String(64))]
    _table("audit", [run, ("sequence", sa.Integer())], links)
    _table("checkpoints", [run], [time, ("state", sa.JSON())])
    for table in ("orders", "fills", "events"):
        op.create_index(f"ix_{table}_run_time", table, ["run", "time"])


def downgrade() -> None:
    connection = op.get_bind()
    for table in TABLES:
        if connection.execute(sa.text(f"SELECT 1 FROM {table} LIMIT 1")).first():
            raise RunError(f"the journal's table '{table}' has rows; keep revision 0001, or use an empty database")
    for table in TABLES:
        op.drop_table(table)


def _table(name: str, keys: Columns, needed: Columns, free: Columns = ()) -> None:
    """Create a table of (name, type) columns: keys, those that are always filled, and those that may be empty."""
    columns: list[Any] = [sa.Column(column, kind, primary_key=True) for column, kind in keys]
    columns += [sa.Column(column, kind, nullable=False) for column, kind in needed]
    op.create_table(name, *columns, *(sa.Column(column, kind) for column, kind in free))
