"""The journal on SQLite and a real PostgreSQL: whole bars or nothing, ids once, a chain, migrations that keep data.

Runs `serving.journal.entries`, `serving.journal.migrations.env`, `serving.journal.migrations.stash`,
`serving.journal.migrations.versions.r0001_journal`, `serving.journal.migrations.versions.r0002_actions`,
`serving.journal.migrations.versions.r0003_target`, `serving.journal.migrations.versions.r0004_pnl`,
`serving.journal.migrations.versions.r0005_order_kind`, `serving.journal.migrations.versions.r0006_stops`,
`serving.journal.evidence`, `serving.journal.actions`.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
import typer
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import event, inspect, make_url, text, update
from typer.testing import CliRunner

from pacesetter.cli.paper import register
from pacesetter.errors import RunError
from pacesetter.serving.bundle.signature import SigningKey
from pacesetter.serving.journal.heads import Heads
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
# Of the order of `page(0)`, as a version at revision 0004 wrote it: without a kind.
ORDERS_AT_0004 = "1713b3b1d01e8df3b543094852f535dd3bd6687ef8813339e3496b710da6e989"
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
        "kind": "limit",
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


def test_the_view_holds_inside_the_hold_zone_and_adds_up_what_was_earned(url: str) -> None:
    journal = Journal(url, "run")
    signals = {"discrete": -0.1, "continuous": 0.05, "target": 0.5}
    decisions = [{**row, "smoothed_action": signals[row["symbol"]]} for row in page(0).decisions]
    held = [{"symbol": "continuous", "quantity": 10.0, "entry_price": 5.0, "price": 6.0}]
    fill = {"fill_id": "f", "client_id": None, "symbol": "continuous", "quantity": 10.0, "price": 5.0}
    fills = [fill | {"commission": 2.0, "reason": "order"}]
    journal.record(page(0, decisions=decisions, positions=held, fills=fills))
    rows = {row["symbol"]: row for row in journal.rows(tables.actions)}
    assert {symbol: row["side"] for symbol, row in rows.items()} == {
        "discrete": "sell",
        "continuous": "hold",
        "target": None,
    }
    own = rows["continuous"]
    assert (own["quantity"], own["unrealised_pnl"], own["pnl"]) == (10.0, 10.0, 8.0)
    from pacesetter.cli import app

    said = CliRunner().invoke(app, ["journal", "show", url], catch_exceptions=False).output
    assert "+8.00" in said
    journal.close()


def test_the_kind_of_an_order_is_shown_and_part_of_the_chain(url: str) -> None:
    from pacesetter.cli import app

    journal = Journal(url, "run")
    decisions = [{**row, "symbol": symbol} for row, symbol in zip(page(0).decisions, "ABC", strict=True)]
    journal.record(page(0, decisions=decisions))
    kinds = {row["symbol"]: row["order_kind"] for row in journal.rows(tables.actions)}
    assert kinds == {"A": "limit", "B": None, "C": None}
    wide = CliRunner(env={"COLUMNS": "120"})
    lines = wide.invoke(app, ["journal", "show", url], catch_exceptions=False).output.splitlines()
    assert ["limit" in line for line in lines if "2026-01-05" in line] == [True, False, False]
    with journal.engine.begin() as connection:
        connection.execute(update(tables.orders).values(kind="market"))
    with pytest.raises(RunError, match="orders of bar"):
        journal.verify()
    journal.close()


def test_a_journal_of_an_earlier_revision_is_upgraded_and_stays_whole(url: str) -> None:
    """Its orders have no kind; their hash is the one that the earlier version wrote."""
    journal = Journal(url, "run")
    order = {name: value for name, value in page(0).orders[0].items() if name != "kind"}
    journal.record(page(0, orders=[order]))
    content = json.loads(journal.rows(tables.audit)[0]["content"])
    assert content["rows"]["orders"] == ORDERS_AT_0004
    assert migrate(url, "0004") == "0004"
    assert "kind" not in {column["name"] for column in inspect(journal.engine).get_columns("orders")}
    journal.close()
    upgraded = Journal(url, "run")
    assert upgraded.verify() == 1
    assert [row["kind"] for row in upgraded.rows(tables.orders)] == [None]
    assert upgraded.record(page(1))
    assert upgraded.verify() == 2
    assert [row["kind"] for row in upgraded.rows(tables.orders)] == [None, "limit"]
    upgraded.close()


@contextmanager
def after_each_select(journal: Journal, act: Callable[[], object]) -> Iterator[None]:
    """Act between the readings of a journal, as a process beside it may at any moment."""

    def acted(connection: Any, cursor: Any, statement: str, *more: Any) -> None:
        if statement.lstrip().startswith("SELECT"):
            act()

    event.listen(journal.engine, "after_cursor_execute", acted)
    yield
    event.remove(journal.engine, "after_cursor_execute", acted)


def test_verifying_beside_a_trader_sees_one_moment_and_stops_no_write(url: str) -> None:
    trader, reader = whole_journal(url), Journal(url, "run")
    written = [3]

    def trade() -> None:
        bar = written[0]
        assert trader.record(page(bar))
        trader.set_statuses({f"run-{bar}-A": "sent"})
        trader.note("feed", f"bar {bar}")
        written[0] += 1

    with after_each_select(reader, trade):
        assert reader.verify() == 5
    assert written[0] > 8  # a bar was written after each table was read
    assert reader.verify() == trader.verify() == 5 + 3 * (written[0] - 3)
    for journal in (trader, reader):
        journal.close()


def test_a_head_that_is_signed_while_a_journal_is_verified_is_not_missed(url: str, tmp_path: Path) -> None:
    path, key = tmp_path / "heads.jsonl", SigningKey("0f" * 32)
    trader, reader = whole_journal(url, heads=Heads(path, key)), Journal(url, "run", Heads(path, key))
    bars = iter(range(3, 99))
    with after_each_select(reader, lambda: trader.record(page(next(bars)))):
        assert reader.verify() == 5
    assert len(path.read_text().splitlines()) > 8
    for journal in (trader, reader):
        journal.close()


def test_opening_a_journal_that_is_up_to_date_waits_for_no_writer(url: str) -> None:
    trader = whole_journal(url)
    with trader._writing() as connection:
        trader._audit(connection, "statuses", {"run-2-A": "filled"})
        reader = Journal(url, "run")
        assert reader.verify() == 5
        reader.close()
    trader.close()


def test_a_locked_journal_is_written_to_once_it_is_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lock goes when the journal says that it tries again: the first try has failed then, whatever the clock."""
    monkeypatch.setattr("pacesetter.serving.journal.journal.BUSY_SECONDS", 0.05)
    journal = whole_journal(f"sqlite:///{tmp_path / 'journal.db'}")
    other = sqlite3.connect(tmp_path / "journal.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    monkeypatch.setattr(
        "pacesetter.serving.journal.journal.log", SimpleNamespace(warning=lambda *words: other.execute("COMMIT"))
    )
    assert journal.record(page(3))
    other.execute("BEGIN IMMEDIATE")
    monkeypatch.setattr("pacesetter.serving.journal.journal.log", SimpleNamespace(warning=lambda *words: None))
    with pytest.raises(RunError, match="database is locked"):
        journal.record(page(4))
    other.close()
    assert journal.verify() == 6
    journal.close()


def test_two_hold_a_run_one_after_the_other(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, other = Journal(url, "run"), Journal(url, "run"), Journal(url, "another run")
    with first.hold(), other.hold():
        assert first.record(page(0))
        with monkeypatch.context() as hurried:
            hurried.setattr("pacesetter.serving.journal.journal.HOLD_SECONDS", 0.01)
            with pytest.raises(RunError, match=r"is in use by|trades run 'run'"):
                second.hold().__enter__()
        assert first.record(page(1))
    with second.hold():
        assert second.record(page(2))
    for journal in (first, second, other):
        assert journal.verify() == (0 if journal is other else 3)
        journal.close()


def test_who_takes_over_waits_for_a_commit_that_a_killed_process_left_to_the_server(postgres: str) -> None:
    killed, heir = Journal(postgres, "run"), Journal(postgres, "run")

    def take_over() -> list[str]:
        with heir.hold():
            return [row["kind"] for row in heir.rows(tables.audit)]

    with ThreadPoolExecutor(1) as thread:
        with killed.hold(), killed._writing() as connection:
            killed._audit(connection, "statuses", {"a": "filled"})
            found = thread.submit(take_over)
            waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
            with psycopg.connect(postgres, autocommit=True) as look:
                while not look.execute(waiting).fetchone()[0]:  # type: ignore[index]
                    assert not found.done()  # it would resume from what is not the end
        assert found.result(60) == ["statuses"]
    for journal in (killed, heir):
        journal.close()


def test_a_trader_whose_lock_the_server_ended_writes_no_more(postgres: str) -> None:
    journal = Journal(postgres, "run")
    with journal.hold():
        assert journal.record(page(0))
        with psycopg.connect(postgres, autocommit=True) as other:
            other.execute(
                "SELECT pg_terminate_backend(pid, 60000) FROM pg_locks WHERE locktype = 'advisory' AND granted"
            )
        with pytest.raises(RunError, match="nothing was written"):
            journal.record(page(1))
    assert journal.verify() == 1
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


def whole_journal(url: str, **options: Any) -> Journal:
    """Three bars, an order that moved on twice, a note."""
    journal = Journal(url, "run", **options)
    for bar in range(3):
        journal.record(page(bar, statuses={f"run-{bar - 1}-A": "filled"} if bar else {}))
    journal.set_statuses({"run-2-A": "sent"})
    journal.note("halt", "drill", START)
    return journal


FORGERIES = {
    "a fill's price": "UPDATE fills SET price = 9.5 WHERE fill_id = '1'",
    "a lost fill": "DELETE FROM fills WHERE fill_id = '1'",
    "an added fill": "INSERT INTO fills SELECT run, 'new', time, symbol, quantity, price, commission, reason, client_id"
    " FROM fills WHERE fill_id = '1'",
    "equity": "UPDATE equity SET equity = 2e5 WHERE state = 'active'",
    "cash": "UPDATE equity SET cash = 1.0",
    "a lost bar of equity": "DELETE FROM equity",
    "a decision": "UPDATE decisions SET raw_action = 1.0 WHERE symbol = 'discrete'",
    "an order's quantity": "UPDATE orders SET quantity = 2.5 WHERE client_id = 'run-0-A'",
    "an order's status": "UPDATE orders SET status = 'cancelled' WHERE client_id = 'run-0-A'",
    "the last order's status": "UPDATE orders SET status = 'filled' WHERE client_id = 'run-2-A'",
    "a position": "UPDATE positions SET quantity = 0.5",
    "an event": "UPDATE events SET message = 'nothing' WHERE kind = 'halt'",
    "a lost event": "DELETE FROM events WHERE kind = 'halt'",
    "a lost checkpoint": "DELETE FROM checkpoints",
    "a lost audit log": "DELETE FROM audit",
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_rows_that_were_changed_lost_or_added_by_hand_are_refused(url: str, forgery: str) -> None:
    journal = whole_journal(url)
    assert journal.verify() == 5
    with journal.engine.begin() as connection:
        assert connection.execute(text(FORGERIES[forgery])).rowcount > 0
    with pytest.raises(RunError):
        journal.verify()
    journal.close()


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE checkpoints SET state = '{'",
        "UPDATE checkpoints SET state = '[]'",
        "UPDATE checkpoints SET state = 'null'",
        "UPDATE checkpoints SET time = 'yesterday'",
        "UPDATE equity SET vitals = 'x'",
        "UPDATE fills SET time = ''",
        "UPDATE fills SET quantity = 'many'",
        "UPDATE orders SET symbol = x'ff'",
        "UPDATE events SET message = x'ff', time = '2026'",
        "UPDATE audit SET content = 'x'",
        "UPDATE audit SET hash = x'00'",
    ],
)
def test_a_text_that_cannot_be_read_is_one_sentence(tmp_path: Path, damage: str) -> None:
    journal = whole_journal(f"sqlite:///{tmp_path / 'journal.db'}")
    with journal.engine.begin() as connection:
        assert connection.execute(text(damage)).rowcount > 0
    with pytest.raises(RunError, match=r"^[^\n]+$"):
        journal.verify()
    journal.close()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"exact": 0.5}, "not the one of bar"),
        ({"audit": None}, "names no audit record"),
        ({"audit": [7, "0"]}, "ends before record 7"),
        ({"audit": [-1, "0"]}, "ends before record -1"),
    ],
)
def test_a_state_other_than_the_last_bars_is_refused(url: str, change: dict[str, Any], why: str) -> None:
    journal = whole_journal(url)
    found = journal.checkpoint()
    assert found is not None
    for state in ({**found[1], **change}, {k: v for k, v in found[1].items() if k not in change}):
        with journal.engine.begin() as connection:
            connection.execute(update(tables.checkpoints).values(state=state))
        with pytest.raises(RunError, match=f"{why}|names no audit record|not the one of bar"):
            journal.verify()
    journal.close()


def test_bars_of_an_earlier_version_are_taken_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as earlier:
        earlier.setattr("pacesetter.serving.journal.journal.bar_evidence", lambda *given: {})
        journal = whole_journal(f"sqlite:///{tmp_path / 'journal.db'}")
    assert journal.record(page(3))
    assert journal.verify() == 6
    with journal.engine.begin() as connection:
        connection.execute(text("UPDATE fills SET price = 9.5 WHERE fill_id = '3'"))
    with pytest.raises(RunError, match="fills of bar 2026-01-08"):
        journal.verify()
    journal.close()


def test_a_journal_that_was_written_anew_differs_from_its_signed_heads(tmp_path: Path) -> None:
    key, path = SigningKey("0f" * 32), tmp_path / "heads.jsonl"
    journal = whole_journal(f"sqlite:///{tmp_path / 'journal.db'}", heads=Heads(path, key))
    assert len(path.read_text().splitlines()) == 3  # a bar a day
    assert journal.verify() == 5
    journal.close()
    again = Journal(f"sqlite:///{tmp_path / 'other.db'}", "run", Heads(path, key))
    again.record(page(0))
    with pytest.raises(RunError, match="has not record 1 that was signed on 2026-01-06"):
        again.verify()
    again.close()
    forged = json.loads(path.read_text().splitlines()[0]) | {"hash": "0" * 64}
    path.write_text(json.dumps(forged) + "\n")
    heads = Heads(path, key)
    with pytest.raises(RunError, match="is not signed by this key"):
        heads.check("run", heads.read("run"), [])
    path.write_text("{")
    with pytest.raises(RunError, match=r"heads\.jsonl is damaged"):
        Heads(path, key)


def test_a_new_book_whose_pages_did_not_reach_its_file_is_not_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that fails while SQLite moves them from its log: what is in the log would be lost with it."""
    held: list[sqlite3.Connection] = []

    def unfinished(url: str, revision: str) -> str:
        reached = migrate(url, revision)
        held.append(sqlite3.connect(make_url(url).database or ""))
        held[0].execute("CREATE TABLE more (x)")
        held[0].commit()
        return reached

    monkeypatch.setattr("pacesetter.serving.journal.journal.migrate", unfinished)
    with pytest.raises(RunError, match=r"no journal can be made at .*journal\.db \(Input/output error\)"):
        Journal(f"sqlite:///{tmp_path / 'journal.db'}", "run")
    held[0].close()
    assert not (tmp_path / "journal.db").exists()


def test_an_empty_file_is_no_new_book(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    path.touch()
    with pytest.raises(RunError, match=r"is empty: the journal in it was lost; restore a copy"):
        Journal(f"sqlite:///{path}", "run")
    assert path.stat().st_size == 0
    path.unlink()
    Journal(f"sqlite:///{path}", "run").close()
    assert [each.name for each in tmp_path.iterdir()] == ["journal.db"]


def test_the_command_line_verifies(tmp_path: Path) -> None:
    url, key, heads = f"sqlite:///{tmp_path / 'journal.db'}", tmp_path / "key", tmp_path / "heads.jsonl"
    key.write_text("0f" * 32)
    journal = whole_journal(url, heads=Heads(heads, SigningKey("0f" * 32)))
    app = typer.Typer()
    register(app)
    plain = CliRunner().invoke(app, ["journal", "verify", url])
    assert (plain.exit_code, "run 'run' is whole: 5 audit records" in plain.output) == (0, True)
    assert "NO SIGNED HEAD WAS CHECKED" in plain.output
    signed = ["journal", "verify", url, "--key", str(key), "--heads", str(heads)]
    assert "NO SIGNED" not in CliRunner().invoke(app, signed).output
    with journal.engine.begin() as connection:
        connection.execute(text("UPDATE equity SET cash = 1.0"))
    assert "equity of bar" in str(CliRunner().invoke(app, signed).exception)
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
    assert migrate(url, "head") == "0006"
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
