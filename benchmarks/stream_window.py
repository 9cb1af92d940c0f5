"""The stream encoder where what pays stands in the window itself: first weights beside each other on held-out bars.

    python benchmarks/stream_window.py [--cells stream_small:1,transformer_small] [--seeds 1,2] [--record]

The league hands `leadlag_expected` to the networks beside the window. Here it is one of 23 features of each bar, as in
`gpu_fleet.py`, so that a start that makes bars too small is seen. A cell is a network and the gain its blocks begin
with; a seed is that of the experience. 16 environments × 32 steps of each of ten agents a round.
"""

from __future__ import annotations

import argparse
from typing import Any

import gpu_fleet  # first: it finds the package where it is not installed
import torch
from record import publish, table

from pacesetter.agents.stream import encoder

BARS, SYMBOLS = 2_000, 10
CHECKED = (2_048, 4_096, 8_192)  # steps of each agent after which it is played
SIZES = {"envs": 16, "rollout": 32, "batch": 256, "bars": BARS, "device": "cpu", "eager": True, "graphs": False}


def learn(cell: str, seed: int, market: tuple[Any, Any, Any]) -> list[Any]:
    """A row of the table: Sharpe ratio on held-out bars after each count of steps, and those of hold and the rule."""
    name, _, gain = cell.partition(":")
    encoder.FIRST_GAIN = float(gain or encoder.FIRST_GAIN)  # type: ignore[misc]
    panel, features, bank = market
    learner = gpu_fleet.make_learner(argparse.Namespace(network=name, **SIZES), bank)
    torch.manual_seed(seed)
    row: list[Any] = [name, gain or "–", seed]
    for steps in CHECKED:
        learner.learn(steps)
        judged = gpu_fleet.judged_rows(learner, panel, features, BARS)
        row.append(judged[0][1])
    return [*row, judged[1][1], judged[2][1]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", default="stream_small:1,stream_small:0.1,stream_small:0.03,transformer_small")
    parser.add_argument("--seeds", default="1,2")
    options = parser.parse_known_args()[0]
    panel = gpu_fleet.make_panel(SYMBOLS, BARS)
    features = gpu_fleet.make_features(panel)
    market = panel, features, gpu_fleet.make_bank(panel, features, BARS)
    rows = []
    for seed in (int(text) for text in options.seeds.split(",")):
        for cell in options.cells.split(","):
            rows.append(learn(cell, seed, market))
            print(*rows[-1], flush=True)
    header = ["network", "blocks begin at", "seed", *(f"{steps:,} steps" for steps in CHECKED), "hold", "rule"]
    about = "Sharpe ratio of all agents in equal parts; the rule is long where `leadlag_expected` pays the cost."
    publish("stream_window", f"{about}\n\n{table(header, rows)}", "The stream encoder with the signal in the window")


if __name__ == "__main__":
    main()
