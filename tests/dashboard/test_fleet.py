"""The fleet at a glance."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pacesetter.dashboard.fleet import figures_of, fleet_folder, multiples_figure, sorted_fleet, tiles_figure
from pacesetter.evaluation.fleet.agents import read_agents


@pytest.fixture
def fleet(runs: Path):
    return read_agents(next(runs.glob("*-fleet-*")))


def test_every_agent_has_a_tile_and_strugglers_are_marked(fleet):
    heat = tiles_figure(fleet, "sharpe").data[0]
    texts, hints = np.ravel(heat.text), np.ravel(heat.customdata)
    assert np.isfinite(np.array(heat.z, dtype=float)).sum() == len(fleet) == 143
    struggling = fleet["reason"] != ""
    assert 0 < struggling.sum() == sum("✕" in text for text in texts)
    assert sum("no signal" in hint for hint in hints) == struggling.sum()


def test_every_agent_has_a_small_curve_inside_its_frame_and_strugglers_their_reason(fleet):
    rng = np.random.default_rng(0)
    curves = pd.DataFrame(rng.normal(size=(5, 143)), [10, 20, 30, 40, 50], fleet["symbol"])
    curves["A007"] = np.nan  # never validated
    zero, well, weak, names = multiples_figure(curves, fleet).data
    assert [text for text in names.text if "✕" in text] == [f"{name} ✕ no signal" for name in _weak(fleet)]
    assert len(weak.x) == 6 * len(_weak(fleet))
    assert len(well.x) + len(weak.x) == len(zero.x) * 2 == 6 * 143
    frame = 2  # of the third agent, in the first row
    x, y = (np.array(values).reshape(-1, 6)[frame, :5] for values in (well.x, well.y))
    assert fleet["reason"][:3].eq("").all()
    assert ((x > frame) & (x < frame + 1)).all()
    assert ((y > 0) & (y < 1)).all()
    assert np.corrcoef(y, curves["A002"])[0, 1] == pytest.approx(1.0)
    assert well.text[frame * 6] == f"A002 {curves['A002'].iloc[0]:+.2f}"


@pytest.mark.parametrize("steps", [0, 1])
def test_a_fleet_that_was_validated_once_or_never_has_frames_all_the_same(fleet, steps):
    curves = pd.DataFrame(np.zeros((steps, 143)), range(steps), fleet["symbol"])
    figure = multiples_figure(curves, fleet)
    assert len(figure.data[-1].text) == 143
    assert len(figure.data[1].y) == (steps + 1) * (143 - len(_weak(fleet)))


def _weak(fleet: pd.DataFrame) -> list[str]:
    return fleet["symbol"][fleet["reason"] != ""].tolist()


@pytest.mark.parametrize(("by", "best"), [("sharpe", "max"), ("drawdown", "min")])
def test_the_best_comes_first_whatever_good_means(fleet, by, best):
    assert sorted_fleet(fleet, by)[by].iloc[0] == getattr(fleet[by], best)()
    assert sorted_fleet(fleet, by, worst_first=True)[by].iloc[-1] == getattr(fleet[by], best)()


def test_figures_are_the_numeric_columns(fleet):
    assert figures_of(fleet) == ["score", "sharpe", "drawdown", "sell", "hold", "buy"]


def test_a_fleet_is_found_in_its_run_and_inside_a_main_job(runs, tmp_path):
    own = next(runs.glob("*-fleet-*"))
    assert fleet_folder(own) == own
    assert fleet_folder(next(runs.glob("*-job-*"))) is None
    inside = tmp_path / "agents" / "run"
    inside.mkdir(parents=True)
    for name in ("manifest.json", "fleet.csv"):
        (inside / name).touch()
    assert fleet_folder(tmp_path) == inside
