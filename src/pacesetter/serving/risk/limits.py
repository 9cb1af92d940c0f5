"""What the risk guard allows: frozen numbers, out of a strategy's reach.

Two kinds. *Portfolio limits* come from the run's plan, so that training, backtest, bundle, guard, paper and API have
the same numbers; no key changes them afterwards. *Circuit breakers* are the guard's alone; a person sets them, and
their defaults follow the volatility that the account asks for, see `GuardLimits.of`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pacesetter.errors import ConfigError, check_range
from pacesetter.market.parameters import MarketParameters
from pacesetter.registry import configure

__all__ = ["PORTFOLIO", "GuardLimits"]

PORTFOLIO = {  # limit of the guard -> where the run's plan has it
    "symbol_fraction": "task.market.limits.position_cap_fraction",
    "gross_fraction": "task.market.limits.gross_leverage less reserve_cash_fraction",
}
TRADING_DAYS = 252.0
REDUCE_DAYS, HALT_DAYS, DRAWDOWN_YEARS = 5.0, 8.0, 3.0  # standard deviations of a day, of a day, of a year
MOST_LOSS = 0.9  # that a breaker waits for, however volatile the account
MOST = 10**9  # of anything counted: never reached


@dataclass(frozen=True)
class GuardLimits:
    """Pre-trade limits; fractions are of equity; `…_count` is the most that passes.

    Of the portfolio:
    symbol_fraction, gross_fraction  exposure of a symbol and of all together, orders in flight counted

    Circuit breakers:
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
    cluster_correlation            symbols correlated above it share one `cluster_fraction`
    cluster_fraction               exposure of such symbols together; from `gross_fraction` on it says nothing more
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
    cluster_fraction: float = 0.20
    cluster_correlation: float = 0.8
    jump_factor: float = 10.0

    def __post_init__(self) -> None:
        leveraged = ("order_fraction", "symbol_fraction", "cluster_fraction", "gross_fraction")  # may be above 1
        for name, value in vars(self).items():
            if not (math.isfinite(value) and value > 0):
                raise ConfigError(f"guard.{name}={value!r} must be a number above 0; a limit cannot be off")
            if name.endswith(("fraction", "correlation")) and name not in leveraged:
                check_range(0, 1, owner="guard", **{name: value})
        check_range(1, owner="guard", jump_factor=self.jump_factor)
        if self.reduce_fraction > self.halt_fraction:
            raise ConfigError(
                f"guard.reduce_fraction={self.reduce_fraction:g} is above guard.halt_fraction={self.halt_fraction:g}; "
                "reducing must come before halting"
            )

    @property
    def has_clusters(self) -> bool:
        """Whether the limit of a cluster says more than that of all positions together."""
        return self.cluster_fraction < self.gross_fraction

    @classmethod
    def of(
        cls, market: MarketParameters, target_volatility: float | None = None, symbols: int = 1, daily_bars: float = 1.0
    ) -> GuardLimits:
        """The limits of a plan: the portfolio's as `market` has them, and breakers by the rules of docs/operate.md.

        target_volatility   annual, that the account asks for; None leaves the losses of a day and a peak at their
                            defaults of 2 %, 3 % and 10 %
        """
        plan = market.limits
        gross = plan.gross_leverage - plan.reserve_cash_fraction
        limits = cls(
            order_fraction=plan.position_cap_fraction,
            symbol_fraction=plan.position_cap_fraction,
            gross_fraction=gross,
            cluster_fraction=gross,
            second_count=max(cls.second_count, 2 * symbols),
            day_count=max(cls.day_count, math.ceil(2 * daily_bars)),
        )
        if target_volatility is None:
            return limits
        day = target_volatility / math.sqrt(TRADING_DAYS)
        return replace(
            limits,
            reduce_fraction=min(REDUCE_DAYS * day, MOST_LOSS),
            halt_fraction=min(HALT_DAYS * day, MOST_LOSS),
            drawdown_fraction=min(DRAWDOWN_YEARS * target_volatility, MOST_LOSS),
        )

    def with_breakers(self, breakers: Mapping[str, object]) -> GuardLimits:
        """These limits with breakers that a person set; refuses an unknown one, and a limit of the portfolio."""
        known = configure(GuardLimits, breakers, "guard")
        for name in PORTFOLIO:
            if name in breakers:
                raise ConfigError(
                    f"guard.{name}={breakers[name]} is a limit of the portfolio, {vars(self)[name]:g} by the run's "
                    f"plan ({PORTFOLIO[name]}); train with another one, or leave it out"
                )
        return replace(self, **{name: vars(known)[name] for name in breakers})

    def without_breakers(self) -> GuardLimits:
        """The limits of the portfolio alone; for replays, never for trading."""
        off: dict[str, Any] = dict.fromkeys(
            ("bar_count", "day_count", "second_count", "repeat_count", "copy_count", "stop_count"), MOST
        )
        off |= dict.fromkeys(("reduce_fraction", "halt_fraction", "drawdown_fraction", "collar_fraction"), 1.0)
        return replace(
            self,
            order_fraction=max(self.symbol_fraction, self.order_fraction),
            cluster_fraction=max(self.gross_fraction, self.cluster_fraction),
            stale_bars=float(MOST),
            jump_factor=float(MOST) ** 2,
            **off,
        )
