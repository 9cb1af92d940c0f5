"""Gates: single numbers beside their limits, which decide whether a policy may proceed to trading."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from pacesetter.errors import DataError, check_range
from pacesetter.evaluation.statistics.metrics import max_drawdown
from pacesetter.evaluation.statistics.verdict import Verdict

__all__ = ["Acceptance", "Gate", "acceptance_gates"]


@dataclass(frozen=True)
class Gate:
    """One number beside its limit: `value` must be at least (`>=`), at most (`<=`) or above (`>`) `limit`.

    oracle   what one who knows the market's truth has on the same bars, where that was measured; a limit that it fails
             too says nothing about a policy
    """

    name: str
    value: float
    sense: Literal["<=", ">=", ">"]
    limit: float
    oracle: float | None = None

    @property
    def passed(self) -> bool:
        return self._holds(self.value)

    @property
    def is_applicable(self) -> bool:
        """False where the oracle fails the limit."""
        return self.oracle is None or self._holds(self.oracle)

    def _holds(self, value: float) -> bool:
        senses = {"<=": value <= self.limit, ">=": value >= self.limit, ">": value > self.limit}
        return bool(senses[self.sense])  # NaN fails each


@dataclass(frozen=True)
class Acceptance:
    """What a policy must show.

    min_windows       least share of windows, parts of the judged bars or walk-forward folds, with a gain
    min_regimes       least number of regimes with a gain
    max_drawdown      largest loss from a high; beyond the default the risk guard would have halted it
    max_overfitting   largest probability that choosing it among its variants was chance
    cost_multiple     costs under which it must still earn something
    """

    min_windows: float = 0.7
    min_regimes: int = 3
    max_drawdown: float = 0.10
    max_overfitting: float = 0.5
    cost_multiple: float = 2.0

    def __post_init__(self) -> None:
        check_range(0, 1, owner="acceptance", min_windows=self.min_windows, max_drawdown=self.max_drawdown)
        check_range(0, 1, owner="acceptance", max_overfitting=self.max_overfitting)


def acceptance_gates(
    verdict: Verdict,
    returns: ArrayLike,
    *,
    windows: ArrayLike,
    regimes: Mapping[str, float],
    limits: Acceptance | None = None,
) -> list[Gate]:
    """The gates of a judged policy with returns (time,), total returns of its windows and its regimes."""
    limits, gains = limits or Acceptance(), np.asarray(windows, dtype=np.float64)
    if gains.size == 0:
        raise DataError("there is no window for a gate; evaluate over at least one")
    return [
        Gate("windows of the judged bars with a gain, share", float((gains > 0).mean()), ">=", limits.min_windows),
        Gate("regimes with a gain", sum(value > 0 for value in regimes.values()), ">=", limits.min_regimes),
        Gate("largest drawdown", float(max_drawdown(np.asarray(returns))), "<=", limits.max_drawdown),
        *_evidence_gates(verdict, limits),
    ]


def _evidence_gates(verdict: Verdict, limits: Acceptance) -> Iterator[Gate]:
    """Intervals clear of zero, and the choice and the costs where they were tested."""
    # The lower end of the interval, not the estimate: half of all skilless policies have a ratio above 0.
    yield Gate("Sharpe ratio, lower end", verdict.sharpe.low, ">", 0.0)
    yield Gate("deflated Sharpe ratio, probability", verdict.deflated, ">=", verdict.level)
    if verdict.difference is not None:
        yield Gate(f"Sharpe ratio above {verdict.baseline}, lower end", verdict.difference.low, ">", 0.0)
    if verdict.overfitting is not None:
        yield Gate("probability of overfitting", verdict.overfitting, "<=", limits.max_overfitting)
    # A multiple that was not run is NaN, which fails the gate: absence of a test is not a pass.
    if verdict.costs:
        multiple = limits.cost_multiple
        yield Gate(f"Sharpe ratio at {multiple:g}× costs", verdict.costs.get(multiple, np.nan), ">", 0.0)
