"""Bars of several exchanges: each stamped at its own close, seen from the closes of one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pacesetter.data import load
from pacesetter.data.markets import AS_OF, exchange_of
from pacesetter.errors import ConfigError, DataError
from pacesetter.jobs import resolve
from pacesetter.leadlag.study import Study

SHARED = Path(__file__).resolve().parents[4] / "shared" / "data" / "us_japan_sectors_daily_2019_2025.parquet"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    days = pd.bdate_range("2024-03-04", periods=30)
    rows = [
        pd.DataFrame({"date": days, "symbol": name, "market": market, "open": price, "close": price})
        for market, name in (("XNYS", "XLK"), ("XTKS", "1617.T"))
        for price in [100.0 + np.arange(30)]
    ]
    table = pd.concat(rows)
    is_holiday = (table["market"] == "XTKS") & (table["date"] == "2024-03-20")  # Vernal Equinox Day
    table[~is_holiday].to_csv(tmp_path / "bars.csv", index=False)
    return tmp_path / "bars.csv"


def test_a_decision_after_new_yorks_close_knows_tokyos_close_of_the_same_date(file: Path) -> None:
    panel = load("markets", path=str(file))
    assert panel.index[0] == pd.Timestamp("2024-03-04 21:00", tz="UTC")
    assert panel.index[-1].hour == 20  # summer time in New York
    assert panel.close[0].tolist() == [100.0, 100.0]
    assert any(note.startswith(AS_OF) for note in panel.notes)


def test_a_holiday_is_not_observed(file: Path) -> None:
    panel = load("markets", path=str(file))
    day = panel.index.normalize() == pd.Timestamp("2024-03-20", tz="UTC")
    assert panel.mask[day].tolist() == [[True, False]]


def test_seen_from_tokyo_new_york_is_a_day_older(file: Path) -> None:
    panel = load("markets", path=str(file), decide="XTKS", symbols=("XLK", "1617.T"))
    assert panel.index[1] == pd.Timestamp("2024-03-05 06:00", tz="UTC")
    assert panel.close[1].tolist() == [100.0, 101.0]


def test_what_is_missing_is_one_sentence(tmp_path: Path, file: Path) -> None:
    bare = tmp_path / "bare.csv"
    pd.read_csv(file).drop(columns="market").to_csv(bare, index=False)
    with pytest.raises(DataError, match="has no column 'market'"):
        load("markets", path=str(bare))
    with pytest.raises(DataError, match=r"data\.decide=XLON has no bars here; the exchanges are XNYS, XTKS"):
        load("markets", path=str(file), decide="XLON")
    with pytest.raises(ConfigError, match=r"needs data\.path= or data\.symbols="):
        load("markets")
    with pytest.raises(ConfigError, match=r"the exchange of ABC\.ZZ is unknown"):
        exchange_of("ABC.ZZ")


@pytest.mark.proof
def test_the_preset_finds_us_sectors_ahead_of_japanese_ones_and_none_behind() -> None:
    if not SHARED.is_file():
        pytest.skip("us_japan_sectors_daily_2019_2025.parquet is not beside this checkout (../shared/data)")
    config = resolve(["+preset=us_japan", f"data.path={SHARED}"])
    options = config.data.options
    panel = load("markets", **options)
    result = Study(method="ccf_lag1", lookback=1500, step=200, draws=100).run(panel)
    japanese = [(a.endswith(".T"), b.endswith(".T")) for a, b in result.network.edges]
    assert japanese.count((False, True)) == len(japanese) > 50
    assert not any(symbol.endswith(".T") for symbol in result.table().index[:11])
