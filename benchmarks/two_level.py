"""One level against two: PPO that chooses windows alone, and under controllers that set what it plays in.

    python benchmarks/two_level.py [--steps 16384] [--seeds 1 2] [--record]

Two curated markets of five symbols. In `calm and wild` the lead–lag structure lasts in calm regimes and turns every 30
bars in wild ones, so that long windows are right in one and short ones in the other; in `steady` it lasts. Training
market and test market have different seeds (s and 1000 + s). All are measured by the configured reward, and stand
beside the best constant of the grid, cross-validation and the exact optimum.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from dataclasses import replace
from typing import Any

import numpy as np
from record import publish, table
from rich.console import Console

from pacesetter.build import build_panel, build_task, task_of
from pacesetter.build.tasks.task import Stored
from pacesetter.envs.lookback.evaluation import evaluate_lookback
from pacesetter.envs.lookback.oracle import lookback_oracle
from pacesetter.leadlag.lookback.baselines import CrossValidatedLookback
from pacesetter.leadlag.lookback.policy import ConstantLookback
from pacesetter.training.hydra.compose import compose
from pacesetter.training.run.train import train

GRID = (10, 20, 40, 80, 160)
COMMON = [
    *(
        "data=synthetic",
        "data.symbols=5",
        "data.bars=4000",
        "data.groups=1",
        "data.unrelated_share=0",
        "data.gap_share=0",
    ),
    *("data.strength=1.5", "data.negative_share=0", "data.max_delay=1", "data.market_correlation=0"),
    *("data.volatility_clustering=0", "data.tail_degrees=1e9", "data.path_steps=1", "data.spread=0"),
    *(f"task.windows.grid={list(GRID)}", "task.windows.longest=160", "task.windows.seen=[10,40,160]"),
    *("task.view.context=[regime]", "agent=ppo", "agent.network=mlp", "agent.network_options={width:32}"),
    *("agent.heads=[32]", "agent.gamma=0.0", "agent.gae_lambda=0.0", "agent.n_steps=64", "agent.batch_size=256"),
    *("train.envs=16", "train.shares=[0.8,0.2]", "train.checkpoint_every=0"),
    *("track.mlflow=off", "track.tensorboard=off", "track.progress=false"),
]
NO_REGIMES = [f"~data.regimes.{name}" for name in ("bull", "bear", "sideways", "mixed")]  # in place of the usual ones
MARKETS = {
    "calm and wild": [
        *(*NO_REGIMES, "+data.regimes.calm=[0.0,0.5]", "+data.regimes.wild=[0.0,2.0]", "data.regime_bars=500"),
        "data.relation_change_bars=[20000,30]",
    ],
    "steady": [*NO_REGIMES, "+data.regimes.calm=[0.0,0.5]", "data.relation_change_bars=20000"],
}
RANGES = "task.controller.settings=[{shortest:40},{longest:40}]"
LEVELS = {
    "one level": ["task=lookback"],
    "range by regime": [
        *("task=two_level", "task.controller.rule=regime", RANGES, "task.controller.regimes.high_volatility=1"),
    ],
    "range in turn": ["task=two_level", "task.controller.rule=cycle", RANGES],
    "weights by regime": [
        *("task=two_level", "task.controller.rule=regime", "task.controller.regimes.high_volatility=1"),
        "task.controller.settings=[{weights:{switching:0.2}},{weights:{switching:0.0}}]",
    ],
}
BESIDE = ("best constant", "cross-validated", "optimum")


def play(market: str, level: str, seed: int, steps: int) -> dict[str, float]:
    """Mean reward a bar on the test market of one trained agent, and of what stands beside it."""
    own = [*LEVELS[level], *COMMON, *MARKETS[market], f"train.steps={steps}", f"train.validate_every={steps // 2}"]
    with tempfile.TemporaryDirectory() as runs:
        config = compose([*own, f"seed={seed}", f"runs={runs}"])
        folder = train(config, console=Console(quiet=True)).run.folder
        panel = build_panel(replace(config, data=dict(config.data) | {"seed": 1_000 + seed}))
        policy: Any = task_of(config).policy(Stored(folder, config, panel))
        task = build_task(config)
        policies = {"agent": policy, "cross-validated": CrossValidatedLookback(GRID)}
        policies |= {f"constant {window}": ConstantLookback(window) for window in GRID}
        found = evaluate_lookback(policies, panel, task)
    means = dict(zip(found.names, found.rewards.mean(axis=0).tolist(), strict=True))
    oracle = lookback_oracle(panel, task, int(found.bars[0]), int(found.bars[-1]))
    best = max(value for name, value in means.items() if name.startswith("constant"))
    optimum = float(np.max(oracle.values[0])) / len(found.bars)
    return {
        "agent": means["agent"],
        "best constant": best,
        "cross-validated": means["cross-validated"],
        "optimum": optimum,
    }


def main() -> None:
    """Play all, print, and record where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=16_384)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    rows = []
    for market in MARKETS:
        scores: dict[str, list[dict[str, float]]] = {level: [] for level in LEVELS}
        for level in LEVELS:
            for seed in options.seeds:
                start = time.process_time()
                scores[level].append(play(market, level, seed, options.steps))
                line = {"market": market, "level": level, "seed": seed} | scores[level][-1]
                print(json.dumps(line | {"cpu_seconds": time.process_time() - start}), flush=True)
        flat = np.array([score["agent"] for score in scores["one level"]])
        for level, own in scores.items():
            rewards = np.array([score["agent"] for score in own])
            gaps = "" if level == "one level" else " ".join(f"{gap:+.4f}" for gap in rewards - flat)
            rows.append([market, level, f"{rewards.mean():+.4f}", gaps])
        means = {name: np.mean([score[name] for score in scores["one level"]]) for name in BESIDE}
        rows += [[market, name, f"{mean:+.4f}", ""] for name, mean in means.items()]
    header = ["market", "policy", "reward a bar", "minus one level, by seed"]
    title = f"One level against two: seeds {', '.join(map(str, options.seeds))}, {options.steps} steps"
    publish("two_level", table(header, rows), title)


if __name__ == "__main__":
    main()
