"""Variants compared over seeds: means with intervals, differences paired by seed, p-values, and how they are shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

if TYPE_CHECKING:
    import plotly.graph_objects as go

__all__ = ["LEVEL", "adjust_p_values", "cells", "compare", "mean_and_half_width", "picture"]

LEVEL = 0.95


def compare(runs: pd.DataFrame) -> pd.DataFrame:
    """A row for each variant of `runs` (variant, seed, score): mean ± half width, and its gap to the first, by seed.

    `p` is of the paired t test, `p_adjusted` after Holm's correction for the number of variants; NaN without pairs.
    """
    scores = runs.pivot(index="seed", columns="variant", values="score")[list(dict.fromkeys(runs["variant"]))]
    # Paired by seed: what a seed does to all variants cancels in the difference.
    gaps = scores.sub(scores.iloc[:, 0], axis=0)
    rows = []
    for place, name in enumerate(scores.columns):
        mean, half = mean_and_half_width(scores[name])
        gap, gap_half = mean_and_half_width(gaps[name]) if place else (np.nan, np.nan)
        rows.append((name, len(scores), mean, half, gap, gap_half, _p_value(gaps[name])))
    table = pd.DataFrame(rows, columns=["variant", "runs", "mean", "half_width", "gap", "gap_half_width", "p"])
    return table.assign(p_adjusted=adjust_p_values(table["p"]))


def mean_and_half_width(values: ArrayLike) -> tuple[float, float]:
    """Mean, and half the width of its 95 % Student interval: NaN for one value."""
    sample = np.asarray(values, dtype=float)
    if len(sample) < 2:
        return float(sample.mean()), float("nan")
    from scipy.stats import t  # here, as it takes a second to import

    error = sample.std(ddof=1) / np.sqrt(len(sample))
    return float(sample.mean()), float(t.ppf((1 + LEVEL) / 2, len(sample) - 1) * error)


def _p_value(gaps: ArrayLike) -> float:
    """Two-sided p of a mean gap of zero; gaps that are all equal leave nothing to test by."""
    sample = np.asarray(gaps, dtype=float)
    if len(sample) < 2 or np.ptp(sample) == 0:
        return float("nan")
    from scipy.stats import ttest_1samp

    return float(ttest_1samp(sample, 0.0).pvalue)


def adjust_p_values(p_values: ArrayLike) -> list[float]:
    """Holm's step-down p-values; NaN stays and does not count."""
    p = np.asarray(p_values, dtype=float)
    order = np.argsort(p)[: np.isfinite(p).sum()]  # NaN sorts last
    result = np.full(len(p), np.nan)
    if len(order):
        # Holm (1979): the k-th smallest p is multiplied by the number of tests left, and never below an earlier one.
        result[order] = np.minimum(1.0, np.maximum.accumulate(p[order] * np.arange(len(order), 0, -1)))
    return result.tolist()


def cells(table: pd.DataFrame) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """Header and rows of the comparison as texts, each interval beside its value."""
    rows = tuple(
        (
            str(row["variant"]),
            str(row["runs"]),
            _pair(row["mean"], row["half_width"]),
            _pair(row["gap"], row["gap_half_width"]),
            *("" if np.isnan(row[name]) else f"{row[name]:.3g}" for name in ("p", "p_adjusted")),
        )
        for row in table.to_dict("records")
    )
    return ("variant", "runs", "score", "difference", "p", "p adjusted"), rows


def _pair(value: float, half: float) -> str:
    return "" if np.isnan(value) else f"{value:+.4g}" + ("" if np.isnan(half) else f" ± {half:.2g}")


def picture(runs: pd.DataFrame, table: pd.DataFrame) -> go.Figure:
    """Every run's score as a dot, with the means and their intervals."""
    import plotly.graph_objects as go

    from pacesetter.evaluation.report.pictures import style_figure

    figure = go.Figure()
    figure.add_scatter(x=runs["variant"], y=runs["score"], mode="markers", name="run", opacity=0.5)
    bars, marker = {"type": "data", "array": table["half_width"]}, {"size": 10}
    figure.add_scatter(x=table["variant"], y=table["mean"], error_y=bars, mode="markers", name="mean", marker=marker)
    return style_figure(figure, "Validation score by variant")
