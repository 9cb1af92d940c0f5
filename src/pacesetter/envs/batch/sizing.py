"""The risk step in training: what agents want in each environment becomes the account's targets, as in a backtest.

The one source is `market.risk.size_positions`; here it runs over the rows of a batch, each at its own block and bar.
The three rows below are compiled for the CPU here and for an NVIDIA GPU in `cuda.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from pacesetter.arrays import Array, Booleans, Floats, Integers, Singles
from pacesetter.envs.batch.account_entries import POSITION_SIZE, PositionEntry
from pacesetter.envs.batch.loops import compile_loop
from pacesetter.envs.batch.remembered import on_host
from pacesetter.envs.batch.rows import Cursor, locate
from pacesetter.errors import ConfigError
from pacesetter.market.bars import Bar, Status
from pacesetter.market.covariance import RiskTables, make_tables
from pacesetter.market.jit import SOURCE_DIGEST, jitable, source_digest
from pacesetter.market.ledger import Column
from pacesetter.market.risk import RiskColumn, RiskOptions, RiskSlot, size_positions
from pacesetter.market.state import Account, Position
from pacesetter.panel import Panel

if TYPE_CHECKING:
    from pacesetter.envs.batch.bank import Bank
    from pacesetter.envs.batch.batch import Batch

__all__ = ["BatchSizer", "check_stored_sizes", "finish_row", "show_row", "size_views_row"]

WEIGHT = int(PositionEntry.WEIGHT)


# ---- rows -----------------------------------------------------------------------------------------------------------


@jitable
def size_views_row(
    e: int,
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
) -> None:
    """Size the views of environment e at its block and bar."""
    block, t = locate(e, cursor)
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
        parameters[0, e],
        wanted[e],
        targets[e],
        sizes[e],
    )


@jitable
def show_row(
    e: int,
    vectors: Singles,
    base_quantities: Floats,
    accounts: Floats,
    positions: Floats,
    cursor: Integers,
    bars: Floats,
    sizes: Floats,
) -> None:
    """Let environment e see what is held beyond the base, in units of the agent's own views."""
    block, t = locate(e, cursor)
    unit = accounts[e, Account.EQUITY] * sizes[e, RiskColumn.SCALE]
    for k in range(base_quantities.shape[1]):
        beyond = 0.0
        if positions[e, k, Position.QUANTITY] != 0.0:
            beyond = (positions[e, k, Position.QUANTITY] - base_quantities[e, k]) * bars[block, t, k, Bar.CLOSE]
        vectors[e, k * POSITION_SIZE + WEIGHT] = beyond / unit if unit > 0.0 else 0.0


@jitable
def finish_row(
    e: int,
    has_ended: Booleans,
    finals: Singles,
    ledger: Floats,
    cursor: Integers,
    bars: Floats,
    risk: Floats,
    base_quantities: Floats,
    sizes: Floats,
) -> None:
    """Where the episode of environment e has ended, write the same into its last observation and forget its base."""
    if not has_ended[e]:
        return
    block, t = max(cursor[e, Cursor.FINAL_BLOCK], 0), max(cursor[e, Cursor.FINAL_TIME], 0)
    equity = ledger[e, Column.EQUITY]
    unit = equity * sizes[e, RiskColumn.SCALE]
    for k in range(base_quantities.shape[1]):
        held, beyond = finals[e, k * POSITION_SIZE + WEIGHT] * equity, 0.0
        if held != 0.0:
            beyond = held - base_quantities[e, k] * bars[block, t, k, Bar.CLOSE]
        finals[e, k * POSITION_SIZE + WEIGHT] = beyond / unit if unit > 0.0 else 0.0
        base_quantities[e, k] = 0.0
    for column in range(sizes.shape[1]):
        sizes[e, column] = 0.0
    sizes[e, RiskColumn.SCALE] = risk[RiskSlot.SCALE]


DIGEST = SOURCE_DIGEST ^ source_digest(Path(__file__), Path(__file__).parent / "rows.py")
size_rows, show_rows, finish_rows = (
    compile_loop(row, DIGEST + place) for place, row in enumerate((size_views_row, show_row, finish_row))
)


# ---- around them ----------------------------------------------------------------------------------------------------


class BatchSizer:
    """The risk step for the accounts of a batch, whose tables are those of the bank's blocks.

    tables            base and volatilities (block, time, K), correlations (block, day, pair), days (block, time)
    base_quantities   (env, K) what of the positions is the base's       sizes   (env, RiskColumn) of the last step
    risk              (RiskSlot,) as the step reads it                   bars    of the bank

    Without `risk.scale` k̄ is 1: while they learn, views are shares of equity as the agents give them, and the tracking
    error, with a base of cash the peak, keeps them in bounds. What is held at an episode's start counts as views.
    """

    def __init__(self, bank: Bank, risk: RiskOptions, env_count: int, bars_per_year: float) -> None:
        width = bank.positions_each
        blocks = [_block_tables(bank, block, risk, bars_per_year) for block in range(len(bank.symbols))]
        length, most_days = bank.bars.shape[1], max(len(each.correlations) for each in blocks)
        base, volatilities = np.zeros((2, len(blocks), length, width))
        days = np.zeros((len(blocks), length), dtype=np.int64)
        correlations = np.zeros((len(blocks), most_days, width * (width - 1) // 2), dtype=np.float32)
        for block, each in enumerate(blocks):
            part = slice(len(each))
            base[block, part], volatilities[block, part] = each.base, each.volatilities
            days[block, part], correlations[block, : len(each.correlations)] = each.days, each.correlations
        self.tables = base, volatilities, correlations, days
        self.risk, self.bars = risk.to_vector(1.0 if risk.scale is None else risk.scale), bank.bars
        self.base_quantities, self.wanted, self.targets = np.zeros((3, env_count, width))
        self.sizes = np.zeros((env_count, len(RiskColumn)))
        self.sizes[:, RiskColumn.SCALE] = self.risk[RiskSlot.SCALE]

    def size(self, batch: Batch) -> None:
        """Replace the views in the inputs of a batch by targets."""
        state = batch.cursor, self.base_quantities, batch.accounts, batch.positions, self.bars
        written = self.wanted, self.targets, self.sizes
        size_rows(batch.inputs, *self.tables, *state, self.risk, batch.parameters, *written)
        batch.inputs[...] = self.targets

    def forget(self, rows: Array | list[int]) -> None:
        """Begin the accounts of `rows` without a base."""
        self.base_quantities[rows] = 0.0
        self.sizes[rows] = 0.0
        self.sizes[rows, RiskColumn.SCALE] = self.risk[RiskSlot.SCALE]

    def views_held(self, batch: Batch) -> Array:
        """(env, K) what is held beyond the base, in units of the agents' own views."""
        vectors = np.zeros((batch.env_count, batch.builder.vector_size))
        self.show(batch, vectors)
        return vectors[:, np.arange(self.base_quantities.shape[1]) * POSITION_SIZE + WEIGHT]

    def show(self, batch: Batch, vectors: Array) -> None:
        """Let agents see their own position in the account vectors (env, size); the base is none of their business."""
        state = batch.accounts, batch.positions, batch.cursor
        show_rows(vectors, self.base_quantities, *state, self.bars, self.sizes)

    def finish(self, batch: Batch, has_ended: Array, ledger: Array, finals: Array) -> None:
        """The same in `finals` where episodes (env,) ended, which begin without a base again."""
        state = ledger, batch.cursor, self.bars, self.risk
        finish_rows(has_ended, finals, *state, self.base_quantities, self.sizes)

    def state_dict(self) -> dict[str, Array]:
        """Copies of what changes."""
        return {f"risk.{name}": rows.copy() for name, rows in self.remembered.items()}

    @property
    def remembered(self) -> dict[str, Array]:
        """The arrays that change from step to step."""
        return {"base_quantities": self.base_quantities, "sizes": self.sizes}

    def load_state_dict(self, stored: Mapping[str, Array]) -> None:
        """Restore what `state_dict` gave; refuses arrays of another shape."""
        given = check_stored_sizes(self, stored)
        for name, rows in self.remembered.items():
            rows[...] = given[name]


def check_stored_sizes(sizer: BatchSizer, stored: Mapping[str, object]) -> dict[str, Array]:
    """What `state_dict` gave, here or on a device, by name; refuses arrays of another shape."""
    given = {name: on_host(stored.get(f"risk.{name}")) for name in sizer.remembered}
    for name, rows in sizer.remembered.items():
        if given[name].shape != rows.shape:
            raise ConfigError(f"stored 'risk.{name}' does not match this batch; use the options it was stored with")
    return given


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
