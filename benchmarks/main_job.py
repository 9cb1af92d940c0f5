"""The whole pipeline on 143 stocks × 3,000 days and on 20 symbols × 35,000 hours: seconds and memory of each stage.

    python benchmarks/main_job.py --case us143 --data us143_daily_2005_2016.parquet --folder jobs
    python benchmarks/main_job.py --case hourly --folder jobs
    python benchmarks/main_job.py --folder jobs --record        # the table of the cases that are done

Without `--data` the bars are synthetic, of the same size. The job runs stage after stage, so that a measurement that
was stopped resumes behind the last finished one; figures of what is done are left in the folder.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from record import publish, table

import pacesetter as ps

PIECES = ("check", "describe", "leadlag", "lookback", "agents", "judge", "report")  # each with all before it


class Case(NamedTuple):
    """Bars of a job, and what it may take."""

    title: str
    symbols: int
    bars: int
    options: dict[str, Any]
    minutes: int
    megabytes: int


CASES = {
    "us143": Case("143 symbols × 3,000 daily bars", 143, 3_000, {}, 12, 3_000),
    "hourly": Case("20 symbols × 35,000 hourly bars", 20, 35_000, {"freq": "1h", "calendar": "24/7"}, 5, 2_000),
}


def bars_of(case: Case, data: Path | None, folder: Path) -> Path:
    """The case's bars as a file: the last of those given, or synthetic ones."""
    panel = (
        ps.load(data) if data else ps.load("synthetic", symbols=case.symbols, bars=case.bars, seed=3, **case.options)
    )
    path = folder / f"{case.symbols}x{case.bars}.parquet"
    panel[-case.bars :].select(panel.symbols[: case.symbols]).save(path)
    return path


def measure(name: str, data: Path | None, folder: Path, words: list[str]) -> None:
    """Run the job stage after stage and keep its figures in the folder; finished stages are kept by the job itself."""
    folder.mkdir(parents=True, exist_ok=True)
    path = bars_of(CASES[name], data, folder)
    runs, before = folder / f"runs-{name}", os.getloadavg()[0]
    for stage in PIECES:
        command = [sys.executable, "-m", "pacesetter.cli", "run", f"data={path}", f"runs={runs}", *words]
        subprocess.run([*command, f"stage={stage}"], check=True)
        costs = costs_of(runs)
        figures = {
            **{key: sum(cost[key] for cost in costs.values()) for key in ("seconds", "processor_seconds")},
            "peak_mb": max(cost["peak_mb"] for cost in costs.values()),
            "load": before,
            "source": "given bars" if data else "synthetic bars",
            "reached": stage,
            "costs": costs,
        }
        (folder / f"{name}.json").write_text(json.dumps(figures, indent=2))


def costs_of(runs: Path) -> dict[str, dict[str, float]]:
    """What each stage took when it worked: in a later run it is read from the cache, or loads the same bars again."""
    found: dict[str, dict[str, float]] = {}
    for path in sorted(runs.glob("*/manifest.json")):
        for stage, cost in json.loads(path.read_text()).get("costs", {}).items():
            if stage not in found or (cost["seconds"] > found[stage]["seconds"] and stage != "load"):
                found[stage] = cost
    return found


def rows_of(name: str, figures: dict[str, Any]) -> list[list[Any]]:
    """A row for each stage, and one for the whole."""
    case = CASES[name]
    stages = [
        [case.title, stage, cost["seconds"], cost["processor_seconds"], cost["peak_mb"], "", ""]
        for stage, cost in figures["costs"].items()
    ]
    whole = [figures[key] for key in ("seconds", "processor_seconds", "peak_mb")]
    return [*stages, [case.title, f"all up to {figures['reached']}", *whole, case.minutes * 60, case.megabytes]]


def record(folder: Path) -> None:
    """Print, or write, the table of the cases that were measured."""
    done = {
        name: json.loads((folder / f"{name}.json").read_text()) for name in CASES if (folder / f"{name}.json").exists()
    }
    header = ["bars", "stage", "seconds", "processor seconds", "peak MB", "allowed seconds", "allowed MB"]
    rows = [row for name, figures in done.items() for row in rows_of(name, figures)]
    notes = [
        f"{CASES[name].title}: {figures['source']}; load of the machine by others at the start {figures['load']:.1f}."
        for name, figures in done.items()
    ]
    missing = [f"{case.title}: not measured." for name, case in CASES.items() if name not in done]
    text = (
        f"`pacesetter run data=…` with its defaults on {os.cpu_count()} cores.\n\n{table(header, rows)}\n\n"
        + "\n".join([*notes, *missing])
        + "\n\nWhere the load is above 0.5, seconds are those of a shared machine; half of the processor's seconds is "
        "the least that two idle cores could take."
    )
    publish("main_job", text, "The whole pipeline: seconds and memory")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", choices=CASES)
    parser.add_argument("--data", type=Path, help="bars of the case; synthetic ones where it is left out")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--record", action="store_true")
    options, words = parser.parse_known_args()
    if options.case:
        measure(options.case, options.data, options.folder, words)
    else:
        record(options.folder)


if __name__ == "__main__":
    main()
