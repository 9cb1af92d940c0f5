"""The risk step in training: what agents want in each environment becomes the account's targets, as in a backtest.

The one source is `market.risk.size_positions`; here it runs over the rows of a batch, each at its own block and bar.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from pacesetter.arrays import Array, Floats, Integers
from pacesetter.envs.batch.account_entries import POSITION_SIZE, PositionEntry
from pacesetter.envs.batch.rows import Cursor
from pacesetter.errors import ConfigError
from pacesetter.market.bars import Bar, Status
from pacesetter.market.covariance import RiskTables, make_tables
from pacesetter.market.jit import SOURCE_DIGEST, compile_for_cpu
from pacesetter.market.ledger import Column
from pacesetter.market.risk import RiskColumn, RiskOptions, size_positions
from pacesetter.market.state import Account, Position
from pacesetter.panel import Panel

if TYPE_CHECKING:
    from pacesetter.envs.batch.bank import Bank
    from pacesetter.envs.batch.batch import Batch

__all__ = ["BatchSizer"]

STORED = ("base_quantities", "sizes")


def _size_batch(digest: int) -> Any:
    def size_batch(
        views: Floats,
        base: Floats,
        volatilities: Floats,
        correlations: Array,
        days: Integers,
        cursor: Integers,
        base_quantities: Floats,
        accounts: Floats,
        positions: Floats,
        bars: Floats,
        risk: Floats,
        parameters: Floats,
        wanted: Floats,
        targets: Floats,
        sizes: Floats,
    ) -> int:
        for e in range(views.shape[0]):
            block, t = cursor[e, Cursor.BLOCK], cursor[e, Cursor.TIME]
            size_positions(
                views[e],
                base[block, t],
                volatilities[block, t],
                correlations[block, days[block, t]],
                base_quantities[e],
                accounts[e],
                positions[e],
                bars[block, t],
                risk,
                parameters[e],
                wanted[e],
                targets[e],
                sizes[e],
            )
        return digest

    return compile_for_cpu(size_batch)


size_batch = _size_batch(SOURCE_DIGEST)


class BatchSizer:
    """The risk step for the accounts of a batch, whose tables are those of the bank's blocks.

    base_quantities   (env, K) what of the positions is the base's       sizes   (env, RiskColumn) of the last step

    Without `risk.scale` k̄ is 1: while they learn, views are shares of equity as the agents give them, and the tracking
    error, with a base of cash the peak, keeps them in bounds. What is held at an episode's start counts as views.
    """

    def __init__(self, bank: Bank, risk: RiskOptions, env_count: int, bars_per_year: float) -> None:
        width = bank.positions_each
        tables = [_block_tables(bank, block, risk, bars_per_year) for block in range(len(bank.symbols))]
        length, days = bank.bars.shape[1], max(len(each.correlations) for each in tables)
        self._base, self._volatilities = np.zeros((2, len(tables), length, width))
        self._days = np.zeros((len(tables), length), dtype=np.int64)
        self._correlations = np.zeros((len(tables), days, width * (width - 1) // 2), dtype=np.float32)
        for block, each in enumerate(tables):
            part = slice(len(each))
            self._base[block, part], self._volatilities[block, part] = each.base, each.volatilities
            self._days[block, part], self._correlations[block, : len(each.correlations)] = each.days, each.correlations
        self._scale = 1.0 if risk.scale is None else risk.scale
        self._risk, self._bars = risk.to_vector(self._scale), bank.bars
        self.base_quantities, self._wanted, self._targets = np.zeros((3, env_count, width))
        self.sizes = np.zeros((env_count, len(RiskColumn)))
        self.sizes[:, RiskColumn.SCALE] = self._scale

    def size(self, batch: Batch) -> None:
        """Replace the views in the inputs of a batch by targets."""
        tables = self._base, self._volatilities, self._correlations, self._days
        state = batch.cursor, self.base_quantities, batch.accounts, batch.positions, self._bars
        rules = self._risk, batch.parameters[0]
        size_batch(batch.inputs.copy(), *tables, *state, *rules, self._wanted, self._targets, self.sizes)
        batch.inputs[...] = self._targets

    def forget(self, rows: Array | list[int]) -> None:
        """Begin the accounts of `rows` without a base."""
        self.base_quantities[rows] = 0.0
        self.sizes[rows] = 0.0
        self.sizes[rows, RiskColumn.SCALE] = self._scale

    def views_held(self, batch: Batch) -> Array:
        """(env, K) what is held beyond the base, in units of the agents' own views."""
        closes = self._bars[batch.cursor[:, Cursor.BLOCK], batch.cursor[:, Cursor.TIME], :, Bar.CLOSE]
        quantities = batch.positions[:, :, Position.QUANTITY]
        beyond = np.where(quantities != 0, quantities - self.base_quantities, 0.0) * closes
        return self._in_views(beyond, batch.accounts[:, Account.EQUITY])

    def show(self, batch: Batch, vectors: Array) -> None:
        """Let agents see their own position in the account vectors (env, size); the base is none of their business."""
        vectors[:, _weights(self.base_quantities)] = self.views_held(batch)

    def show_finals(self, batch: Batch, ledger: Array, finals: Array) -> None:
        """The same at the ends of episodes, before `forget`; from the (env, Column) ledger of the last step."""
        rows = np.array(batch.ended)
        places = batch.cursor[rows, Cursor.FINAL_BLOCK : Cursor.END]
        closes, equity = self._bars[places[:, 0], places[:, 1], :, Bar.CLOSE], ledger[rows, Column.EQUITY]
        column = np.ix_(rows, _weights(self.base_quantities))
        held = finals[column].astype(np.float64) * equity[:, None]
        beyond = np.where(held != 0, held - self.base_quantities[rows] * closes, 0.0)
        finals[column] = self._in_views(beyond, equity, rows)

    def _in_views(self, money: Array, equity: Array, rows: Any = slice(None)) -> Array:
        units = (equity * self.sizes[rows, RiskColumn.SCALE])[:, None]
        views: Array = np.divide(money, units, out=np.zeros(money.shape), where=units > 0)
        return views

    def state_dict(self) -> dict[str, Array]:
        """Copies of what changes."""
        return {f"risk.{name}": getattr(self, name).copy() for name in STORED}

    def load_state_dict(self, stored: Mapping[str, Array]) -> None:
        """Restore what `state_dict` gave; refuses arrays of another shape."""
        given = {name: np.asarray(stored.get(f"risk.{name}")) for name in STORED}
        for name, values in given.items():
            if values.shape != getattr(self, name).shape:
                raise ConfigError(f"stored 'risk.{name}' does not match this batch; use the options it was stored with")
        self.base_quantities[...], self.sizes[...] = given.values()


def _weights(base: Array) -> Array:
    """Places of the weights in an account vector."""
    return np.arange(base.shape[1]) * POSITION_SIZE + PositionEntry.WEIGHT


def _block_tables(bank: Bank, block: int, risk: RiskOptions, bars_per_year: float) -> RiskTables:
    times = pd.DatetimeIndex(bank.times[block])
    bars = bank.bars[block, : len(times)]
    closes = np.where(bars[:, :, Bar.STATUS] == Status.TRADING, bars[:, :, Bar.CLOSE], np.nan)
    index = times if times.tz is not None else times.tz_localize("UTC")
    panel = Panel.from_fields(index, list(bank.symbols[block]), {"close": closes})
    base = risk.base if isinstance(risk.base, str) or bank.is_whole else _own_part(risk.base, bank.symbols[block])
    return make_tables(panel, base, risk.half_life_days, bars_per_year=bars_per_year)


def _own_part(base: Mapping[str, float], symbols: tuple[str, ...]) -> str | dict[str, float]:
    """Of given weights those of an account's own symbols; cash where it has none of them."""
    own = {name: weight for name, weight in base.items() if name in symbols}
    return own if sum(own.values()) > 0 else "cash"
