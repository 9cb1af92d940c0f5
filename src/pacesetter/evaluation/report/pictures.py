"""Pictures of a panel: prices, coverage, regimes. Colours are safe for the colour-blind (Okabe–Ito)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from pacesetter.arrays import Array
from pacesetter.panel import Panel

__all__ = ["coverage", "lookbacks", "prices", "regimes", "style_figure", "thin_bars"]

PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#999999")
DASHES = ("solid", "dash", "dot", "dashdot")  # of the first lines of each colour
MOST_POINTS = 1500
MOST_LINES = 20
SMOOTHED_BARS = 21  # a month of days


def style_figure(figure: go.Figure, title: str, height: int = 380) -> go.Figure:
    """The house style: transparent, so that it reads on a light and on a dark page; no two lines look alike."""
    _distinguish_lines(figure)
    figure.update_layout(
        title={"text": title, "x": 0, "xanchor": "left", "font": {"size": 15}},  # fits a telephone
        height=height,
        margin={"l": 60, "r": 20, "t": 50, "b": 40},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"family": "system-ui, sans-serif", "color": "#808080", "size": 12},
        colorway=PALETTE,
        hovermode="closest",
        modebar={"bgcolor": "rgba(0,0,0,0)", "color": "#b0b0b0", "activecolor": "#808080"},
    )
    grid = {"gridcolor": "rgba(128,128,128,0.25)", "zerolinecolor": "rgba(128,128,128,0.4)"}
    return figure.update_xaxes(**grid).update_yaxes(**grid)


def _distinguish_lines(figure: go.Figure) -> None:
    """Colours for the lines that have none of their own; those that a colour comes back to are dashed."""
    lines = [each.line for each in figure.select_traces({"type": "scatter"}) if "lines" in (each.mode or "")]
    for place, line in enumerate(each for each in lines if each.color is None):
        again, colour = divmod(place, len(PALETTE))
        line.update(color=PALETTE[colour], dash=DASHES[again % len(DASHES)])


def prices(panel: Panel) -> go.Figure:
    """Closes from 100 at each symbol's first bar, on a log axis; the first symbols only where there are many."""
    rows = thin_bars(len(panel))
    figure = go.Figure()
    for column, symbol in enumerate(panel.symbols[:MOST_LINES]):
        close = np.where(panel.mask[:, column], panel.close[:, column], np.nan)
        known = np.flatnonzero(np.isfinite(close))
        if len(known):
            line = 100 * close[rows] / close[known[0]]
            figure.add_scatter(x=panel.index[rows], y=line, name=symbol, mode="lines", line={"width": 1})
    cut = f" (first {MOST_LINES} of {len(panel.symbols)})" if len(panel.symbols) > MOST_LINES else ""
    return style_figure(figure, f"Closes, first bar = 100{cut}", 460).update_yaxes(type="log")


def coverage(panel: Panel, buckets: int = 80) -> go.Figure:
    """Observed share of bars, symbol × stretch of time."""
    # Unique: a short panel has fewer bars than buckets, and reduceat of an empty stretch gives a wrong number.
    edges = np.unique(np.linspace(0, len(panel), min(buckets, len(panel)) + 1).astype(int))
    counts = np.diff(edges)
    share = np.add.reduceat(panel.mask.astype(float), edges[:-1], axis=0) / counts[:, None]
    heat = go.Heatmap(
        z=share.T, x=panel.index[edges[:-1]], y=list(panel.symbols), zmin=0, zmax=1, colorscale="Cividis", ygap=1
    )
    return style_figure(go.Figure(heat), "Observed share of bars", max(260, min(14 * len(panel.symbols), 1200) + 100))


def regimes(panel: Panel, labels: Array, names: Sequence[str]) -> go.Figure:
    """Share of symbols in each regime over time, stacked."""
    rows = thin_bars(len(panel))
    known = np.maximum((labels >= 0).sum(axis=1), 1)
    figure = go.Figure()
    for code, name in enumerate(names):
        share = (labels == code).sum(axis=1) / known
        figure.add_scatter(
            x=panel.index[rows],
            y=share[rows],
            name=name.replace("_", " "),
            stackgroup="all",
            mode="lines",
            line={"width": 0, "color": PALETTE[code]},
        )
    return style_figure(figure, "Share of symbols in each regime").update_yaxes(range=[0, 1], tickformat=".0%")


def lookbacks(days: pd.Index, chosen: Mapping[str, Array]) -> go.Figure:
    """The window in force of each policy over time, on a log axis; the median of a month, because choices jump."""
    rows = thin_bars(len(days))
    figure = go.Figure()
    for name, windows in chosen.items():
        course = pd.Series(windows).rolling(SMOOTHED_BARS, min_periods=1).median().to_numpy()
        figure.add_scatter(x=days[rows], y=course[rows], name=name, mode="lines", line={"width": 1.4, "shape": "hv"})
    return style_figure(figure, f"Window used (bars, median of {SMOOTHED_BARS})").update_yaxes(type="log")


def thin_bars(bars: int) -> Array:
    """Positions of at most MOST_POINTS bars, the last one included."""
    return np.unique(np.linspace(0, bars - 1, min(bars, MOST_POINTS)).astype(int))
