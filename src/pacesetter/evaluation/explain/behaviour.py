"""What a policy does and sees, in pictures: its actions, by two features, its attention, its values, its alarms.

Each function gives a `BehaviourFinding`: a sentence, a table and a figure, ready for the report. A feature is named by
the entry of the observation that holds it and its own name, e.g. `("position", "weight")`; of a window the newest
bar is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from pacesetter.arrays import Array
from pacesetter.errors import ConfigError, DataError, did_you_mean
from pacesetter.evaluation.report.page import Section, number
from pacesetter.evaluation.report.pictures import PALETTE, style_figure
from pacesetter.leadlag.structure.anomaly import AlertLevels
from pacesetter.market.orders import Discrete
from pacesetter.policies.variety import evenness

__all__ = [
    "BehaviourFinding",
    "action_distribution",
    "anomaly_overlay",
    "attention_map",
    "state_action_map",
    "value_landscape",
]

Names = Mapping[str, Sequence[str]]  # entry of the observation -> names of its last axis
Feature = tuple[str, str]
BINS = 20
DIVERGING = [[0.0, PALETTE[5]], [0.5, "#f2f2f2"], [1.0, PALETTE[0]]]
MOST_ROWS = 30
UNSEEN_SPAN = 0.1  # shown of a feature that never varied, e.g. the weight of an agent that never bought
GRADES = {1: ("warning", PALETTE[1]), 2: ("alarm", PALETTE[5])}


@dataclass(frozen=True, eq=False)
class BehaviourFinding:
    """What was found: a title, a sentence, a table and its figure; `is_listed` where the report shows the table too."""

    title: str
    text: str
    table: pd.DataFrame
    figure: go.Figure
    is_listed: bool = True

    def section(self) -> Section:
        """The finding as a part of the report; of a long table the first rows."""
        if not self.is_listed:
            return Section(self.title, self.text, (self.figure,))
        rows = tuple(tuple(map(_cell, row)) for row in self.table[:MOST_ROWS].itertuples(index=False))
        header = tuple(str(column).replace("_", " ") for column in self.table.columns)
        return Section(self.title, self.text, (self.figure,), header, rows)


def _cell(value: object) -> str:
    if isinstance(value, pd.Timestamp):
        return f"{value:%Y-%m-%d}"
    if not isinstance(value, float):
        return str(value)
    return number(value, ",.0f" if abs(value) >= 1000 else ".4g")  # money without an exponent


# ---- what it does ---------------------------------------------------------------------------------------------------


def action_distribution(actions: Array, names: Sequence[str] | None = None) -> BehaviourFinding:
    """How often each discrete action, or each twentieth of the range of continuous ones, was taken.

    `names` are those of the discrete actions, the seven orders unless given. Refuses an empty record.
    """
    values = np.ravel(actions)
    if len(values) == 0:
        raise DataError("there is no action to count; run an episode first")
    if np.issubdtype(values.dtype, np.integer):
        labels = [order.name.lower().replace("_", " ") for order in Discrete] if names is None else list(names)
        counts = np.bincount(values, minlength=len(labels))
    else:
        # The range holds 0 and 1 in any case, so that pictures of different policies compare.
        counts, edges = np.histogram(values, bins=BINS, range=(min(values.min(), 0.0), max(values.max(), 1.0)))
        labels = [f"{low:.2f} … {high:.2f}" for low, high in pairwise(edges)]
    share = counts / len(values)
    table = pd.DataFrame({"action": labels, "count": counts, "share": share})
    text = (
        f"{len(values):,} actions; the most frequent one, {labels[share.argmax()]}, takes {share.max():.0%}; "
        f"the entropy is {evenness(counts):.0%} of the maximum."
    )
    figure = style_figure(go.Figure(go.Bar(x=labels, y=share)), "Actions taken", 340).update_yaxes(tickformat=".0%")
    return BehaviourFinding("Action distribution", text, table, figure)


def state_action_map(
    observations: Mapping[str, Array], actions: Array, x: Feature, y: Feature, names: Names, bins: int = 10
) -> BehaviourFinding:
    """Mean action by two features, each cut into `bins` of equal counts; NaN where the two never met.

    actions   (observation,) or (observation, symbol) numbers, e.g. orders by `market.orders.as_continuous`
    """
    across, up = (np.ravel(_feature(observations, feature, names)) for feature in (x, y))
    taken = np.ravel(actions).astype(np.float64)
    if not len(across) == len(up) == len(taken):
        raise DataError(f"{len(taken)} actions do not match {x} ({len(across)} values) and {y} ({len(up)} values)")
    frame = pd.DataFrame({"x": _middles(across, bins), "y": _middles(up, bins), "action": taken})
    table = frame.pivot_table(index="y", columns="x", values="action", aggfunc="mean")
    heat = go.Heatmap(
        z=table.to_numpy(),
        x=[f"{middle:.3g}" for middle in table.columns],
        y=[f"{middle:.3g}" for middle in table.index],
        colorscale=DIVERGING,
        zmid=0.0,
        colorbar={"title": "mean action"},
    )
    figure = style_figure(go.Figure(heat), f"Mean action by {_label(x)} and {_label(y)}", 440)
    figure.update_xaxes(title=_label(x), type="category").update_yaxes(title=_label(y), type="category")
    text = f"Mean action over {len(taken):,} decisions; axes show the median of each bin of equal counts."
    return BehaviourFinding("State–action map", text, table, figure, is_listed=False)


def _middles(values: Array, bins: int) -> Array:
    """Each value's bin of equal counts, as the median of the values in it."""
    # Equal counts instead of equal widths: heavy tails would put nearly all decisions into one bin. Unique, since many
    # values may be equal.
    edges = np.unique(np.nanquantile(values, np.linspace(0, 1, bins + 1)[1:-1]))
    series = pd.Series(values.astype(np.float64))
    return series.groupby(np.searchsorted(edges, values, side="right")).transform("median").to_numpy()


def _feature(observations: Mapping[str, Array], feature: Feature, names: Names) -> Array:
    """(observation,) or (observation, symbol) values of a feature, of a window at its newest bar."""
    values = np.asarray(observations[_entry(feature, names)])
    column = values[..., _place(feature, names)]
    return column[..., -1] if feature[0] == "window" else column


def _entry(feature: Feature, names: Names) -> str:
    if feature[0] not in names:
        raise ConfigError(f"the observation has no entry '{feature[0]}'{did_you_mean(feature[0], names)}")
    return feature[0]


def _place(feature: Feature, names: Names) -> int:
    entry, name = feature
    if name not in names[entry]:
        raise ConfigError(f"'{entry}' has no feature '{name}'{did_you_mean(name, names[entry])}")
    return list(names[entry]).index(name)


def _label(feature: Feature) -> str:
    return f"{feature[0]} {feature[1]}".replace("_", " ")


# ---- what its networks say ------------------------------------------------------------------------------------------


def value_landscape(
    agent: object,
    observations: Mapping[str, Array],
    x: Feature,
    y: Feature,
    names: Names,
    points: int = 25,
    asset: int = 0,
) -> BehaviourFinding:
    """The critic's value over two features between their 1 % and 99 % quantiles, all else at the median observation.

    asset   whose features are moved, in observations of a whole market
    """
    import torch

    from pacesetter.learning.sb3.readout import readout

    network = readout(agent)
    if network.values is None:
        raise ConfigError(f"{type(agent).__name__} has no critic, so it has no values; give an agent that has one")
    entries = {name: entry.numpy() for name, entry in network.tensors(observations).items()}
    # Between the 1 % and 99 % quantiles: outside them the critic was hardly trained.
    low, high = np.transpose([np.quantile(_feature(entries, feature, names), (0.01, 0.99)) for feature in (x, y)])
    across, up = np.linspace(low, np.where(high > low, high, low + UNSEEN_SPAN), points).T
    # The median, not the mean: flags and masks keep values that occur.
    grid = {name: np.repeat(np.median(entry, axis=0)[None], points**2, axis=0) for name, entry in entries.items()}
    for feature, values in zip((x, y), np.meshgrid(across, up), strict=True):
        moved = _feature(grid, feature, names)  # a view
        # Written through a view of the grid: of a whole market one asset's feature moves, the others stay.
        moved[(slice(None), asset)[: moved.ndim]] = values.ravel()
    with torch.no_grad():
        values = network.values(network.tensors(grid)).numpy().reshape(points, points)
    table = pd.DataFrame(values, index=up, columns=across)
    heat = go.Contour(z=values, x=across, y=up, colorscale="Cividis", colorbar={"title": "value"})
    figure = style_figure(go.Figure(heat), f"Value by {_label(x)} and {_label(y)}", 440)
    figure.update_xaxes(title=_label(x)).update_yaxes(title=_label(y))
    text = f"Critic's value, from {values.min():.4g} to {values.max():.4g}; other inputs at the median observation."
    return BehaviourFinding("Value landscape", text, table, figure, is_listed=False)


def attention_map(
    agent: object, observations: Mapping[str, Array], symbols: Sequence[str] | None = None
) -> BehaviourFinding:
    """Mean attention over observations, layers and heads: of bars to bars of a window, or of assets to assets.

    Rows look, columns are looked at; bar 0 is the newest. Refuses a network without attention.
    """
    from pacesetter.agents.encoders import TransformerEncoder
    from pacesetter.learning.sb3.readout import readout

    network = readout(agent)
    encoder, inputs = network.encoder, network.inputs(network.tensors(observations))
    if isinstance(encoder, TransformerEncoder) and encoder.layout.window:
        kind, attention = "bar", encoder.attention_weights(inputs)
        labels = [str(k) for k in range(1 - attention.shape[-1], 1)]
    else:
        kind, attention = "asset", encoder.asset_weights(inputs)
        labels = list(symbols or map(str, range(attention.shape[-1])))
    # Over observations, layers and heads: heads specialise, and a single one would mislead.
    weights = attention.mean(dim=(0, 1, 2)).numpy()  # of (observation, layer, head, row, column)
    table = pd.DataFrame(weights, index=labels, columns=labels)
    received = pd.Series(weights.mean(axis=0), index=labels).sort_values(ascending=False)
    text = f"Rows attend to columns. Highest attention: {', '.join(f'{k} ({v:.0%})' for k, v in received[:5].items())}."
    heat = go.Heatmap(z=weights, x=labels, y=labels, colorscale="Cividis", zmin=0.0)
    figure = style_figure(go.Figure(heat), f"Attention between {kind}s", max(340, min(60 + 16 * len(labels), 900)))
    figure.update_xaxes(type="category").update_yaxes(type="category", autorange="reversed")
    return BehaviourFinding(f"Attention by {kind}", text, table, figure, is_listed=False)


# ---- when the structure broke ---------------------------------------------------------------------------------------


def anomaly_overlay(
    equity: pd.Series, scores: pd.Series, levels: AlertLevels | None = None, after_bars: int = 20
) -> BehaviourFinding:
    """An equity curve with the alarms of `leadlag.structure.anomaly`, and the return in the bars after each.

    equity, scores   by time; an alarm is shown at the first moment of the curve at which it was known
    """
    grades = (levels or AlertLevels()).grade(scores.to_numpy())
    # The first bar not before the score was known: a mark never stands before its cause.
    places = equity.index.searchsorted(scores.index)
    shown = (grades > 0) & (places < len(equity))
    at, later = places[shown], np.minimum(places[shown] + after_bars, len(equity) - 1)
    money = equity.to_numpy()
    table = pd.DataFrame(
        {
            "time": equity.index[at],
            "grade": [GRADES[grade][0] for grade in grades[shown]],
            "score": scores.to_numpy()[shown],
            "equity": money[at],
            f"return in {after_bars} bars": money[later] / money[at] - 1,
        }
    )
    line = {"width": 1, "color": PALETTE[0]}
    figure = go.Figure(go.Scatter(x=equity.index, y=money, name="equity", mode="lines", line=line))
    for name, colour in GRADES.values():
        marks = table[table["grade"] == name]
        marker = {"symbol": "x", "size": 8, "color": colour}
        figure.add_scatter(x=marks["time"], y=marks["equity"], name=name, mode="markers", marker=marker)
    counts = table["grade"].value_counts()
    text = (
        f"Times at which the leaders changed more than usual; warnings: {counts.get('warning', 0)}, "
        f"alarms: {counts.get('alarm', 0)}."
    )
    return BehaviourFinding(
        "Anomalies over equity", text, table, style_figure(figure, "Equity with anomalies of the lead–lag matrix")
    )
