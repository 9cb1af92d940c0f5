"""`agent.network=cross`: what a fleet with it earns, and whom its attention finds, beside the estimators.

python benchmarks/cross.py [--seeds 1+2] [--folder runs/cross] [--record]
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from record import publish, table
from rich.console import Console
from scipy.stats import spearmanr

from pacesetter.build import build_learner, build_panel, build_parts
from pacesetter.evaluation.statistics.metrics import sharpe
from pacesetter.evaluation.stored_run import StoredRun
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.jobs.run.train import train
from pacesetter.lab.league.ladder import MARKETS
from pacesetter.lab.league.league import league
from pacesetter.leadlag import LeadLag
from pacesetter.leadlag.estimators.relations import read_relations
from pacesetter.leadlag.structure.ranking import row_mean
from pacesetter.learning.relations import attention_relations
from pacesetter.panel import Panel

QUIET = ("track.mlflow=off", "track.tensorboard=off", "track.progress=false")
FLEET = (
    *("task=fleet", "agent=ppo", "task.action=target", "task.retrain_share=0", "agent.heads=[32]", "agent.n_steps=32"),
    *("agent.learning_rate=5e-3", "agent.encoder_learning_rate=2e-3", "agent.batch_size=256", "agent.gamma=0.5"),
    *("agent.gae_lambda=0.5", "agent.clip_range=0.3", "agent.target_kl=null", "train.envs=16", "train.steps=12288"),
    *("train.validate_every=2048", "train.checkpoint_every=0"),
)
NETWORKS = {"mlp_tiny": "features of the lead–lag", "cross_small": "the same and attention to leaders"}
ESTIMATORS = (
    *("ccf_lag1", "ccf_auc", "ccf_peak", "levy_returns", "hayashi_yoshida", "mutual_information", "transfer_entropy"),
    *("levy_path", "signature"),
)
UNTRAINED = "attention before training"
MARKET = "planted 0.4"
DECILES = "deciles 1963-1995, 1 bp"


def trained(folder: str, network: str, market: str, seed: int, *more: str) -> Path:
    """The run of a fleet with this network on a market of the league; one that is there already is not made again."""
    place = Path(folder) / f"{network}-{market.replace(' ', '-').replace(',', '')}-{seed}"
    done = [path.parent for path in place.glob("*/fleet.csv")]
    if done:
        return done[0]
    overrides = [*MARKETS[market], *FLEET, f"agent.network={network}", f"seed={seed}", f"runs={place}", *QUIET, *more]
    return Path(train(resolve(overrides), console=Console(quiet=True)).run.folder)


def earned(folder: str, seeds: list[int]) -> str:
    """Sharpe ratios of fleets with and without cross, beside the league's yardsticks."""
    names = "+".join(map(str, seeds))
    beside = "league.entrants=[oracle,lasso,ridge,hold]"
    asked = [f"league.folder={folder}/league", f"league.markets=['{MARKET}']", f"league.seeds={names}", beside]
    found = league(asked, Console(quiet=True))
    rows = [[row["entrant"], f"{row['sharpe']:+.2f}", f"{row['share']:.0%}"] for row in found.to_dict("records")]
    oracle = float(found.set_index("entrant").loc["oracle", "sharpe"])
    for network, what in NETWORKS.items():
        ratios = [_sharpe(trained(folder, network, MARKET, seed)) for seed in seeds]
        each = ", ".join(f"{ratio:+.2f}" for ratio in ratios)
        mean = float(np.mean(ratios))
        rows.append([f"fleet PPO, {network} ({what}): {each}", f"{mean:+.2f}", f"{mean / oracle:.0%}"])
    header = ["entrant", "Sharpe ratio", "of oracle"]
    return f"## What it earns\n\nMarket `{MARKET}`, tuning seeds {names}, one account.\n\n{table(header, rows)}"


def _sharpe(run: Path) -> float:
    result = StoredRun(run).play()
    return float(sharpe(result.returns, result.bars_per_year))


def whom(folder: str, seeds: list[int]) -> str:
    """Planted relations among the strongest pairs of each matrix, and their delays."""
    hits: dict[str, list[float]] = {}
    delays: dict[str, list[float]] = {}
    for seed in seeds:
        run = trained(folder, "cross_small", MARKET, seed)
        panel = _seen(run)
        truth: Any = build_panel(StoredRun(run).config).truth
        pairs = _planted(truth)
        first = _untrained(run)
        matrices = {UNTRAINED: _scores(first)} | _matrices(panel, run)
        for name, scores in matrices.items():
            hits.setdefault(name, []).append(_among_strongest(scores, list(pairs)))
        learned = np.abs(read_relations(str(run))[1])
        by_lag = {UNTRAINED: np.abs(first), "learned": learned, "ccf_peak": _correlations(panel)}
        for name, weights in by_lag.items():
            right = [weights[:, i, j].argmax() + 1 == lag for (i, j), lag in pairs.items()]
            delays.setdefault(name, []).append(float(np.mean(right)))
    rows = [
        [name, f"{np.mean(values):.0%}", f"{np.mean(delays[name]):.0%}" if name in delays else ""]
        for name, values in hits.items()
    ]
    about = (
        f"Market `{MARKET}`, the same seeds and runs, all bars that the fleet saw as one window. The strongest pairs "
        "of a matrix are as many as are planted. `learned` is the attention of the run. Before training it already "
        "follows its biases, which are correlations of these bars at each delay."
    )
    header = ["matrix", "planted among the strongest pairs", "delay right"]
    return f"## Whom its attention finds\n\n{about}\n\n{table(header, rows)}"


def order(folder: str) -> str:
    """Rank correlation of leadership with size, on the bars that the fleet saw."""
    run = trained(folder, "cross_small", DECILES, 1, "features.leadlag.lookback=1000")
    panel = _seen(run)
    size = [int(symbol.removeprefix("size")) for symbol in panel.symbols]
    rows = [
        [name, f"{spearmanr(row_mean(scores[None])[0], size).statistic:+.2f}"]
        for name, scores in _matrices(panel, run).items()
    ]
    about = (
        f"Size deciles from 1963, the {len(panel):,} bars that the fleet saw as one window: rank correlation of the "
        "row mean with size, +1 where large companies lead."
    )
    return f"## The order of the deciles\n\n{about}\n\n{table(['matrix', 'rank correlation'], rows)}"


def _seen(run: Path) -> Panel:
    """The bars that the run learned from or was chosen by."""
    stored = StoredRun(run)
    return stored.panel.rows(0, stored.first)


def _matrices(panel: Panel, run: Path) -> dict[str, Any]:
    """Scores of the longest window by every estimator, and by the run's attention."""
    last = len(panel) - 1
    found = {name: LeadLag(name).fit(panel).scores(last, last) for name in ESTIMATORS}
    return {"learned": LeadLag("policy", run=str(run)).fit(panel).scores(last, last)} | found


def _untrained(run: Path) -> Any:
    """(lag, leader, follower) the attention of the same network before it learned: its biases alone."""
    config = StoredRun(run).config
    panel = build_panel(config)
    parts = build_parts(config, panel)
    learner: Any = build_learner(config, parts)
    return attention_relations(learner.fleet.encoder, parts.validation, panel.symbols)


def _scores(weights: Any) -> Any:
    """(leader, follower) as `learned` scores weights by lag."""
    total = np.abs(weights).sum(0)
    return total - total.T


def _correlations(panel: Panel) -> Any:
    return np.abs(LeadLag("ccf_peak", max_lag=5).fit(panel).correlations(len(panel) - 1, len(panel) - 1))


def _planted(truth: Any) -> dict[tuple[int, int], int]:
    """(leader, follower) -> delay."""
    relations = truth.relations_at(-1)
    followers = np.flatnonzero(relations.lags > 0)
    return {(int(i), int(j)): int(relations.lags[j]) for j in followers for i in relations.leaders[j]}


def _among_strongest(scores: Any, pairs: list[tuple[int, int]]) -> float:
    strongest = np.argsort(-np.nan_to_num(scores, nan=-np.inf), axis=None)[: len(pairs)]
    found = set(zip(*np.unravel_index(strongest, scores.shape), strict=True))
    return float(np.mean([pair in found for pair in pairs]))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", default="1+2")
    parser.add_argument("--folder", default="runs/cross")
    asked = parser.parse_known_args()[0]
    seeds = [int(seed) for seed in asked.seeds.split("+")]
    parts = [earned(asked.folder, seeds), whom(asked.folder, seeds), order(asked.folder)]
    publish("cross", "\n\n".join(parts), "Attention over symbols")


if __name__ == "__main__":
    main()
