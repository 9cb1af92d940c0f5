"""A feature: one causal number per symbol and bar, with the history it needs; and the registry of all of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pacesetter.errors import ConfigError
from pacesetter.panel import Panel
from pacesetter.registry import Registry

__all__ = ["FEATURES", "Feature", "on_observed", "symbolwise"]

Array = NDArray[Any]
Kind = Literal["technical", "regime", "sentiment", "leadlag", "custom"]


@dataclass(frozen=True)
class Feature:
    """A causal transform of a panel.

    needs        panel fields it reads; on a panel without one of them the feature is left out
    memory_bars  latest observed bars of a symbol that fix its value: a server that keeps these gives the same number
    compute      panel -> (time, symbol), NaN while warming up; row t reads bars ≤ t only
    indicator    of a feature of each symbol's own bars, what `compute` maps their fields by
    """

    name: str
    needs: tuple[str, ...]
    memory_bars: int
    compute: Callable[[Panel], Array]
    kind: Kind = "custom"
    indicator: Callable[..., Array] | None = None

    def __post_init__(self) -> None:
        if self.memory_bars < 1:
            raise ConfigError(f"feature '{self.name}' has memory_bars={self.memory_bars}; it needs one bar or more")

    def since(self, panel: Panel, first: int) -> Array:
        """(time − first, symbol) values that the panel's bars from `first` on give alone."""
        if self.indicator is None:
            return self.compute(panel.rows(first, None))
        return on_observed(self.indicator, self.needs, panel, first)


FEATURES: Registry[Feature] = Registry("feature")


def symbolwise(name: str, indicator: Callable[..., Array], memory_bars: int, kind: Kind = "custom") -> Feature:
    """A feature of each symbol's own bars: `indicator` maps (symbol, bar) fields to (symbol, bar) values.

    The arguments of `indicator` that have no default name the fields. A row holds one symbol's observed bars packed to
    the left, with NaN behind the last one, so that a gap neither counts as a bar nor breaks a recursion.
    """
    parameters = inspect.signature(indicator).parameters.values()
    needs = tuple(parameter.name for parameter in parameters if parameter.default is parameter.empty)
    return Feature(name, needs, memory_bars, partial(on_observed, indicator, needs), kind, indicator)


def on_observed(indicator: Callable[..., Array], needs: tuple[str, ...], panel: Panel, first: int = 0) -> Array:
    """(time, symbol) values of `indicator` over the bars from `first` on that were observed with every needed field.

    NaN elsewhere.
    """
    blocks = [panel[field][first:].T for field in needs]
    seen = reduce(np.logical_and, map(np.isfinite, blocks), panel.mask[first:].T)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        if seen.all():  # nothing to pack
            return indicator(*blocks).T
        counts = seen.sum(axis=1)
        packed = np.arange(counts.max(initial=0)) < counts[:, None]
        result = indicator(*(_move(block, seen, packed) for block in blocks))
    return _move(result, packed, seen).T


def _move(values: Array, source: Array, target: Array) -> Array:
    """The `values` marked by `source`, row by row, at the places marked by `target`; NaN elsewhere."""
    moved = np.full(target.shape, np.nan)
    moved[target] = values[source]
    return moved
