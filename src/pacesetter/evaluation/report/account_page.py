"""The account of a backtest on paper: monthly returns, weights over time, and each symbol's trades on its prices."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from pacesetter.arrays import Array
from pacesetter.evaluation.report.page import Section, day_form, number
from pacesetter.evaluation.report.pictures import PALETTE, style_figure
from pacesetter.evaluation.statistics.metrics import win_rate
from pacesetter.market.ledger import Column, Fill
from pacesetter.market.lots import Lots
from pacesetter.market.trades import Trade

if TYPE_CHECKING:
    from pacesetter.evaluation.backtest.backtest import Backtest

__all__ = ["monthly_section", "trades_section", "weights_section"]

MOST_WEIGHTS = 8  # symbols with a colour of their own; the others are one band
MOST_POINTS = 400  # of a line
MOST_IN_ALL = 24_000  # of the price lines of all symbols together, so that the page stays below 3 MB
MOST_MARKS, MARKS_IN_ALL = 120, 2_400  # marks of each kind drawn on a symbol's prices, and on all
COLOURS, CASH_COLOUR = (*PALETTE[:7], "#8c6bb1"), "rgba(160,160,160,0.35)"
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
BLUE_ORANGE = [[0.0, PALETTE[5]], [0.5, "rgba(128,128,128,0.12)"], [1.0, PALETTE[0]]]


# ---- months ---------------------------------------------------------------------------------------------------------


def monthly_section(result: Backtest) -> Section:
    """Returns by year and month, and of each year, as a heat map with numbers."""
    by_month = _compound_returns(result, "M")
    days = pd.PeriodIndex(by_month.index)
    table = pd.DataFrame({"year": days.year, "month": days.month, "value": by_month.to_numpy()})
    months = table.pivot_table(index="year", columns="month", values="value").reindex(columns=range(1, 13))
    years = _compound_returns(result, "Y")
    won = int((by_month > 0).sum())
    best, worst = by_month.idxmax(), by_month.idxmin()
    text = (
        f"{won} of {len(by_month)} months with a gain. Best {best}: {by_month.max():+.1%}; "
        f"worst {worst}: {by_month.min():+.1%}. The last column is the whole year as far as it was judged."
    )
    return Section("Monthly returns", text, (_months_figure(months, years.to_numpy()),))


def _compound_returns(result: Backtest, period: str) -> pd.Series[float]:
    """Total return of each calendar month or year; a bar counts where it is known."""
    calendar = result.times.tz_localize(None).to_period(period)
    growth = pd.Series(1 + result.returns, result.times).groupby(calendar).prod()
    return growth - 1


def _months_figure(months: pd.DataFrame, years: Array) -> go.Figure:
    values = np.column_stack([months.to_numpy(float), years])
    # Colours by the months: a year's return would make every month pale.
    limit = float(np.nanmax(np.abs(months.to_numpy(float)), initial=0.0)) or 1.0
    texts = [["" if np.isnan(value) else f"{value:+.1%}" for value in row] for row in values]
    heat = go.Heatmap(
        z=np.clip(values, -limit, limit),
        x=[*MONTHS, "year"],
        y=[str(year) for year in months.index],
        text=texts,
        texttemplate="%{text}",
        hovertemplate="%{y} %{x}: %{text}<extra></extra>",
        colorscale=BLUE_ORANGE,
        zmid=0,
        showscale=False,
        xgap=2,
        ygap=2,
    )
    figure = style_figure(go.Figure(heat), "Return by month", 110 + 26 * len(months))
    figure.update_xaxes(type="category", side="top", showgrid=False)
    figure.update_layout(title={"yref": "container", "y": 0.98, "yanchor": "top"}, margin={"t": 70})
    return figure.update_yaxes(type="category", autorange="reversed", showgrid=False)


# ---- weights --------------------------------------------------------------------------------------------------------


def held_weights(result: Backtest) -> Array:
    """(n, K) share of equity in each symbol at the close of each bar."""
    quantities = result.fills[..., [Fill.QUANTITY, Fill.EXIT_QUANTITY]].sum(axis=2).cumsum(axis=0)
    # A ruined account has no equity to be a share of.
    equity = np.maximum(result.ledger[:, Column.EQUITY], 1e-12)
    weights: Array = np.nan_to_num(quantities * result.closes) / equity[:, None]
    return weights


def weights_section(result: Backtest) -> Section:
    """Where the money was: the largest symbols, all others together, and cash."""
    weights = held_weights(result)
    size = np.abs(weights).mean(axis=0)
    largest = np.argsort(-size, kind="stable")[:MOST_WEIGHTS]
    largest = largest[size[largest] > 0]
    rest = np.setdiff1d(np.flatnonzero(size > 0), largest)
    lines = {result.symbols[place]: weights[:, place] for place in largest}
    if len(rest):
        lines[f"{len(rest)} others"] = weights[:, rest].sum(axis=1)
    colours = [*COLOURS[: len(largest)], *["#bdbdbd"][: len(lines) - len(largest)], CASH_COLOUR]
    lines["cash"] = 1 - weights.sum(axis=1)
    rows = _thin_bars(len(result))
    figure = go.Figure()
    for colour, (name, values) in zip(colours, lines.items(), strict=True):
        # stacked where no position is short; a stack of both signs cannot be read
        stack = {"stackgroup": "all", "line": {"width": 0, "color": colour}} if weights.min() >= -1e-9 else {}
        line = {"line": {"width": 1.4, "color": colour}} | stack
        figure.add_scatter(x=result.times[rows], y=values[rows], name=name, mode="lines", **line)
    text = (
        f"Share of equity in the {len(largest)} largest of {len(result.symbols)} symbols"
        f"{', the others together' if len(rest) else ''}, and cash. "
        f"On average {np.abs(weights).sum(axis=1).mean():.0%} of equity is invested, in "
        f"{(np.abs(weights) > 1e-6).sum(axis=1).mean():.1f} symbols."
    )
    return Section("Weights over time", text, (style_figure(figure, "Weights").update_yaxes(tickformat=".0%"),))


# ---- trades ---------------------------------------------------------------------------------------------------------


def trades_section(result: Backtest) -> Section:
    """A picture for each symbol that was traded, the one that earned or lost most first, and a table of all."""
    by_symbol: dict[int, list[Trade]] = {}
    for trade in result.trades():
        by_symbol.setdefault(trade.position, []).append(trade)
    lots = result.lots()
    opened = {place: Lots(*(column[lots.position == place] for column in lots)) for place in by_symbol}
    by_lot = {place: own.drop_open() for place, own in opened.items()}
    earned = {place: float(closed.pnl.sum()) for place, closed in by_lot.items()}
    order = sorted(by_symbol, key=lambda place: -abs(earned[place]))
    choices = tuple(
        (result.symbols[place], _prices_figure(result, place, by_symbol[place], opened[place])) for place in order
    )
    rows = tuple(_symbol_row(result.symbols[place], by_symbol[place], by_lot[place]) for place in order)
    header = ("symbol", "trades", "lots", "with a gain", "profit and loss", "mean bars", "largest gain", "largest loss")
    count, closed_lots = sum(map(len, by_symbol.values())), sum(len(closed.pnl) for closed in by_lot.values())
    text = (
        f"{count:,} trades from flat to flat in {len(order)} of {len(result.symbols)} symbols, and {closed_lots:,} "
        "lots closed, first in, first out. Pick a symbol to see its trades; the largest are drawn. Gains, profit and "
        "loss and bars are of closed lots, after commission."
    )
    return Section("Trades on prices", text if order else "Nothing was traded.", (), header, rows, choices=choices)


def _symbol_row(symbol: str, trades: list[Trade], lots: Lots) -> tuple[str, ...]:
    gains, bars = lots.pnl, lots.exit_bar - lots.entry_bar
    return (
        symbol,
        f"{len(trades):,}",
        f"{len(gains):,}",
        number(float(win_rate(gains)), ".0%"),
        f"{gains.sum():+,.0f}",
        number(float(bars.mean()) if len(bars) else math.nan, ".0f"),
        f"{gains.max(initial=0.0):+,.0f}",
        f"{gains.min(initial=0.0):+,.0f}",
    )


def _prices_figure(result: Backtest, place: int, closed: list[Trade], lots: Lots) -> go.Figure:
    """A symbol's closes with its largest entries, each at its own price, and the exits of its largest trades."""
    most = min(MOST_MARKS, MARKS_IN_ALL // len(result.symbols))
    drawn = sorted(sorted(closed, key=lambda trade: -abs(trade.pnl))[:most], key=lambda trade: trade.entry_bar)
    closes = np.where(result.closes[:, place] > 0, result.closes[:, place], np.nan)
    rows = _thin_bars(len(result), MOST_IN_ALL // len(result.symbols))
    line = {"width": 1.2, "color": "#808080"}
    figure = go.Figure(go.Scatter(x=result.times[rows], y=closes[rows], mode="lines", name="close", line=line))
    for name, marks in _marks(result, drawn, lots, most).items():
        figure.add_scatter(name=name, mode="markers", **marks)
    cut = f" ({len(drawn)} of {len(closed)} trades)" if len(drawn) < len(closed) else ""
    return style_figure(figure, f"{result.symbols[place]}: entries and exits{cut}", 420)


def _marks(result: Backtest, drawn: list[Trade], lots: Lots, most: int) -> Mapping[str, dict[str, object]]:
    """Name in the legend -> points."""
    form = day_form(result.times)
    closed = [trade for trade in drawn if trade.exit_bar is not None]
    kinds: dict[str, tuple[list[tuple[int, float, str]], dict[str, object]]] = {
        "long entry": (_entries(lots, 1, most), {"symbol": "triangle-up", "color": PALETTE[0], "size": 9}),
        "short entry": (_entries(lots, -1, most), {"symbol": "triangle-down", "color": PALETTE[3], "size": 9}),
        "reduced": (
            _reductions(lots, drawn, most),
            {"symbol": "circle-open", "color": PALETTE[1], "size": 6},
        ),
        "exit with a gain": (
            _exits([trade for trade in closed if trade.pnl > 0]),
            {"symbol": "x", "color": PALETTE[2], "size": 8},
        ),
        "exit with a loss": (
            _exits([trade for trade in closed if trade.pnl <= 0]),
            {"symbol": "x", "color": PALETTE[5], "size": 8},
        ),
    }
    return {
        name: {
            "x": result.times[[bar for bar, _, _ in points]],
            "y": [price for _, price, _ in points],
            "text": [f"{result.times[bar]:{form}}: {label}" for bar, _, label in points],
            "hovertemplate": "%{text}<extra></extra>",
            "marker": marker,
        }
        for name, (points, marker) in kinds.items()
        if points
    }


def _entries(lots: Lots, side: int, most: int) -> list[tuple[int, float, str]]:
    """The bars at which most was bought or sold short; lots of one bar are one entry, whatever closed them."""
    frame = lots.to_frame()
    by_bar = frame[np.sign(frame["quantity"]) == side].groupby("entry_bar")
    largest = by_bar["quantity"].sum().abs().nlargest(most).index.sort_values()
    prices = by_bar["entry_price"].first()
    return [(int(bar), float(prices[bar]), f"entry at {prices[bar]:,.2f}") for bar in largest]


def _reductions(lots: Lots, drawn: list[Trade], most: int) -> list[tuple[int, float, str]]:
    """The bars at which part of a holding was given up; those that ended a trade are its exits."""
    frame = lots.drop_open().to_frame()
    by_bar = frame[~frame["exit_bar"].isin([trade.exit_bar for trade in drawn])].groupby("exit_bar")
    largest = by_bar["quantity"].sum().abs().nlargest(most).index.sort_values()
    prices, pnl = by_bar["exit_price"].first(), by_bar["pnl"].sum()
    return [(int(bar), float(prices[bar]), f"reduced, {pnl[bar]:+,.0f}") for bar in largest]


def _exits(closed: list[Trade]) -> list[tuple[int, float, str]]:
    return [
        (trade.exit_bar, trade.exit_price or 0.0, f"{trade.pnl:+,.0f}, {trade.reason.replace('_', ' ')}")
        for trade in closed
        if trade.exit_bar is not None
    ]


def _thin_bars(bars: int, most: int = MOST_POINTS) -> Array:
    return np.unique(np.linspace(0, bars - 1, min(bars, most, MOST_POINTS)).astype(int))
