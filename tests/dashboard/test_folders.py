"""Run folders as a table."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pacesetter.dashboard.folders import (
    Filters,
    RunFacts,
    by_job,
    curves,
    equity_figure,
    find_runs,
    read_run,
    run_table,
)
from pacesetter.dashboard.tables import config_differences
from pacesetter.errors import RunError
from pacesetter.runs import write_tags


@pytest.fixture(scope="module")
def facts(runs: Path) -> dict[str, RunFacts]:
    found = [read_run(folder, runs) for folder in find_runs(runs)]
    return {run.name.split("-")[1]: run for run in found}


def test_every_kind_of_run_is_told_apart(facts):
    assert {name: (run.task, run.status) for name, run in facts.items()} == {
        "job": ("job", "finished"),
        "trader": ("trading", "finished"),
        "live": ("trading", "running"),
        "fleet": ("trading", "finished"),
        "damaged": ("", "damaged"),
    }
    assert facts["trader"].preset == "us"


def test_a_damaged_run_says_so_and_hides_no_other(facts):
    assert "manifest.json cannot be read" in facts["damaged"].problem
    assert len(run_table(facts.values())) == len(facts)


def test_runs_inside_runs_are_found_and_cache_and_bundles_are_not(tmp_path):
    for place in ("a/lookback/b", "cache/lookback-0/c", "a/checkpoints/best", "bundles/0001-fleet"):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "manifest.json").write_text("{}")
    assert [folder.name for folder in find_runs(tmp_path)] == ["b"]
    assert find_runs(tmp_path / "nowhere") == []


def test_runs_inside_a_job_stand_below_it(facts):
    job = replace(facts["job"], name="20260101-job")
    inside = replace(facts["trader"], name="20260101-job/agents/20260101-fleet", title="fleet")
    newer = replace(facts["trader"], name="20260202-other", started=job.started + timedelta(days=1))
    assert by_job([inside, job, newer]) == [newer, job, inside]
    assert inside.label.startswith("agents: fleet · ")
    assert run_table([inside])["label"].iloc[0].startswith("└ agents: fleet")


def test_tags_are_read_and_filter(runs, facts):
    folder = facts["trader"].folder
    write_tags(folder, ["good", "final"])
    try:
        run = read_run(folder, runs)
        assert run.tags == ("final", "good")
        assert Filters(tags=["good"]).keep(run)
        assert not Filters(tags=["bad"]).keep(run)
        assert write_tags(folder, remove=["good", "final"]) == []
        with pytest.raises(RunError, match="cannot be a tag"):
            write_tags(folder, ["a b"])
    finally:
        (folder / "tags.txt").unlink()


def test_curves_are_aligned_at_their_first_bar(facts):
    judged = curves([facts["trader"]]).judged
    line = equity_figure(judged, False, is_aligned=True).data[0]
    assert line.x[0] == 0
    assert line.x[-1] == len(judged[0].returns) - 1


def test_settings_in_which_runs_differ(facts):
    different = config_differences({name: facts[name].folder for name in ("trader", "live")})
    assert list(different["key"]) == ["train.steps"]
    assert config_differences({"a": facts["trader"].folder, "b": facts["trader"].folder}).empty


def test_a_judged_run_has_its_verdict_and_interval(facts, judgement):
    row = run_table([facts["trader"]]).iloc[0]
    own = judgement.intervals["equal_weight"]
    assert row["sharpe"] == pytest.approx(own.value)
    assert row["interval"] == f"{own.low:+.2f} … {own.high:+.2f}"
    assert row["verdict"] == judgement.verdict.headline


def test_a_regime_keeps_what_was_judged_in_it_and_shows_its_figures(facts, judgement):
    regime = judgement.regimes["bars"].idxmax()
    table = run_table(facts.values(), Filters(regime=regime))
    assert list(table["name"]) == [facts["trader"].name]
    assert table["sharpe"].iloc[0] == pytest.approx(judgement.regimes.loc[regime, "sharpe"])


def test_filters_by_task_data_preset_and_date(facts):
    def kept(**chosen):
        return {name for name, run in facts.items() if Filters(**chosen).keep(run)}

    today = facts["trader"].started.date()
    assert kept(tasks=["job"]) == {"job"}
    assert kept(data=["sample"]) == {"trader", "live", "fleet"}
    assert kept(presets=["us"]) == {"trader"}
    assert kept(since=today + timedelta(days=1)) == set()
    assert kept(until=today) == set(facts) - {"damaged"}
    assert kept() == set(facts)


@settings(max_examples=50, deadline=None, derandomize=True)
@given(since=st.none() | st.dates(date(2000, 1, 1), date(2040, 1, 1)), until=st.none() | st.dates())
def test_a_narrower_filter_never_shows_more(facts, since, until):
    wide = {run.name for run in facts.values() if Filters(since=since).keep(run)}
    narrow = {run.name for run in facts.values() if Filters(since=since, until=until, tasks=["trading"]).keep(run)}
    assert narrow <= wide


def test_curves_of_several_runs_and_the_problem_of_one(facts, tmp_path):
    broken = RunFacts(tmp_path, "broken", result={"policy": "x"})
    (tmp_path / "evaluation").mkdir()
    (tmp_path / "evaluation" / "evaluation.json").write_text("{}")
    found = curves([facts["trader"], facts["live"], broken])
    assert [each.policy for each in found.judged] == ["equal_weight"]
    assert list(found.metrics) == [facts["live"].label]
    assert "returns.parquet" in found.problems["broken"]
    assert found.metric_names() == ["reward", "entropy", "sharpe", "trade_rate"]
    names = [line.name for line in equity_figure(found.judged, with_baselines=True).data]
    assert names[1:] == ["cash", "hold"]
    assert "equal_weight" in names[0]
