"""One name, one meaning: no two public classes are called alike, nor functions that readers once confused."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src" / "pacesetter"
ONCE = ("play", "load_fleet", "stored_config", "show")


def defined(kind: type[ast.ClassDef] | type[ast.FunctionDef], source: Path = SOURCE) -> dict[str, list[str]]:
    """Public names at the top of each module -> modules that define them."""
    names = defaultdict(list)
    for path in sorted(source.rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
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
    assert set(defined(ast.FunctionDef)["tune"]) == {"cli/jobs.py", "training/launch/search.py"}


def test_a_second_class_of_a_name_is_found(tmp_path):
    for module in ("first", "second"):
        (tmp_path / f"{module}.py").write_text("class Guard: ...\nclass _Own: ...\n")
    assert twice(defined(ast.ClassDef, tmp_path)) == {"Guard": ["first.py", "second.py"]}
