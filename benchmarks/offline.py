"""Learning from stored episodes beside learning in the market: BC, CQL and IQL of a fleet beside online PPO.

    python benchmarks/offline.py [--play "planted 0.4=201+202" --play "planted 0.2=1"] [--folder runs/offline]
                                 [--entrants ppo,cql_log] [--name offline] [--record]

Cells are those of `pacesetter lab league`, kept by configuration and data. PPO learns in the market and keeps all its
training episodes (`train.log_episodes`). The offline agents have those, or as many rows of random orders, and no
market.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from fleet_methods import YARDSTICKS
from record import publish, table

from pacesetter.build import read_plan
from pacesetter.jobs.launch.comparison import mean_and_half_width
from pacesetter.lab.league.cell import Cell, Score, play_cell
from pacesetter.lab.league.ladder import ENTRANTS, MARKETS
from pacesetter.methods.offline.export import export_episodes
from pacesetter.runs import Run

ABOUT = (
    "Markets of the league: 10 symbols, 2.5 bps a side, 1,800 bars to train, 600 to choose by, 3,000 to test. "
    "Annualised Sharpe ratio on the test set after costs, all agents in one account. PPO learned in the market for "
    "49,152 steps of each agent. `_log`: from all episodes that PPO logged while it learned; `_random`: from 5,000 "
    "episodes of random orders; never from an oracle's. Every learner has the network `mlp_tiny`, sees "
    "`leadlag_expected`, and uses `task.action=target`. Settings are the first that were tried, on seed 1; "
    "reporting seeds, from 201 on, were played once. In brackets: the difference in Sharpe ratio, paired by seed, ± "
    "half of its 95 % Student interval."
)
COMMON = ("task=fleet", "task.action=target", "task.retrain_share=0", "train.checkpoint_every=0", "train.threads=1")
EPISODES = 5_000  # of random orders: as many rows as PPO logs
SMALL = ("agent.network=mlp_tiny", "agent.heads=[32]")
STEPS = ("train.steps=204800", "train.validate_every=20480", "train.log_every=20480")
RATES = ("agent.learning_rate=0.002", "agent.encoder_learning_rate=0.002", "agent.gamma=0.5", "agent.batch_size=256")
OFFLINE = (*SMALL, *STEPS, *RATES)
LEARNERS: dict[str, tuple[str, ...]] = {
    "bc": ("agent=bc", "agent.regimes=[]", *OFFLINE),
    "cql": ("agent=cql", *OFFLINE),
    "iql": ("agent=iql", *OFFLINE),
}
PLAYED = ("ppo", *(f"{name}_{data}" for data in ("log", "random") for name in LEARNERS))
PPO = (*ENTRANTS["ppo_fleet"], "train.threads=1", "train.log_episodes=true")


def ppo_cell(market: str, seed: int, folder: str) -> Cell:
    return Cell(folder, market, "ppo", seed, MARKETS[market], PPO)


def ppo_run(cell: Cell) -> Path:
    """The run in which PPO of this market and seed left its episodes."""
    data = cell.config.data
    for folder in sorted((path.parent for path in Path(cell.folder, "runs").glob("*/config.yaml")), reverse=True):
        config = read_plan(Run.open(folder))
        if (config.agent.algorithm, config.seed, config.data) == ("ppo", cell.seed, data) and any(
            (folder / "episodes").glob("*.h5")
        ):
            return folder
    raise FileNotFoundError(f"no run of PPO with seed {cell.seed} in {cell.folder}; remove its cells and run again")


def dataset_of(data: str, ppo: Cell) -> Path:
    """The episodes that PPO logged, or random ones, which are exported on the first call."""
    if data == "log":
        return ppo_run(ppo) / "episodes"
    path = Path(ppo.folder) / f"random-{ppo.market.replace(' ', '-')}-{ppo.seed}.h5"
    if not path.is_file():
        own = (*ppo.market_overrides, *COMMON, "train.envs=32", f"seed={ppo.seed}")
        print(export_episodes("random", own, out=path, episodes=EPISODES, seed=ppo.seed), flush=True)
    return path


def play(entrant: str, market: str, seed: int, folder: str) -> Score:
    """The score of an entrant; PPO comes before those that learn from its episodes."""
    if entrant in YARDSTICKS:
        return play_cell(Cell(folder, market, entrant, seed, MARKETS[market], None))
    ppo = ppo_cell(market, seed, folder)
    if entrant == "ppo":
        return play_cell(ppo)
    name, data = entrant.rsplit("_", 1)
    more = (*COMMON, *LEARNERS[name], f"agent.dataset={dataset_of(data, ppo)}", "train.best_by=score")
    return play_cell(Cell(folder, market, entrant, seed, MARKETS[market], more))


def score_rows(scores: list[Score]) -> list[list[Any]]:
    """Each entrant's Sharpe ratio by seed, its mean, the share of PPO's, and its lead over cloning on the same data."""
    by_name: dict[str, list[float]] = {}
    for score in scores:
        by_name.setdefault(score.entrant, []).append(score.sharpe)
    rows = []
    for name, own in by_name.items():
        mean, data = float(np.mean(own)), name.rsplit("_", 1)[-1]
        share = f"{mean / float(np.mean(by_name['ppo'])):.0%}" if "ppo" in by_name else ""
        share += _paired(own, by_name.get("ppo")) if name.split("_")[0] in LEARNERS else ""
        cloned = by_name.get(f"bc_{data}")
        lead = f"{mean - float(np.mean(cloned)):+.2f}" if cloned and not name.startswith("bc") else ""
        lead += _paired(own, cloned) if lead else ""
        rows.append([name, *(f"{value:+.2f}" for value in own), f"{mean:+.2f}", share, lead])
    return rows


def _paired(own: list[float], other: list[float] | None) -> str:
    """The difference with half of its 95 % Student interval over seeds; nothing for one seed."""
    if other is None or len(own) < 2:
        return ""
    gap, half = mean_and_half_width(np.subtract(own, other))
    return f" ({gap:+.2f} ± {half:.2f})"


def market_table(market: str, seeds: list[int], entrants: list[str], folder: str) -> str:
    """Play what was not played yet; the table of one market."""
    scores: list[Score] = []
    for seed in seeds:
        for entrant in (*YARDSTICKS, *entrants):
            scores.append(play(entrant, market, seed, folder))
            print(market, entrant, seed, f"{scores[-1].sharpe:+.2f}", f"{scores[-1].seconds:.0f} s", flush=True)
    header = [market, *(f"seed {seed}" for seed in seeds), "mean", "of PPO's", "above BC on the same data"]
    return table(header, score_rows(scores))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--play", action="append", default=None, help="MARKET=SEED+SEED")
    parser.add_argument("--folder", default="runs/offline")
    parser.add_argument("--entrants", default=",".join(PLAYED))
    parser.add_argument("--name", default="offline", help="of the page that is recorded")
    options = parser.parse_known_args()[0]
    folder, entrants = str(Path(options.folder).resolve()), options.entrants.split(",")
    tables = []
    for word in options.play or ["planted 0.4=1+2"]:
        market, _, seeds = word.partition("=")
        tables.append(market_table(market, [int(seed) for seed in seeds.split("+")], entrants, folder))
    publish(options.name, "\n\n".join([ABOUT, *tables]), "Learning from stored episodes beside online PPO")


if __name__ == "__main__":
    main()
