"""The pictures of the architecture page are what the imports say today."""

from __future__ import annotations

import ast
import importlib.util
import re
from pathlib import Path
from types import ModuleType
from typing import Any
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("architecture", ROOT / "scripts" / "architecture.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def pictures(script: ModuleType) -> Any:
    """All of them as they should be; drawing them takes seconds."""
    return script.pictures()


def test_committed_pictures_are_current(script, pictures):
    assert script.stale(pictures) == [], "run `python scripts/architecture.py` and commit the pictures"


def test_a_new_import_makes_the_picture_stale(script, monkeypatch):
    graph = script.import_graph()
    more = {"rewards.reward": graph["rewards.reward"] | {"leadlag.engine"}}
    monkeypatch.setattr(script, "import_graph", lambda: graph | more)
    assert "packages.svg" in script.stale(script.pictures())


def test_every_package_is_a_box_and_every_picture_is_xml(script, pictures):
    packages = {path.parent.name for path in script.SOURCE.glob("*/__init__.py")} - {"conf"}
    drawn = {path.name: ElementTree.fromstring(text) for path, text in pictures.items()}
    names = {node.text for node in drawn["packages.svg"].iter() if node.get("class") == "name"}
    assert packages <= names
    modules = {f"jobs.run.{path.stem}" for path in (script.SOURCE / "jobs" / "run").glob("[a-z]*.py")}
    assert modules <= {node.text for node in drawn["training_run.svg"].iter() if node.get("class") == "name"}


def test_arrows_that_follow_from_others_are_left_out(script):
    assert script.reduced({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == {"a": {"b"}, "b": {"c"}, "c": set()}
    assert script.ranks({"a": {"b"}, "b": {"c"}, "c": set()}) == {"a": 2, "b": 1, "c": 0}


def test_an_import_for_types_alone_is_not_an_arrow(script, tmp_path):
    path = tmp_path / "module.py"
    lines = ["if TYPE_CHECKING:", "    from pacesetter.a import x", "import pacesetter.b", "from pacesetter.c import y"]
    path.write_text("\n".join(lines))
    assert script.imports_of(path, {"a", "b", "c"}) == {"b", "c"}


def _names(path: Path) -> set[str]:
    """What a module defines or uses by name, and members of its classes as `Class.member`."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    made = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    members = set()
    for owner in (node for node in tree.body if isinstance(node, ast.ClassDef)):
        for part in owner.body:
            name = part.target.id if isinstance(part, ast.AnnAssign) else getattr(part, "name", "")
            members.add(f"{owner.name}.{name}")
    return used | made | members


def test_every_rule_is_where_the_page_says():
    table = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").partition("## Where a rule lives")[2]
    places = re.findall(r"^\| .* \| `([\w/]+\.py)`, .*?`([\w.]+)`", table, re.MULTILINE)
    assert len(places) == 15
    package = ROOT / "src" / "pacesetter"
    assert [place for place in places if place[1] not in _names(package / place[0])] == []
