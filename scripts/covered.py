"""How much of the packages that trade is run by the tests: shares of lines, held against what is asked for.

    python scripts/covered.py                    # run the tests, then print the table; exit 1 if a package is below
    python scripts/covered.py --processes 1      # the same, and leave the other cores alone
    python scripts/covered.py --json FILE        # hold a report of `coverage json` against the limits, run nothing

A compiled function leaves no trace, so the tests run twice: compiled, and those in `REFERENCE` once more without numba,
where the same source runs as Python. Files for CUDA are left out by name: nothing here can run them.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SOURCE = "src/pacesetter/"
LIMITS = {"market": 90.0, "rewards": 90.0, "envs": 90.0, "leadlag": 90.0, "serving/risk": 95.0}
CUDA = ("*/cuda.py",)  # kernels for a GPU and what launches them
ESTIMATORS = tuple(f"tests/leadlag/estimators/test_{name}.py" for name in ("granger", "levy", "products", "warping"))
LEADLAG = ("tests/leadlag/test_series.py", "tests/leadlag/test_leaders.py", *ESTIMATORS)
REFERENCE = ("tests/market", "tests/rewards", "tests/envs/batch", *LEADLAG)
WRAPPING = ("-W", "ignore:overflow encountered:RuntimeWarning")  # compiled hashes wrap around without a word
PYTEST = (sys.executable, "-m", "pytest", "--dist", "worksteal", "-m", "not proof")


def shares(report: Mapping[str, Any]) -> dict[str, tuple[int, int]]:
    """Package -> lines that were run, and all of them."""
    counts = dict.fromkeys(LIMITS, (0, 0))
    for name, file in report["files"].items():
        inside = Path(name).as_posix().partition(SOURCE)[2]
        package = next((package for package in LIMITS if inside.startswith(f"{package}/")), None)
        if package is not None:
            run, whole = counts[package]
            summary = file["summary"]
            counts[package] = run + summary["covered_lines"], whole + summary["num_statements"]
    return counts


def table(counts: Mapping[str, tuple[int, int]]) -> tuple[list[str], bool]:
    """A line for each package, and whether all are at their limits; one without lines was not measured, and is not."""
    lines, is_enough = [], True
    for package, (run, whole) in counts.items():
        share = 100 * run / whole if whole else 0.0
        passes = share >= LIMITS[package]
        is_enough &= passes
        word = "pass" if passes else "FAIL" if whole else "NOT MEASURED"
        lines.append(f"{package:<14}{run:>7} of {whole:>6} lines  {share:6.2f} %  >= {LIMITS[package]:g} %  {word}")
    return lines, is_enough


def measure(folder: Path, processes: int) -> Path:
    """Run the tests twice and write one report of both."""
    environment = os.environ | {"COVERAGE_FILE": str(folder / "coverage.data")}
    settings = folder / "coverage.ini"
    omitted = "\n    ".join(CUDA)
    settings.write_text(f"[run]\nsource = {SOURCE}\nomit =\n    {omitted}\n", encoding="utf-8")
    options = ["-n", str(processes), "--cov", "--cov-append", f"--cov-config={settings}", "--cov-report="]
    report = folder / "coverage.json"
    for tests, more in (("tests",), {}), ((*WRAPPING, *REFERENCE), {"NUMBA_DISABLE_JIT": "1"}):
        done = subprocess.run([*PYTEST, *options, *tests], cwd=ROOT, env=environment | more, check=False)
        if done.returncode:
            print(f"some tests failed ({'without numba' if more else 'compiled'}); what they ran counts all the same")
    command = [sys.executable, "-m", "coverage", "json", "--quiet", f"--rcfile={settings}", "-o", str(report)]
    subprocess.run(command, cwd=ROOT, env=environment, check=True)
    return report


def main() -> int:
    """Measure or read, print, and say whether it is enough."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=2, help="that run the tests")
    parser.add_argument("--json", type=Path, help="a report that was made already")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = options.json or measure(Path(folder), options.processes)
        lines, is_enough = table(shares(json.loads(path.read_text(encoding="utf-8"))))
    print("\n".join(lines))
    return 0 if is_enough else 1


if __name__ == "__main__":
    sys.exit(main())
