"""What an agent did in a stored episode."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from pacesetter.dashboard import behaviour
from pacesetter.errors import RunError
from pacesetter.evaluation.backtest.episode import Episode


@pytest.fixture
def folder(runs: Path) -> Path:
    return next(runs.glob("*-trader-*"))


def _fills(times: pd.DatetimeIndex) -> pd.DataFrame:
    """A buys at every bar; B buys, holds, sells in turn."""
    rows = {
        "symbol": ["A", "B"] * len(times),
        "ordered": np.ravel([[1.0, (1, 0, -1)[k % 3]] for k in range(len(times))]),
    }
    return pd.DataFrame(rows, times.repeat(2))


def test_episodes_of_a_run(folder, runs):
    assert list(behaviour.episode_folders(folder)) == [".", "evaluation"]
    assert behaviour.episode_folders(next(runs.glob("*-job-*"))) == {}


def test_shares_of_orders_by_symbol():
    shares = behaviour.order_shares(_fills(pd.date_range("2020-01-01", periods=6, freq="h", tz="UTC")))
    assert shares.loc["A"].tolist() == [1.0, 0.0, 0.0]
    assert shares.loc["B"].tolist() == pytest.approx([1 / 3, 1 / 3, 1 / 3])
    assert [bar.name for bar in behaviour.orders_figure(shares).data] == ["buy", "hold", "sell"]


def test_intraday_orders_by_hour_and_daily_ones_by_weekday():
    hourly = behaviour.orders_by_hour(_fills(pd.date_range("2020-01-01", periods=3, freq="h", tz="UTC")))
    assert hourly.loc["B"].tolist() == [1.0, 0.0, -1.0]
    assert list(behaviour.when_figure(hourly).data[0].x) == ["00:00", "01:00", "02:00"]
    closes = pd.DatetimeIndex(["2020-03-09 20:00", "2020-03-10 20:00", "2020-03-11 21:00"], tz="UTC")  # summer ends
    daily = behaviour.orders_by_hour(_fills(closes))
    assert list(behaviour.when_figure(daily).data[0].x) == ["Mon", "Tue", "Wed"]


def test_reward_components_of_a_validation_and_none_of_a_judged_episode(folder):
    parts = behaviour.reward_parts(folder)
    assert list(parts.columns) == ["reward", "reward_pnl", "reward_cost"]
    figure = behaviour.reward_figure(parts)
    assert [line.name for line in figure.data] == ["reward", "pnl", "cost"]
    assert figure.data[0].y[-1] == pytest.approx(parts["reward"].sum())
    assert behaviour.reward_parts(folder / "evaluation").empty


def test_a_trained_agent_is_explained(trained_run):
    pytest.importorskip("captum")
    titles = [finding.title for finding in behaviour.explain(trained_run)]
    assert titles[:4] == ["Attribution by feature", "Attribution by asset", "Attribution by lag", "Action distribution"]


def test_what_is_no_single_agent_is_left_to_the_report(monkeypatch, tmp_path):
    monkeypatch.setattr(behaviour, "StoredRun", lambda folder: SimpleNamespace(policy="a master"))
    with pytest.raises(RunError, match="in the run's report"):
        behaviour.explain(tmp_path)


def test_a_replay_shows_the_past_only(folder):
    episode = Episode.load(folder)
    half = behaviour.cut_episode(episode, [], 50)
    assert half.summary()["bars"] == 50
    assert half.trades()["entry"].max() <= episode.ledger.index[49]
    one = behaviour.cut_episode(episode, ["S01"], 50)
    assert one.symbols == ("S01",)
    assert set(one.trades()["symbol"]) <= {"S01"}
    assert any("entry" in str(line.name) for line in one.figure().data)
