"""One level against two: PPO that chooses windows alone, and under controllers that set what it plays in.

    python benchmarks/two_level.py [--steps 12288] [--seeds 421 422 423] [--record]

Two curated markets of five symbols. In `calm and wild` the lead–lag structure lasts in calm regimes and turns every 30
bars in wild ones, so that long windows are right in one and short ones in the other; in `steady` it lasts. The lower
agent sees the regime, or in `blind` it does not, and the controller alone does. Training
market and test market have different seeds (s and 1000 + s). All are measured by the configured reward, and stand
beside the best constant of the grid, cross-validation and the exact optimum.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from record import publish, table
from rich.console import Console
from scipy.stats import t as student

from pacesetter.build import Plan, build_panel, stored_plan
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
    *("agent=ppo", "agent.network=mlp", "agent.network_options={width:32}"),
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
SIGHTS = {"sees the regime": "task.view.context=[regime]", "blind": "task.view.context=[]"}
RANGES = "task.controller.settings=[{shortest:40},{longest:40}]"
WEIGHTS = "task.controller.settings=[{weights:{switching:0.2}},{weights:{switching:0.0}}]"
LEVELS = {
    "one level": ["task=lookback"],
    "range by regime": [
        *("task=two_level", "task.controller.rule=regime", RANGES, "task.controller.regimes.high_volatility=1"),
    ],
    "range in turn": ["task=two_level", "task.controller.rule=cycle", RANGES],
    "range learned": ["task=two_level", "task.controller.rule=learned", RANGES],
    "weights by regime": [
        *("task=two_level", "task.controller.rule=regime", "task.controller.regimes.high_volatility=1"),
        WEIGHTS,
    ],
    "weights learned": ["task=two_level", "task.controller.rule=learned", WEIGHTS],
}

# What is played of each: where the lower agent sees the regime, it can choose its range itself.
PLAYED = [("calm and wild", "blind", level) for level in LEVELS if not level.startswith("weights")]
PLAYED += [("calm and wild", "sees the regime", level) for level in ("one level", *list(LEVELS)[-4:])]
PLAYED += [("steady", "blind", level) for level in ("one level", "range learned")]


def configured(market: str, sight: str, level: str, seed: int, steps: int, runs: str) -> Plan:
    length = [f"train.steps={steps}", f"train.validate_every={steps // 2}"]
    asked = [*LEVELS[level], *COMMON, *MARKETS[market], SIGHTS[sight], *length]
    return resolve([*asked, f"seed={seed}", f"runs={runs}"])


def test_market(config: Plan, seed: int) -> Any:
    """Bars of the same kind, drawn with another seed."""
    return build_panel(replace(config, data=config.data.with_options(seed=1_000 + seed)))


def play(market: str, sight: str, level: str, seed: int, steps: int) -> tuple[float, dict[str, int]]:
    """Mean reward a bar on the test market of one trained agent, and the settings that its controller learned."""
    with tempfile.TemporaryDirectory() as runs:
        folder = train(configured(market, sight, level, seed, steps, runs), console=Console(quiet=True)).run.folder
        config = stored_plan(folder)
        panel = test_market(config, seed)
        policy: Any = config.problem.policy(Stored(folder, config, panel))
        reward = float(evaluate_lookback({"agent": policy}, panel, config.lookback).rewards.mean())
    controller = getattr(config.lookback, "controller", None)
    return reward, {} if controller is None else dict(controller.regimes)


def beside(market: str, seed: int) -> dict[str, float]:
    """The same of what needs no training, by the reward of one level."""
    config = configured(market, "blind", "one level", seed, 1, "runs")
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
    """Play all, print, and record where asked; cells whose line is in the folder are not played again."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=12_288)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--lines", type=Path, default=Path("two_level.jsonl"))
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    known = {}
    if options.lines.is_file():
        for text in options.lines.read_text(encoding="utf-8").splitlines():
            line = json.loads(text)
            known[line["market"], line["sight"], line["level"], line["seed"], line["steps"]] = line["reward"]
    rows = []
    for seed in options.seeds:
        for where in PLAYED:
            cell = (*where, seed, options.steps)
            if cell in known:
                continue
            start = time.process_time()
            known[cell], settings = play(*cell)
            line = dict(zip(("market", "sight", "level", "seed", "steps"), cell, strict=True))
            line |= {"reward": known[cell], "settings": settings, "cpu": time.process_time() - start}
            print(json.dumps(line), flush=True)
            with options.lines.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
    for market, sight, level in PLAYED:
        cells = [(seed, options.steps) for seed in options.seeds]
        own, flat = (np.array([known[market, sight, name, *cell] for cell in cells]) for name in (level, "one level"))
        gaps = own - flat
        half = student.ppf(0.975, len(gaps) - 1) * gaps.std(ddof=1) / len(gaps) ** 0.5 if len(gaps) > 1 else 0.0
        gap = "" if level == "one level" else f"{gaps.mean():+.4f} ± {half:.4f}"
        rows.append([market, sight, level, f"{own.mean():+.4f}", gap])
    for market in MARKETS:
        others = [beside(market, seed) for seed in options.seeds]
        rows += [[market, "", name, f"{np.mean([each[name] for each in others]):+.4f}", ""] for name in others[0]]
    header = ["market", "lower agent", "policy", "reward a bar", "less one level"]
    title = f"One level against two: seeds {', '.join(map(str, options.seeds))}, {options.steps} steps"
    publish("two_level", table(header, rows), title)


if __name__ == "__main__":
    main()
