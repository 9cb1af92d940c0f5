"""How a search by the cross-entropy method converged: scores and values, generation by generation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pacesetter.evaluation.report.page import Section
from pacesetter.evaluation.report.pictures import styled
from pacesetter.learning.cross_entropy import CrossEntropy, Proposal
from pacesetter.training.launch.samplers import value_at

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial

__all__ = ["convergence_section"]

ABOUT = (
    "Each generation draws from the mean ± deviation shown, and the next is fitted to the best of it. The first trial "
    "has the values that the search began with. The last row is what a further generation would be drawn from."
)


def convergence_section(
    method: CrossEntropy,
    space: Mapping[str, BaseDistribution],
    trials: Sequence[FrozenTrial],
    proposals: Sequence[Proposal],
) -> Section:
    """Scores of each generation, and the mean and deviation of each key as shares of its interval."""
    scores = [_scores(trials[number * method.population :][: method.population]) for number in range(len(proposals))]
    rows = tuple(
        (number, *_score_cells(values), *(_cell(kind, *pair) for kind, pair in zip(space.values(), pairs, strict=True)))
        for number, (values, proposal) in enumerate(zip(scores, proposals, strict=True))
        for pairs in [list(zip(proposal.mean, proposal.deviation, strict=True))]
    )
    header = ("generation", "mean score", "best score", *map(_short, space))
    return Section(
        "Convergence",
        ABOUT,
        figures=(_scores_picture(scores), _values_picture(space, proposals)),
        header=header,
        rows=rows,
    )


def _scores(trials: Sequence[FrozenTrial]) -> list[float]:
    return [float(trial.value) for trial in trials if trial.value is not None]


def _score_cells(values: Sequence[float]) -> tuple[str, str]:
    return (f"{np.mean(values):.4g}", f"{max(values):.4g}") if values else ("", "")


def _cell(kind: Any, mean: float, deviation: float) -> str:
    """A key's mean in its own unit, with the deviation as a share of its interval."""
    return f"{value_at(kind, mean):.4g} ± {deviation:.0%}"


def _short(key: str) -> str:
    """A key's own name: that of the component for a weight."""
    parts = [part for part in key.split(".") if part != "weight"]
    return parts[-1]


def _scores_picture(scores: Sequence[Sequence[float]]) -> Any:
    import plotly.graph_objects as go

    played = [(number, values) for number, values in enumerate(scores) if values]
    figure = go.Figure()
    for number, values in played:
        figure.add_scatter(
            x=[number] * len(values), y=list(values), mode="markers", marker={"color": "#a0a0a0"}, showlegend=False
        )
    numbers = [number for number, _ in played]
    figure.add_scatter(x=numbers, y=[float(np.mean(values)) for _, values in played], name="mean")
    figure.add_scatter(x=numbers, y=[max(values) for _, values in played], name="best")
    return styled(figure, "Validation score by generation")


def _values_picture(space: Mapping[str, Any], proposals: Sequence[Proposal]) -> Any:
    import plotly.graph_objects as go

    figure = go.Figure()
    for place, key in enumerate(space):
        bars = {"type": "data", "array": [float(proposal.deviation[place]) for proposal in proposals]}
        means = [float(proposal.mean[place]) for proposal in proposals]
        figure.add_scatter(x=list(range(len(proposals))), y=means, error_y=bars, name=_short(key))
    return styled(figure, "Mean and deviation of each key, as shares of its interval")
