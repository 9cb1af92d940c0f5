"""One level against two: PPO that chooses windows alone, and under controllers that set what it plays in.

    python benchmarks/two_level.py [--steps 6144] [--seeds 1 2] [--record]

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

from pacesetter.build import Plan, build_panel
from pacesetter.build.tasks.task import Stored
from pacesetter.envs.lookback.evaluation import evaluate_lookback
from pacesetter.envs.lookback.oracle import lookback_oracle
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.jobs.run.train import train
from pacesetter.leadlag.lookback.baselines import CrossValidatedLookback, WindowScores
from pacesetter.leadlag.lookback.policy import ConstantLookback

GRID = (10, 20, 40, 80, 160)
COMMON = [
    *(
        "data=synthetic",
        "data.symbols=5",
        "data.bars=2500",
        "data.groups=1",
        "data.unrelated_share=0",
        "data.gap_share=0",
    ),
    *("data.strength=1.5", "data.negative_share=0", "data.max_delay=1", "data.market_correlation=0"),
    *("data.volatility_clustering=0", "data.tail_degrees=1e9", "data.path_steps=1", "data.spread=0"),
    *(f"task.windows.grid={list(GRID)}", "task.windows.longest=160", "task.windows.seen=[10,40,160]"),
    *("task.view.context=[regime]", "agent=ppo", "agent.network=mlp", "agent.network_options={width:32}"),
    *("agent.heads=[32]", "agent.gamma=0.0", "agent.gae_lambda=0.0", "agent.n_steps=64", "agent.batch_size=256"),
    *("agent.n_epochs=5", "agent.learning_rate=0.001"),
    *("train.envs=16", "train.shares=[0.75,0.2]", "train.checkpoint_every=0"),
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


def configured(market: str, level: str, seed: int, steps: int, runs: str) -> Plan:
    length = [f"train.steps={steps}", f"train.validate_every={steps // 2}"]
    return resolve([*LEVELS[level], *COMMON, *MARKETS[market], *length, f"seed={seed}", f"runs={runs}"])


def test_market(config: Plan, seed: int) -> Any:
    """Bars of the same kind, drawn with another seed."""
    return build_panel(replace(config, data=config.data.with_options(seed=1_000 + seed)))


def play(market: str, level: str, seed: int, steps: int) -> float:
    """Mean reward a bar on the test market of one trained agent."""
    with tempfile.TemporaryDirectory() as runs:
        config = configured(market, level, seed, steps, runs)
        folder = train(config, console=Console(quiet=True)).run.folder
        panel = test_market(config, seed)
        policy: Any = config.problem.policy(Stored(folder, config, panel))
        return float(evaluate_lookback({"agent": policy}, panel, config.lookback).rewards.mean())


def beside(market: str, seed: int) -> dict[str, float]:
    """The same of what needs no training, by the reward of one level."""
    config = configured(market, "one level", seed, 1, "runs")
    panel, task = test_market(config, seed), config.lookback
    policies: dict[str, Any] = {"cross-validated": CrossValidatedLookback(WindowScores(GRID))}
    policies |= {f"constant {window}": ConstantLookback(window) for window in GRID}
    played = evaluate_lookback(policies, panel, task)
    means = dict(zip(played.names, played.rewards.mean(axis=0).tolist(), strict=True))
    oracle = lookback_oracle(panel, task, int(played.bars[0]), int(played.bars[-1]))
    best = max(value for name, value in means.items() if name.startswith("constant"))
    optimum = float(np.max(oracle.values[0])) / len(played.bars)
    return {"best constant": best, "cross-validated": means["cross-validated"], "optimum": optimum}


def main() -> None:
    """Play all, print, and record where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=6_144)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    rows = []
    for market in MARKETS:
        scores: dict[str, list[float]] = {level: [] for level in LEVELS}
        for level in LEVELS:
            for seed in options.seeds:
                start = time.process_time()
                scores[level].append(play(market, level, seed, options.steps))
                line = {"market": market, "level": level, "seed": seed, "reward": scores[level][-1]}
                print(json.dumps(line | {"cpu_seconds": time.process_time() - start}), flush=True)
        flat = np.array(scores["one level"])
        for level, own in scores.items():
            gaps = "" if level == "one level" else " ".join(f"{gap:+.4f}" for gap in np.array(own) - flat)
            rows.append([market, level, f"{np.mean(own):+.4f}", gaps])
        others = [beside(market, seed) for seed in options.seeds]
        rows += [[market, name, f"{np.mean([each[name] for each in others]):+.4f}", ""] for name in others[0]]
    header = ["market", "policy", "reward a bar", "minus one level, by seed"]
    title = f"One level against two: seeds {', '.join(map(str, options.seeds))}, {options.steps} steps"
    publish("two_level", table(header, rows), title)


if __name__ == "__main__":
    main()
