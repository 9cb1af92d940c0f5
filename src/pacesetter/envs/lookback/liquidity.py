"""How much trading a window holds: coverage, traded value and range, by running totals, and the filter on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pacesetter.errors import ConfigError
from pacesetter.panel import Panel

__all__ = ["Liquidity", "LiquidityFilter"]

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Liquidity:
    """Running totals (time, 4) over the symbols: observed bars, traded value, range and all bars a symbol could have.

    A symbol could have a bar from its first observed one on. `has_volume` and `has_range` say what the panel holds.
    """

    totals: Array
    has_volume: bool
    has_range: bool

    @classmethod
    def of(cls, panel: Panel) -> Liquidity:
        """The totals of a panel; a field that it lacks counts as 0."""
        mask = panel.mask
        # Before its listing a symbol does not lower the coverage.
        possible = np.maximum.accumulate(mask, axis=0)
        has_volume, has_range = "volume" in panel.fields, panel.has_bars
        value = panel.close * panel.volume if has_volume else np.zeros(mask.shape)
        spread = (panel.high - panel.low) / panel.close if has_range else np.zeros(mask.shape)
        columns = [mask, np.where(mask, value, 0.0), np.where(mask, spread, 0.0), possible]
        totals = np.cumsum(np.stack([np.nan_to_num(column).sum(axis=1) for column in columns], axis=1), axis=0)
        return cls(totals, has_volume, has_range)

    def window(self, ends: Array, lookbacks: Array) -> dict[str, Array]:
        """Coverage (0 … 1), mean traded value and mean range, high − low over the close, of windows of any shape."""
        observed, value, spread, possible = np.moveaxis(self.totals[ends] - self.totals[ends - lookbacks], -1, 0)
        count = np.maximum(observed, 1)
        return {"coverage": observed / np.maximum(possible, 1), "value": value / count, "range": spread / count}


@dataclass(frozen=True)
class LiquidityFilter:
    """Which windows are thin, and what then happens.

    min_coverage   least share of bars that were observed
    min_value      least mean traded value of a bar, in the panel's currency
    max_range      largest mean (high − low)/close of a bar, a stand-in for the spread
    thin           reject: the window before stays in force; penalise: the component `thinness` counts it
    """

    min_coverage: float = 0.0
    min_value: float = 0.0
    max_range: float = float("inf")
    thin: Literal["reject", "penalise"] = "reject"

    @property
    def is_on(self) -> bool:
        """True where some window could be thin."""
        return self.min_coverage > 0 or self.min_value > 0 or self.max_range < float("inf")

    def check(self, liquidity: Liquidity) -> None:
        """Refuse a rule about a field that the panel lacks."""
        if self.min_value > 0 and not liquidity.has_volume:
            raise ConfigError("liquidity.min_value needs volumes, which the panel lacks; leave it at 0")
        if self.max_range < float("inf") and not liquidity.has_range:
            raise ConfigError("liquidity.max_range needs highs and lows, which the panel lacks; leave it out")

    def is_thin(self, liquidity: Liquidity, ends: Array, lookbacks: Array) -> Array:
        """True where a window holds too little trading; windows of any shape."""
        measured = liquidity.window(ends, lookbacks)
        thin: Array = (
            (measured["coverage"] < self.min_coverage)
            | (measured["value"] < self.min_value)
            | (measured["range"] > self.max_range)
        )
        return thin
