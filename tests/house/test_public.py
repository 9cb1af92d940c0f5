"""A change of a public name or of a configuration key is a decision: it changes a file here."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent


def test_public_names_and_keys_are_those_that_were_decided() -> None:
    spec = importlib.util.spec_from_file_location("public", HERE.parents[1] / "scripts" / "public.py")
    assert spec is not None
    assert spec.loader is not None
    script: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    now, decided = set(script.public_lines()), set((HERE / "public.txt").read_text(encoding="utf-8").splitlines())
    gone, new = sorted(decided - now), sorted(now - decided)
    assert (gone, new) == ([], []), "if this is meant, run `python scripts/public.py` and commit tests/house/public.txt"
