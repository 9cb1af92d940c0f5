"""`data=ticks data.path=FOLDER`: one file for each series, or one file with a column `symbol`.

A file is text or Parquet. It has a time (`time`, `timestamp`, `date` or `datetime`) and a price (`price`, `last` or
`close`), or `bid` and `ask`, of which the mid is taken. Of several ticks with one stamp the last counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd

from pacesetter.arrays import Array
from pacesetter.errors import ConfigError, DataError, did_you_mean

__all__ = ["TickSeries", "read_ticks"]

TIMES, PRICES, QUOTES = ("time", "timestamp", "date", "datetime"), ("price", "last", "close"), ("bid", "ask")
SYMBOLS = ("symbol", "ticker", "asset")
TEXT, PARQUET = (".csv", ".txt", ".gz"), (".parquet", ".pq")
SECOND = 10**9  # nanoseconds
# Numbers below are counts of this unit since 1970; above the last, nanoseconds.
UNITS: dict[Literal["s", "ms", "us"], float] = {"s": 1e11, "ms": 1e14, "us": 1e17}
NOTICES = ("LICENSE", "NOTICE", "README")  # text beside the ticks
FEWEST = 50


@dataclass(frozen=True, eq=False)
class TickSeries:
    """One series of ticks: `times` (tick,) in nanoseconds since 1970, strictly increasing, and `prices` (tick,)."""

    name: str
    times: Array
    prices: Array

    @property
    def resolution(self) -> int:
        """Nanoseconds between stamps that differ at least: their greatest common divisor."""
        return int(np.gcd.reduce(np.diff(self.times)))

    @property
    def usual_gap(self) -> float:
        """Mean nanoseconds between two ticks."""
        return float(np.diff(self.times).mean())

    def shift_back(self, seconds: float) -> TickSeries:
        """The same with stamps moved back by a latency that is known."""
        return TickSeries(self.name, self.times - round(seconds * SECOND), self.prices)


def read_ticks(path: str | Path, latency: Mapping[str, float] | None = None) -> dict[str, TickSeries]:
    """All series below a folder, or of one file, by name; refuses ticks out of order, and prices that are none.

    latency   name → seconds by which its stamps are late, taken off them
    """
    path = Path(path)
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    files = [file for file in files if file.suffix in (*TEXT, *PARQUET) and file.stem not in NOTICES]
    if not files or not path.exists():
        raise DataError(f"{path} holds no ticks; give data.path= a folder of CSV or Parquet files, one for each series")
    series = {one.name: one for file in files for one in _series_of(file)}
    if len(series) < 2:
        raise DataError(f"{path} holds one series, {next(iter(series))}; lead–lag needs two or more")
    for name, seconds in (latency or {}).items():
        if name not in series:
            raise ConfigError(f"data.latency names '{name}', which is not in {path}{did_you_mean(name, series)}")
        series[name] = series[name].shift_back(float(seconds))
    return series


def _series_of(file: Path) -> list[TickSeries]:
    table = pd.read_parquet(file) if file.suffix in PARQUET else pd.read_csv(file)
    table.columns = [str(name).strip().lower() for name in table.columns]
    stamp, symbol = _column(table, TIMES), _column(table, SYMBOLS)
    if stamp is None:
        raise DataError(f"{file.name} has no time column; name one of {', '.join(TIMES)}")
    table = table.assign(_times=_nanoseconds(table[stamp], file), _prices=_prices(table, file))
    parts = table.groupby(symbol, sort=True) if symbol else [(file.stem.split(".")[0], table)]
    return [_check_series(str(name), part, file) for name, part in parts]


def _column(table: pd.DataFrame, names: tuple[str, ...]) -> str | None:
    return next((name for name in names if name in table), None)


def _nanoseconds(stamps: pd.Series, file: Path) -> Array:
    if pd.api.types.is_numeric_dtype(stamps):
        units = {_unit(float(stamps.min())), _unit(float(stamps.max()))}
        if len(units) > 1:
            raise DataError(f"{file.name} has stamps of two resolutions; give all in one unit since 1970")
        moments = pd.to_datetime(stamps, unit=units.pop(), utc=True, errors="coerce")
    elif pd.api.types.is_datetime64_any_dtype(stamps):
        moments = pd.to_datetime(stamps, utc=True)
    else:
        moments = pd.to_datetime(stamps, utc=True, errors="coerce", format="ISO8601")
    bad = np.flatnonzero(moments.isna())
    if len(bad):
        text = stamps.iloc[bad[0]]
        raise DataError(f"{file.name} row {bad[0] + 2}: '{text}' is not a time; write 2018-08-12 00:00:19")
    return np.asarray(moments.astype("datetime64[ns, UTC]").astype("int64"))


def _unit(stamp: float) -> Literal["s", "ms", "us", "ns"]:
    """The unit of a number of units since 1970, by its size."""
    return next((unit for unit, limit in UNITS.items() if abs(stamp) < limit), "ns")


def _prices(table: pd.DataFrame, file: Path) -> Array:
    price = _column(table, PRICES)
    if price is None and not set(QUOTES) <= set(table):
        raise DataError(f"{file.name} has no price; name a column {', '.join(PRICES)}, or bid and ask")
    values = table[price] if price is not None else (table["bid"] + table["ask"]) / 2
    numbers = pd.to_numeric(values, errors="coerce").to_numpy(dtype=np.float64)
    bad = np.flatnonzero(~(numbers > 0))
    if len(bad):
        raise DataError(f"{file.name} row {bad[0] + 2}: a price of {values.iloc[bad[0]]} is not a positive number")
    return numbers


def _check_series(name: str, part: pd.DataFrame, file: Path) -> TickSeries:
    times, prices = part["_times"].to_numpy(), part["_prices"].to_numpy()
    back = np.flatnonzero(np.diff(times) < 0)
    if len(back):
        row = int(part.index[back[0] + 1]) + 2
        raise DataError(f"{file.name} row {row}: ticks of {name} are out of order; sort them by time")
    is_last = np.append(np.diff(times) > 0, True)
    if is_last.sum() < FEWEST:
        raise DataError(f"{file.name}: {name} has {is_last.sum()} ticks with stamps of their own; {FEWEST} are needed")
    return TickSeries(name, times[is_last], prices[is_last])
