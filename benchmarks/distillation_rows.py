"""A student by soft targets beside the same small network trained directly on as many rows, on the planted market.

    python benchmarks/distillation_rows.py [--seeds 1+2+3] [--network transformer] [--device cuda]
                                           [--folder runs/distillation_rows] [--temperatures] [--record]

PPO trains a teacher with a large encoder in the market. The teacher then acts in the training set, and its rows are
kept: what it saw, the order that it sent, and its distribution over orders. The student learns from the distributions
(KL), the same network from the orders (cloning). Both have equal rows, gradient steps, learning rates and starting
weights, and both keep what did best on the validation set. The third is the same network by PPO in the market, with as
many steps of each agent as there are rows. What was measured is kept in the folder, by seed.

With `--temperatures` orders are discrete, and students learn at several temperatures from the same rows; recorded as
`distillation_temperature`.
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
from distillation import finished
from fleet_methods import YARDSTICKS
from record import publish, table
from rich.console import Console

from pacesetter.agents.encoders import network
from pacesetter.agents.fleet import Fleet
from pacesetter.build import best_fleet, fitted_until
from pacesetter.evaluation.backtest.backtest import Backtest, backtest
from pacesetter.evaluation.statistics.intervals import paired_difference
from pacesetter.evaluation.statistics.metrics import sharpe
from pacesetter.evaluation.stored_run import StoredRun
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.jobs.launch.comparison import mean_and_half_width
from pacesetter.jobs.run.train import train
from pacesetter.lab.league.cell import QUIET, Cell, play_cell
from pacesetter.lab.league.ladder import ENTRANTS, MARKETS
from pacesetter.learning.experience.dataset import StoredEpisodes
from pacesetter.learning.experience.recording import fleet_teacher, market_tables, record, whole_episodes
from pacesetter.learning.fleet.trainer import FleetTrainer
from pacesetter.learning.fleet.validation import play
from pacesetter.methods.offline.bc import Cloning, FleetBC
from pacesetter.methods.offline.distillation import Distillation, FleetDistillation
from pacesetter.methods.offline.manifest import build_recording_market, dataset_manifest
from pacesetter.methods.offline.rows import StoredRows
from pacesetter.methods.offline.task import JudgedMarkets
from pacesetter.policies.fleet import fleet_policy
from pacesetter.runs import write_atomic

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
TEMPERATURES = (1, 2, 4)
DISCRETE = "discrete"  # a temperature has no meaning for other orders
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


def learned_from(rows: Rows, count: int, name: str, heads: int, kind: str, temperature: float = 1.0) -> Fleet:
    """A small fleet that learned from `count` episodes of each symbol; the best of its validations."""
    fleet, stored = rows.fresh(name, heads), rows.of(count)
    trainer = FleetTrainer(_method(kind, fleet, stored, rows, temperature))
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


def _method(kind: str, fleet: Fleet, stored: StoredRows, rows: Rows, temperature: float) -> Any:
    if kind == SOFT:
        config = FleetDistillation(seed=rows.seed, temperature=temperature, **RATES)
        return Distillation(fleet, stored, config, rows.teacher)
    return Cloning(fleet, stored, FleetBC(seed=rows.seed, regimes=(), **RATES))


# ---- what is trained in the market ----------------------------------------------------------------------------------


def trained(folder: Path, seed: int, name: str, *own: str) -> Path:
    """The run of this name and seed; it is trained on the first call."""
    known = finished(folder / "runs", seed, name)
    if known is not None:
        return known
    every = (*MARKETS[MARKET], *ENTRANTS["ppo_fleet"], *own, *QUIET, f"seed={seed}", f"name={name}", "train.threads=1")
    return train(replace(resolve(list(every)), runs=str(folder / "runs")), console=Console(quiet=True)).run.folder


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


def by_temperature(folder: Path, name: str, seed: int, device: str) -> dict[str, Any]:
    """Of a teacher with discrete orders: Sharpe ratios of its students by episodes and temperature.

    Each warmer one also has its difference from the one at 1, by paired blocks of bars.
    """
    known = folder / f"{name}-{DISCRETE}-{seed}.json"
    if known.is_file():
        return dict(json.loads(known.read_text()))
    own = (f"agent.network={name}", *TEACHER, f"task.action={DISCRETE}", f"train.device={device}")
    rows = Rows(trained(folder, seed, f"{name}-{DISCRETE}", *own), seed, device)
    result = rows.played(rows.teacher)
    ratio = partial(sharpe, bars_per_year=result.bars_per_year)
    facts: dict[str, Any] = {"teacher": float(ratio(result.returns)), "students": {}}
    for count in EPISODES:
        fleets = {warm: learned_from(rows, count, NETWORK, HEADS, SOFT, warm) for warm in TEMPERATURES}
        plays = {warm: rows.played(fleet) for warm, fleet in fleets.items()}
        students = {str(warm): {"sharpe": float(ratio(result.returns))} for warm, result in plays.items()}
        for warm in TEMPERATURES[1:]:
            gap = paired_difference(plays[warm].returns, plays[TEMPERATURES[0]].returns, ratio, draws=1_000)
            students[str(warm)]["gap"] = [float(value) for value in gap[:3]]
        facts["students"][str(count)] = students
        print(seed, count, students, flush=True)
    write_atomic(known, json.dumps(facts, indent=1).encode())
    return facts


def temperature_lines(found: dict[int, dict[str, Any]]) -> list[list[str]]:
    """One line of each number of rows and seed, and of each number the means over seeds."""
    lines = []
    for count in EPISODES:
        for seed, facts in found.items():
            students = facts["students"][str(count)]
            gaps = ("{:+.2f} ({:+.2f} … {:+.2f})".format(*students[str(warm)]["gap"]) for warm in TEMPERATURES[1:])
            own = (f"{students[str(warm)]['sharpe']:+.2f}" for warm in TEMPERATURES)
            lines.append([f"{100 * count:,}", str(seed), f"{facts['teacher']:+.2f}", *own, *gaps])
        if len(found) > 1:
            means = []
            for warm in TEMPERATURES[1:]:
                students_of = [facts["students"][str(count)] for facts in found.values()]
                mean, half = mean_and_half_width([each[str(warm)]["gap"][0] for each in students_of])
                means.append(f"{mean:+.2f} ± {half:.2f}")
            lines.append([f"{100 * count:,}", "mean", *[""] * (1 + len(TEMPERATURES)), *means])
    return lines


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


def yardsticks_table(folder: Path, seeds: list[int]) -> str:
    """Sharpe ratios of those that learn nothing in the market."""
    rows = []
    for seed in seeds:
        cells = (play_cell(Cell(str(folder), MARKET, name, seed, MARKETS[MARKET], None)) for name in YARDSTICKS)
        rows.append([str(seed), *(f"{cell.sharpe:+.2f}" for cell in cells)])
    return table(["seed", *YARDSTICKS], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", nargs="+", default=["1+2+3"], help="a table for each group, such as 1+2+3")
    parser.add_argument("--network", default="transformer", help="of the teacher")
    parser.add_argument("--device", default="cpu", help="that the teacher is trained on")
    parser.add_argument("--folder", type=Path, default=Path("runs/distillation_rows"))
    parser.add_argument("--played-on", default="this machine", help="said on the page, where cells came from another")
    parser.add_argument("--temperatures", action="store_true", help="students at several, of discrete orders")
    parser.add_argument("--measure", action="store_true", help="only teacher and student, without what stands beside")
    options = parser.parse_known_args()[0]
    folder, groups = options.folder.resolve(), [[int(seed) for seed in group.split("+")] for group in options.seeds]
    measure = by_temperature if options.temperatures else measured
    if options.measure:
        for seed in (seed for seeds in groups for seed in seeds):
            measure(folder, options.network, seed, options.device)
        return
    if options.temperatures:
        found = {seed: measure(folder, options.network, seed, options.device) for seeds in groups for seed in seeds}
        body = WARM_ABOUT.format(network=options.network, place=options.played_on)
        body += f"\n\n{table(WARM_HEADER, temperature_lines(found))}\n\n{yardsticks_table(folder, list(found))}"
        publish("distillation_temperature", body, "Students at several temperatures")
        return
    tables = [seeds_table(folder, options.network, seeds, options.device) for seeds in groups]
    body = "\n\n".join([ABOUT.format(network=options.network, place=options.played_on), *tables])
    publish("distillation_rows", body, "A student and the same small network at equal rows")


WARM_HEADER = [
    *("rows of each symbol", "seed", "teacher", *(f"T = {warm}" for warm in TEMPERATURES)),
    *(f"T = {warm} less T = 1 (95 %)" for warm in TEMPERATURES[1:]),
]
WARM_ABOUT = (
    f"League market `{MARKET}` with discrete orders. The teacher has the network `{{network}}` and 16,384 steps of "
    f"PPO. Students have `{NETWORK}` with heads of {HEADS}, equal rows, gradient steps and starting weights; they "
    "differ by the temperature that divides the logits of both while they learn. Annualised Sharpe ratio on 3,000 test "
    "bars after costs; in brackets the 95 % interval by paired blocks of bars, ± half the 95 % Student interval over "
    "seeds. Trained and played on: {place}."
)
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
