"""Gradient reversal between two domains: can the domain still be told, and what is it worth in both?

    python benchmarks/domain.py [--pairs real exchange hourly] [--returns hourly] [--seeds 1 2 3] [--folder runs/domain]
                                [--steps 24576] [--record]

One fleet on one encoder trades the symbols of both domains, bar by bar side by side; benchmarks/domain_pairs.py says
which. It learns by PPO with the settings of the league, with and without `agent.extras.domain`. Features are in each
symbol's own deviations; `returns` has them as returns. The probe is a fresh classifier of the domain, a logistic
regression or a network, on the encoder's features at the states that the fleet visits in the test set: fitted to the
first half of its bars and judged on the second. What was measured is kept in the folder.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from domain_pairs import PAIRS, SHARED, Pair, write_pair
from record import publish, table
from rich.console import Console
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pacesetter.agents.agent import ACTION_MASK
from pacesetter.build.fleet import best_fleet, build_market
from pacesetter.evaluation.backtest.backtest import Backtest, backtest
from pacesetter.evaluation.baselines.catalogue import make_baseline
from pacesetter.evaluation.stored_run import StoredRun
from pacesetter.learning.experience.recording import fleet_teacher
from pacesetter.market.ledger import Column, Fill
from pacesetter.training.hydra.compose import compose
from pacesetter.training.launch.comparison import mean_and_half_width
from pacesetter.training.league.cell import QUIET
from pacesetter.training.league.ladder import ENTRANTS
from pacesetter.training.run.train import train

MARKET = (
    *("features.leadlag.lookback=250", "features.leadlag.expected_lookback=1800", "task.window_bars=2"),
    *("task.episode_bars=100", "train.shares=[0.6,0.2]", "task.market.orders.smoothing_bars=1", "train.threads=1"),
    *("task.reward.components={pnl:300.0}", "task.reward.clip=null", "task.market.costs.commission_bps=1.0"),
    *("task.market.costs.spread_bps=0", "task.market.costs.slippage_bps=0"),
)
SCALED = ("features.names=[scaled_return_60]", "features.leadlag.is_scaled=true")
RETURNS = ("features.names=[return_1]",)
REVERSAL = "agent.extras.domain={{target:[{names}],ramp_steps:3000}}"
WITHOUT, WITH = "without", "gradient reversal"
# name -> features, and what is added to PPO
VARIANTS = {
    WITHOUT: (SCALED, ""),
    WITH: (SCALED, REVERSAL),
    f"{WITHOUT}, returns": (RETURNS, ""),
    f"{WITH}, returns": (RETURNS, REVERSAL),
}
YARDSTICKS = ("ridge", "lasso", "hold")
FIGURES = ("source", "target", "linear probe", "network probe")
EVERY = 2  # bars between two that the probe sees
Figures = dict[str, float]


def measured(folder: Path, pair: Pair, variant: str, seed: int, steps: int) -> Figures:
    """Sharpe ratios of both domains on the test set, and the accuracies of the probes; kept in the folder."""
    known = folder / f"{pair.key}-{variant.replace(' ', '-')}-{seed}-{steps}.json"
    if not known.is_file():
        path = folder / f"{pair.key}-{seed}.csv"
        target = write_pair(pair, path, seed)
        features, extra = VARIANTS[variant]
        own = [f"data={path}", *MARKET, *features, *ENTRANTS["ppo_fleet"], *QUIET, f"seed={seed}"]
        # Judged at its end alone: the best of several validations is an early one, before the encoder has adapted.
        own += [f"runs={folder / 'runs'}", f"train.steps={steps}", f"train.validate_every={steps}"]
        own += [extra.format(names=",".join(target))] if extra else []
        run = StoredRun(train(compose(own), console=Console(quiet=True)).run.folder)
        figures = sharpes(run.play(), target) | probes(run, target)
        if variant == WITHOUT:
            _yardsticks(folder, pair, run, target, seed)
        known.write_text(json.dumps(figures))
        print(pair.key, variant, seed, figures, flush=True)
    return dict(json.loads(known.read_text()))


def _yardsticks(folder: Path, pair: Pair, run: StoredRun, target: tuple[str, ...], seed: int) -> None:
    """Store what ridge, lasso and hold earn on the same bars and costs."""
    bank, rules, found = run.bank(run.panel), run.task.market, {}
    for name in YARDSTICKS:
        policy = make_baseline(name, bank, rules)
        played = backtest(policy, run.panel, first=run.first, market=rules, bank=bank, window_bars=run.task.window_bars)
        found[name] = sharpes(played, target)
    (folder / f"{pair.key}-yardsticks-{seed}.json").write_text(json.dumps(found))


def sharpes(played: Backtest, target: tuple[str, ...]) -> Figures:
    is_target = np.isin(played.symbols, target)
    return {"source": sharpe_of(played, ~is_target), "target": sharpe_of(played, is_target)}


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


# ---- the probe ------------------------------------------------------------------------------------------------------


def probes(run: StoredRun, target: tuple[str, ...]) -> Figures:
    """Balanced accuracy of fresh classifiers of the domain on bars behind those that they were fitted to."""
    features, symbols = visited(run)
    labels = np.broadcast_to(np.isin(symbols, target), features.shape[:2])
    half = len(features) // 2
    (fitted, wanted), (judged, answers) = (
        (features[part].reshape(-1, features.shape[-1]), labels[part].ravel()) for part in (np.s_[:half], np.s_[half:])
    )
    linear = LogisticRegression(max_iter=1_000, class_weight="balanced")
    network = MLPClassifier((64,), early_stopping=True, random_state=0, max_iter=40)
    rows = {"linear probe": np.arange(len(wanted)), "network probe": _balanced(wanted)}  # the network has no weights
    found = {}
    for name, model in (("linear probe", linear), ("network probe", network)):
        pipe = make_pipeline(StandardScaler(), model).fit(fitted[rows[name]], wanted[rows[name]])
        found[name] = float(balanced_accuracy_score(answers, pipe.predict(judged)))
    return found


def _balanced(labels: Any) -> Any:
    """Rows with as many of both domains, drawn without replacement."""
    generator, groups = np.random.default_rng(0), [np.flatnonzero(labels == value) for value in (False, True)]
    return np.concatenate([generator.permutation(group)[: min(map(len, groups))] for group in groups])


@torch.no_grad()
def visited(run: StoredRun) -> tuple[Any, tuple[str, ...]]:
    """(bar, symbol, width) features of the encoder while the fleet plays the test set, and its symbols."""
    fleet, options = best_fleet(run.folder), {"table": run.table, "supervised": None}
    market = build_market(run.config, run.panel, 1, **options, starts="fixed", first_bar=run.first)
    teach, observation, encoded = fleet_teacher(fleet, market), market.reset(), []
    is_over = torch.zeros(market.env_count, dtype=torch.bool)
    while not bool(is_over.all()):
        entries = {name: entry for name, entry in observation.items() if name != ACTION_MASK}
        encoded.append(fleet.encoder(market.tables(entries)).float().numpy())
        step = market.step(teach(observation).mode())
        is_over |= step.terminated | step.truncated
        observation = step.observation
    return np.stack(encoded[::EVERY]), market.symbols


# ---- the page -------------------------------------------------------------------------------------------------------


def pair_table(folder: Path, pair: Pair, seeds: list[int], variants: list[str], steps: int) -> str:
    """Means over seeds of a pair, the paired difference of reversal, and the yardsticks."""
    found = {name: [measured(folder, pair, name, seed, steps) for seed in seeds] for name in variants}
    rows = [
        [name, *(_shown(key, np.mean([one[key] for one in own])) for key in FIGURES)] for name, own in found.items()
    ]
    for first in (name for name in variants if name.startswith(WITHOUT)):
        second = first.replace(WITHOUT, WITH)
        if second in found:
            rows.append([f"difference{first.removeprefix(WITHOUT)}", *_gaps(found[first], found[second])])
    stored = [json.loads((folder / f"{pair.key}-yardsticks-{seed}.json").read_text()) for seed in seeds]
    for name in YARDSTICKS:
        means = [np.mean([one[name][key] for one in stored]) for key in FIGURES[:2]]
        rows.append([name, *(f"{mean:+.2f}" for mean in means), "", ""])
    return table([f"{pair.source} → {pair.target}", *FIGURES], rows)


def _shown(key: str, value: Any) -> str:
    return f"{value:.1%}" if key.endswith("probe") else f"{value:+.2f}"


def _gaps(without: list[Figures], reversed_: list[Figures]) -> list[str]:
    """Mean and half of the 95 % Student interval of each figure's difference, paired by seed."""
    cells = []
    for key in FIGURES:
        mean, half = mean_and_half_width([one[key] - other[key] for one, other in zip(reversed_, without, strict=True)])
        scale = 100 if key.endswith("probe") else 1
        cells.append(f"{scale * mean:+.2f} ± {scale * half:.2f}")
    return cells


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", nargs="+", default=list(PAIRS))
    parser.add_argument("--variants", nargs="+", default=[WITHOUT, WITH])
    parser.add_argument("--returns", nargs="*", default=["hourly"], help="pairs that features in returns are played on")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--folder", type=Path, default=Path("runs/domain"))
    parser.add_argument("--played-on", default="this machine", help="said on the page, where cells came from another")
    parser.add_argument("--steps", type=int, default=24_576)
    options = parser.parse_known_args()[0]
    folder, tables = options.folder.resolve(), []
    for name in options.pairs:
        if name == "exchange" and not SHARED.is_file():
            tables.append(f"XNYS → XTKS was not played: {SHARED.name} is not in shared/data beside the checkout.")
            continue
        variants = list(VARIANTS) if name in options.returns else options.variants
        tables.append(pair_table(folder, PAIRS[name], options.seeds, variants, options.steps))
    about = ABOUT.format(seeds=", ".join(map(str, options.seeds)), steps=options.steps, place=options.played_on)
    publish("domain", "\n\n".join([about, *tables]), "Gradient reversal between two domains")


ABOUT = (
    "Seeds {seeds}, {steps:,} steps of each agent, 1 bp a side. Annualised Sharpe ratio on the test set, the last "
    "fifth of the bars, of what the positions in each domain earned after costs, an hour counted as a day. Of real "
    "bars there is one path, so seeds are of the weights. Probes: balanced accuracy, chance is 50 %; their differences "
    "are in points. ± is half the 95 % Student interval over seeds. Trained and played on {place}."
)

if __name__ == "__main__":
    main()
