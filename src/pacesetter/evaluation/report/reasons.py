"""Why a judgement came out as it did, in the words of a person: like the index, dear, rare, or within chance."""

from __future__ import annotations

from typing import Any

from pacesetter.evaluation.judgement import Judgement
from pacesetter.evaluation.statistics.metrics import metrics

__all__ = ["verdict_reasons"]

LIKE_THE_INDEX = 0.9  # correlation from which on a policy is the index by another name
APART = 0.3
DEAR = 0.25  # of what was earned before costs
FEW_TRIPS = 20


def verdict_reasons(judgement: Judgement) -> tuple[str, ...]:
    """Short sentences, the weightiest first."""
    figures = metrics(judgement.result)
    asked = (
        _index(judgement),
        _chance(judgement),
        _compare_with_best(judgement),
        _costs(figures),
        _few_trades(figures),
        "" if judgement.capacity is None else judgement.capacity.sentence,
    )
    return tuple(sentence for sentence in asked if sentence)


def _index(judgement: Judgement) -> str:
    row: Any = judgement.benchmark.loc[judgement.verdict.name]
    beta, correlation = float(row["beta"]), float(row["correlation"])
    figures = f"beta {beta:.1f}, correlation {correlation:.2f}"
    if correlation >= LIKE_THE_INDEX:
        return f"Moves like the index: {figures}."
    if abs(correlation) <= APART:
        return f"Moves apart from the index: {figures}."
    return f"Moves partly with the index: {figures}." if correlation == correlation else ""


def _chance(judgement: Judgement) -> str:
    ratio = judgement.verdict.sharpe
    if ratio.low > 0:
        return f"Earned more than cash: even the low end of its Sharpe ratio is above zero ({ratio.low:+.2f})."
    if ratio.high < 0:
        return f"Lost against cash: even the high end of its Sharpe ratio is below zero ({ratio.high:+.2f})."
    return f"Within chance: its Sharpe ratio may be anything from {ratio.low:+.2f} to {ratio.high:+.2f}."


def _compare_with_best(judgement: Judgement) -> str:
    gap, best = judgement.verdict.difference, judgement.verdict.baseline
    if gap is None:
        return ""
    if gap.high < 0:
        return f"Worse than {best}, the best baseline, by a Sharpe difference of {-gap.value:.2f}."
    if gap.low > 0:
        return f"Better than {best}, the best baseline, by a Sharpe difference of {gap.value:.2f}."
    return f"No different from {best}, the best baseline, within chance."


def _costs(figures: dict[str, float]) -> str:
    # Both are shares of the first equity, so that they add up.
    gross = figures["total_return"] + figures["cost_share"]
    if figures["cost_share"] <= 0 or figures["cost_share"] < DEAR * abs(gross):
        return ""
    if gross <= 0:
        return f"Lost before costs, and costs took another {figures['cost_share']:.1%} of the first equity."
    return f"Costs took {figures['cost_share'] / gross:.0%} of what it earned before them."


def _few_trades(figures: dict[str, float]) -> str:
    trips = figures["round_trips"]
    return f"Closed {trips:.0f} trades only." if 0 < trips < FEW_TRIPS else ""
