"""`pacesetter inspect`: the trades and the chart of a stored episode, and one sentence for a folder that has none."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pacesetter.cli import app
from pacesetter.data.synthetic import Synthetic
from pacesetter.envs import TradingEnv
from pacesetter.market.orders import Discrete


@pytest.fixture
def run(tmp_path: Path) -> Path:
    env = TradingEnv(Synthetic(symbols=1, bars=320, seed=2).read(), starts="fixed", record=True)
    env.reset()
    for step in range(60):
        env.step(Discrete.SELL_ALL if step % 3 else Discrete.BUY_LARGE)
    assert env.journal is not None
    return env.journal.save(tmp_path / "runs" / "one")


def test_inspect_prints_trades_and_says_where_the_chart_is(command, run):
    shown = command("inspect", "runs/one", "--trades", "3")
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.count("S0") == 3
    assert "of them won; largest drawdown" in shown.stdout
    for name in ("episode.html", "episode.png", "trades.csv"):
        assert f"→ runs/one/{name}" in shown.stdout
        assert (run / name).stat().st_size > 0


def test_a_narrow_console_leaves_columns_out_and_keeps_dates_whole(run):
    shown = CliRunner(env={"COLUMNS": "80"}).invoke(app, ["inspect", str(run), "--trades", "3"]).output
    assert len(re.findall(r"│ S0     │ \d{4}-\d\d-\d\d │ \d{4}-\d\d-\d\d │", shown)) == 3


@pytest.mark.parametrize("content", [None, b"", b"PAR1 no parquet PAR1"])
def test_bad_folder_is_one_sentence_and_exit_2(command, run, content):
    ledger = run / "ledger.parquet"
    ledger.unlink()
    if content is not None:
        ledger.write_bytes(content)
    shown = command("inspect", "runs/one")
    assert shown.returncode == 2
    assert shown.stderr.startswith("error: runs/one")
    assert len(shown.stderr.strip().splitlines()) == 1


def test_folder_of_runs_names_those_inside(command, run):
    shown = command("inspect", "runs")
    assert shown.returncode == 2
    assert shown.stderr.strip() == "error: runs has no ledger.parquet; give one of runs/one"


def test_of_a_main_job_the_judged_episode_is_replayed(command, run):
    (run.parent / "job").mkdir()
    run.rename(run.parent / "job" / "judge")
    shown = command("inspect", "runs/job", "--trades", "1")
    assert shown.returncode == 0, shown.stderr
    assert "→ runs/job/judge/trades.csv" in shown.stdout
