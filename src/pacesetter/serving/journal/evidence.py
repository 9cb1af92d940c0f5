"""What the audit log says of the other tables: a hash of each table's rows of a bar, and of the state behind them.

Rows that were changed, lost or added by hand then differ from the chain, which cannot be changed without showing.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import JSON, Double, Table

from pacesetter.errors import RunError
from pacesetter.serving.journal import tables

__all__ = ["HASHED", "bar_evidence", "check_rows", "check_state", "state_hash"]

Row = Mapping[str, Any]
HASHED = (tables.decisions, tables.orders, tables.fills, tables.positions, tables.equity)
LEFT_OUT = {  # who wrote it and when is in the record; a status moves on; vitals are how long things took
    *("run", "time", "status", "vitals"),
}
FREE_STATE = ("audit", "watch")  # of a stored state: its place in the chain, and which alerts were sent when
EMPTY = (None, "")


def bar_evidence(rows: Mapping[str, Sequence[Row]], statuses: Row, state: Row) -> dict[str, object]:
    """What the record of a bar keeps of its rows, of the orders that it places or moves on, and of its state."""
    return {
        "rows": {table.name: _digest(table, rows.get(table.name, ())) for table in HASHED},
        "placed": {row["client_id"]: str(row["status"]) for row in rows.get("orders", ())},
        "statuses": {client_id: str(status) for client_id, status in statuses.items()},
        "events": [[row["kind"], row["message"]] for row in rows.get("events", ())],
        "state_hash": state_hash(state),
    }


def state_hash(state: Row) -> str:
    """Hex SHA-256 of a state as it is stored: books, guard and bars."""
    kept = {name: value for name, value in state.items() if name not in FREE_STATE}
    # Through JSON and back, because the state is hashed before it is stored and again after it was read.
    return hashlib.sha256(json.dumps(json.loads(json.dumps(kept)), sort_keys=True).encode()).hexdigest()


def check_rows(records: Sequence[Row], stored: Mapping[str, Sequence[Row]]) -> int:
    """How many bars of the tables `stored` are as the audit `records` say; refuses the first row that is not.

    Records of an earlier version say nothing of other tables: what was written before the first that does is not looked
    at, and not counted.
    """
    recorded = [(row["kind"], json.loads(row["content"])) for row in records]
    # Records of older versions have no hashes of rows; only a chain that has them throughout can show additions.
    bars = {content["time"]: content for kind, content in recorded if kind == "bar" and "rows" in content}
    is_whole = len(bars) == sum(kind == "bar" for kind, _ in recorded)
    for table in HASHED:
        _check_table(table, stored[table.name], bars, is_whole)
    if is_whole:
        _check_statuses(recorded, stored["orders"])
        _check_events(recorded, stored["events"])
    return len(bars)


def check_state(records: Sequence[Row], state: Row) -> None:
    """Refuse a state other than the one that the newest bar's record names."""
    bars = [json.loads(row["content"]) for row in records if row["kind"] == "bar"]
    if bars and "state_hash" in bars[-1] and bars[-1]["state_hash"] != state_hash(state):
        raise RunError(f"the last state is not the one of bar {bars[-1]['time']} in the audit log; {REMEDY}")


# ---- tables ---------------------------------------------------------------------------------------------------------

REMEDY = "it was changed by hand, so continue from a copy of the journal"


def _check_table(table: Table, rows: Sequence[Row], bars: Mapping[str, Row], is_whole: bool) -> None:
    by_bar: dict[str, list[Row]] = {}
    for row in rows:
        by_bar.setdefault(_moment(row["time"]), []).append(row)
    for time, content in bars.items():
        if content["rows"][table.name] != _digest(table, by_bar.get(time, ())):
            raise RunError(f"the journal's {table.name} of bar {time} are not those of the audit log; {REMEDY}")
    added = sorted(set(by_bar) - set(bars)) if is_whole else []
    if added:
        raise RunError(f"the journal has {table.name} of {added[0]}, a bar that the audit log does not know; {REMEDY}")


def _check_statuses(recorded: Iterable[tuple[str, Any]], orders: Sequence[Row]) -> None:
    """Hold each order's status against all that was ever said of it."""
    expected: dict[str, str] = {}
    for kind, content in recorded:
        if kind == "bar":
            expected |= content["placed"]
        moved = content["statuses"] if kind == "bar" else content if kind == "statuses" else {}
        # In the order of the chain: the last word on an order counts.
        expected |= {client_id: status for client_id, status in moved.items() if client_id in expected}
    for row in orders:
        if expected.get(row["client_id"]) != row["status"]:
            raise RunError(
                f"order {row['client_id']} is '{row['status']}' in the journal, and "
                f"'{expected.get(row['client_id'])}' in the audit log; {REMEDY}"
            )


def _check_events(recorded: Iterable[tuple[str, Any]], events: Sequence[Row]) -> None:
    expected: Counter[tuple[object, ...]] = Counter()
    for kind, content in recorded:
        if kind == "event":
            expected[_moment(datetime.fromisoformat(content["time"])), content["kind"], content["message"]] += 1
        for name, message in content["events"] if kind == "bar" else ():
            expected[content["time"], name, message] += 1
    counts: Counter[tuple[Any, ...]] = Counter((_moment(row["time"]), row["kind"], row["message"]) for row in events)
    if counts != expected:
        odd = next(iter((counts - expected) + (expected - counts)))
        raise RunError(f"the journal's event '{odd[1]}' at {odd[0]} is not as in the audit log; {REMEDY}")


def _moment(time: datetime) -> str:
    return time.isoformat()


def _digest(table: Table, rows: Iterable[Row]) -> str:
    """Hex SHA-256 of rows in any order, alike before they are written and after they are read from any database."""
    lines = sorted(json.dumps(_hashed_columns(table, row), sort_keys=True) for row in rows)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _hashed_columns(table: Table, row: Row) -> dict[str, object]:
    """What is filled in: a column that a later revision adds, empty in older rows, changes no hash."""
    values = {column.name: _value(column, row.get(column.name)) for column in table.columns}
    return {name: value for name, value in values.items() if name not in LEFT_OUT and value not in EMPTY}


def _value(column: Any, value: Any) -> object:
    if value is None:
        return None
    if isinstance(column.type, Double):
        return float(value) + 0.0  # SQLite keeps no sign of a zero
    return value if isinstance(column.type, JSON) else str(value)
