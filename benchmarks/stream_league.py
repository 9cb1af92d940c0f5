"""The stream encoder beside the window transformer by the same method on planted markets, as shares of the oracle.

    python benchmarks/stream_league.py [--seeds 1+2] [--folder runs/stream_league] [--record] [KEY=VALUE …]

Both have the small sizes (64 wide, two layers, four heads) and every other option alike. Cells that were played are
kept in the folder, so that a run that was stopped resumes.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path

import pandas as pd
from league import HEADER, rows
from record import publish, table

from pacesetter.lab.league.cell import Cell, play_cell
from pacesetter.lab.league.ladder import MARKETS, seeds_of
from pacesetter.lab.league.league import league_table

PLAYED = ("planted 0.8", "planted 0.4")
YARDSTICKS = ("oracle", "lasso", "ridge", "hold")
STEPS = 6_144  # of each agent
METHOD = (
    *("task=fleet", "agent=ppo", "task.action=discrete", "agent.heads=[32]", "agent.n_steps=32"),
    *("agent.batch_size=256", "agent.gamma=0.5", "agent.gae_lambda=0.5", "agent.clip_range=0.3"),
    *("agent.target_kl=null", "agent.learning_rate=5e-3", "train.envs=16", f"train.steps={STEPS}"),
    *("train.validate_every=2048", "train.log_every=2048", "train.checkpoint_every=0"),
)
ENTRANTS: dict[str, tuple[str, ...] | None] = {
    **dict.fromkeys(YARDSTICKS),
    "stream_small": (*METHOD, "agent.network=stream_small"),
    "transformer_small": (*METHOD, "agent.network=transformer_small", "task.window_bars=24"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="1+2")
    parser.add_argument("--folder", type=Path, default=Path("runs/stream_league"))
    options, rest = parser.parse_known_args()
    more = tuple(text for text in rest if "=" in text)
    cells = [
        Cell(str(options.folder.resolve()), market, entrant, seed, MARKETS[market], overrides and (*overrides, *more))
        for seed in seeds_of(options.seeds)
        for market in PLAYED
        for entrant, overrides in ENTRANTS.items()
    ]
    scores = []
    for cell in cells:
        scores.append(asdict(play_cell(cell)))
        print(cell.market, cell.seed, cell.entrant, f"{scores[-1]['sharpe']:+.2f}", flush=True)
    about = (
        f"A fleet of ten agents by `agent=ppo` with discrete orders, {STEPS:,} steps each, windows of 24 bars for the "
        f"transformer and of 47 for the stream; costs, bars and table as in [league](league.md). "
        f"Seeds {options.seeds}; nothing was tuned for either."
    )
    found = league_table(pd.DataFrame(scores))
    publish("stream_league", f"{about}\n\n{table(HEADER, rows(found))}", "The stream encoder on the league")


if __name__ == "__main__":
    main()
