"""The demo's one picture: leadership of the strongest leader over all years, and the agent's equity below."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from pacesetter.evaluation.backtest.backtest import Backtest
from pacesetter.evaluation.report.pictures import PALETTE, style_figure, thin_bars
from pacesetter.lab.demo.market import DemoMarket
from pacesetter.leadlag.answer import Preparation, StrengthMeasure
from pacesetter.leadlag.answer.rolling import rolling_answers
from pacesetter.leadlag.series import read_series
from pacesetter.leadlag.structure.ranking import row_mean
from pacesetter.panel import Panel

__all__ = ["DemoPicture", "leadership_of"]

LOOKBACK, STEP = 1_000, 20  # bars of a window, about four years of days, and between windows
WIDTH, HEIGHT, DPI = 10.0, 6.0, 110


def leadership_of(panel: Panel, column: int, lookback: int = LOOKBACK, step: int = STEP) -> pd.Series:
    """Leader score of one symbol over windows of the panel, by the bar that ends each."""
    gauge, lookback = StrengthMeasure("ccf_peak"), min(lookback, len(panel) // 4)
    series = read_series(panel, "log", gauge.minimum, gauge.estimator.spans_gaps)
    ends = np.arange(lookback, len(panel), step)
    blocks = rolling_answers(series, ends, lookback, gauge, Preparation())
    scores = [row_mean(matrix)[column] for block in blocks for matrix in block.leadership]
    return pd.Series(scores, panel.index[ends])


@dataclass(frozen=True, eq=False)
class DemoPicture:
    """What is drawn; `equities` are over the same bars, the agent first."""

    market: DemoMarket
    leader: str
    leadership: pd.Series
    equities: tuple[Backtest, ...]
    title: str

    def _spans(self) -> list[tuple[str, Any, Any, str]]:  # dates, which the hints of matplotlib do not know
        market = self.market
        return [
            ("learned from", market.known.index[0], market.learn_until, PALETTE[4]),
            ("chosen by", market.learn_until, market.choose_until, PALETTE[6]),
            ("judged", market.choose_until, market.known.index[-1], PALETTE[2]),
        ]

    def to_plotly(self) -> go.Figure:
        """The picture for a page."""
        figure = make_subplots(rows=2, cols=1, shared_xaxes=True, vertical_spacing=0.06)
        line = {"color": PALETTE[5], "width": 2}
        figure.add_scatter(x=self.leadership.index, y=self.leadership, name=f"lead of {self.leader}", line=line)
        for colour, result in zip(PALETTE, self.equities, strict=False):
            rows = thin_bars(len(result))
            figure.add_scatter(
                x=result.times[rows],
                y=result.equity[1:][rows],
                name=result.name,
                line={"color": colour},
                row=2,
                col=1,
            )
        for name, first, last, colour in self._spans():
            # The years that chose are few: above, their name would run into the next.
            figure.add_vrect(
                x0=first,
                x1=last,
                fillcolor=colour,
                opacity=0.15,
                line_width=0,
                annotation_text=name,
                annotation_position="bottom left" if name == "chosen by" else "top left",
            )
        figure.update_yaxes(type="log", title="money", row=2, col=1)
        return style_figure(figure, self.title, 620)

    def to_png(self, path: Path) -> Path:
        """The picture as a file."""
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        figure = Figure(figsize=(WIDTH, HEIGHT), dpi=DPI, layout="constrained")
        FigureCanvasAgg(figure)  # no window system, whatever the user's backend
        above, below = figure.subplots(2, 1, sharex=True)
        self._draw_leadership(above)
        self._draw_equity(below)
        figure.suptitle(self.title, x=0.01, ha="left", fontsize=12, fontweight="bold")
        figure.savefig(path)
        return path

    def _draw_leadership(self, axes: Any) -> None:
        axes.plot(self.leadership.index, self.leadership, color=PALETTE[5], linewidth=1.6)
        axes.axhline(0, color="#808080", linewidth=0.8)
        axes.set_ylabel("leader score")
        axes.set_title(
            f"How far {self.leader} leads the others (windows of {LOOKBACK:,} bars)", loc="left", fontsize=10
        )
        for name, first, last, colour in self._spans():
            axes.axvspan(first, last, color=colour, alpha=0.18, linewidth=0)
            middle = first + (last - first) / 2
            axes.text(middle, 0.03, name, ha="center", va="bottom", fontsize=7, transform=_date_transform(axes))
        axes.grid(alpha=0.25)

    def _draw_equity(self, axes: Any) -> None:
        for colour, result in zip(PALETTE, self.equities, strict=False):
            axes.plot(result.times, result.equity[1:], color=colour, label=result.name, linewidth=1.6)
        for _, first, last, colour in self._spans():
            axes.axvspan(first, last, color=colour, alpha=0.18, linewidth=0)
        axes.axvline(self.market.gone_from, color="#808080", linestyle="--", linewidth=1)
        axes.text(self.market.gone_from, 0.04, " judged again", fontsize=8, transform=_date_transform(axes))
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axes.set_ylabel("money")
        start = self.equities[0]
        title = f"What {start.equity[0]:,.0f} became after costs, from {start.times[0]:%Y} on (logarithmic)"
        axes.set_title(title, loc="left", fontsize=10)
        axes.legend(loc="upper left", frameon=False)
        axes.grid(alpha=0.25)


def _date_transform(axes: Any) -> Any:
    """Dates across, shares of the height up."""
    return axes.get_xaxis_transform()
