"""Whether an order was sent as a market or as a limit order; empty in rows of earlier versions, whose hashes stay."""

from __future__ import annotations

import sqlalchemy as sa

from pacesetter.serving.journal.migrations.stash import add_columns, drop_columns
from pacesetter.serving.journal.migrations.versions.r0004_pnl import make_view

revision = "0005"
down_revision = "0004"

KEYS = ("run", "client_id")
STASH = "orders_0005"
# A symbol has one order a bar at most; MAX is there for SQL, which wants one value.
KIND = "(SELECT MAX(o.kind) FROM orders o WHERE o.run = d.run AND o.time = d.time AND o.symbol = d.symbol)"


def upgrade() -> None:
    add_columns("orders", KEYS, [sa.Column("kind", sa.String(16), nullable=True)], STASH)
    make_view(f", {KIND} AS order_kind")


def downgrade() -> None:
    make_view()
    drop_columns("orders", KEYS, ["kind"], STASH)
