"""A fleet of size deciles of 1963–1985 that goes on learning in 1986–1995, beside one that begins there.

    python benchmarks/fine_tuning.py [--folder runs/fine_tuning] [--seed 1] [--record]

Runs that are there are not made again. The bars ship with the package; `docs/offline.md` has the commands.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from offline import COMMON
from record import publish, table
from rich.console import Console

from pacesetter.build import read_plan
from pacesetter.evaluation.statistics.intervals import interval
from pacesetter.evaluation.statistics.metrics import sharpe
from pacesetter.evaluation.stored_run import StoredRun
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.jobs.run.train import train
from pacesetter.lab.league.cell import QUIET, Cell, play_cell
from pacesetter.methods.offline.fine_tuning import fine_tune
from pacesetter.runs import Run

DECILES = (
    *("data=deciles", "features.names=[return_1]", "features.leadlag.lookback=60", "task.window_bars=2"),
    *("features.leadlag.expected_lookback=1000", "task.episode_bars=100", "train.shares=[0.6,0.2]"),
    "task.market.costs={commission_bps:1.0,spread_bps:0.0,slippage_bps:0.0}",
    *("task.market.orders.smoothing_bars=1", "task.reward.components={pnl:300.0}", "task.reward.clip=null"),
)
EARLY = ("data.start=1963-07-01", "data.end=1985-12-31")
LATE = ("data.start=1986-01-01", "data.end=1995-12-31")
LEARNER = (
    *("agent=ppo", "agent.network=mlp_tiny", "agent.heads=[32]", "train.envs=32", "train.steps=24576"),
    *("train.validate_every=8192", "train.log_every=8192", "agent.gamma=0.5", "agent.gae_lambda=0.5"),
    *("agent.n_steps=32", "agent.learning_rate=0.005", "agent.encoder_learning_rate=0.002", "agent.target_kl=null"),
)
SLOW = ("agent.learning_rate=0.001", "train.steps=12288", "train.validate_every=4096", "train.freeze=[encoder]")
ABOUT = (
    "Ten portfolios of US stocks by size, daily bars of Ken French's library, 1 bp a side. PPO of a fleet, network "
    "`mlp_tiny`, `task.action=target`, 24,576 steps of each agent; fine-tuned with a frozen encoder and a fifth of the "
    "learning rate for 12,288 steps. Annualised Sharpe ratio after costs; 60 % of the bars to learn from, 20 % to "
    "validate, 20 % to test. One seed: there is one history."
)


def made(runs: Path, name: str, make: Callable[[], Path]) -> Path:
    """The finished run of this name, or a new one."""
    for place in sorted((path.parent for path in runs.glob("*/manifest.json")), reverse=True):
        run = Run.open(place)
        if run.manifest.get("weights_hash") and read_plan(run).name == name:
            return place
    return make()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", default="runs/fine_tuning")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_known_args()[0]
    runs = Path(options.folder).resolve() / "runs"
    common = (*COMMON, *DECILES, *LEARNER, *QUIET, f"seed={options.seed}")

    def trained(name: str, *more: str) -> Callable[[], Path]:
        config = resolve([*common, *more, f"name={name}"])
        return lambda: train(replace(config, runs=str(runs)), console=Console(quiet=True)).run.folder

    early = made(runs, "early", trained("early", *EARLY))
    print("early", early.name, flush=True)
    words = [word for word in common if word != "task=fleet"]
    words += [*LATE, *SLOW, "name=tuned", f"runs={runs}"]
    tuned = made(runs, "tuned", lambda: fine_tune(early, words, Console(quiet=True)).folder)
    print("tuned", tuned.name, flush=True)
    fresh = made(runs, "fresh", trained("fresh", *LATE))
    rows = json.loads((tuned / "fine_tuning.json").read_text())["rows"]
    names = {"new": "1986–1995", "old": "1963–1985"}
    changes = [[names[row["market"]], *_pairs(row)] for row in rows]
    header = ["validation set of", "all, before", "all, after", "mean of agents, before", "after", "agents that fell"]
    body = f"{ABOUT}\n\n{table(header, changes)}\n\nTest set of 1986–1995:\n\n"
    tested = [[name, *_tested(folder)] for name, folder in (("fine-tuned", tuned), ("begun there", fresh))]
    for name in ("lasso", "ridge", "hold"):
        cell = Cell(str(runs.parent), "late deciles", name, options.seed, (*DECILES, *LATE), None)
        tested.append([name, f"{play_cell(cell).sharpe:+.2f}", ""])
    body += table(["", "Sharpe ratio", "95 % interval"], tested)
    publish("fine_tuning", body, "Fine-tuning from the deciles of 1963–1985 to those of 1986–1995")


def _pairs(row: dict[str, Any]) -> list[str]:
    pairs = ("together_before", "together_after", "mean_before", "mean_after")
    return [*(f"{row[name]:+.2f}" for name in pairs), f"{row['worse']:.0%}"]


def _tested(folder: Path) -> list[str]:
    result = StoredRun(folder).play()
    ratio = interval(result.returns, lambda values: sharpe(values, result.bars_per_year))
    return [f"{ratio.value:+.2f}", f"{ratio.low:+.2f} … {ratio.high:+.2f}"]


if __name__ == "__main__":
    main()
