"""A student by soft targets beside the same small network trained directly on as many rows, on the planted market.

    python benchmarks/distillation_rows.py [--seeds 1+2+3] [--network transformer] [--device cuda]
                                           [--folder runs/distillation_rows] [--record]

PPO trains a teacher with a large encoder in the market. The teacher then acts in the training set, and its rows are
kept: what it saw, the order that it sent, and its distribution over orders. The student learns from the distributions
(KL), the same network from the orders (cloning). Both have equal rows, gradient steps, learning rates and starting
weights, and both keep what did best on the validation set. The third is the same network by PPO in the market, with as
many steps of each agent as there are rows. What was measured is kept in the folder, by seed.
"""

from __future__ import annotations

import argparse
import copy
import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fleet_methods import YARDSTICKS
from record import publish, table
from rich.console import Console

from pacesetter.agents.encoders import network
from pacesetter.agents.fleet import Fleet
from pacesetter.build import best_fleet, fitted_until, read_config
from pacesetter.build.dataset import build_recording_market, dataset_manifest
from pacesetter.build.offline import JudgedMarkets
from pacesetter.evaluation.backtest.backtest import Backtest, backtest
from pacesetter.evaluation.statistics.intervals import paired_difference
from pacesetter.evaluation.statistics.metrics import sharpe
from pacesetter.evaluation.stored_run import StoredRun
from pacesetter.learning.experience.dataset import StoredEpisodes
from pacesetter.learning.experience.recording import fleet_teacher, market_tables, record, whole_episodes
from pacesetter.learning.fleet.trainer import FleetTrainer
from pacesetter.learning.fleet.validation import play
from pacesetter.learning.offline.bc import Cloning, FleetBC
from pacesetter.learning.offline.distillation import Distillation, FleetDistillation
from pacesetter.learning.offline.rows import StoredRows
from pacesetter.policies.fleet import fleet_policy
from pacesetter.runs import Run, write_atomic
from pacesetter.training.hydra.compose import compose
from pacesetter.training.launch.comparison import mean_and_half_width
from pacesetter.training.league.cell import QUIET, Cell, play_cell
from pacesetter.training.league.ladder import ENTRANTS, MARKETS
from pacesetter.training.run.train import train

MARKET = "planted 0.4"
NETWORK, HEADS = "mlp_tiny", 32  # of the student
# Smaller steps than the league's for a larger network, and a limit on them: without one seed 2 ended in NaN.
TEACHER = (
    *("agent.heads=[128]", "agent.learning_rate=0.001", "agent.encoder_learning_rate=0.0003", "agent.target_kl=0.03"),
    *("train.steps=16384", "train.validate_every=4096", "train.log_every=4096"),
)
EPISODES = (2, 5, 20)  # of each symbol, 100 bars each
STEPS, VALIDATED = 32_768, 8_192  # rows drawn of each symbol, and those between two validations
RATES: dict[str, Any] = {"learning_rate": 3e-3, "encoder_learning_rate": 3e-3}
SOFT, HARD, IN_MARKET = "student, soft targets", "same network, orders sent", "same network, PPO in the market"


class Rows:
    """Rows of a teacher in the training set, and the markets that judge who learns from them."""

    def __init__(self, teacher: Path, seed: int, device: str = "cpu") -> None:
        self.stored, self.seed, self.device = StoredRun(teacher), seed, device
        # It plays on the CPU, wherever it was trained.
        config = self.stored.config
        self.config, self.panel = replace(config, train=replace(config.train, device="cpu")), self.stored.panel
        self.teacher = best_fleet(teacher).to("cpu")
        self.validation = JudgedMarkets(self.config, self.panel).validation
        market = build_recording_market(self.config, self.panel, max(EPISODES))
        steps = record(market, fleet_teacher(self.teacher, market), 0.0, max(EPISODES) * len(market.symbols), seed)
        recorded, _ = whole_episodes(steps, market, 0, most=1)
        assert recorded is not None
        self.episodes, self.tables = recorded, market_tables(market)
        self.manifest = dataset_manifest(self.config, self.panel, market, teacher.name, "", ["teacher"], seed)

    def of(self, count: int) -> StoredRows:
        """The rows of `count` episodes of each symbol."""
        places = [
            np.flatnonzero(self.episodes.symbols == symbol)[:count] for symbol in np.unique(self.episodes.symbols)
        ]
        chosen: StoredEpisodes = self.episodes.select(np.concatenate(places))
        return StoredRows(self.manifest, self.tables, chosen, seed=self.seed, device=self.device)

    def fresh(self, name: str, heads: int) -> Fleet:
        """A small fleet that sees inputs in the teacher's scale; the same weights at each call."""
        torch.manual_seed(self.seed)
        sizes = {"unseen": self.teacher.config.unseen}
        fleet = Fleet(network(name, **sizes), self.teacher.shapes, self.teacher.symbols, self.teacher.actions, heads)
        fleet.encoder.normaliser.load_state_dict(self.teacher.encoder.normaliser.state_dict())
        return fleet

    def played(self, fleet: Fleet) -> Backtest:
        """The fleet on the test set."""
        stored, task = self.stored, self.stored.task
        rules = {"market": task.market, "bank": stored.bank(stored.panel), "window_bars": task.window_bars}
        policy = fleet_policy(fleet, task, fitted_until(self.config, self.panel))
        return backtest(policy, stored.panel, first=stored.first, **rules)


def learned_from(rows: Rows, count: int, name: str, heads: int, kind: str) -> Fleet:
    """A small fleet that learned from `count` episodes of each symbol; the best of its validations."""
    fleet, stored = rows.fresh(name, heads), rows.of(count)
    trainer = FleetTrainer(_method(kind, fleet, stored, rows))
    best: tuple[float, Any] = (-np.inf, None)
    for steps in range(VALIDATED, STEPS + 1, VALIDATED):
        trainer.learn(steps)
        score = play(fleet.to("cpu"), rows.validation).sharpe_together
        if score > best[0]:
            best = score, copy.deepcopy(fleet.state_dict())
        fleet.to(rows.device)
    fleet.load_state_dict(best[1])
    rows.teacher.to("cpu")
    return fleet.to("cpu")


def _method(kind: str, fleet: Fleet, stored: StoredRows, rows: Rows) -> Any:
    if kind == SOFT:
        return Distillation(fleet, stored, FleetDistillation(seed=rows.seed, **RATES), rows.teacher)
    return Cloning(fleet, stored, FleetBC(seed=rows.seed, regimes=(), **RATES))


# ---- what is trained in the market ----------------------------------------------------------------------------------


def trained(folder: Path, seed: int, name: str, *own: str) -> Path:
    """The run of this name and seed; it is trained on the first call."""
    for place in sorted(folder.glob(f"runs/*-{name}-*/manifest.json"), reverse=True):
        run = Run.open(place.parent)
        if run.manifest.get("weights_hash") and read_config(run).seed == seed:
            return place.parent
    every = (*MARKETS[MARKET], *ENTRANTS["ppo_fleet"], *own, *QUIET, f"seed={seed}", f"name={name}", "train.threads=1")
    return train(replace(compose(list(every)), runs=str(folder / "runs")), console=Console(quiet=True)).run.folder


def steps_for(count: int) -> int:
    """Steps of PPO that are as many rows as `count` episodes, rounded up to whole rounds."""
    return 256 * -(-2 * count // 5)


def in_market(folder: Path, seed: int, steps: int) -> Backtest:
    """The student's network after so many steps of PPO in the market."""
    # A round has as many rows of each symbol as steps, and the fewest must hold one.
    size = ("train.envs=8",) if steps < 1_024 else ()
    often = f"train.validate_every={max(steps // 4, 256)}"
    return StoredRun(trained(folder, seed, f"direct{steps}", *size, f"train.steps={steps}", often)).play()


# ---- figures --------------------------------------------------------------------------------------------------------


def measured(folder: Path, name: str, seed: int, device: str) -> dict[str, Any]:
    """Sharpe ratios of a seed: the teacher's, and by episodes those of the two that learned from it, with their gap."""
    known = folder / f"{name}-{seed}.json"
    if known.is_file():
        return dict(json.loads(known.read_text()))
    teacher = trained(folder, seed, name, f"agent.network={name}", *TEACHER, f"train.device={device}")
    rows = Rows(teacher, seed, device)
    result = rows.played(rows.teacher)
    ratio = partial(sharpe, bars_per_year=result.bars_per_year)
    facts: dict[str, Any] = {"teacher": float(ratio(result.returns)), "equal": {}}
    print(seed, "teacher", facts["teacher"], flush=True)
    for count in EPISODES:
        soft, hard = (rows.played(learned_from(rows, count, NETWORK, HEADS, kind)) for kind in (SOFT, HARD))
        gap = paired_difference(soft.returns, hard.returns, ratio, draws=1_000)
        own = {SOFT: float(ratio(soft.returns)), HARD: float(ratio(hard.returns)), "gap": [float(x) for x in gap[:3]]}
        facts["equal"][str(count)] = own
        print(seed, count, own, flush=True)
    write_atomic(known, json.dumps(facts, indent=1).encode())
    return facts


def beside(folder: Path, seed: int) -> dict[str, float]:
    """Sharpe ratios of PPO in the market by its steps, and of the yardsticks."""
    known = folder / f"beside-{seed}.json"
    if not known.is_file():
        facts = {}
        for steps in map(steps_for, EPISODES):
            result = in_market(folder, seed, steps)
            facts[str(steps)] = float(sharpe(result.returns, result.bars_per_year))
        for name in YARDSTICKS:
            facts[name] = play_cell(Cell(str(folder), MARKET, name, seed, MARKETS[MARKET], None)).sharpe
        print(seed, facts, flush=True)
        write_atomic(known, json.dumps(facts).encode())
    return dict(json.loads(known.read_text()))


def rows_of(found: dict[int, dict[str, Any]], others: dict[int, dict[str, float]], count: int) -> list[list[str]]:
    """One line of each seed, and their mean with the Student interval of the paired difference."""
    lines, gaps = [], []
    for seed, facts in found.items():
        own, others_own = facts["equal"][str(count)], others[seed]
        value, low, high = own["gap"]
        gaps.append(own[SOFT] - own[HARD])
        direct = f"{others_own[str(steps_for(count))]:+.2f}"
        teacher = f"{facts['teacher']:+.2f}"
        gap = f"{value:+.2f} ({low:+.2f} … {high:+.2f})"
        lines.append([f"{100 * count:,}", str(seed), teacher, f"{own[SOFT]:+.2f}", f"{own[HARD]:+.2f}", gap, direct])
    if len(gaps) > 1:
        mean, half = mean_and_half_width(gaps)
        lines.append([f"{100 * count:,}", "mean", "", "", "", f"{mean:+.2f} ± {half:.2f}", ""])
    return lines


def seeds_table(folder: Path, name: str, seeds: list[int], device: str) -> str:
    """What was measured of these seeds, and the yardsticks."""
    found = {seed: measured(folder, name, seed, device) for seed in seeds}
    others = {seed: beside(folder, seed) for seed in seeds}
    header = ["rows of each symbol", "seed", "teacher", SOFT, HARD, "soft less hard (95 %)", IN_MARKET]
    lines = [line for count in EPISODES for line in rows_of(found, others, count)]
    yardsticks = [[str(seed), *(f"{others[seed][name]:+.2f}" for name in YARDSTICKS)] for seed in seeds]
    return f"{table(header, lines)}\n\n{table(['seed', *YARDSTICKS], yardsticks)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", nargs="+", default=["1+2+3"], help="a table for each group, such as 1+2+3")
    parser.add_argument("--network", default="transformer", help="of the teacher")
    parser.add_argument("--device", default="cpu", help="that the teacher is trained on")
    parser.add_argument("--folder", type=Path, default=Path("runs/distillation_rows"))
    parser.add_argument("--played-on", default="this machine", help="said on the page, where cells came from another")
    parser.add_argument("--measure", action="store_true", help="only teacher and student, without what stands beside")
    options = parser.parse_known_args()[0]
    folder, groups = options.folder.resolve(), [[int(seed) for seed in group.split("+")] for group in options.seeds]
    if options.measure:
        for seed in (seed for seeds in groups for seed in seeds):
            measured(folder, options.network, seed, options.device)
        return
    tables = [seeds_table(folder, options.network, seeds, options.device) for seeds in groups]
    body = "\n\n".join([ABOUT.format(network=options.network, place=options.played_on), *tables])
    publish("distillation_rows", body, "A student and the same small network at equal rows")


ABOUT = (
    f"League market `{MARKET}`: 10 symbols, 2.5 bps a side, 1,800 bars to train, 600 to choose by, 3,000 to test. "
    f"The teacher has the network `{{network}}` and 16,384 steps of PPO in the market; all others are `{NETWORK}` with "
    f"heads of {HEADS}. Student and clone draw {STEPS:,} rows of each symbol from the same rows of the teacher, of "
    "which four fifths are learned from (half of 200). PPO in the market has 256, 512 and 2,048 steps for 200, 500 "
    "and 2,000 rows. Annualised Sharpe ratio on the test set after costs; in brackets the 95 % interval by paired "
    "blocks of bars, ± half the 95 % Student interval over seeds. Teacher, student and clone: {place}."
)

if __name__ == "__main__":
    main()
