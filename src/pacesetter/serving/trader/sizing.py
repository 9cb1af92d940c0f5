"""The risk step in service: what a backtest reads from tables of all bars, followed bar by bar from a stored state.

Volatilities and correlations are exponential averages over all bars so far, which no server keeps. A bundle therefore
holds their state at the last bar that its policy was fitted on (`risk.bin`): with the bars since then they are the
numbers of a table over all bars, bit for bit, and a server that begins without history begins warm.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from pacesetter.arrays import Array
from pacesetter.errors import ConfigError, DataError, RunError
from pacesetter.market.covariance import (
    CORRELATION_HALF_LIVES,
    JOIN_DAYS,
    LAST,
    SYMBOL_STATE,
    RiskTables,
    track_market,
    variance,
)
from pacesetter.market.risk import RiskColumn, RiskOptions, RiskSizer, name_bounds
from pacesetter.panel import Panel
from pacesetter.stamps import bars_per_day, day_of

__all__ = ["RISK_STATE", "MarketTracker", "ServedRisk"]

RISK_STATE = "risk.bin"
MOST_DAYS_APART = 10  # between the stored state and the first new bar; across a longer gap no return is counted


class MarketTracker:
    """Volatilities and correlations as bars come, in any parts: the numbers of `make_tables` over all of them.

    state          (symbol, SYMBOL_STATE)      products   (2, symbol, symbol)
    correlations   (pair,) in force            volatilities   (symbol,) annual, at the last bar
    at             the last bar that was taken; None before the first
    """

    def __init__(self, symbols: tuple[str, ...], half_life_days: float, daily_bars: int, bars_per_year: float) -> None:
        count, half_life = len(symbols), half_life_days * daily_bars
        self.symbols, self.bars_per_year = symbols, bars_per_year
        self.state, self.products = np.zeros((count, len(SYMBOL_STATE))), np.zeros((2, count, count))
        self.correlations = np.zeros(count * (count - 1) // 2, dtype=np.float32)
        self.volatilities = np.zeros(count)
        self.at: pd.Timestamp | None = None
        self._decays = np.array([0.5 ** (1 / half_life), 0.5 ** (1 / (half_life * CORRELATION_HALF_LIVES))])
        self._least = JOIN_DAYS * daily_bars

    def append(self, panel: Panel) -> None:
        """Take the bars of a panel that are newer than the last one; the others are passed over."""
        first = 0 if self.at is None else int(panel.index.searchsorted(self.at, side="right"))
        if first == len(panel):
            return
        bars = panel.rows(first, None)
        before = -1
        if self.at is not None:
            before = int(day_of(pd.DatetimeIndex([self.at]))[0])
            self._join(panel, first)
        is_new_day = np.diff(day_of(bars.index), prepend=before) != 0
        days = np.cumsum(is_new_day)  # row 0 is what was in force before the first new day
        variances = np.zeros((len(bars), len(self.symbols)))
        correlations = np.zeros((int(days[-1]) + 1, len(self.correlations)), dtype=np.float32)
        correlations[0] = self.correlations
        closes, state = np.where(bars.mask, bars.close, np.nan), (self.state, self.products)
        track_market(closes, is_new_day, days, self._decays, self._least, *state, variances, correlations)
        self.correlations, self.at = correlations[-1].copy(), bars.index[-1]
        self.volatilities = np.sqrt(variances * self.bars_per_year)[-1]

    def contributions(self, weights: Array) -> Array:
        """(K,) shares of the expected variance of weights (K,); they sum to 1, or are 0 without any risk."""
        base, days = np.zeros((1, len(weights))), np.zeros(1, dtype=np.int64)
        tables = RiskTables(self.volatilities[None], self.correlations[None], days, base)
        each: Array = weights * (tables.matrix(0) @ weights)
        total = float(each.sum())
        return each / total if total > 0.0 else np.zeros(len(each))

    def volatility(self, weights: Array) -> float:
        """Annual, expected of weights (K,)."""
        return math.sqrt(variance(np.asarray(weights, dtype=np.float64), self.volatilities, self.correlations))

    def _join(self, panel: Panel, first: int) -> None:
        """Let the first new return begin at the panel's own last close, which a source may have re-based since."""
        assert self.at is not None
        if first > 0 and panel.index[first - 1] == self.at:
            traded = panel.mask[first - 1]
            self.state[traded, LAST] = panel.close[first - 1][traded]
        elif panel.index[first] - self.at > pd.Timedelta(days=MOST_DAYS_APART):
            self.state[:, LAST] = 0.0

    # ---- stored -----------------------------------------------------------------------------------------------------

    def to_bytes(self) -> bytes:
        """State, products and correlations as little-endian float64, one after the other."""
        parts = (self.state, self.products, self.correlations)
        return b"".join(np.ascontiguousarray(part, dtype="<f8").tobytes() for part in parts)

    def restore(self, stored: bytes, symbols: tuple[str, ...], at: pd.Timestamp) -> None:
        """Take back what `to_bytes` gave for `symbols`; one that is new here begins without returns."""
        count, width = len(symbols), len(SYMBOL_STATE)
        sizes = (count * width, 2 * count * count, count * (count - 1) // 2)
        if len(stored) != 8 * sum(sizes):
            raise RunError(f"{RISK_STATE} has {len(stored)} bytes, not those of {count} symbols; make the bundle again")
        parts = np.split(np.frombuffer(stored, dtype="<f8"), np.cumsum(sizes)[:-1])
        state, products = parts[0].reshape(count, width), parts[1].reshape(2, count, count)
        full = np.zeros((count, count))
        full[np.tril_indices(count, -1)] = parts[2]
        full += full.T
        here = [k for k, symbol in enumerate(self.symbols) if symbol in symbols]
        there = [symbols.index(self.symbols[k]) for k in here]
        self.state[here] = state[there]
        # Products are written below the diagonal by places; in another order of symbols a pair may lie above it.
        cross = products[0] + np.triu(products[0].T, 1)
        self.products[0][np.ix_(here, here)] = np.tril(cross[np.ix_(there, there)], -1)
        self.products[1][np.ix_(here, here)] = products[1][np.ix_(there, there)]
        own = np.zeros((len(self.symbols), len(self.symbols)))
        own[np.ix_(here, here)] = full[np.ix_(there, there)]
        self.correlations = own[np.tril_indices(len(self.symbols), -1)].astype(np.float32)
        self.at = at


class ServedRisk:
    """The step for one account, bar after bar, as `RiskSizer` in a backtest.

    options   with the scale of the views       tracker   the averages, at their stored state or without any; accounts
              side by side may share them
    Asked about a bar again, it begins as at the first time.
    """

    def __init__(self, options: RiskOptions, tracker: MarketTracker) -> None:
        scale = 1.0 if options.views_volatility is None and options.scale is None else options.scale
        if scale is None:
            raise ConfigError("risk.scale is not known: training fits the scale of the views; train the run again")
        self.options, self.tracker, self.symbols = options, tracker, tracker.symbols
        self._sizer, self._known = RiskSizer(self._tables(), options, scale), tracker.at
        self._sized: pd.Timestamp | None = None  # bar that was sized last
        self._before = self._state()  # what the step began that bar with

    @classmethod
    def on(cls, options: RiskOptions, panel: Panel) -> ServedRisk:
        """The step for the symbols of a panel, without a stored state."""
        facts = bars_per_day(panel.index), panel.bars_per_year
        return cls(options, MarketTracker(panel.symbols, options.half_life_days, *facts))

    def append(self, panel: Panel) -> None:
        """Take the newer bars of a panel."""
        if panel.symbols != self.symbols:
            raise DataError(f"the risk step is for the {len(self.symbols)} symbols of its account, in order")
        self.tracker.append(panel)
        if self.tracker.at != self._known:  # another account may have taken them already
            self._sizer.tables, self._known = self._tables(), self.tracker.at

    def begin(self, panel: Panel) -> None:
        """Take the newer bars, and go back to what the bar began with where it was sized already."""
        self.append(panel)
        if self._sized == panel.index[-1]:
            self._restore_state(self._before)

    def adopt(self, account: Array, positions: Array, closes: Array) -> None:
        """Divide what is held into base and views where no bar was sized yet, as of an account that a caller gives."""
        if self._sized is None:
            self._sizer.adopt(account, positions, closes, 0)

    def views_held(self, account: Array, positions: Array, closes: Array) -> Array:
        """(K,) what is held beyond the base, in the policy's own units."""
        return self._sizer.views_held(account, positions, closes)

    def size(self, views: Array, account: Array, positions: Array, bar: Array, rules: Array) -> Array:
        """(K,) targets for the views (K,) at the close of the newest bar (K, Bar); of one account (Account,)."""
        self._before, self._sized = self._state(), self.tracker.at
        state = account[None], positions[None], bar[None], rules[None]
        return self._sizer.size(np.asarray(views, dtype=np.float64), 0, *state)

    def rescale(self, symbol: str, factor: float) -> None:
        """Bring the base's part of a position to prices that were re-based by `factor`."""
        self._sizer.base_quantities[0, self.symbols.index(symbol)] /= factor

    def take_over(self, other: ServedRisk) -> None:
        """Take over the account of another policy: what of it is the base's."""
        self._restore_state(other._state())

    # ---- what the last decision was ---------------------------------------------------------------------------------

    @property
    def wanted(self) -> Array:
        """(K,) shares of equity before the limits."""
        wanted: Array = self._sizer.wanted[0]
        return wanted

    @property
    def base(self) -> Array:
        """(K,) the base's part of `wanted`."""
        part: Array = self._sizer.sizes[0, RiskColumn.BASE_SHARE] * self._sizer.tables.base[0]
        return part

    @property
    def bounds(self) -> tuple[str, ...]:
        """Which limits of the portfolio acted, in words."""
        return name_bounds(int(self._sizer.sizes[0, RiskColumn.LIMITS]), self.options)

    # ---- across restarts --------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """The state of the step; that of the averages comes with the bars."""
        sized = None if self._sized is None else self._sized.isoformat()
        parts = {"now": self._state(), "before": self._before}
        return {"sized": sized} | {
            name: {"scale": scale, "base": dict(zip(self.symbols, base.tolist(), strict=True))}
            for name, (base, scale) in parts.items()
        }

    def restore(self, stored: Mapping[str, Any]) -> None:
        """Resume from what `to_dict` gave."""
        now, self._before = (
            (np.array([stored[part]["base"][symbol] for symbol in self.symbols]), float(stored[part]["scale"]))
            for part in ("now", "before")
        )
        self._restore_state(now)
        self._sized = None if stored["sized"] is None else pd.Timestamp(stored["sized"])

    # ---- inside -----------------------------------------------------------------------------------------------------

    def _state(self) -> tuple[Array, float]:
        return self._sizer.base_quantities[0].copy(), float(self._sizer.sizes[0, RiskColumn.SCALE])

    def _restore_state(self, state: tuple[Array, float]) -> None:
        self._sizer.base_quantities[0], self._sizer.sizes[0, RiskColumn.SCALE] = state

    def _tables(self) -> RiskTables:
        """The tables' row at the newest bar."""
        volatilities, correlations = self.tracker.volatilities, self.tracker.correlations
        base = _base_weights(self.options.base, volatilities, self.symbols)
        return RiskTables(volatilities[None], correlations[None], np.zeros(1, dtype=np.int64), base[None])


def _base_weights(base: str | Mapping[str, float], volatilities: Array, symbols: tuple[str, ...]) -> Array:
    """(K,) the base among symbols that have joined, as in the tables of `make_tables`."""
    joined = volatilities > 0
    if base == "cash":
        return np.zeros(len(symbols))
    if base == "equal_weight":
        parts = joined.astype(np.float64)
    elif base == "inverse_volatility":
        parts = np.divide(1.0, volatilities, out=np.zeros(len(symbols)), where=joined)
    else:
        given = dict(base) if isinstance(base, Mapping) else {}
        parts = joined * np.array([given.get(symbol, 0.0) for symbol in symbols])
    total = parts.sum()
    return parts / total if total > 0 else np.zeros(len(symbols))
