"""Whether any of several runs is better than a benchmark when all of them were looked at, and which.

SPA is Hansen's test for superior predictive ability (2005). StepM is Romano and Wolf's stepwise test (2005): it names
those that are better, with a family-wise error of `size`. Both resample blocks of bars of all runs together, by arch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pacesetter.arrays import Array
from pacesetter.errors import ConfigError
from pacesetter.evaluation.statistics.intervals import FEWEST_BARS, block_length

__all__ = ["Superiority", "find_superior"]

SIZE = 0.05  # chance of naming any run that is not better


@dataclass(frozen=True)
class Superiority:
    """p_value: of SPA, that no run has a higher mean return than the benchmark; better: the runs that StepM names."""

    benchmark: str
    runs: int
    p_value: float
    better: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """`Against hold, all 3 runs looked at: SPA p-value 0.21; StepM names none at 5 %.`"""
        named = ", ".join(self.better) or "none"
        looked = f"all {self.runs} runs looked at" if self.runs > 1 else "one run looked at"
        return f"Against {self.benchmark}, {looked}: SPA p-value {self.p_value:.2f}; StepM names {named} at {SIZE:.0%}."


def find_superior(
    returns: Array, benchmark: Array, names: Sequence[str], against: str, *, draws: int = 1000, seed: int = 0
) -> Superiority | None:
    """Test (time, run) returns against those of a benchmark (time,); None where bars are few or no run differs."""
    from arch.bootstrap import SPA, StepM

    if returns.shape != (len(benchmark), len(names)):
        raise ConfigError(f"returns of shape {returns.shape} do not fit {len(benchmark)} bars of {len(names)} runs")
    gains = returns - benchmark[:, None]
    differs = np.flatnonzero(np.ptp(gains, axis=0) > 0)  # the same account twice has no variance to divide by
    if len(benchmark) < FEWEST_BARS or len(differs) == 0:
        return None
    length = max(block_length(gains[:, column]) for column in differs)
    options: dict[str, Any] = {"block_size": length, "reps": draws, "seed": seed}
    losses = -returns[:, differs]
    test = SPA(-benchmark, losses, **options)
    test.compute()
    steps = StepM(-benchmark, losses, size=SIZE, **options)
    steps.compute()
    places: list[Any] = list(steps.superior_models)
    better = tuple(names[int(differs[place])] for place in places)
    return Superiority(against, len(names), float(test.pvalues["consistent"]), better)
