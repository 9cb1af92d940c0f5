"""The fleet at a glance."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pacesetter.dashboard.fleet import figures_of, fleet_folder, sorted_fleet, tiles_figure
from pacesetter.evaluation.fleet_page import read_agents


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
    (inside / "fleet.csv").touch()
    assert fleet_folder(tmp_path) == inside
