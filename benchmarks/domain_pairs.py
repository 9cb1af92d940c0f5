"""Bars of two domains in one file, for benchmarks/domain.py: a source and a target, bar by bar side by side.

Deciles have closes alone; their opens are written as their closes, so that an order
fills at the next close, as it does on closes-only data.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from pacesetter.data import load
from pacesetter.data.synthetic import Synthetic
from pacesetter.panel import Panel

__all__ = ["PAIRS", "SHARED", "Pair", "write_pair"]

NAME = Path("shared", "data", "us_japan_sectors_daily_2019_2025.parquet")
SHARED = next((one / NAME for one in Path(__file__).resolve().parents if (one / NAME).is_file()), NAME)
FIELDS = ("open", "high", "low", "close")
# As in the preset `planted`: no symbol is expected to rise, so that only followers of leaders pay.
REGIMES = {"bull": (-0.0072, 0.8), "bear": (-0.022, 1.4), "sideways": (-0.004, 0.6), "mixed": (-0.0136, 1.1)}
BARS = 5_400  # of a synthetic pair


@dataclass(frozen=True)
class Pair:
    """Two domains: how they are called, and a frame (time, (field, symbol)) of each by seed."""

    key: str
    source: str
    target: str
    frames: Callable[[int], tuple[pd.DataFrame, pd.DataFrame]]


def planted(seed: int, bars: int, freq: str = "1D") -> pd.DataFrame:
    """The league's planted market at strength 0.4: two leaders and eight followers."""
    options = {"groups": 2, "unrelated_share": 0.0, "strength": 0.4, "volatility": 0.15, "regimes": REGIMES}
    panel = Synthetic(symbols=10, bars=bars, seed=seed, freq=freq, **options).read()  # type: ignore[arg-type]
    return _frame(panel)


def deciles(seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    panel = load("deciles", start="1963-01-01", end="1995-12-31")
    closes = pd.DataFrame(panel.close, index=panel.index, columns=list(panel.symbols))
    return planted(seed, len(panel)), pd.concat(dict.fromkeys(FIELDS, closes), axis=1)


def frequencies(seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Daily and hourly bars, each with relations of its own; rows are bars, not hours."""
    daily, hourly = planted(seed, BARS), planted(seed + 1_000, BARS, "1h")
    hourly.index = daily.index
    return daily, hourly.rename(columns=lambda name: f"H{name}", level=1)


def exchanges(seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Sector funds of New York and Tokyo on the days both traded; a row is known when New York has closed."""
    table = pd.read_parquet(SHARED)
    parts = []
    for market in ("XNYS", "XTKS"):
        wide = table[table["market"] == market].pivot(index="date", columns="symbol", values=list(FIELDS)).ffill()
        parts.append(wide.dropna().astype(float))
    days = parts[0].index.intersection(parts[1].index)
    return parts[0].loc[days], parts[1].loc[days]


def _frame(panel: Panel) -> pd.DataFrame:
    fields = {name: pd.DataFrame(panel[name], panel.index, list(panel.symbols)) for name in FIELDS}
    return pd.concat(fields, axis=1)


_PAIRS = (
    Pair("real", "planted 0.4", "size deciles", deciles),
    Pair("exchange", "XNYS", "XTKS", exchanges),
    Pair("hourly", "planted 0.4, daily", "planted 0.4, hourly", frequencies),
)
PAIRS = {pair.key: pair for pair in _PAIRS}


def write_pair(pair: Pair, path: Path, seed: int) -> tuple[str, ...]:
    """Write the bars of both domains; gives the symbols of the target."""
    source, target = pair.frames(seed)
    source.index = target.index  # bar by bar
    long = pd.DataFrame(pd.concat([source, target], axis=1).stack(level=1, future_stack=True))
    long.index.names = ["time", "symbol"]
    # Adjusted prices of thin funds may lie a little outside the day's range.
    long["high"], long["low"] = long.max(axis=1), long.min(axis=1)
    path.parent.mkdir(parents=True, exist_ok=True)
    written = path.with_suffix(f".{os.getpid()}")  # other cells of the pair may be reading the file just now
    long.reset_index()[["time", "symbol", *FIELDS]].to_csv(written, index=False)
    written.replace(path)
    return tuple(target.columns.unique(1))
