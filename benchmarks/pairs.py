"""Methods in pairs at equal samples: the league's cells of each group, each method less the one it stands beside.

    python benchmarks/pairs.py --seeds 421 422 423 424 425 --folder pairs [--groups asynchronous objectives] [--record]

Settings are the league's, chosen on its tuning seeds; a cell that is in the folder is not played again. ES alone takes
more samples than the others, as its entrant says.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from cures import interval
from record import publish, table

from pacesetter.lab.league.cell import Cell, play_cell
from pacesetter.lab.league.ladder import ENTRANTS, MARKETS

Overrides = tuple[str, ...]
MONEY_AND_RISK = ("agent=mosac", "agent.objectives={pnl:0.9,risk:0.1}")
CONTEXT_STEPS = (
    *("task=fleet", "task.action=target", "task.retrain_share=0", "train.envs=64", "agent.batch_size=512"),
    *("train.steps=61440", "train.validate_every=10240"),
)
DISCRETE = "task.action=discrete"
# MO-SAC learns weights of 0.6 and 0.4, of objectives in deviations of what agents try: 1/1218 and 1/3566 on seed 1.
SAME_WEIGHTS = ("task.reward.components.pnl=731", "+task.reward.components.risk=1427")
STEPS = os.environ.get("PAIRS_STEPS")  # of every method, to see whether all of it runs


def objectives(*more: str) -> Overrides:
    """MO-SAC with the settings of the league's SAC, for the same money."""
    own = [text for text in ENTRANTS["sac_fleet"] if text != "agent=sac"]
    return (*own, *MONEY_AND_RISK, *more)


@dataclass(frozen=True)
class Group:
    """Methods on one market of the league, and beside which other each of them stands."""

    market: str
    methods: dict[str, Overrides]
    beside: dict[str, Overrides]
    yardsticks: Overrides = ("oracle", "lasso", "ridge", "hold")


GROUPS = {
    "asynchronous": Group(
        "planted 0.4",
        {
            "PPO": ENTRANTS["ppo_fleet"],
            "IMPALA, clipped passes": ENTRANTS["impala"],
            "IMPALA, one plain pass": (
                *(*ENTRANTS["impala"], "agent.n_epochs=1", "agent.clip_range=null"),
                *("agent.learning_rate=0.001", "agent.encoder_learning_rate=0.001"),
            ),
            "SAC": ENTRANTS["sac_fleet"],
            "ES": ENTRANTS["es"],
            "hybrid": ENTRANTS["hybrid"],
        },
        {
            **dict.fromkeys(("IMPALA, clipped passes", "IMPALA, one plain pass"), ("PPO",)),
            **dict.fromkeys(("ES", "hybrid"), ("SAC",)),
        },
    ),
    "objectives": Group(
        "planted 0.4",
        {
            "SAC": ENTRANTS["sac_fleet"],
            "SAC, the same weights": (*ENTRANTS["sac_fleet"], *SAME_WEIGHTS),
            "MO-SAC": objectives(),
            "SAC, discrete": (*ENTRANTS["sac_fleet"], DISCRETE),
            "SAC, discrete, the same weights": (*ENTRANTS["sac_fleet"], DISCRETE, *SAME_WEIGHTS),
            "MO-SAC, discrete": objectives(DISCRETE),
        },
        {
            "MO-SAC": ("SAC, the same weights", "SAC"),
            "MO-SAC, discrete": ("SAC, discrete, the same weights", "SAC, discrete"),
        },
    ),
    "contexts": Group(
        "fading",
        {
            "PPO": ("agent=ppo_small", *CONTEXT_STEPS),
            "context sums": ("agent=meta_small", "agent.context=sums", *CONTEXT_STEPS),
            "context gru": ("agent=meta_small", "agent.context=gru", *CONTEXT_STEPS),
            "context attention": ("agent=meta_small", "agent.context=attention", *CONTEXT_STEPS),
        },
        dict.fromkeys(("context sums", "context gru", "context attention"), ("PPO",)),
        ("oracle_sized", "lasso_sized", "lasso", "hold"),
    ),
}


def play(folder: Path, name: str, entrant: str, seed: int) -> dict[str, Any]:
    """One cell of a group, in a folder of its own; what is known is read."""
    group = GROUPS[name]
    path = folder / f"{name}-{entrant}-{seed}.json".replace(" ", "_").replace(",", "")
    if not path.is_file():
        own = group.methods.get(entrant)
        if own is not None and STEPS:
            own = (*own, f"train.steps={STEPS}", f"train.validate_every={STEPS}")
        score = play_cell(Cell(str(path.with_suffix("")), group.market, entrant, seed, MARKETS[group.market], own))
        figures = {"sharpe": score.sharpe, "steps": score.steps, "processor_seconds": score.processor_seconds}
        path.write_text(json.dumps({"group": name, "entrant": entrant, "seed": seed} | figures) + "\n", "utf-8")
    return dict(json.loads(path.read_text(encoding="utf-8")))


def rows_of(lines: Sequence[dict[str, Any]], group: Group) -> list[list[str]]:
    """A row for each method and yardstick: by seed, mean, and what it has over the one it stands beside."""
    rows = []
    seeds = sorted({line["seed"] for line in lines})
    found = {(line["entrant"], line["seed"]): line for line in lines}
    for entrant in (*group.methods, *group.yardsticks):
        own = [found[entrant, seed] for seed in seeds if (entrant, seed) in found]
        if not own:
            continue
        less, shares = [], []
        for other in group.beside.get(entrant, ()):
            both = [seed for seed in seeds if {(entrant, seed), (other, seed)} <= found.keys()]
            mine, theirs = (np.array([found[name, seed]["sharpe"] for seed in both]) for name in (entrant, other))
            if both:
                less.append(f"{interval(list(mine - theirs))} {other}")
                shares.append(f"{mine.mean() / theirs.mean():.0%}")
        mean = np.mean([line["sharpe"] for line in own])
        scores = [f"{found[entrant, seed]['sharpe']:+.2f}" if (entrant, seed) in found else "" for seed in seeds]
        steps = f"{own[0]['steps']:,}" if own[0]["steps"] else ""
        rows.append([entrant, *scores, f"{mean:+.2f}", "; ".join(less), ", ".join(shares), steps])
    return rows


def body(lines: Sequence[dict[str, Any]]) -> str:
    """A table of each group."""
    parts = ["Annualised Sharpe ratio on the test set after costs, all agents in one account."]
    for name, group in GROUPS.items():
        own = [line for line in lines if line["group"] == name]
        if own:
            seeds = [str(seed) for seed in sorted({line["seed"] for line in own})]
            header = [f"`{group.market}`", *seeds, "mean", "less", "of its mean", "steps of each agent"]
            parts += [f"## {name}", table(header, rows_of(own, group))]
    return "\n\n".join(parts)


def main() -> None:
    """Play all, print, and record where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--groups", nargs="+", default=list(GROUPS), choices=list(GROUPS))
    parser.add_argument("--methods", nargs="+", help="some of those of the groups, and no table")
    parser.add_argument("--folder", type=Path, default=Path("pairs"))
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for name in options.groups:
        group = GROUPS[name]
        # Regressions are fitted by scikit-learn, which a machine for networks need not have.
        yardsticks = group.yardsticks if find_spec("sklearn") else ()
        for seed in options.seeds:
            for entrant in options.methods or (*group.methods, *yardsticks):
                lines.append(play(options.folder, name, entrant, seed))
                print(json.dumps(lines[-1]), flush=True)
    if not options.methods:
        publish("pairs", body(lines), "Methods in pairs at equal samples")


if __name__ == "__main__":
    main()
