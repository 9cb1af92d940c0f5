"""`pacesetter train --launch cluster`: its tables, going on with what is left, and one sentence for every mistake.

Runs `cli.lab`, `jobs.launch.launch`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner

from pacesetter.build import build_panel
from pacesetter.cli import app
from pacesetter.errors import PacesetterError
from pacesetter.jobs.launch.workers import Launcher


def refused(*words: str) -> PacesetterError:
    """What the command raises, which `main` prints."""
    problem = CliRunner().invoke(app, ["train", "--launch", "cluster", *words]).exception
    assert isinstance(problem, PacesetterError)
    return problem


def test_a_run_that_fails_is_named_and_the_others_are_not_trained_again(
    small: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    panel = build_panel(small())
    bars = panel.to_frame().stack("symbol", future_stack=True).reset_index(names=["time", "symbol"])
    late = (bars["symbol"] == "S2") & (bars["time"] < panel.index[-60])  # in no bar of the training set
    bars[~late].to_csv(tmp_path / "bars.csv", index=False)
    overrides = [each for each in small.overrides if not each.startswith("data")]
    words = ["train", "--launch", "cluster", *overrides, "data=csv", f"data.path={tmp_path / 'bars.csv'}"]
    words += ["--groups", "2", "--seeds", "5", "launcher.workers=1"]
    first = CliRunner().invoke(app, words)
    assert "group000-fold00-seed5 done: 256 steps" in first.output
    assert "Score by fold and seed" in first.output
    assert "1 of 2 runs failed, run the same command to retry; group001-fold00-seed5: " in str(first.exception)
    assert "no bar can start an episode" in str(first.exception)
    (folder,) = small.runs.glob("*-cluster-*")
    runs = pd.read_csv(folder / "runs.csv")
    assert runs["state"].tolist() == ["done", "failed"]
    assert runs["steps"][0] == 256

    # What is left fails again; no new worker has to start for that.
    monkeypatch.setattr("pacesetter.jobs.launch.cluster._launcher", lambda launcher, config: Launcher())
    again = CliRunner().invoke(app, words)
    assert "1 of 2 runs to train" in again.output
    assert str(again.exception) == str(first.exception)
    kept = pd.read_csv(folder / "runs.csv")
    assert kept["tries"].tolist() == [1, 1]
    assert kept["worker"][0] == runs["worker"][0]
    pd.testing.assert_series_equal(kept["weights_hash"], runs["weights_hash"])
    assert list(small.runs.glob("*-cluster-*")) == [folder]


def test_mistakes_are_one_sentence(small: Any) -> None:
    assert "--seeds 0,x is not a list of whole numbers" in str(refused(*small.overrides, "--seeds", "0,x"))
    assert "the data have no NONE" in str(refused(*small.overrides, "task.symbols=[S0,NONE]", "--groups", "2"))
    assert "9 groups of 3 symbols" in str(refused(*small.overrides, "--groups", "9"))
    assert "task=lookback uses all of them together" in str(refused("data=sandbox", "task=lookback"))
    assert "did you mean 'workers'" in str(refused(*small.overrides, "launcher.worker=2"))
    assert not small.runs.exists()
    assert "--groups, --seeds and --folds are those of --launch cluster" in str(
        CliRunner().invoke(app, ["train", *small.overrides, "--groups", "2"]).exception
    )
    assert "did you mean 'sweep'" in str(CliRunner().invoke(app, ["train", "--launch", "swep"]).exception)
