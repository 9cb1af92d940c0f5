"""A context in an account: what is kept in a backtest, and that a bundle keeps and decides as the run does."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pacesetter.evaluation.backtest.backtest import backtest
from pacesetter.evaluation.stored_run import StoredRun
from pacesetter.learning.fleet.storage import load_fleet, save_fleet
from pacesetter.serving.api.runtime import BundlePolicy, serving_market
from pacesetter.serving.bundle.packaging import bundle_run

BARS = 20


@pytest.fixture(scope="module")
def run(meta_run: Path, tmp_path_factory: pytest.TempPathFactory) -> StoredRun:
    """A copy of the run with a context that matters, as after longer training."""
    folder = Path(shutil.copytree(meta_run, tmp_path_factory.mktemp("meta") / meta_run.name))
    best = folder / "checkpoints" / "best"
    fleet: Any = load_fleet(best)
    torch.manual_seed(1)
    torch.nn.init.normal_(fleet.encoder.condition.weight, std=1.0)
    torch.nn.init.normal_(fleet.actor.last.weight, std=0.3)
    save_fleet(fleet, best)
    return StoredRun(folder)


def test_a_backtest_keeps_the_context_and_begins_without_it(run: StoredRun) -> None:
    played, again = run.play(), run.play()
    np.testing.assert_array_equal(again.ledger, played.ledger)
    policy: Any = run.policy
    fleet = policy.advice.fleet
    with torch.no_grad():
        fleet.encoder.gate.fill_(0.0)
    without = run.play()
    with torch.no_grad():
        fleet.encoder.gate.fill_(1.0)
    np.testing.assert_array_equal(without.orders[0], played.orders[0])
    assert (without.orders != played.orders).any()


def test_a_bundle_decides_and_remembers_as_the_run(run: StoredRun, tmp_path: Path) -> None:
    _, bundle = bundle_run(run.folder, tmp_path, observations=200)
    assert bundle.model.spec.remembered == ("context",)
    options = {"first": run.first, "last": run.first + BARS, "market": serving_market(bundle)}
    served = backtest(
        BundlePolicy(bundle), run.panel, bank=run.bank(run.panel), window_bars=run.task.window_bars, **options
    )
    np.testing.assert_allclose(served.orders, run.play().orders[:BARS], atol=1e-5)
