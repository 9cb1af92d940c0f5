"""Which groups of the dictionary are used: one after another, each only where it pays on held-out blocks of bars.

The sparse weights over the lags come first. Then every other group is tried beside those in use, all weights fitted
again, and the one that raises the utility on the blocks left out most surely is kept, until none raises it by
`LEAST_GAIN` standard errors. So a group that holds nothing leaves the weights as they were. A group none of whose
inputs correlates with what is left over is not even tried.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from pacesetter.arrays import Array
from pacesetter.methods.direct.dictionary import INPUTS
from pacesetter.methods.direct.sparse import Sparse

__all__ = ["LEAST_GAIN", "Discovery", "discover", "gain"]

LEAST_GAIN = 2.5  # standard errors; several groups are tried, each with its own best penalty
LEAST_CORRELATION = 0.8  # of √(2 log k / n), below which the largest of k noise correlations lies


@dataclass(frozen=True)
class Discovery:
    """Groups in use, whether by moves from open to close and pooled, their sparse weights, and what each group added.

    gains    standard errors by which a group raised the utility when it was tried last
    memory   bars after which a bar counts half, see `memory`
    """

    groups: tuple[str, ...]
    is_intraday: bool
    is_pooled: bool
    fit: Sparse
    gains: dict[str, float]
    memory: float = math.inf


class Fit(Protocol):
    """Sparse weights of groups; None where there is nothing to pool."""

    def __call__(self, groups: tuple[str, ...], is_intraday: bool, is_pooled: bool) -> Sparse | None: ...


def discover(groups: Sequence[str], inputs: Callable[[str, bool], Array], fit: Fit, y: Array) -> Discovery:
    """The groups that pay; `inputs` gives those of one."""
    first = fit(("lags",), False, False)
    assert first is not None
    discovery, open_groups = Discovery(("lags",), False, False, first, {}), set(groups) - {"lags"}
    gains: dict[str, float] = {}
    while True:
        tried: dict[str, Discovery] = {}
        for group in sorted(open_groups):
            gains[group] = 0.0
            if group in INPUTS and not _correlates(inputs(group, discovery.is_intraday), y - discovery.fit.held_out):
                continue
            wanted = _with_group(discovery, group)
            sparse = fit(wanted.groups, wanted.is_intraday, wanted.is_pooled)
            if sparse is not None:
                tried[group] = replace(wanted, fit=sparse)
                gains[group] = gain(discovery.fit.held_out, sparse.held_out, y)
        best = max(tried, key=gains.__getitem__, default=None)
        if best is None or gains[best] < LEAST_GAIN:
            return replace(discovery, gains=gains)
        discovery = tried[best]
        open_groups.discard(best)


def _with_group(discovery: Discovery, group: str) -> Discovery:
    """What is to be tried: a group of inputs more, moves from open to close, or the same pooled."""
    match group:
        case "intraday":
            return replace(discovery, is_intraday=True)
        case "pooled":
            return replace(discovery, is_pooled=True)
        case _:
            return replace(discovery, groups=(*discovery.groups, group))


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
