"""`task.utility`: what takes the place of growth in the reward, and an aversion that would end in cash."""

from __future__ import annotations

import logging

import pytest

from pacesetter.build import build_panel, with_utility
from pacesetter.errors import ConfigError
from pacesetter.jobs.hydra.resolve import resolve

MARKET = ("+preset=planted", "data.bars=400", "data.symbols=4")


def resolved(*overrides: str) -> dict[str, object]:
    config = resolve([*MARKET, *overrides])
    components = with_utility(config, build_panel(config)).trading.reward.components
    return {name: (term.weight, term.options) for name, term in components.items()}


def test_a_stated_risk_rewards_mean_less_variance() -> None:
    assert resolved("risk.target_volatility=0.04") == {"mean_variance": (300.0, {"aversion": 50.0})}
    assert resolved("task.aversion=20") == {"mean_variance": (300.0, {"aversion": 20.0})}


def test_without_one_the_reward_stays() -> None:
    assert resolved() == {"pnl": (300.0, {})}
    assert resolved("risk.target_volatility=0.04", "task.utility=reward") == {"pnl": (300.0, {})}


def test_differential_sharpe_has_the_weight_of_the_starting_set() -> None:
    assert resolved("task.utility=differential_sharpe") == {"differential_sharpe": (pytest.approx(0.3), {})}


def test_other_components_stay_and_a_resolved_task_is_left_alone() -> None:
    both = "+task.reward.components.cost=10.0"
    assert list(resolved(both, "task.aversion=20")) == ["mean_variance", "cost"]
    config = resolve([*MARKET, "task.aversion=20"])
    panel = build_panel(config)
    once = with_utility(config, panel)
    assert with_utility(once, panel) == once


def test_an_aversion_that_ends_in_cash_is_cut_and_said(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        (_, options), *_ = resolved("task.aversion=100000").values()  # type: ignore[misc]
    assert 100 < options["aversion"] < 1000
    assert "would keep agents in cash" in caplog.text


def test_a_direct_policy_keeps_its_own_objective() -> None:
    direct = ("task=fleet", "agent=direct", "risk.target_volatility=0.04")
    assert resolved(*direct) == {"pnl": (300.0, {})}


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        (["task.utility=mean_variance"], "has no aversion to variance; give risk.target_volatility"),
        (["task.utility=reward", "task.aversion=3"], "task.aversion is for task.utility=mean_variance"),
        (["task.utility=mean_variance", "~task.reward.components.pnl", "+task.reward.components.cost=1.0"], "lacks"),
        (["task.aversion=-1"], "aversion"),
    ],
)
def test_refusals(overrides: list[str], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        resolved(*overrides)
