"""The journal on SQLite and a real PostgreSQL: whole bars or nothing, ids once, a chain, migrations that keep data.

Runs `serving.journal.entries`, `serving.journal.migrations.env`, `serving.journal.migrations.stash`,
`serving.journal.migrations.versions.r0001_journal`, `serving.journal.migrations.versions.r0002_actions`,
`serving.journal.migrations.versions.r0003_target`.
"""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import inspect, text, update

from pacesetter.errors import RunError
from pacesetter.serving.journal.journal import Journal, Page, migrate, tables

START = datetime(2026, 1, 5, 21, tzinfo=UTC)
MONEY = {
    "equity": 1e5,
    "cash": 1e5,
    "exposure": 0.1 + 0.2,
    "drawdown": 0.0,
    "state": "active",
    "vitals": {"drift": 1.5},
}
SPACES = {"discrete": (5.0, -1.0), "continuous": (0.5, 0.25), "target": (None, 0.1)}  # raw, acted on


def page(bar: int, **changes: Any) -> Page:
    decisions = [
        {
            "symbol": space,
            "action_space": space,
            "raw_action": raw,
            "smoothed_action": signal,
            "curiosity_reward": 0.125,
            "option": "wait",
        }
        for space, (raw, signal) in SPACES.items()
    ]
    order = {
        "client_id": f"run-{bar}-A",
        "symbol": "A",
        "quantity": 1.5,
        "price": 10.0,
        "status": "pending",
        "reason": "",
    }
    fill = {"fill_id": f"{bar}", "client_id": f"run-{bar}-A", "symbol": "A", "quantity": 1 / 3, "price": 10.1}
    rows: dict[str, Any] = {
        "decisions": decisions,
        "orders": [order],
        "fills": [fill | {"commission": 0.0, "reason": "order"}],
        "positions": [{"symbol": "A", "quantity": 1.5, "entry_price": 10.1, "price": 10.0}],
        "events": [{"kind": "test", "message": f"bar {bar}"}],
    }
    state = {"bars": bar, "exact": 0.1 + 0.2}
    return Page(START + timedelta(days=bar), state, {"orders": [order]}, MONEY, **(rows | changes))


def test_a_bar_is_written_once_and_comes_back_exactly(url: str) -> None:
    journal = Journal(url, "run")
    assert journal.checkpoint() is None
    assert journal.record(page(0))
    assert not journal.record(page(0))
    assert journal.record(page(1, statuses={"run-0-A": "filled"}))
    assert [row["status"] for row in journal.rows(tables.orders)] == ["filled", "pending"]
    found = journal.checkpoint()
    assert found is not None
    assert (found[0], found[1]["bars"], found[1]["exact"]) == (START + timedelta(days=1), 1, 0.1 + 0.2)
    assert journal.rows(tables.equity)[1] == {"run": "run", "time": START + timedelta(days=1), **MONEY}
    assert journal.holdings() == {"A": 1 / 3 + 1 / 3}
    assert len(journal.rows(tables.decisions)) == 6
    journal.close()


def test_a_client_id_used_twice_writes_nothing_of_the_bar(url: str) -> None:
    journal = Journal(url, "run")
    journal.record(page(0))
    with pytest.raises(RunError, match="nothing was written"):
        journal.record(page(1, orders=page(0).orders))
    found = journal.checkpoint()
    assert found is not None
    assert found[0] == START
    assert len(journal.rows(tables.equity)) == 1
    other = Journal(url, "another run")
    assert other.record(page(0))
    for each in (journal, other):
        each.close()


def test_one_view_shows_discrete_and_continuous_actions_on_one_scale(url: str) -> None:
    journal = Journal(url, "run")
    journal.record(page(0))
    rows = {
        row["action_space"]: (row["order_size"], row["side"], row["option"]) for row in journal.rows(tables.actions)
    }
    expected = {"discrete": (-1.0, "sell", "wait"), "continuous": (0.25, "buy", "wait"), "target": (0.1, None, "wait")}
    assert rows == expected
    journal.close()


def test_the_audit_log_shows_a_changed_a_lost_and_a_cut_record(url: str) -> None:
    journal = Journal(url, "run")
    for bar in range(3):
        journal.record(page(bar))
    journal.set_statuses({"run-2-A": "sent"})
    journal.note("halt", "drill")
    assert journal.verify() == 5
    audit = tables.audit
    with journal.engine.begin() as connection:
        whole = connection.execute(audit.select().order_by(audit.c.sequence)).mappings().all()
        connection.execute(update(audit).where(audit.c.sequence == 1).values(content='{"time":"changed"}'))
    with pytest.raises(RunError, match="broken at record 1"):
        journal.verify()
    for kept in ([0, 2, 3, 4], [0, 1]):
        with journal.engine.begin() as connection:
            connection.execute(audit.delete())
            connection.execute(audit.insert(), [dict(whole[k]) for k in kept])
        with pytest.raises(RunError, match=r"broken at record 1|ends before record 2"):
            journal.verify()
    journal.close()


def test_migrations_up_and_down_keep_every_value(url: str) -> None:
    journal = Journal(url, "run")
    for bar in range(3):
        journal.record(page(bar))
    before = {table.name: journal.rows(table) for table in (*tables.METADATA.sorted_tables, tables.actions)}
    assert migrate(url, "0001") == "0001"
    assert "raw_action" not in {column["name"] for column in inspect(journal.engine).get_columns("decisions")}
    with journal.engine.begin() as connection:
        assert connection.scalar(text("SELECT count(*) FROM decisions")) == 9
    assert migrate(url, "head") == "0003"
    assert {table.name: journal.rows(table) for table in (*tables.METADATA.sorted_tables, tables.actions)} == before
    with pytest.raises(RunError, match="has rows"):
        migrate(url, "base")
    assert len(journal.rows(tables.decisions)) == 9
    journal.close()


def test_the_migrations_make_the_tables_that_the_code_names(url: str) -> None:
    journal = Journal(url, "run")
    with journal.engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), tables.METADATA) == []
    journal.close()
    assert migrate(url, "base") == "base"
    with pytest.raises(RunError, match="cannot be migrated to revision '0009'"):
        migrate(url, "0009")


def test_sqlite_syncs_every_commit(tmp_path: Path) -> None:
    journal = Journal(f"sqlite:///{tmp_path / 'journal.db'}", "run")
    with journal.engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2
    journal.close()


def test_a_database_of_others_is_refused_and_not_touched(tmp_path: Path) -> None:
    file = tmp_path / "mlflow.db"
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE alembic_version (version_num VARCHAR(32))")
        connection.execute("CREATE TABLE experiments (name VARCHAR(32))")
    connection.close()
    before = file.read_bytes()
    with pytest.raises(RunError, match=r"mlflow\.db is not a journal: it has tables like 'experiments'"):
        migrate(f"sqlite:///{file}", "head")
    assert file.read_bytes() == before
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("word", ["nonsense", "paper/journal.db", "mysql://x", "sqlite://", "sqlite:///:memory:", ""])
def test_what_is_no_url_of_a_journal_is_one_sentence(word: str) -> None:
    with pytest.raises(RunError, match="give sqlite:///FILE, with three slashes"):
        Journal(word, "run")


def test_a_journal_that_cannot_be_made_or_read_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no database " * 99)
    with pytest.raises(RunError, match="no journal can be created at /proc/nowhere"):
        Journal("sqlite:////proc/nowhere/journal.db", "run")
    for url, why in ((tmp_path / "text", "file is not a database"), (tmp_path, "unable to open")):
        with pytest.raises(RunError, match=why):
            Journal(f"sqlite:///{url}", "run")


def test_a_password_is_never_in_a_message() -> None:
    with pytest.raises(RunError) as refused:
        Journal("postgresql://me:s3cret@127.0.0.1:1/x", "run")
    assert "s3cret" not in str(refused.value)
