"""The page of a run that chooses windows: over time, by regime, behind the optimum; and by name while it learns."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from pacesetter.build import Plan
from pacesetter.dashboard import settings
from pacesetter.dashboard.choices import has_choices, read_choices
from pacesetter.dashboard.live import read_live
from pacesetter.envs.lookback.batch import LookbackConfig
from pacesetter.errors import RunError
from pacesetter.evaluation.lookback.pictures import INDEX, LINK, REGIME
from pacesetter.runs import Run

DAYS = pd.date_range("2020-01-01", periods=60, tz="UTC")


@pytest.fixture
def judged(tmp_path: Path) -> Path:
    """What `pacesetter evaluate` leaves of a lookback run."""
    config = Plan(name="windows", data={"source": "synthetic"}, task=LookbackConfig())
    run = Run.create(tmp_path, "windows", config.to_dict())
    rng, folder = np.random.default_rng(0), run.folder / "evaluation"
    folder.mkdir()
    windows = pd.DataFrame({"bar": np.arange(60), "agent": rng.choice([10, 20], 60), "constant 10": 10}, DAYS)
    windows = windows.assign(optimum=20, **{INDEX: 100.0, LINK: np.where(np.arange(60) % 5, np.nan, 0.2)})
    windows.assign(**{REGIME: np.where(np.arange(60) < 40, "bull", "bear")}).to_parquet(folder / "windows.parquet")
    rewards = pd.DataFrame({"agent": 0.1, "constant 10": 0.05, "optimum": 0.3}, DAYS)
    rewards.to_parquet(folder / "returns.parquet")
    result = {
        "task": "lookback",
        "policy": "agent",
        "sentence": "No evidence: as a test.",
        "is_evidence": False,
        "headline": "No evidence",
    }
    result |= {
        "rival": "constant 10",
        "windows": {"10": {}, "20": {}},
        "gates": [],
        "intervals": {"agent": [0.1, 0.0, 0.2]},
    }
    (folder / "evaluation.json").write_text(json.dumps(result | {"figures": {"agent": {"reward": 0.1}}}))
    run.finish()
    return run.folder


def test_pictures_have_what_was_stored(judged: Path) -> None:
    figures = read_choices(judged).figures()
    assert has_choices(judged)
    assert {trace.name for trace in figures["course"].data} == {INDEX, LINK, "agent", "constant 10", "optimum"}
    assert [trace.name for trace in figures["regimes"].data] == ["bull (40 bars)", "bear (20 bars)"]
    assert all(sum(trace.y) == pytest.approx(1.0) for trace in figures["regimes"].data)
    regret = {trace.name: trace.y[-1] for trace in figures["regret"].data}
    assert regret == pytest.approx({"agent": 60 * 0.2, "constant 10": 60 * 0.25})


def test_the_page_shows_them(judged: Path) -> None:
    before = settings.current_settings()
    settings.use(settings.Settings(runs=judged.parent))
    try:
        app = AppTest.from_string("from pacesetter.dashboard.views import PAGES; PAGES['agent']()", default_timeout=600)
        app.run()
    finally:
        settings.use(before)
    assert not app.exception
    assert not app.error
    assert "No evidence: as a test." in [text.value for text in app.markdown]
    assert len(app.get("plotly_chart")) == 3


def test_an_evaluation_without_its_market_is_refused(judged: Path) -> None:
    path = judged / "evaluation" / "windows.parquet"
    pd.read_parquet(path).drop(columns=INDEX).to_parquet(path)
    with pytest.raises(RunError, match="earlier version"):
        read_choices(judged)


def test_live_training_names_windows(tmp_path: Path) -> None:
    task = {"problem": "lookback", "windows": {"grid": [10, 20, 40], "longest": 40, "seen": [10, 20, 40]}}
    run = Run.create(tmp_path, "live", {"train": {"steps": 10}, "task": task})
    run.log(step=5, reward=0.1, action_mix=[0.5, 0.25, 0.25])
    assert [str(name) for name in read_live(run.folder, "running").mix.columns] == ["10 bars", "20 bars", "40 bars"]
