"""What leaves the lab is what was trained: each kind of policy, compared with its bundle number by number."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bundles import FLEET, TRAINING, make

from pacesetter.build import build_table
from pacesetter.evaluation.backtest.backtest import backtest
from pacesetter.evaluation.stored_run import StoredRun
from pacesetter.methods.master.build import best_master
from pacesetter.methods.master.options import MasterTrading
from pacesetter.methods.master.policy import MasterPolicy
from pacesetter.policies.advice import Advice
from pacesetter.policies.fleet import FleetTargets
from pacesetter.policies.policy import Policy
from pacesetter.serving.api.runtime import BundlePolicy, ReportedAccount, Runtime, serving_market
from pacesetter.serving.bundle import lookback_export
from pacesetter.serving.bundle.packaging import bundle_run
from pacesetter.serving.trader.history import History

CONTINUOUS = ["agent=ppo" if word == "agent=maskable_ppo" else word for word in [*TRAINING, "task.action=continuous"]]


def test_a_bundled_master_gives_the_shares_of_its_master(master: Any) -> None:
    def play(policy: Policy) -> Any:
        options = {"window_bars": 4, "market": serving_market(master.bundle)}
        table = build_table(master.config, master.panel)
        return backtest(policy, master.panel, first=260, table=table, **options)

    policy, fleet = best_master(master.run.folder)
    lab, served = play(MasterPolicy(policy, Advice(fleet))), play(BundlePolicy(master.bundle))
    np.testing.assert_allclose(served.orders, lab.orders, atol=1e-5)
    np.testing.assert_array_equal(served.orders.argmax(axis=1), lab.orders.argmax(axis=1))
    np.testing.assert_allclose(served.equity, lab.equity, rtol=1e-6)
    assert served.orders.std(axis=0).min() > 0


def test_a_bundled_fleet_trades_the_targets_that_a_backtest_of_its_run_trades(fleet: Any) -> None:
    def play(policy: Policy) -> Any:
        options = {"window_bars": 4, "market": serving_market(fleet.bundle), "is_unseen": True}
        table = build_table(fleet.config, fleet.panel)
        return backtest(policy, fleet.panel, first=260, table=table, **options)

    trained, served = StoredRun(fleet.run.folder).policy, BundlePolicy(fleet.bundle)
    assert isinstance(trained, FleetTargets)
    assert (trained.action, served.action, served.model.spec.trades) == ("target", "target", "targets")
    lab, there = play(trained), play(served)
    np.testing.assert_allclose(there.orders, lab.orders, atol=1e-5)
    np.testing.assert_allclose(there.equity, lab.equity, rtol=1e-6)
    assert lab.orders.max() > 0


def test_a_bundled_fleet_observes_the_signature_regime_of_its_table(tmp_path: Path) -> None:
    made = make(tmp_path, [*FLEET, "data.bars=600", "features.names=[return_1,signature_regime]"])
    history = History.of(made.bundle, made.panel.symbols)
    history.append(made.panel.rows(0, 520))
    column = build_table(made.config, made.panel).values[:, :, 1]
    served = []
    for t in range(520, 560):
        history.append(made.panel.rows(t, t + 1))
        served.append(history.observation()["window"][:, -1, 1])
    np.testing.assert_array_equal(np.stack(served, axis=1), column[:, 520:560])
    assert set(np.unique(served)) == {0.0, 0.5, 1.0}


def test_a_served_master_sends_orders_of_all_symbols_through_the_guard(master: Any) -> None:
    panel = master.panel
    runtime = Runtime(master.bundle, clock=lambda: panel.index[-1].timestamp())
    runtime.feed(panel)
    lines = runtime.decide(ReportedAccount(1e5)).lines
    assert tuple(line.symbol for line in lines) == panel.symbols
    assert 0 < sum(line.action for line in lines) < 1  # shares; the rest is cash
    for line, price in zip(lines, panel.close[-1], strict=True):
        capped = min(line.action, 0.15) * 1e5 / price
        assert (line.quantity, line.order) == (pytest.approx(capped, rel=0.01), "buy")
        assert line.allowed == (0.0 if line.limit else line.quantity)
        assert 0 < line.confidence <= 1
    assert any(line.allowed for line in lines)


def test_a_bundle_names_the_run_of_its_fleet_and_no_path(master: Any) -> None:
    assert master.bundle.config.task_as(MasterTrading).fleet == Path(master.config.task_as(MasterTrading).fleet).name


@pytest.mark.proof
@pytest.mark.parametrize("kind", ["discrete", "continuous", "fleet", "lookback", "master"])
def test_every_kind_is_equal_on_10_000_random_and_real_observations(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, check = [], lookback_export.check_parity
    monkeypatch.setattr(lookback_export, "check_parity", lambda *given: found.append(check(*given)))
    if kind == "continuous":
        run = make(tmp_path, CONTINUOUS).run
    else:
        run = request.getfixturevalue({"discrete": "made", "lookback": "fleet"}.get(kind, kind)).run
    _, bundle = bundle_run(run.folder, tmp_path / "bundles")
    parity = vars(found[-1]) if kind == "lookback" else bundle.manifest["parity"]
    print(kind, parity)
    assert parity["count"] >= 10_000
    assert parity["max_difference"] <= 1e-5
