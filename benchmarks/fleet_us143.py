"""A fleet on 143 US stocks: trained to 2012, chosen by 2013–2014, shown on 2015–2016 beside simple baselines.

    python benchmarks/fleet_us143.py [--steps 4096] [--record]

The data lies beside the checkout and is not shipped. The stocks are survivors: the table compares policies on the same
bars, and says nothing of what an investor of 2005 would have earned.
"""

from __future__ import annotations

import argparse
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
from record import publish, table

from pacesetter.data import load
from pacesetter.evaluation.backtest.backtest import backtest
from pacesetter.evaluation.baselines.catalogue import evaluate_baselines
from pacesetter.evaluation.fleet.agents import fleet_sentence, read_agents
from pacesetter.evaluation.fleet.ensemble import Ensemble, evidence, unseen_returns
from pacesetter.evaluation.fleet.ensemble_page import ensemble_section, evidence_section
from pacesetter.evaluation.statistics.intervals import interval
from pacesetter.evaluation.statistics.metrics import annual_return, max_drawdown, sharpe
from pacesetter.evaluation.stored_run import StoredRun
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.jobs.run.train import train

DATA = Path(__file__).resolve().parents[1] / "../shared/data/us143_daily_2005_2016.parquet"
ENDS = ("2013-01-01", "2015-01-01")  # of the training and of the validation set
BASELINES = ("cash", "hold", "equal_weight", "inverse_volatility", "momentum")
SHOWN = 8  # agents at either end of the table
FLEET = [
    *("task=fleet", "data=parquet", "name=us143"),
    *("features.names=[return_1,return_5,volatility_20,rsi_14]", "features.leadlag.lookback=120"),
    *("task.window_bars=10", "train.envs=16", "train.checkpoint_every=0"),
    *("track.mlflow=off", "track.tensorboard=off"),
]


def shares() -> tuple[float, float]:
    """Of the bars for training and validation, so that the parts end where they should."""
    index = load("parquet", path=str(DATA)).index
    first, second = (int(index.searchsorted(pd.Timestamp(end, tz="UTC"))) for end in ENDS)
    return first / len(index), (second - first) / len(index)


def train_run(steps: int, runs: str) -> StoredRun:
    first, second = shares()
    options = [f"data.path={DATA}", f"runs={runs}", f"train.steps={steps}", f"train.validate_every={steps // 4}"]
    config = resolve([*FLEET, *options, f"train.shares=[{first},{second}]"])
    return StoredRun(train(config).run.folder)


def figures(name: str, returns: Any, bars_per_year: float) -> list[Any]:
    found = interval(returns, partial(sharpe, bars_per_year=bars_per_year))
    growth, fall = annual_return(returns, bars_per_year), max_drawdown(returns)
    return [name, str(found), f"{float(growth):+.1%}", f"{float(fall):.1%}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=4_096, help="environment steps of each agent")
    steps = parser.parse_known_args()[0].steps
    with tempfile.TemporaryDirectory(prefix="us143-") as runs:
        run = train_run(steps, runs)
        agents = read_agents(run.folder)
        alone, per_year = unseen_returns(run), run.panel.bars_per_year
        options: dict[str, Any] = {"first": run.first, "bank": run.bank(run.panel), "market": run.task.market}
        options["window_bars"] = run.task.window_bars
        results = {"fleet, one account": backtest(run.policy, run.panel, **options)}
        results |= evaluate_baselines(run.panel, names=BASELINES, **options)
    rows = [figures(name, result.returns, per_year) for name, result in results.items()]
    together = Ensemble(alone, per_year)
    rows.insert(1, figures("agents alone, equal parts", together.combine().to_numpy(), per_year))
    proof = evidence_section(evidence(alone, per_year), f"{alone.index[0]:%Y-%m-%d} to {alone.index[-1]:%Y-%m-%d}")
    body = f"Survivors of 2021. {len(agents)} agents, {steps:,} steps each. Validation: {fleet_sentence(agents)}.\n\n"
    body += table(["policy, 2015–2016", "Sharpe ratio (95 %)", "a year", "drawdown"], rows)
    body += f"\n\n{proof.text}\n\n" + table(proof.header, [*proof.rows[:SHOWN], *proof.rows[-SHOWN:]])
    body += f"\n\nThe best {SHOWN} and the last {SHOWN}. {ensemble_section(together).text}"
    publish("fleet_us143", body, "A fleet on 143 US stocks, 2005–2016")


if __name__ == "__main__":
    main()
