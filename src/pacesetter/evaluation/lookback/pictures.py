"""Pictures of windows over time, by regime and by regret, from what an evaluation stores: for reports and dashboard."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from pacesetter.evaluation.report.pictures import PALETTE, style_figure, thin_bars

__all__ = ["INDEX", "LINK", "REGIME", "choices_picture", "course_picture", "regret_picture"]

INDEX, LINK, REGIME = "market index", "mean link", "regime"  # columns beside the policies' windows
SMOOTHED_BARS = 21  # a month of days: single switches would hide the course


def course_picture(windows: pd.DataFrame, names: Iterable[str]) -> go.Figure:
    """Windows (time, policy) of some policies under the market's index and the mean link; the first is bold."""
    figure = make_subplots(rows=3, cols=1, shared_xaxes=True, row_heights=[0.3, 0.25, 0.45], vertical_spacing=0.04)
    shown = windows.iloc[thin_bars(len(windows))]
    for row, column in enumerate((INDEX, LINK), start=1):
        known = windows[column].dropna()  # links are measured at some bars only
        known = known.iloc[thin_bars(len(known))]
        figure.add_scatter(x=known.index, y=known, name=column, mode="lines", row=row, col=1)
    course = windows.drop(columns=REGIME).rolling(SMOOTHED_BARS, min_periods=1).median().loc[shown.index]
    for place, name in enumerate(dict.fromkeys(names)):
        line = {"color": PALETTE[(place + 2) % len(PALETTE)], "width": 1.0 if place else 2.2}
        figure.add_scatter(x=course.index, y=course[name], name=name, mode="lines", line=line, row=3, col=1)
    figure.update_yaxes(type="log", row=3, col=1, title="window (bars)")
    return style_figure(figure, "Price, leadership and windows", 560)


def choices_picture(windows: pd.DataFrame, name: str, listed: Sequence[int]) -> go.Figure:
    """Share of the bars at which each of the `listed` windows was in force, by the market's regime."""
    figure, labels = go.Figure(), [str(bars) for bars in listed]
    for regime, part in windows.groupby(REGIME, sort=False):
        shares = [float((part[name] == bars).mean()) for bars in listed]
        figure.add_bar(x=labels, y=shares, name=f"{str(regime).replace('_', ' ')} ({len(part)} bars)")
    style_figure(figure.update_layout(barmode="group"), "Share of the bars by regime", 320).update_yaxes(
        tickformat=".0%"
    )
    return figure.update_xaxes(type="category", title="window (bars)")


def regret_picture(rewards: pd.DataFrame, names: Iterable[str], limit: str) -> go.Figure:
    """Rewards (time, policy) behind the limit's, cumulated."""
    figure, rows = go.Figure(), thin_bars(len(rewards))
    for name in dict.fromkeys(names):
        regret = np.cumsum(rewards[limit].to_numpy() - rewards[name].to_numpy())
        figure.add_scatter(x=rewards.index[rows], y=regret[rows], name=name, mode="lines")
    return style_figure(figure, "Cumulated regret", 320)
