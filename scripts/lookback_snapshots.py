"""Writes the snapshots that `tests/rewards/test_lookback.py` holds the lookback components to.

    python scripts/lookback_snapshots.py

Run it only when a change of a reward is meant; the difference in `tests/rewards/snapshots/lookback.json` is then part
of the change and is reviewed with it. The values come from whole steps of the environment, so that they hold the
measuring of windows too.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from pacesetter.data.synthetic import Synthetic
from pacesetter.envs.lookback_batch import LookbackBatch, lookback_config
from pacesetter.rewards.component import REWARDS

FILE = Path(__file__).resolve().parents[1] / "tests" / "rewards" / "snapshots" / "lookback.json"
STEPS, ENVIRONMENTS = 12, 4
COMPONENTS = [name for name in REWARDS if REWARDS[name].formula.__module__ == "pacesetter.rewards.lookback"]


def snapshots() -> dict[str, list[list[float]]]:
    """Component -> (step, env) raw values, and `total` with all of them, on one synthetic market and drawn actions."""
    panel = Synthetic(symbols=6, bars=400, seed=89).read()
    config = lookback_config(
        windows={"shortest": 8, "longest": 64, "seen": (8, 16, 64), "grid": (8, 16, 32, 64)},
        liquidity={"max_range": 0.01, "thin": "penalise"},
        reward={"components": dict.fromkeys(COMPONENTS, 1.0), "clip": None},
    )
    batch = LookbackBatch(panel, config, ENVIRONMENTS)
    batch.reset(list(range(ENVIRONMENTS)))
    actions = np.random.default_rng(89).integers(0, 4, (STEPS, ENVIRONMENTS))
    rewards = [batch.step(row).reward for row in actions]
    values = {name: [reward.raw[:, k].tolist() for reward in rewards] for k, name in enumerate(COMPONENTS)}
    return values | {"total": [reward.total.tolist() for reward in rewards]}


def main() -> None:
    FILE.write_text(json.dumps(snapshots(), indent=1) + "\n", encoding="utf-8")
    print(f"wrote {FILE.name}: {len(COMPONENTS)} components")


if __name__ == "__main__":
    main()
