"""A student by soft targets beside the same network on the same rows by hard orders, for benchmarks/distillation.py.

The teacher acts in the training set, and its rows are kept: what it saw, the order that it sent, and its distribution
over orders. The student learns from the distributions (KL), the other one from the orders (cloning). Both have equal
rows, gradient steps, learning rates and starting weights, and both keep what did best on the validation set.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pacesetter.agents.encoders import network
from pacesetter.agents.fleet import Fleet
from pacesetter.build import best_fleet, fitted_until
from pacesetter.build.dataset import build_recording_market, dataset_manifest
from pacesetter.build.offline import JudgedMarkets
from pacesetter.evaluation.backtest.backtest import Backtest, backtest
from pacesetter.evaluation.stored_run import StoredRun
from pacesetter.learning.experience.dataset import StoredEpisodes
from pacesetter.learning.experience.recording import fleet_teacher, market_tables, record, whole_episodes
from pacesetter.learning.fleet.trainer import FleetTrainer
from pacesetter.learning.fleet.validation import play
from pacesetter.learning.offline.bc import Cloning, FleetBC
from pacesetter.learning.offline.distillation import Distillation, FleetDistillation
from pacesetter.learning.offline.rows import StoredRows
from pacesetter.policies.fleet import fleet_policy

__all__ = ["EPISODES", "HARD", "SOFT", "Rows", "learned_from"]

EPISODES = (5, 20, 80)  # of each symbol, 100 bars each
ENVS, STEPS, VALIDATED = 16, 32_768, 8_192  # rows drawn of each symbol, and those between two validations
RATES = {"learning_rate": 3e-3, "encoder_learning_rate": 3e-3}
SOFT, HARD = "student, soft targets", "same network, the orders sent"


class Rows:
    """Rows of a teacher in the training set, and the markets that judge who learns from them."""

    def __init__(self, teacher: Path, seed: int, device: str = "cpu") -> None:
        self.stored, self.seed, self.device = StoredRun(teacher), seed, device
        # It plays on the CPU, wherever it was trained.
        config = self.stored.config
        self.config, self.panel = replace(config, train=replace(config.train, device="cpu")), self.stored.panel
        self.teacher = best_fleet(teacher).to("cpu")
        self.validation = JudgedMarkets(self.config, self.panel).validation
        market = build_recording_market(self.config, self.panel, ENVS)
        steps = record(market, fleet_teacher(self.teacher, market), 0.0, max(EPISODES) * len(market.symbols), seed)
        recorded, _ = whole_episodes(steps, market, 0, most=max(EPISODES) // ENVS)
        assert recorded is not None
        self.episodes, self.tables = recorded, market_tables(market)
        self.manifest = dataset_manifest(self.config, self.panel, market, teacher.name, "", ["teacher"], seed)

    def of(self, count: int) -> StoredRows:
        """The rows of `count` episodes of each symbol."""
        places = [np.flatnonzero(self.episodes.symbols == symbol)[:count] for symbol in np.unique(self.episodes.symbols)]
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
