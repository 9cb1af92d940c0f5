"""The regression gate: what drifts, disappears or changes its text fails by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pacesetter.errors import ConfigError, RunError
from pacesetter.evaluation.statistics.regression import read_result, regression_gates

STORED = {"ppo": {"sharpe": 1.25, "cost": 2000.0, "sortino": float("nan")}, "equity": [1.0, 1.1], "data": "abc"}


def failed(found: dict[str, Any], tolerance: float = 1e-3) -> list[str]:
    return [gate.name for gate in regression_gates(STORED, found, tolerance) if not gate.passed]


def changed(**figures: Any) -> dict[str, Any]:
    return STORED | {"ppo": STORED["ppo"] | figures}  # type: ignore[operator]


def test_the_same_result_passes_after_a_trip_through_json(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    path.write_text(json.dumps(STORED))
    gates = regression_gates(read_result(path), STORED, 0.0)
    assert [gate.name for gate in gates] == ["ppo.sharpe", "ppo.cost", "ppo.sortino", "equity.0", "equity.1", "data"]
    assert all(gate.passed for gate in gates)


def test_a_drift_beyond_the_tolerance_fails_by_name() -> None:
    assert failed(changed(sharpe=1.251, cost=2001.9)) == []
    assert failed(changed(sharpe=1.252)) == ["ppo.sharpe"]
    assert failed(changed(cost=2003.0)) == ["ppo.cost"]
    assert failed(changed(sharpe=float("nan"))) == ["ppo.sharpe"]


def test_what_is_missing_or_other_fails_and_what_is_new_does_not() -> None:
    assert failed({}) == ["ppo.sharpe", "ppo.cost", "ppo.sortino", "equity.0", "equity.1", "data"]
    assert failed(STORED | {"data": "abd"}) == ["data"]
    assert failed(changed(calmar=3.0)) == []


def test_files_that_are_no_result_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="cannot be read as a result"):
        read_result(tmp_path / "none.json")
    (tmp_path / "list.json").write_text("[1]")
    with pytest.raises(RunError, match="has no mapping"):
        read_result(tmp_path / "list.json")
    with pytest.raises(ConfigError, match="tolerance=-1"):
        regression_gates(STORED, STORED, -1)
