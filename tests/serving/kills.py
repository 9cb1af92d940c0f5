"""Run a paper trade in processes that are killed at random moments: `python kills.py FOLDER KILLS SEED [URL]`.

The URL is that of a PostgreSQL, in which every round gets a database of its own; without it, rounds are in SQLite.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from itertools import zip_longest
from pathlib import Path
from typing import Any

import psycopg
from trading import FIRST, Rule, make_trader, small_market, small_panel

from pacesetter.evaluation.backtest.backtest import backtest
from pacesetter.panel import Panel
from pacesetter.serving.journal.journal import Journal, journal_url, tables
from pacesetter.serving.risk.guard import Guard
from pacesetter.serving.trader.desk import GuardedPolicy

COMPARED = (tables.decisions, tables.orders, tables.fills, tables.positions, tables.events, tables.equity, tables.audit)
# How long things took; and a number that PostgreSQL gives once, also to a row of a transaction that was killed.
LEFT_OUT = ("vitals", "event_id")


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


def content(journal: Journal) -> dict[str, Any]:
    """All rows that a journal holds, but for what differs from run to run."""
    rows = {
        table.name: [{k: v for k, v in row.items() if k not in LEFT_OUT} for row in journal.rows(table)]
        for table in COMPARED
    }
    last = rows["equity"][-1]["time"]
    held = {row["symbol"]: row["quantity"] for row in journal.rows(tables.positions, time=last)}
    assert journal.holdings() == held, "a position is not the sum of its fills"
    journal.verify()
    journal.close()
    return rows


def difference(rows: dict[str, Any], whole: dict[str, Any]) -> str:
    """The first row of a table that is another than in the whole run, with its number; empty where all are equal."""
    for name, expected in whole.items():
        for place, (row, other) in enumerate(zip_longest(rows[name], expected)):
            if row != other:
                return f"row {place} of {name} is {row}, not {other}"
    return ""


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
    assert [row["equity"] for row in whole["equity"]] == expected, "paper is not the backtest"
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
        other = difference(content(store.journal(str(rounds))), whole)
        assert not other, f"round {rounds}: {other}"
    where = "SQLite" if server is None else "PostgreSQL"
    print(f"{done} kills on {where} in {rounds} rounds, {len(whole['fills'])} fills each, all equal")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:])
