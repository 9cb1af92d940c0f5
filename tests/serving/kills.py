"""Run a paper trade in processes that are killed at random moments: `python kills.py FOLDER KILLS SEED`."""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from pathlib import Path

from trading import FIRST, Rule, make_trader, small_market, small_panel

from pacesetter.evaluation.backtest.backtest import backtest
from pacesetter.panel import Panel
from pacesetter.serving.journal.journal import Journal, journal_url, tables
from pacesetter.serving.risk.guard import Guard
from pacesetter.serving.trader.desk import GuardedPolicy

COMPARED = (tables.decisions, tables.orders, tables.fills, tables.positions, tables.events, tables.audit)


def start(folder: Path, panel: Panel) -> int:
    """Begin or go on in a child process; gives its id."""
    child = os.fork()
    if child == 0:
        try:
            make_trader(folder, panel=panel).run()
        except BaseException as problem:
            print(f"{type(problem).__name__}: {problem}", file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    return child


def content(folder: Path) -> dict[str, object]:
    """All rows that a journal holds, but for how long things took."""
    journal = Journal(journal_url(folder), "run")
    rows: dict[str, object] = {table.name: journal.rows(table) for table in COMPARED}
    rows["equity"] = [{k: v for k, v in row.items() if k != "vitals"} for row in journal.rows(tables.equity)]
    last = journal.rows(tables.equity)[-1]["time"]
    held = {row["symbol"]: row["quantity"] for row in journal.rows(tables.positions, time=last)}
    assert journal.holdings() == held, "a position is not the sum of its fills"
    journal.verify()
    journal.close()
    return rows


def main(folder: Path, kills: int, seed: int) -> None:
    """Kill so often, over as many rounds as that takes; every round must end where an uninterrupted one ends."""
    chance, panel = random.Random(seed), small_panel()
    guarded = GuardedPolicy(Rule("continuous"), Guard(), panel, small_market(panel))
    expected = backtest(guarded, panel, first=FIRST, market=guarded.market).equity.tolist()  # compiles before the fork
    assert os.waitpid(start(folder / "whole", panel), 0)[1] == 0
    whole = content(folder / "whole")
    assert [row["equity"] for row in whole["equity"]] == expected, "paper is not the backtest"  # type: ignore[attr-defined]
    done = rounds = 0
    while done < kills:
        rounds, is_over = rounds + 1, False
        while not is_over:
            child = start(folder / str(rounds), panel)
            if done < kills:
                time.sleep(chance.uniform(0.0, 0.4))
                os.kill(child, signal.SIGKILL)
            status = os.waitpid(child, 0)[1]
            assert status in (0, signal.SIGKILL), f"a restart failed with {status}"
            is_over = status == 0
            done += not is_over
        assert content(folder / str(rounds)) == whole, f"round {rounds} ended elsewhere"
    print(f"{done} kills in {rounds} rounds, {len(whole['fills'])} fills each, all equal")  # type: ignore[arg-type]


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
