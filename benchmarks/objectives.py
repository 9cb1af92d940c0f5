"""Many objectives: Deep Sea Treasure, what vectors and critics cost a step, and the front on the planted market.

    python benchmarks/objectives.py [--seeds 1 2] [--steps 24576] [--folder FOLDER] [--record]
    python benchmarks/objectives.py --speed [--record]       # the times alone, a page of its own

Times are of the processor, whatever else the machine does. The market is the league's `planted 0.4`; with --folder
finished cells are kept, and a stopped benchmark continues.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from record import publish, table

from pacesetter.build import build_learner, build_panel, build_parts
from pacesetter.data.synthetic import Synthetic
from pacesetter.envs.batch.bank import Bank
from pacesetter.envs.batch.batch import Batch
from pacesetter.features import feature_table
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.lab.league.cell import Cell, play_cell
from pacesetter.lab.league.ladder import MARKETS
from pacesetter.methods.objectives.deep_sea import STATED, WORST, chebyshev_front, weighted_front
from pacesetter.methods.objectives.front import hypervolume
from pacesetter.rewards import OBJECTIVES, RewardConfig

POINTS, MARKET = 8, "planted 0.4"
SMALL = (
    *("task=fleet", "task.action=target", "agent.network=mlp_tiny", "agent.heads=[32]", "agent.gamma=0.3"),
    *("agent.learning_rate=0.003", "agent.encoder_learning_rate=0.003"),  # at SAC's 3e-4 nothing is learned in time
    *("agent.gradient_steps=4", "agent.batch_size=256", "agent.learning_starts=1024", "agent.tau=0.02"),
    *("task.retrain_share=0", "train.checkpoint_every=0", "train.envs=32"),
)
ALONE = ["agent=sac", "task.reward.components={pnl:300}"]
YARDSTICKS = ("oracle", "lasso", "ridge", "hold")


def deep_sea_rows() -> list[list[Any]]:
    """Hypervolume that trained policies reach, of that of the whole front."""
    rows = []
    for (kind, gamma), stated in STATED.items():
        fronts = {"weighted sum": weighted_front(kind, gamma), "Chebyshev": chebyshev_front(kind, gamma)}
        for name, reached in fronts.items():
            volume, points = hypervolume(reached, WORST), len(np.unique(reached.round(9), axis=0))
            rows.append([kind, gamma, name, f"{volume:,.2f}", f"{stated:,.2f}", f"{volume / stated:.1%}", points])
    return rows


def step_rows() -> list[list[Any]]:
    """Milliseconds of one step of all environments, without learning: policy, market, replay."""
    rows = []
    for symbols, envs in ((1, 1), (10, 8), (143, 8)):
        size = (
            *("+preset=planted", "features.leadlag.lookback=null", "data.bars=600", f"data.symbols={max(symbols, 5)}"),
            *(f"data.groups={max(1, symbols // 5)}", *SMALL, f"train.envs={envs}", "agent.buffer_size=800"),
            *(("task.symbols=[S0]",) if symbols == 1 else ()),
        )
        alone, many = _step_ms([[*size, *own] for own in (ALONE, ["agent=mosac"])])
        rows.append([f"{symbols} × {envs}", alone, many, many - alone, (many - alone) / (symbols * envs)])
    return rows


def _step_ms(cases: list[list[str]]) -> list[float]:
    """Median of each; they take turns, so that what else the machine does slows all alike."""
    learners = []
    for overrides in cases:
        config = resolve([*overrides, "seed=1"])
        learners.append(build_learner(config, build_parts(config, build_panel(config))))
        learners[-1].steps = 10_000  # the policy acts
    times: list[list[float]] = [[] for _ in learners]
    for _ in range(405):
        for learner, own in zip(learners, times, strict=True):
            start = time.process_time()
            learner.method.step(learner)
            own.append(1e3 * (time.process_time() - start))
    return [statistics.median(own[5:]) for own in times]


def environment_rows() -> list[list[Any]]:
    """Microseconds of a step of one environment without a policy: rewards of one component and of five."""
    panel = Synthetic(symbols=1, bars=600, seed=1).read()
    bank = Bank.from_panels(panel, feature_table(panel, ["return_1"]))
    rows = []
    for name, reward in (("P&L", RewardConfig()), ("five objectives", RewardConfig(OBJECTIVES, clip=None))):
        batch = Batch(bank, 1, action="target", has_windows=False, reward=reward, episode_bars=100)
        batch.reset()
        actions = np.random.default_rng(1).random((2_000, 1))
        times = []
        for action in actions:
            start = time.process_time()
            batch.step(action)
            times.append(1e6 * (time.process_time() - start))
        rows.append([name, statistics.median(times[50:])])
    return rows


def market_rows(seeds: list[int], steps: int, folder: Path) -> tuple[list[list[Any]], list[list[Any]]]:
    """Sharpe ratios on the test set beside the yardsticks; and a row of each front on the validation set."""
    sharpes: dict[str, list[float]] = {}
    fronts = []
    length = (f"train.steps={steps}", f"train.validate_every={steps // 2}", f"train.log_every={steps // 8}")
    entrants: dict[str, tuple[str, ...] | None] = {
        "MO-SAC": ("agent=mosac", *SMALL, *length, f"agent.preferences={POINTS}"),
        "SAC": ("agent=sac", *SMALL, *length),
    } | dict.fromkeys(YARDSTICKS)
    for seed in seeds:
        for name, own in entrants.items():
            score = play_cell(Cell(str(folder / f"{name}-{seed}"), MARKET, name, seed, MARKETS[MARKET], own))
            sharpes.setdefault(name, []).append(score.sharpe)
            print(
                json.dumps({"name": name, "seed": seed, "sharpe": score.sharpe, "seconds": score.seconds}), flush=True
            )
        fronts.append([seed, *_front(next((folder / f"MO-SAC-{seed}" / "runs").glob("*/front.json")).parent)])
    rows = [[name, f"{np.mean(own):+.2f}", ", ".join(f"{one:+.2f}" for one in own)] for name, own in sharpes.items()]
    return rows, fronts


def _front(run: Path) -> list[Any]:
    """Of a stored front: volume, points that nothing beats, learned weights and how far they moved at the end."""
    front = json.loads((run / "front.json").read_text())
    learned, chosen = front["points"][0], front["points"][front["chosen"]]
    names = [f"reward/{name}_weight" for name in front["objectives"]]
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    path = np.array([[line[name] for name in names] for line in lines if names[0] in line])
    moved = float(np.abs(path[-1] - path[len(path) // 2]).max())
    efficient = sum(point["efficient"] for point in front["points"])
    weights = ", ".join(f"{weight:.2f}" for weight in learned["preference"])
    ends = [chosen["sharpe"], f"{chosen['drawdown']:.1%}"]
    return [f"{front['share']:.1%}", f"{efficient} of {len(front['points'])}", weights, moved, *ends]


def publish_speed() -> None:
    body = "Processor milliseconds of a step of all environments, without learning, one thread.\n\n"
    header = ["symbols × environments", "SAC, one component", "MO-SAC, five objectives", "more", "more an environment"]
    body += table(header, step_rows())
    body += "\n\nProcessor microseconds of a step of one environment without a policy.\n\n"
    body += table(["reward", "microseconds"], environment_rows())
    publish("objectives_speed", body, "What many objectives cost a step")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--steps", type=int, default=24_576)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--speed", action="store_true", help="the times alone")
    options, _ = parser.parse_known_args()
    if options.speed:
        publish_speed()
        return
    body = "Deep Sea Treasure, reference (0, −50): what trained policies reach.\n\n"
    header = ["map", "discount", "scalarisation", "hypervolume", "whole front", "share", "points"]
    body += table(header, deep_sea_rows())
    with tempfile.TemporaryDirectory() as empty:
        rows, fronts = market_rows(options.seeds, options.steps, options.folder or Path(empty))
    body += (
        f"\n\nFleet of ten, league market `{MARKET}`, {options.steps:,} steps of each symbol, five objectives by "
        "weighted sums. Annualised Sharpe ratio on the test set after costs, mean and by seed.\n\n"
    )
    body += table(["policy", "Sharpe ratio", "by seed"], rows)
    body += f"\n\nThe front of {POINTS} points on the validation set, its volume as a share of the box around it.\n\n"
    header = ["seed", "hypervolume", "not beaten", "learned weights", "moved in the second half"]
    body += table([*header, "Sharpe ratio of the chosen", "its drawdown"], fronts)
    publish("objectives", body, "Many objectives")


if __name__ == "__main__":
    main()
