"""What a newcomer gets wrong about the programme, each told in one sentence, and nothing is left behind."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from pacesetter.cli import app
from pacesetter.data.synthetic import Synthetic
from pacesetter.errors import PacesetterError
from pacesetter.jobs import resolve
from pacesetter.jobs.run.train import train


def refusal(*words: str) -> str:
    """The one sentence with which a command ends."""
    found = CliRunner().invoke(app, list(words)).exception
    assert isinstance(found, PacesetterError), found
    told = str(found)
    assert "\n" not in told
    return told


@pytest.fixture
def bars(tmp_path: Path) -> Path:
    """A file of three symbols with sentiment."""
    wide = Synthetic(symbols=3, bars=300, groups=1, freq="1h", sentiment_strength=0.5).read().to_frame()
    path = tmp_path / "bars.parquet"
    wide.rename_axis("timestamp").stack("symbol", future_stack=True).reset_index().to_parquet(path)
    return path


@pytest.mark.parametrize("command", [("train",), ("lab", "programme")])
def test_symbols_of_a_preset_that_the_file_lacks(command: tuple[str, ...], bars: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    told = refusal(*command, "+preset=original", "data=parquet", f"data.path={bars}", f"runs={runs}")
    assert told.startswith("the data have no SPY, QQQ, AAPL")
    assert "known: S0, S1, S2; name others by task.symbols" in told
    assert not list(runs.glob("*"))


def test_sentiment_out_of_its_range(bars: Path, tmp_path: Path) -> None:
    table = pd.read_parquet(bars)
    table.loc[4, "sentiment"] = 1.7
    table.to_parquet(bars)
    runs = tmp_path / "runs"
    told = refusal("lab", "programme", "data=parquet", f"data.path={bars}", f"runs={runs}")
    assert "sentiment 1.7 is outside [0, 1] [sentiment_range]" in told
    assert "keep them with data.allow=[sentiment_range]" in told
    assert not list(runs.glob("*"))


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("train", "--launch", "tune", "data=sandbox", "tune.trials=0"), "tune.trials=0 must be 1 or more"),
        (("train", "--continuous"), "--continuous changes the orders of a trained run; give it by --from RUN"),
        (("train", "--from", "run", "--resume", "run"), "--from begins one run of its own; leave --resume"),
        (("train", "--from", "run"), "run is not a run"),
        (("inspect", "run", "--draws", "50"), "--draws is for intervals of a fleet's agents; give --agents too"),
        (("lab", "programme", "programme.trials=-1"), "programme.trials=-1 must be 0 or more"),
        (("lab", "programme", "programme.top=0"), "programme.top=0 must be 1 or more"),
        (("lab", "programme", "programme.folds=1"), "programme.folds=1 is not a walk-forward"),
    ],
)
def test_options_that_do_not_go_together_or_are_out_of_range(words: tuple[str, ...], told: str) -> None:
    assert refusal(*words).startswith(told)


def test_gates_without_their_subject(tmp_path: Path) -> None:
    small = ("data.symbols=2", "data.bars=300", "data.groups=1", "task.window_bars=2", "task.episode_bars=20")
    brief = ("agent=ppo_small", "agent.n_steps=16", "agent.batch_size=32", "train.envs=2", "train.steps=64")
    seen = ("features.names=[return_1]", "features.leadlag.lookback=null")
    run = train(resolve(["data=synthetic", *small, *brief, *seen, f"runs={tmp_path}"])).run
    assert CliRunner().invoke(app, ["evaluate", str(run.folder), "--fast", "--draws", "20"]).exit_code == 0
    judged = CliRunner().invoke(app, ["validate", str(run.folder), "gates=phase_c"])
    assert judged.exit_code == 1
    said = " ".join(judged.output.split())
    assert "NOT APPLICABLE: the gates 'phase_c' are about" in said
    assert "which the run was trained without." in said
