"""Baselines of a plan are played over its test bars, and what cannot be played is said."""

from __future__ import annotations

import pytest

from pacesetter.errors import ConfigError
from pacesetter.jobs import resolve
from pacesetter.jobs.baselines import JudgedMarket, play_baselines


def test_named_baselines_are_played_over_the_test_bars(capsys: pytest.CaptureFixture[str]) -> None:
    market = JudgedMarket.of(
        resolve(["data=synthetic", "data.symbols=3", "data.bars=300", "features.names=[return_1]"])
    )
    told: list[str] = []
    section = play_baselines(market, ["hold", "cash"], told.append)
    assert [row[0] for row in section.rows] == ["hold", "cash"]
    assert told[-1].startswith(f"2 baselines × {len(market.fold.test)} bars × 3 symbols in ")
    assert "hold" in capsys.readouterr().out


def test_a_task_without_an_account_has_no_baselines() -> None:
    with pytest.raises(ConfigError, match="task=lookback"):
        JudgedMarket.of(resolve(["task=lookback", "data=synthetic", "data.symbols=3", "data.bars=300"]))
