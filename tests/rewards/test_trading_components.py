"""Every trading component from its definition; the compiled, the array and the torch run agree."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from pacesetter.market.ledger import LEDGER_COLUMNS, Column, Flag
from pacesetter.rewards import PROFESSIONAL, REWARDS, TRADING, Reward, RewardConfig, Term
from pacesetter.rewards.codes import Code

SMALL = math.log(1.01)  # r_t of an account that goes from 100 to 101
UP = {"equity_before": 100.0, "equity_change": 1.0}
OWN = [name for name in REWARDS if REWARDS[name].code >= 0]


def rows(**columns: Any) -> NDArray[np.float64]:
    """(1, column) ledger of one account."""
    table = np.zeros((1, len(LEDGER_COLUMNS)))
    for name, value in columns.items():
        table[0, Column[name.upper()]] = value
    return table


def run(name: str, steps: list[dict[str, Any]], **options: float) -> list[float]:
    reward = Reward(RewardConfig({name: Term(options=options)}), 1)
    return [float(reward(rows(**step)).raw[0, 0]) for step in steps]


@pytest.mark.parametrize(
    ("name", "columns", "expected"),
    [
        ("pnl", UP, SMALL),
        ("mean_variance", UP, SMALL - 0.5 * SMALL**2),
        ("variance", UP, -(SMALL**2)),
        ("variance", {"equity_before": 0.0, "equity_change": 5.0}, 0.0),
        ("pnl", {"equity_before": 100.0, "equity_change": -150.0}, math.log(0.001)),
        ("pnl", {"equity_before": 0.0, "equity_change": 5.0}, 0.0),
        ("realised_pnl", {"equity_before": 200.0, "realised": -3.0}, -0.015),
        ("cost", {"equity_before": 200.0, "cost": 1.0}, -0.005),
        ("time", {"holding_bars": 25.0}, -0.25),
        ("time", {"holding_bars": 400.0}, -1.0),
        ("drawdown", {"drawdown": 0.2}, -0.2),
        ("sizing", {"exposure": 0.0}, 0.0),
        ("sizing", {"exposure": 0.1}, 1.0),
        ("sizing", {"exposure": 0.15}, 0.5),
        ("sizing", {"exposure": 0.9}, -1.0),
        ("hold", {"turnover": 0.0}, -1.0),
        ("hold", {"turnover": 0.01}, 0.0),
        ("size_multiplier", UP, 0.2 * SMALL),
        ("size_multiplier", UP | {"exposure_before": 0.075}, 0.0),
        ("size_multiplier", UP | {"exposure_before": 0.15}, -0.2 * SMALL),
        ("size_multiplier", UP | {"exposure_before": 0.60}, -0.2 * SMALL),
        ("context_hold", {"unrealised_before": 9.0}, -0.01),
        ("context_hold", {"unrealised_before": -9.0}, -0.005),
        ("context_hold", {}, 0.0),
        ("context_hold", {"unrealised_before": 9.0, "turnover": 0.1}, 0.0),
    ],
)
def test_value_of_one_bar(name: str, columns: dict[str, float], expected: float) -> None:
    assert run(name, [columns]) == pytest.approx([expected], abs=1e-14)


def test_differential_sharpe_follows_the_paper() -> None:
    returns = np.random.default_rng(0).normal(0.001, 0.01, 30)
    A = B = 0.0
    expected = []
    for r in returns:
        variance = B - A * A
        D = (B * (r - A) - 0.5 * A * (r * r - B)) / variance**1.5 if variance > 1e-12 else 0.0
        expected.append(min(max(D, -3.0), 3.0))
        A, B = A + 0.1 * (r - A), B + 0.1 * (r * r - B)
    steps = [{"equity_before": 1.0, "equity_change": math.expm1(r)} for r in returns]
    assert run("differential_sharpe", steps, rate=0.1) == pytest.approx(expected, rel=1e-9)
    assert expected[0] == 0.0
    assert np.abs(expected[5:]).max() > 0.5


def test_differential_sharpe_is_the_slope_of_the_sharpe_ratio() -> None:
    """D_t = dS_t/d rate at rate = 0, with S = A / √(B − A²)."""
    A, B, r, rate = 0.002, 0.0001, 0.004, 1e-7
    before, after = A, A + rate * (r - A)
    S_before = before / math.sqrt(B - before**2)
    S_after = after / math.sqrt(B + rate * (r * r - B) - after**2)
    reward = Reward(RewardConfig({"differential_sharpe": 1.0}), 1)
    reward.state[:] = [A, B]
    value = reward(rows(equity_before=1.0, equity_change=math.expm1(r))).raw[0, 0]
    assert value == pytest.approx((S_after - S_before) / rate, rel=1e-5)


def test_differential_sharpe_is_bounded() -> None:
    quiet = [{"equity_before": 1.0, "equity_change": 1e-4 * (-1) ** k} for k in range(50)]
    assert run("differential_sharpe", [*quiet, {"equity_before": 1.0, "equity_change": 0.3}])[-1] == 3.0


def exit_bar(flag: int) -> dict[str, float]:
    return {"equity_before": 100.0, "realised": 1.0, "flags": flag}


def test_staged_exit() -> None:
    bars = [Flag.OPENED, Flag.REDUCED, Flag.NONE, Flag.REDUCED, Flag.CLOSED, Flag.CLOSED, Flag.REDUCED | Flag.STOP_LOSS]
    values = run("staged_exit", [exit_bar(flag) for flag in bars])
    # open · first part 0.8 · quiet · second part 1.1 · last part 1.1 · a close at once 1 · a new first part 0.8
    assert values == pytest.approx([0, -0.002, 0, 0.001, 0.001, 0, -0.002], abs=1e-15)


def test_pyramiding() -> None:
    bars = [
        (Flag.OPENED, 0.0, 0.0),
        (Flag.ADDED, -5.0, 0.0),  # added to a loser
        (Flag.ADDED, 5.0, 0.3),
        (Flag.NONE, -5.0, 0.3),  # still the pyramid
        (Flag.CLOSED, 5.0, 0.3),
        (Flag.OPENED, 0.0, 0.0),
    ]
    values = run("pyramiding", [UP | {"flags": flag, "unrealised_before": gain} for flag, gain, _ in bars])
    assert values == pytest.approx([extra * SMALL for *_, extra in bars], abs=1e-15)


def test_repetition() -> None:
    fills = [1, 1, 1, -1, -1, 0, -1, -1, -1]
    values = run("repetition", [{"fill_quantity": float(fill)} for fill in fills], limit_bars=2)
    assert values == [0, 0, -0.01, 0, 0, 0, 0, 0, -0.01]


def test_multipliers_beside_pnl_multiply_it() -> None:
    reward = Reward(RewardConfig({"pnl": 1.0, "size_multiplier": 1.0}), 1)
    assert reward(rows(**UP, exposure_before=0.15)).total[0] == pytest.approx(0.8 * SMALL)


def test_multipliers_pay_nothing_for_noise() -> None:
    """Gains and losses count alike: a return and its mirror cancel at every size."""
    for exposure in (0.0, 0.1, 0.2):
        up, down = (
            run(
                "size_multiplier", [{"equity_before": 1.0, "equity_change": math.expm1(r), "exposure_before": exposure}]
            )
            for r in (0.01, -0.01)
        )
        assert up[0] + down[0] == pytest.approx(0.0, abs=1e-15)


def random_ledger(seed: int, envs: int) -> NDArray[np.float64]:
    draw = np.random.default_rng(seed)
    table = draw.normal(0.0, 1.0, (envs, len(LEDGER_COLUMNS)))
    table[:, Column.EQUITY_BEFORE] = draw.choice([0.0, 50.0, 100.0], envs)
    table[:, Column.TURNOVER] = draw.choice([0.0, 0.1], envs)
    table[:, Column.FILL_QUANTITY] = draw.integers(-1, 2, envs)
    table[:, Column.FLAGS] = draw.integers(0, 16384, envs)
    return table


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.integers(0, 10_000), st.floats(0.5, 2.0))
def test_compiled_arrays_and_torch_agree(seed: int, factor: float) -> None:
    terms = {
        name: Term(options={option: value * factor for option, value in REWARDS[name].options.items()}) for name in OWN
    }
    config = RewardConfig(terms, clip=None)
    compiled, tensors = Reward(config, 7), Reward(config, 7, device="cpu")
    arrays = Reward(config, 7)
    arrays._codes[:], arrays._interpreted = -1, list(range(len(OWN)))
    for step in range(4):
        ledger = random_ledger(seed + step, 7)
        expected = compiled(ledger)
        for other in (arrays(ledger), tensors(torch.as_tensor(ledger))):
            np.testing.assert_allclose(np.asarray(other.raw), expected.raw, rtol=1e-12, atol=1e-12)
            np.testing.assert_allclose(np.asarray(other.total), expected.total, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(np.asarray(tensors.state), compiled.state, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(arrays.state, compiled.state, rtol=1e-12, atol=1e-12)


def test_every_code_is_the_one_of_the_component_of_its_name() -> None:
    assert {REWARDS[name].code: name for name in OWN} == {int(code): code.name.lower() for code in Code}


def test_torch_stays_in_float64() -> None:
    step = Reward(RewardConfig(dict.fromkeys(OWN, 1.0)), 3, device="cpu")(torch.as_tensor(random_ledger(1, 3)))
    assert {part.dtype for part in step} == {torch.float64}


@pytest.mark.parametrize("weights", [TRADING, PROFESSIONAL])
def test_starting_weights_keep_an_ordinary_bar_within_one(weights: dict[str, float]) -> None:
    bar = rows(
        equity_before=1e5, equity_change=300.0, exposure=0.15, exposure_before=0.15, drawdown=0.05, holding_bars=20.0,
        realised=200.0, cost=15.0, turnover=0.15, fill_quantity=1.0, flags=Flag.ADDED, unrealised_before=500.0,
    )  # fmt: skip
    step = Reward(RewardConfig(weights, clip=None), 1)(bar)
    assert 0.05 < step.total[0] < 1.0
    assert len(weights) == step.raw.shape[1]
