"""The ledger of trials: every run counts once, whoever writes at the same time."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pacesetter.errors import RunError
from pacesetter.evaluation.statistics.overfitting import overfitting_probability
from pacesetter.evaluation.statistics.trials import RETURNS, Trial, Trials
from pacesetter.runs import EVALUATION

WRITER = """
import sys
from pacesetter.evaluation.statistics.trials import Trial, Trials
for number in range(100):
    Trials(sys.argv[1]).add(Trial("data", "trading", f"{sys.argv[2]}-{number}", 0, 0.01))
"""


def test_each_run_counts_once_with_its_last_result(tmp_path: Path) -> None:
    ledger, first = Trials(tmp_path / "runs"), Trial("d1", "trading", "run-a", 0)
    assert ledger.of("d1", "trading") == []
    for trial in (
        first,
        Trial("d1", "trading", "run-b", 1, 0.02),
        Trial("d2", "trading", "run-c", 0, 0.9),
        Trial("d1", "lookback", "run-d", 0, 0.9),
        dataclasses.replace(first, sharpe=-0.01),
        Trial("d1", "trading", "run-e", 2),
        Trial("d1", "trading", "run-f", 3, float("nan")),
    ):
        ledger.add(trial)
    np.testing.assert_array_equal(ledger.sharpes_beside(first), [0.02, np.nan, np.nan])
    np.testing.assert_array_equal(ledger.sharpes_beside(Trial("d1", "fleet", "new", 0)), [-0.01, 0.02, np.nan, np.nan])
    assert [trial.seed for trial in ledger.of("d1", "trading")] == [0, 1, 2, 3]
    assert len(ledger.path.read_text().splitlines()) == 7  # nothing is ever taken out


def test_runs_inside_a_sweep_are_entered_beside_the_sweep(tmp_path: Path) -> None:
    sweep = tmp_path / "runs" / "sweep"
    inner = sweep / "runs" / "000-001"
    inner.mkdir(parents=True)
    assert Trials.for_runs(inner).path == inner / "trials.jsonl"
    (sweep / "manifest.json").write_text("{}")
    assert Trials.for_runs(inner).path == Trials.for_runs(tmp_path / "runs").path == tmp_path / "runs" / "trials.jsonl"


def test_runs_of_a_stage_at_work_are_entered_beside_the_main_job(tmp_path: Path) -> None:
    at_work = tmp_path / "runs" / "cache" / ".20260101T000000-run-abc-agents"
    assert Trials.for_runs(at_work).path == Trials.for_runs(tmp_path / "runs").path
    assert Trials.for_runs(tmp_path / "cache" / "runs").path == tmp_path / "cache" / "runs" / "trials.jsonl"


def test_the_choice_among_judged_trials_is_told_and_trials_on_other_data_are(tmp_path: Path) -> None:
    days = pd.bdate_range("2020-01-01", periods=320, tz="UTC")
    noise = pd.DataFrame(np.random.default_rng(0).normal(0, 0.01, (320, 4)), days)
    ledger, own = Trials(tmp_path), Trial("d", "trading", "0", 0)
    for column in noise:
        ledger.add(dataclasses.replace(own, run=str(column)))
    assert ledger.describe_others(own, noise[0]) == ""  # no other was judged yet
    for column in (1, 2, 3):
        (folder := tmp_path / str(column) / EVALUATION).mkdir(parents=True)
        bars = noise.iloc[100:] if column == 3 else noise  # the third was judged on fewer
        pd.DataFrame({"ppo": bars[column], "cash": 0.0}).to_parquet(folder / RETURNS)
    expected = overfitting_probability(noise[[0, 1, 2]].to_numpy())
    said = ledger.describe_others(own, noise[0])
    assert said.startswith("Among the 3 of 4 trials evaluated on these bars, the best in one half")
    assert said.endswith(f"with probability {expected:.2f}.")
    ledger.add(Trial("d and one bar more", "fleet", "later", 0))
    told = f"{said} Trials on other data, or on other bars of it, are not counted: 1 known."
    assert ledger.describe_others(own, noise[0]) == told


def test_writers_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path), name]) for name in "abc"]
    assert [writer.wait(600) for writer in writers] == [0, 0, 0]
    assert len(Trials(tmp_path).of("data", "trading")) == 300


@pytest.mark.parametrize("line", ["{", "[]", '{"run": "x"}', '{"data": 1, "other": 2}'])
def test_a_damaged_line_is_refused_by_its_number(tmp_path: Path, line: str) -> None:
    ledger = Trials(tmp_path)
    ledger.add(Trial("d", "trading", "run", 0))
    with ledger.path.open("a") as stream:
        stream.write(line + "\n")
    with pytest.raises(RunError, match=r"line 2 of .*trials\.jsonl is not a trial"):
        ledger.of("d", "trading")


def test_all_that_trade_the_same_bars_are_counted_together(tmp_path: Path) -> None:
    ledger = Trials(tmp_path)
    for task in ("trading", "fleet", "portfolio", "lookback"):
        ledger.add(Trial("d", task, f"of-{task}", 0))
    assert [trial.task for trial in ledger.of("d", "fleet")] == ["trading", "fleet", "portfolio"]
    assert [trial.task for trial in ledger.of("d", "lookback")] == ["lookback"]


def test_a_run_in_the_cache_of_the_main_job_counts_beside_the_runs(tmp_path: Path) -> None:
    kept = tmp_path / "runs" / "cache" / "agents-0123456789abcdef"
    kept.mkdir(parents=True)
    assert Trials.for_runs(kept).path == tmp_path / "runs" / "trials.jsonl"
