"""Lo and MacKinlay (1990): last week's large companies predict this week's small ones, and not the reverse."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from pacesetter.arrays import Array
from pacesetter.data import load
from pacesetter.lab.reproduce.result import Comparison, Reproduction, draw_lines
from pacesetter.leadlag.answer import StrengthMeasure, answer_window
from pacesetter.leadlag.structure.ranking import row_mean
from pacesetter.panel import Panel

__all__ = ["lo_mackinlay", "rank_correlation", "weekly_quintiles"]

FIRST, LAST = "1962-07-06", "1987-12-31"  # the sample of the paper
WEIGHTS = "weights: theirs are equal-weighted quintiles, ours pairs of value-weighted deciles, so large ones count more"
INDEX = "the same reason: a mean of value-weighted deciles; slow small companies count less than in theirs"
YEARS = 5  # of the picture's windows
# Days 1963–1995, yesterday's size10 with today's size01, and reversed: measured independently (REFERENCE §6)
DAILY = {("1963", "1980"): (0.361, 0.105), ("1981", "1995"): (0.364, -0.060), ("2009", "2021"): (-0.103, -0.110)}


def lo_mackinlay() -> Reproduction:
    """Weekly cross-autocorrelations, daily ones by period, and the order of the deciles by leadership."""
    panel = load("deciles")
    weeks = weekly_quintiles(panel)
    lines = [
        _weekly(weeks, "large → small, weeks 1962–1987", 4, 0, 0.276),
        _weekly(weeks, "small → large, weeks 1962–1987", 0, 4, 0.020),
        Comparison("autocorrelation of the mean of all, weeks", float(weeks.mean(axis=1).autocorr()), 0.30, INDEX),
    ]
    for (first, last), known in DAILY.items():
        days = _returns(panel.between(first, last))
        for what, leader, follower, value in (
            ("large → small", "size10", "size01", known[0]),
            ("small → large", "size01", "size10", known[1]),
        ):
            ours = float(days[leader].shift(1).corr(days[follower]))
            lines.append(
                Comparison(
                    f"{what}, days {first}–{last}",
                    ours,
                    value,
                    "not from the paper: the same file, measured independently",
                )
            )
    order = rank_correlation(panel.between("1963", "1995"))
    lines.append(
        Comparison(
            "order of size by leadership, 1963–1995", order, 1.0, "not from the paper: Spearman, 1 is perfect order"
        )
    )
    title = "Lo and MacKinlay (1990): large companies lead small ones"
    return Reproduction(title, tuple(lines), panel.notes, partial(_draw, _returns(panel)))


def _draw(days: pd.DataFrame, axes: Any) -> None:
    """Correlations of windows of some years, both ways, over all 99."""
    bars = 252 * YEARS
    lines = {
        "yesterday's largest decile with today's smallest": days["size10"].shift(1).rolling(bars).corr(days["size01"]),
        "yesterday's smallest with today's largest": days["size01"].shift(1).rolling(bars).corr(days["size10"]),
    }
    draw_lines(
        axes,
        {name: line[::20] for name, line in lines.items()},
        f"Daily returns, windows of {YEARS} years",
        "correlation",
    )
    axes.axvspan(pd.Timestamp(FIRST, tz="UTC"), pd.Timestamp(LAST, tz="UTC"), color="#808080", alpha=0.12, linewidth=0)
    axes.text(
        pd.Timestamp("1963", tz="UTC"), 0.02, "the paper's years", fontsize=8, transform=axes.get_xaxis_transform()
    )


def _returns(panel: Panel) -> pd.DataFrame:
    return pd.DataFrame(panel.close, panel.index, panel.symbols).pct_change()


def weekly_quintiles(panel: Panel) -> pd.DataFrame:
    """Returns of five pairs of deciles over weeks that end on a Tuesday, column 0 the smallest companies."""
    closes = pd.DataFrame(panel.close, panel.index, panel.symbols).loc[FIRST:LAST]
    weeks = closes.resample("W-TUE").last().pct_change().dropna()
    return pd.DataFrame({pair: weeks.iloc[:, 2 * pair : 2 * pair + 2].mean(axis=1) for pair in range(5)})


def _weekly(weeks: pd.DataFrame, what: str, leader: int, follower: int, published: float) -> Comparison:
    return Comparison(what, float(weeks[leader].shift(1).corr(weeks[follower])), published, WEIGHTS)


def rank_correlation(panel: Panel, method: str = "ccf_peak") -> float:
    """Spearman correlation of the deciles' leader scores over the whole panel with the order of size."""
    from scipy.stats import spearmanr

    increments: Array = np.diff(np.log(panel.close), axis=0)
    answer = answer_window(increments, panel.symbols, StrengthMeasure(method))
    return float(spearmanr(row_mean(answer.leadership), np.arange(len(panel.symbols))).statistic)
