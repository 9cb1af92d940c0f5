"""What share of the pipeline's processor time goes to choosing the lookback.

    python benchmarks/lookback_share.py FILE … [31x39000] --record

Each FILE of bars goes through `pacesetter run` with its defaults; `31x39000` is a simulated market of so many symbols
and hours; a folder holds the runs of one that went stage by stage (`runs=FOLDER stage=agents`, then `stage=report`).
Seconds are those of the processor, which other work on the machine changes little.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from record import publish, table

MOST = 0.2  # of the pipeline
HOURLY = ["data=synthetic", "data.freq=1h", "data.calendar=24/7"]


def stage_seconds(source: str, folder: Path) -> dict[str, float]:
    """Processor seconds of each stage of a whole run: when it worked, not when it was read from the cache."""
    if Path(source).is_dir():
        folder = Path(source)
    else:
        run_pipeline(source, folder)
    taken: dict[str, float] = {}
    for path in folder.glob("*/manifest.json"):
        for name, cost in json.loads(path.read_text())["costs"].items():
            taken[name] = max(cost["processor_seconds"], taken.get(name, 0.0))
    return taken


def run_pipeline(source: str, folder: Path) -> None:
    symbols, _, bars = source.partition("x")
    is_size = symbols.isdigit() and bars.isdigit()
    words = [*HOURLY, f"data.symbols={symbols}", f"data.bars={bars}"] if is_size else [f"data={Path(source).resolve()}"]
    subprocess.run([sys.executable, "-m", "pacesetter", "run", *words, f"runs={folder}"], check=True, cwd=folder)


def main() -> None:
    rows = []
    for source in (word for word in sys.argv[1:] if word != "--record"):
        with tempfile.TemporaryDirectory() as folder:
            load, taken = os.getloadavg()[0], stage_seconds(source, Path(folder))
        whole, lookback = sum(taken.values()), taken["lookback"]
        longest = ", ".join(f"{name} {taken[name]:.0f}" for name in sorted(taken, key=taken.__getitem__)[:-4:-1])
        rows.append((Path(source).stem, round(lookback, 1), round(whole, 1), f"{lookback / whole:.0%}", longest, load))
        print(rows[-1], flush=True)
    sys.argv = [sys.argv[0], *(["--record"] if "--record" in sys.argv else [])]
    header = ("bars", "lookback, s", "whole pipeline, s", "share", "longest stages, s", "load before")
    body = f"Processor seconds of `pacesetter run data=…`; at most {MOST:.0%} is aimed at.\n\n{table(header, rows)}"
    publish("lookback_share", body, "The lookback stage in the pipeline")


if __name__ == "__main__":
    main()
