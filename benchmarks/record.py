"""What every benchmark shares: median timings, a Markdown table, and the result file with its command and machine."""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
LIBRARIES = ("numpy", "numba", "pandas", "torch", "gymnasium", "stable-baselines3")


def seconds(work: Callable[[], Any], repeat: int = 5, warm: int = 1) -> float:
    """Median wall time of `work()` over `repeat` calls, after `warm` calls that do not count."""
    for _ in range(warm):
        work()
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def seed_options(default: str = "1+2") -> argparse.ArgumentParser:
    """What benchmarks take that play a market for each seed, or read what earlier commands printed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", default=default)
    parser.add_argument("--read", nargs="*", help="files of printed lines, to make the table of")
    parser.add_argument("--note", default="", help="what the page says of them")
    return parser


def printed_lines(names: Iterable[str] | None) -> list[dict[str, Any]]:
    """The JSON lines that earlier commands printed into these files."""
    texts = [Path(name).read_text(encoding="utf-8") for name in names or ()]
    return [json.loads(line) for text in texts for line in text.splitlines() if line.startswith("{")]


def table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A Markdown table; floats with three significant digits."""

    def cell(value: Any) -> str:
        return (
            f"{value:,.3g}"
            if isinstance(value, float) and abs(value) < 1000
            else (f"{value:,.0f}" if isinstance(value, float) else str(value))
        )

    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(cell(value) for value in row) + " |" for row in rows]
    return "\n".join(lines)


def machine() -> str:
    """One line: processor kind, cores, Python and the libraries that matter."""
    found = []
    for name in LIBRARIES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, {', '.join(found)}"


def publish(name: str, body: str, title: str) -> None:
    """Print `body`; with `--record` on the command line also write `benchmarks/results/<name>.md`."""
    parser = argparse.ArgumentParser(description=title)
    parser.add_argument("--record", action="store_true", help="write benchmarks/results/<name>.md")
    options, _ = parser.parse_known_args(sys.argv[1:])
    print(f"\n{title}\n\n{body}\n")
    if options.record:
        RESULTS.mkdir(exist_ok=True)
        # a folder of this machine is of no use to a reader, so its name alone is kept
        words = [Path(word).name if Path(word).is_absolute() else word for word in sys.argv[1:]]
        command = " ".join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *words])
        day = time.strftime("%Y-%m-%d")
        text = f"# {title}\n\n`{command}` on {day}: {machine()}\n\n{body}\n"
        (RESULTS / f"{name}.md").write_text(text, encoding="utf-8")
