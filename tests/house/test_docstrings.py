"""Examples in docstrings run."""

from __future__ import annotations

import doctest
from importlib import import_module

import pytest


@pytest.mark.parametrize("name", ["pacesetter.api", "pacesetter.data.loading", "pacesetter.leadlag.engine"])
def test_examples_in_docstrings_run(name: str) -> None:
    found = doctest.testmod(import_module(name), optionflags=doctest.ELLIPSIS)
    assert found.attempted > 0
    assert found.failed == 0
