"""Repairs chosen by name: gaps filled forward, interpolated, or their moments dropped; never filled backwards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal

import numpy as np

from pacesetter.arrays import Array
from pacesetter.errors import ConfigError, DataError, did_you_mean
from pacesetter.panel import PRICE_FIELDS, Panel

__all__ = ["Fill", "repair"]

EVENTS = ("volume", "funding_rate", "dividend", "split")  # that happen in a bar, and not in one that is missing
Fill = Literal["none", "forward", "interpolate", "drop"]


def repair(panel: Panel, fill: Fill) -> Panel:
    """The panel with missing bars filled after each symbol's first; the mask still says what was observed.

    forward      open, high, low and close repeat the last close, volume is 0, funding, dividends and splits
                 too, other fields repeat; to the panel's end
    interpolate  linear between observed neighbours in time; looks at the next bar, so the panel is no longer causal
    drop         only moments at which every symbol was observed stay
    """
    if fill not in REPAIRS:
        raise ConfigError(f"data.fill='{fill}' is unknown{did_you_mean(fill, REPAIRS)}")
    return REPAIRS[fill](panel)


def _forward(panel: Panel) -> Panel:
    # carried past the last observed bar too: whether a gap ends is not known while it lasts
    missing = ~panel.mask & np.logical_or.accumulate(panel.mask, axis=0)
    if not missing.any():
        return panel
    bars = np.arange(len(panel))[:, None]
    # Row of the last observed bar; before the first one it is not used.
    last = np.maximum.accumulate(np.where(panel.mask, bars, 0), axis=0)
    columns = np.arange(len(panel.symbols))[None, :]
    blocks = np.array(panel.blocks)
    for place, field in enumerate(panel.fields):
        # A bar without trading opens, peaks and ends where the last one closed.
        source = panel.close if field in PRICE_FIELDS else panel.blocks[place]
        carried = np.zeros_like(source) if field in EVENTS else source[last, columns]
        blocks[place] = np.where(missing, carried, panel.blocks[place])
    return replace(panel, blocks=blocks).noting(f"{missing.sum()} missing bars carried forward")


def _interpolate(panel: Panel) -> Panel:
    gaps = _gaps(panel.mask)
    if not gaps.any():
        return panel
    moments = panel.index.asi8.astype(np.float64)
    blocks = np.array(panel.blocks)
    for column in np.flatnonzero(gaps.any(axis=0)):
        holes = gaps[:, column]
        for block in blocks:
            known = panel.mask[:, column] & np.isfinite(block[:, column])
            if known.any():
                values = np.interp(moments[holes], moments[known], block[known, column], left=np.nan, right=np.nan)
                block[holes, column] = values
    note = f"{gaps.sum()} missing bars interpolated with their next bar: not causal, not for environments"
    # Marked, so that environments and backtests refuse it: a gap filled by interpolation knows its end.
    return replace(panel, blocks=blocks, causal=False).noting(note)


def _gaps(mask: Array) -> Array:
    """(time, symbol) unobserved bars between a symbol's first and last observed ones."""
    before = np.logical_or.accumulate(mask, axis=0)
    after = np.logical_or.accumulate(mask[::-1], axis=0)[::-1]
    return np.asarray(~mask & before & after)


def _drop(panel: Panel) -> Panel:
    whole: Array = np.asarray(panel.mask.all(axis=1))
    if not whole.any():
        raise DataError("data.fill=drop leaves nothing: at no time was every symbol observed; use fewer symbols")
    lost = int((~whole).sum())
    # The truth counts bars, and would be off by the dropped ones.
    kept = replace(panel, index=panel.index[whole], blocks=panel.blocks[:, whole], mask=panel.mask[whole], truth=None)
    return kept.noting(f"{lost} times with a missing bar dropped") if lost else panel


REPAIRS: dict[str, Callable[[Panel], Panel]] = {
    "none": lambda panel: panel,
    "forward": _forward,
    "interpolate": _interpolate,
    "drop": _drop,
}
