"""The league's picture: share of the oracle's Sharpe ratio against the strength of the planted signal."""

from __future__ import annotations

import pandas as pd

from pacesetter.evaluation.report.pictures import style_figure

__all__ = ["PLANTED", "league_picture"]

PLANTED = "planted"  # what the names of the ladder's markets begin with, their strength behind it
LIMITS = (-0.5, 1.5)  # shares beyond them, at strengths where the oracle earns little, would flatten the rest
APART = 0.04  # share of a strength by which the entrants' points lie beside each other: intervals stay readable


def league_picture(table: pd.DataFrame) -> object:
    """A line for each entrant with its 95 % intervals; strengths on a logarithmic axis, as they double."""
    import plotly.graph_objects as go

    planted = table[table["market"].str.startswith(PLANTED)]
    planted = planted.assign(strength=planted["market"].str.split().str[-1].astype(float))
    entrants = list(dict.fromkeys(planted["entrant"]))
    figure = go.Figure()
    for place, name in enumerate(entrants):
        part = planted[planted["entrant"] == name].sort_values("strength")
        beside = 1 + APART * (place - (len(entrants) - 1) / 2) / max(len(entrants) / 4, 1)
        bars = {"type": "data", "array": part["share_half_width"], "thickness": 1}
        figure.add_scatter(x=part["strength"] * beside, y=part["share"], error_y=bars, name=name, mode="lines+markers")
    style_figure(
        figure, "Share of the oracle's Sharpe ratio by strength of the planted signal, with 95 % intervals", 460
    )
    ticks = sorted(set(planted["strength"]))
    figure.update_xaxes(title="strength of the signal", type="log", tickvals=ticks, ticktext=[f"{x:g}" for x in ticks])
    return figure.update_yaxes(tickformat=".0%", range=LIMITS)
