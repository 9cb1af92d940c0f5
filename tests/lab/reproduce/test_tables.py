"""Studies on a user's table: ranking of stocks and momentum of futures find what was planted and meet what is known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pacesetter.errors import DataError
from pacesetter.lab.reproduce import reproduce
from pacesetter.lab.reproduce.network_momentum import FUTURES
from pacesetter.lab.reproduce.stock_ranking import daily_ic

SHARED = Path(__file__).resolve().parents[4] / "shared" / "data"
RANKING = SHARED / "ranking_nasdaq_closes_2013_2017.parquet"
FUTURES_FILE = SHARED / "futures104_daily_1969_2015.parquet"


def lines_of(name: str, path: Path) -> dict[str, float]:
    return {line.what: line.ours for line in reproduce(name, str(path)).comparisons}


def test_a_planted_reversal_is_ranked(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    moves = 0.02 * rng.standard_normal((1260, 40))
    moves[1:] -= 0.2 * moves[:-1]
    days = pd.bdate_range("2013-02-01", periods=1260)
    pd.DataFrame(np.cumprod(1 + moves, axis=0), days).to_csv(tmp_path / "closes.csv")
    lines = lines_of("stock_ranking", tmp_path / "closes.csv")
    assert lines["IC, one-day reversal"] == pytest.approx(0.2, abs=0.05)
    assert lines["IC, ridge shared by all stocks"] > 0.12
    assert lines["IC, direct, pooled"] > 0.12
    assert lines["IC, direct, each stock's own weights"] > 0.1
    assert 0 <= lines["share of random top 5 above it"] <= 1


def test_an_ic_is_the_mean_correlation_over_stocks() -> None:
    rng = np.random.default_rng(1)
    forecast, returns = rng.standard_normal((2, 50, 8))
    expected = [np.corrcoef(forecast[day - 1], returns[day])[0, 1] for day in range(30, 50)]
    np.testing.assert_allclose(daily_ic(forecast, returns, 30), expected)


def test_trends_are_traded_and_their_leaders_too(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    days = pd.bdate_range("2001-01-01", "2008-12-31", tz="UTC")
    drift = np.repeat(rng.choice([-1.0, 1.0], (len(days) // 120 + 1, 1)), 120, axis=0)[: len(days)]
    moves = 0.002 * drift + 0.01 * rng.standard_normal((len(days), len(FUTURES)))
    closes = pd.DataFrame(100 * np.cumprod(1 + moves, axis=0), days, list(FUTURES))
    table = closes.rename_axis("timestamp").reset_index().melt("timestamp", var_name="symbol", value_name="close")
    table.to_csv(tmp_path / "futures.csv", index=False)
    lines = lines_of("network_momentum", tmp_path / "futures.csv")
    assert lines["net Sharpe ratio, own trend (MACD)"] > 1
    assert lines["net Sharpe ratio, network trend by Lévy area"] > 1
    table[table["symbol"] != "GOLD"].to_csv(tmp_path / "futures.csv", index=False)
    with pytest.raises(DataError, match=r"has no GOLD; the study takes 28 futures"):
        reproduce("network_momentum", str(tmp_path / "futures.csv"))


@pytest.mark.skipif(not RANKING.is_file(), reason="ranking_nasdaq_closes_2013_2017.parquet is not beside this checkout")
def test_the_ranking_of_nasdaq_is_as_measured_independently() -> None:
    lines = lines_of("stock_ranking", RANKING)
    assert lines["IC, one-day reversal"] == pytest.approx(0.015, abs=0.001)
    assert lines["IC, direct, pooled"] == pytest.approx(0.019, abs=0.002)
    assert lines["IC, direct, each stock's own weights"] == 0
    assert lines["Sharpe ratio, equal weight of all"] == pytest.approx(1.47, abs=0.06)
    assert lines["share of random top 5 above it"] == pytest.approx(0.22, abs=0.05)


@pytest.mark.skipif(not FUTURES_FILE.is_file(), reason="futures104_daily_1969_2015.parquet is not beside this checkout")
def test_network_momentum_on_real_futures_is_within_its_error() -> None:
    lines = lines_of("network_momentum", FUTURES_FILE)
    assert abs(lines["net Sharpe ratio, network trend by Lévy area"] - 0.36) < 0.6  # two errors of ten years
    assert abs(lines["net Sharpe ratio, own trend (MACD)"] - 0.23) < 0.6


@pytest.mark.parametrize("name", ["stock_ranking", "network_momentum"])
def test_a_missing_file_is_one_sentence(name: str) -> None:
    with pytest.raises(DataError, match=r"^absent\.csv is not a file; give data\.path= a table"):
        reproduce(name, "absent.csv")
