"""Direct against a lasso and an oracle that know nothing of the product: regression, thresholds and account from here.

python benchmarks/direct_check.py [--seeds 711 715] [--strengths 0.4 0.2] [--record]

The market and the direct policy are the product's, and so is direct's result. Oracle and lasso hold 15 % of a symbol or
nothing, long only, 2.5 bps a side, filled at the next open; their thresholds are chosen on the 600 bars for that.
"""

from __future__ import annotations

import argparse
import tempfile
from typing import Any

import numpy as np
from numpy.typing import NDArray
from record import publish, table
from rich.console import Console
from sklearn.linear_model import LassoCV

from pacesetter.build import build_panel
from pacesetter.evaluation.stored_run import StoredRun
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.jobs.run.train import train
from pacesetter.lab.league.ladder import ENTRANTS, MARKETS

Array = NDArray[Any]
LEARN, CHOOSE, COST, CAP, LAGS = 1_800, 2_400, 2.5e-4, 0.15, 5  # ends of the first two sets; cost of a side
GRID = [(high, low) for high in (0, 1, 2, 4, 6, 9) for low in (-6, -3, -1, 0, 1, 2) if low <= high]  # in costs
QUIET = ("track.mlflow=off", "track.tensorboard=off", "track.progress=false")


def ratio(returns: Array) -> float:
    return float(np.sqrt(252) * returns.mean() / returns.std())


def account(wish: Array, opened: Array, closed: Array, first: int, last: int) -> float:
    """Sharpe ratio of an account that wants shares (bar, symbol) of equity; NaN leaves a position as it is."""
    cash, held, equity = 1.0, np.zeros(closed.shape[1]), [1.0]
    for t in range(first, last):
        value = cash + held @ closed[t]
        trade = np.where(np.isnan(wish[t]), 0.0, wish[t] * value / closed[t] - held)
        sold, bought = np.minimum(trade, 0), np.maximum(trade, 0)
        cash -= (sold * opened[t + 1]).sum() * (1 - COST)
        needed = (bought * opened[t + 1]).sum() * (1 + COST)
        share = min(1.0, cash / needed) if needed > 0 else 1.0
        cash, held = cash - needed * share, held + sold + bought * share
        equity.append(cash + held @ closed[t + 1])
    return ratio(np.diff(equity) / np.array(equity[:-1]))


def wishes(forecast: Array, high: float, low: float) -> Array:
    """The cap from above `high` until below `low`; NaN where nothing changes."""
    wish, holds = np.zeros_like(forecast), np.zeros(forecast.shape[1], bool)
    for t, now in enumerate(forecast):
        holds = (now > high * COST) | (holds & (now >= low * COST))
        wish[t] = np.where(holds, CAP, 0.0)
    wish[1:][wish[1:] == wish[:-1]] = np.nan
    return wish


def tested(forecast: Array, opened: Array, closed: Array) -> float:
    """Sharpe ratio on the test set by the thresholds that are best on the bars to choose by."""
    chosen = max(GRID, key=lambda pair: account(wishes(forecast, *pair), opened, closed, LEARN, CHOOSE))
    return account(wishes(forecast, *chosen), opened, closed, CHOOSE, len(closed) - 1)


def lasso(opened: Array, closed: Array) -> Array:
    """(bar, symbol) forecasts of the return from the next open on, by the last moves of all symbols."""
    moves = np.diff(np.log(closed), axis=0, prepend=np.nan)
    x = np.concatenate([np.roll(moves, lag, axis=0) for lag in range(LAGS)], axis=1)
    y = np.zeros_like(closed)
    y[:-2] = opened[2:] / opened[1:-1] - 1
    x = np.nan_to_num((x - x[LAGS:LEARN].mean(0)) / x[LAGS:LEARN].std(0))
    spread = y[LAGS:LEARN].std(0)
    models = [LassoCV(cv=5, alphas=20).fit(x[LAGS:LEARN], each) for each in (y[LAGS:LEARN] / spread).T]
    return np.stack([model.predict(x) for model in models], axis=1) * spread


def played(strength: float, seed: int) -> tuple[float, float, float]:
    """Sharpe ratios of oracle, direct and lasso."""
    with tempfile.TemporaryDirectory() as runs:
        market = MARKETS[f"planted {strength}"]
        config = resolve([*market, *ENTRANTS["direct"], f"seed={seed}", f"runs={runs}", *QUIET])
        returns = StoredRun(train(config, console=Console(quiet=True)).run.folder).play().returns
    panel = build_panel(config)
    truth: Any = panel.truth
    response = np.zeros_like(panel.close)
    response[:-1] = truth.response[1:]  # what the next bar brings, known to the oracle alone
    prices = panel.open, panel.close
    return tested(response, *prices), ratio(returns), tested(lasso(*prices), *prices)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, nargs=2, default=[711, 715])
    parser.add_argument("--strengths", type=float, nargs="+", default=[0.4, 0.2])
    asked = parser.parse_known_args()[0]
    rows = []
    for strength in asked.strengths:
        found = np.array([played(strength, seed) for seed in range(asked.seeds[0], asked.seeds[1] + 1)])
        best, direct, plain = found.mean(0)
        gaps = found[:, 1] - found[:, 2]
        shares = [f"{value:.2f} ({value / best:.0%})" for value in (direct, plain)]
        rows.append([strength, f"{best:.2f}", *shares, f"{gaps.mean():+.2f}, smallest {gaps.min():+.2f}"])
        print(rows[-1], flush=True)
    header = ["strength", "oracle", "direct", "lasso", "direct less lasso"]
    about = f"Seeds {asked.seeds[0]} to {asked.seeds[1]}, on which nothing was tuned; see the head of the script."
    publish("direct_check", f"{about}\n\n{table(header, rows)}", "Direct against yardsticks from outside")


if __name__ == "__main__":
    main()
