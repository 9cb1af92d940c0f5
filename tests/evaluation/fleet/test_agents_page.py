"""The agents of a fleet on a page and in a picture, from the files of a run."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.image import imread

from pacesetter.errors import ConfigError, RunError
from pacesetter.evaluation.fleet.agents import fleet_sentence, read_agents
from pacesetter.evaluation.fleet.agents_page import agents_section, curves_figure
from pacesetter.evaluation.fleet.agents_page import validation_curves as curves_of
from pacesetter.evaluation.fleet.agents_picture import fleet_picture

AGENTS = """symbol,score,sharpe,drawdown,trades,entropy,main_share,sell,hold,buy,state,reason,retrained
NA,0.1,0.5,0.1,12,1.2,0.5,0.2,0.5,0.3,ok,,
B,0.2,1.5,0.1,30,1.2,0.4,0.4,0.3,0.3,ok,,better
C,-0.1,-0.5,0.2,0,0.1,1.0,0.0,1.0,0.0,struggler,collapse,not better
"""


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """What a fleet's run leaves of three agents and two validations."""
    (tmp_path / "fleet.csv").write_text(AGENTS)
    lines = [
        {"step": 10, "agents_validation": {"NA": 0.1, "B": 0.2, "C": -0.1}},
        {"step": 10, "entropy": 1.0},
        {"step": 20, "agents_validation": {"NA": 0.5, "B": 1.5, "C": -0.5}},
    ]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    days = pd.date_range("2020-01-01", periods=30, tz="UTC")
    returns = np.random.default_rng(0).normal(0, 0.01, (30, 3))
    pd.DataFrame(returns, days, ["NA", "B", "C"]).to_parquet(tmp_path / "fleet_returns.parquet")
    return tmp_path


def test_the_section_has_a_row_for_each_agent_the_best_first(run: Path) -> None:
    section = agents_section(run)
    assert [row[0] for row in section.rows] == ["B", "NA", "C"]
    assert section.rows[-1][-2:] == ("collapse", "not better")
    assert "2 of 3 agents above the bar, 1 struggle (1 collapse); 2 retrained, 1 of them better" in section.text
    assert [trace.name for trace in section.figures[1].data] == ["sell", "hold", "buy"]


def test_curves_tell_strugglers_from_others(run: Path) -> None:
    curves = curves_of(run)
    assert curves.loc[20].to_dict() == {"NA": 0.5, "B": 1.5, "C": -0.5}
    above, weak, median = curves_figure(curves, read_agents(run)).data
    assert list(above.y) == [0.1, 0.5, None, 0.2, 1.5, None]
    assert list(weak.y) == [-0.1, -0.5, None]
    assert list(median.y) == [0.1, 0.5]


def test_a_fleet_without_strugglers_is_told_in_few_words(run: Path) -> None:
    table = read_agents(run).iloc[:1]
    assert fleet_sentence(table) == "1 of 1 agents above the bar, 0 struggle"


def test_the_picture_shows_groups_in_colours(run: Path) -> None:
    one = imread(fleet_picture(run, run / "one.png"))
    two = imread(fleet_picture(run, run / "two.png", {"good": ["NA", "B"], "weak": ["C"]}))
    assert one.shape == two.shape
    assert one.std() > 0.05
    assert (one != two).any()
    with pytest.raises(ConfigError, match="at most 3 groups, not 4"):
        fleet_picture(run, run / "no.png", {name: ["B"] for name in "abcd"})


def test_a_run_without_agents_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"has no fleet\.csv"):
        agents_section(tmp_path)
