"""Direct beside regressions sized alike on the size deciles, in pairs, by days and by months.

python benchmarks/deciles.py [--bps 1] [--steps 61440] [--record]

Learned on 1963–1980, chosen on 1981–1985, tested on 1986–1995; cash is the base, the whole account may be in one
portfolio, orders fill at the next close. Once without a stated risk, and once at a volatility of 10 % a year.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from record import publish, table

from pacesetter.build.stored import SCALE
from pacesetter.evaluation.backtest.backtest import Backtest
from pacesetter.evaluation.baselines.catalogue import evaluate_baselines
from pacesetter.evaluation.statistics.intervals import paired_difference
from pacesetter.evaluation.statistics.metrics import metrics, sharpe
from pacesetter.evaluation.stored_run import StoredRun
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.jobs.pipeline.memory import peak_mb
from pacesetter.jobs.pipeline.stages import train_quietly
from pacesetter.lab.demo.market import demo_market
from pacesetter.runs import write_atomic

BESIDE = ("lasso_sized", "ridge_sized", "hold")
ACCOUNTS = {"no risk stated": (), "10 % volatility asked": ("risk.target_volatility=0.1", "risk.base=cash")}
MONTH, DRAWS = 21, 4_000
COMMON = (
    *("task=fleet", "agent=direct", "features.names=[return_1]", "features.leadlag.lookback=null"),
    *("market.position_cap=1", "market.orders.minimum_trade=0"),
    *("track.mlflow=off", "track.tensorboard=off", "track.progress=false"),
)


def play(more: tuple[str, ...], bps: float, steps: int) -> dict[str, Backtest]:
    """Direct and the regressions on the test years, with the same rules and risk."""
    market = demo_market()
    learned, chosen = market.shares
    with tempfile.TemporaryDirectory() as runs:
        own = (
            *(f"costs={bps}", f"train.shares=[{learned:.9f},{chosen:.9f}]", f"runs={runs}"),
            *(f"train.steps={steps}", f"train.validate_every={max(steps // 2, 1)}", f"train.log_every={steps}"),
        )
        run = StoredRun(train_quietly(resolve([*COMMON, *more, *market.overrides, *own])))
        if run.risk.is_on:
            # On the years that chose the policy, as in the demo.
            start = int(run.panel.index.searchsorted(market.learn_until, "right"))
            write_atomic(run.folder / SCALE, json.dumps({"scale": run.measure_scale(start)}) + "\n")
            run = StoredRun(run.folder)
        options: dict[str, Any] = {"market": run.task.market, "bank": run.bank(run.panel)}
        options |= {"window_bars": run.task.window_bars}
        regressions = evaluate_baselines(
            run.panel, run.first, BESIDE[:-1], **options, risk=replace(run.risk, scale=None) if run.risk.is_on else None
        )
        hold = evaluate_baselines(run.panel, run.first, BESIDE[-1:], **options)
        return {"direct": run.play(), **regressions, **hold}


def months(returns: Any) -> Any:
    """(month,) sums of 21 bars each; what is left at the end is dropped."""
    whole = len(returns) // MONTH * MONTH
    return np.asarray(returns[:whole]).reshape(-1, MONTH).sum(1)


def rows(account: str, played: dict[str, Backtest]) -> list[list[str]]:
    """One a policy, with the Sharpe difference of direct to it."""
    made, own = [], played["direct"]
    by_day = partial(sharpe, bars_per_year=own.bars_per_year)
    by_month = partial(sharpe, bars_per_year=own.bars_per_year / MONTH)
    for name, result in played.items():
        figures, sums = metrics(result), months(result.returns)
        row = [account, name, f"{by_day(result.returns):.2f}", f"{by_month(sums):.2f}"]
        row += [f"{figures['annual_return']:+.1%}", f"{figures['max_drawdown']:.1%}", f"{figures['exposure']:.0%}"]
        if name == "direct":
            row += ["", ""]
        else:
            row.append(str(paired_difference(own.returns, result.returns, by_day, draws=DRAWS)))
            row.append(str(paired_difference(months(own.returns), sums, by_month, draws=DRAWS)))
        made.append(row)
    return made


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--bps", type=float, default=1.0)
    parser.add_argument("--steps", type=int, default=61_440)
    parser.add_argument("--note", default="")
    asked = parser.parse_known_args()[0]
    begin, made = time.process_time(), []
    for account, more in ACCOUNTS.items():
        made += rows(account, play(more, asked.bps, asked.steps))
    header = ["account", "policy", "Sharpe by days", "by 21 days", "annual return", "drawdown", "invested"]
    header += ["direct less it, by days", "by 21 days"]
    about = (
        f"Size deciles, test 1986–1995, {asked.bps:g} bps a side. Sharpe differences with 95 % intervals of the paired "
        f"stationary bootstrap, {DRAWS:,} draws. {time.process_time() - begin:.0f} s of one processor and "
        f"{peak_mb() / 1000:.1f} GB for all of it. {asked.note}"
    )
    publish("deciles", f"{about}\n\n{table(header, made)}", "Direct beside sized regressions on the size deciles")


if __name__ == "__main__":
    main()
