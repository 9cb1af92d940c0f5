"""From a run folder to a judgement: counted among the trials, on other markets; an archived policy stays as it was."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pacesetter.build import build_fold, build_table
from pacesetter.errors import ConfigError, RunError
from pacesetter.evaluation.backtest.stress import STRESSES
from pacesetter.evaluation.explain.findings import explanation_sections, insight_sections, reward_section
from pacesetter.evaluation.report.judgement_page import store_judgement
from pacesetter.evaluation.statistics.metrics import metrics
from pacesetter.evaluation.statistics.regression import read_result, regression_gates
from pacesetter.evaluation.statistics.trials import Trial, Trials
from pacesetter.evaluation.stored_run import MARKETS, StoredRun
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.jobs.run.train import train
from pacesetter.methods.supervised.direction import Direction
from pacesetter.methods.supervised.forecasts import fit_supervised
from pacesetter.runs import Run

ARCHIVE = Path(__file__).parent / "archive"
BRIEF = ("train.steps=64", "train.validate_every=0")  # where any run will do


@pytest.fixture(scope="module")
def run(trained_run, tmp_path_factory) -> StoredRun:
    """A copy of the trained run, in a folder with a ledger that says it was one of three."""
    runs = tmp_path_factory.mktemp("evaluated")
    Trials(runs).add(Trial("other data", "trading", "elsewhere", 0))
    stored = StoredRun(Path(shutil.copytree(trained_run, runs / trained_run.name)))
    for name in ("other", "failed"):
        Trials(runs).add(Trial(stored.panel.fingerprint, "trading", name, 0, 0.01 if name == "other" else None))
    return stored


@pytest.fixture(scope="module")
def judged(run):
    return run.judge(draws=50)


def test_a_run_is_judged_on_the_bars_it_never_saw(run, judged):
    fold = build_fold(run.config, run.panel)
    assert judged.result.times[0] == run.panel.index[fold.test[0] + 1]
    assert judged.result.name == "ppo"
    assert judged.verdict.trials == 3
    assert judged.sentence.endswith("or on other bars of it, are not counted: 1 known.")
    trials = Trials(run.folder.parent)
    counted = trials.of(run.panel.fingerprint, "trading")
    assert len(counted) == 3
    assert counted[-1].sharpe == pytest.approx(judged.verdict.sharpe.value / run.panel.bars_per_year**0.5)


def test_a_second_judgement_repeats_the_first_and_a_changed_figure_is_caught(run, judged):
    again, kept = run.judge(draws=50).to_json(), judged.to_json()
    assert [gate.name for gate in regression_gates(kept, again) if not gate.passed] == []
    kept["figures"]["ppo"]["sharpe"] += 1e-3
    assert [gate.name for gate in regression_gates(kept, again) if not gate.passed] == ["figures.ppo.sharpe"]


@pytest.mark.parametrize("task", ["trading", "portfolio"])
def test_a_run_of_some_symbols_is_judged_on_these(small, console, task):
    config = small("ppo", f"task={task}", "task.symbols=[S2,S0]", *BRIEF)
    run = StoredRun(Path(train(config, console=console).run.folder))
    assert run.play().symbols == ("S2", "S0")
    trials = Trials(run.folder.parent)
    assert len(trials.of(run.whole.fingerprint, task)) == 1


def test_a_run_of_some_symbols_by_features_of_all_is_refused(small, console):
    config = small("ppo", "task.symbols=[S2,S0]", "features.leadlag.lookback=20", *BRIEF)
    run = StoredRun(Path(train(config, console=console).run.folder))
    with pytest.raises(ConfigError, match="2 symbols with lead–lag features of 3"):
        run.play()


@pytest.mark.parametrize("market", ["adversarial", "universes"])
def test_the_agent_on_other_markets_stands_beside_simple_policies(run, market):
    table = run.on(market)
    assert set(table.index.get_level_values("policy")) == {"ppo", "cash", "hold", "equal_weight"}
    assert np.isfinite(table["total_return"]).all()


def test_synthetic_markets_are_drawn_one_by_one(run):
    first, second, *_ = MARKETS["montecarlo"](run)
    assert first.panel.symbols == second.panel.symbols
    assert first.panel.fingerprint != second.panel.fingerprint
    assert list(run.evaluate_scenarios([first]).loc["path 0"].index) == ["ppo", "cash", "hold", "equal_weight"]


def test_a_classifier_speaks_anew_of_a_market_that_was_altered(trained_run, tmp_path):
    run = StoredRun(Path(shutil.copytree(trained_run, tmp_path / "one")))
    direction = Direction(network="mlp", width=8, window_bars=6, epochs=1)
    features = replace(run.config.features, names=("return_1",))
    plain = replace(run.config, features=features)
    forecasts = fit_supervised(run.panel, build_table(plain, run.panel), direction, train_bars=200, folds=1)
    folders = str(forecasts.save(tmp_path / "sl")), str(forecasts.save(tmp_path / "again"))
    told = replace(plain, features=replace(features, supervised=folders))
    Run(run.folder).write_yaml("config.yaml", told.to_dict())
    fresh = StoredRun(run.folder)
    crash = STRESSES["crash"]().apply(fresh.panel, 300)
    own, stressed = (fresh.bank(panel).context[0, :, :, -2:] for panel in (fresh.panel, crash))
    np.testing.assert_array_equal(own[200:], forecasts.probabilities.swapaxes(0, 1)[200:])
    np.testing.assert_allclose(own[200:299], stressed[200:299], atol=1e-6)
    assert fresh.bank(crash).context.shape[-1] == 4  # of both classifiers
    assert np.abs(own[301:312] - stressed[301:312]).max() > 1e-3


def test_another_market_is_asked_for_by_its_name(run):
    with pytest.raises(ConfigError, match="did you mean 'montecarlo'"):
        run.on("montecarl")


def test_an_agent_of_all_symbols_at_once_refuses_a_market_of_others(small, console, tmp_path):
    plain = [text for text in small.overrides if "network_options" not in text]
    config = resolve(["task=portfolio", *plain, "agent.network_options={width:8}", "train.steps=64"])
    run = StoredRun(train(config, console=console).run.folder)
    with pytest.raises(ConfigError, match="trades 3 symbols together and 'universe 1 of 2' has 2"):
        run.on("universes")


def test_a_run_without_a_checkpoint_is_one_sentence(trained_run, tmp_path):
    bare = Path(shutil.copytree(trained_run, tmp_path / "bare", ignore=shutil.ignore_patterns("checkpoints")))
    with pytest.raises(RunError, match="bare has no checkpoint of an agent; train one"):
        StoredRun(bare).judge()


def test_a_lookback_run_trades_nothing(tmp_path):
    config = resolve(["data=synthetic", "task=lookback", f"runs={tmp_path}"])
    run = StoredRun(Run.create(tmp_path, "windows", config.to_dict()).folder)
    with pytest.raises(ConfigError, match="chooses windows and does not trade"):
        run.judge()


def test_an_archived_policy_keeps_its_result():
    found = metrics(StoredRun(ARCHIVE).play())
    differing = [
        gate for gate in regression_gates(read_result(ARCHIVE / "result.json"), found, 1e-3) if not gate.passed
    ]
    assert differing == []


# ---- beside the figures ---------------------------------------------------------------------------------------------


def test_an_explanation_a_reward_audit_and_anomalies_stand_beside_it(run, judged):
    titles = [section.title for section in insight_sections(run, judged)]
    assert titles[0] == "Attribution by feature"
    assert titles[-2:] == ["Reward components", "Anomalies over equity"]
    audit = reward_section(run, judged)
    assert [row[0] for row in audit.rows] == ["pnl"]
    assert "correlation with the change of equity is +1.00" in audit.text


def test_of_a_fleet_the_agent_that_moved_most_money_is_explained_and_the_reward_audited(small, console, tmp_path):
    own = [text for text in small.common if not text.startswith("agent.heads")]
    terms = "+task.reward={components:{pnl:1.0,cost:0.5}}"
    config = resolve(["task=fleet", *own, terms, "train.steps=64", "features.names=[return_1]"])
    run = StoredRun(train(config, console=console).run.folder)
    found = run.judge(draws=20)
    titles = [section.title for section in explanation_sections(run, found)]
    assert found.result.name == "fleet"
    assert titles[:2] == [f"Attribution by {kind} ({found.contribution.table.index[0]})" for kind in ("feature", "lag")]
    assert [row[0] for row in reward_section(run, found).rows] == ["pnl", "cost"]
    store_judgement(found, tmp_path)
    stored = pd.read_parquet(tmp_path / "ledger.parquet")
    np.testing.assert_allclose(stored["reward"], stored["reward_pnl"] + 0.5 * stored["reward_cost"])
    np.testing.assert_allclose(stored["reward_pnl"], np.log1p(found.result.returns), atol=1e-12)


def test_the_risk_of_a_run_has_the_scale_that_training_stored(tmp_path):
    config = resolve(["risk.target_volatility=0.1"])
    folder = Run.create(tmp_path, "risky", config.to_dict()).folder
    assert StoredRun(folder).risk == config.risk
    (folder / "risk.json").write_text('{"scale": 2.5}')
    assert StoredRun(folder).risk == replace(config.risk, scale=2.5)
    (folder / "risk.json").write_text("{}")
    with pytest.raises(RunError, match=r"risk.json cannot be read .* the run is damaged"):
        _ = StoredRun(folder).risk
