"""`action=weights` is called `target` from here on: in the view over all action spaces neither has a side."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

TARGETS, OLD_TARGETS = "IN ('target', 'weights')", "= 'weights'"


def upgrade() -> None:
    make_view(TARGETS)


def downgrade() -> None:
    make_view(OLD_TARGETS)


def make_view(targets: str) -> None:
    """The view of revision 0002, in which an action space among `targets` has no side."""
    side = f"WHEN action_space {targets} THEN NULL WHEN smoothed_action > 0 THEN 'buy' WHEN smoothed_action < 0"
    op.execute(sa.text("DROP VIEW actions"))
    op.execute(
        sa.text(
            "CREATE VIEW actions AS SELECT run, time, symbol, action_space, smoothed_action AS order_size, "
            f"CASE {side} THEN 'sell' ELSE 'hold' END AS side, option FROM decisions"
        )
    )
