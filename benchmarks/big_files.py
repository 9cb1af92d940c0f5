"""Minute bars of many symbols, made, checked and turned into features in chunks: seconds, memory and disk.

    python benchmarks/big_files.py [--symbols 50] [--bars 500000] [--memory 8GB] [--workers 2] [--folder PLACE]

Random walks in float32 are stored as one Parquet file per symbol. Then `pacesetter data check` and `data features` run
as processes of their own. Some symbols are compared bit for bit with a table in memory. All that was written is removed
at the end: 500 × 500,000 bars take about 7 GB, and their features 33 GB.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from record import publish, table

ROOM = 1.05  # of what bars and features take
BYTES_OF_BAR, BYTES_OF_FEATURES = 30, 33 * 4
COMPARED = 2  # symbols at each end


def store(folder: Path, bars: int, number: int) -> None:
    """The random walk of one symbol, in minutes, as float32."""
    rng, stamps = np.random.default_rng(number), pd.date_range("2020-01-01", periods=bars, freq="min", tz="UTC")
    close = 100 * np.exp(np.cumsum(rng.normal(0, 5e-4, bars)))
    opening = np.append(100.0, close[:-1])
    high, low = np.maximum(opening, close) * 1.0002, np.minimum(opening, close) * 0.9998
    columns = {"open": opening, "high": high, "low": low, "close": close, "volume": rng.uniform(1e3, 1e5, bars)}
    frame = pd.DataFrame({"timestamp": stamps} | {name: values.astype(np.float32) for name, values in columns.items()})
    frame.to_parquet(folder / f"S{number:04}.parquet", index=False)


def make(folder: Path, symbols: int, bars: int, workers: int) -> str:
    """The files of all symbols."""
    folder.mkdir(parents=True)
    with ProcessPoolExecutor(workers) as pool:
        list(pool.map(partial(store, folder, bars), range(symbols)))
    return ""


def run(*words: str) -> str:
    """What a command prints; others than its last line are progress or findings."""
    command = [sys.executable, "-m", "pacesetter.cli", "data", *words]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return done.stdout


def measured(work: Callable[[], str]) -> list[Any]:
    """Seconds, processor seconds of all processes, and the peak that a command states, in MB."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    output = work()
    seconds, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    stated = re.search(r"peak ([\d,]+) MB", output)
    return [seconds, processor, float(stated[1].replace(",", "")) if stated else "–"]


def gigabytes(folder: Path) -> float:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 1e9


def is_equal(bars: Path, features: Path) -> bool:
    """Whether the first and last symbols have the numbers of a table in memory, bit for bit."""
    from pacesetter.data import load
    from pacesetter.features import feature_table
    from pacesetter.features.store import read_features

    made = read_features(features)
    chosen = tuple(dict.fromkeys(made.symbols[:COMPARED] + made.symbols[-COMPARED:]))
    expected = feature_table(load("parquet", path=str(bars), symbols=chosen, calendar="24/7"))
    rows = [made.position(name) for name in chosen]
    return bool((made.values[rows].view(np.uint32) == expected.values.view(np.uint32)).all())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--symbols", type=int, default=50)
    parser.add_argument("--bars", type=int, default=500_000)
    parser.add_argument("--memory", default="8GB")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--folder", type=Path, help="where there is room; a temporary folder where it is left out")
    options, load = parser.parse_known_args()[0], os.getloadavg()[0]
    cells = options.symbols * options.bars
    folder = Path(tempfile.mkdtemp(dir=options.folder))
    needed, free = ROOM * cells * (BYTES_OF_BAR + BYTES_OF_FEATURES), shutil.disk_usage(folder).free
    try:
        if needed > free:
            sys.exit(f"{needed / 1e9:.0f} GB are needed and {free / 1e9:.0f} are free; give fewer --bars or --symbols")
        bars, features = folder / "bars", folder / "features"
        words = [f"data={bars}", "data.calendar=24/7", f"launcher.workers={options.workers}"]
        words += ["--memory", options.memory]
        rows = [
            ["bars made", *measured(partial(make, bars, options.symbols, options.bars, options.workers))],
            ["data check", *measured(partial(run, "check", *words))],
            ["data features", *measured(partial(run, "features", *words, "--out", str(features)))],
        ]
        sizes, equal = (gigabytes(bars), gigabytes(features)), is_equal(bars, features)
    finally:
        shutil.rmtree(folder)
    total = ["all", sum(row[1] for row in rows), sum(row[2] for row in rows), ""]
    body = (
        f"{options.symbols} symbols × {options.bars:,} minute bars, {options.workers} workers, --memory "
        f"{options.memory}.\n\n"
        + table(["step", "seconds", "processor seconds", "peak MB, all processes"], [*rows, total])
        + f"\n\nBars take {sizes[0]:.1f} GB on disk and their 33 features {sizes[1]:.1f} GB. Features as of a table in "
        f"memory, bit for bit: {'yes' if equal else 'NO'}. Load of the machine by others at the start {load:.1f}. Time "
        "and disk grow with symbols × bars; memory does not grow with symbols."
    )
    publish("big_files", body, "More bars than fit into memory: checked, and turned into features")


if __name__ == "__main__":
    main()
