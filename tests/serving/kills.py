"""Run a paper trade in processes that are killed at random moments: `python kills.py FOLDER KILLS SEED [URL]`.

The URL is that of a PostgreSQL, in which every round gets a database of its own; without it, rounds are in SQLite.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from pathlib import Path

import psycopg
from trading import FIRST, Rule, make_trader, small_market, small_panel

from pacesetter.evaluation.backtest.backtest import backtest
from pacesetter.panel import Panel
from pacesetter.serving.journal.journal import Journal, journal_url, tables
from pacesetter.serving.risk.guard import Guard
from pacesetter.serving.trader.desk import GuardedPolicy

COMPARED = (tables.decisions, tables.orders, tables.fills, tables.positions, tables.events, tables.audit)


class Store:
    """Where the journals of the rounds are."""

    def __init__(self, folder: Path, server: str | None) -> None:
        self.folder, self.server = folder, server

    def add(self, name: str) -> None:
        """Make room for a round."""
        if self.server is not None:
            with psycopg.connect(self.server, autocommit=True) as connection:
                connection.execute(f"CREATE DATABASE round_{name}".encode())

    def journal(self, name: str) -> Journal:
        if self.server is None:
            return Journal(journal_url(self.folder / name), "run")
        return Journal(self.server.replace("/postgres?", f"/round_{name}?"), "run")


def start(store: Store, name: str, panel: Panel) -> int:
    """Begin or go on in a child process; gives its id."""
    child = os.fork()
    if child == 0:
        try:
            make_trader(store.folder / name, panel=panel, journal=store.journal(name)).run()
        except BaseException as problem:
            print(f"{type(problem).__name__}: {problem}", file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    return child


def content(journal: Journal) -> dict[str, object]:
    """All rows that a journal holds, but for how long things took."""
    rows: dict[str, object] = {table.name: journal.rows(table) for table in COMPARED}
    rows["equity"] = [{k: v for k, v in row.items() if k != "vitals"} for row in journal.rows(tables.equity)]
    last = journal.rows(tables.equity)[-1]["time"]
    held = {row["symbol"]: row["quantity"] for row in journal.rows(tables.positions, time=last)}
    assert journal.holdings() == held, "a position is not the sum of its fills"
    journal.verify()
    journal.close()
    return rows


def main(folder: Path, kills: int, seed: int, server: str | None = None) -> None:
    """Kill so often, over as many rounds as that takes; every round must end where an uninterrupted one ends."""
    chance, panel, store = random.Random(seed), small_panel(), Store(folder, server)
    guarded = GuardedPolicy(Rule("continuous"), Guard(), panel, small_market(panel))
    expected = backtest(guarded, panel, first=FIRST, market=guarded.market).equity.tolist()  # compiles before the fork
    store.add("whole")
    begun = time.monotonic()
    assert os.waitpid(start(store, "whole", panel), 0)[1] == 0
    seconds = time.monotonic() - begun  # of a whole life: kills come at any time of it, however fast the machine is
    whole = content(store.journal("whole"))
    assert [row["equity"] for row in whole["equity"]] == expected, "paper is not the backtest"  # type: ignore[attr-defined]
    done = rounds = 0
    while done < kills:
        rounds, is_over = rounds + 1, False
        store.add(str(rounds))
        while not is_over:
            child = start(store, str(rounds), panel)
            if done < kills:
                time.sleep(chance.uniform(0.0, seconds))
                os.kill(child, signal.SIGKILL)
            status = os.waitpid(child, 0)[1]
            assert status in (0, signal.SIGKILL), f"a restart failed with {status}"
            is_over = status == 0
            done += not is_over
        assert content(store.journal(str(rounds))) == whole, f"round {rounds} ended elsewhere"
    where = "SQLite" if server is None else "PostgreSQL"
    print(f"{done} kills on {where} in {rounds} rounds, {len(whole['fills'])} fills each, all equal")  # type: ignore[arg-type]


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:])
