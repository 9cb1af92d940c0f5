"""The fleet at a glance: a tile for each agent, sorted as the reader likes, the strugglers marked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from pacesetter.arrays import Array
from pacesetter.build import stage_run
from pacesetter.dashboard.texts import say
from pacesetter.evaluation.fleet.agents import AGENTS
from pacesetter.evaluation.report.pictures import PALETTE, style_figure

__all__ = ["figures_of", "fleet_folder", "multiples_figure", "sorted_fleet", "tiles_figure"]

LOW_IS_GOOD = {"drawdown"}
TILE = 58  # pixels of height
ROW, ACROSS = 74, 12  # pixels of height, and how many, of small multiples
INSET, CURVE = 0.08, 0.8  # margin of a small multiple's frame, and what of its height is not for the name


def fleet_folder(folder: Path) -> Path | None:
    """Where `fleet.csv` is: in the run, or in the run inside a pipeline's stage; None where there is no fleet."""
    stage = stage_run(folder, "agents")
    return stage if (stage / AGENTS).is_file() else None


def figures_of(fleet: pd.DataFrame) -> list[str]:
    """The numeric columns by which a fleet can be sorted."""
    return [str(name) for name in fleet.select_dtypes("number").columns]


def sorted_fleet(fleet: pd.DataFrame, by: str, worst_first: bool = False) -> pd.DataFrame:
    """The agents in order of a figure, the best first; unknown ones last."""
    # Exclusive or: the best first means rising numbers only where low is good.
    ascending = (by in LOW_IS_GOOD) != worst_first
    return fleet.sort_values(by, ascending=ascending, na_position="last", kind="stable").reset_index(drop=True)


def tiles_figure(fleet: pd.DataFrame, by: str) -> go.Figure:
    """A tile for each agent in the order given, coloured by a figure; ✕ marks a struggler, the hover says why."""
    width = min(max(int(np.ceil(np.sqrt(2.2 * len(fleet)))), 1), 18)
    height = -(-len(fleet) // width)
    spare = height * width - len(fleet)
    values = np.append(fleet[by].to_numpy(float), np.full(spare, np.nan)).reshape(height, width)
    rows = list(zip(fleet["symbol"].astype(str), fleet["reason"].astype(str), fleet[by], strict=True))
    labels = [f"{symbol}<br>{'✕ ' if reason else ''}{value:.3g}" for symbol, reason, value in rows]
    hints = [f"{symbol}: {reason or say('fleet.well')}" for symbol, reason, _ in rows]
    heat = go.Heatmap(
        z=values,
        text=np.array([*labels, *[""] * spare], dtype=object).reshape(height, width),
        customdata=np.array([*hints, *[""] * spare], dtype=object).reshape(height, width),
        texttemplate="%{text}",
        hovertemplate="%{customdata}<extra></extra>",
        colorscale="Cividis_r" if by in LOW_IS_GOOD else "Cividis",
        xgap=2,
        ygap=2,
        colorbar={"title": by},
    )
    figure = style_figure(go.Figure(heat), say("fleet.tiles", count=len(fleet), by=by), 110 + TILE * height)
    figure.update_xaxes(visible=False)
    return figure.update_yaxes(visible=False, autorange="reversed")


def multiples_figure(curves: pd.DataFrame, fleet: pd.DataFrame) -> go.Figure:
    """A small curve (step, symbol) of each agent in the order given, all on one scale; ✕ and a reason for strugglers.

    One pair of axes holds them all: 143 pairs would take the browser seconds.
    """
    shown = curves.reindex(columns=fleet["symbol"])
    values = shown.to_numpy(float)
    # 0 is always inside: the line of no gain is drawn in every frame.
    low, high = np.nanmin(values, initial=0.0), np.nanmax(values, initial=0.0)
    row, column = np.divmod(np.arange(len(fleet)), ACROSS)
    heights = CURVE * _scale_into_frame(np.vstack([values, np.zeros(len(fleet))]), low, high) - row
    steps = _scale_into_frame(np.arange(len(shown)), 0, len(shown) - 1)[:, None] + column
    figure, is_weak = go.Figure(), (fleet["reason"] != "").to_numpy()
    _lines(
        figure, _scale_into_frame(np.array([[0], [1]])) + column, heights[[-1, -1]], {"color": PALETTE[7], "width": 0.6}
    )
    for at, colour in ((~is_weak, PALETTE[0]), (is_weak, PALETTE[5])):
        labels = [f"{name} {value:+.2f}" for name in shown.columns[at] for value in (*shown[name], np.nan)]
        _lines(figure, steps[:, at], heights[:-1, at], {"color": colour, "width": 1.6}, labels)
    names = [f"{name} ✕ {why}" if why else name for name, why in zip(fleet["symbol"], fleet["reason"], strict=True)]
    figure.add_scatter(x=column, y=1 - row, mode="text", text=names, textposition="bottom right", hoverinfo="skip")
    rows = -(-len(fleet) // ACROSS)
    figure = style_figure(figure, say("fleet.multiples", low=low, high=high), 90 + ROW * rows).update_layout(
        showlegend=False
    )
    figure.update_layout(margin={"l": 10, "r": 10, "b": 10}).update_traces(textfont={"size": 9})
    figure.update_xaxes(visible=False, range=[0, ACROSS])
    return figure.update_yaxes(visible=False, range=[1 - rows, 1.1])


def _scale_into_frame(values: Array, low: float = 0.0, high: float = 1.0) -> Array:
    """Places in a frame from 0 to 1, with a margin, of values from `low` to `high`."""
    return INSET + (1 - 2 * INSET) * (values - low) / ((high - low) or 1.0)


def _lines(figure: go.Figure, x: Array, y: Array, line: dict[str, object], labels: Sequence[str] = ()) -> None:
    """Add the columns of `x` and `y` (point, line) as one trace, with a gap after each line."""
    gap = np.full((1, y.shape[1]), np.nan)
    x, y = (np.concatenate([values, gap]).T.ravel() for values in (x, y))
    figure.add_scatter(x=x, y=y, text=labels, mode="lines", line=line, hoverinfo="text" if len(labels) else "skip")
