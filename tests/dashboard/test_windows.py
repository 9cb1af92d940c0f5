"""Who leads whom, at any date and over any window."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pacesetter.build import Plan
from pacesetter.dashboard import texts, windows
from pacesetter.dashboard.windows import (
    Lens,
    chosen_windows,
    lookback_run,
    lookback_table,
    open_lens,
    open_panel,
    windows_figures,
)
from pacesetter.data.loading import load
from pacesetter.envs.lookback.batch import LookbackConfig
from pacesetter.errors import RunError
from pacesetter.leadlag.answer import StrengthMeasure, answer_window
from pacesetter.leadlag.lookback.policy import LookbackPolicy
from pacesetter.leadlag.study import Study
from pacesetter.panel import Panel
from pacesetter.runs import Run


@pytest.fixture(scope="module")
def lens(panel):
    return Lens(panel, "ccf_auc")


@settings(max_examples=20, deadline=None, derandomize=True)
@given(end=st.integers(-9, 400), lookback=st.integers(-9, 1000))
def test_any_pair_of_sliders_draws_the_answer_of_that_window(lens, panel, end, lookback):
    drawn = json.loads(json.dumps(lens.view(end, lookback).to_drawing(), allow_nan=False))
    last = min(max(end, 7), 319)
    length = min(max(lookback, 7), last)
    window = lens.series.observed_window(last, length)
    expected = answer_window(window, panel.symbols, StrengthMeasure("ccf_auc")).leadership
    order = [panel.symbols.index(name) for name in drawn["matrix"]["names"]]
    found = np.array(drawn["matrix"]["values"], dtype=float)
    np.testing.assert_allclose(found, expected[np.ix_(order, order)], rtol=1e-3)
    assert drawn["ranking"]["scores"] == sorted(drawn["ranking"]["scores"], reverse=True)
    assert drawn["told"] == {"end": f"{panel.index[last]:%Y-%m-%d}", "lookback": str(length)}


def test_the_page_and_the_report_have_the_same_links():
    panel = load("synthetic", symbols=6, bars=700, strength=0.9, groups=1, seed=3)
    study = Study(lookback=500, step=200, draws=100)
    view = Lens(panel, "ccf_peak").view(699, 500)
    report = study.run(panel).network
    assert report.number_of_edges() > 0
    assert dict(view.finding.network.edges) == dict(report.edges)
    tips = [arrow[-1] for arrow in view.to_drawing()["links"]["arrows"]]
    leader, follower, link = next(iter(report.edges(data=True)))
    assert any(text.startswith(f"{leader} → {follower}: {link['relation']}, {link['delay']:.0f} bars") for text in tips)
    assert "chance of any false link: 5%" in view.sentence.lower()


def test_a_persian_reader_has_no_english_unit_or_axis(lens, monkeypatch):
    monkeypatch.setattr(texts, "_readers", [lambda: "fa"])
    view = lens.view(200, 100)
    drawn = view.to_drawing()
    assert "روز" in view.sentence
    assert "days" not in view.sentence
    assert (drawn["matrix"]["row_title"], drawn["matrix"]["column_title"]) == ("پیشرو (قوی‌ترین در بالا)", "پیرو")
    assert "drawn" not in drawn["links"]["title"]


def test_a_planted_leader_is_linked_and_noise_is_not():
    rng = np.random.default_rng(0)
    moves = rng.normal(0, 0.01, (400, 4))
    moves[1:, 1] = 0.8 * moves[:-1, 0] + 0.2 * moves[1:, 1]  # B follows A by a bar; C and D are noise
    index = pd.date_range("2020-01-01 21:00", periods=400, freq="D", tz="UTC", unit="ns")
    closes = 100 * np.exp(moves.cumsum(axis=0))
    panel = Panel(index, tuple("ABCD"), ("close",), closes[None], np.ones(closes.shape, dtype=bool))
    drawn = Lens(panel, "ccf_lag1").view(399, 300).to_drawing()
    assert drawn["ranking"]["names"][0] == "A"
    leader, follower, *_ = drawn["links"]["arrows"][0]
    assert [drawn["links"]["names"][place] for place in (leader, follower)] == ["A", "B"]
    assert len(drawn["links"]["arrows"]) == 1


def test_intraday_bars_are_told_to_the_minute():
    index = pd.date_range("2020-01-01", periods=200, freq="h", tz="UTC", unit="ns")
    closes = 100 * np.exp(np.random.default_rng(0).normal(0, 0.01, (200, 2)).cumsum(axis=0))
    panel = Panel(index, ("A", "B"), ("close",), closes[None], np.ones(closes.shape, dtype=bool))
    assert Lens(panel, "ccf_lag1").view(30, 20).day == "2020-01-02 06:00"


def test_a_run_is_opened_by_its_name_and_nothing_else_is(runs, panel):
    job = next(runs.glob("*-job-*")).name
    assert open_lens(runs, job, "ccf_auc").panel.fingerprint == panel.fingerprint
    for name in ("absent", "..", f"../{runs.name}/{job}"):
        with pytest.raises(RunError, match="no run"):
            open_lens(runs, name, "ccf_auc")


def test_leadership_over_time_and_who_led_how_often(lens, panel):
    found = lens.leadership(60)
    assert found.table["contribution"].sum() == pytest.approx(1.0)
    assert len(found.timeline.data[0].x) == 260
    assert set(found.table["symbol"]) == set(panel.symbols)


def test_an_anomaly_is_marked_where_the_structure_breaks():
    panel = load("synthetic", symbols=4, bars=600)
    figure = Lens(panel, "ccf_auc").leadership(20).anomalies
    levels = [shape.y0 for shape in figure.layout.shapes]
    assert levels == [4.0, 8.0]
    assert all(value >= 4.0 for line in figure.data[1:] for value in line.y)


def test_stored_bars_are_opened_and_others_are_loaded(runs, panel, tmp_path):
    assert open_panel(next(runs.glob("*-job-*"))).fingerprint == panel.fingerprint
    run = Run.create(tmp_path, "x", Plan(data={"source": "synthetic", "symbols": 2, "bars": 50}).to_dict())
    assert len(open_panel(run.folder)) == 50


def test_lookback_policies_best_first(runs):
    job = next(runs.glob("*-job-*"))
    assert list(lookback_table(job)["policy"]) == ["constant 20", "agent"]
    assert lookback_table(next(runs.glob("*-live-*"))) is None
    assert lookback_run(job) is None


def test_the_run_of_the_agent_is_found_inside_a_main_job(tmp_path):
    run = Run.create(tmp_path / "lookback", "lookback", Plan(task=LookbackConfig()).to_dict())
    assert lookback_run(tmp_path) == run.folder


def test_the_agent_is_asked_at_each_test_bar_and_told_its_last_answer(tmp_path, panel, monkeypatch):
    class Growing(LookbackPolicy):
        def choose(self, panel, t, previous):
            return previous + 1

    run = Run.create(tmp_path, "lookback", Plan(task=LookbackConfig()).to_dict())
    monkeypatch.setattr(windows, "load_lookback", lambda folder, panel: Growing())
    chosen = chosen_windows(run.folder, panel)
    assert chosen.tolist() == list(range(1, 65))  # a fifth of 320 bars is left for the test
    assert chosen.index[-1] == panel.index[-1]


def test_the_agents_windows_stand_beside_fixed_ones(panel):
    chosen = pd.Series([20, 20, 60, 250], panel.index[:4])
    course, shares = windows_figures(chosen)
    assert [line.name for line in course.data] == ["agent", *(f"fixed {bars}" for bars in (10, 20, 60, 120, 250))]
    assert dict(zip(shares.data[0].x, shares.data[0].y, strict=True)) == {"20": 0.5, "60": 0.25, "250": 0.25}
