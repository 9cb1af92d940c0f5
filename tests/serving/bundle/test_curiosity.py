"""A fleet that learned with curiosity says at every bar how surprising it was: in the graph, and in the journal's rows.

Runs `policies.curiosity`.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from bundles import FLEET, make

from pacesetter.build import best_fleet, build_table
from pacesetter.evaluation.backtest.backtest import backtest
from pacesetter.policies.curiosity import load_curiosity
from pacesetter.policies.policy import Policy, Snapshot
from pacesetter.serving.api.runtime import BundlePolicy, serving_market
from pacesetter.serving.journal.entries import _decision_rows


class Noted(Policy):
    """A bundled policy that keeps the notes and observations of every decision."""

    def __init__(self, policy: BundlePolicy) -> None:
        self.policy, self.kept = policy, list[tuple[Snapshot, Any, list[Any]]]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.policy, name)

    def decide(self, seen: Snapshot) -> Any:
        orders = self.policy.decide(seen)
        self.kept.append((seen, orders, self.policy.notes["curiosity_reward"]))
        return orders


@pytest.fixture(scope="module")
def curious(tmp_path_factory: pytest.TempPathFactory) -> Any:
    extra = "agent.extras.curiosity={warmup_steps:0}"
    return make(tmp_path_factory.mktemp("curious"), [*FLEET, extra, "task.action=continuous", "task.trades=orders"])


def test_the_surprise_of_a_bar_is_the_forward_error_of_the_decision_before(curious: Any) -> None:
    policy = Noted(BundlePolicy(curious.bundle))
    table = build_table(curious.config, curious.panel)
    options = {"window_bars": 4, "market": serving_market(curious.bundle), "is_unseen": True}
    backtest(policy, curious.panel, first=280, table=table, **options)
    rewards = [notes for _, _, notes in policy.kept]
    assert rewards[0] == [None] * 4  # nothing was expected at the first bar
    assert np.isfinite(np.array(rewards[1:], dtype=float)).all()
    assert np.std(np.array(rewards[1:], dtype=float)) > 0

    fleet = best_fleet(curious.run.folder)
    models = load_curiosity(Path(curious.run.folder) / "checkpoints" / "best", fleet.config.width, fleet.actions)
    assert models is not None
    models.own.eval()
    states = [features(fleet, seen) for seen, *_ in policy.kept[:2]]
    orders = torch.as_tensor(policy.kept[0][1], dtype=torch.float32)
    with torch.no_grad():
        before, after = (models.encoder(state) for state in states)
        errors = models.prediction_errors(before, orders, after)
        deviation = (models.errors.square - models.errors.mean.square()).sqrt()
        expected = ((errors - models.errors.mean) / deviation).clamp(-5, 5)
    np.testing.assert_allclose(np.array(rewards[1], dtype=float), expected.numpy(), atol=1e-3)


def features(fleet: Any, seen: Snapshot) -> torch.Tensor:
    from pacesetter.policies.agent import per_symbol

    shown = per_symbol(seen.observation, True)
    with torch.no_grad():
        return fleet.encoder({name: torch.tensor(np.array(shown[name])) for name in fleet.shapes if name in shown})


def test_the_journal_has_the_reward_of_each_symbol() -> None:
    notes = {"curiosity_reward": [None, 0.25]}
    desk: Any = SimpleNamespace(policy=SimpleNamespace(notes=notes, action="continuous"), symbols=("A", "B"))
    ticket: Any = SimpleNamespace(actions=np.array([0.1, np.nan]), signals=np.array([0.1, 0.0]))
    assert [row["curiosity_reward"] for row in _decision_rows(desk, ticket)] == [None, 0.25]


def test_a_fleet_without_curiosity_has_no_models(tmp_path: Path) -> None:
    assert load_curiosity(tmp_path, 8, None) is None
