"""A plotly figure as plain SVG: lines, bars and heat maps, seen before any script has run and where none does."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from pacesetter.arrays import Array, Floats

__all__ = ["static_svg"]

WIDTH, MARGIN_LEFT, MARGIN_TOP, MARGIN_RIGHT, MARGIN_BOTTOM = 900.0, 70.0, 34.0, 20.0, 30.0
COLORS = ("#4c78a8", "#f58518", "#54a24b", "#e45756", "#72b7b2", "#b279a2", "#9d755d", "#bab0ac")
MOST_POINTS, MOST_CELLS, MOST_LABELS, MOST_STEPS = 400, 30, 8, 4
LETTER, SWATCH = 6.2, 9.0  # pixels: the width of a letter of the legend, and its square of colour
MOST_LETTERS = 40  # of a name in it
GREYS = ((0.0, "#ffffff"), (1.0, "#000000"))  # of a heat map that names no colours
TAG = re.compile(r"<[^>]*>")


class Axis(NamedTuple):
    """One axis of a figure: its pixels, the numbers at its two ends, and the names of its places if it has names.

    Numbers of a logarithmic axis are logarithms.
    """

    start: float
    stop: float
    low: float
    high: float
    names: tuple[str, ...]
    is_date: bool
    is_shown: bool = True
    is_log: bool = False
    is_share: bool = False

    def pixels(self, values: Floats) -> Array:
        """Where values lie."""
        span = self.high - self.low or 1.0
        placed: Array = self.start + (values - self.low) / span * (self.stop - self.start)
        return placed

    def numbers(self, values: Sequence[object] | Array) -> Floats:
        """Values as numbers of this axis."""
        if self.names:
            places = {name: place for place, name in enumerate(self.names)}
            return np.array([places.get(str(value), np.nan) for value in values], dtype=float)
        return _dates(values) if self.is_date else _logarithms(values) if self.is_log else _floats(values)

    def labels(self) -> list[tuple[float, str]]:
        """Some of its numbers with their texts."""
        if self.names:
            step = -(-len(self.names) // MOST_LABELS)
            return [(float(place), self.names[place]) for place in range(0, len(self.names), step)]
        if self.is_date:
            values = np.linspace(self.low, self.high, 3)
            return [(value, f"{pd.Timestamp(int(value)):%Y-%m-%d}") for value in values]
        written = "{:.3g}%".format if self.is_share else _short_number
        scale = 100.0 if self.is_share else 1.0
        if not self.is_log:
            return [(value, written(scale * value)) for value in _round_numbers(self.low, self.high)]
        shown = _round_numbers(10**self.low, 10**self.high)
        if self.high - self.low > 1.0:  # decades
            shown = 10.0 ** np.arange(np.ceil(self.low), self.high + 1e-9)
        return [(float(np.log10(value)), written(scale * value)) for value in shown if value > 0]


def static_svg(figure: Mapping[str, Any]) -> str:
    """The figure as plotly's JSON holds it, as an SVG element; empty where it has nothing that is drawn here."""
    layout = figure.get("layout", {})
    traces = [trace for trace in figure.get("data", ()) if trace.get("visible") not in (False, "legendonly")]
    height = float(layout.get("height", 380))
    axes: dict[str, Axis] = {}
    for trace in traces:
        for letter in "xy":
            name = trace.get(f"{letter}axis", letter)
            if name not in axes:
                alike = _follow_match(name, layout)
                own = [each for each in traces if _follow_match(each.get(f"{letter}axis", letter), layout) == alike]
                axes[name] = _axis(letter, layout.get(f"{letter}axis{name[1:]}", {}), own, height)
    parts = [_text(WIDTH / 2, 16, _title(layout), "middle", 14)]
    drawn, names = [], []
    for place, trace in enumerate(traces):
        color = _color(trace, layout.get("colorway", COLORS), place)
        x, y = axes[trace.get("xaxis", "x")], axes[trace.get("yaxis", "y")]
        drawn.append(DRAWN.get(trace.get("type", "scatter"), _nothing)(trace, x, y, color))
        if trace.get("name") and trace.get("showlegend", True) and trace.get("type") != "heatmap":
            names.append((str(trace["name"]), color))
    if not any(drawn):
        return ""
    if len(names) > 1:
        parts.extend(_draw_legend(names))
    parts.extend(_draw_note(note, axes) for note in layout.get("annotations", ()))
    for name, axis in axes.items():
        parts.extend(_draw_axis(name, axis, axes, height))
    return (
        f'<svg viewBox="0 0 {WIDTH:.0f} {height:.0f}" width="100%" height="{height:.0f}" role="img" '
        f'font-family="sans-serif">{"".join(filter(None, [*parts, *drawn]))}</svg>'
    )


def _draw_legend(names: Sequence[tuple[str, str]]) -> list[str]:
    """Names beside squares of their colours, in one line as far as it goes; then how many more there are."""
    parts: list[str] = []
    at, room = MARGIN_LEFT, WIDTH - MARGIN_RIGHT
    for place, (name, color) in enumerate(names):
        text = name if len(name) <= MOST_LETTERS else name[: MOST_LETTERS - 1] + "…"
        rest = f"+{len(names) - place}"
        if at + SWATCH + LETTER * (len(text) + len(rest) + 4) > room and place:
            return [*parts, _text(at, 30, rest, "start", 11)]
        parts.append(f'<rect x="{at:.1f}" y="21" width="{SWATCH:.0f}" height="{SWATCH:.0f}" fill="{color}"/>')
        parts.append(_text(at + SWATCH + 4, 30, text, "start", 11))
        at += SWATCH + LETTER * (len(text) + 3)
    return parts


# ---- axes -----------------------------------------------------------------------------------------------------------


def _follow_match(name: str, layout: Mapping[str, Any]) -> str:
    """The axis whose numbers one shows: of pictures above each other often the same dates."""
    return str(layout.get(f"{name[0]}axis{name[1:]}", {}).get("matches", name))


def _axis(letter: str, options: Mapping[str, Any], traces: Sequence[Mapping[str, Any]], height: float) -> Axis:
    """The axis that these traces share."""
    first, last = options.get("domain", (0.0, 1.0))
    if letter == "x":
        room = WIDTH - MARGIN_LEFT - MARGIN_RIGHT
        start, stop = MARGIN_LEFT + first * room, MARGIN_LEFT + last * room
    else:
        room = height - MARGIN_TOP - MARGIN_BOTTOM
        start, stop = height - MARGIN_BOTTOM - first * room, height - MARGIN_BOTTOM - last * room
        if options.get("autorange") == "reversed":
            start, stop = stop, start
    is_shown = options.get("visible", True) and options.get("showticklabels", True)
    columns = [_values(trace, letter) for trace in traces]
    texts = [value for column in columns for value in column if isinstance(value, str)]
    is_date = bool(texts) and options.get("type") != "category" and all(map(_is_date, (texts[0], texts[-1])))
    if texts and not is_date:
        names = tuple(dict.fromkeys(str(value) for column in columns for value in column))
        return Axis(start, stop, -0.5, len(names) - 0.5, names, False, is_shown)
    is_share = str(options.get("tickformat", "")).endswith("%")
    is_log = options.get("type") == "log"
    read = _dates if is_date else _logarithms if is_log else _floats
    numbers = [read(column) for column in columns]
    values = np.concatenate([*numbers, *[[0.0] for trace in traces if _is_length(trace, letter)]])
    values = values[np.isfinite(values)]
    low, high = (float(values.min()), float(values.max())) if len(values) else (0.0, 1.0)
    if any(trace.get("type") in ("heatmap", "bar") and not _is_length(trace, letter) for trace in traces):
        step = (high - low) / max(len(np.unique(values)) - 1, 1) or 1.0
        low, high = low - step / 2, high + step / 2
    given = options.get("range")
    if given and not is_date and all(isinstance(value, (int, float)) for value in given):
        low, high = float(given[0]), float(given[1])
    return Axis(start, stop, low, high, (), is_date, is_shown, is_log, is_share)


def _is_length(trace: Mapping[str, object], letter: str) -> bool:
    """Whether bars have their length along this axis, which then begins at 0."""
    return trace.get("type") == "bar" and (letter == "x") == (trace.get("orientation") == "h")


def _draw_axis(name: str, axis: Axis, axes: Mapping[str, Axis], height: float) -> list[str]:
    other = axes.get(("y" if name[0] == "x" else "x") + name[1:])
    lines = []
    for value, text in axis.labels() if axis.is_shown else ():
        at = float(axis.pixels(np.array(value)))
        if name[0] == "x":
            below = max(other.start, other.stop) if other else height - MARGIN_BOTTOM
            lines.append(_text(at, below + 16, text[:14], "middle", 11))
        else:
            left = min(other.start, other.stop) if other else MARGIN_LEFT
            lines.append(_text(left - 6, at + 4, text[:12], "end", 11))
    return lines


# ---- traces ---------------------------------------------------------------------------------------------------------


def _line(trace: Mapping[str, Any], x: Axis, y: Axis, color: str) -> str:
    across, up = x.pixels(x.numbers(_values(trace, "x"))), y.pixels(y.numbers(_values(trace, "y")))
    step = max(-(-len(up) // MOST_POINTS), 1)
    points = np.column_stack([across[: len(up)], up[: len(across)]])[::step]
    mode = trace.get("mode", "lines")
    if "lines" not in mode:
        known = points[np.isfinite(points).all(axis=1)]
        names = trace.get("text", ()) if "text" in mode and step == 1 and len(known) == len(points) else ()
        names = () if isinstance(names, str) else names
        words = [_text(a, b - 6, str(name), "middle", 11) for (a, b), name in zip(known, names, strict=False)]
        return "".join([*(f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" fill="{color}"/>' for a, b in known), *words])
    # A gap ends one line and begins the next.
    gaps = np.flatnonzero(~np.isfinite(points).all(axis=1))
    runs = [run[np.isfinite(run).all(axis=1)] for run in np.split(points, gaps)]
    return "".join(
        f'<polyline fill="none" stroke="{color}" stroke-width="1.5" points="'
        + " ".join(f"{a:.1f},{b:.1f}" for a, b in run)
        + '"/>'
        for run in runs
        if len(run) > 1
    )


def _bars(trace: Mapping[str, object], x: Axis, y: Axis, color: str) -> str:
    is_flat = trace.get("orientation") == "h"
    along, across = (y, x) if is_flat else (x, y)
    first, second = ("y", "x") if is_flat else ("x", "y")
    places = along.pixels(along.numbers(_values(trace, first)))
    ends = across.pixels(across.numbers(_values(trace, second)))
    zero, thick = float(across.pixels(np.array(0.0))), 0.7 * abs(along.stop - along.start) / max(len(places), 1)
    rects = []
    for place, end in zip(places, ends, strict=False):
        if np.isfinite(place) and np.isfinite(end):
            low, length, side = min(zero, end), abs(end - zero), place - thick / 2
            box = (low, side, length, thick) if is_flat else (side, low, thick, length)
            rects.append(
                '<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" '.format(*box) + f'fill="{color}"/>'
            )
    return "".join(rects)


def _heat(trace: Mapping[str, Any], x: Axis, y: Axis, color: str) -> str:
    cells = _matrix(trace.get("z", ()))
    if not cells.size:
        return ""
    rows, columns = (np.unique(np.linspace(0, size - 1, min(size, MOST_CELLS)).astype(int)) for size in cells.shape)
    shown = cells[np.ix_(rows, columns)]
    known = shown[np.isfinite(shown)]
    if not len(known):
        return ""
    low, high = float(trace.get("zmin", known.min())), float(trace.get("zmax", known.max()))
    wide, tall = abs(x.stop - x.start) / len(columns), abs(y.stop - y.start) / len(rows)
    left, upward = min(x.start, x.stop), y.stop < y.start
    rects, colors = [], _color_scale(trace.get("colorscale") or GREYS)
    for row, values in enumerate(shown):
        top = y.start - (row + 1) * tall if upward else y.start + row * tall
        for column, value in enumerate(values):
            if np.isfinite(value):
                at = f'x="{left + column * wide:.1f}" y="{top:.1f}" width="{wide + 0.3:.1f}" height="{tall + 0.3:.1f}"'
                rects.append(f'<rect {at} fill="{colors((value - low) / (high - low or 1.0))}"/>')
    # What is not significant is faint here as well.
    return f'<g opacity="{float(trace.get("opacity", 1.0)):.2f}">{"".join(rects)}</g>'


def _nothing(trace: Mapping[str, object], x: Axis, y: Axis, color: str) -> str:
    return ""


DRAWN = {"scatter": _line, "scattergl": _line, "bar": _bars, "heatmap": _heat}


# ---- values ---------------------------------------------------------------------------------------------------------


def _values(trace: Mapping[str, object], letter: str) -> Sequence[Any] | Array:
    """What a trace has along an axis; places from 0 where it names none."""
    own: Sequence[Any] | Array | None = _plain(trace.get(letter))
    if own is not None:
        return own
    if trace.get("type") == "heatmap":
        return np.arange(_matrix(trace.get("z", ())).shape[0 if letter == "y" else 1], dtype=float)
    other = _plain(trace.get("y" if letter == "x" else "x"))
    return np.arange(len(other) if other is not None else 0, dtype=float)


def _plain(values: object) -> Any:
    """Values of plotly's JSON, whose arrays of numbers are packed."""
    if not isinstance(values, Mapping):
        return values
    unpacked = np.frombuffer(base64.b64decode(values["bdata"]), np.dtype(values["dtype"]).newbyteorder("<"))
    shape = values.get("shape")
    return unpacked.reshape([int(size) for size in str(shape).split(",")]) if shape else unpacked


def _matrix(values: object) -> Floats:
    plain = _plain(values)
    if isinstance(plain, np.ndarray):
        return plain.astype(float)
    rows = [_floats(_plain(row)) for row in plain]
    return np.stack(rows) if rows else np.zeros((0, 0))


def _floats(values: Any) -> Floats:
    return np.array([np.nan if value is None else value for value in values], dtype=float)


def _logarithms(values: Any) -> Array:
    numbers = _floats(values)
    return np.log10(np.where(numbers > 0, numbers, np.nan))


def _round_numbers(low: float, high: float) -> Array:
    """At most five numbers from low to high, whose step is 1, 2 or 5 of a power of ten."""
    if not high > low:
        return np.array([low])
    raw = (high - low) / MOST_STEPS
    power = 10.0 ** np.floor(np.log10(raw))
    step = power * next(size for size in (1, 2, 5, 10) if size * power >= raw * (1 - 1e-9))
    shown: Array = step * np.arange(np.ceil(low / step - 1e-9), np.floor(high / step + 1e-9) + 1) + 0.0  # no −0
    return shown


def _short_number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _dates(values: Any) -> Array:
    stamps = pd.to_datetime(pd.Series(list(values), dtype=object), errors="coerce", utc=True, format="ISO8601")
    numbers = stamps.dt.as_unit("ns").astype("int64").to_numpy().astype(float)
    numbers[stamps.isna().to_numpy()] = np.nan
    return numbers


def _is_date(text: str) -> bool:
    return re.match(r"\d{4}-\d\d(-\d\d|$)", text) is not None


def _color(trace: Mapping[str, Any], colorway: Sequence[str], place: int) -> str:
    for part in ("line", "marker"):
        given = trace.get(part, {}).get("color")
        if isinstance(given, str):
            return escape(given, quote=True)
    return escape(str(colorway[place % len(colorway)]), quote=True)


def _color_scale(scale: Sequence[Any]) -> Callable[[float], str]:
    """The colour of a share of the way through plotly's list of shares and colours."""
    shares, colors = [float(share) for share, _ in scale], np.array([_channels(str(color)) for _, color in scale])

    def color_at(share: float) -> str:
        return "#{:02x}{:02x}{:02x}".format(*(round(float(np.interp(share, shares, part))) for part in colors.T))

    return color_at


def _channels(color: str) -> tuple[float, ...]:
    """Red, green and blue of `#rrggbb` or `rgb(r,g,b)`."""
    if color.startswith("#"):
        return tuple(float(int(color[at : at + 2], 16)) for at in (1, 3, 5))
    return tuple(float(part) for part in re.findall(r"[\d.]+", color)[:3])


def _draw_note(note: Mapping[str, object], axes: Mapping[str, Axis]) -> str:
    """The arrow and the words of an annotation that stands at values of the axes."""
    x, y = axes.get(str(note.get("xref", "x"))), axes.get(str(note.get("yref", "y")))
    if x is None or y is None:
        return ""
    a, b = float(x.pixels(x.numbers([note["x"]]))[0]), float(y.pixels(y.numbers([note["y"]]))[0])
    words = _text(a, b - 12, str(note.get("text", "")), "middle", 11)
    if note.get("axref") != note.get("xref") or "ax" not in note:
        return words
    c, d = float(x.pixels(x.numbers([note["ax"]]))[0]), float(y.pixels(y.numbers([note["ay"]]))[0])
    # The head is a dot near the end that the arrow points to.
    near = (a + 0.06 * (c - a), b + 0.06 * (d - b))
    line = f'<line x1="{c:.1f}" y1="{d:.1f}" x2="{a:.1f}" y2="{b:.1f}" stroke="#999" stroke-width="1.2"/>'
    return line + f'<circle cx="{near[0]:.1f}" cy="{near[1]:.1f}" r="4" fill="#999"/>' + words


def _title(layout: Mapping[str, object]) -> str:
    title = layout.get("title", "")
    return str(title.get("text") or "") if isinstance(title, Mapping) else str(title or "")


def _text(x: float, y: float, text: str, anchor: str, size: int, color: str = "currentColor") -> str:
    plain = escape(TAG.sub(" ", text))
    if not plain:
        return ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" fill="{color}">{plain}</text>'
