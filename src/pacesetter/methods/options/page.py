"""Options on paper: which one was in force when, as a Gantt chart under the price, and how each was used."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from pacesetter.evaluation.report.page import Section, number
from pacesetter.evaluation.report.pictures import PALETTE, style_figure

__all__ = ["option_spells", "options_figure", "options_section"]

HEADER = ("option", "share of bars", "spells", "mean bars", "spells in which the price rose", "mean move of the price")
MOST_BARS = 400  # the latest ones that are drawn: more spells than that are lines without a width


def option_spells(fills: pd.DataFrame) -> pd.DataFrame:
    """A row for each spell of bars in which a symbol had one option in force, of `fills` with the column `option`.

    symbol, option, start, end   of the first and last bar that its orders filled in       bars
    move    of the price over these bars, log

    An option that follows itself counts as one spell: the ledger says which was in force, not when it was chosen.
    """
    rows = []
    for symbol, own in fills.groupby("symbol", sort=False):
        names, closes = own["option"].to_numpy(str), own["close"].to_numpy(float)
        moves = np.concatenate([[0.0], np.diff(np.log(np.where(closes > 0, closes, np.nan)))])
        cuts = np.flatnonzero(names[1:] != names[:-1]) + 1
        for start, end in zip([0, *cuts], [*cuts, len(names)], strict=True):
            if names[start]:
                last = own.index[end - 1]
                move = float(np.nansum(moves[start:end]))
                rows.append((symbol, names[start], own.index[start], last, end - start, move))
    return pd.DataFrame(rows, columns=["symbol", "option", "start", "end", "bars", "move"])


def options_figure(fills: pd.DataFrame, symbol: str) -> go.Figure:
    """The closes of a symbol above a line for each option, drawn where it was in force; the latest bars."""
    own = fills[fills["symbol"] == symbol][-MOST_BARS:]
    spells = option_spells(own)
    names = sorted(fills["option"].replace("", np.nan).dropna().unique())
    figure = make_subplots(rows=2, cols=1, shared_xaxes=True, row_heights=[0.6, 0.4], vertical_spacing=0.05)
    close = own["close"].where(own["close"] > 0)
    line = {"color": PALETTE[7], "width": 1.4}
    figure.add_scatter(x=own.index, y=close, name="close", mode="lines", line=line, row=1, col=1)
    step = own.index.to_series().diff().median()
    for place, name in enumerate(names):
        mine = spells[spells["option"] == name]
        # A bar is drawn from its own time to the next, and None breaks the line between two spells.
        times = [moment for _, row in mine.iterrows() for moment in (row["start"], row["end"] + step, None)]
        heights = [level for _ in range(len(mine)) for level in (name, name, None)]
        line = {"color": PALETTE[place % len(PALETTE)], "width": 10}
        figure.add_scatter(x=times, y=heights, name=name, mode="lines", line=line, row=2, col=1)
    figure.update_yaxes(categoryorder="array", categoryarray=names[::-1], row=2)
    return style_figure(figure, f"Option in force, {symbol}", 440).update_layout(showlegend=False)


def options_section(result: Any, symbol: str) -> Section:
    """How a backtest used its options, and a symbol's under its price."""
    fills = result.episode().fills
    spells = option_spells(fills)
    bars = max(int(spells["bars"].sum()), 1)
    rows = []
    for name, own in spells.groupby("option"):
        moves = own["move"].to_numpy()
        parts = (own["bars"].sum() / bars, len(own), own["bars"].mean(), float((moves > 0).mean()), moves.mean())
        rows.append((str(name), *map(number, parts, (".0%", ",.0f", ".1f", ".0%", "+.2%"))))
    text = (
        "Which option was in force for each symbol. Spells of one option after itself count as one; the gates on the "
        "validation set count each choice."
    )
    return Section("Options", text, (options_figure(fills, symbol),), HEADER, tuple(rows))
