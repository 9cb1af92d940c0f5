"""What `pacesetter evaluate` plays is refused in one sentence; the judgements themselves: tests/cli/test_results.py."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pacesetter.errors import ConfigError
from pacesetter.jobs.evaluate import agents_of, has_result, play_at_risk, play_elsewhere


def test_a_folder_that_is_not_a_pipelines_is_judged_itself(tmp_path: Path) -> None:
    assert agents_of(tmp_path) == tmp_path


def test_a_run_has_a_result_once_it_is_stored(tmp_path: Path) -> None:
    stored: Any = SimpleNamespace(folder=tmp_path)
    assert not has_result(stored)
    (tmp_path / "evaluation").mkdir()
    (tmp_path / "evaluation" / "evaluation.json").write_text("{}")
    assert has_result(stored)


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        (["risk.target_volatility=0.1", "seed=3"], "seed=3 does not go with risk.*"),
        (["risk.target_volatility=0.1"], "does not trade an account; give a run that trades"),
    ],
)
def test_a_risk_is_for_a_run_that_trades(overrides: list[str], sentence: str, tmp_path: Path) -> None:
    stored: Any = SimpleNamespace(folder=tmp_path)
    with pytest.raises(ConfigError) as refused:
        play_at_risk(stored, overrides, print)
    assert sentence in str(refused.value)


def test_another_market_is_named() -> None:
    stored: Any = SimpleNamespace()
    with pytest.raises(ConfigError, match=r"seed=3 does not name a market to evaluate on; give data=…"):
        play_elsewhere(stored, ["seed=3"], print)
