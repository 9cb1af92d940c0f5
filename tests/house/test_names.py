"""One name, one meaning: no two public classes are called alike, nor functions that readers once confused."""

from __future__ import annotations

import ast
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src" / "pacesetter"
VAGUE = ("told", "seen", "found")
CONFIGURED = ("envs/lookback/actions.py",)  # `windows.seen` is a key of the configuration
ONCE = ("play", "load_fleet", "stored_plan", "show")


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def defined(kind: type[ast.ClassDef] | type[ast.FunctionDef], source: Path = SOURCE) -> dict[str, list[str]]:
    """Public names at the top of each module -> modules that define them."""
    names = defaultdict(list)
    for path in sorted(source.rglob("*.py")):
        for node in parsed(path).body:
            if isinstance(node, kind) and not node.name.startswith("_"):
                names[node.name].append(str(path.relative_to(source)))
    return names


def twice(names: dict[str, list[str]]) -> dict[str, list[str]]:
    return {name: modules for name, modules in names.items() if len(modules) > 1}


def test_no_two_public_classes_share_a_name():
    assert twice(defined(ast.ClassDef)) == {}, "rename the lesser one for what it holds"


@pytest.mark.parametrize("name", ONCE)
def test_a_function_that_was_confused_exists_once(name):
    assert len(defined(ast.FunctionDef).get(name, [])) <= 1


def test_tune_is_the_search_alone():
    assert set(defined(ast.FunctionDef)["tune"]) == {"jobs/launch/search.py"}


def test_a_second_class_of_a_name_is_found(tmp_path):
    for module in ("first", "second"):
        (tmp_path / f"{module}.py").write_text("class Guard: ...\nclass _Own: ...\n")
    assert twice(defined(ast.ClassDef, tmp_path)) == {"Guard": ["first.py", "second.py"]}


def vague(source: Path = SOURCE) -> dict[str, list[str]]:
    """Modules -> variables and parameters that say how a value came, not what it is."""
    names = defaultdict(list)
    for path in sorted(source.rglob("*.py")):
        for node in ast.walk(parsed(path)):
            name = node.arg if isinstance(node, ast.arg) else node.id if isinstance(node, ast.Name) else ""
            is_bound = isinstance(node, ast.arg) or isinstance(getattr(node, "ctx", None), ast.Store)
            if is_bound and name in VAGUE:
                names[str(path.relative_to(source))].append(f"{name}, line {node.lineno}")
    return names


def test_no_variable_is_called_told_seen_or_found():
    assert {module: names for module, names in vague().items() if module not in CONFIGURED} == {}


def test_a_vague_name_is_noticed(tmp_path):
    (tmp_path / "first.py").write_text("def read(told):\n    seen = told\n    return seen\n")
    assert vague(tmp_path) == {"first.py": ["told, line 1", "seen, line 2"]}
