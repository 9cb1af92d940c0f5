"""The market kernel on the CPU: single calls, 4,096 accounts at once, and a 143-asset portfolio.

python benchmarks/kernel.py [--record]
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numba import set_num_threads
from record import publish, seconds, table

from pacesetter.market import Accounts, MarketBars
from pacesetter.market.batch import step_parallel, step_serial


def accounts_over(bars: int, symbols: int, count: int, positions_each: int) -> Accounts:
    """Accounts at random bars of a random walk."""
    rng = np.random.default_rng(0)
    close = 100 * np.exp(np.cumsum(rng.normal(0, 0.01, (bars, symbols)), axis=0))
    opening = np.vstack([close[:1], close[:-1]]) * np.exp(rng.normal(0, 0.002, close.shape))
    table_of_bars = MarketBars.from_arrays(
        close, open=opening, high=np.maximum(opening, close) * 1.003, low=np.minimum(opening, close) * 0.997
    )
    columns = rng.integers(0, symbols - positions_each + 1, count)
    made = Accounts(table_of_bars, columns=columns, positions_each=positions_each)
    made.open(at=rng.integers(0, bars - 2, count))
    return made


def rate(step: Any, accounts: Accounts, calls: int) -> float:
    """Account-steps per second of `step` over `calls` calls."""
    actions = np.random.default_rng(1).uniform(-1, 1, accounts.positions.shape[:2])
    state, rest = accounts.arrays(actions)[:5], accounts.arrays(actions)[6:]
    clocks = [(accounts.times + bar) % (len(accounts.bars) - 1) for bar in range(100)]

    def work() -> None:
        for call in range(calls):
            step(*state, clocks[call % 100], *rest)

    return calls * len(accounts) / seconds(work, repeat=3)


def main() -> None:
    set_num_threads(min(2, os.cpu_count() or 1))
    rows = []
    for name, step, count, width, calls in (
        ("one account, one call each", step_serial, 1, 1, 100_000),
        ("4,096 accounts, one thread", step_serial, 4_096, 1, 200),
        ("4,096 accounts, two threads", step_parallel, 4_096, 1, 200),
        ("64 portfolios of 143, two threads", step_parallel, 64, 143, 50),
    ):
        steps = rate(step, accounts_over(1_000, 143, count, width), calls)
        rows.append([name, steps / 1e6, steps * width / 1e6])
    publish("kernel", table(["", "M account-steps/s", "M position-steps/s"], rows), "Market kernel on the CPU")


if __name__ == "__main__":
    main()
