"""Minute bars of many symbols, checked and turned into features some symbols at a time: seconds and memory.

    python benchmarks/feature_parts.py [--symbols 500] [--bars 500000] [--at-once 10] [--folder PLACE] [--record]

Random walks are stored as one Parquet file per symbol; then `pacesetter data features` runs as a process of its own.
The folder is removed at the end: 500 × 500,000 bars take 12 GB, and their features 33 GB.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
from record import publish, table

ROOM = 1.1  # of what bars and features take


def store(folder: Path, symbols: int, bars: int) -> int:
    """A random walk in minutes for each symbol; gives the bytes on disk."""
    folder.mkdir(parents=True)
    rng, stamps = np.random.default_rng(0), pd.date_range("2020-01-01", periods=bars, freq="min", tz="UTC")
    for number in range(symbols):
        close = 100 * np.exp(np.cumsum(rng.normal(0, 5e-4, bars)))
        opening = np.append(100.0, close[:-1])
        high, low = np.maximum(opening, close) * 1.0002, np.minimum(opening, close) * 0.9998
        columns = {"open": opening, "high": high, "low": low, "close": close, "volume": rng.uniform(1e3, 1e5, bars)}
        frame = pd.DataFrame({"timestamp": stamps} | columns)
        frame.to_parquet(folder / f"S{number:04}.parquet", index=False)
    return sum(file.stat().st_size for file in folder.iterdir())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--symbols", type=int, default=500)
    parser.add_argument("--bars", type=int, default=500_000)
    parser.add_argument("--at-once", type=int, default=10)
    parser.add_argument("--folder", type=Path, help="where there is room; a temporary folder where it is left out")
    options, load = parser.parse_known_args()[0], os.getloadavg()[0]
    cells = options.symbols * options.bars
    folder = Path(tempfile.mkdtemp(dir=options.folder))
    needed, free = ROOM * cells * (6 * 8 + 33 * 4), shutil.disk_usage(folder).free
    if needed > free:
        sys.exit(f"{needed / 1e9:.0f} GB are needed and {free / 1e9:.0f} are free; give fewer --bars or --symbols")
    try:
        size = store(folder / "bars", options.symbols, options.bars)
        words = ["data", "features", f"data={folder / 'bars'}", "data.calendar=24/7"]
        command = [sys.executable, "-m", "pacesetter.cli", *words, "--at-once", str(options.at_once)]
        start = time.perf_counter()
        subprocess.run([*command, "--out", str(folder / "features")], check=True, stdout=subprocess.DEVNULL)
        seconds, used = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
        made = sum(file.stat().st_size for file in (folder / "features").iterdir())
    finally:
        shutil.rmtree(folder)
    processor = used.ru_utime + used.ru_stime
    row = [f"{options.symbols} × {options.bars:,}", options.at_once, size / 1e9, made / 1e9, seconds, processor]
    header = ["symbols × minute bars", "symbols at once", "bars GB", "features GB", "seconds", "processor seconds"]
    body = (
        table([*header, "peak MB", "M bars/s"], [[*row, used.ru_maxrss / 1024, cells / seconds / 1e6]])
        + f"\n\nChecked, with the default features, one Parquet file per symbol. Load of the machine by others at the "
        f"start {load:.1f}. Time grows with symbols × bars, and memory with bars × symbols at once."
    )
    publish("feature_parts", body, "Features of more symbols than fit into memory")


if __name__ == "__main__":
    main()
