"""The view over all actions shows the kind of the order that was decided, not of the stop that rests beside it."""

from __future__ import annotations

from pacesetter.serving.journal.migrations.versions.r0004_pnl import make_view
from pacesetter.serving.journal.migrations.versions.r0005_order_kind import KIND as EARLIER_KIND

revision = "0006"
down_revision = "0005"

# A symbol has one decided order a bar at most; MAX is there for SQL, which wants one value.
KIND = (
    "(SELECT MAX(o.kind) FROM orders o "
    "WHERE o.run = d.run AND o.time = d.time AND o.symbol = d.symbol AND o.kind <> 'stop')"
)


def upgrade() -> None:
    make_view(f", {KIND} AS order_kind")


def downgrade() -> None:
    make_view(f", {EARLIER_KIND} AS order_kind")
