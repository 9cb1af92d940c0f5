"""PostgreSQL stopped in the middle of a trade, and started again or replaced by its replica: all end equal."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from postgres import Server, new_server
from trading import FIRST, SAME_AFTER_RESUMING, make_trader, small_panel

from pacesetter.errors import RunError
from pacesetter.panel import Panel
from pacesetter.serving.journal.journal import Journal, journal_url, tables
from pacesetter.serving.risk.halt import KillSwitch

MOMENTS = ("before the bar", "within the bar", "before the statuses", "after the bar")
COMPARED = (tables.decisions, tables.orders, tables.fills, tables.positions)


@pytest.fixture
def primary() -> Iterator[Server]:
    server = new_server()
    if server is None:
        pytest.skip("NO POSTGRESQL WAS STOPPED: no initdb here, or it would not start; install postgresql")
    yield server
    server.remove()


def content(journal: Journal) -> dict[str, Any]:
    rows: dict[str, Any] = {table.name: journal.rows(table) for table in COMPARED}
    rows["equity"] = [{k: v for k, v in row.items() if k != "vitals"} for row in journal.rows(tables.equity)]
    journal.verify()
    journal.close()
    return rows


def trade(folder: Path, panel: Panel, url: str) -> dict[str, Any]:
    """Trade to the end; gives what the journal then holds."""
    trader = make_trader(folder, panel=panel, journal=Journal(url, "run"), limits=SAME_AFTER_RESUMING)
    trader.run()
    return content(trader.journal)


def stop_at(journal: Journal, stop: Callable[[], None], bar: int, moment: str) -> None:
    """Let the server stop at a moment of the n-th bar that is written."""
    left = [bar]
    record, insert, statuses = journal.record, journal._insert, journal.set_statuses

    def recorded(page: Any) -> bool:
        left[0] -= 1
        if left[0] == 0 and moment == "before the bar":
            stop()
        is_written = record(page)
        if left[0] == 0 and moment == "after the bar":
            stop()
        return is_written

    def inserted(connection: Any, table: Any, rows: Any, at: Any) -> None:
        insert(connection, table, rows, at)
        if left[0] == 0 and moment == "within the bar" and table is tables.orders:
            stop()

    def set_statuses(found: Any) -> None:
        if left[0] <= 0 and moment == "before the statuses":
            left[0] = 10**9
            stop()
        statuses(found)

    journal.record, journal._insert, journal.set_statuses = recorded, inserted, set_statuses  # type: ignore[method-assign]


def trade_until_stopped(folder: Path, panel: Panel, url: str, stop: Callable[[], None], bar: int, moment: str) -> None:
    """Trade until the database is gone, which halts in a sentence; then a person releases the switch."""
    trader = make_trader(folder, panel=panel, journal=Journal(url, "run"), limits=SAME_AFTER_RESUMING)
    stop_at(trader.journal, stop, bar, moment)
    with pytest.raises(RunError, match="cannot be used"):
        trader.run()
    trader.journal.close()
    assert KillSwitch(folder / "HALT").release("Ada")


def empty(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")


@pytest.mark.proof
@pytest.mark.timeout(3600)
def test_a_database_that_stops_and_starts_again_changes_nothing(
    primary: Server, tmp_path: Path, sized: Callable[[int], int]
) -> None:
    panel, chance, times = small_panel(), random.Random(1), sized(20)
    whole = trade(tmp_path / "whole", panel, journal_url(tmp_path / "whole"))
    for number in range(times):
        empty(primary.url)
        folder, moment = tmp_path / str(number), MOMENTS[number % len(MOMENTS)]
        trade_until_stopped(folder, panel, primary.url, primary.stop, chance.randint(2, 30), moment)
        primary.start()
        assert trade(folder, panel, primary.url) == whole, moment
    moments = min(times, len(MOMENTS))
    print(f"PostgreSQL stopped {times} times at {moments} moments of a bar and started again: all equal")


@pytest.mark.proof
@pytest.mark.timeout(3600)
def test_a_replica_that_is_promoted_goes_on_with_every_row(
    primary: Server, tmp_path: Path, sized: Callable[[int], int], request: pytest.FixtureRequest
) -> None:
    panel, chance, times = small_panel(), random.Random(2), sized(10)
    bars = len(panel) - FIRST
    whole = trade(tmp_path / "whole", panel, journal_url(tmp_path / "whole"))
    for number in range(times):
        empty(primary.url)
        heir = primary.replica()
        request.addfinalizer(heir.remove)
        with psycopg.connect(primary.url, autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")  # a commit is on both, or is none
            connection.execute("SELECT pg_reload_conf()")
        url = f"postgresql://tester@/postgres?host={primary.folder},{heir.folder}&target_session_attrs=read-write"
        folder, moment = tmp_path / str(number), MOMENTS[number % len(MOMENTS)]
        trade_until_stopped(folder, panel, url, primary.stop, chance.randint(2, bars - 10), moment)
        heir.promote()
        with psycopg.connect(heir.url, autocommit=True) as connection:
            connection.execute("ALTER SYSTEM RESET synchronous_standby_names")
            connection.execute("SELECT pg_reload_conf()")
        assert trade(folder, panel, url) == whole, moment
        primary.remove()
        primary = heir
    print(f"a streaming replica promoted {times} times after its primary stopped: all equal, no row lost")
