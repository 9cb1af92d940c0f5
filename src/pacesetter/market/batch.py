"""Many accounts on the CPU: arrays that Python allocates and one compiled call fills."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pacesetter.arrays import Array
from pacesetter.compiled import prange
from pacesetter.errors import ConfigError
from pacesetter.market.account_bars import apply_market, check_account_bars, check_step_symbols
from pacesetter.market.bars import MarketBars
from pacesetter.market.jit import SOURCE_DIGEST, compile_for_cpu
from pacesetter.market.ledger import Column, Fill
from pacesetter.market.orders import OrderKind, check_actions
from pacesetter.market.parameters import MarketParameters, Slot
from pacesetter.market.rows import open_row, step_row
from pacesetter.market.state import Account, Position
from pacesetter.threads import FasterOf, compiled_threads

__all__ = ["Accounts", "step_parallel", "step_serial"]

# Below this many positions a second thread costs more than it saves.
PARALLEL_FROM = 2_048


def _compile_loop(row: Any, digest: int, parallel: bool = False) -> Any:
    """A loop of `row` over all accounts; `digest` is there to be part of the cache key, which knows no `parallel`."""

    def all_rows(*arrays: Any) -> int:
        for e in prange(arrays[0].shape[0]):
            row(e, *arrays)
        return digest

    return compile_for_cpu(all_rows, parallel=parallel)


open_rows = _compile_loop(open_row, SOURCE_DIGEST)
step_serial = _compile_loop(step_row, SOURCE_DIGEST + 1)
step_parallel = _compile_loop(step_row, SOURCE_DIGEST + 2, parallel=True)


class Accounts:
    """Accounts that step together over the same bars; every array is public and lives as long as the object.

    accounts    (env, Account)           positions   (env, K, Position)
    ledger      (env, Column)            fills       (env, K, Fill)       of the last step
    times       (env,) bar last closed   columns     (env,) first symbol of each account
    kinds       (env,) OrderKind         parameters  (1 or env, Slot)

    An account holds the `positions_each` symbols from its column on (all of them when None). Lots, funding and prices
    are those of the first rules.
    """

    def __init__(
        self,
        bars: MarketBars,
        parameters: MarketParameters | Sequence[MarketParameters] | None = None,
        *,
        columns: ArrayLike = (0,),
        positions_each: int | None = None,
        kind: OrderKind = OrderKind.CONTINUOUS,
    ) -> None:
        rules = [parameters or MarketParameters()] if not isinstance(parameters, Sequence) else list(parameters)
        width = bars.values.shape[1] if positions_each is None else positions_each
        check_step_symbols(bars.symbols, rules[0])
        check_account_bars(bars.values, bars.symbols, rules[0])
        self.bars = apply_market(bars.values, bars.symbols, rules[0])
        self.columns = np.array(columns, dtype=np.int64)
        self.parameters = np.stack([each.to_vector() for each in rules])
        _check_fit(bars, self.columns, width, self.parameters)
        count = len(self.columns)
        self.accounts = np.zeros((count, len(Account)))
        self.positions = np.zeros((count, width, len(Position)))
        self.ledger = np.zeros((count, len(Column)))
        self.fills = np.zeros((count, width, len(Fill)))
        self.times = np.zeros(count, dtype=np.int64)
        self.kinds = np.full(count, int(kind), dtype=np.int64)
        is_large = count * width >= PARALLEL_FROM and compiled_threads() > 1
        self._step: Any = FasterOf(step_serial, step_parallel) if is_large else step_serial
        self.open()

    def __len__(self) -> int:
        return len(self.columns)

    @property
    def shorting(self) -> bool:
        """Whether any account may go short."""
        return bool(self.parameters[:, Slot.SHORTING].any())

    @property
    def largest_target(self) -> float:
        """The share of equity that a target may ask for: above 1 where an account may borrow, or a cap is."""
        return max(1.0, float(self.parameters[:, [Slot.GROSS_LEVERAGE, Slot.POSITION_CAP]].max()))

    def open(self, chosen: ArrayLike = True, at: ArrayLike = 0) -> None:
        """Start the `chosen` (env,) accounts over, flat and with the initial cash, at the close of bars `at` (env,)."""
        mask = np.broadcast_to(np.asarray(chosen, dtype=bool), len(self)).copy()
        start = np.broadcast_to(np.asarray(at, dtype=np.int64), len(self)).copy()
        if mask.any() and not (start[mask].min() >= 0 and start[mask].max() < len(self.bars) - 1):
            raise ConfigError(f"a start at bar {at!r} leaves no bar to step to; give 0 to {len(self.bars) - 2}")
        state = (self.accounts, self.positions, self.ledger, self.fills, self.times, self.parameters)
        open_rows(*state, mask, start)

    def step(self, actions: ArrayLike, kinds: ArrayLike | None = None) -> Array:
        """Decide `actions` (env, K) at the current close, fill in the next bar; gives the (env,) int flags.

        `kinds` names each account's OrderKind from now on, which makes an agent hybrid. Refuses a NaN, an action
        outside its box, a shape that does not fit, and a step beyond the last bar.
        """
        wanted = self.check_actions(actions, kinds)
        self._step(*self.arrays(wanted))
        self.times += 1
        return self.ledger[:, Column.FLAGS].astype(np.int64)

    def arrays(self, actions: Array) -> tuple[Array, ...]:
        """The arguments of `step_row` after the row number, in its order."""
        state = (self.accounts, self.positions, self.ledger, self.fills, self.bars, self.times, self.columns)
        return (*state, actions, self.kinds, self.parameters)

    def check_actions(self, actions: ArrayLike, kinds: ArrayLike | None = None) -> Array:
        """`actions` as (env, K) float64 once they, the kinds and the clock are fit for a step."""
        wanted = np.asarray(actions, dtype=np.float64)
        if wanted.shape != self.positions.shape[:2]:
            raise ConfigError(
                f"actions have shape {wanted.shape}; give (account, position) = {self.positions.shape[:2]}"
            )
        if kinds is not None:
            self.kinds[:] = [OrderKind(kind) for kind in np.broadcast_to(kinds, len(self))]
        for kind in OrderKind:
            chosen = self.kinds == kind
            if chosen.any():
                check_actions(wanted if chosen.all() else wanted[chosen], kind, self.shorting, self.largest_target)
        if self.times.max() + 1 >= len(self.bars):
            raise ConfigError(f"an account is at the last bar, {len(self.bars) - 1}; open it again before stepping")
        return np.ascontiguousarray(wanted)


def _check_fit(bars: MarketBars, columns: Array, width: int, parameters: Array) -> None:
    """Refuse accounts that do not fit the bars, or rules that the bars cannot serve."""
    symbols = bars.values.shape[1]
    if width < 1 or columns.ndim != 1 or not len(columns) or columns.min() < 0 or columns.max() + width > symbols:
        raise ConfigError(f"columns {columns} with {width} positions each do not fit {symbols} symbols")
    if len(parameters) not in (1, len(columns)):
        raise ConfigError(f"{len(parameters)} parameter sets for {len(columns)} accounts; give one, or one for each")
    if not bars.has_volume and np.isfinite(parameters[:, Slot.VOLUME_CAP]).any():
        raise ConfigError(
            "limits.volume_cap_fraction needs volume, which these bars lack; give it or set the limit to None"
        )
