"""What the risk guard allows: frozen numbers, set by a person and out of a strategy's reach."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from pacesetter.errors import ConfigError, check_range

__all__ = ["RiskLimits"]


@dataclass(frozen=True)
class RiskLimits:
    """Pre-trade limits; fractions are of equity, only gross_fraction may pass 1; `…_count` is the most that passes.

    order_fraction                 value of one order that opens or adds
    collar_fraction                largest distance of an order's price from the last one
    bar_count, day_count           orders of a symbol in a bar and in a UTC day
    second_count                   orders of all symbols in any second
    repeat_count, repeat_seconds   orders of a symbol on one side; then a person re-enables the symbol
    copy_count, copy_seconds       orders alike in symbol, quantity and price
    stale_bars                     age of the last price above which nothing is entered
    reduce_fraction, halt_fraction loss of the day: reduce only, then halted
    drawdown_fraction              fall from the highest equity: halted
    stop_count, stop_bars          stop-outs within `stop_bars` bars, after which entries pause for as many bars
    symbol_fraction, gross_fraction  exposure of a symbol and of all together, orders in flight counted
    cluster_correlation            symbols correlated above it share one `symbol_fraction`
    jump_factor                    largest ratio of a price to the previous close, up or down; else it is refused
    """

    order_fraction: float = 0.15
    collar_fraction: float = 0.05
    bar_count: int = 1
    day_count: int = 50
    second_count: int = 200
    repeat_count: int = 5
    repeat_seconds: float = 60.0
    copy_count: int = 3
    copy_seconds: float = 10.0
    stale_bars: float = 2.0
    reduce_fraction: float = 0.02
    halt_fraction: float = 0.03
    drawdown_fraction: float = 0.10
    stop_count: int = 4
    stop_bars: int = 24
    symbol_fraction: float = 0.20
    gross_fraction: float = 1.0
    cluster_correlation: float = 0.8
    jump_factor: float = 10.0

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if not (math.isfinite(value) and value > 0):
                raise ConfigError(f"risk.{item.name}={value!r} must be a number above 0; a limit cannot be off")
            if item.name.endswith(("fraction", "correlation")) and item.name != "gross_fraction":
                check_range(0, 1, owner="risk", **{item.name: value})
        check_range(1, owner="risk", jump_factor=self.jump_factor)
        if self.reduce_fraction > self.halt_fraction:
            raise ConfigError(
                f"risk.reduce_fraction={self.reduce_fraction:g} is above risk.halt_fraction={self.halt_fraction:g}; "
                "reducing must come before halting"
            )
