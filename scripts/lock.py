"""Regenerate `locks/<extra>.txt`: the full pinned closure of the core and of each extra, resolved by pip.

    python scripts/lock.py                         # keep the versions locked now, add what is new
    python scripts/lock.py --upgrade               # newest versions that fit pyproject.toml
    python scripts/lock.py --constraints FILE      # take the versions of FILE

The files are installed with `pip install --no-deps`. torch is left out of them and installed by its own command with
its own dependencies, since the build that fits (CPU or CUDA) differs from machine to machine.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOCKS = ROOT / "locks"
BUILD_TOOL = "setuptools>=77"  # installs the package itself, without build isolation
TEST_EXTRAS = "dev,rl,signatures,track,search,evaluate,serve,dash,ray,online,data,offline,drift,mcp"


def groups() -> dict[str, list[str]]:
    """Lock file name → the requirements that it closes; those of the site are without the package itself."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]
    wanted = {"core": ".", "test": f".[{TEST_EXTRAS}]"}
    wanted |= {name: f".[{name}]" for name in extras if name not in ("dev", "signatures")}
    return {name: [requirement, BUILD_TOOL] for name, requirement in wanted.items()} | project["dependency-groups"]


def constraints(options: argparse.Namespace) -> str:
    """The versions to keep."""
    if options.constraints:
        return Path(options.constraints).read_text()
    if options.upgrade:
        return "torch==2.13.0\n"
    lines = {line for lock in LOCKS.glob("*.txt") for line in lock.read_text().splitlines() if "==" in line}
    return "\n".join(sorted(lines | {"torch==2.13.0"}))


def resolve(requirements: list[str], keep: str) -> list[str]:
    """`name==version` lines of everything pip would install for `requirements`."""
    with tempfile.TemporaryDirectory() as folder:
        pins, report = Path(folder) / "pins.txt", Path(folder) / "report.json"
        pins.write_text(keep)
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"]
        command += ["--report", str(report), "--constraint", str(pins), *requirements]
        subprocess.run(command, cwd=ROOT, check=True)
        found = json.loads(report.read_text())["install"]
    pinned = {item["metadata"]["name"].lower().replace("_", "-"): item["metadata"]["version"] for item in found}
    skip = {"pacesetter", "torch"} | {name for name in pinned if name.startswith(("nvidia-", "triton"))}
    return [f"{name}=={version}" for name, version in sorted(pinned.items()) if name not in skip]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--upgrade", action="store_true")
    parser.add_argument("--constraints")
    parser.add_argument("--only", nargs="*", help="only these lock files")
    options = parser.parse_args()
    keep = constraints(options)
    LOCKS.mkdir(exist_ok=True)
    for name, requirements in groups().items():
        if options.only and name not in options.only:
            continue
        lines = resolve(requirements, keep)
        head = f"# made by scripts/lock.py for {requirements[0]}; do not edit\n"
        (LOCKS / f"{name}.txt").write_text(head + "\n".join(lines) + "\n")
        print(f"locks/{name}.txt: {len(lines)} packages")


if __name__ == "__main__":
    main()
