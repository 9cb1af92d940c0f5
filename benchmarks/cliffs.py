"""Where work could fall off a cliff: wall time, and memory of all processes at once as the system counts it.

    python benchmarks/cliffs.py us143 --data us143_daily_2005_2016.parquet
    python benchmarks/cliffs.py hourly leadlag
    python benchmarks/cliffs.py --record                       # the table of the cases that are done

Memory is sampled four times a second over the command and all its descendants. PSS counts a page that several
processes share once; RSS counts it for each of them, so that its sum is an upper bound. A case that was measured is
kept in `--folder`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

from record import publish, table

import pacesetter as ps

EVERY_SECONDS = 0.25
COMMAND = (sys.executable, "-m", "pacesetter")


class Case(NamedTuple):
    """A command, and what it may take."""

    title: str
    seconds: float
    megabytes: float


CASES = {
    "us143": Case("pipeline, 143 symbols × 3,021 days", 240, 2_500),
    "hourly": Case("pipeline, 31 simulated symbols × 39,000 hours", 150, 1_500),
    "leadlag": Case("lead–lag study of 5,000 symbols × 1,000 days, or one sentence that it does not fit", 600, 8_000),
}


def descendants(root: int) -> list[int]:
    """The process and all that it started, directly or not."""
    parents: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents.setdefault(int(fields[1]), []).append(int(folder.name))
    found, todo = [], [root]
    while todo:
        found.append(todo.pop())
        todo += parents.get(found[-1], [])
    return found


def memory_mb(processes: list[int]) -> tuple[float, float]:
    """(PSS, RSS) of processes together."""
    sums = [0.0, 0.0]
    for process in processes:
        try:
            lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
        except OSError:  # it ended
            continue
        for place, name in enumerate(("Pss:", "Rss:")):
            sums[place] += sum(int(line.split()[1]) for line in lines if line.startswith(name)) / 1024
    return sums[0], sums[1]


def measure(words: list[str], folder: Path, until: str | None = None) -> dict[str, float]:
    """Seconds and peaks of a command; with `until`, to the first line of its output that begins so."""
    started = time.monotonic()
    with (folder / "output.txt").open("w") as log:
        process = subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        seen = threading.Event()

        def read() -> None:
            assert process.stdout is not None
            for line in process.stdout:
                log.write(f"{time.monotonic() - started:7.1f} {line}")
                log.flush()
                if until and line.startswith(until):
                    seen.set()

        reader = threading.Thread(target=read)
        reader.start()
        peaks = (0.0, 0.0)
        while process.poll() is None and not seen.is_set():
            peaks = tuple(map(max, peaks, memory_mb(descendants(process.pid))))  # type: ignore[assignment]
            time.sleep(EVERY_SECONDS)
        taken = time.monotonic() - started
        if seen.is_set():
            process.terminate()
        process.wait()
        reader.join()
    last = (folder / "output.txt").read_text().splitlines()[-1:]
    if process.returncode and last and " error: " in last[0]:  # one sentence before it starts is an answer too
        print(last[0])
    elif process.returncode and not seen.is_set():
        raise SystemExit(f"error: {' '.join(words)} ended with {process.returncode}; see {folder / 'output.txt'}")
    return {"seconds": round(taken, 1), "pss_mb": round(peaks[0]), "rss_mb": round(peaks[1])}


def us143(data: Path | None, folder: Path) -> dict[str, float]:
    if data is None:
        data = folder / "bars.parquet"
        ps.load("synthetic", symbols=143, bars=3_021, seed=1).save(data)
    return measure([*COMMAND, "run", f"data={data.resolve()}", f"runs={folder}"], folder)


def hourly(data: Path | None, folder: Path) -> dict[str, float]:
    words = ["data=synthetic", "data.symbols=31", "data.bars=39000", "data.freq=1h", "data.calendar=24/7"]
    return measure([*COMMAND, "run", *words, f"runs={folder}"], folder)


def leadlag(data: Path | None, folder: Path) -> dict[str, float]:
    words = ["data=synthetic", "data.symbols=5000", "data.bars=1000", "data.groups=50"]
    return measure([*COMMAND, "leadlag", *words, f"runs={folder}"], folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", choices=[*CASES, []])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "cliffs")
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for name in options.cases:
        place = options.folder / name
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        found: dict[str, Any] = globals()[name](options.data, place)
        found |= {"load": os.getloadavg()[1], "commit": commit()}
        (options.folder / f"{name}.json").write_text(json.dumps(found) + "\n")
        print(name, found, flush=True)
    rows = []
    for name, case in CASES.items():
        file = options.folder / f"{name}.json"
        if file.is_file():
            found = json.loads(file.read_text())
            limits = f"{case.seconds:g} s, {case.megabytes:,.0f} MB"
            measured = (found["seconds"], found["pss_mb"], found["rss_mb"])
            rows.append((case.title, *measured, limits, round(found["load"], 1), found["commit"]))
    header = ("work", "seconds", "PSS, MB", "RSS summed, MB", "aim", "load of 2 cores", "commit")
    publish("cliffs", table(header, rows), "Time and memory where work could fall off a cliff")


def commit() -> str:
    words = ["git", "rev-parse", "--short", "HEAD"]
    return subprocess.run(words, cwd=Path(__file__).parent, check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    main()
