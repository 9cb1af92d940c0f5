"""Loading and importing: 143 symbols × 3,000 bars from a long Parquet file, beside plain pandas; start-up time."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pandas as pd
from record import publish, seconds, table

import pacesetter as ps

SYMBOLS, BARS = 143, 3000


def long_file(folder: Path) -> Path:
    """The market as users keep it: one row per bar and symbol."""
    panel = ps.load("synthetic", symbols=SYMBOLS, bars=BARS, seed=1)
    frame = panel.to_frame().stack(level="symbol", future_stack=True).reset_index(names=["timestamp", "symbol"])
    frame.to_parquet(folder / "bars.parquet")
    return folder / "bars.parquet"


def plain_pandas(path: Path) -> dict[str, pd.DataFrame]:
    """Read and pivot each field, without any check."""
    frame = pd.read_parquet(path)
    fields = [name for name in frame.columns if name not in ("timestamp", "symbol")]
    return {field: frame.pivot(index="timestamp", columns="symbol", values=field) for field in fields}


def start_up(code: str) -> float:
    return seconds(lambda: subprocess.run([sys.executable, "-c", code], check=True, capture_output=True), repeat=7)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = long_file(Path(folder))
        ours = seconds(lambda: ps.load("parquet", path=str(path), calendar="24/7"))
        naive = seconds(lambda: plain_pandas(path))
        stored = ps.load("parquet", path=str(path), calendar="24/7").save(Path(folder) / "panel.parquet")
        again = seconds(lambda: ps.Panel.load(stored))
    bare, light = start_up("pass"), start_up("import pacesetter")
    help_text = start_up("import sys; sys.argv = ['pacesetter', '--help']; from pacesetter.cli import main; main()")
    heavy = start_up("import pandas")
    rows = [
        [f"long Parquet → checked Panel, {SYMBOLS} × {BARS:,}", ours, naive / ours, "pandas pivot, no checks"],
        ["stored Panel → Panel, hash checked", again, naive / again, "pandas pivot, no checks"],
        ["import pacesetter, above bare Python", light - bare, (heavy - bare) / (light - bare), "import pandas"],
        [
            "pacesetter --help, above bare Python",
            help_text - bare,
            (heavy - bare) / (help_text - bare),
            "import pandas",
        ],
    ]
    publish("panel", table(["work", "seconds", "times as fast as", "the peer"], rows), "Loading and start-up")


if __name__ == "__main__":
    main()
