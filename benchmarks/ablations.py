"""Ablations at a small size on tuning seeds: what actions, and parts of the observation, are worth to PPO.

python benchmarks/ablations.py [--presets actions features] [--seeds 1+2] [--name ablations] [--record] [KEY=VALUE …]
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path

import numpy as np
from record import publish, table
from rich.console import Console

from pacesetter.build import Plan, read_plan
from pacesetter.jobs.hydra.overrides import take_options
from pacesetter.lab.league.ablation import JUDGED, Ablation, AblationPreset, ablate, load_ablation
from pacesetter.lab.league.cell import Cell
from pacesetter.runs import Run

# Entrants of `lookback` that differ in the network alone, whose learning curves are shown.
NETWORKS = ("full", "LSTM", "GRU", "row sums with attention over assets", "row sums without attention")


def section(preset: str, seeds: str, folder: str, more: list[str]) -> str:
    """One ablation as a table."""
    stored = load_ablation(preset)
    judging = JUDGED[stored.judged]
    asked = [f"ablate={preset}", f"ablate.seeds={seeds}", f"ablate.folder={folder}/{preset}", *more]
    rows = [
        [
            *(row["variant"], row["runs"], f"{row['mean']:+.2f}"),
            _gap(row["gap"], row["gap_half_width"]),
            "" if math.isnan(row["p"]) else f"{row['p']:.3f}",
            *(format(row[name], style) for name, (_, style) in judging.columns.items()),
        ]
        for row in ablate(asked, Console(quiet=True)).to_dict("records")
    ]
    told = f"Market `{stored.markets[0]}`, tuning seeds {seeds}; {', '.join(more) or 'as shipped'}."
    titles = [title for title, _ in judging.columns.values()]
    header = ["variant", "seeds", judging.title, "less the full method", "p", *titles]
    return f"## {preset}\n\n{told}\n\n{table(header, rows)}{_curves(stored, asked)}"


def _gap(value: float, half: float) -> str:
    """A difference, ± half of its interval where there is more than one seed."""
    if math.isnan(value):
        return ""
    return f"{value:+.2f}" if math.isnan(half) else f"{value:+.2f} ± {half:.2f}"


def _curves(stored: AblationPreset, asked: list[str]) -> str:
    """Validation scores over steps of the networks, as means over seeds; nothing where the preset names none."""
    networks = [name for name in NETWORKS if name in stored.overrides()]
    if len(networks) < 2:
        return ""
    options, more = take_options([text for text in asked if not text.startswith("launcher.")], "ablate", Ablation)
    curves: dict[str, list[dict[int, float]]] = {}
    for cell in options.cells(stored, more):
        if cell.entrant in networks:
            curves.setdefault(cell.entrant, []).append(_validated(cell))
    steps = sorted({step for each in curves.values() for curve in each for step in curve})
    rows = [
        [name, *(f"{np.mean([curve[step] for curve in each if step in curve]):+.2f}" for step in steps)]
        for name, each in curves.items()
    ]
    return f"\n\nValidation score after so many steps, mean over seeds:\n\n{table(['network', *map(str, steps)], rows)}"


def _validated(cell: Cell) -> dict[int, float]:
    """Step -> validation score of the cell's run."""
    wanted = _told(cell.config)
    # The newest first: one that was stopped may lie before it.
    for place in sorted(Path(cell.folder, "runs").glob("*/metrics.jsonl"), reverse=True):
        if _told(read_plan(Run.open(place.parent))) == wanted:
            lines = [json.loads(line) for line in place.read_text(encoding="utf-8").splitlines()]
            return {
                line["step"]: line["validation"]["score"] for line in lines if "score" in line.get("validation", {})
            }
    raise FileNotFoundError(f"no run of {cell.entrant} with seed {cell.seed} in {cell.folder}")


def _told(config: Plan) -> str:
    """What tells the runs of an ablation apart; the rest may be completed while a run is made."""
    return json.dumps(
        [config.seed, config.agent.to_dict(), config.task, config.train.steps], default=str, sort_keys=True
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--presets", nargs="+", default=["actions", "features"])
    parser.add_argument("--seeds", default="1+2")
    parser.add_argument("--folder", default="runs/ablate")
    parser.add_argument("--name", default="ablations")
    parser.add_argument("--title", default="Ablations of PPO")
    asked, rest = parser.parse_known_args()
    more = [text for text in rest if "=" in text]
    parts = [section(preset, asked.seeds, asked.folder, more) for preset in asked.presets]
    publish(asked.name, "\n\n".join(parts), asked.title)


if __name__ == "__main__":
    main()
