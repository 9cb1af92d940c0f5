"""Examples in docstrings run, and everything public has one."""

from __future__ import annotations

import doctest
from importlib import import_module
from pathlib import Path

import pytest

import pacesetter as ps

SOURCE = Path(ps.__file__).parent
MODULES = sorted(
    ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts)
    for path in SOURCE.rglob("*.py")
    if "    >>> " in path.read_text(encoding="utf-8")
)
CALLS = (ps.load, ps.backtest, ps.train, ps.evaluate, ps.LeadLag.matrix, ps.LeadLag.ranking, ps.LeadLag.rolling)


def test_every_public_call_has_an_example() -> None:
    assert [call.__qualname__ for call in CALLS if ">>> " not in (call.__doc__ or "")] == []


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_run(name: str) -> None:
    found = doctest.testmod(import_module(name), optionflags=doctest.ELLIPSIS)
    assert found.attempted > 0
    assert found.failed == 0
