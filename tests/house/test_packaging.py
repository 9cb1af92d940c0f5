"""What `pip install` brings: a core that needs no extra, ranges in extras, exact versions in locks alone."""

from __future__ import annotations

import importlib.util
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]


def test_torch_is_a_range_in_extras_and_no_part_of_the_core() -> None:
    wanted = [line for name, lines in EXTRAS.items() if name != "dev" for line in lines if line.startswith("torch")]
    assert set(wanted) == {"torch>=2.9,<3"}
    assert not [line for line in PROJECT["dependencies"] if re.match(r"torch|ray|stable", line)]


def test_all_leaves_ray_and_exact_pins_out() -> None:
    named = {word for line in EXTRAS["all"] for word in re.findall(r"\[(.+)\]", line)[:1]}
    extras = {extra for words in named for extra in words.split(",")}
    assert extras <= set(EXTRAS)
    assert not extras & {"ray", "online", "gpu", "dev", "minari", "wandb"}
    assert not [line for extra in extras for line in EXTRAS[extra] if "==" in line]


def test_every_lock_holds_the_core() -> None:
    names = [re.split(r"[>=\[]", line)[0] for line in PROJECT["dependencies"]]
    for lock in sorted((ROOT / "locks").glob("*.txt")):
        if lock.stem == "docs":  # the site's own tools
            continue
        pinned = {line.partition("==")[0] for line in lock.read_text(encoding="utf-8").splitlines()}
        assert set(names) <= pinned, lock.name


def test_every_locked_version_has_the_hashes_of_its_files() -> None:
    lines = (ROOT / "locks" / "files.sha256").read_text(encoding="utf-8").splitlines()
    hashed = {line.split()[0]: line.split()[1:] for line in lines}
    assert lines == sorted(lines)  # as `join` wants it
    assert all(
        hashes and all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", h) for h in hashes) for hashes in hashed.values()
    )
    for lock in sorted((ROOT / "locks").glob("*.txt")):
        pinned = {line for line in lock.read_text(encoding="utf-8").splitlines() if "==" in line}
        assert pinned <= set(hashed), f"{lock.name}: run python scripts/hashes.py INDEX"


def test_a_line_that_the_readme_does_not_show_is_named() -> None:
    spec = importlib.util.spec_from_file_location("fresh", ROOT / "scripts" / "fresh.py")
    assert spec is not None
    assert spec.loader is not None
    fresh = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(fresh)
    assert fresh.differences(["S2  0.1   4", "No evidence: 0.34"], ["S2 0.1 4", "No evidence: …"]) == []
    assert fresh.differences(["S2 0.2"], ["S2 0.1"]) == ["'S2 0.2' instead of 'S2 0.1'"]
    assert fresh.differences([], ["S2"]) == ["0 lines instead of 1"]
    code, shown = fresh.readme_lines()
    assert "import pacesetter as ps" in code
    assert shown
