"""The tree stays readable: a test for every module, and every folder in CONTRIBUTING."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from itertools import accumulate
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "pacesetter"
TESTS = ROOT / "tests"


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT / "src").with_suffix("").parts)


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def imported(path: Path) -> Iterator[str]:
    """Every dotted name that a test imports, patches or starts as text: `from a.b import c` gives a.b and a.b.c."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("pacesetter."):
            yield node.value


def defined(node: ast.stmt) -> set[str]:
    """Names that a top-level statement defines: a class, a function, or an assignment such as a registry."""
    if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
        return {node.name}
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return {target.id for target in targets if isinstance(target, ast.Name)}


def named(path: Path) -> set[str]:
    """Modules that a test's docstring names in backquotes, e.g. `cli.data`: it runs them through another interface."""
    return set(re.findall(r"`([a-z_0-9]+(?:\.[a-z_0-9]+)+)`", ast.get_docstring(parsed(path)) or ""))


def reexported(module: Path) -> set[str]:
    """`package.Name` of all that a module defines, for each package above it: tests import from packages too."""
    names = set().union(*map(defined, parsed(module).body))
    parts = module_name(module).split(".")
    return {".".join([*parts[:depth], name]) for depth in range(1, len(parts)) for name in names}


def test_every_module_has_a_test_of_its_name_or_is_named_by_one():
    tests = list(TESTS.rglob("test_*.py"))
    used = {name for path in [*tests, *TESTS.rglob("conftest.py")] for name in imported(path)}
    inside = {prefix for name in used for prefix in accumulate(name.split("."), "{}.{}".format)}  # a.b.c: a, a.b, a.b.c
    through = {f"pacesetter.{name}" for path in tests for name in named(path)}
    stems = {path.relative_to(TESTS).parent / path.stem.removeprefix("test_") for path in tests}
    untested = [
        module_name(path)
        for path in sorted(SOURCE.rglob("*.py"))
        if path.stem not in ("__init__", "__main__")
        and path.relative_to(SOURCE).with_suffix("") not in stems
        and module_name(path) not in inside
        and not reexported(path) & used
        and module_name(path) not in through
    ]
    assert untested == []


def tree_of_contributing() -> set[str]:
    """Folders that the tree of CONTRIBUTING.md has, as `evaluation/report`."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    listed, above = set(), ""
    for indent, name in re.findall(r"^( {2}| {4})([a-z_0-9]+)/ ", text, re.M):
        above = name if len(indent) == 2 else above
        listed.add(name if len(indent) == 2 else f"{above}/{name}")
    return listed


def test_the_tree_of_contributing_has_every_folder():
    depth = len(SOURCE.parts)
    packages = {"/".join(path.parent.parts[depth:]) for path in SOURCE.rglob("__init__.py")} - {""}
    assert tree_of_contributing() == {name for name in packages if name.count("/") < 2}
