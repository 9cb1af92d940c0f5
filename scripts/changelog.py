"""CHANGELOG.md: the version written by hand, and above it a section for each later tag, made from the commits.

python scripts/changelog.py                # commits after the last tag stand under "Unreleased"
python scripts/changelog.py --tag v0.3.0   # or under the version that is being released
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FIRST = "v0.2.0"  # the tag from which on sections are made
HEADING = f"## {FIRST.removeprefix('v')} ("


def write_changelog(root: Path, tag: str | None = None) -> None:
    """Replace what stands above the hand-written section; its own date is that of its tag."""
    page = root / "CHANGELOG.md"
    above, heading, written = page.read_text(encoding="utf-8").partition(HEADING)
    if not heading:
        sys.exit(f"{page} has no section '{HEADING}…)', below which the hand-written text stands; restore it")
    if tag == FIRST:
        written = f"{datetime.now(UTC):%Y-%m-%d}{written[written.index(')') :]}"
    header = "\n".join(above.splitlines()[:3])
    page.write_text(f"{header}\n\n{_later_sections(root, tag)}{heading}{written}", encoding="utf-8")


def _later_sections(root: Path, tag: str | None) -> str:
    """What git-cliff makes of the commits after the first tag; nothing before there is one."""
    known = subprocess.run(["git", "tag", "--list", FIRST], cwd=root, capture_output=True, text=True, check=True).stdout
    if not known:
        return ""
    tool = Path(sys.executable).with_name("git-cliff")
    command = [str(tool), "--config", str(ROOT / "cliff.toml"), "--strip", "all", *(["--tag", tag] if tag else [])]
    made = subprocess.run([*command, f"{FIRST}.."], cwd=root, capture_output=True, text=True, check=True).stdout.strip()
    return f"{made}\n\n" if "\n- " in made else ""


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tag", help="the version that is being released, e.g. v0.3.0")
    write_changelog(ROOT, parser.parse_args().tag)
