"""A run with hybrid actions: bundled, asked, and behind the guard in a backtest; the same orders everywhere."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pacesetter.evaluation.backtest.backtest import backtest
from pacesetter.evaluation.stored_run import StoredRun
from pacesetter.jobs.run.train import train
from pacesetter.serving.api.runtime import BundlePolicy
from pacesetter.serving.bundle.packaging import bundle_run
from pacesetter.serving.risk.guard import Guard
from pacesetter.serving.risk.limits import GuardLimits
from pacesetter.serving.trader.desk import GuardedPolicy

OPEN = GuardLimits(order_fraction=1, symbol_fraction=1, gross_fraction=1, drawdown_fraction=1, cluster_correlation=1)


@pytest.mark.proof
def test_a_bundle_orders_what_the_run_does_alone_and_behind_the_guard(small, console, tmp_path):
    stored = StoredRun(Path(train(small("sac", "task.action=hybrid"), console=console).run.folder))
    _, bundle = bundle_run(stored.folder, tmp_path / "bundles", observations=200)
    assert (bundle.model.spec.action, bundle.model.spec.outputs[0]) == ("hybrid", "orders")
    policy, options = BundlePolicy(bundle), {"first": stored.first, "bank": stored.bank(stored.panel), "window_bars": 6}
    served = backtest(policy, stored.panel, market=stored.task.market, **options)
    assert policy.confidence.shape == (3,)
    assert served.fills.any()
    np.testing.assert_allclose(served.orders, stored.play().orders, atol=1e-4)
    guarded = GuardedPolicy(policy, Guard(OPEN), stored.panel, stored.task.market)
    behind = backtest(guarded, stored.panel, market=guarded.market, **options)
    np.testing.assert_allclose(behind.equity, served.equity, rtol=1e-3)
    assert np.abs([ticket.actions for ticket in guarded.tickets]).max() <= 1
