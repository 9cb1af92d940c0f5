"""`pacesetter distill RUN`: a small student of a run's fleet, stored as a run of its own with its teacher's hash."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console

from pacesetter.agents.agent import ACTION_MASK
from pacesetter.agents.card import count_parameters
from pacesetter.agents.encoders import network as make_network
from pacesetter.agents.fleet import Fleet
from pacesetter.build import Plan, best_fleet, build_panel, check_device, fitted_until, stored_plan
from pacesetter.cells import Table
from pacesetter.errors import ConfigError, check_range
from pacesetter.learning.experience.dataset import StoredEpisodes
from pacesetter.learning.experience.market import FleetMarket
from pacesetter.learning.experience.recording import fleet_teacher, market_tables, record, whole_episodes
from pacesetter.learning.fleet.storage import save_fleet
from pacesetter.learning.fleet.trainer import FleetTrainer
from pacesetter.learning.fleet.validation import play
from pacesetter.learning.state import tensors_hash
from pacesetter.methods.offline.beside import beside_words
from pacesetter.methods.offline.distillation import Distillation, FleetDistillation, check_temperature
from pacesetter.methods.offline.manifest import build_recording_market, dataset_manifest
from pacesetter.methods.offline.rows import StoredRows
from pacesetter.methods.offline.task import JudgedMarkets
from pacesetter.runs import Run

__all__ = ["SideBySide", "Student", "compare_fleets", "distill"]

RANDOM_SHARES = (0.05, 0.5)  # of the orders in the teacher's episodes: states beside its own path are visited too
TIMED = 100  # decisions of all symbols
REPORT = "distillation.json"


@dataclass(frozen=True)
class Student:
    """What the student is: a registered network, its options, and the width of its heads.

    steps      rows drawn of each symbol, the first half from the teacher's episodes, then also from the student's
    episodes   of each behaviour
    temperature   that softens the distributions over discrete orders while it learns
    """

    network: str = "mlp_tiny"
    network_options: dict[str, Any] | None = None
    heads: int = 32
    steps: int = 40_000
    episodes: int = 200
    temperature: float = 1.0

    def __post_init__(self) -> None:
        check_range(1, heads=self.heads, steps=self.steps, episodes=self.episodes)


@dataclass(frozen=True)
class SideBySide:
    """A fleet by size, time and result.

    p50_ms, p95_ms   of one decision for all symbols, on this machine
    sharpe           of all agents in equal parts, validation set
    agreement        share of the validation bars at which the order is the teacher's
    """

    name: str
    parameters: int
    megabytes: float
    p50_ms: float
    p95_ms: float
    sharpe: float
    agreement: float


def distill(
    folder: str | Path, asked: Student, seed: int = 0, console: Console | None = None, device: str = "cpu"
) -> Run:
    """Train the student of a run and store it beside the run; everything is refused before a folder is made.

    device   on which gradient steps are taken; episodes are played and fleets compared on the CPU
    """
    check_device(device, "device")
    Run.open_finished(folder)
    stored = stored_plan(folder)
    # A student is small, and its teacher may have been trained on a GPU that is not here.
    config = replace(stored, train=replace(stored.train, device="cpu"))
    teacher = best_fleet(folder)
    check_temperature(asked.temperature, teacher.actions)
    sizes = {"unseen": teacher.config.unseen} | dict(asked.network_options or {})
    torch.manual_seed(seed)
    student = Fleet(make_network(asked.network, **sizes), teacher.shapes, teacher.symbols, teacher.actions, asked.heads)
    if count_parameters(student) >= count_parameters(teacher):
        raise ConfigError(
            f"the student has {count_parameters(student):,} parameters, its teacher {count_parameters(teacher):,}; "
            "give a smaller --network or --heads"
        )
    panel = build_panel(config)
    market = build_recording_market(config, panel, config.train.envs)
    assert isinstance(market, FleetMarket)
    manifest = dataset_manifest(config, panel, market, Path(folder).name, "", ["visited"], seed)
    # Both see inputs in the same scale, and the student counts none of its own.
    student.encoder.normaliser.load_state_dict(teacher.encoder.normaliser.state_dict())
    held_out = _learn(student, teacher, market, manifest, asked, seed, device)
    rows = compare_fleets({"teacher": teacher, "student": student}, JudgedMarkets(config, panel).validation)
    run = _store_student(folder, config, asked, student, teacher, rows, str(fitted_until(config, panel)), held_out)
    console = console or Console()
    _print_distilled(rows, held_out, run, console)
    console.print(beside_words(config, panel), soft_wrap=True)
    return run


def _learn(
    student: Fleet,
    teacher: Fleet,
    market: FleetMarket,
    manifest: dict[str, object],
    asked: Student,
    seed: int,
    device: str,
) -> float:
    """Half of the steps on states that the teacher visits, half also on the student's; gives the held-out KL."""
    visited = [_visit_episodes(teacher, market, asked.episodes, share, seed) for share in RANDOM_SHARES]
    trainer = None
    for half in range(2):
        if half:
            student.to("cpu")  # where the market is
            # States that the student's own mistakes lead to, labelled by the teacher (DAgger; Ross et al. 2011).
            visited.append(_visit_episodes(student, market, asked.episodes, RANDOM_SHARES[0], seed + 1))
        rows = StoredRows(manifest, market_tables(market), StoredEpisodes.join(visited), seed=seed, device=device)
        # A fresh optimiser for the second half: moments of the first are of other states.
        config = FleetDistillation(seed=seed + half, temperature=asked.temperature)
        trainer = FleetTrainer(Distillation(student, rows, config, teacher))
        trainer.learn(asked.steps // 2)
    assert trainer is not None
    held_out = float(trainer.method.judge_held_out(trainer)["held_out_loss"].mean())  # type: ignore[attr-defined]
    for fleet in (student, teacher):
        fleet.to("cpu")
    return held_out


def _visit_episodes(fleet: Fleet, market: FleetMarket, episodes: int, share: float, seed: int) -> StoredEpisodes:
    steps = record(market, fleet_teacher(fleet, market), share, episodes, seed)
    episodes_of, _ = whole_episodes(steps, market, 0, most=-(-episodes // market.env_count))
    assert episodes_of is not None
    return episodes_of


# ---- side by side ---------------------------------------------------------------------------------------------------


@torch.no_grad()
def compare_fleets(fleets: dict[str, Fleet], market: FleetMarket) -> list[SideBySide]:
    """Each fleet on the validation set; orders are compared with the first one's at the states that it visits."""
    first = next(iter(fleets.values()))
    states = _states(first, market)
    wanted = [_mode(first, market, state) for state in states]
    return [_card(name, fleet, market, states, wanted) for name, fleet in fleets.items()]


def _card(
    name: str,
    fleet: Fleet,
    market: FleetMarket,
    states: list[dict[str, torch.Tensor]],
    wanted: list[torch.Tensor],
) -> SideBySide:
    rows = torch.tensor(fleet.places(market.symbols))
    full = market.tables({key: entry for key, entry in states[0].items() if key != ACTION_MASK})
    masks = {ACTION_MASK: states[0][ACTION_MASK]} if ACTION_MASK in states[0] else {}
    seconds = []
    for _ in range(TIMED):
        start = time.perf_counter()
        fleet.evaluate(full | masks, rows)
        seconds.append(time.perf_counter() - start)
    # 0.1: equal for discrete orders, and for continuous ones within the default hold zone.
    same = [(_mode(fleet, market, state) - want).abs() < 0.1 for state, want in zip(states, wanted, strict=True)]
    stored = [*fleet.parameters(), *fleet.buffers()]
    return SideBySide(
        name,
        sum(parameter.numel() for parameter in fleet.parameters()),  # those of a frozen teacher too
        sum(tensor.nbytes for tensor in stored) / 2**20,
        1e3 * float(np.quantile(seconds, 0.5)),
        1e3 * float(np.quantile(seconds, 0.95)),
        play(fleet, market).sharpe_together,
        float(torch.cat([each.flatten() for each in same]).float().mean()),
    )


def _mode(fleet: Fleet, market: FleetMarket, state: dict[str, torch.Tensor]) -> torch.Tensor:
    return fleet_teacher(fleet, market)(state).mode().float()


def _states(fleet: Fleet, market: FleetMarket) -> list[dict[str, torch.Tensor]]:
    """What a fleet sees while it plays the market once."""
    observation, states = market.reset(), []
    is_over = torch.zeros(market.env_count, dtype=torch.bool)
    while not bool(is_over.all()):
        states.append(observation)
        step = market.step(fleet_teacher(fleet, market)(observation).mode())
        is_over |= step.terminated | step.truncated
        observation = step.observation
    return states


def _store_student(
    folder: str | Path,
    config: Plan,
    asked: Student,
    student: Fleet,
    teacher: Fleet,
    rows: list[SideBySide],
    until: str,
    held_out: float,
) -> Run:
    sizes = dict(asked.network_options) if asked.network_options else None
    agent = config.agent.with_options(network=asked.network, heads=[asked.heads], network_options=sizes)
    student_config = replace(config, name=f"{config.name}-student", agent=agent)
    run = Run.create(Path(folder).resolve().parent, student_config.name, student_config.to_dict())
    save_fleet(student, run.path("checkpoints/best"))
    facts = {"fleets": [asdict(row) for row in rows], "held_out_divergence": held_out, "student": asdict(asked)}
    run.write_json(REPORT, facts)
    run.finish(
        fitted_until=until,
        weights_hash=tensors_hash(student.state_dict()),
        steps=asked.steps,
        score=rows[1].sharpe,
        stopped="steps",
        seed=config.seed,
        teacher={"run": Path(folder).resolve().name, "weights_hash": tensors_hash(teacher.state_dict())},
    )
    return run


def _print_distilled(rows: list[SideBySide], held_out: float, run: Run, console: Console) -> None:
    cells = []
    for row in rows:
        times = (f"{row.megabytes:.2f}", f"{row.p50_ms:.2f}", f"{row.p95_ms:.2f}")
        cells.append((row.name, f"{row.parameters:,}", *times, f"{row.sharpe:+.2f}", f"{row.agreement:.1%}"))
    header = ("", "parameters", "MB", "p50 ms", "p95 ms", "Sharpe, validation", "same orders")
    console.print(Table(header, cells))
    console.print(f"KL(teacher ‖ student) {held_out:.4f} nats on held-out episodes → {run.folder}", soft_wrap=True)
