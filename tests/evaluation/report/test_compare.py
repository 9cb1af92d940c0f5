"""Judged runs side by side, over the bars that they share."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pacesetter.data import load
from pacesetter.errors import ConfigError, DataError, RunError
from pacesetter.evaluation.baselines.catalogue import make_baseline
from pacesetter.evaluation.judgement import JudgedAccount, judge_policy
from pacesetter.evaluation.report.compare import compare_section, find_judged, find_matching
from pacesetter.evaluation.report.judgement_page import store_judgement
from pacesetter.evaluation.statistics.intervals import Interval
from pacesetter.evaluation.statistics.metrics import annual_return, max_drawdown, sharpe
from pacesetter.features import feature_table
from pacesetter.policies.market_rows import market_bank
from pacesetter.runs import EVALUATION


def bank_of(panel):
    return market_bank(panel, feature_table(panel, ["return_1"]))


def judged(folder: Path, name: str, first: int, bars: int = 420) -> Path:
    """A run folder with the judgement of a baseline from bar `first` on."""
    panel = load("synthetic", symbols=2, bars=bars, seed=5)
    policy = make_baseline(name, bank_of(panel))
    found = judge_policy(policy, JudgedAccount(panel, first, bank_of=bank_of), baselines=("cash",), draws=50)
    (folder / EVALUATION).mkdir(parents=True)
    store_judgement(found, folder / EVALUATION)
    return folder


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> list[Path]:
    folder = tmp_path_factory.mktemp("runs")
    return [judged(folder / "b", "hold", 300), judged(folder / "a", "equal_weight", 280)]


def test_runs_are_compared_over_the_bars_they_share(runs):
    section = compare_section([find_judged(run) for run in runs])
    assert [row[0] for row in section.rows] == ["a", "b"]
    assert [row[1] for row in section.rows] == ["equal_weight", "hold"]
    assert [row[-1] for row in section.rows] == ["Edge, compared with cash alone"] * 2
    assert section.text.startswith("2 runs over 119 bars")
    assert "is at or below the median in the other with probability 0." in section.text
    (figure,) = section.figures
    assert {len(line.x) for line in figure.data} == {119}


def test_figures_are_those_of_the_bars_that_all_share(runs):
    found = [find_judged(run) for run in runs]
    section = compare_section(found)
    rows = {row[0]: row for row in section.rows}
    by_name = {run.name: run for run in found}
    shared = found[0].returns.index.intersection(found[1].returns.index)
    assert len(by_name["a"].returns) > len(shared)  # else there is nothing to contradict
    for name, run in by_name.items():
        returns = run.returns.loc[shared, run.policy].to_numpy()
        year = run.bars_per_year
        assert rows[name][2].startswith(f"{sharpe(returns, year):+.2f} (")
        assert rows[name][3:5] == (f"{annual_return(returns, year):+.1%}", f"{max_drawdown(returns):.1%}")
    curve = {line.name.split()[0]: line.y[-1] for line in section.figures[0].data}
    years = len(shared) / by_name["a"].bars_per_year
    assert rows["a"][3] == f"{(curve['a'] / 100) ** (1 / years) - 1:+.1%}"  # the table says what the chart shows
    assert "Gates and verdict are those of each run's own bars." in section.text


def test_runs_of_the_same_bars_keep_their_own_figures(tmp_path):
    found = [find_judged(judged(tmp_path / name, name, 300)) for name in ("hold", "equal_weight")]
    section = compare_section(found)
    for row, run in zip(section.rows, sorted(found, key=lambda run: run.name), strict=True):
        assert row[2] == str(Interval(*run.result["intervals"][run.policy]))
    assert "own bars" not in section.text


def test_a_judgement_without_its_ledger_is_refused(runs, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(runs[1], copy)
    (copy / EVALUATION / "ledger.parquet").unlink()
    with pytest.raises(RunError, match="evaluate the run again"):
        compare_section([find_judged(copy), find_judged(runs[0])])


def test_a_comparison_takes_two_judged_runs_of_the_same_bars(runs, tmp_path):
    one = find_judged(runs[0])
    with pytest.raises(ConfigError, match="at least two runs"):
        compare_section([one])
    with pytest.raises(RunError, match="was not evaluated yet; run pacesetter evaluate"):
        find_judged(tmp_path)
    earlier = find_judged(judged(tmp_path / "early", "hold", 200, bars=300))
    with pytest.raises(DataError, match="evaluated on different bars"):
        compare_section([one, earlier])


def test_a_folder_in_which_nothing_was_evaluated_says_so(tmp_path):
    (tmp_path / "trained").mkdir()
    (tmp_path / "trained" / "manifest.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"no run in .* was evaluated; run pacesetter evaluate RUN first"):
        find_matching([tmp_path])
