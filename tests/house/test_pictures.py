"""Every picture of the pages is drawn by a command that the list names, and is shown somewhere."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
RESULTS = (ROOT / "benchmarks" / "results").glob("*.md")
PAGES = [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", *RESULTS]


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("pictures", ROOT / "scripts" / "pictures.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_picture_has_its_command_and_its_page(script: ModuleType) -> None:
    assert sorted(script.COMMANDS) == sorted(path.name for path in script.PICTURES.iterdir())
    shown = {name for page in PAGES for name in re.findall(r"pictures/([\w.]+)\)", page.read_text(encoding="utf-8"))}
    assert sorted(shown) == sorted(script.COMMANDS)
    scripts = [word for command in script.COMMANDS.values() for word in command.split() if word.endswith(".py")]
    assert [word for word in scripts if not (ROOT / word).is_file()] == []


def test_the_league_is_read_from_its_record_and_drawn(script: ModuleType, tmp_path: Path) -> None:
    text = "| planted 0.4 | direct | 5 | +6.47 ± 1.10 | 117% ± 6% | 5 of 5 |\n| noise | direct | 5 | -0.10 ± 0.20 | – |"
    (played,) = script.read_league(text)
    assert played == (0.4, "direct", 6.47, 1.1)
    recorded = script.read_league((script.RESULTS / "league.md").read_text(encoding="utf-8"))
    assert {each.strength for each in recorded} == {0.1, 0.2, 0.4, 0.8}
    assert script.draw_league([played], tmp_path / "league.png").stat().st_size > 5_000


def test_the_experiment_is_read_from_its_record_and_drawn(script: ModuleType, tmp_path: Path) -> None:
    recorded = script.read_original((script.RESULTS / "gpu_original.md").read_text(encoding="utf-8"))
    assert {each.arm for each in recorded} == set(script.ARMS)
    text = "| main | 16384 | -1.78 | -1.13 | 0 of 10 | 70% | 80% | 50% | 10% | 0% |\n| main | 2 | steps | 1 | 2 | 3 |"
    (validated,) = script.read_original(text)
    assert validated == ("main", 16384, -1.78, 0.7, 0.0)
    assert script.draw_original([validated], tmp_path / "original.png").stat().st_size > 5_000
