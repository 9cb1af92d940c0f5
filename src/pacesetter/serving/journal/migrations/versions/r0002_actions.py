"""Continuous actions: the raw action, curiosity and option of a decision, and one view over all action spaces."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

from pacesetter.serving.journal.migrations.stash import add_columns, drop_columns

revision = "0002"
down_revision = "0001"

KEYS = ("run", "time", "symbol")
STASH = "decisions_0002"
COLUMNS = ("raw_action", "curiosity_reward", "option")


def upgrade() -> None:
    kinds: tuple[Any, ...] = (sa.Double(), sa.Double(), sa.String(64))
    added = [sa.Column(name, kind, nullable=True) for name, kind in zip(COLUMNS, kinds, strict=True)]
    add_columns("decisions", KEYS, added, STASH)
    target = "WHEN action_space = 'weights' THEN NULL"
    side = f"{target} WHEN smoothed_action > 0 THEN 'buy' WHEN smoothed_action < 0 THEN 'sell'"
    op.execute(
        sa.text(
            "CREATE VIEW actions AS SELECT run, time, symbol, action_space, smoothed_action AS order_size, "
            f"CASE {side} ELSE 'hold' END AS side, option FROM decisions"
        )
    )


def downgrade() -> None:
    op.execute(sa.text("DROP VIEW actions"))
    drop_columns("decisions", KEYS, COLUMNS, STASH)
