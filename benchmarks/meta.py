"""What a context adds to PPO: on league markets beside yardsticks, on unseen regimes, and on bandits.

    python benchmarks/meta.py --play SEED          # the cells of one seed, a few minutes; results are cached
    python benchmarks/meta.py --bandits            # the bandits, cached too
    python benchmarks/meta.py --record             # the tables of all that was played

Settings: those of `ppo_small`, fewer environments, the same steps for all; tuning seeds 1 and 2.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from record import publish, table

from pacesetter.learning.meta.bandits import BanditOptions, exact_reward, train_bandit
from pacesetter.training.league.cell import Cell, play_cell
from pacesetter.training.league.ladder import MARKETS

FOLDER = Path("runs/meta_benchmark")
SEEDS = (1, 2)
PLAYED = ("switching 0.4", "planted 0.4")
YARDSTICKS = ("hold", "ridge", "lasso", "oracle")
SAME = (
    *("task=fleet", "task.action=target", "task.retrain_share=0", "train.envs=64", "agent.batch_size=512"),
    *("train.steps=20480", "train.validate_every=10240"),
)
ENTRANTS = {
    "ppo": ("agent=ppo_small", *SAME),
    **{f"meta, {kind}": ("agent=meta_small", f"agent.context={kind}", *SAME) for kind in ("gru", "pearl", "attention")},
}
OPTIMA = {(2, 5): 2.8889, (2, 10): 6.0218}  # by dynamic programming, see tests/learning/meta/test_bandits.py


def cells(seed: int) -> list[Cell]:
    """All that is played with a seed, the cheap first."""
    return [
        Cell(str(FOLDER), market, name, seed, MARKETS[market], overrides)
        for market in PLAYED
        for name, overrides in [*((name, None) for name in YARDSTICKS), *ENTRANTS.items()]
    ]


def known_bandits() -> dict[str, float]:
    """Rewards that were known from before."""
    path = FOLDER / "bandits.json"
    return dict(json.loads(path.read_text())) if path.is_file() else {}


def play_bandits() -> None:
    """Train each context on each family of bandits that is not known yet."""
    rewards = known_bandits()
    for arms, pulls in OPTIMA:
        for kind in ("gru", "attention", "pearl"):
            key = f"{arms}/{pulls} {kind}"
            if key not in rewards:
                rewards[key] = exact_reward(train_bandit(BanditOptions(arms=arms, pulls=pulls, context=kind)))
                FOLDER.mkdir(parents=True, exist_ok=True)
                (FOLDER / "bandits.json").write_text(json.dumps(rewards))


def stored_scores() -> dict[tuple[str, str, int], float]:
    """(market, entrant, seed) → Sharpe ratio of every cell that was played."""
    read = [json.loads(path.read_text()) for path in sorted((FOLDER / "cells").glob("*.json"))]
    return {(one["market"], one["entrant"], one["seed"]): one["sharpe"] for one in read}


def report() -> str:
    """Tables of what is known."""
    scores, rows = stored_scores(), []
    for name in (*YARDSTICKS, *ENTRANTS):
        row = [[scores.get((market, name, seed), np.nan) for seed in SEEDS] for market in PLAYED]
        rows.append([name, *(f"{value:.2f}" if np.isfinite(value) else "not played" for part in row for value in part)])
    header = ["", *(f"{market}, seed {seed}" for market in PLAYED for seed in SEEDS)]
    text = f"Annualised Sharpe ratio on the test set after costs, 20,480 steps of each symbol.\n\n{table(header, rows)}"
    rewards = known_bandits()
    bandits = [
        [key, f"{reward:.4f}", f"{reward / OPTIMA[tuple(int(n) for n in key.split()[0].split('/'))]:.2%}"]  # type: ignore[index]
        for key, reward in rewards.items()
    ]
    return f"{text}\n\n{table(['bandit (arms/pulls), context', 'exact reward', 'of the optimum'], bandits)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--play", type=int, choices=SEEDS)
    parser.add_argument("--without", default="", help="entrants to leave out, e.g. attention")
    parser.add_argument("--bandits", action="store_true")
    options, _ = parser.parse_known_args()
    if options.play is not None:
        for cell in (cell for cell in cells(options.play) if not (options.without and options.without in cell.entrant)):
            print(cell.market, cell.entrant, f"{play_cell(cell).sharpe:.2f}", flush=True)
    elif options.bandits:
        play_bandits()
    else:
        publish("meta", report(), "Meta-RL: what a context adds to PPO")


if __name__ == "__main__":
    main()
