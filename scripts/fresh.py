"""Run the README's Python lines in fresh environments that hold the core alone, or measure what is installed.

    python scripts/fresh.py                             # on this Python, newest versions
    python scripts/fresh.py --python 3.11 3.13 --locked # on these, with the versions of locks/core.txt
    python scripts/fresh.py --sizes                     # disk and time of the core and of each extra, torch aside

A Python is found on the path as `python3.13`, among those of pyenv, or is a path. Environments are made in a temporary
folder and removed.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOCKS = ROOT / "locks"
NO_EXTRAS = ("core", "docs", "test", "hashes")  # locks that are no extra's
BARS = """import pacesetter as ps
ps.load("synthetic", symbols=5, bars=800, seed=1).to_frame()["close"].to_csv("bars.csv")
assert ps.load("bars.csv").shape == (800, 5, 1)
"""


def find_python(name: str) -> Path:
    """The interpreter of a version as 3.13, or of a path."""
    if Path(name).is_file():
        return Path(name)
    known = shutil.which(f"python{name}")
    if known and subprocess.run([known, "--version"], capture_output=True, check=False).returncode == 0:
        return Path(known)
    versions = sorted((Path.home() / ".pyenv" / "versions").glob(f"{name}.*/bin/python"))
    if not versions:
        raise SystemExit(f"error: Python {name} is not installed; give the path of one by --python")
    return versions[-1]


def make_environment(python: Path, folder: Path, *wanted: str) -> Path:
    """A fresh environment with what is wanted; gives its Python."""
    subprocess.run([python, "-m", "venv", folder], check=True)
    own = folder / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    add(own, *wanted)
    return own


def add(own: Path, *wanted: str) -> None:
    subprocess.run([own, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *wanted], check=True)


def readme_lines() -> tuple[str, list[str]]:
    """The first Python block of the README, and the lines that it prints there."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.search(r"```python\n(.*?)```\n\n```\n(.*?)```", text, re.S)
    if found is None:
        raise SystemExit("error: README.md has no Python block with its output below; put it back")
    return found[1], found[2].splitlines()


def differences(printed: list[str], shown: list[str]) -> list[str]:
    """Lines that do not begin as the README shows them, whatever the blanks."""
    if len(printed) != len(shown):
        return [f"{len(printed)} lines instead of {len(shown)}"]
    pairs = [
        (" ".join(line.split()), " ".join(wanted.rstrip("…").split()))
        for line, wanted in zip(printed, shown, strict=True)
    ]
    return [f"{line!r} instead of {wanted!r}" for line, wanted in pairs if not line.startswith(wanted)]


def run_readme(own: Path, folder: Path) -> list[str]:
    """What the README's lines print."""
    code, _ = readme_lines()
    subprocess.run([own, "-I", "-c", BARS], cwd=folder, check=True)
    done = subprocess.run([own, "-I", "-c", code], cwd=folder, check=False, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"error: the README's lines fail with the core alone:\n{done.stderr}")
    return done.stdout.splitlines()


def try_python(name: str, is_locked: bool) -> None:
    """Install the core on a Python and run the README there; ends the process where it fails."""
    with tempfile.TemporaryDirectory(prefix="fresh-") as folder:
        place, started = Path(folder), time.monotonic()
        versions = ("--constraint", str(LOCKS / "core.txt")) if is_locked else ()
        own = make_environment(find_python(name), place / "environment", *versions, str(ROOT))
        installed = time.monotonic() - started
        odd = differences(run_readme(own, place), readme_lines()[1])
        if odd:
            raise SystemExit(f"error: on Python {name} the README's lines print {odd[0]}")
        print(
            f"Python {name}: core of {megabytes(own.parents[1]):,.0f} MB installed in {installed:.0f} s; "
            "the README's lines print what it shows"
        )


def megabytes(folder: Path) -> float:
    return sum(file.lstat().st_size for file in folder.rglob("*") if file.is_file()) / 1e6


def measure(python: Path) -> None:
    """Print disk and seconds of the locked packages of the core, of torch, and of what each extra adds to both."""
    core = _pinned("core")
    extras = [lock.stem for lock in sorted(LOCKS.glob("*.txt")) if lock.stem not in NO_EXTRAS]
    added = {name: sorted({*_pinned(name)} - {*core}) for name in extras}
    wanted = {"core": core, "torch": ["torch==2.13.0"]} | {name: lines for name, lines in added.items() if lines}
    for name, packages in wanted.items():
        with tempfile.TemporaryDirectory(prefix="sizes-") as folder:
            started = time.monotonic()
            add(python, "--no-deps", "--target", folder, *packages)
            print(f"| {name} | {megabytes(Path(folder)):,.0f} | {time.monotonic() - started:.0f} |", flush=True)


def _pinned(lock: str) -> list[str]:
    return [line for line in (LOCKS / f"{lock}.txt").read_text(encoding="utf-8").splitlines() if "==" in line]


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", nargs="+", default=[sys.executable], metavar="VERSION")
    parser.add_argument("--locked", action="store_true", help="with the versions of locks/core.txt")
    parser.add_argument("--sizes", action="store_true", help="measure instead")
    options = parser.parse_args(words)
    if options.sizes:
        measure(find_python(options.python[0]))
        return
    for name in options.python:
        try_python(name, options.locked)


if __name__ == "__main__":
    main()
