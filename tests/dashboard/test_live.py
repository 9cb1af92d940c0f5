"""A run that is going on."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from pacesetter.dashboard.live import curve_figure, gate_rows, mix_figure, read_lines, read_live, read_metrics
from pacesetter.errors import RunError
from pacesetter.runs import Run


@pytest.fixture
def live(runs: Path):
    return read_live(next(runs.glob("*-live-*")), "running")


def test_half_a_line_is_left_for_the_next_time(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1}\n{"step": 2}\n{"st')
    assert read_lines(path) == [{"step": 1}, {"step": 2}]
    assert read_lines(tmp_path / "absent.jsonl") == []


def test_metrics_by_step_with_resources(live):
    assert list(live.metrics.index) == [100, 200, 300]
    assert live.latest("reward") == 3.0
    assert live.latest("memory_mb") == 700
    assert live.latest("update") == 2.0
    assert live.latest("no such metric") is None


def test_time_left_is_steps_over_rate(live):
    assert (live.step, live.steps) == (300, 1000)
    assert live.seconds_left == pytest.approx(14.0)
    assert replace(live, status="finished").seconds_left is None


def test_a_run_that_is_silent_for_long_is_told(live):
    assert not live.is_quiet
    assert replace(live, quiet_seconds=1e4).is_quiet
    assert not replace(live, quiet_seconds=1e4, status="finished").is_quiet


def test_gates_against_their_limits(live):
    rows = gate_rows(live).set_index("gate")
    assert not rows.loc["most used action", "passed"]
    assert rows.loc["most used action", "limit"] == "≤ 0.6"
    assert rows.loc["trade rate", "passed"]


def test_the_curriculum_stage_is_the_last_one_logged(live):
    assert live.stage == "2: clear trends, half costs"


def test_the_mix_has_the_names_of_the_orders(live):
    assert list(live.mix.columns[:2]) == ["hold", "buy small"]
    heat = mix_figure(live.mix).data[0]
    assert heat.z[0].tolist() == [0.4, 0.4, 0.4]


def test_several_runs_share_a_chart(live):
    figure = curve_figure({"a": live.metrics, "b": live.metrics[["entropy"]]}, "reward")
    assert [line.name for line in figure.data] == ["a"]
    assert list(figure.data[0].y) == [1.0, 2.0, 3.0]


def test_a_null_metric_is_no_value_and_no_metrics_are_an_empty_table(tmp_path):
    (tmp_path / "metrics.jsonl").write_text(json.dumps({"step": 1, "reward": None, "entropy": 1.0}) + "\n")
    assert read_metrics(tmp_path)["reward"].isna().all()
    assert read_metrics(tmp_path / "absent").empty


VALUES = {"agents that vary their orders": 0.4, "not a number": None}


def test_a_fleets_gates_are_those_with_a_value(tmp_path):
    run = Run.create(tmp_path, "fleet", {"train": {"steps": 10}, "task": {"problem": "fleet"}})
    gates = {name: {"name": name, "value": value, "sense": ">=", "limit": 0.8} for name, value in VALUES.items()}
    run.log(step=5, validation={"score": -0.9, "deterministic": {"sharpe": -2.8}, "stochastic": {"gates": gates}})
    live = read_live(run.folder, "running")
    assert gate_rows(live).to_numpy().tolist() == [["agents that vary their orders", "stochastic", 0.4, "≥ 0.8", False]]
    assert live.validations["score"].tolist() == [-0.9]


def test_a_master_is_shown_without_gates_or_mix(tmp_path):
    run = Run.create(tmp_path, "master", {"train": {"steps": 10}, "task": {"problem": "master"}})
    run.log(step=5, returns=1e-5, entropy=1.0, sharpe=0.2, cash=0.3, shares={"A": 0.7})
    run.log(step=5, validation={"score": 0.5, "deterministic": {"sharpe": 0.5, "cash": 0.3, "positions": 2.0}})
    live = read_live(run.folder, "finished")
    assert (live.step, live.latest("sharpe"), live.mix.empty, gate_rows(live).empty) == (5, 0.2, True, True)


def test_a_lookback_run_has_its_stage_and_no_trades(tmp_path):
    run = Run.create(tmp_path, "lookback", {"train": {"steps": 10}, "task": {"problem": "lookback"}})
    run.path("log.jsonl").write_text(json.dumps({"message": "episode 100, level 1, stage 20 to 120 bars"}) + "\n")
    run.log(step=5, entropy=1.0, trade_rate=0.0)
    live = read_live(run.folder, "running")
    assert (live.stage, live.latest("entropy"), live.latest("trade_rate")) == ("2: 20 to 120 bars", 1.0, None)


def test_a_run_that_trains_nothing_is_refused(tmp_path):
    run = Run.create(tmp_path, "sweep", {"overrides": []})
    with pytest.raises(RunError, match="trains nothing"):
        read_live(run.folder, "running")
