"""How much trading a window holds: coverage, traded value, trades and range, by running totals, and their filter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np

from pacesetter.arrays import Array
from pacesetter.errors import ConfigError
from pacesetter.panel import Panel

__all__ = ["Liquidity", "LiquidityFilter"]

TRADES = "trades"


@dataclass(frozen=True, eq=False)
class Liquidity:
    """Running totals (time, 5) over the symbols: observed bars, traded value, range, trades, and all possible bars.

    A symbol could have a bar from its first observed one on. `has_volume`, `has_range` and `has_trades` say what the
    panel holds; trades are those of its field `trades`, how many there were in a bar.
    """

    totals: Array
    has_volume: bool
    has_range: bool
    has_trades: bool = False

    @classmethod
    def of(cls, panel: Panel) -> Liquidity:
        """The totals of a panel; a field that it lacks counts as 0."""
        mask = panel.mask
        # Before its listing a symbol does not lower the coverage.
        possible = np.maximum.accumulate(mask, axis=0)
        has_volume, has_range, has_trades = "volume" in panel.fields, panel.has_bars, TRADES in panel.fields
        value = panel.close * panel.volume if has_volume else np.zeros(mask.shape)
        spread = (panel.high - panel.low) / panel.close if has_range else np.zeros(mask.shape)
        trades = panel[TRADES] if has_trades else np.zeros(mask.shape)
        columns = [mask, *(np.where(mask, each, 0.0) for each in (value, spread, trades)), possible]
        totals = np.cumsum(np.stack([np.nan_to_num(column).sum(axis=1) for column in columns], axis=1), axis=0)
        return cls(totals, has_volume, has_range, has_trades)

    def window(self, ends: Array, lookbacks: Array) -> dict[str, Array]:
        """Coverage (0 … 1), and means a bar of traded value, trades and range (high − low)/close; any shape."""
        sums = np.moveaxis(self.totals[ends] - self.totals[ends - lookbacks], -1, 0)
        observed, value, spread, trades, possible = sums
        count = np.maximum(observed, 1)
        means = {"value": value / count, "range": spread / count, TRADES: trades / count}
        return {"coverage": observed / np.maximum(possible, 1)} | means


@dataclass(frozen=True)
class LiquidityFilter:
    """Which windows are thin, and what then happens."""

    min_coverage: Annotated[float, "least share of bars that were observed"] = 0.0
    min_value: Annotated[float, "least mean traded value of a bar, in the panel's currency"] = 0.0
    min_trades: Annotated[float, "least mean number of trades of a bar, from the panel's field `trades`"] = 0.0
    max_range: Annotated[float, "largest mean (high − low)/close of a bar, a stand-in for the spread"] = float("inf")
    thin: Annotated[
        Literal["reject", "penalise"],
        "reject: the window before stays in force; penalise: the component `thinness` counts it",
    ] = "reject"

    @property
    def is_on(self) -> bool:
        """True where some window could be thin."""
        return max(self.min_coverage, self.min_value, self.min_trades) > 0 or self.max_range < float("inf")

    def check(self, liquidity: Liquidity) -> None:
        """Refuse a rule about a field that the panel lacks."""
        if self.min_value > 0 and not liquidity.has_volume:
            raise ConfigError("liquidity.min_value needs volumes, which the panel lacks; leave it at 0")
        if self.min_trades > 0 and not liquidity.has_trades:
            raise ConfigError("liquidity.min_trades needs the field trades, which the panel lacks; leave it at 0")
        if self.max_range < float("inf") and not liquidity.has_range:
            raise ConfigError("liquidity.max_range needs highs and lows, which the panel lacks; leave it out")

    def is_thin(self, liquidity: Liquidity, ends: Array, lookbacks: Array) -> Array:
        """True where a window holds too little trading; windows of any shape."""
        measured = liquidity.window(ends, lookbacks)
        thin: Array = (
            (measured["coverage"] < self.min_coverage)
            | (measured["value"] < self.min_value)
            | (measured[TRADES] < self.min_trades)
            | (measured["range"] > self.max_range)
        )
        return thin
