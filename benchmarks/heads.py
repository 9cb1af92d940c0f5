"""Auxiliary heads: how well they predict with all that the policy sees, and what they add where bars are few.

    python benchmarks/heads.py --seeds 421 422 423 424 425 --file heads.jsonl [--record]

*Direction* is the share of the next bar's moves, on the validation set, whose sign the head has right, beside the
oracle's, who knows what was planted into that bar. *Few bars* are 450 to learn from, 150 to choose by and 3,000 to be
judged on: fleets with heads and without are paired by seed. Fleets are PPO with the larger steps of `cures.py`.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from cures import LARGER, METHODS, QUIET, interval, last_of_each
from record import publish, table
from rich.console import Console

from pacesetter.build import build_learner, build_panel, build_parts
from pacesetter.evaluation.fleet.auxiliary import COLUMNS, head_accuracies
from pacesetter.evaluation.stored_run import StoredRun
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.jobs.run.train import train
from pacesetter.lab.league.behaviour import behaviour
from pacesetter.lab.league.ladder import MARKETS

STEPS = 16_384
FLEET = (
    *(*METHODS["ppo"], *LARGER["ppo"], "agent.batch_size=256", "task=fleet", "task.retrain_share=0", "data.symbols=6"),
    *("agent.network=mlp_tiny", "agent.heads=[32]", "train.envs=32", f"train.steps={STEPS}", "train.best_by=sharpe"),
    *(f"train.validate_every={STEPS // 2}", "train.checkpoint_every=0", f"train.log_every={STEPS}", *QUIET),
)
HEADS = "agent.extras.auxiliary={expert:0}"
CLASSES = ("change", "volume", "regime")
PREDICTED = ("planted 0.4", "planted 0.8")
FEW = "450 bars 0.4"


def predict(market: str, seed: int) -> dict[str, Any]:
    """The accuracies of a fleet's heads on the validation set."""
    config = resolve(last_of_each([*MARKETS[market], *FLEET, HEADS, f"seed={seed}"]))
    panel = build_panel(config)
    parts = build_parts(config, panel)
    learner: Any = build_learner(config, parts)
    learner.learn(STEPS)
    return {"heads": head_accuracies(learner, parts.validation, panel)}


def trade(market: str, with_heads: bool, seed: int) -> dict[str, Any]:
    """The test Sharpe ratio of a fleet, after costs, all agents in one account."""
    with tempfile.TemporaryDirectory() as runs:
        own = [*MARKETS[market], *FLEET, *((HEADS,) if with_heads else ()), f"seed={seed}", f"runs={runs}"]
        result = train(resolve(last_of_each(own)), console=Console(quiet=True))
        return {"sharpe": behaviour(StoredRun(result.run.folder).play()).sharpe}


def play(kind: str, seed: int) -> dict[str, Any]:
    """One line: a market whose moves are predicted, or the few bars with heads or without."""
    start = time.process_time()
    figures = predict(kind, seed) if kind in PREDICTED else trade(FEW, kind == "with heads", seed)
    return {"kind": kind, "seed": seed, **figures, "processor_seconds": time.process_time() - start}


def body(lines: list[dict[str, Any]]) -> str:
    """Both tables."""
    rows = []
    for market in PREDICTED:
        own = [line["heads"] for line in lines if line["kind"] == market]
        for name in CLASSES:
            found = [heads[name] for heads in own if name in heads]
            if not found:
                continue
            cells = [np.array([each[key] for each in found], dtype=float) for key in COLUMNS]
            shown = ["–" if np.isnan(cell).all() else f"{cell.mean():.1%}" for cell in cells]
            more = interval(list(100 * (cells[0] - cells[1])))
            rows.append([market, "direction" if name == "change" else name, *shown, more])
    header = ["market", "head", "right", "majority, with hindsight", "where the oracle knows", "oracle there"]
    header.append("points over the majority")
    few = {
        kind: {line["seed"]: line["sharpe"] for line in lines if line["kind"] == kind}
        for kind in ("without heads", "with heads")
    }
    seeds = sorted(few["with heads"].keys() & few["without heads"].keys())
    gained = [few["with heads"][seed] - few["without heads"][seed] for seed in seeds]
    traded = [[kind, f"{np.mean([ratios[seed] for seed in seeds]):+.2f}"] for kind, ratios in few.items() if seeds]
    below = table(["450 bars", "Sharpe ratio"], traded)
    return f"{table(header, rows)}\n\n{below}\n\nWith heads less without, paired: {interval(gained)}."


def main() -> None:
    """Play what is not in the file yet, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--kinds", nargs="*", default=[*PREDICTED, "without heads", "with heads"])
    parser.add_argument("--file", type=Path, default=Path("heads.jsonl"))
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    lines = [json.loads(text) for text in options.file.read_text().splitlines()] if options.file.is_file() else []
    known = {(line["kind"], line["seed"]) for line in lines}
    for seed in options.seeds:
        for kind in options.kinds:
            if (kind, seed) not in known:
                lines.append(play(kind, seed))
                print(json.dumps(lines[-1]), flush=True)
                with options.file.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(lines[-1]) + "\n")
    own = [line for line in lines if line["seed"] in options.seeds]
    publish(Path(__file__).stem, body(own), "Auxiliary heads")


if __name__ == "__main__":
    main()
