"""The pipeline from bars to report, and what a failing stage leaves behind.

Runs `jobs.pipeline.judge_stage`, `jobs.pipeline.show`.
"""

from __future__ import annotations

import io
import json
import os
import signal
from dataclasses import replace

import pytest
from rich.console import Console

from pacesetter.build import stored_plan
from pacesetter.errors import ConfigError, DataError
from pacesetter.jobs import STAGES, resolve, run_job
from pacesetter.jobs.pipeline import main_job
from pacesetter.jobs.pipeline.agents_stage import job_overrides
from pacesetter.jobs.pipeline.main_job import PAGE
from pacesetter.jobs.pipeline.master_stage import judged_run
from pacesetter.jobs.pipeline.stages import train_quietly
from pacesetter.jobs.run.train import TrainingResult
from pacesetter.panel import Panel
from pacesetter.runs import Run


@pytest.fixture
def console():
    return Console(file=io.StringIO(), width=120)


def test_job_goes_from_bars_to_a_judged_report(tmp_path, console):
    short = ["job.lookback_steps=256", "job.direct_steps=3072", "job.draws=50"]
    job = run_job(resolve(job_overrides(["data=sandbox", f"runs={tmp_path}", "name=try", *short])), console)
    manifest = job.run.manifest
    assert manifest["finished"] is True
    assert set(manifest["costs"]) == set(job.findings)
    assert all(
        cost["peak_mb"] > 50 and cost["seconds"] >= 0 <= cost["processor_seconds"]
        for cost in manifest["costs"].values()
    )
    left = {"load/panel.parquet", "check/readiness.json", "judge/evaluation.json", "judge/memo.md", "report.html"}
    assert left <= set(manifest["artefacts"])
    assert manifest["data_fingerprint"] == Panel.load(job.folder("load") / "panel.parquet").fingerprint
    printed = console.file.getvalue()
    assert all(f"/{len(STAGES)} {stage}" in printed for stage in STAGES)
    assert stored_plan(judged_run(job)).agent.algorithm == "direct"
    assert "skipped  a direct policy allocates one account itself" in printed
    assert any(line in printed for line in ("No edge found", "Edge, not better than", "Better than all"))
    shown = [*_policies(job), *printed.split()]  # one with the returns of another is named in the sentence
    assert {"ridge", "lasso", "expected", "hold"} <= {name.strip(",;.") for name in shown}
    stored = json.loads((job.folder("judge") / "evaluation.json").read_text())
    walk = next(section for section in job.findings["judge"].sections if section.title == "Walk-forward")
    assert len(walk.rows) == len(stored["refits"]) == 3  # one account, refitted before each of three tests
    assert stored["served"]["bars"] < stored["figures"]["direct"]["bars"]
    titles = [section.title for name in PAGE for section in job.findings[name].sections]
    assert titles[0] == "Verdict"
    assert "Risk: 10% volatility a year around inverse volatility, views within a tracking error of 4%" in printed
    assert "Stated: 10% volatility a year around inverse volatility" in printed
    page = (job.run.folder / "report.html").read_text()
    assert all(title.split(" (")[0] in page for title in titles)
    again = run_job(job.config, console, stages="report")
    assert list(again.keys.values()) == list(job.keys.values())
    assert console.file.getvalue().count("  kept") == len(job.keys)  # in the column of seconds


def _policies(job):
    """Names in the table of the verdict."""
    verdict = next(section for section in job.findings["judge"].sections if section.title == "Verdict")
    return [row[0] for row in verdict.rows]


def test_second_job_starts_where_the_first_ended(tmp_path, console):
    config = resolve(["data=sandbox", f"runs={tmp_path}"])
    jobs = [run_job(config, console, stages="describe") for _ in range(2)]
    assert jobs[0].panel == jobs[1].panel
    assert jobs[0].keys == jobs[1].keys
    assert console.file.getvalue().count("kept") == 1
    old, new = (job.findings["describe"] for job in jobs)
    stored, read = (
        json.dumps([section.to_json() for section in found.sections], sort_keys=True) for found in (old, new)
    )
    assert stored == read


def test_other_settings_and_damaged_files_make_a_stage_work_again(tmp_path, console):
    job = run_job(resolve(["data=sandbox", f"runs={tmp_path}"]), console, stages="check")
    (kept,) = (tmp_path / "cache").iterdir()
    (kept / "readiness.json").write_text("{}")
    run_job(job.config, console, stages="check")
    run_job(resolve(["data=sandbox", f"runs={tmp_path}", "seed=1"]), console, stages="check")
    assert "kept" not in console.file.getvalue()
    assert len(list((tmp_path / "cache").iterdir())) == 2


def test_one_stage_runs_with_what_it_needs(tmp_path, console):
    job = run_job(resolve(["data=sandbox", f"runs={tmp_path}"]), console, stages="check")
    assert list(job.findings) == ["load", "check"]
    with pytest.raises(ConfigError, match="did you mean 'check'"):
        run_job(job.config, console, stages="chek")


def test_bars_that_are_refused_leave_no_folder(tmp_path, console):
    broken = tmp_path / "bars.csv"
    broken.write_text("date,symbol,close\n2020-01-02,A,1\n2020-01-03,A,-1\n")
    with pytest.raises(DataError, match=r"bars\.csv row 3 .*non_positive"):
        run_job(resolve(["data=csv", f"data.path={broken}", f"runs={tmp_path / 'runs'}"]), console)
    assert not list((tmp_path / "runs").iterdir())


def test_a_failing_stage_is_named_in_the_manifest(tmp_path, console):
    def fail(job, folder):
        raise DataError("the bars are odd")

    stages = {"load": STAGES["load"], "check": replace(STAGES["check"], work=fail)}
    with pytest.raises(DataError, match="the bars are odd"):
        run_job(resolve(["data=sandbox", f"runs={tmp_path}"]), console, stages="check", table=stages)
    manifest = json.loads(next(tmp_path.glob("*/manifest.json")).read_text())
    assert manifest["failed"] == {"stage": "check", "why": "the bars are odd"}
    assert manifest["finished"] is False


def test_what_the_job_cannot_train_is_refused_as_soon(tmp_path, console):
    wrong = (
        (["task=lookback"], "task=lookback is for"),
        (["task=fleet", "agent=a2c"], "agent=a2c does not support"),
        (["train.device=cuda:99"], r"train\.device=cuda:99 cannot be used here \(.+\); use cpu"),
    )
    for words, told in wrong:
        with pytest.raises(ConfigError, match=told):
            run_job(resolve(["data=sandbox", *words, f"runs={tmp_path}"]), console)
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("lag.lookback=1000", r"lag\.lookback=1000 is longer than the history of \d+ bars before the last"),
        ("lag.lookback=8Y", r"lookback=8Y is longer than the history of \d+ bars before"),
        (
            "task=fleet agent=ppo data.bars=100 lag.lookback=20",
            r"30 of 100 bars, and needs 253; give 844 bars, or raise the first of train\.shares",
        ),
        ("task=fleet data.bars=580 train.shares=[0.9,0.05]", "episode_bars=250 does not fit into 522 bars"),
        ("data.bars=844 agent.lags=400 task=fleet agent=direct", "agent=direct has 67 training bars behind"),
    ],
)
def test_too_few_bars_for_any_stage_are_refused_as_soon_as_they_are_loaded(tmp_path, console, words, told):
    config = resolve(["data=synthetic", "data.symbols=3", "data.bars=900", *words.split(), f"runs={tmp_path}"])
    with pytest.raises((ConfigError, DataError), match=told):
        run_job(config, console)
    assert not list(tmp_path.iterdir())  # neither a folder nor anything kept


@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize(("number", "ends"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)])
def test_a_job_that_a_signal_stops_says_so_and_goes_on_when_asked_again(tmp_path, console, monkeypatch, number, ends):
    config = resolve(["data=sandbox", f"runs={tmp_path}"])
    monkeypatch.setattr(main_job, "store_leadlag", lambda *_: os.kill(os.getpid(), number))
    with pytest.raises(ends):
        run_job(config, console, stages=("load", "check", "leadlag"))
    (folder,) = tmp_path.glob("*/manifest.json")
    manifest = json.loads(folder.read_text())
    assert (manifest["stopped"], manifest["finished"]) == ("interrupted", False)
    assert "stopped; run the same command to resume after 2 finished stages" in console.file.getvalue()
    again = run_job(config, console, stages=("load", "check"))
    assert again.run.manifest["finished"]
    assert console.file.getvalue().count(" kept") == 1
    assert {path.name.split("-")[0] for path in (tmp_path / "cache").iterdir()} == {"check"}  # of leadlag nothing


def test_a_job_ends_where_a_signal_cuts_the_training_of_a_stage_short(tmp_path, monkeypatch):
    cut = TrainingResult(Run(tmp_path), 7, 0.0, "", "signal")
    monkeypatch.setattr("pacesetter.jobs.run.train.train", lambda config, console: cut)
    with pytest.raises(SystemExit, match="143"):
        train_quietly(resolve(["data=sandbox"]))


def test_the_costs_of_a_job_are_those_of_its_lead_lag_stage_too(tmp_path, console):
    words = ["data=sandbox", "data.bars=200", f"runs={tmp_path}", "lag.draws=20"]
    job = run_job(resolve([*words, "costs=3"]), console, stages="leadlag")
    assert "net of costs of 3 bps a side" in " ".join(section.text for section in job.findings["leadlag"].sections)
    asked = run_job(resolve([*words, "costs=3", "lag.cost_bps=7"]), console, stages="leadlag")
    assert asked.config.lag.cost_bps == 7
