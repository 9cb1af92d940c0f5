"""The stage of the pipeline that trains the fleet, and the agents of its run on the command line.

Runs `jobs.agents`.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

from pacesetter.build import Plan, build_panel, stored_plan
from pacesetter.cli import app
from pacesetter.errors import DataError
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.jobs.pipeline import agents_stage
from pacesetter.jobs.pipeline.agents_stage import RISK, fleet_config, job_overrides, needs_no_lookback, train_fleet
from pacesetter.jobs.pipeline.lookback_stage import check_bars
from pacesetter.jobs.pipeline.stages import Job, only_run
from pacesetter.learning.methods import AgentOptions
from pacesetter.market.risk import RiskOptions
from pacesetter.runs import Run

SMALL = [
    *("data=synthetic", "data.symbols=3", "data.bars=500", "features.names=[return_1]", "job.fleet_steps=1024"),
    "job.direct_steps=2048",
    *("task.window_bars=4", "task.episode_bars=20", "task.market.costs.commission_bps=7"),
]


def test_the_fleet_trades_by_the_rules_of_the_job_with_leadlag_features(tmp_path):
    config = resolve(SMALL)
    made = fleet_config(config, tmp_path, "elsewhere")
    assert made.market.costs.commission_bps == 7
    assert (made.task.problem, made.train.steps, made.features.leadlag.lookback) == ("fleet", 2048, "elsewhere")
    assert made.agent == AgentOptions("direct")
    asked = resolve([*SMALL, "features.leadlag.lookback=40", "train.envs=2"])
    assert fleet_config(asked, tmp_path, "elsewhere").features.leadlag.lookback == 40
    assert fleet_config(asked, tmp_path, "elsewhere").train.envs == 2
    # null is none, as in `train`: +preset=original says that its agents saw no lead–lag features
    none = resolve([*SMALL, "features.leadlag.lookback=null"])
    assert fleet_config(none, tmp_path, "elsewhere").features.leadlag.lookback is None
    own = resolve(["task=fleet", "agent.heads=[8]", "job.fleet_steps=1024"])
    assert fleet_config(own, tmp_path, 60).agent.options["heads"] == [8]
    assert fleet_config(own, tmp_path, 60).train.steps == 1024


def test_a_named_method_trains_a_fleet_and_a_fleet_without_one_is_direct():
    assert job_overrides(["data=sandbox"]) == [*RISK, "data=sandbox"]
    assert job_overrides(["agent=ppo"]) == ["task=fleet", "agent=ppo"]
    assert job_overrides(["task=fleet"]) == ["agent=direct", *RISK, "task=fleet"]
    for words in (["task=fleet", "agent.heads=[8]"], ["task=portfolio", "agent=sac"], ["task=fleet", "+preset=x"]):
        assert job_overrides(words) == words


def test_one_account_does_without_a_lookback_agent_for_which_bars_are_too_few(tmp_path):
    words = ["data=synthetic", "data.symbols=2", "data.bars=600", "features.names=[return_1]"]
    for more, is_left_out in (
        (["data.bars=600"], True),
        (["data.bars=900"], False),
        (["task=fleet", "agent=ppo"], False),
    ):
        config = resolve(job_overrides([*words, *more]))
        job = Job(config, Run.create(tmp_path, "job", {}), Console(quiet=True))
        job.panel = build_panel(config)
        assert needs_no_lookback(job).startswith("left out: the lookback agent is trained on half") == is_left_out
        if not is_left_out and len(job.panel) == 600:
            with pytest.raises(DataError, match=r"give \d+ bars, or raise the first of train.shares"):
                check_bars(job)


def test_a_job_takes_a_stated_risk_that_train_presets_and_other_methods_do_not():
    config = resolve(job_overrides(["data=sandbox"]))
    assert config.risk == RiskOptions(0.1, "inverse_volatility", 0.04)
    assert config.market.limits.position_cap_fraction == 0.5
    assert config.market.orders.minimum_trade == 0  # the band and the policy's zone are in its place
    for words in (["+preset=planted"], ["agent=ppo"], ["task=fleet", "agent.heads=[8]"]):
        other = resolve(job_overrides(words))
        assert not other.risk.is_on
        assert other.market.limits.position_cap_fraction == 0.15
    smaller = resolve(job_overrides(["data=sandbox", "risk.target_volatility=0.02"]))
    assert (smaller.risk.target_volatility, smaller.risk.tracking_error) == (0.02, 0.008)
    own = resolve(
        job_overrides(["data=sandbox", "risk.base=cash", "risk.target_volatility=null", "market.position_cap=1"])
    )
    assert not own.risk.is_on
    assert own.market.limits.position_cap_fraction == 1


class AskedError(Exception):
    """Ends a stage with the configuration of the run that it would train."""


def asked_to_train(config: Plan) -> Path:
    raise AskedError(config)


def test_windows_of_an_agent_are_rolled_only_where_a_policy_reads_them(tmp_path, monkeypatch):
    monkeypatch.setattr(agents_stage, "train_quietly", asked_to_train)
    monkeypatch.setattr(agents_stage, "lookback_run", lambda job: job.config.job.lookback)
    reads = ["task=fleet", "agent=direct", "agent.dictionary=[lags,windows]"]
    for words, lookback in (
        ([], 250),
        (["task=fleet", "agent=ppo"], None),
        (["job.lookback=given"], "given"),
        (reads, None),
    ):
        config = resolve([*SMALL, *words])
        job = Job(config, Run.create(tmp_path, "job", config.to_dict()))
        agent = str(Run.create(job.folder("lookback"), "lookback", {}).folder)
        with pytest.raises(AskedError) as asked:
            train_fleet(job, job.folder("agents"))
        assert asked.value.args[0].features.leadlag.lookback == (lookback or agent)


@pytest.fixture
def job(tmp_path):
    ppo = ["task=fleet", "agent=ppo", "agent.network=mlp_tiny", "agent.heads=[8]"]
    config = resolve([*ppo, *SMALL, "features.leadlag.lookback=40", f"runs={tmp_path}"])
    job = Job(config, Run.create(tmp_path, "job", config.to_dict()))
    job.panel = build_panel(config)
    Run.create(job.folder("lookback"), "lookback", {})
    return job


def test_the_stage_leaves_a_run_and_says_in_a_line_what_became_of_its_agents(job):
    folder = job.folder("agents")
    found = train_fleet(job, folder)
    assert found.line.split(" agents")[0].endswith("of 3")
    (section,) = found.sections
    assert len(section.rows) == 3
    assert len(section.figures) == 2
    assert set(found.shown["Agents"]) <= set(section.header)
    run = only_run(folder)
    assert stored_plan(run).features.leadlag.lookback == 40
    _report_shows(job.run.folder, run)


def _report_shows(job, run):
    shown = CliRunner().invoke(app, ["inspect", str(job), "--agents", "--draws", "50"], env={"COLUMNS": "200"})
    assert shown.exit_code == 0, shown.output
    for title in ("Agents", "Agents out-of-sample", "Agents together"):
        assert title in shown.output
    assert "diversification ratio" in shown.output
    assert (run / "fleet.html").stat().st_size > 100_000


def test_the_seed_and_shares_are_those_of_the_job(tmp_path):
    config = replace(resolve(SMALL), seed=7)
    made = fleet_config(config, tmp_path, 60)
    assert made.seed == 7
    np.testing.assert_array_equal(made.train.shares, config.train.shares)
