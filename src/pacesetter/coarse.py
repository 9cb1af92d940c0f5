"""Coarser bars from finer ones: when each coarse bar closes, and what it holds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from pacesetter.arrays import Array
from pacesetter.errors import ConfigError
from pacesetter.stamps import DAY, utc_index

__all__ = ["aggregate", "coarse_closes"]

SUMMED = ("volume", "funding_rate", "dividend")  # over the fine bars; of other fields the last is known


def coarse_closes(index: pd.DatetimeIndex, freq: str) -> pd.DatetimeIndex:
    """Closes of the coarse bars that bars known at `index` fall into, the same for every part of a panel.

    Refuses what is not a frequency of pandas, and a length below both a day and the finest step.
    """
    try:
        step: Any = pd.tseries.frequencies.to_offset(freq)
    except ValueError:
        step = None
    if step is None or step.n < 1:
        raise ConfigError(f"'{freq}' is not a bar length; use one like 1h, 1D, 1W or 1ME")
    if not isinstance(step, (pd.offsets.Tick, pd.offsets.Day)):
        return _calendar_closes(step, index[0], index[-1])
    finest, length = index.to_series().diff().min(), pd.Timedelta(step)  # type: ignore[arg-type]  # a Day is one too
    if length < min(finest, DAY):
        raise ConfigError(f"{freq} bars cannot be made from coarser ones (the finest step is {finest})")
    return index.ceil(length).unique()


def _calendar_closes(step: Any, first: pd.Timestamp, last: pd.Timestamp) -> pd.DatetimeIndex:
    """Midnights that end weeks, months and the like, from the first bar's on."""
    # several weeks or months are counted from the end of one year, so that every part of a panel has the same bars
    origin = first.normalize() - DAY if step.n == 1 else pd.Timestamp("1699-12-31", tz="UTC")
    days = pd.date_range(origin, last + DAY + 2 * step, freq=step).normalize().unique()
    # pandas names a period by its last day, which ends at the next midnight, or by its first, where the one before ends
    closes = utc_index(days if "Begin" in type(step).__name__ else days + DAY)
    return closes[closes >= first.floor("D")]


def aggregate(fields: tuple[str, ...], blocks: Array, mask: Array, starts: Array) -> tuple[Array, Array]:
    """Coarse (field, group, symbol) blocks from fine ones whose groups begin at rows `starts`; observed bars only."""
    bars = np.arange(len(mask))[:, None]
    last = np.maximum.reduceat(np.where(mask, bars, -1), starts)
    first = np.minimum.reduceat(np.where(mask, bars, len(mask)), starts)
    has_bars = last >= 0
    column = np.arange(mask.shape[1])[None, :]

    def pick(block: Array, rows: Array) -> Array:
        return np.where(has_bars, block[np.where(has_bars, rows, 0), column], np.nan)

    def coarse(field: str, block: Array) -> Array:
        observed = np.where(mask, block, np.nan)
        if field == "open":
            return pick(block, first)
        if field == "high":
            return np.asarray(np.fmax.reduceat(observed, starts))
        if field == "low":
            return np.asarray(np.fmin.reduceat(observed, starts))
        if field == "split":
            return np.asarray(np.multiply.reduceat(np.where(observed > 0, observed, 1.0), starts))
        if field in SUMMED:
            some = np.logical_or.reduceat(~np.isnan(observed), starts)
            return np.where(some, np.add.reduceat(np.where(np.isnan(observed), 0.0, observed), starts), np.nan)
        return pick(block, last)

    return np.stack([coarse(field, block) for field, block in zip(fields, blocks, strict=True)]), has_bars
