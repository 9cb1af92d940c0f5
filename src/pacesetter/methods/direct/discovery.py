"""Which groups of the dictionary are used: one after another, each only where it pays on blocks of bars left out.

The sparse weights over the lags come first. Then every other group is tried beside those in use, all weights fitted
again, and the one that raises the utility on the blocks left out most surely is kept, until none raises it by
`LEAST_GAIN` standard errors. So a group that holds nothing leaves the weights as they were. A group none of whose
inputs correlates with what is left over is not even tried.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pacesetter.methods.direct.sparse import Sparse

__all__ = ["LEAST_GAIN", "Discovery", "discover", "gain"]

Array = NDArray[Any]
LEAST_GAIN = 2.5  # standard errors; several groups are tried, each with its own best penalty
LEAST_CORRELATION = 0.8  # of √(2 log k / n), below which the largest of k noise correlations lies


@dataclass(frozen=True)
class Discovery:
    """Groups in use, whether by moves from open to close, their sparse weights, and what each group added.

    gains   standard errors by which a group raised the utility when it was tried last
    """

    groups: tuple[str, ...]
    is_intraday: bool
    fit: Sparse
    gains: dict[str, float]


def discover(
    groups: Sequence[str],
    inputs: Callable[[str, bool], Array],
    fit: Callable[[tuple[str, ...], bool], Sparse],
    y: Array,
) -> Discovery:
    """The groups that pay; `inputs` gives those of one, `fit` the weights of several, by closes or intraday."""
    discovery, open_groups = Discovery(("lags",), False, fit(("lags",), False), {}), set(groups) - {"lags"}
    gains: dict[str, float] = {}
    while True:
        tried: dict[str, Discovery] = {}
        for group in sorted(open_groups):
            other = group == "intraday"
            if not other and not _correlates(inputs(group, discovery.is_intraday), y - discovery.fit.held_out):
                gains[group] = 0.0
                continue
            wanted = discovery.groups if other else (*discovery.groups, group)
            is_intraday = True if other else discovery.is_intraday
            tried[group] = Discovery(wanted, is_intraday, fit(wanted, is_intraday), gains)
            gains[group] = gain(discovery.fit.held_out, tried[group].fit.held_out, y)
        best = max(tried, key=gains.__getitem__, default=None)
        if best is None or gains[best] < LEAST_GAIN:
            return Discovery(discovery.groups, discovery.is_intraday, discovery.fit, gains)
        discovery = tried[best]
        open_groups.discard(best)


def gain(before: Array, after: Array, y: Array) -> float:
    """Standard errors by which signals (bar, symbol) that did not see their bars raise the utility q·y − ½q²."""
    # Summed over symbols first: symbols of one bar are correlated, so the sample of the standard error is the bars.
    by_bar = (after * y - 0.5 * after**2 - before * y + 0.5 * before**2).sum(1)
    spread = float(by_bar.std()) / math.sqrt(len(by_bar))
    return float(by_bar.mean()) / spread if spread > 0 else 0.0


def _correlates(x: Array, rest: Array) -> bool:
    """Whether an input correlates with what is left over (bar, symbol) by more than chance brings."""
    if not x.shape[1]:
        return False
    spread = np.maximum(x.std(0), 1e-9)[:, None] * np.maximum(rest.std(0), 1e-9)
    strongest = float(np.abs(x.T @ (rest - rest.mean(0)) / len(x) / spread).max())
    count = x.shape[1] * rest.shape[1]
    return strongest > LEAST_CORRELATION * math.sqrt(2 * math.log(max(count, 2)) / len(x))
