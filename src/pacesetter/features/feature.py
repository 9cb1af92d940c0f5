"""A feature: one causal number per symbol and bar, with the history it needs; and the registry of all of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Literal

import numpy as np

from pacesetter.arrays import Array, Floats
from pacesetter.errors import ConfigError
from pacesetter.panel import Panel
from pacesetter.registry import Registry

__all__ = ["FEATURES", "Feature", "default_names", "on_observed", "symbolwise"]

Kind = Literal["technical", "regime", "sentiment", "market", "leadlag", "custom"]


@dataclass(frozen=True)
class Feature:
    """A causal transform of a panel.

    needs        panel fields it reads; on a panel without one of them the feature is left out
    memory_bars  latest observed bars of a symbol that fix its value: a server that keeps these gives the same number
                 (kinds market and leadlag read all symbols: it then keeps the bars of all since the first of these)
    compute      panel -> (time, symbol), NaN while warming up; row t reads bars ≤ t only
    indicator    of a feature of each symbol's own bars, what `compute` maps their fields by
    is_default   whether a table has it where no features are named
    """

    name: str
    needs: tuple[str, ...]
    memory_bars: int
    compute: Callable[[Panel], Array]
    kind: Kind = "custom"
    indicator: Callable[..., Array] | None = None
    is_default: bool = True

    def __post_init__(self) -> None:
        if self.memory_bars < 1:
            raise ConfigError(f"feature '{self.name}' has memory_bars={self.memory_bars}; it needs one bar or more")

    def compute_since(self, panel: Panel, first: int, is_whole: bool = False) -> Array:
        """(time − first, symbol) values that the panel's bars from `first` on give alone; see `on_observed`."""
        if self.indicator is None:
            return self.compute(panel.rows(first, None))
        return on_observed(self.indicator, self.needs, panel, first, is_whole)


FEATURES: Registry[Feature] = Registry("feature")


def default_names() -> list[str]:
    """The features of a table where none are named."""
    return [name for name in FEATURES if FEATURES[name].is_default]


def symbolwise(
    name: str, indicator: Callable[..., Array], memory_bars: int, kind: Kind = "custom", is_default: bool = True
) -> Feature:
    """A feature of each symbol's own bars: `indicator` maps (symbol, bar) fields to (symbol, bar) values.

    The arguments of `indicator` that have no default name the fields. A row holds one symbol's observed bars packed to
    the left, with NaN after the last one, so that a gap neither counts as a bar nor breaks a recursion.
    """
    parameters = inspect.signature(indicator).parameters.values()
    needs = tuple(parameter.name for parameter in parameters if parameter.default is parameter.empty)
    return Feature(name, needs, memory_bars, partial(on_observed, indicator, needs), kind, indicator, is_default)


def on_observed(
    indicator: Callable[..., Array], needs: tuple[str, ...], panel: Panel, first: int = 0, is_whole: bool = False
) -> Floats:
    """(time, symbol) values of `indicator` over the bars from `first` on that were observed with every needed field.

    NaN elsewhere. `is_whole` skips that check where the caller knows, who then silences NumPy's warnings too.
    """
    columns = [panel[field][first:] for field in needs]
    if is_whole:
        return indicator(*(column.T for column in columns)).T
    # A bar counts as observed only where every field that the indicator reads is there.
    observed = reduce(np.logical_and, map(np.isfinite, columns), panel.mask[first:])
    has_all = observed.all(axis=0)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        values = indicator(*(column.T for column in columns)).T if has_all.any() else np.empty(observed.shape)
        if not has_all.all():  # most symbols have every bar, and are spared the packing
            values, rest = values.astype(np.float64), np.flatnonzero(~has_all)
            values[:, rest] = _compute_packed(
                indicator, [column[:, rest].T for column in columns], observed[:, rest].T
            ).T
    return values


def _compute_packed(indicator: Callable[..., Array], blocks: Sequence[Array], observed: Array) -> Array:
    """(symbol, bar) values over the bars that are `observed`, computed on packed rows; NaN elsewhere."""
    counts = observed.sum(axis=1)
    # Packed, a recursion (EMA, RSI) steps from observed bar to observed bar, as if the gap were not there.
    packed = np.arange(counts.max(initial=0)) < counts[:, None]
    return _move(indicator(*(_move(block, observed, packed) for block in blocks)), packed, observed)


def _move(values: Array, source: Array, target: Array) -> Array:
    """The `values` marked by `source`, row by row, at the places marked by `target`; NaN elsewhere."""
    moved = np.full(target.shape, np.nan)
    moved[target] = values[source]
    return moved
