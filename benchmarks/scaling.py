"""The same lead–lag studies by 1, 2 and 4 workers of this machine: seconds, speed-up, and whether all rows are equal.

    python benchmarks/scaling.py [--workers 1,2,4] [--symbols 40] [--bars 3000] [--draws 5000] [--record]

One of the workers of the last run is killed while it works.
"""

from __future__ import annotations

import argparse
import io
import multiprocessing
import os
import signal
import tempfile
import threading
import time
from pathlib import Path

import pandas as pd
from record import publish, table
from rich.console import Console

from pacesetter.jobs.launch.workers import Launcher
from pacesetter.lab.scan import ScanPlan, scan

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
QUIET = Console(file=io.StringIO())
KILL_AFTER = 0.5  # of the seconds that the quickest took undisturbed


def timed(plan: ScanPlan, market: list[str], workers: int) -> tuple[float, pd.DataFrame]:
    """Seconds with the start of the workers, and the rows."""
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        rows = scan(plan, market, Launcher(workers=workers), Path(folder), QUIET)
        return time.perf_counter() - start, rows


def kill_one(after: float, killed: list[int]) -> threading.Timer:
    """End the first worker that there is then, and note its process."""

    def kill() -> None:
        children = multiprocessing.active_children()
        if children and children[0].pid:
            os.kill(children[0].pid, signal.SIGKILL)
            killed.append(children[0].pid)

    timer = threading.Timer(after, kill)
    timer.start()
    return timer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", default="1,2,4")
    parser.add_argument("--symbols", type=int, default=40)
    parser.add_argument("--bars", type=int, default=3_000)
    parser.add_argument("--methods", default="ccf_peak,ccf_auc")
    parser.add_argument("--lookbacks", default="120,250")
    parser.add_argument("--draws", type=int, default=5_000)
    options = parser.parse_known_args()[0]
    os.environ.update(ONE_THREAD)  # else a lone worker would have all cores by itself
    market = ["data=synthetic", f"data.symbols={options.symbols}", f"data.bars={options.bars}", "data.strength=0.4"]
    market.append(f"lag.draws={options.draws}")
    lookbacks = tuple(int(bars) for bars in options.lookbacks.split(","))
    plan = ScanPlan(tuple(options.methods.split(",")), lookbacks, universes=2, folds=3)
    sizes = [int(size) for size in options.workers.split(",")]
    small = ScanPlan(plan.methods, plan.lookbacks[:1])
    timed(small, [*market, "lag.draws=100"], 1)  # so that no row pays for compiling, which is kept on disk
    found = {size: timed(plan, market, size) for size in sizes}
    first, rows = found[sizes[0]], []
    dead: list[int] = []
    killer = kill_one(KILL_AFTER * min(seconds for seconds, _ in found.values()), dead)
    disturbed = timed(plan, market, sizes[1])
    killer.cancel()
    name_of = f"{sizes[1]}, one killed" if dead else f"{sizes[1]}, done before one was killed"
    for name, (seconds, own) in [*found.items(), (name_of, disturbed)]:
        rows.append([name, seconds, f"{first[0] / seconds:.2f}", "yes" if own.equals(first[1]) else "NO"])
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    body = (
        f"{len(first[1])} studies ({options.methods} × {options.lookbacks} bars × 2 universes × 3 folds, "
        f"{options.draws} draws) of {options.symbols} synthetic "
        f"symbols × {options.bars:,} bars, one thread a worker, {os.cpu_count()} cores; seconds with the start of the "
        "workers, which one process imports for. Load average of the machine "
        f"during it: {load}; where it is above the cores, other work took its share of them.\n\n"
    )
    header = ["workers", "seconds", "times as fast", "rows equal to those of the first"]
    publish("scaling", body + table(header, rows), "Lead–lag studies by the number of workers")


if __name__ == "__main__":
    main()
