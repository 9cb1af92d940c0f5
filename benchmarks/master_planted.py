"""The master over 143 agents on a planted market: is it above the best fixed allocation of the same proposals?

Agents and masters are trained and chosen by earlier bars; the tables are of the test bars, which nothing has seen. Two
rows tell where a gain comes from: a master that is shown no lead–lag features, and so knows what the fixed allocations
know, and one that has learned nothing and follows the agents as every master does at first.

python benchmarks/master_planted.py [--seeds 0 1] [--record]
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path

import pandas as pd
import torch
from record import publish, table

from pacesetter.evaluation.fleet.account_measures import measures
from pacesetter.evaluation.stored_run import StoredRun
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.jobs.run.train import train
from pacesetter.methods.master.agent import Master
from pacesetter.methods.master.page import allocation_sentence
from pacesetter.methods.master.policy import MasterPolicy
from pacesetter.methods.master.proposals import AllocationComparison, compare_allocations

QUIET = ("track.mlflow=off", "track.tensorboard=off", "track.progress=false")
MASTER = (
    *("task=master", "task.reward.components={pnl:300.0}", "task.reward.clip=null", "task.episode_bars=50"),
    *("train.envs=64", "train.steps=20480", "train.validate_every=4096", "train.checkpoint_every=0", "name=master"),
)
BLIND = "agent.network_options.entries=[proposals,confidence,position]"
COLUMNS = ("sharpe", "growth", "cash", "positions", "turnover", "difference", "low", "high")


def planted_fleet(runs: str | Path, seed: int) -> Path:
    """The run of the fleet on the planted market of this seed."""
    return train(resolve(["+preset=planted_fleet", *QUIET, f"runs={runs}", f"seed={seed}"])).run.folder


def planted_master(runs: str | Path, fleet: Path, seed: int, *more: str) -> StoredRun:
    """The run of a master over the fleet's agents."""
    overrides = [*MASTER, f"task.fleet={fleet}", *QUIET, f"runs={runs}", f"seed={seed}", *more]
    return StoredRun(train(resolve(overrides)).run.folder)


def on_test(run: StoredRun, is_untrained: bool = False) -> AllocationComparison:
    """The master of a run, or as it was at first, and everybody beside it on the test bars."""
    policy = run.policy
    assert isinstance(policy, MasterPolicy)
    if is_untrained:
        torch.manual_seed(run.config.seed)
        policy = replace(policy, master=Master(policy.master.config, policy.master.shapes))
    options = {"market": run.task.market, "window_bars": run.task.window_bars, "bank": run.bank(run.panel)}
    return compare_allocations(policy, run.panel, first=run.first, **options)


def compared(runs: str, seed: int) -> str:
    """Table and sentences of one market."""
    fleet = planted_fleet(runs, seed)
    own, blind = planted_master(runs, fleet, seed), planted_master(runs, fleet, seed, BLIND)
    best, others = on_test(own), {"without lead–lag": on_test(blind), "untrained": on_test(own, is_untrained=True)}
    frame = best.table()
    for name, other in others.items():
        above = dict(zip(COLUMNS[-3:], best.difference(other.master), strict=False))
        frame.loc[name] = pd.Series(measures(other.master) | above)
    rows = [[str(name), *(float(row[key]) for key in COLUMNS)] for name, row in frame.iterrows()]
    told = [f"- {name}: {allocation_sentence(other.table())}" for name, other in {"master": best, **others}.items()]
    body = f"Seed {seed}; differences are those of the first row to the others.\n\n{table(['', *COLUMNS], rows)}\n\n"
    return body + "\n".join(told)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    with tempfile.TemporaryDirectory(prefix="planted-") as runs:
        body = "\n\n".join(compared(runs, seed) for seed in parser.parse_known_args()[0].seeds)
    publish("master_planted", body, "The master over 143 agents on a planted market, on unseen bars")


if __name__ == "__main__":
    main()
