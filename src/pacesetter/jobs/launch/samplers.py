"""How a search proposes its next trial: Optuna's TPE, or the cross-entropy method, by default over reward weights.

The cross-entropy sampler keeps no state: what it draws follows from the seed, the trial's number and the trials before
its generation, so that a search that was stopped continues as it would have.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pacesetter.errors import ConfigError
from pacesetter.evaluation.report.page import Section
from pacesetter.evaluation.report.pictures import style_figure
from pacesetter.jobs.hydra.resolve import resolve_tree
from pacesetter.learning.cross_entropy import CrossEntropy, Proposal

if TYPE_CHECKING:
    from optuna import Study
    from optuna.distributions import BaseDistribution
    from optuna.samplers import BaseSampler
    from optuna.trial import FrozenTrial

__all__ = [
    "check_intervals",
    "convergence_section",
    "cross_entropy_sampler",
    "generations_of",
    "reward_weights",
    "tpe_sampler",
    "unit",
    "value_at",
]

WEIGHTS = "task.reward.components"
SCALES = (0.5, 1, 2)  # of the weight of what was earned
# Beside a reward of `pnl` alone, as shares of its weight: in a bar each is then about as large as the profit.
COMPANIONS = {"cost": 0.5, "drawdown": 0.02, "differential_sharpe": 1e-3, "hold": 1e-4}


def tpe_sampler(seed: int, startup: int) -> BaseSampler:
    """Optuna's tree-structured Parzen estimator, after `startup` random trials."""
    from optuna.samplers import TPESampler

    return TPESampler(seed=seed, n_startup_trials=startup)


# ---- the cross-entropy method ---------------------------------------------------------------------------------------


def check_intervals(space: Mapping[str, BaseDistribution]) -> None:
    """Refuse a key that has a list of values, which have no order to fit a Gaussian to."""
    from optuna.distributions import CategoricalDistribution

    for key, kind in space.items():
        if isinstance(kind, CategoricalDistribution):
            raise ConfigError(
                f"tune.sampler=cem searches intervals, and {key} has a list; give {key}=interval(LOW,HIGH)"
            )


def cross_entropy_sampler(method: CrossEntropy, space: Mapping[str, BaseDistribution], seed: int) -> BaseSampler:
    """The sampler over keys that `check_intervals` lets pass."""
    from optuna.samplers import BaseSampler

    class Sampler(BaseSampler):
        def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
            return dict(space)

        def sample_relative(
            self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
        ) -> dict[str, object]:
            before = study.get_trials(deepcopy=False)
            proposal = generations_of(method, space, before, trial.number // method.population)[-1]
            # The first trial is what the search starts from, so that every other one has it to be compared with.
            point = proposal.mean if trial.number == 0 else proposal.draw(np.random.default_rng([seed, trial.number]))
            return {key: value_at(kind, share) for (key, kind), share in zip(space.items(), point, strict=True)}

        def sample_independent(self, study: Study, trial: FrozenTrial, name: str, kind: BaseDistribution) -> object:
            return value_at(kind, 0.5)

    return Sampler()


def generations_of(
    method: CrossEntropy, space: Mapping[str, BaseDistribution], trials: Sequence[FrozenTrial], generation: int
) -> list[Proposal]:
    """The proposals of generations 0 … `generation`, each refitted to the finished trials of the one before."""
    proposals = [method.first(np.full(len(space), 0.5))]
    for number in range(generation):
        first = number * method.population
        # By number, not by time: a resumed search refits to the same members whichever of them ended first.
        done = [trial for trial in trials[first : first + method.population] if trial.state.name == "COMPLETE"]
        points = [[unit(kind, trial.params[key]) for key, kind in space.items()] for trial in done]
        proposals.append(method.refit(proposals[-1], points, [trial.value or 0.0 for trial in done]))
    return proposals


def value_at(kind: Any, share: float) -> float | int:
    """The value at a share of an interval's way, on a logarithmic scale where the interval has one."""
    low, high = (math.log(end) if kind.log else float(end) for end in (kind.low, kind.high))
    place = low + float(share) * (high - low)
    # exp(log(x)) may round just outside the interval, which Optuna refuses.
    value: float = min(max(math.exp(place) if kind.log else place, kind.low), kind.high)
    return round(value) if isinstance(kind.low, int) else value


def unit(kind: Any, value: float) -> float:
    """The share of an interval's way at which a value lies; the inverse of `value_at`."""
    low, high, place = (math.log(end) if kind.log else float(end) for end in (kind.low, kind.high, value))
    return (place - low) / (high - low)


# ---- reward weights -------------------------------------------------------------------------------------------------


def reward_weights(fixed: Sequence[str]) -> tuple[list[str], list[str]]:
    """Overrides with what a search of reward weights needs, and its intervals: each weight from 0 to twice its own.

    A reward of `pnl` alone gets companions; any other one of one component is refused, since a factor changes nothing.
    """
    terms = resolve_tree(fixed)["task"]["reward"]["components"]
    own = {name: _weight(name, term) for name, term in terms.items()}
    more = []
    if list(own) == ["pnl"]:
        added = {name: share * own["pnl"][1] for name, share in COMPANIONS.items()}
        more = [f"+{WEIGHTS}.{name}={weight:.6g}" for name, weight in added.items()]
        own |= {name: (f"{WEIGHTS}.{name}", weight) for name, weight in added.items()}
    if len(own) == 1:
        raise ConfigError(f"a search of reward weights needs two components; add one with +{WEIGHTS}.NAME=WEIGHT")
    return [*fixed, *more], [_interval(key, weight) for key, weight in own.values()]


def scale_key(fixed: Sequence[str]) -> str:
    """The reward's scale as a key to search: half, once and twice the weight of `pnl`; empty where it has none."""
    term = resolve_tree(fixed)["task"]["reward"]["components"].get("pnl")
    value = term.get("weight") if isinstance(term, Mapping) else term
    if not isinstance(value, int | float):
        return ""
    return f"{_weight('pnl', term)[0]}={','.join(f'{scale * value:g}' for scale in SCALES)}"


def _weight(name: str, term: object) -> tuple[str, float]:
    """Key and value of a component's weight; refuses one that has a schedule."""
    is_term = isinstance(term, Mapping)
    value = term.get("weight") if isinstance(term, Mapping) else term
    if not isinstance(value, int | float):
        raise ConfigError(f"{WEIGHTS}.{name} has a schedule; a search of reward weights needs a number")
    return (f"{WEIGHTS}.{name}.weight" if is_term else f"{WEIGHTS}.{name}"), float(value)


def _interval(key: str, weight: float) -> str:
    # Sorted: a penalty has a negative weight.
    low, high = sorted((0.0, 2.0 * weight)) if weight else (0.0, 1.0)
    return f"{key}=interval({low:.6g},{high:.6g})" if "." in f"{high:.6g}" else f"{key}=interval({low:.1f},{high:.1f})"


# ---- how it converged ------------------------------------------------------------------------------------------------

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
    header = ("generation", "mean score", "best score", *map(_shorten_key, space))
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


def _cell(kind: object, mean: float, deviation: float) -> str:
    """A key's mean in its own unit, with the deviation as a share of its interval."""
    return f"{value_at(kind, mean):.4g} ± {deviation:.0%}"


def _shorten_key(key: str) -> str:
    """A key's own name: that of the component for a weight."""
    parts = [part for part in key.split(".") if part != "weight"]
    return parts[-1]


def _scores_picture(scores: Sequence[Sequence[float]]) -> object:
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
    return style_figure(figure, "Validation score by generation")


def _values_picture(space: Mapping[str, object], proposals: Sequence[Proposal]) -> object:
    import plotly.graph_objects as go

    figure = go.Figure()
    for place, key in enumerate(space):
        bars = {"type": "data", "array": [float(proposal.deviation[place]) for proposal in proposals]}
        means = [float(proposal.mean[place]) for proposal in proposals]
        figure.add_scatter(x=list(range(len(proposals))), y=means, error_y=bars, name=_shorten_key(key))
    return style_figure(figure, "Mean and deviation of each key, as shares of its interval")
