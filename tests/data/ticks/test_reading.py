"""Files of ticks: trades, quotes and several series in one file; what cannot be read is said with its row.

Runs `jobs.ticks`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from pacesetter.data.ticks import read_ticks
from pacesetter.errors import ConfigError, DataError
from pacesetter.jobs.ticks import run_ticks
from pacesetter.lab.reproduce.bitflyer_btcbox import FOLDER

TIMES = pd.date_range("2020-01-01", periods=60, freq="s", tz="UTC")


def write(folder: Path, name: str = "a", **columns: object) -> None:
    pd.DataFrame({"time": TIMES.astype(str), "price": np.arange(1.0, 61)} | columns).to_csv(
        folder / f"{name}.csv", index=False
    )


def test_trades_quotes_and_numbers_are_read(tmp_path: Path) -> None:
    write(tmp_path)
    quotes = {"timestamp": TIMES.astype("int64") // 10**6, "bid": np.arange(1.0, 61), "ask": np.arange(3.0, 63)}
    pd.DataFrame(quotes).to_parquet(tmp_path / "b.parquet")
    (tmp_path / "LICENSE.txt").write_text("MIT")
    ticks = read_ticks(tmp_path)
    assert list(ticks) == ["a", "b"]
    np.testing.assert_array_equal(ticks["a"].times, ticks["b"].times)
    np.testing.assert_array_equal(ticks["b"].prices, np.arange(2.0, 62))
    assert ticks["a"].resolution == 10**9


def test_one_file_may_hold_all_series_and_the_last_of_a_stamp_counts(tmp_path: Path) -> None:
    rows = pd.DataFrame({"date": TIMES.repeat(2), "last": np.arange(1.0, 121), "symbol": "x"})
    pd.concat([rows, rows.assign(symbol="y")]).to_csv(tmp_path / "all.csv", index=False)
    ticks = read_ticks(tmp_path / "all.csv")
    assert list(ticks) == ["x", "y"]
    np.testing.assert_array_equal(ticks["x"].prices, np.arange(2.0, 121, 2))


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"time": TIMES[::-1].astype(str)}, r"^b\.csv row 3: ticks of b are out of order; sort them by time$"),
        ({"price": [0.0, *range(1, 60)]}, r"^b\.csv row 2: a price of 0\.0 is not a positive number$"),
        ({"time": ["soon", *TIMES.astype(str)[1:]]}, r"^b\.csv row 2: 'soon' is not a time"),
        ({"time": [1.6e9 + k if k < 30 else 1.6e12 + k for k in range(60)]}, r"^b\.csv has stamps of two resolutions"),
        ({"time": ["2020-01-01"] * 60}, r"^b\.csv: b has 1 ticks with stamps of their own; 50 are needed$"),
    ],
)
def test_what_cannot_be_read_is_one_sentence(tmp_path: Path, columns: dict[str, object], said: str) -> None:
    write(tmp_path)
    write(tmp_path, "b", **columns)
    with pytest.raises(DataError, match=said):
        read_ticks(tmp_path)


def test_a_folder_without_two_series_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"holds no ticks; give data\.path= a folder"):
        read_ticks(tmp_path)
    write(tmp_path)
    with pytest.raises(DataError, match=r"holds one series, a; lead–lag needs two or more$"):
        read_ticks(tmp_path)
    write(tmp_path, "b")
    with pytest.raises(ConfigError, match=r"^data\.latency names 'c', which is not in"):
        read_ticks(tmp_path, {"c": 1.0})


def test_the_command_leaves_a_table_and_a_report(tmp_path: Path) -> None:
    overrides = ["data=ticks", f"data.path={FOLDER}", "lag.max_lag=60", f"runs={tmp_path}"]
    finding, run = run_ticks(overrides, Console(quiet=True))
    assert finding.table().loc[0, "delay"] == 15
    assert (run.folder / "report.html").is_file()
    assert len(pd.read_csv(run.folder / "lags.csv")) == 121
    with pytest.raises(ConfigError, match=r"^'train\.steps=3' is unknown with data=ticks"):
        run_ticks([*overrides, "train.steps=3"], Console(quiet=True))
