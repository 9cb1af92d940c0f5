"""143 agents on a planted market and on noise: who finds the signal, and that nobody finds one where there is none.

python benchmarks/fleet_planted.py [--picture docs/pictures/fleet.png] [--record]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from record import publish, table

from pacesetter.evaluation.fleet.agents import fleet_sentence, read_agents
from pacesetter.evaluation.fleet.agents_picture import fleet_picture
from pacesetter.evaluation.fleet.ensemble import evidence, unseen_returns
from pacesetter.evaluation.stored_run import StoredRun
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.jobs.run.train import train

GOOD_SHARPE, LEVEL = 0.2, 0.05
QUIET = ("track.mlflow=off", "track.tensorboard=off")


def trained(runs: str, *more: str) -> tuple[StoredRun, float]:
    """The run, and the seconds that it took."""
    start = time.perf_counter()
    run = train(resolve(["+preset=planted_fleet", *QUIET, f"runs={runs}", *more])).run
    return StoredRun(run.folder), time.perf_counter() - start


def planted(runs: str, picture: Path | None) -> str:
    run, seconds = trained(runs)
    agents, is_follower = read_agents(run.folder), np.asarray(run.panel.truth.strengths) > 0
    groups = {"followers": agents[is_follower], "leaders": agents[~is_follower]}
    rows: list[list[Any]] = []
    for name, part in groups.items():
        sharpe = part["sharpe"]
        good = f"{(sharpe > GOOD_SHARPE).mean():.0%}"
        rows.append([name, len(part), good, sharpe.median(), sharpe.min(), f"{part['drawdown'].max():.1%}"])
    if picture is not None:
        fleet_picture(run.folder, picture, {name: list(part["symbol"]) for name, part in groups.items()})
    body = f"Planted: {seconds:.0f} s, {run.config.train.steps:,} steps of each agent. {fleet_sentence(agents)}.\n\n"
    header = ["validation set", "agents", f"Sharpe ratio > {GOOD_SHARPE}", "median", "least", "largest drawdown"]
    return body + table(header, rows)


def noise(runs: str) -> str:
    run, _ = trained(runs, "data.strength=0")
    found = evidence(unseen_returns(run), run.panel.bars_per_year)
    good = int(((found["q_value"] < LEVEL) & (found["sharpe"] > 0)).sum())
    return (
        f"Noise, on unseen bars: {good} of {len(found)} agents above cash after false-discovery control at {LEVEL:.0%} "
        f"(least q-value {found['q_value'].min():.2f}; {(found['p_value'] < LEVEL).sum()} p-values below {LEVEL}); "
        f"mean Sharpe ratio {found['sharpe'].mean():+.2f}."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--picture", type=Path, help="PNG of all agents to write")
    picture = parser.parse_known_args()[0].picture
    with tempfile.TemporaryDirectory(prefix="planted-") as runs:
        body = f"{planted(runs, picture)}\n\n{noise(runs)}"
    publish("fleet_planted", body, "143 agents on a planted market and on noise")


if __name__ == "__main__":
    main()
