"""Pictures of adaptation: scores against bars seen, regimes, contexts on two axes, attention by age."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go

from pacesetter.arrays import Array
from pacesetter.evaluation.report.pictures import PALETTE, style_figure

__all__ = ["adaptation_figure", "attention_figure", "context_figure", "main_axes", "regime_figure"]

ROLLING_BARS = 20


def adaptation_figure(curves: Mapping[str, Sequence[Array]], bins: int) -> go.Figure:
    """Mean return of a bar, in bps, against bars seen; player -> (bar, env) returns of each task."""
    figure = go.Figure()
    for name, tasks in curves.items():
        bars = min(len(returns) for returns in tasks)
        mean = np.nanmean(np.concatenate([returns[:bars] for returns in tasks], axis=1), axis=1)
        parts = np.array_split(np.arange(bars), min(bins, bars))
        places = [float(part.mean()) for part in parts]
        figure.add_scatter(x=places, y=[1e4 * mean[part].mean() for part in parts], name=name, mode="lines+markers")
    figure.update_xaxes(title="bars of the episode seen").update_yaxes(title="return of a bar, bps")
    return style_figure(figure, "Adaptation: score against bars seen")


def regime_figure(regimes: Mapping[str, Array], bars_per_year: float) -> go.Figure:
    """Rolling Sharpe ratio within episodes, one line a task; task -> (bar, env) returns."""
    figure = go.Figure()
    for name, returns in regimes.items():
        together = np.nanmean(returns, axis=1)
        if len(together) < ROLLING_BARS:
            continue
        windows = np.lib.stride_tricks.sliding_window_view(together, ROLLING_BARS)
        ratio = windows.mean(axis=1) / np.maximum(windows.std(axis=1), 1e-12) * bars_per_year**0.5
        figure.add_scatter(x=np.arange(ROLLING_BARS, len(together) + 1), y=ratio, name=name, mode="lines")
    figure.update_xaxes(title="bars of the episode seen").update_yaxes(title=f"Sharpe ratio of {ROLLING_BARS} bars")
    return style_figure(figure, "By regime")


def context_figure(contexts: Mapping[str, Array]) -> go.Figure:
    """Contexts on their two main axes, coloured by task; task -> (env, width)."""
    figure = go.Figure()
    if contexts:
        points = main_axes(np.concatenate(list(contexts.values())))
        start = 0
        for place, (name, rows) in enumerate(contexts.items()):
            some, start = points[start : start + len(rows)], start + len(rows)
            colour = {"color": PALETTE[place % len(PALETTE)]}
            figure.add_scatter(x=some[:, 0], y=some[:, 1], name=name, mode="markers", marker=colour)
    return style_figure(figure, "Contexts by task")


def attention_figure(shares: Array) -> go.Figure:
    """Share of attention by the age of a transition, the newest has age 1."""
    figure = go.Figure(go.Bar(x=np.arange(len(shares), 0, -1), y=shares))
    figure.update_xaxes(title="age of a transition, bars").update_yaxes(title="share of attention")
    return style_figure(figure, "Attention by age")


def main_axes(rows: Array) -> Array:
    """(row, 2) centred rows on their two principal axes."""
    centred = rows - rows.mean(axis=0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    return np.asarray(centred @ axes[:2].T)
