"""Gradient reversal between two domains: can the domain still be told, and what is it worth in both?

    python benchmarks/domain.py [--pairs real exchange hourly] [--folder runs/domain] [--record]
    python benchmarks/domain.py --play --pairs real --seeds 201 --variants without "reversal 1.0"     (cells alone)

One fleet on one encoder trades the symbols of both domains, bar by bar side by side; benchmarks/domain_pairs.py says
which. It learns by PPO with the settings of the league, with and without `agent.extras.domain`, at several strengths.
The network sees lead–lag features alone, in deviations of their own last values. `standard` shows it the bars' returns
too, in each symbol's own deviations; `scaled` lead–lag features as they are, and what the fleet holds; `returns` has no
feature in own deviations. The probe is a fresh classifier of the domain, a logistic regression or a network, on the
encoder's features at the states that the fleet visits in the test set: fitted to the first half of its bars and judged
on the second. `alternating` is a network that is fitted to every other block of 50 bars and judged on those between,
since a difference that turns round from one half to the other is a difference; `alternating, inputs` is the same on
what the encoder reads. What was measured is kept in the folder. Features and strength were chosen on the tuning seeds;
the reporting seeds were played when both were fixed.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from domain_pairs import PAIRS, SHARED, Pair, write_pair
from record import publish, table
from rich.console import Console
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pacesetter.agents.agent import ACTION_MASK
from pacesetter.build.fleet import best_fleet, build_market
from pacesetter.envs.batch.account_entries import ACCOUNT_ENTRIES
from pacesetter.evaluation.backtest.backtest import Backtest, backtest
from pacesetter.evaluation.baselines.catalogue import make_baseline
from pacesetter.evaluation.stored_run import StoredRun
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.jobs.launch.comparison import mean_and_half_width
from pacesetter.jobs.run.train import train
from pacesetter.lab.league.cell import QUIET
from pacesetter.lab.league.ladder import ENTRANTS
from pacesetter.learning.experience.recording import fleet_teacher
from pacesetter.market.ledger import Column, Fill

MARKET = (
    *("features.leadlag.lookback=250", "features.leadlag.expected_lookback=1800", "task.window_bars=2"),
    *("task.episode_bars=100", "train.shares=[0.6,0.2]", "task.market.orders.smoothing_bars=1", "train.threads=1"),
    *("task.reward.components={pnl:300.0}", "task.reward.clip=null", "task.market.costs.commission_bps=1.0"),
    *("task.market.costs.spread_bps=0", "task.market.costs.slippage_bps=0"),
)
SCALED = ("features.names=[scaled_return_60]", "features.leadlag.is_scaled=true")
RETURNS = ("features.names=[return_1]",)
# By their own last values, and without what it holds: a target that rises is held long, which tells the domain.
STANDARD = (*SCALED, "features.leadlag.standardise_bars=250", "task.account=[is_trading]")
# Nor the bars' own returns: how closely they go together with what is expected differs between markets. This names
# all that is not seen, those of the account too, since it stands in place of what the task hides.
HIDDEN = ("window.0", *(place for name, place in ACCOUNT_ENTRIES.items() if name != "is_trading"))
SIGNALS = (*STANDARD, f"agent.network_options={{unseen:[{','.join(HIDDEN)}]}}")
REVERSAL = "agent.extras.domain={{target:[{names}],ramp_steps:3000,strength:{strength}}}"
WITHOUT, WITH = "without", "reversal 1.0"
STRENGTHS = (0.1, 0.3, 1.0)
# name -> features, and the largest λ; 0 is without the extra
VARIANTS = {
    WITHOUT: (SIGNALS, 0.0),
    **{f"reversal {strength}": (SIGNALS, strength) for strength in STRENGTHS},
    f"{WITHOUT}, standard": (STANDARD, 0.0),
    **{f"reversal {strength}, standard": (STANDARD, strength) for strength in STRENGTHS},
    f"{WITHOUT}, scaled": (SCALED, 0.0),
    f"{WITH}, scaled": (SCALED, 1.0),
    f"{WITHOUT}, returns": (RETURNS, 0.0),
    f"{WITH}, returns": (RETURNS, 1.0),
}
TUNING, REPORTING = (1, 2, 3), (201, 202, 203)
YARDSTICKS = ("ridge", "lasso", "hold")
SCORES = ("source", "target")
PROBES = ("linear probe", "network probe", "alternating", "alternating, inputs")
EVERY = 2  # bars between two that the probe sees
BLOCK = 25  # of them, where a probe is fitted to every other block
Figures = dict[str, float]


def measured(folder: Path, pair: Pair, variant: str, seed: int, steps: int) -> Figures:
    """Sharpe ratios of both domains on the test set, and the accuracies of the probes; kept in the folder."""
    known = _cell(folder, pair, variant, seed, steps)
    if not known.is_file():
        path = folder / f"{pair.key}-{seed}.csv"
        target = write_pair(pair, path, seed)
        features, strength = VARIANTS[variant]
        own = [f"data={path}", *MARKET, *features, *ENTRANTS["ppo_fleet"], *QUIET, f"seed={seed}"]
        # Judged at its end alone: the best of several validations is an early one, before the encoder has adapted.
        own += [f"runs={folder / 'runs'}", f"train.steps={steps}", f"train.validate_every={steps}"]
        own += [REVERSAL.format(names=",".join(target), strength=strength)] if strength else []
        run = StoredRun(train(resolve(own), console=Console(quiet=True)).run.folder)
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
    """Balanced accuracy of fresh classifiers of the domain on bars that they were not fitted to."""
    features, inputs, symbols = visited(run)
    is_target, bars = np.isin(symbols, target), np.arange(len(features))
    linear = LogisticRegression(max_iter=1_000, class_weight="balanced")
    network = MLPClassifier((64,), early_stopping=True, random_state=0, max_iter=40)
    behind, between = bars >= len(bars) // 2, bars // BLOCK % 2 == 1
    asked = [(linear, features, behind), (network, features, behind), (network, features, between)]
    asked.append((network, inputs, between))
    return {name: _accuracy(*one, is_target) for name, one in zip(PROBES, asked, strict=True)}


def _accuracy(model: Any, rows: Any, is_judged: Any, is_target: Any) -> float:
    """Of (bar, symbol, width) rows: judged on these bars, fitted to the others."""
    labels = np.broadcast_to(is_target, rows.shape[:2])
    (fitted, wanted), (judged, answers) = (
        (rows[part].reshape(-1, rows.shape[-1]), labels[part].ravel()) for part in (~is_judged, is_judged)
    )
    # A network of scikit-learn has no weights of classes.
    chosen = _balanced(wanted) if isinstance(model, MLPClassifier) else np.arange(len(wanted))
    pipe = make_pipeline(StandardScaler(), clone(model)).fit(fitted[chosen], wanted[chosen])
    return float(balanced_accuracy_score(answers, pipe.predict(judged)))


def _balanced(labels: Any) -> Any:
    """Rows with as many of both domains, drawn without replacement."""
    generator, groups = np.random.default_rng(0), [np.flatnonzero(labels == value) for value in (False, True)]
    return np.concatenate([generator.permutation(group)[: min(map(len, groups))] for group in groups])


@torch.no_grad()
def visited(run: StoredRun) -> tuple[Any, Any, tuple[str, ...]]:
    """(bar, symbol, ·) features of the encoder, and what it reads, while the fleet plays the test set; its symbols."""
    fleet, options = best_fleet(run.folder), {"table": run.table, "supervised": None}
    market = build_market(run.config, run.panel, 1, **options, starts="fixed", first_bar=run.first)
    teach, observation, encoded, read = fleet_teacher(fleet, market), market.reset(), [], []
    is_over = torch.zeros(market.env_count, dtype=torch.bool)
    while not bool(is_over.all()):
        entries = market.tables({name: entry for name, entry in observation.items() if name != ACTION_MASK})
        encoded.append(fleet.encoder(entries).float().numpy())
        read.append(torch.cat([one.flatten(1) for one in fleet.encoder.normaliser(entries).values()], 1).numpy())
        step = market.step(teach(observation).mode())
        is_over |= step.terminated | step.truncated
        observation = step.observation
    return np.stack(encoded[::EVERY]), np.stack(read[::EVERY]), market.symbols


# ---- the page -------------------------------------------------------------------------------------------------------


def pair_table(folder: Path, pair: Pair, seeds: Sequence[int], steps: int) -> str:
    """Means over seeds of a pair by variant, differences to the same features without reversal, and the yardsticks."""
    variants = _played(folder, pair, seeds, steps)
    found = {name: [measured(folder, pair, name, seed, steps) for seed in seeds] for name in variants}
    rows = []
    for name, own in found.items():
        without = found.get(", ".join([WITHOUT, *name.split(", ")[1:]]))
        gaps = ["", ""] if without is None or without is own else [_gap(key, own, without) for key in SCORES]
        means = [f"{np.mean([one[key] for one in own]):+.2f}" for key in SCORES]
        seen = [f"{np.mean([one[key] for one in own]):.1%}" if key in own[0] else "" for key in PROBES]
        rows.append([name, means[0], gaps[0], means[1], gaps[1], *seen])
    stored = [json.loads((folder / f"{pair.key}-yardsticks-{seed}.json").read_text()) for seed in seeds]
    for name in YARDSTICKS:
        source, target = (f"{np.mean([one[name][key] for one in stored]):+.2f}" for key in SCORES)
        rows.append([name, source, "", target, "", *("" for _ in PROBES)])
    title = f"{pair.source} → {pair.target}, seeds {', '.join(map(str, seeds))}"
    return table([title, "source", "− without", "target", "− without", *PROBES], rows)


def _played(folder: Path, pair: Pair, seeds: Sequence[int], steps: int) -> list[str]:
    """Variants of which every seed is in the folder; those that the page compares are played where they are not."""
    known = [name for name in VARIANTS if all(_cell(folder, pair, name, seed, steps).is_file() for seed in seeds)]
    return [name for name in VARIANTS if name in (WITHOUT, WITH, *known)]


def _cell(folder: Path, pair: Pair, variant: str, seed: int, steps: int) -> Path:
    return folder / f"{pair.key}-{variant.replace(' ', '-')}-{seed}-{steps}.json"


def _gap(key: str, reversed_: list[Figures], without: list[Figures]) -> str:
    """Mean and half of the 95 % Student interval of a figure's difference, paired by seed."""
    mean, half = mean_and_half_width([one[key] - other[key] for one, other in zip(reversed_, without, strict=True)])
    return f"{mean:+.2f} ± {half:.2f}"


def page(folder: Path, pairs: Sequence[str], steps: int, place: str) -> str:
    """Tables of all pairs, of the tuning seeds and of the reporting seeds."""
    parts = [ABOUT.format(steps=steps, place=place)]
    for heading, seeds in (("Tuning seeds", TUNING), ("Reporting seeds", REPORTING)):
        parts.append(f"## {heading}")
        parts += [pair_table(folder, PAIRS[name], seeds, steps) for name in pairs]
    return "\n\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", nargs="+", default=list(PAIRS))
    parser.add_argument("--variants", nargs="+", default=[WITHOUT, WITH], help="of the cells that are played")
    parser.add_argument("--seeds", type=int, nargs="+", default=list(TUNING), help="of the cells that are played")
    parser.add_argument("--play", action="store_true", help="play cells, without the page")
    parser.add_argument("--folder", type=Path, default=Path("runs/domain"))
    parser.add_argument("--played-on", default="Trained and played on this machine", help="said on the page")
    parser.add_argument("--steps", type=int, default=24_576)
    options = parser.parse_known_args()[0]
    folder, missing = options.folder.resolve(), "exchange" in options.pairs and not SHARED.is_file()
    pairs = [name for name in options.pairs if not (missing and name == "exchange")]
    if missing:
        print(f"XNYS → XTKS is not played: {SHARED.name} is not in shared/data beside the checkout.")
    if options.play:
        for pair, variant, seed in product(pairs, options.variants, options.seeds):
            measured(folder, PAIRS[pair], variant, seed, options.steps)
    else:
        body = page(folder, pairs, options.steps, options.played_on)
        publish("domain", body, "Gradient reversal between two domains")


ABOUT = (
    "{steps:,} steps of each agent, 1 bp a side. Annualised Sharpe ratio on the test set, the last fifth of the bars, "
    "of what the positions in each domain earned after costs, an hour counted as a day. Of real bars there is one "
    "path, so seeds are of the weights. `reversal 1.0` is `agent.extras.domain` at that `strength`. The network sees "
    "lead–lag features in deviations of their own last 250 values; in rows called `standard` the bars' returns too, in "
    "`scaled` lead–lag features that are not standardised, returns and what the fleet holds, in `returns` the same "
    "without a feature in own deviations. Rows are those that were played on all three seeds. `− without` is the "
    "difference to the same features without reversal, ± half the 95 % Student interval over seeds. Probes: balanced "
    "accuracy, chance is 50 %. The first two are fitted to the first half of the test set and judged on the "
    "second; below chance the difference has turned round in between. `alternating` is a network that is fitted to "
    "every other block of 50 bars and judged on those between, `alternating, inputs` the same on what the encoder "
    "reads. {place}."
)

if __name__ == "__main__":
    main()
