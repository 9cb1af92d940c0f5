"""Pictures of the lead–lag structure, each drawn once and rendered twice: plotly for the page, PNG for paper.

A picture is data (`Heat` or `Web`); `to_plotly` and `to_png` render either. Orange leads, purple follows: the scale
PuOr can be told apart with any common colour blindness.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pacesetter.arrays import Array, Floats
from pacesetter.errors import ConfigError
from pacesetter.leadlag.observed import mean_observed
from pacesetter.leadlag.structure.ranking import row_mean

if TYPE_CHECKING:
    import networkx
    import plotly.graph_objects
    import plotly.graph_objects as go
    from matplotlib.axes import Axes
    from matplotlib.collections import PathCollection
    from matplotlib.image import AxesImage

__all__ = [
    "Heat",
    "Web",
    "lag_picture",
    "leadership_picture",
    "matrix_picture",
    "network_picture",
    "save_picture",
    "to_plotly",
    "to_png",
]

SCALE = "PuOr_r"  # purple – white – orange in both libraries
ABSENT = "#d9d9d9"
FAINT = 0.3  # opacity of what is not significant
WIDTH, HEIGHT, DPI = 1000, 720, 100  # pixels: a laptop's page
MOST_LABELS = 40
MOST_ROWS = 400  # of a square picture: the symbols that lead or follow most
LABEL_DISTANCE = 1.08  # of a node's name from the centre; the nodes stand at 1
RIM = 1.15


@dataclass(frozen=True)
class Heat:
    """A signed heat map of values (row, column), white at zero, grey where NaN; faint where not `significant`."""

    title: str
    values: Array
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    row_title: str
    column_title: str
    value_title: str
    significant: Array | None = None

    @property
    def limit(self) -> float:
        """Where both ends of the scale lie."""
        return _largest_size(self.values)

    @property
    def heading(self) -> str:
        """The title, and what faint means where something is."""
        return self.title if len(self.shares) == 1 else f"{self.title}; faint: not significant"

    @property
    def shares(self) -> list[tuple[Array, float]]:
        """(values, opacity): all of them, or those that are not significant faint and the others strong."""
        if self.significant is None:
            return [(self.values, 1.0)]
        weak, strong = (np.where(here, self.values, np.nan) for here in (~self.significant, self.significant))
        return [(weak, FAINT), (strong, 1.0)]


@dataclass(frozen=True)
class Web:
    """Nodes at places (node, 2) with a signed score, and arrows (leader, follower, weight), strongest last."""

    title: str
    nodes: tuple[str, ...]
    places: Array
    scores: Array
    arrows: tuple[tuple[int, int, float], ...]
    value_title: str

    @property
    def limit(self) -> float:
        """Where both ends of the scale lie."""
        return _largest_size(self.scores)

    @property
    def heading(self) -> str:
        """The title."""
        return self.title

    def width(self, weight: float) -> float:
        """Line width in points: 2.6 for the strongest arrow, in proportion for the others, 0.4 at least."""
        return max(2.6 * weight / max(arrow[2] for arrow in self.arrows), 0.4)


def matrix_picture(
    matrix: Floats, symbols: Sequence[str], title: str = "Lead–lag matrix", significant: Array | None = None
) -> Heat:
    """Who leads whom, ordered by leader score: orange where the row leads the column. Absent assets are left out.

    Pairs that are not `significant` (N, N) are drawn faint.
    """
    return _leaders_first(matrix, matrix, symbols, title, "lead of row over column", significant)


def lag_picture(
    lags: Floats,
    matrix: Floats,
    symbols: Sequence[str],
    title: str = "Lag of the strongest link",
    significant: Array | None = None,
) -> Heat:
    """Bars (N, N) by which the row runs ahead of the column, in the order of the leader scores of `matrix`."""
    return _leaders_first(np.asarray(lags, dtype=np.float64), matrix, symbols, title, "bars ahead", significant)


def _leaders_first(
    values: Floats, matrix: Floats, symbols: Sequence[str], title: str, value_title: str, significant: Array | None
) -> Heat:
    """The values (N, N) of the assets that `matrix` ranks, the strongest leader first on both sides."""
    scores = row_mean(matrix)
    order = np.argsort(-scores, kind="stable")
    order = order[np.isfinite(scores[order])]
    if len(order) > MOST_ROWS:
        order = np.concatenate([order[: MOST_ROWS // 2], order[-MOST_ROWS // 2 :]])
        title = f"{title}: the first and last {MOST_ROWS // 2} of {len(scores):,} symbols"
    names = tuple(symbols[i] for i in order)
    square = np.ix_(order, order)
    known = None if significant is None else significant[square]
    return Heat(title, values[square], names, names, "leader (strongest first)", "follower", value_title, known)


def leadership_picture(
    scores: Floats,
    times: Sequence[object],
    symbols: Sequence[str],
    title: str = "Leadership over time",
    most: int = 30,
    strong: Array | None = None,
) -> Heat:
    """Leader scores (windows, N) as a time line: the `most` assets of largest mean absolute score, leaders on top.

    Scores that are not `strong` (time, N), since chance gives as large ones, are drawn faint.
    """
    size, mean = mean_observed(np.abs(scores), axis=0), mean_observed(scores, axis=0)
    shown = np.argsort(-size, kind="stable")[:most]
    shown = shown[np.argsort(-mean[shown], kind="stable")]
    days = tuple(str(time)[:10] if isinstance(time, datetime) else str(time) for time in times)
    if len(set(days)) < len(days):  # several windows a day
        days = tuple(str(time)[:16] for time in times)
    names = tuple(symbols[i] for i in shown)
    known = None if strong is None or strong.all() else strong[:, shown].T
    axes = "asset (leaders on top)", "end of window", "leader score"
    return Heat(title, scores[:, shown].T, names, days, *axes, known)


def network_picture(graph: networkx.DiGraph, title: str = "Significant lead–lag links", most: int = 150) -> Web:
    """The `most` strongest links as arrows from leader to follower; linked assets only, the strongest leader on top."""
    # Ascending, so that the strongest are drawn last, on top.
    edges = sorted(graph.edges(data="weight"), key=lambda edge: edge[2])[-most:]
    names = sorted({name for edge in edges for name in edge[:2]}, key=lambda name: graph.nodes[name]["rank"])
    place = {name: number for number, name in enumerate(names)}
    arrows = tuple((place[leader], place[follower], float(weight)) for leader, follower, weight in edges)
    scores = np.array([graph.nodes[name]["score"] for name in names])
    note = f"{title}: {len(edges)} of {graph.number_of_edges()} drawn" if edges else f"{title}: none"
    return Web(note, tuple(names), _ring(len(names)), scores, arrows, "leader score")


def save_picture(picture: Heat | Web, folder: str | Path, name: str) -> tuple[Path, Path]:
    """Write `name.html` and `name.png` into the folder; gives both paths."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    # plotly.js is written once into the folder instead of into each page.
    page = folder / f"{name}.html"
    figure = to_plotly(picture).update_layout(template="plotly_white")  # a report has a style of its own
    figure.write_html(page, include_plotlyjs="directory")
    return page, to_png(picture, folder / f"{name}.png")


def to_plotly(picture: Heat | Web) -> plotly.graph_objects.Figure:
    """The picture as a plotly figure."""
    from plotly.graph_objects import Figure

    figure = Figure(layout={"title": picture.heading, "width": WIDTH, "height": HEIGHT})
    if isinstance(picture, Heat):
        _heat_in_plotly(figure, picture)
    else:
        _web_in_plotly(figure, picture)
    return figure


def to_png(picture: Heat | Web, path: str | Path) -> Path:
    """The picture as a PNG file; refuses another ending."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    path = Path(path)
    if path.suffix != ".png":
        raise ConfigError(f"{path} must end in .png")
    figure = Figure(figsize=(WIDTH / DPI, HEIGHT / DPI), dpi=DPI, layout="constrained")
    FigureCanvasAgg(figure)  # no window system, whatever the user's backend
    axes = figure.add_subplot()
    axes.set_title(picture.heading)
    shades = _heat_in_matplotlib(axes, picture) if isinstance(picture, Heat) else _web_in_matplotlib(axes, picture)
    figure.colorbar(shades, ax=axes, label=picture.value_title)
    with warnings.catch_warnings():
        # A symbol may have letters that the font lacks: it draws boxes, and the tables beside have the name.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        figure.savefig(path)
    return path


def _heat_in_plotly(figure: go.Figure, heat: Heat) -> None:
    shares = heat.shares
    for values, opacity in shares:
        figure.add_heatmap(
            z=values,
            x=list(heat.columns),
            y=list(heat.rows),
            zmin=-heat.limit,
            zmax=heat.limit,
            colorscale=SCALE,
            opacity=opacity,
            showscale=opacity == 1.0,
            colorbar={"title": heat.value_title},
            hovertemplate="%{y} – %{x}: %{z:.3g}"
            + ("" if opacity == 1.0 else " (not significant)")
            + "<extra></extra>",
            hoverongaps=False,
        )
    figure.update_layout(plot_bgcolor=ABSENT)
    figure.update_xaxes(title=heat.column_title, type="category", nticks=MOST_LABELS, showgrid=False)
    figure.update_yaxes(title=heat.row_title, type="category", autorange="reversed", nticks=MOST_LABELS, showgrid=False)


def _heat_in_matplotlib(axes: Axes, heat: Heat) -> AxesImage:
    axes.set_facecolor(ABSENT)
    for values, opacity in heat.shares:
        image = axes.imshow(
            values,
            SCALE,
            alpha=opacity,
            aspect="auto",
            interpolation="nearest",
            vmin=-heat.limit,
            vmax=heat.limit,
        )
    for axis, names, most in ((axes.xaxis, heat.columns, MOST_LABELS // 2), (axes.yaxis, heat.rows, MOST_LABELS)):
        step = -(-len(names) // most) if names else 1
        axis.set_ticks(range(0, len(names), step), names[::step], fontsize=8)
    axes.tick_params(axis="x", rotation=90 if max(map(len, heat.columns), default=0) > 3 else 0)
    axes.set(xlabel=heat.column_title, ylabel=heat.row_title)
    return image


def _web_in_plotly(figure: go.Figure, web: Web) -> None:
    names = zip(web.nodes, LABEL_DISTANCE * web.places, strict=True)
    labels = [{"x": x, "y": y, "text": name, "showarrow": False, "font": {"size": 11}} for name, (x, y) in names]
    # At once: each `add_annotation` would check all that are there already.
    figure.update_layout(annotations=[*(_arrow_in_plotly(web, *arrow) for arrow in web.arrows), *labels])
    figure.add_scatter(
        x=web.places[:, 0],
        y=web.places[:, 1],
        mode="markers",
        text=list(web.nodes),
        hovertemplate="%{text}: %{marker.color:.3g}<extra></extra>",
        marker={
            "size": 18,
            "color": web.scores,
            "colorscale": SCALE,
            "cmin": -web.limit,
            "cmax": web.limit,
            "line": {"color": "#333333", "width": 1},
            "colorbar": {"title": web.value_title},
        },
    )
    figure.update_xaxes(visible=False, range=(-RIM, RIM))
    figure.update_yaxes(visible=False, range=(-RIM, RIM))


def _arrow_in_plotly(web: Web, leader: int, follower: int, weight: float) -> dict[str, object]:
    (x0, y0), (x1, y1) = web.places[leader], web.places[follower]
    return {"x": x1, "y": y1, "ax": x0, "ay": y0, "xref": "x", "yref": "y", "axref": "x", "ayref": "y", "text": ""} | {
        "showarrow": True,
        "arrowhead": 3,
        "arrowwidth": web.width(weight),
        "arrowcolor": "rgba(80,80,80,0.45)",
        "standoff": 10,
        "startstandoff": 10,
    }


def _web_in_matplotlib(axes: Axes, web: Web) -> PathCollection:
    look = {"arrowstyle": "-|>", "color": "#505050", "alpha": 0.45, "shrinkA": 8, "shrinkB": 8}
    for leader, follower, weight in web.arrows:
        arrow = look | {"lw": web.width(weight)}
        axes.annotate("", web.places[follower], web.places[leader], arrowprops=arrow)
    across, up = web.places.T
    nodes = axes.scatter(
        across,
        up,
        s=200,
        c=web.scores,
        cmap=SCALE,
        vmin=-web.limit,
        vmax=web.limit,
        edgecolors="#333333",
        zorder=3,
    )
    for name, place in zip(web.nodes, LABEL_DISTANCE * web.places, strict=True):
        axes.annotate(name, place, ha="center", va="center", fontsize=9)
    axes.set(xlim=(-RIM, RIM), ylim=(-RIM, RIM))
    axes.set_axis_off()
    return nodes


def _largest_size(values: Floats) -> float:
    """The largest absolute value; 1 where there is none, or all are 0."""
    return float(np.nanmax(np.abs(values), initial=0.0, where=np.isfinite(values))) or 1.0


def _ring(count: int) -> Floats:
    """(count, 2) places on a circle from top to bottom in rank order, left and right in turn: no three on a line."""
    angle = np.pi * np.arange(count) / max(count - 1, 1)
    side = np.where(np.arange(count) % 2, -1, 1)
    return np.column_stack([side * np.sin(angle), np.cos(angle)])
