"""The view over all actions holds inside ±0.1, the market's hold zone, and has what each symbol holds and earned."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from pacesetter.serving.journal.migrations.versions.r0003_target import TARGETS
from pacesetter.serving.journal.migrations.versions.r0003_target import make_view as make_old_view

revision = "0004"
down_revision = "0003"

HOLD_ZONE = 0.1


def upgrade() -> None:
    make_view()


def downgrade() -> None:
    make_old_view(TARGETS)


def make_view(more: str = "") -> None:
    """The view in place of an older one; `more` are further columns, each begun by a comma."""
    side = (
        f"CASE WHEN d.action_space {TARGETS} THEN NULL WHEN d.smoothed_action >= {HOLD_ZONE} THEN 'buy' "
        f"WHEN d.smoothed_action <= -{HOLD_ZONE} THEN 'sell' ELSE 'hold' END"
    )
    # Money that went into the symbol so far, commissions included; what it is worth now, less that, was earned.
    spent = (
        "SELECT SUM(f.quantity * f.price + f.commission) FROM fills f "
        "WHERE f.run = d.run AND f.symbol = d.symbol AND f.time <= d.time"
    )
    op.execute(sa.text("DROP VIEW actions"))
    op.execute(
        sa.text(
            "CREATE VIEW actions AS SELECT d.run, d.time, d.symbol, d.action_space, "
            f"d.smoothed_action AS order_size, {side} AS side, d.option, "
            "COALESCE(p.quantity, 0) AS quantity, "
            "COALESCE(p.quantity * (p.price - p.entry_price), 0) AS unrealised_pnl, "
            f"COALESCE(p.quantity * p.price, 0) - COALESCE(({spent}), 0) AS pnl{more} "
            "FROM decisions d LEFT JOIN positions p ON p.run = d.run AND p.time = d.time AND p.symbol = d.symbol"
        )
    )
