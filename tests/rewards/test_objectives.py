"""Objectives as reward components: values by hand, NumPy and torch alike, and their way from ledger to learner."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from pacesetter.data.synthetic import Synthetic
from pacesetter.envs.batch.bank import Bank
from pacesetter.features import feature_table
from pacesetter.learning.experience.market import FleetMarket
from pacesetter.market.ledger import LEDGER_COLUMNS, Column, Flag
from pacesetter.rewards import OBJECTIVES, Reward, RewardConfig, Term

ALL = (*OBJECTIVES, "consistency")
HELD = {"equity_before": 100.0, "exposure": 0.1, "exposure_before": 0.1}  # 10 of 100 in the position


def rows(**columns: Any) -> NDArray[np.float64]:
    table = np.zeros((1, len(LEDGER_COLUMNS)))
    for name, value in columns.items():
        table[0, Column[name.upper()]] = value
    return table


def run(name: str, steps: list[dict[str, Any]], **options: float) -> list[float]:
    reward = Reward(RewardConfig({name: Term(options=options)}), 1)
    return [float(reward(rows(**step)).raw[0, 0]) for step in steps]


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"realised": 1.0}, 1.2 * 0.1),  # ROI 10 %: × 1.2
        ({"realised": 1.0, "order": -0.8}, 1.2 * 1.2 * 0.1),
        ({"realised": 30.0}, 3.0 * 3.0),  # the factor ends at 3
        ({"realised": -1.0}, -1.5 * 0.8 * 0.1),
        ({"unrealised": 3.0, "unrealised_before": 1.0}, 0.3 * 0.2),
        ({"unrealised": 2.0, "unrealised_before": 2.0}, 0.0),  # an old winner is not paid again
        ({"unrealised": -1.0}, -1.5 * 0.03),
    ],
)
def test_profit(columns: dict[str, float], expected: float) -> None:
    assert run("profit", [HELD | columns])[0] == pytest.approx(expected)


def test_risk() -> None:
    calm = {"equity_before": 100.0}
    assert run("risk", [calm])[0] == 0.0
    assert run("risk", [calm | {"drawdown": 0.15}])[0] == pytest.approx(-(math.exp(1.0) - 1))
    assert run("risk", [calm | {"exposure": 1.05}])[0] == pytest.approx(-1.0)
    mean, square = 0.1 * -0.2, 0.1 * 0.04
    deviation = math.sqrt(square - mean**2)
    expected = -50 * (1.645 * deviation - mean - 0.02) - 0.5 * deviation
    assert run("risk", [calm | {"equity_change": -20.0}])[0] == pytest.approx(expected)


def test_activity() -> None:
    orders = [{"order": 0.5 * (-1) ** bar} for bar in range(4)]
    assert run("activity", orders) == pytest.approx([0.0, 0.2, 0.2, 0.2])  # deviations 0, 0.5, 0.47, 0.5
    at_limits = [run("activity", [{"order": size}, {"order": -size}])[1] for size in (0.2, 0.3)]
    assert at_limits == pytest.approx([0.0, 0.1])  # a limit is not passed by the last digit
    idle = run("activity", [{}] * 51)
    assert idle[46] == 0.0
    assert idle[-1] == pytest.approx(-0.1)
    hasty = run("activity", [{"turnover": 0.1}, {"turnover": 0.1}, {}, {}, {}, {"turnover": 0.1}])
    assert hasty == pytest.approx([0.0, -0.05, 0.0, 0.0, 0.0, 0.0])


def test_timing() -> None:
    entered = HELD | {"flags": float(Flag.OPENED), "gross_pnl": 0.05}  # 0.5 % of what is held
    assert run("timing", [entered])[0] == pytest.approx(0.5 * 0.5 + 0.3 * 0.05)
    left = HELD | {"flags": float(Flag.CLOSED), "realised": -0.5}
    assert run("timing", [left])[0] == pytest.approx(0.5 * -1.0)
    assert run("timing", [HELD | {"gross_pnl": 0.05}])[0] == pytest.approx(0.3 * 0.05)


def test_exploration_pays_for_new_states_and_less_each_time() -> None:
    flat, held = {"equity_before": 100.0}, {"equity_before": 100.0, "exposure": 0.07}
    values = run("exploration", [flat, flat, held, *[flat] * 9])
    assert values[:3] == pytest.approx([0.1, 0.05 * 0.999, 0.1 * 0.999])
    assert values[-1] == 0.0  # the eleventh visit


def test_consistency() -> None:
    wild = [{"equity_before": 100.0, "equity_change": 10.0 * (-1) ** bar} for bar in range(2)]
    assert run("consistency", wild) == pytest.approx([0.2, -0.1 * 0.1])


def test_numpy_and_torch_give_the_same_vectors() -> None:
    draw = np.random.default_rng(0)
    config = RewardConfig(dict.fromkeys(ALL, 1.0), clip=None)
    arrays, tensors = Reward(config, 16), Reward(config, 16, device="cpu")
    for _ in range(25):
        ledger = draw.normal(0, 0.1, (16, len(LEDGER_COLUMNS)))
        ledger[:, Column.EQUITY_BEFORE] = 100 + ledger[:, Column.EQUITY_BEFORE]
        ledger[:, Column.FLAGS] = draw.choice([0, 1, 2, 4, 8], 16)
        ledger[:, Column.TURNOVER] = ledger[:, Column.TURNOVER].clip(0)
        ours, theirs = arrays(ledger), tensors(torch.as_tensor(ledger))
        np.testing.assert_allclose(ours.raw, theirs.raw.numpy(), rtol=1e-10, atol=1e-13)
        np.testing.assert_allclose(ours.total, theirs.total.numpy(), rtol=1e-10, atol=1e-13)


def test_a_vector_comes_from_the_ledger_to_the_step() -> None:
    """The reward of a market's step is the weighted sum of the vector that it hands out beside it."""
    panel = Synthetic(symbols=2, bars=80, seed=1).read()
    bank = Bank.from_panels(panel, feature_table(panel, ["return_1"]))
    config = RewardConfig(dict(OBJECTIVES), clip=None)
    market = FleetMarket(bank, 2, action="continuous", window_bars=2, episode_bars=10, reward=config)
    market.reset()
    torch.manual_seed(0)
    for _ in range(12):
        step = market.step(2 * torch.rand(4, 1) - 1)
        assert step.objectives.shape == (4, 5)
        expected = step.objectives.double() @ torch.tensor(list(OBJECTIVES.values()), dtype=torch.float64)
        assert torch.allclose(step.rewards.double(), expected, atol=1e-6)
    assert bool(step.objectives.abs().sum(0).gt(0).all())
