"""Gradient reversal from a planted market to real portfolios: can the domain still be told, and what is it worth?

    python benchmarks/domain.py [--seeds 1 2 3] [--folder runs/domain] [--steps 49152] [--record]

One fleet of twenty agents on one encoder: ten symbols of a planted market (strength 0.4, the source) and the ten size
deciles from 1963 to 1995 (the target), day by day side by side. It learns by PPO with the settings of the league, with
and without `agent.extras.domain`. The probe is a fresh logistic regression of the domain on the encoder's features of
an empty account, fitted on one half of the test bars and judged on the other. What was measured is kept in the folder.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from record import publish, table
from rich.console import Console
from sklearn.linear_model import LogisticRegression

from pacesetter.build.environments import build_table
from pacesetter.build.fleet import best_fleet, build_market
from pacesetter.data import load
from pacesetter.data.synthetic import Synthetic
from pacesetter.evaluation.backtest.backtest import Backtest
from pacesetter.evaluation.stored_run import StoredRun
from pacesetter.learning.experience.gather import INDEX
from pacesetter.market.ledger import Column, Fill
from pacesetter.training.hydra.compose import compose
from pacesetter.training.launch.comparison import mean_and_half_width
from pacesetter.training.league.cell import QUIET
from pacesetter.training.league.ladder import ENTRANTS
from pacesetter.training.run.train import train

SOURCE, TARGET = "planted", "deciles"
MARKET = (
    *("features.names=[return_1]", "task.window_bars=2", "task.episode_bars=100", "train.shares=[0.6,0.2]"),
    *("task.reward.components={pnl:300.0}", "task.reward.clip=null", "task.market.orders.smoothing_bars=1"),
    *("task.market.costs.commission_bps=1.0", "task.market.costs.spread_bps=0", "task.market.costs.slippage_bps=0"),
)
VARIANTS = {"without": "", "gradient reversal": "agent.extras.domain={{target:[{names}],strength:1.0}}"}


def joined(folder: Path, seed: int) -> tuple[Path, tuple[str, ...]]:
    """A file with the bars of both domains, and the symbols of the target."""
    real = load("deciles", start="1963-01-01", end="1995-12-31")
    planted = Synthetic(symbols=10, bars=len(real), seed=seed, groups=2, unrelated_share=0.0, strength=0.4).read()
    parts = [pd.DataFrame(real.close, index=real.index, columns=list(real.symbols))]
    parts.append(pd.DataFrame(planted.close, index=real.index, columns=list(planted.symbols)))
    long = pd.concat(parts, axis=1).stack().rename("close").reset_index()
    long.columns = ["time", "symbol", "close"]
    path = folder / f"both-{seed}.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    long.to_csv(path, index=False)
    return path, real.symbols


def measured(folder: Path, variant: str, seed: int, steps: int) -> dict[str, float]:
    """Sharpe ratios of both domains on the test set, and the accuracy of the probe; kept in the folder."""
    known = folder / f"{variant.replace(' ', '-')}-{seed}-{steps}.json"
    if known.is_file():
        return dict(json.loads(known.read_text()))
    path, target = joined(folder, seed)
    own = [f"data={path}", *MARKET, *ENTRANTS["ppo_fleet"], *QUIET, f"seed={seed}", f"runs={folder / 'runs'}"]
    own += [f"train.steps={steps}", *([VARIANTS[variant].format(names=",".join(target))] if VARIANTS[variant] else [])]
    run = StoredRun(train(compose(own), console=Console(quiet=True)).run.folder)
    played = run.play()
    is_target = np.isin(played.symbols, target)
    figures = {SOURCE: sharpe_of(played, ~is_target), TARGET: sharpe_of(played, is_target)}
    figures["probe"] = probe(run, target)
    known.write_text(json.dumps(figures))
    print(variant, seed, figures, flush=True)
    return figures


def sharpe_of(played: Backtest, which: Any) -> float:
    """Annualised, of what the positions in these symbols earned after costs, as a share of all equity."""
    held = np.cumsum(played.fills[:, :, Fill.QUANTITY], axis=0)
    before = np.vstack([np.zeros(len(which)), held[:-1]])
    moves = np.diff(played.closes, axis=0, prepend=played.closes[:1])
    traded = played.fills[:, :, Fill.QUANTITY] * (played.closes - played.fills[:, :, Fill.PRICE])
    earned = np.nan_to_num(before * moves) + np.nan_to_num(traded) - played.fills[:, :, Fill.COMMISSION]
    # There are no exits by stops here, so that all positions together must have earned what the ledger says.
    np.testing.assert_allclose(earned.sum(axis=1), played.ledger[:, Column.EQUITY_CHANGE], atol=1e-6 * 1e5)
    returns = earned[:, which].sum(axis=1) / played.ledger[:, Column.EQUITY_BEFORE]
    spread = returns.std(ddof=1)
    return float(returns.mean() / spread * played.bars_per_year**0.5) if spread > 0 else 0.0


@torch.no_grad()
def probe(run: StoredRun, target: tuple[str, ...]) -> float:
    """Share of (symbol, bar) whose domain a fresh classifier tells from the encoder's features."""
    fleet, features = best_fleet(run.folder), {"table": build_table(run.config, run.panel), "supervised": None}
    market = build_market(run.config, run.panel, 1, **features, first_bar=run.first)
    bars = torch.arange(run.first, len(run.panel) - 2, 5)
    blocks = torch.arange(len(market.symbols))
    index = torch.stack([blocks.repeat_interleave(len(bars)), bars.repeat(len(blocks))], dim=1)
    empty = {name: torch.zeros(len(index), *shape) for name, shape in market.batch.builder.shapes.items()}
    encoded = fleet.encoder(market.tables(empty | {INDEX: index})).float().numpy()
    labels = np.isin(market.symbols, target).repeat(len(bars))
    is_fitted = (index[:, 1] < bars[len(bars) // 2]).numpy()
    model = LogisticRegression(max_iter=1_000).fit(encoded[is_fitted], labels[is_fitted])
    return float(model.score(encoded[~is_fitted], labels[~is_fitted]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--folder", type=Path, default=Path("runs/domain"))
    parser.add_argument("--steps", type=int, default=49_152)
    options = parser.parse_known_args()[0]
    folder = options.folder.resolve()
    found = {name: [measured(folder, name, seed, options.steps) for seed in options.seeds] for name in VARIANTS}
    rows = []
    for name, own in found.items():
        cells = [f"{np.mean([one[key] for one in own]):+.2f}" for key in (SOURCE, TARGET)]
        rows.append([name, *cells, f"{np.mean([one['probe'] for one in own]):.1%}"])
    gaps = []
    for key in (SOURCE, TARGET, "probe"):
        mean, half = mean_and_half_width(
            [one[key] - other[key] for one, other in zip(*reversed(found.values()), strict=True)]
        )
        gaps.append(f"{mean:+.2f} ± {half:.2f}")
    rows.append(["difference", *gaps])
    about = (
        f"Seeds {', '.join(map(str, options.seeds))}, {options.steps:,} steps of each agent. Annualised Sharpe ratio "
        "on the test set (the last fifth, to 1995) of what the positions in each domain earned after costs of 1 bp; "
        "the probe's chance is 50 %. ± is half the 95 % Student interval over seeds."
    )
    header = ["fleet", "source (planted 0.4)", "target (size deciles)", "probe of the domain"]
    publish("domain", f"{about}\n\n{table(header, rows)}", "Gradient reversal from a planted market to size deciles")


if __name__ == "__main__":
    main()
