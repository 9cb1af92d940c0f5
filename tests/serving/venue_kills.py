"""Kill traders in the middle of their requests to a venue: `python venue_kills.py FOLDER KIND KILLS SEED`.

The exchange of this process kills the trader, a child, when a request of its arrives: before it acts on it, or after.
The next child resumes. After every death, and in the end, the journal is held against the exchange's own orders.
"""

from __future__ import annotations

import os
import random
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from trading import FIRST, small_panel
from venues import STOPPING, ExchangeFeed, Rig, check_end, check_orders, hurry, open_rig, post_bars

from pacesetter.panel import Panel
from pacesetter.serving.journal.journal import Journal, journal_url, tables

BARS = 24


def run_child(rig: Rig, plan: Any) -> int:
    """Trade to the end of the bars in a child process; gives its id."""
    child = os.fork()
    if child:
        return child
    try:
        rig.feed = ExchangeFeed(rig.panel, post_bars(rig.url))
        trader = rig.trader(plan, STOPPING)
        trader.run()
        trader.journal.close()
    except BaseException as problem:
        print(f"{type(problem).__name__}: {problem}", file=sys.stderr, flush=True)
        os._exit(1)
    os._exit(0)


class Killer:
    """Kills the child at one of its next requests, half of them those that send an order."""

    def __init__(self, chance: random.Random) -> None:
        self.chance, self.child, self.left = chance, 0, 0

    def arm(self, child: int) -> None:
        self.child, self.left = child, self.chance.choice((1, 2, 3, 5, 8, 13, 40))

    def fault(self, method: str, path: str) -> str | None:
        self.left -= 1 if self.left > 0 and (method == "POST" or self.chance.random() < 0.2) else 0
        if self.left == 0 and self.child:
            self.left = -1
            return self.chance.choice(("kill", "kill_after"))
        return None

    def kill(self) -> None:
        os.kill(self.child, signal.SIGKILL)


def play_round(kind: str, folder: Path, panel: Panel, chance: random.Random, kills: int, patch: Any) -> tuple[int, int]:
    """One trade with at most so many kills; gives how many there were, and how many orders arrived."""
    plans = [[chance.choice((0.0, 0.04, 0.08, 0.12)) for _ in panel.symbols] for _ in range(BARS)]

    def plan(bar: int) -> list[float]:
        return plans[bar] if bar < BARS - 4 else [0.0] * len(panel.symbols)

    done, killer, calm = 0, Killer(chance), panel.index[FIRST + BARS - 5].value
    with open_rig(kind, panel, folder, patch) as rig:
        exchange, venue_id = rig.exchange, rig.broker().venue_id
        exchange.on_kill = killer.kill
        exchange.chance = killer.fault
        while True:
            killer.child = 0
            exchange.share = lambda order: chance.choice((0.0, 0.5, 1.0, 1.0)) if exchange.traded_until < calm else 1.0
            child = run_child(rig, plan)
            if done < kills:
                killer.arm(child)
            status = os.waitpid(child, 0)[1]
            assert status in (0, signal.SIGKILL), f"a restart failed with {status}"
            journal = Journal(journal_url(folder), "run")
            rows = journal.rows(tables.orders)
            # What was sent of the last page is not known to the parent: it may be in flight.
            open_ids = {venue_id(row["client_id"]) for row in rows if row["status"] in ("pending", "sent", "unknown")}
            check_orders(rig, journal, venue_id, open_ids)
            journal.close()
            if status == 0:
                break
            done += 1
        exchange.chance = lambda *words: None
        check_end(rig, rig.trader(plan, STOPPING))
        return done, len(exchange.orders)


def main(folder: Path, kind: str, kills: int, seed: int) -> None:
    """Kill so often, over as many rounds as that takes."""
    chance, patch = random.Random(seed), pytest.MonkeyPatch()
    hurry(patch)
    panel = small_panel().rows(0, FIRST + BARS)
    done = rounds = orders = 0
    while done < kills:
        rounds += 1
        more, arrived = play_round(kind, folder / str(rounds), panel, chance, min(kills - done, 6), patch)
        done, orders = done + more, orders + arrived
    print(f"{kind}: {done} kills within requests in {rounds} rounds, {orders} orders: 0 doubled, 0 lost")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
