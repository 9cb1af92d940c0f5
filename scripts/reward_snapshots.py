"""Writes the reward snapshots that `tests/rewards/test_snapshots.py` holds every component and option to.

    python scripts/reward_snapshots.py

Run it only when a change of a reward is meant; the difference in `tests/rewards/snapshots/` is then part of the change
and is reviewed with it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pacesetter.data.synthetic import Synthetic
from pacesetter.envs.lookback.batch import LookbackBatch, lookback_config
from pacesetter.market.ledger import LEDGER_COLUMNS, Column, Flag
from pacesetter.rewards import PROFESSIONAL, REWARDS, TRADING, Reward, RewardConfig, Schedule, Term

FOLDER = Path(__file__).resolve().parents[1] / "tests" / "rewards" / "snapshots"
STEPS, ENVIRONMENTS = 12, 4
SHAPING = {
    "trading": RewardConfig(TRADING),
    "professional": RewardConfig(PROFESSIONAL),
    "zscore": RewardConfig({"pnl": Term(normalise="zscore"), "cost": 1.0}, clip=None),
    "minmax": RewardConfig({"pnl": Term(normalise="minmax"), "cost": 1.0}, clip=None),
    "smoothed": RewardConfig({"pnl": Term(100.0, smoothing_steps=4)}),
    "linear": RewardConfig({"pnl": Schedule("linear", ((0, 100.0), (40, 10.0)))}),
    "exponential": RewardConfig({"pnl": Schedule("exponential", ((0, 100.0), (40, 10.0)))}),
    "piecewise": RewardConfig({"pnl": Schedule("piecewise", ((0, 100.0), (20, 10.0)))}),
    "chebyshev": RewardConfig(TRADING, scalarisation="chebyshev", reference={"pnl": 0.02}, clip=None),
    "clipped": RewardConfig({"pnl": 100.0}, clip=0.5),
}


def ledger() -> NDArray[np.float64]:
    """(step, env, column) rows with a fixed seed: an equity path, trades, exits and quiet bars; the rest is 0."""
    draw = np.random.default_rng(89)
    shape = (STEPS, ENVIRONMENTS)
    rows = np.zeros((*shape, len(LEDGER_COLUMNS)))
    equity = 100_000 * np.exp(np.cumsum(draw.normal(0, 0.01, (STEPS + 1, ENVIRONMENTS)), axis=0))
    kinds = [Flag.NONE, Flag.OPENED, Flag.ADDED, Flag.REDUCED, Flag.CLOSED]
    flags = draw.choice(kinds, shape)
    rows[..., Column.EQUITY_BEFORE], rows[..., Column.EQUITY] = equity[:-1], equity[1:]
    rows[..., Column.EQUITY_CHANGE] = np.diff(equity, axis=0)
    rows[..., Column.COST] = draw.uniform(0, 50, shape)
    rows[..., Column.REALISED] = draw.normal(0, 500, shape)
    rows[..., Column.UNREALISED_BEFORE] = draw.normal(0, 500, shape)
    rows[..., Column.DRAWDOWN] = 1 - equity[1:] / np.maximum.accumulate(equity, axis=0)[1:]
    rows[..., Column.EXPOSURE] = draw.uniform(0, 0.3, shape)
    rows[..., Column.EXPOSURE_BEFORE] = draw.uniform(0, 0.3, shape)
    rows[..., Column.TURNOVER] = np.where(flags == Flag.NONE, 0.0, draw.uniform(0, 0.1, shape))
    rows[..., Column.HOLDING_BARS] = draw.integers(0, 150, shape)
    rows[..., Column.FILL_QUANTITY] = np.where(flags == Flag.NONE, 0.0, np.where(flags > Flag.ADDED, -5.0, 5.0))
    rows[..., Column.FLAGS] = flags
    return rows


def component_values(name: str, **term: Any) -> list[list[float]]:
    """(step, env) raw values of one component over the ledger."""
    reward = Reward(RewardConfig({name: Term(**term)}), ENVIRONMENTS)
    return [reward(rows).raw[:, 0].tolist() for rows in ledger()]


def totals(config: RewardConfig) -> list[list[float]]:
    """(step, env) rewards over the ledger; the last environment starts over half-way."""
    reward, result = Reward(config, ENVIRONMENTS), []
    for step, rows in enumerate(ledger()):
        if step == STEPS // 2:
            reward.reset([ENVIRONMENTS - 1])
        result.append(reward(rows).total.tolist())
    return result


def lookback_values() -> dict[str, list[list[float]]]:
    """Lookback component -> (step, env) raw values, and their `total`, from whole steps: measuring windows is in it."""
    names = components_of("lookback")
    config = lookback_config(
        windows={"shortest": 8, "longest": 64, "seen": (8, 16, 64), "grid": (8, 16, 32, 64)},
        liquidity={"max_range": 0.01, "thin": "penalise"},
        reward={"components": dict.fromkeys(names, 1.0), "clip": None},
    )
    batch = LookbackBatch(Synthetic(symbols=6, bars=400, seed=89).read(), config, ENVIRONMENTS)
    batch.reset(list(range(ENVIRONMENTS)))
    actions = np.random.default_rng(89).integers(0, 4, (STEPS, ENVIRONMENTS))
    rewards = [batch.step(row).reward for row in actions]
    values = {name: [reward.raw[:, k].tolist() for reward in rewards] for k, name in enumerate(names)}
    return values | {"total": [reward.total.tolist() for reward in rewards]}


def components_of(module: str) -> list[str]:
    """Names of the components that one module of the room registers."""
    return [name for name in REWARDS if REWARDS[name].formula.__module__ == f"pacesetter.rewards.{module}"]


def snapshots() -> dict[str, dict[str, list[list[float]]]]:
    """File name -> case -> (step, env) values: every component, and every way to shape."""
    # A limit of one bar, so that repetition has something to say within twelve.
    options = {"repetition": {"limit_bars": 1.0}}
    return {
        "components": {
            name: component_values(name, options=options.get(name, {})) for name in components_of("trading")
        },
        "shaping": {name: totals(config) for name, config in SHAPING.items()},
        "lookback": lookback_values(),
    }


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, cases in snapshots().items():
        path = FOLDER / f"{name}.json"
        path.write_text(json.dumps(cases, indent=1) + "\n", encoding="utf-8")
        print(f"wrote {path.name}: {len(cases)} cases")


if __name__ == "__main__":
    main()
