"""A component is a plain function: its signature says what it reads, and a package may bring its own."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import EntryPoint
from typing import Any

import numpy as np
import pytest
import torch

from pacesetter.errors import ConfigError
from pacesetter.market.ledger import LEDGER_COLUMNS, Column
from pacesetter.registry import Registry
from pacesetter.rewards import REWARDS, Component, Reward, RewardConfig, Term, component


def smooth_turnover(turnover: Any, state: Any, rate: float = 0.5) -> Any:
    (mean,) = state
    mean = mean + rate * (turnover - mean)
    return -mean, (mean,)


def previous_two(cash: Any, state: Any) -> Any:
    last, before = state
    return before, (cash, last)  # hands its own state back, shifted


PLUGIN = component(smooth_turnover, initial=(0.0,))


@pytest.fixture
def registered() -> Iterator[None]:
    REWARDS.add("smooth_turnover", PLUGIN)
    REWARDS.add("previous_two", component(previous_two, initial=(-1.0, -2.0)))
    yield
    for name in ("smooth_turnover", "previous_two"):
        del REWARDS._members[name]


def ledger(envs: int, **columns: Any) -> Any:
    rows = np.zeros((envs, len(LEDGER_COLUMNS)))
    for name, values in columns.items():
        rows[:, Column[name.upper()]] = values
    return rows


def test_the_signature_says_what_it_reads() -> None:
    assert Component(smooth_turnover, ("turnover",), {"rate": 0.5}, (0.0,)) == PLUGIN


@pytest.mark.parametrize("initial", [(), (0.0,)])
def test_a_state_needs_an_initial_value_and_the_other_way_round(initial: tuple[float, ...]) -> None:
    formula = smooth_turnover if not initial else (lambda turnover: -turnover)
    with pytest.raises(ConfigError, match="initial state"):
        component(formula, initial=initial)


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize("device", [None, "cpu"])
def test_a_users_component_runs_beside_the_compiled_ones(device: str | None) -> None:
    config = RewardConfig({"drawdown": 1.0, "smooth_turnover": Term(2.0, {"rate": 0.25})}, clip=None)
    reward = Reward(config, 2, device=device)
    rows = ledger(2, turnover=[0.4, 0.8], drawdown=[0.1, 0.0])
    rows = rows if device is None else torch.as_tensor(rows)
    reward(rows)
    step = reward(rows)
    mean = np.array([0.4, 0.8]) * (1 - 0.75**2)
    np.testing.assert_allclose(np.asarray(step.raw[:, 1]), -mean)
    np.testing.assert_allclose(np.asarray(step.total), -2 * mean - [0.1, 0.0])


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize("device", [None, "cpu"])
def test_a_formula_may_hand_its_state_on(device: str | None) -> None:
    reward = Reward(RewardConfig({"previous_two": 1.0}, clip=None), 1, device=device)
    rows = [ledger(1, cash=cash) for cash in (5.0, 6.0, 7.0, 8.0)]
    seen = [float(reward(row if device is None else torch.as_tensor(row)).total[0]) for row in rows]
    assert seen == [-2.0, -1.0, 5.0, 6.0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ratee": 1.0}, "did you mean 'rate'"),
        ({"rate": 0.0}, "above 0"),
        ({"rate": float("inf")}, "finite"),
    ],
)
def test_options_are_checked(options: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        PLUGIN.options_with(options, "reward.smooth_turnover")


def test_an_entry_point_joins_the_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    def installed(kind: str) -> list[EntryPoint]:
        point = EntryPoint("smooth_turnover", f"{__name__}:PLUGIN", f"pacesetter.{kind}")
        return [point] if kind == "reward" else []

    monkeypatch.setattr("pacesetter.registry.plugin_points", installed)
    fresh: Registry[Component] = Registry(REWARDS.kind)
    assert fresh["smooth_turnover"] is PLUGIN


def test_an_unknown_component_gets_a_suggestion() -> None:
    with pytest.raises(ConfigError, match="unknown reward 'drawdwn'; did you mean 'drawdown'"):
        RewardConfig({"drawdwn": 1.0})
