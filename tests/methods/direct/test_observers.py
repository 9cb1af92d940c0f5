"""A run of agent=direct from the command's configuration to its policy on the test set.

Runs `methods.direct.task`.
"""

from __future__ import annotations

import io
from pathlib import Path

import pytest
import torch
from rich.console import Console

import pacesetter as ps
from pacesetter.data.loading import Data
from pacesetter.errors import ConfigError, RunError
from pacesetter.evaluation.backtest.backtest import Backtest
from pacesetter.evaluation.backtest.scenarios import Scenario
from pacesetter.evaluation.statistics.metrics import metrics
from pacesetter.evaluation.stored_run import MOST_MEASURED, StoredRun
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.jobs.launch.folds import run_walk_forward
from pacesetter.jobs.run.train import TrainingResult, train
from pacesetter.market.risk import RiskColumn
from pacesetter.methods.direct.learner import DirectLearner
from pacesetter.panel import Panel

SMALL = (
    *("agent=direct", "+preset=planted", "data.symbols=5", "data.groups=1", "data.bars=1200", "agent.segments=8"),
    *("train.steps=1152", "train.validate_every=768", "track.mlflow=off", "track.tensorboard=off"),
)


def trained(folder: Path, *overrides: str) -> TrainingResult:
    config = resolve([*SMALL, *overrides, f"runs='{folder}'", "track.progress=false"])
    return train(config, console=Console(file=io.StringIO()))


def test_a_fleet_and_a_portfolio_are_the_same_account(tmp_path: Path) -> None:
    fleet, portfolio = (trained(tmp_path, f"task={task}") for task in ("fleet", "portfolio"))
    assert fleet.weights_hash == portfolio.weights_hash
    assert fleet.score > 2.0
    played = StoredRun(fleet.run.folder).play()
    assert played.name == "direct"
    assert played.returns.mean() / played.returns.std() > 0.2  # per bar: 3 a year


def test_windows_are_as_long_as_the_policy_reads_them() -> None:
    assert resolve([*SMALL, "task=fleet"]).trading.window_bars == 125
    assert resolve([*SMALL, "task=fleet", "task.window_bars=160"]).trading.window_bars == 160


def test_many_symbols_in_accounts_of_their_own_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="trades the 5 symbols in one account"):
        trained(tmp_path, "task=trading")


def test_a_loss_that_is_not_a_number_stops_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fit = DirectLearner.fit_weights

    def broken(learner: DirectLearner) -> None:
        fit(learner)
        with torch.no_grad():
            learner.policy.log_gain.fill_(torch.nan)

    monkeypatch.setattr(DirectLearner, "fit_weights", broken)
    with pytest.raises(RunError, match="direct_loss is nan"):
        trained(tmp_path, "task=fleet")


@pytest.mark.filterwarnings("ignore::pacesetter.errors.LimitWarning")
def test_a_stated_risk_is_used_by_training_validation_test_folds_and_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads, load = list[Data](), Data.load

    def count_reads(data: Data) -> Panel:
        reads.append(data)
        return load(data)

    monkeypatch.setattr(Data, "load", count_reads)
    stated = ("risk.target_volatility=0.1", "risk.base=inverse_volatility", "risk.tracking_error=0.04")
    stated = (*stated, "features.leadlag.lookback=60")
    result = trained(tmp_path, "task=fleet", *stated, "task.market.limits.position_cap_fraction=0.5")
    assert len(reads) == 1  # the scale is fitted on the bars that training has read
    run = StoredRun(result.run.folder)
    assert run.risk.scale is not None  # fitted to training and validation bars, and stored with the run
    assert run.sizing == run.risk
    # Features that only a baseline reads are not computed for it, and change nothing.
    alone = StoredRun(result.run.folder, is_alone=True)
    assert set(run.table.names) > set(alone.table.names)
    assert alone.measure_scale(run.first - MOST_MEASURED) == run.risk.scale
    played, validated = run.play(), Backtest.load(result.run.folder)
    for each in (played, validated):
        assert each.risk is not None
        assert each.risk[:, RiskColumn.SCALE].max() <= run.risk.scale * 3
    assert (played.orders < 0).any()  # views are signed, and their sum with the base is long only
    assert played.held is not None
    assert played.held.min() >= 0
    again = ps.backtest(result.run.folder, run.panel)
    assert again.backtest.returns.tolist() == played.returns.tolist()
    walked, _ = run_walk_forward(run.config, run.panel, 2)
    assert all(fold.result.risk is not None for fold in walked.folds)
    assert run.evaluate_scenarios([Scenario("as it was", run.panel, run.first, market=run.task.market)]).loc[
        ("as it was", "direct"), "sharpe"
    ] == pytest.approx(metrics(played)["sharpe"])
