"""The journal: what was seen, decided, ordered and filled, one transaction a bar, in SQLite or PostgreSQL.

A bar is written as one `Page` before anything is sent, so that a process that dies at any moment left either the whole
bar or nothing of it. Writing a page again changes nothing.
"""

from __future__ import annotations

import errno
import hashlib
import logging
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import (
    URL,
    Connection,
    Engine,
    NullPool,
    Table,
    create_engine,
    event,
    func,
    insert,
    inspect,
    make_url,
    select,
    text,
    update,
)
from sqlalchemy.exc import ArgumentError, DBAPIError, OperationalError, SQLAlchemyError

from pacesetter.errors import RunError
from pacesetter.locks import hold
from pacesetter.serving.journal import tables
from pacesetter.serving.journal.chain import GENESIS, canonical_json, link, verify
from pacesetter.serving.journal.evidence import HASHED, bar_evidence, check_rows, check_state
from pacesetter.serving.journal.heads import Heads

__all__ = ["Journal", "Page", "check_there", "journal_runs", "journal_url", "migrate", "stored_state"]

MIGRATIONS = "pacesetter.serving.journal:migrations"
KEPT_AT_BASE = {"alembic_version", "decisions_0002", "orders_0005"}  # what the way down leaves
PRAGMAS = ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON")
BUSY_SECONDS, BUSY_TRIES = 5.0, 6  # that a SQLite write waits for another one, and how often before it is refused
LOCK_NOT_AVAILABLE = "55P03"  # PostgreSQL's code of a lock that was waited for in vain
HOLD_SECONDS = 5.0  # that a start waits for PostgreSQL to end the session of a trader that was killed
SNAPSHOT: dict[str, dict[str, object]] = {  # of each database: options of a transaction that reads one moment
    "sqlite": {"reading": True},
    "postgresql": {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True},
}
Row = Mapping[str, Any]
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Page:
    """All rows of one bar, without `run` and `time`, and the state to resume from.

    statuses   client id -> where orders of earlier bars ended
    content    what the audit log keeps of the bar
    """

    time: datetime
    state: Row
    content: Row
    equity: Row
    decisions: Sequence[Row] = ()
    orders: Sequence[Row] = ()
    fills: Sequence[Row] = ()
    positions: Sequence[Row] = ()
    events: Sequence[Row] = ()
    statuses: Mapping[str, str] = field(default_factory=dict)


class Journal:
    """One run's rows in a database, whose tables are migrated when it is opened."""

    def __init__(self, url: str, run: str, heads: Heads | None = None) -> None:
        _begin(url)
        migrate(url, "head")
        self.run, self.engine, self.heads = run, _engine(url), heads
        self._held: Connection | None = None  # the session of PostgreSQL that holds the run, which then writes

    def close(self) -> None:
        """Give the connections back."""
        self.engine.dispose()

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Be the only one to trade this run; refuses at once where another process does, before anything is touched.

        By a file beside a SQLite journal; in PostgreSQL by a session that holds the run's lock and writes all its rows,
        so that a trader whose lock is lost writes nothing more.
        """
        if self.engine.dialect.name == "postgresql":
            with self._hold_session():
                yield
            return
        path = Path(str(self.engine.url.database))
        # Named after the run by a hash, since a run's name may have letters that a file's may not.
        name = f".{path.name}.{hashlib.sha256(self.run.encode()).hexdigest()[:12]}.lock"
        with ExitStack() as held:
            try:
                held.enter_context(hold(path.parent, name))
            except OSError as problem:
                raise RunError(f"{path.parent} cannot be locked ({problem.strerror}); give another") from problem
            yield

    @contextmanager
    def _hold_session(self) -> Iterator[None]:
        with ExitStack() as held:
            try:
                connection = held.enter_context(self.engine.connect())
                connection.detach()  # closed at the end, not kept for others: the lock lasts as long as the session
                with connection.begin():
                    # A killed trader's session ends a moment after it, and its last commit is then done.
                    connection.execute(text(f"SET LOCAL lock_timeout = {int(1000 * HOLD_SECONDS)}"))
                    connection.execute(select(func.pg_advisory_lock(_lock_number(f"trader of {self.run}"))))
            except OperationalError as problem:
                if getattr(problem.orig, "sqlstate", "") != LOCK_NOT_AVAILABLE:
                    raise _refusal(self.engine, problem) from problem
                raise RunError(
                    f"another process trades run '{self.run}'; stop it first, or give another run="
                ) from None
            self._held = connection
            try:
                yield
            finally:
                self._held = None

    # ---- writing --------------------------------------------------------------------------------------------------

    def record(self, page: Page) -> bool:
        """Write a bar and its state in one transaction; False, with nothing written, if the bar is recorded already."""
        with self._writing() as connection:
            latest = connection.scalar(select(tables.checkpoints.c.time).where(tables.checkpoints.c.run == self.run))
            # Inside the transaction: of two traders of one run, one finds the bar written and stops.
            if latest is not None and page.time <= latest:
                return False
            evidence = bar_evidence(_rows(page), page.statuses, page.state)
            content = {"time": page.time.isoformat(), **page.content, **evidence}
            # Audit, rows and state in one transaction: none of them can exist without the others.
            sequence, previous = self._audit(connection, "bar", content)
            self._insert(connection, tables.decisions, page.decisions, page.time)
            self._insert(connection, tables.orders, page.orders, page.time)
            self._insert(connection, tables.fills, page.fills, page.time)
            self._insert(connection, tables.positions, page.positions, page.time)
            self._insert(connection, tables.events, page.events, page.time)
            self._insert(connection, tables.equity, [page.equity], page.time)
            for client_id, status in page.statuses.items():
                self._set_status(connection, client_id, status)
            state = {"time": page.time, "state": {**page.state, "audit": [sequence, previous]}}
            if latest is None:
                connection.execute(insert(tables.checkpoints).values(run=self.run, **state))
            else:
                connection.execute(update(tables.checkpoints).where(tables.checkpoints.c.run == self.run).values(state))
        if self.heads is not None:  # after the commit: a head must never name a record that was rolled back
            self.heads.add(self.run, page.time, sequence, previous)
        return True

    def set_statuses(self, statuses: Mapping[str, str]) -> None:
        """Client id -> where each order stands now, in the audit log too."""
        with self._writing() as connection:
            self._audit(connection, "statuses", statuses)
            for client_id, status in statuses.items():
                self._set_status(connection, client_id, status)

    def note(self, kind: str, message: str, at: datetime | None = None) -> None:
        """An event: a halt, a resumption, an alert, data out of order; in the audit log too."""
        at = at or datetime.now(UTC)
        with self._writing() as connection:
            self._audit(connection, "event", {"time": at.isoformat(), "kind": kind, "message": message})
            self._insert(connection, tables.events, [{"kind": kind, "message": message}], at)

    # ---- reading --------------------------------------------------------------------------------------------------

    def checkpoint(self) -> tuple[datetime, Row] | None:
        """Time of the last bar written and the state to resume from; None before the first."""
        with self._reading() as connection:
            return self._checkpoint(connection)

    def rows(self, table: Table, **equal: object) -> list[Row]:
        """All rows of the run whose columns equal the given values, in order of their keys or, without them, time."""
        with self._reading() as connection:
            return self._rows(connection, table, **equal)

    def holdings(self) -> dict[str, float]:
        """Symbol -> quantity: the sum of its fills; flat symbols are left out."""
        held: dict[str, float] = {}
        for fill in self.rows(tables.fills):  # in order, as the account added them
            held[fill["symbol"]] = held.get(fill["symbol"], 0.0) + fill["quantity"]
        return {symbol: quantity for symbol, quantity in held.items() if quantity}

    def verify(self) -> int:
        """Number of audit records; refuses a chain that is broken, or shorter than the last state or a head knows.

        Refuses rows and a state that are not as the chain says.
        """
        # Heads before rows, and all rows of one moment: a trader that goes on beside it changes nothing here.
        heads = [] if self.heads is None else self.heads.read(self.run)
        with self._reading() as connection:
            records, state = self._rows(connection, tables.audit), self._checkpoint(connection)
            stored = {table.name: self._rows(connection, table) for table in (*HASHED, tables.events)}
        count = verify((row["sequence"], row["kind"], row["content"], row["hash"]) for row in records)
        with _refuse_damage(self.engine):
            self._check_state(records, state)
            check_rows(records, stored)
        if self.heads is not None:
            self.heads.check(self.run, heads, records)
        return count

    # ---- inside ---------------------------------------------------------------------------------------------------

    def _check_state(self, records: Sequence[Row], latest: tuple[datetime, Row] | None) -> None:
        """Refuse a state that names no record, one that is not there, or that is not what the chain says."""
        if latest is None:
            if any(row["kind"] == "bar" for row in records):
                raise RunError(
                    f"run '{self.run}' has bars, and no state to resume from; continue from a copy of the journal"
                )
            return
        try:
            sequence, known = latest[1]["audit"]
            is_there = 0 <= sequence < len(records) and records[sequence]["hash"] == known
        except (LookupError, TypeError, ValueError) as problem:
            raise RunError(
                f"the last state of run '{self.run}' names no audit record; it is damaged, continue from a copy"
            ) from problem
        if not is_there:
            raise RunError(f"the audit log ends before record {sequence}, which the last state names; rows were lost")
        check_state(records, latest[1])

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        with _translate_errors(self.engine), _refuse_damage(self.engine), _snapshot(self.engine) as connection:
            yield connection

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        """A transaction of a run, one at a time."""
        with _translate_errors(self.engine), ExitStack() as opened:
            if self.engine.dialect.name == "postgresql":
                connection = self._held or opened.enter_context(self.engine.connect())
                opened.enter_context(connection.begin())
                connection.execute(select(func.pg_advisory_xact_lock(_lock_number(self.run))))
            else:
                connection = _begin_sqlite_write(self.engine, opened)
            yield connection

    def _checkpoint(self, connection: Connection) -> tuple[datetime, Row] | None:
        rows = self._rows(connection, tables.checkpoints)
        return (rows[0]["time"], rows[0]["state"]) if rows else None

    def _rows(self, connection: Connection, table: Table, **equal: object) -> list[Row]:
        chosen = select(table).where(
            table.c.run == self.run, *(table.c[name] == value for name, value in equal.items())
        )
        order = [table.c.time] if "time" in table.c else []
        rows = connection.execute(chosen.order_by(*order, *table.primary_key.columns)).mappings()
        return [dict(row) for row in rows]

    def _insert(self, connection: Connection, table: Table, rows: Sequence[Row], at: datetime) -> None:
        if rows:
            connection.execute(insert(table), [{"run": self.run, "time": at, **row} for row in rows])

    def _set_status(self, connection: Connection, client_id: str, status: str) -> None:
        orders = tables.orders
        named = (orders.c.run == self.run) & (orders.c.client_id == client_id)
        connection.execute(update(orders).where(named).values(status=status))

    def _audit(self, connection: Connection, kind: str, content: Row) -> tuple[int, str]:
        """Append a record; gives its number and hash."""
        audit, text = tables.audit, canonical_json(content)
        # Transactions of a run wait for each other, and (run, sequence) is a key: no number is appended twice.
        newest = select(func.max(audit.c.sequence)).where(audit.c.run == self.run).scalar_subquery()
        last = connection.execute(select(audit).where(audit.c.run == self.run, audit.c.sequence == newest)).first()
        sequence, previous = (0, GENESIS) if last is None else (last.sequence + 1, last.hash)
        digest = link(previous, sequence, kind, text)
        row = {"run": self.run, "sequence": sequence, "kind": kind, "content": text, "hash": digest}
        connection.execute(insert(audit).values(row))
        return sequence, digest


def _lock_number(run: str) -> int:
    """A run's name as a number of 64 bits with sign, as PostgreSQL names its advisory locks."""
    return int.from_bytes(hashlib.sha256(run.encode()).digest()[:8], signed=True)


def _rows(page: Page) -> dict[str, Sequence[Row]]:
    """The page's rows by table."""
    return {
        "decisions": page.decisions,
        "orders": page.orders,
        "fills": page.fills,
        "positions": page.positions,
        "events": page.events,
        "equity": [page.equity],
    }


@contextmanager
def _translate_errors(engine: Engine) -> Iterator[None]:
    """A database that fails is one sentence."""
    try:
        yield
    except SQLAlchemyError as problem:
        raise _refusal(engine, problem) from problem


@contextmanager
def _refuse_damage(engine: Engine) -> Iterator[None]:
    """A text that cannot be read, such as a time, a state or a record, is one sentence."""
    try:
        yield
    except (ValueError, LookupError, TypeError, AttributeError) as problem:
        where = engine.url.render_as_string(hide_password=True)
        raise RunError(f"the journal at {where} is damaged ({problem!r}); continue from a copy of it") from problem


def _snapshot(engine: Engine) -> AbstractContextManager[Connection]:
    """A transaction that reads: all of one moment, and no writer waits for it."""
    return engine.execution_options(**SNAPSHOT[engine.dialect.name]).begin()


def _begin_sqlite_write(engine: Engine, opened: ExitStack) -> Connection:
    """Begin a write; tried again while another process writes, for a trader that cannot write has to halt."""
    for attempt in range(1, BUSY_TRIES + 1):
        try:
            return opened.enter_context(engine.begin())
        except OperationalError as problem:
            if attempt == BUSY_TRIES or not _is_busy(problem):
                raise
            log.warning("another process writes to %s; it is tried again", engine.url.database)
    raise AssertionError


def _is_busy(problem: DBAPIError) -> bool:
    code = getattr(problem.orig, "sqlite_errorcode", None)
    return code is not None and code & 0xFF == sqlite3.SQLITE_BUSY  # the rest of the code says of which kind


@contextmanager
def _reading(url: str) -> Iterator[Connection]:
    """A journal as it is, without its tables being made or migrated."""
    engine = _engine(url)
    try:
        with _translate_errors(engine), _refuse_damage(engine), _snapshot(engine) as connection:
            yield connection
    finally:
        engine.dispose()


def journal_runs(url: str) -> list[str]:
    """Names of the runs that a journal holds."""
    with _reading(url) as connection:
        return list(connection.scalars(select(tables.audit.c.run).distinct().order_by(tables.audit.c.run)))


def stored_state(url: str, run: str) -> Row | None:
    """The state that a run resumes from; None where there is no journal yet, which is not made, or no bar in it."""
    if not _is_there(url):
        return None
    checkpoints = tables.checkpoints
    with _reading(url) as connection:
        if not inspect(connection).has_table(checkpoints.name):
            return None
        state: Row | None = connection.scalar(select(checkpoints.c.state).where(checkpoints.c.run == run))
        return state


def journal_url(folder: Path) -> str:
    """The journal in a folder: SQLite."""
    return f"sqlite:///{folder / 'journal.db'}"


def check_there(url: str) -> None:
    """Refuse a SQLite file that is not there, which opening would make."""
    if not _is_there(url):
        raise RunError(
            f"there is no journal {_parse_url(url).database}; check the name, or create one with pacesetter paper"
        )


def _is_there(url: str) -> bool:
    """Whether there is a file, where the journal is one."""
    parsed = _parse_url(url)
    return parsed.get_backend_name() != "sqlite" or Path(str(parsed.database)).is_file()


def migrate(url: str, revision: str) -> str:
    """Bring the tables up or down to a revision, keeping every row; gives where they stand.

    Refuses an unknown revision, and a database that is not a journal.
    """
    engine, config = _engine(url), Config()
    config.set_main_option("script_location", MIGRATIONS)
    try:
        _check_ours(engine.url)
        if revision == "head" and _is_at_head(engine, config):
            return str(ScriptDirectory.from_config(config).get_current_head())
        with engine.begin() as connection:
            config.attributes["connection"] = connection
            down = revision in ("-1", "base") or (revision.isdigit() and revision < (_revision(connection) or ""))
            (command.downgrade if down else command.upgrade)(config, revision)
            return _revision(connection) or "base"
    except SQLAlchemyError as problem:
        raise _refusal(engine, problem) from problem
    except CommandError as problem:
        raise RunError(
            f"the journal cannot be migrated to revision '{revision}' ({problem}); give head, or one like 0001, "
            "to the version of pacesetter that wrote it"
        ) from problem
    finally:
        engine.dispose()


def _begin(url: str) -> None:
    """Make a new SQLite journal whole under another name first, so that an empty one is never ours.

    Refuses an empty file: rather than a book that begins, it is one that was lost.
    """
    parsed = _parse_url(url)
    if parsed.get_backend_name() != "sqlite":
        return
    path = Path(str(parsed.database))
    if path.is_file() and path.stat().st_size == 0:
        raise RunError(f"{path} is empty: the journal in it was lost; restore a copy, or remove it to begin a new book")
    if path.exists():
        return
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        migrate(str(parsed.set(database=str(partial))), "head")
        _check_whole(partial)
        _put_in_place(partial, path)
    except OSError as problem:
        raise RunError(f"no journal can be made at {path} ({problem.strerror}); give another") from problem
    finally:
        for tail in ("", "-wal", "-shm"):
            with suppress(OSError):
                partial.with_name(partial.name + tail).unlink()


def _check_whole(partial: Path) -> None:
    """Refuse a new file whose pages are still in the log beside it: a disk that failed kept them from the file."""
    log = partial.with_name(f"{partial.name}-wal")
    if log.exists() and log.stat().st_size:
        raise OSError(errno.EIO, os.strerror(errno.EIO), str(partial))


def _put_in_place(partial: Path, path: Path) -> None:
    """Give a file its name, unless another process was quicker; a link, unlike a rename, never replaces."""
    try:
        os.link(partial, path)
    except FileExistsError:
        return
    except OSError:  # a file system without links
        if not path.exists():
            partial.rename(path)


def _check_ours(url: URL) -> None:
    """Refuse a database with foreign tables, before even our SQLite settings are applied to it."""
    with create_engine(url, poolclass=NullPool).connect() as connection:
        tables_there = set(inspect(connection).get_table_names())
    foreign = sorted(tables_there - KEPT_AT_BASE)
    if foreign and not tables_there >= set(tables.METADATA.tables):
        raise RunError(
            f"{url.render_as_string(hide_password=True)} is not a journal: it has tables like '{foreign[0]}'; "
            "give the journal a database of its own"
        )


def _is_at_head(engine: Engine, config: Config) -> bool:
    """Whether there is nothing to migrate; asked in a reading, for which no trader waits."""
    with _snapshot(engine) as connection:
        return _revision(connection) == ScriptDirectory.from_config(config).get_current_head()


def _revision(connection: Connection) -> str | None:
    from alembic.runtime.migration import MigrationContext

    return MigrationContext.configure(connection).get_current_revision()


def _engine(url: str) -> Engine:
    """An engine for SQLite or PostgreSQL; SQLite syncs every commit to the disk."""
    engine = create_engine(_parse_url(url))
    if engine.dialect.name == "sqlite":
        try:
            Path(str(engine.url.database)).parent.mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            raise RunError(
                f"no journal can be created at {engine.url.database} ({problem.strerror}); give another"
            ) from problem
        event.listen(engine, "connect", _prepare_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
    return engine


def _parse_url(url: str) -> URL:
    """The URL of a SQLite file, however spelled, or of a PostgreSQL database; refuses any other, not repeating it."""
    refusal = RunError(
        "this is not a journal URL; give sqlite:///FILE, with three slashes, or postgresql://USER@HOST/NAME"
    )
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError) as problem:
        raise refusal from problem
    backend = parsed.get_backend_name()
    if backend == "sqlite" and parsed.database not in (None, "", ":memory:"):
        return parsed.set(database=str(Path(str(parsed.database)).resolve()))
    if backend == "postgresql":
        return parsed.set(drivername="postgresql+psycopg")
    raise refusal


def _begin_sqlite(connection: Connection) -> None:
    """A write takes its lock at once, since one that began as a read could fail half-way; a read takes none."""
    is_reading = connection.get_execution_options().get("reading", False)
    connection.exec_driver_sql("BEGIN" if is_reading else "BEGIN IMMEDIATE")


def _prepare_sqlite(connection: Any, record: object) -> None:
    """We begin transactions ourselves, DDL included, and a commit is on disk before it returns."""
    connection.isolation_level = None
    for pragma in (*PRAGMAS, f"busy_timeout={int(1000 * BUSY_SECONDS)}"):
        connection.execute(f"PRAGMA {pragma}").close()


def _refusal(engine: Engine, problem: SQLAlchemyError) -> RunError:
    where = engine.url.render_as_string(hide_password=True)
    reason = str(getattr(problem, "orig", None) or problem).split("\n")[0]
    return RunError(f"the journal at {where} cannot be used ({reason}); nothing was written")
