"""Judged runs side by side, over the bars that they share."""

from __future__ import annotations

from pathlib import Path

import pytest

from pacesetter.data import load
from pacesetter.errors import ConfigError, DataError, RunError
from pacesetter.evaluation.backtest.backtest import market_bank
from pacesetter.evaluation.baselines.catalogue import make_baseline
from pacesetter.evaluation.judgement import judge_policy
from pacesetter.evaluation.report.compare import FOLDER, compare_section, find_judged
from pacesetter.evaluation.report.judgement_page import store_judgement
from pacesetter.features import feature_table


def bank_of(panel):
    return market_bank(panel, feature_table(panel, ["return_1"]))


def judged(folder: Path, name: str, first: int, bars: int = 420) -> Path:
    """A run folder with the judgement of a baseline from bar `first` on."""
    panel = load("synthetic", symbols=2, bars=bars, seed=5)
    policy = make_baseline(name, bank_of(panel))
    found = judge_policy(policy, panel, first, bank_of=bank_of, baselines=("cash",), draws=50)
    (folder / FOLDER).mkdir(parents=True)
    store_judgement(found, folder / FOLDER)
    return folder


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> list[Path]:
    folder = tmp_path_factory.mktemp("runs")
    return [judged(folder / "b", "hold", 300), judged(folder / "a", "equal_weight", 280)]


def test_runs_are_compared_over_the_bars_they_share(runs):
    section = compare_section([find_judged(run) for run in runs])
    assert [row[0] for row in section.rows] == ["a", "b"]
    assert [row[1] for row in section.rows] == ["equal_weight", "hold"]
    assert [row[-1] for row in section.rows] == ["evidence"] * 2
    assert section.text.startswith("2 runs over 119 bars")
    assert "is at or below the median in the other with probability 0." in section.text
    (figure,) = section.figures
    assert {len(line.x) for line in figure.data} == {119}


def test_a_comparison_takes_two_judged_runs_of_the_same_bars(runs, tmp_path):
    one = find_judged(runs[0])
    with pytest.raises(ConfigError, match="two runs or more"):
        compare_section([one])
    with pytest.raises(RunError, match="was not evaluated yet; run pacesetter evaluate"):
        find_judged(tmp_path)
    earlier = find_judged(judged(tmp_path / "early", "hold", 200, bars=300))
    with pytest.raises(DataError, match="evaluated on different bars"):
        compare_section([one, earlier])
