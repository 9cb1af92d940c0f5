"""Stored values of every component and every way to shape: a silent change of a reward fails here."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = runpy.run_path(str(ROOT / "scripts" / "reward_snapshots.py"))
ADVICE = "if the change is meant, run `python scripts/reward_snapshots.py` and commit the difference"
NOW = SCRIPT["snapshots"]()
CASES = [(kind, name) for kind, cases in NOW.items() for name in cases]


def stored(kind: str) -> dict[str, list[list[float]]]:
    values: dict[str, list[list[float]]] = json.loads((SCRIPT["FOLDER"] / f"{kind}.json").read_text(encoding="utf-8"))
    return values


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_values_are_those_of_the_snapshot(kind: str, name: str) -> None:
    assert name in stored(kind), f"{kind} '{name}' has no snapshot; {ADVICE}"
    np.testing.assert_allclose(
        NOW[kind][name], stored(kind)[name], rtol=1e-10, atol=1e-12, err_msg=f"{kind} '{name}' changed; {ADVICE}"
    )


@pytest.mark.parametrize("kind", NOW)
def test_no_snapshot_is_left_behind(kind: str) -> None:
    assert set(stored(kind)) == set(NOW[kind]), ADVICE


@pytest.mark.parametrize("kind", ["components", "lookback"])
def test_every_component_says_something_in_its_snapshot(kind: str) -> None:
    silent = [name for name, values in stored(kind).items() if not np.any(values)]
    assert not silent
