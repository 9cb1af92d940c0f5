"""A lookback run judged, explained, replayed, refitted and compared by the commands that traders have.

Runs `evaluation.lookback.insight`, `evaluation.lookback.judgement`, `evaluation.lookback.page`,
`evaluation.lookback.replay`, `evaluation.lookback.downstream_value`, `jobs.evaluate`, `jobs.launch.lookback_folds`.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from pacesetter.build import build_table
from pacesetter.build.stored import window_at_end, with_window
from pacesetter.cli import app
from pacesetter.data import load
from pacesetter.envs.lookback.evaluation import evaluate_lookback
from pacesetter.errors import ConfigError
from pacesetter.evaluation.backtest.markets import monte_carlo_scenarios
from pacesetter.evaluation.backtest.scenarios import Scenario
from pacesetter.evaluation.lookback import stored as module
from pacesetter.evaluation.lookback.downstream_value import EXPECTED, downstream_sentences
from pacesetter.evaluation.lookback.insight import entry_names, lookback_insights
from pacesetter.evaluation.lookback.judgement import AGENT, OPTIMUM, STOCHASTIC, LookbackJudgement
from pacesetter.evaluation.lookback.page import lookback_sections, store_lookback
from pacesetter.evaluation.lookback.replay import LookbackReplay
from pacesetter.evaluation.lookback.stored import LookbackRun
from pacesetter.evaluation.report.compare import RunFilter, compare_section, find_judged, find_matching
from pacesetter.evaluation.report.mlflow_source import judged_in_mlflow
from pacesetter.evaluation.statistics.regression import read_result, regression_gates
from pacesetter.jobs.evaluate import open_run
from pacesetter.jobs.launch.folds import change_config, fold_report
from pacesetter.leadlag.lookback.baselines import WindowScores
from pacesetter.leadlag.lookback.policy import StoredLookback
from pacesetter.leadlag.study import Study
from pacesetter.runs import write_tags


@pytest.fixture(scope="module")
def run(lookback_run: Path) -> LookbackRun:
    opened = open_run(lookback_run)
    assert isinstance(opened, LookbackRun)
    return opened


@pytest.fixture(scope="module")
def judged(run: LookbackRun) -> LookbackJudgement:
    return run.judge(draws=50)


def test_windows_are_judged_on_bars_that_were_not_learned(run: LookbackRun, judged: LookbackJudgement) -> None:
    assert judged.evaluation.bars[0] == 350  # behind train.shares
    assert judged.times[0] > pd.Timestamp(json.loads((run.folder / "manifest.json").read_text())["fitted_until"])
    names = set(judged.evaluation.names)
    assert {AGENT, STOCHASTIC, OPTIMUM, "constant 10", "volatility", "cross-validated", "thompson"} <= names
    assert "regime oracle" in names  # a synthetic market tells its regimes
    assert judged.figures["reward"].idxmax() == OPTIMUM
    assert (judged.figures["regret"] >= 0).all()
    assert judged.figures.loc[OPTIMUM, "share of the optimum"] == pytest.approx(1.0)
    best = max(judged.figures["reward"][name] for name in names if name.startswith("constant "))
    assert judged.figures["share of the optimum"].max() <= 1
    gap = judged.differences[judged.rival]
    own, rival = (judged.figures.loc[name, "reward"] for name in (AGENT, judged.rival))
    assert gap.value == pytest.approx(own - rival)
    assert judged.figures.loc[judged.rival, "reward"] >= best
    assert judged.sentence.startswith(("Evidence", "No evidence"))
    assert judged.is_evidence == all(gate.passed for gate in judged.gates[::2][:2])


def test_one_seed_is_one_sequence_and_earns_the_same_again(run: LookbackRun, judged: LookbackJudgement) -> None:
    again = run.judge(draws=50)
    np.testing.assert_array_equal(again.evaluation.lookbacks, judged.evaluation.lookbacks)
    np.testing.assert_array_equal(again.evaluation.rewards, judged.evaluation.rewards)
    schedule = np.full(len(run.panel), 10)
    schedule[judged.evaluation.bars] = judged.evaluation.lookbacks[:, 0]
    played = evaluate_lookback({"it": StoredLookback(schedule)}, run.panel, run.task, start=run.first)
    assert played.rewards[1:, 0] == pytest.approx(judged.evaluation.rewards[1:, 0], abs=0)


def test_what_windows_are_worth_downstream_is_said(judged: LookbackJudgement) -> None:
    rule = judged.worth[judged.worth["rule"] == EXPECTED].set_index("windows")
    assert {AGENT, judged.learned, OPTIMUM} <= set(rule.index)
    assert rule.loc[judged.learned, "difference"] == 0
    assert judged.sentence.endswith(downstream_sentences(judged.worth, judged.learned)[-1])


def test_more_costs_of_switching_cost_whoever_switches(judged: LookbackJudgement) -> None:
    assert judged.costs.loc[1.0, AGENT] == pytest.approx(judged.figures.loc[AGENT, "reward"])
    assert judged.costs.loc[5.0, "thompson"] < judged.costs.loc[0.0, "thompson"]
    assert judged.costs.loc[5.0, "constant 10"] == judged.costs.loc[0.0, "constant 10"]


def test_sections_and_insights_read(run: LookbackRun, judged: LookbackJudgement) -> None:
    titles = {section.title for section in lookback_sections(judged, run.panel)}
    assert {"Verdict", "Windows over time", "Choices", "Regret", "Safety", "Worth downstream"} <= titles
    shares = judged.windows["share"]
    assert shares.sum() == pytest.approx(1.0)
    insights = {section.title: section for section in lookback_insights(run, judged)}
    entries = dict(insights["Attribution by entry"].rows)
    assert "chosen" in entries
    assert sum(float(value.rstrip("%")) for value in entries.values()) == pytest.approx(100, abs=0.5)
    assert len(insights["Best window in hindsight"].rows) >= 2
    lags = insights["Attribution by lag"].rows
    assert lags[0][0].startswith("0 to ")
    assert sum(float(share.rstrip("%")) for _, share in lags) == pytest.approx(100, abs=0.5)
    assert {"Reward components", "Concentration by asset", "Concentration by pair"} <= set(insights)
    choices = insights["Concentration by choice"].rows
    assert sum(float(row[1].rstrip("%")) for row in choices) == pytest.approx(100, abs=0.5)
    earned = judged.evaluation.rewards[:, judged.evaluation.place(AGENT)].sum()
    assert sum(float(row[2]) for row in choices) == pytest.approx(earned, abs=1e-3)
    assert len(insights["Concentration by pair"].header) == 4


def test_every_number_of_an_observation_is_named(run: LookbackRun) -> None:
    view = replace(run.task.view, record_bars=(20, 100), context=("volatility_20",))
    task = replace(run.task, view=view)
    names = entry_names(cast(LookbackRun, SimpleNamespace(task=task, panel=run.panel)), by_asset=False)
    sizes = task.make_batch(run.panel).entries()
    assert {entry: len(own) for entry, own in names.items()} == {
        entry: size for entry, size in sizes.items() if entry != "universe_mask"
    }
    grid = task.windows.grid
    assert names["record"][0] == f"window {grid[0]}, last 20 bars"
    assert names["record"][-1] == f"window {grid[-1]}, last 100 bars"


def test_the_commands_that_traders_have(run: LookbackRun, tmp_path: Path, lookback_run: Path, trader_run: Path) -> None:
    call = CliRunner().invoke
    said = call(app, ["evaluate", str(lookback_run), "--draws", "20", "--trader", str(trader_run)])
    assert said.exit_code == 0, said.output
    assert f"'trader {trader_run.name}' has a net" in " ".join(said.output.split())
    assert "The liquidity filter acted at 0.0% of the bars" in " ".join(said.output.split())
    assert "Liquidity by window" in said.output
    said = call(app, ["evaluate", str(lookback_run), "--draws", "20"])
    stored = lookback_run / "evaluation" / "evaluation.json"
    said = call(app, ["evaluate", str(lookback_run), "--draws", "20", "--gate", str(stored)])
    assert "figures are reproduced" in said.output
    assert said.exit_code == 0, said.output
    said = call(app, ["inspect", str(lookback_run)])
    assert (lookback_run / "evaluation" / "replay.html").is_file(), said.output
    replayed = LookbackReplay.load(lookback_run)
    assert replayed.periods()["bars"].sum() == len(replayed.windows)
    page = tmp_path / "comparison.html"
    said = call(app, ["compare", str(lookback_run), str(lookback_run), "--out", str(page)])
    assert said.exit_code == 0, said.output
    assert "+0.0000 (+0.0000 to +0.0000)" in page.with_suffix(".md").read_text()
    write_tags(lookback_run, ["final"])
    for wanted in (RunFilter("lookback", "look", since="2020-01-01"), RunFilter(tag="final"), None):
        assert [run.name for run in find_matching([lookback_run.parent], wanted)] == [lookback_run.name]
    for wanted in (RunFilter(until="2020-01-01"), RunFilter(tag="first"), RunFilter("trading")):
        with pytest.raises(ConfigError, match="leave a filter out"):
            find_matching([lookback_run.parent], wanted)
    judged = find_judged(lookback_run)
    other = find_judged(lookback_run)
    other.result["task"] = "account"
    with pytest.raises(ConfigError, match="compare them apart"):
        compare_section([judged, other])


def test_runs_are_compared_out_of_an_mlflow_store(judged: LookbackJudgement, run: LookbackRun, tmp_path: Path) -> None:
    mlflow = pytest.importorskip("mlflow")
    (tmp_path / "evaluation").mkdir()
    store_lookback(judged, run.panel, tmp_path / "evaluation", {})
    store = tmp_path / "mlflow.db"
    client = mlflow.MlflowClient(tracking_uri=f"sqlite:///{store}")
    experiment = client.create_experiment("windows", artifact_location=(tmp_path / "artifacts").as_uri())
    for name, tags in (("first", {"kind": "final"}), ("second", {"kind": "final"}), ("third", {})):
        known = client.create_run(experiment, run_name=name, tags=tags).info.run_id
        client.log_param(known, "task.problem", "lookback")
        if name != "third":
            client.log_artifacts(known, str(tmp_path / "evaluation"), "evaluation")
    call = ["compare", "--mlflow", str(store), "--task", "lookback", "--out", str(tmp_path / "page.html")]
    said = CliRunner().invoke(app, [*call, "--tag", "kind=final"])
    assert said.exit_code == 0, said.output
    text = (tmp_path / "page.md").read_text()
    assert "first" in text
    assert "second" in text
    refused = CliRunner().invoke(app, [*call, "--tag", "draft"])
    assert "none of 3 runs" in str(refused.exception) + refused.output
    with pytest.raises(ConfigError, match="is not a file"):
        judged_in_mlflow(str(tmp_path / "none.db"), RunFilter(), tmp_path)


def test_a_training_universe_leaves_a_test_universe(universe_run: Path, trader_run: Path) -> None:
    """Half of the symbols are never learned from; the gap is printed for the agent and for rules."""
    run = LookbackRun(universe_run)
    assert (run.panel.symbols, run.whole.symbols) == (("S0", "S1"), ("S0", "S1", "S2", "S3"))
    said = CliRunner().invoke(app, ["evaluate", str(universe_run), "data=universes"])
    assert said.exit_code == 0, said.output
    table = run.on("universes")
    assert set(table.index.unique("scenario")) == {"training universe", "test universe"}
    gap = table.loc["test universe"]["reward"][AGENT] - table.loc["training universe"]["reward"][AGENT]
    assert f"Test universe less training universe: {AGENT} {gap:+.4f}" in said.output


def test_other_markets(run: LookbackRun) -> None:
    paths = run.evaluate_scenarios(monte_carlo_scenarios(run.panel, 2, bars=320))
    assert set(paths.index.unique("scenario")) == {"path 0", "path 1"}
    assert np.isfinite(paths["reward"]).all()
    elsewhere = run.evaluate_elsewhere("synthetic", load("synthetic", symbols=4, bars=300, seed=9))
    assert elsewhere.loc[("synthetic", AGENT), "switches"] >= 0
    table = run.on("adversarial")
    assert np.isfinite(table["reward"]).all()
    assert {AGENT, "constant 10"} <= set(table.index.unique("policy"))
    with pytest.raises(ConfigError, match="max_assets"):
        run.on("universes")
    with pytest.raises(ConfigError, match="did you mean"):
        run.on("adversaria")


def test_policies_beside_the_agent_score_windows_by_its_own_options(
    run: LookbackRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def scores(*parts: Any) -> WindowScores:
        asked.append(parts)
        return WindowScores(*parts)

    monkeypatch.setattr(module, "WindowScores", scores)
    view = replace(run.task.view, options={"variant": "difference"})
    monkeypatch.setitem(vars(run), "task", replace(run.task, view=view))
    run.evaluate_scenarios([Scenario("its own bars", run.panel, len(run.panel) - 20)], "constant 10")
    assert asked[0][3] == {"variant": "difference"}


@pytest.mark.parametrize("is_combinatorial", [False, True])
def test_folds_learn_from_their_training_bars_alone(run: LookbackRun, is_combinatorial: bool) -> None:
    config = change_config(run.config, ["train.steps=64"])
    lines: list[str] = []
    report = fold_report(config, run.panel, 3, is_combinatorial=is_combinatorial, tell=lines.append)
    assert len(report.table) == (2 if is_combinatorial else 3)
    assert len(lines) == 3
    assert np.isfinite(report.table[AGENT]).all()
    assert (report.table["best constant in hindsight"] >= report.table["constant by training"] - 1e-12).all()


def test_an_archived_agent_keeps_its_windows() -> None:
    """A change of the estimators, the encodings or the reward cannot change results unnoticed."""
    archive = Path(__file__).parents[1] / "archive_lookback"
    found = LookbackRun(archive).play()
    gates = regression_gates(read_result(archive / "result.json"), found, 1e-6)
    assert [gate for gate in gates if not gate.passed] == []
    assert {gate.name for gate in gates} >= {"reward", "signal", "switches", "mean_lookback"}


def test_a_run_is_taken_wherever_a_lookback_is(run: LookbackRun, lookback_run: Path) -> None:
    study = change_config(run.config, [f"lag.lookback={lookback_run}"])
    assert study.lag.lookback == Study().lookback  # without bars it is not known yet
    assert with_window(study.lag, run.panel).lookback == window_at_end(lookback_run, run.panel)
    assert window_at_end(lookback_run, run.panel) in run.task.windows.grid
    job = change_config(run.config, [f"job.lookback={lookback_run}"])
    assert job.job.lookback == str(lookback_run)
    traders = change_config(run.config, [f"features.leadlag.lookback={lookback_run}", "features.names=[return_1]"])
    names = build_table(traders, run.panel).names
    assert "leadlag_leader_score" in names
