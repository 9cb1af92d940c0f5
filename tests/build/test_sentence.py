"""What a command says of its plan before it begins."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from pacesetter.build.sentence import describe_plan
from pacesetter.build.tasks.task import TASKS
from pacesetter.cli import app
from pacesetter.jobs import resolve


def test_a_plan_says_what_is_trained_on_what_at_which_risk_and_cost() -> None:
    stated = ["risk.target_volatility=0.1", "risk.base=inverse_volatility", "risk.tracking_error=0.04"]
    words = ["task=fleet", "agent=direct", "data=synthetic", *stated, "market.position_cap=0.5", "costs=2"]
    assert describe_plan(resolve(words)) == (
        "Plan: agent=direct learns one policy for all symbols in one account on synthetic, judged on the last 20% of "
        "its bars beside hold and the other baselines. Risk: 10% volatility a year around inverse volatility, views "
        "within a tracking error of 4%; at most 50% of equity in a symbol, leverage 1, long only, costs 2 bps a side "
        "(risk.*, market.*)."
    )
    walked = describe_plan(resolve(words), tests=3)
    assert "judged on up to 3 tests of 20% of its bars, refitted before each, beside hold" in walked


def test_a_plan_names_the_margin_and_the_money_of_the_account() -> None:
    words = ["bars.csv", "market.margin=cross", "market.leverage=3", "market.currency=USD"]
    plan = describe_plan(resolve(words))
    assert "leverage 3, long only, cross margin, costs 10 bps a side, money in USD (risk.*, market.*)." in plan


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("task=trading", "agent=ppo learns one agent that trades any symbol on sample"),
        ("task=fleet agent=ppo", "agent=ppo learns an agent for each symbol on sample"),
        ("task=fleet agent=meta", "an agent for each symbol, with a context of what it has just seen"),
        ("task=fleet agent=bc", "an agent for each symbol, from stored episodes"),
        ("task=lookback", "which lead–lag window to use, bar by bar, on sample, judged"),
    ],
)
def test_a_method_says_what_it_makes_of_the_task(words: str, said: str) -> None:
    plan = describe_plan(resolve(words.split()))
    assert said in plan
    assert ("Risk: none is stated" in plan) == ("lookback" not in words)


def test_every_task_says_what_is_learned() -> None:
    assert all(TASKS[name].learns for name in TASKS)


def test_config_prints_the_plan_first() -> None:
    shown = CliRunner().invoke(app, ["config", "data=synthetic"])
    assert shown.exit_code == 0
    assert shown.stdout.startswith("# Plan: agent=ppo learns one agent that trades any symbol on synthetic")
