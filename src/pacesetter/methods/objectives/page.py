"""The front of a run with many objectives, on a page: what each weighting came to, and the point that is served."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go

from pacesetter.errors import RunError
from pacesetter.evaluation.report.page import Section
from pacesetter.evaluation.report.pictures import PALETTE, style_figure
from pacesetter.panel import Panel
from pacesetter.runs import FRONT, write_atomic

__all__ = ["FRONT", "choose_point", "front_figure", "front_section", "read_front", "run_sections"]

TITLE = "Front of the objectives"
CHOSEN, BEATEN, OTHER = PALETTE[5], PALETTE[7], PALETTE[0]


def read_front(run: Path) -> dict[str, Any]:
    """The front that a run left; refuses a run that has none."""
    path = run / FRONT
    if not path.is_file():
        raise RunError(
            f"{run} has no front; train one with: pacesetter train task=fleet agent=mosac agent.preferences=8"
        )
    return dict(json.loads(path.read_text(encoding="utf-8")))


def choose_point(run: Path, place: int) -> dict[str, Any]:
    """Choose another point of a run's front, which backtests play and later bundles serve by default."""
    front = read_front(run)
    if not 0 <= place < len(front["points"]):
        raise RunError(f"{run} has no point {place}; choose 0 to {len(front['points']) - 1}")
    front["chosen"] = place
    write_atomic(run / FRONT, json.dumps(front, indent=1) + "\n")
    return front


def front_figure(front: Mapping[str, Any], chosen: int | None = None) -> go.Figure:
    """Two objectives against each other; of more, a line for each point across all, from the worst to the best."""
    chosen = front["chosen"] if chosen is None else chosen
    values, names = np.array([point["objectives"] for point in front["points"]]), list(front["objectives"])
    title = f"Hypervolume {front['share']:.1%} of the box around the points"
    if len(names) == 2:
        return _pair(front, values, chosen, title)
    low, high = values.min(0), values.max(0)
    # Each objective has a unit of its own: only its place between the worst and the best can be drawn on one axis.
    places = (values - low) / np.where(high > low, high - low, 1.0)
    figure = go.Figure()
    order = sorted(range(len(values)), key=lambda place: place == chosen)  # the chosen one lies on top
    for place in order:
        point, is_chosen = front["points"][place], place == chosen
        line = {"color": _colour(point, is_chosen), "width": 4 if is_chosen else 1.5}
        label = f"{place}: Sharpe ratio {point['sharpe']:+.2f}"
        hints = [f"{name} {value:.4g}" for name, value in zip(names, values[place], strict=True)]
        figure.add_scatter(x=names, y=places[place], name=label, mode="lines+markers", line=line, text=hints)
    figure.update_yaxes(title="worst to best of the points", range=[-0.05, 1.05])
    return style_figure(figure, title)


def _pair(front: Mapping[str, Any], values: Any, chosen: int, title: str) -> go.Figure:
    figure = go.Figure()
    colours = [_colour(point, place == chosen) for place, point in enumerate(front["points"])]
    sizes = [16 if place == chosen else 9 for place in range(len(values))]
    labels = [str(place) for place in range(len(values))]
    marker = {"color": colours, "size": sizes}
    figure.add_scatter(x=values[:, 0], y=values[:, 1], mode="markers+text", text=labels, marker=marker)
    figure.update_traces(textposition="top center").update_layout(showlegend=False)
    first, second = front["objectives"]
    figure.update_xaxes(title=f"{first}, per bar")
    return style_figure(figure.update_yaxes(title=f"{second}, per bar"), title)


def _colour(point: Mapping[str, object], is_chosen: bool) -> str:
    return CHOSEN if is_chosen else OTHER if point["efficient"] else BEATEN


def front_section(run: Path) -> Section:
    """The front as a part of a report."""
    front = read_front(run)
    points, names = front["points"], front["objectives"]
    best = points[front["chosen"]]
    kept = sum(point["efficient"] for point in points)
    text = (
        f"{kept} of {len(points)} weightings are not beaten on the validation set. Point {front['chosen']} is "
        f"chosen: it has the highest {front['utility']}, a Sharpe ratio of {best['sharpe']:+.2f}. Values are means per "
        "bar; weights are in brackets."
    )
    header = ("point", *names, "Sharpe", "drawdown")
    rows = tuple(
        (
            f"{place}{' chosen' if place == front['chosen'] else '' if point['efficient'] else ' beaten'}",
            *(f"{v:.4g} ({w:.2f})" for v, w in zip(point["objectives"], point["preference"], strict=True)),
            f"{point['sharpe']:+.2f}",
            f"{point['drawdown']:.1%}",
        )
        for place, point in enumerate(points)
    )
    return Section(TITLE, text, (front_figure(front),), header, rows)


def run_sections(run: Path, panel: Panel) -> list[Section]:
    """What a report says of the training: the front, where one was validated."""
    return [front_section(run)] if (run / FRONT).is_file() else []
