"""How options were used in a trace: shares, durations, successes, and whether they change when the regime does.

Names are fixed, as those of `measures`: a gate engine reads them. A policy without options has none of them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pacesetter.arrays import Array
from pacesetter.evaluation.recovery.measures import (
    LARGEST_OPTION,
    OPTION_ALIGNED,
    OPTION_DURATION,
    OPTION_SUCCESS,
    OPTIONS_USED,
    SMALLEST_OPTION,
)
from pacesetter.evaluation.recovery.trace import Trace
from pacesetter.evaluation.statistics.gates import Gate, Limit, Measured, hold

__all__ = [
    "OPTION_LIMITS",
    "OptionRuns",
    "option_gates",
    "option_runs",
    "option_values",
    "regime_alignment",
]

OPTION_LIMITS = (
    Limit(SMALLEST_OPTION, ">", 0.1, optional=True),
    Limit(LARGEST_OPTION, "<=", 0.6, optional=True),
    Limit(OPTION_DURATION, ">", 5.0, optional=True),
    Limit(OPTION_SUCCESS, ">", 0.5, optional=True),
    Limit(OPTIONS_USED, ">=", 1.0, optional=True),
    Limit(OPTION_ALIGNED, ">", 0.0, optional=True),
)
DRAWS, LEVEL = 200, 0.95  # of the null, and its quantile that is to be beaten
LEAST_INFORMATION = 1e-12  # nats
NEAR_BARS = 3  # a switch at a change of regime or up to two bars later counts as one with it: orders take a bar


class OptionRuns(NamedTuple):
    """Every option from its beginning to its end, in the order of columns and time.

    option    (run,) place among the options       bars   (run,) that it lasted
    growth    (run,) of equity meanwhile            column, start   (run,) where it began
    """

    option: Array
    bars: Array
    growth: Array
    column: Array
    start: Array


def option_runs(trace: Trace) -> OptionRuns:
    """All options of a trace that has some."""
    assert trace.option is not None
    assert trace.began is not None
    rows: list[tuple[object, ...]] = []
    for column in range(trace.columns):
        played = int(trace.is_played[:, column].sum())
        starts = np.flatnonzero(trace.began[:played, column])
        for start, end in zip(starts, [*starts[1:], played], strict=True):
            growth = float(np.prod(1 + trace.returns[start:end, column]) - 1)
            rows.append((trace.option[start, column], end - start, growth, column, start))
    parts = np.array(rows, dtype=float).reshape(-1, len(OptionRuns._fields)).T
    option, bars, column_of, start_of = (parts[place].astype(int) for place in (0, 1, 3, 4))
    return OptionRuns(option, bars, parts[2], column_of, start_of)


def option_values(trace: Trace) -> dict[str, float]:
    """Every measure by name; none of a policy without options.

    smallest, largest option share   of the options that were chosen
    mean option duration             bars
    option success                   share that ended with no less equity than they began with
    options used                     share of the options that a column used at all, on average
    option switches at regime changes   mutual information over the 95 % quantile of its null, less 1: see
                                     `regime_alignment`
    """
    if trace.option is None:
        return {}
    runs, count = option_runs(trace), len(trace.options)
    shares = np.bincount(runs.option, minlength=count) / max(len(runs.option), 1)
    used = [len(np.unique(runs.option[runs.column == column])) / count for column in range(trace.columns)]
    return {
        SMALLEST_OPTION: float(shares.min()),
        LARGEST_OPTION: float(shares.max()),
        OPTION_DURATION: float(runs.bars.mean()) if len(runs.bars) else 0.0,
        OPTION_SUCCESS: float((runs.growth >= 0).mean()) if len(runs.growth) else 0.0,
        OPTIONS_USED: float(np.mean(used)),
        OPTION_ALIGNED: regime_alignment(trace),
    }


def option_gates(trace: Trace) -> list[Gate]:
    """The gates of options, of all columns together; none of a policy without options."""
    measured = {name: Measured(value) for name, value in option_values(trace).items()}
    return [each.gate for each in hold(OPTION_LIMITS, measured)]


def regime_alignment(trace: Trace, draws: int = DRAWS, seed: int = 0) -> float:
    """Mutual information of "an option began" and "the regime changed" over the 95 % quantile of its null, less 1.

    Above 0 they go together. A ratio, since the information in nats is small where both are rare. 0 without changes.
    The null shifts the beginnings of each column around a circle by a random number of bars: it keeps how often they
    come and how they cluster, and breaks what they have to do with the regime.
    """
    pairs = [pair for column in range(trace.columns) if (pair := _column(trace, column)) is not None]
    if not pairs:
        return 0.0
    generator = np.random.default_rng(seed)
    changed = np.concatenate([each for _, each in pairs])
    information = _information(np.concatenate([began for began, _ in pairs]), changed)
    null = []
    for _ in range(draws):
        # Never by 0, which would be the series itself.
        shifted = [np.roll(began, generator.integers(1, len(began))) for began, _ in pairs]
        null.append(_information(np.concatenate(shifted), changed))
    chance = float(np.quantile(null, LEVEL))
    # Rounding alone is left where the regime never changes.
    return information / chance - 1.0 if chance > LEAST_INFORMATION else 0.0


def _column(trace: Trace, column: int) -> tuple[Array, Array] | None:
    """Beginnings and recent changes of regime of one column; None where it is too short to shift."""
    assert trace.began is not None
    played = int(trace.is_played[:, column].sum())
    regime = trace.regime[:played, column]
    if played < 2 * NEAR_BARS:
        return None
    changes = np.concatenate([[False], (regime[1:] != regime[:-1]) & (regime[1:] >= 0) & (regime[:-1] >= 0)])
    # True at a change and in the bars after it: a convolution looks back only.
    recent = np.convolve(changes, np.ones(NEAR_BARS))[:played] > 0
    # The first option begins because nothing was there before.
    return trace.began[1:played, column].astype(bool), recent[1:]


def _information(x: Array, y: Array) -> float:
    """Mutual information of two binary series, in nats."""
    joint = np.array([[np.mean((x == a) & (y == b)) for b in (False, True)] for a in (False, True)])
    product = joint.sum(1, keepdims=True) * joint.sum(0, keepdims=True)
    is_there = joint > 0
    return float((joint[is_there] * np.log(joint[is_there] / product[is_there])).sum())
