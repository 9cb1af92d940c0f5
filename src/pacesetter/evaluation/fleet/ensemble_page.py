"""A fleet's agents together on a page: evidence for each on unseen bars, correlations, contributions, pruning."""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from pacesetter.evaluation.fleet.ensemble import Ensemble
from pacesetter.evaluation.report.page import Section
from pacesetter.evaluation.report.pictures import PALETTE, style_figure

__all__ = ["correlation_figure", "ensemble_section", "evidence_section"]

LEVEL = 0.05
MOST_LABELS = 45


def evidence_section(evidence: pd.DataFrame, period: str) -> Section:
    """Each agent's Sharpe ratio with its interval, the best first; `evidence` is of `ensemble.evidence`."""
    good = int(((evidence["q_value"] < LEVEL) & (evidence["sharpe"] > 0)).sum())
    text = (
        f"Each agent alone over {period}, out-of-sample: Sharpe ratio with its 95 % interval, "
        f"p-value of no difference to cash, and q-value after false-discovery control over all {len(evidence)} agents. "
        f"{_count(good, len(evidence))} above cash with a q-value below {LEVEL}."
    )
    ordered = evidence.sort_values("sharpe", ascending=False, kind="stable")
    rows = tuple(
        (name, f"{row.sharpe:+.2f}", f"{row.low:+.2f} to {row.high:+.2f}", f"{row.p_value:.3f}", f"{row.q_value:.3f}")
        for name, row in zip(ordered.index, ordered.itertuples(), strict=True)
    )
    header = ("symbol", "Sharpe ratio", "interval", "p", "q")
    return Section("Agents out-of-sample", text, (_evidence_figure(ordered),), header, rows)


def _count(good: int, all_: int) -> str:
    return "No evidence: none of them is" if good == 0 else f"{good} of {all_} agents {'is' if good == 1 else 'are'}"


def _evidence_figure(ordered: pd.DataFrame) -> go.Figure:
    reach = {
        "type": "data",
        "array": ordered["high"] - ordered["sharpe"],
        "arrayminus": ordered["sharpe"] - ordered["low"],
        "thickness": 1,
        "width": 0,
    }
    colours = np.where((ordered["q_value"] < LEVEL) & (ordered["sharpe"] > 0), PALETTE[0], PALETTE[7])
    points = go.Scatter(
        x=list(ordered.index), y=ordered["sharpe"], error_y=reach, mode="markers", marker={"color": colours, "size": 6}
    )
    titled = style_figure(go.Figure(points), "Sharpe ratio of each agent out-of-sample, 95 % intervals")
    return titled.update_yaxes(title="Sharpe ratio")


def ensemble_section(ensemble: Ensemble) -> Section:
    """How alike the agents are, who earns, and whom one might leave out."""
    contribution = ensemble.contribution
    text = (
        f"{len(ensemble.sharpe)} agents, equally weighted: mean correlation {ensemble.mean_correlation:+.2f}, "
        f"as diverse as {ensemble.independent:.1f} independent ones; diversification ratio "
        f"{ensemble.diversification:.2f} (volatility of the mean agent over that of all together). Contributions: "
        f"Herfindahl {contribution.herfindahl:.3f}, Gini {contribution.gini:.2f}. {_pruning(ensemble)}"
    )
    table = ensemble.table()
    rows = tuple(
        (row.Index, f"{row.sharpe:+.2f}", f"{row.share:+.1%}", row.other, f"{row.correlation:+.2f}", row.suggestion)
        for row in table.itertuples()
    )
    header = ("symbol", "Sharpe ratio", "share", "most like", "correlation", "suggestion")
    return Section(
        "Agents together", text, (correlation_figure(ensemble), _shares_figure(table["share"])), header, rows
    )


def _pruning(ensemble: Ensemble) -> str:
    left_out = len(ensemble.sharpe) - len(ensemble.kept)
    if not left_out:
        return "There is no agent to leave out."
    sentence = f"Leaving out {left_out} that lose or duplicate a better one (correlation {ensemble.redundant} or more) "
    sentence += f"keeps {len(ensemble.kept)}."
    later = ensemble.pruned_later()
    if later is None:
        return sentence
    sentence += f" Selected on the first half of these bars, the second half has a Sharpe ratio of {later[1]:+.2f}"
    return sentence + f" with those kept and {later[0]:+.2f} with all."


def correlation_figure(ensemble: Ensemble) -> go.Figure:
    """Correlations of the agents' returns, agents that move alike side by side."""
    order = _cluster_order(ensemble.correlation)
    matrix = ensemble.correlation.iloc[order, order]
    names = [str(name) for name in matrix.columns]
    heat = go.Heatmap(z=matrix.to_numpy(), x=names, y=names, zmin=-1, zmax=1, colorscale="PuOr_r")
    figure = style_figure(go.Figure(heat), "Correlation of the agents' returns", 560)
    has_labels = len(names) <= MOST_LABELS
    return figure.update_xaxes(showticklabels=has_labels).update_yaxes(showticklabels=has_labels, autorange="reversed")


def _cluster_order(correlation: pd.DataFrame) -> list[int]:
    """The agents in the order of a hierarchical clustering by 1 − correlation."""
    from scipy.cluster.hierarchy import leaves_list, linkage
    from scipy.spatial.distance import squareform

    if len(correlation) < 3:
        return list(range(len(correlation)))
    # Rounding may leave a correlation just above 1; linkage refuses negative distances.
    distance = np.clip(1.0 - correlation.to_numpy(), 0.0, 2.0)
    np.fill_diagonal(distance, 0.0)
    return [int(place) for place in leaves_list(linkage(squareform(distance, checks=False), "average"))]


def _shares_figure(shares: pd.Series) -> go.Figure:
    colours = np.where(shares >= 0, PALETTE[0], PALETTE[5])
    bars = go.Bar(x=list(shares.index), y=shares, marker={"color": colours})
    return style_figure(go.Figure(bars), "Share of the gains and losses").update_yaxes(tickformat=".0%")
