"""The window that policies choose over time, above the market's volatility. Colours are safe for the colour-blind."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from pacesetter.arrays import Array
from pacesetter.errors import ConfigError
from pacesetter.leadlag.observed import mean_observed
from pacesetter.leadlag.strategy import last_moves
from pacesetter.panel import Panel

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["lookback_picture"]

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")
SMOOTHED_BARS = 21  # a month of days: single switches would hide the course
VOLATILITY_BARS = 20
TICKS = (5, 10, 20, 50, 100, 200, 500)


def lookback_picture(panel: Panel, bars: Array, lookbacks: Mapping[str, Array], path: str | Path) -> Path:
    """Write a PNG: each policy's `lookbacks` (time,) at `bars` (time,), and below the mean volatility of the symbols.

    A row per policy; refuses more than fit on a page.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    if not 0 < len(lookbacks) <= len(PALETTE):
        raise ConfigError(f"a picture shows 1 … {len(PALETTE)} policies, not {len(lookbacks)}; drop some")
    figure = Figure(figsize=(10, 1.9 * (len(lookbacks) + 1)), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)  # no window system, whatever the user's backend
    *rows, bottom = figure.subplots(len(lookbacks) + 1, 1, sharex=True)
    times = panel.index[bars]
    for axes, colour, (name, chosen) in zip(rows, PALETTE, lookbacks.items(), strict=False):
        _draw_windows(axes, times, chosen, colour, name)
    rows[0].set_title("Lookback window (bars), and market volatility")
    bottom.fill_between(times, 100 * _volatility(panel)[bars], color="#999999", linewidth=0)
    bottom.set(ylabel="volatility\n% a year", ylim=(0, None))
    every = np.concatenate(list(lookbacks.values()))
    for axes in rows:
        axes.set_ylim(every.min() / 1.3, every.max() * 1.3)
    for axes in (*rows, bottom):
        axes.grid(color="#e0e0e0", linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(Path(path))
    return Path(path)


def _draw_windows(axes: Axes, times: pd.DatetimeIndex, chosen: Array, colour: str, name: str) -> None:
    """One policy's windows on a logarithmic axis: every bar faint, the median over a month strong."""
    axes.step(times, chosen, color=colour, alpha=0.2, linewidth=0.6, where="post")
    course = pd.Series(chosen).rolling(SMOOTHED_BARS, min_periods=1, center=True).median()
    axes.plot(times, course, color=colour, linewidth=1.6)
    axes.set_yscale("log")
    axes.set_yticks(TICKS, [str(tick) for tick in TICKS])
    axes.minorticks_off()
    axes.set_ylabel(name)


def _volatility(panel: Panel) -> Array:
    """(time,) annual volatility over the latest 20 bars, mean over the symbols."""
    deviation = pd.DataFrame(last_moves(panel)).rolling(VOLATILITY_BARS, min_periods=VOLATILITY_BARS // 2).std()
    return mean_observed(deviation.to_numpy(), axis=1) * float(np.sqrt(panel.bars_per_year))
