"""Columns that an older journal lacks are kept aside by a downgrade and restored by an upgrade."""

from __future__ import annotations

from collections.abc import Sequence

from alembic import op
from sqlalchemy import Column, inspect, text

__all__ = ["add_columns", "drop_columns"]


def add_columns(table: str, keys: Sequence[str], columns: Sequence[Column[object]], stash: str) -> None:
    """Add the columns, filled from `stash` where an earlier downgrade left one."""
    for column in columns:
        op.add_column(table, column)
    connection = op.get_bind()
    if inspect(connection).has_table(stash):
        same = " AND ".join(f"{stash}.{key} = {table}.{key}" for key in keys)
        for column in columns:
            values = f"SELECT {column.name} FROM {stash} WHERE {same}"
            connection.execute(text(f"UPDATE {table} SET {column.name} = ({values})"))
        op.drop_table(stash)


def drop_columns(table: str, keys: Sequence[str], columns: Sequence[str], stash: str) -> None:
    """Drop the columns, their content kept in the table `stash`."""
    # Copied before anything is dropped: a way down and up again loses nothing.
    op.execute(text(f"CREATE TABLE {stash} AS SELECT {', '.join([*keys, *columns])} FROM {table}"))
    for column in columns:
        op.drop_column(table, column)
