"""What is shown at a bar's close: the one place where backtest, paper trading and API get an observation from.

A backtest gathers from the tables of all its bars (`market_bank`), and so does a replay (`bank_observer`). A trader
with all bars so far at hand does so for the last (`table_observer`), and a server that receives bars one by one keeps
the latest rows (`LatestRows`). All fill, split and order features by the same functions, and give the same numbers bit
for bit. `with_account` adds the account.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from pacesetter.arrays import Array
from pacesetter.envs.batch.account_entries import account_entries
from pacesetter.envs.batch.bank import Bank
from pacesetter.envs.batch.observation import ObservationBuilder
from pacesetter.envs.batch.tables import entry_columns, last_known, to_observation
from pacesetter.features.table import FeatureTable, feature_table
from pacesetter.panel import Panel

__all__ = ["LatestRows", "Observe", "bank_observer", "market_bank", "table_observer", "with_account"]

Observe = Callable[[Panel], Mapping[str, Array]]  # of the market at the panel's last bar


def market_bank(panel: Panel, table: FeatureTable | None = None, supervised: Array | None = None) -> Bank:
    """The panel as one market with its features, to be shared by many backtests; see `Bank.from_panels`."""
    return Bank.from_panels(panel, table, supervised, is_whole=True)


def table_observer(window_bars: int, tabulate: Callable[[Panel], FeatureTable] = feature_table) -> Observe:
    """The training's own observation of a whole market at the last bar of a panel, by a table of all its bars."""

    def observe(panel: Panel) -> Mapping[str, Array]:
        builder = ObservationBuilder(market_bank(panel, tabulate(panel)), window_bars)
        return builder.build(0, len(panel) - 1, np.zeros(builder.vector_size, np.float32))

    return observe


def bank_observer(bank: Bank, window_bars: int) -> Observe:
    """The same at the last bar of a panel that is the beginning of a stored market, by the tables of all its bars.

    They are causal: a later bar changes no row. So nothing is computed again as bars are added.
    """
    builder = ObservationBuilder(bank, window_bars)
    vector = np.zeros(builder.vector_size, np.float32)
    return lambda panel: builder.build(0, len(panel) - 1, vector)


def with_account(market: Mapping[str, Array], vector: Array) -> dict[str, Array]:
    """An observation of a market with the account in `vector`, as `write_account` fills it."""
    return {**market, **account_entries(vector)}


class LatestRows:
    """What a table of all bars would show at the last of them, from its rows as they come.

    known   (symbol, bar) of the window: whether every feature was known there or before
    """

    def __init__(self, names: Sequence[str], symbols: int, window_bars: int) -> None:
        self.window_bars, self.columns = window_bars, entry_columns(names)
        self.known = np.empty((symbols, 0), bool)
        self._values = np.full((symbols, len(names)), np.nan, np.float32)  # newest row, NaN as last known
        self._window = np.empty((symbols, 0, len(self.columns["window"])), np.float32)
        self._context: dict[str, Array] = {}  # of the last bar

    def append(self, rows: Array) -> None:
        """Take the newest rows (symbol, bar, feature), NaN where a feature is unknown."""
        # Filled from the rows before these, exactly as a table of all bars would be.
        filled = last_known(rows, self._values)
        self._values, numbers = filled[:, -1], to_observation(filled)
        is_known = np.logical_and.reduce(np.isfinite(filled), axis=2)
        self.known = _keep_latest(self.known, is_known, self.window_bars)
        self._window = _keep_latest(self._window, numbers[:, :, self.columns["window"]], self.window_bars)
        context = {entry: places for entry, places in self.columns.items() if entry != "window"}
        self._context = {entry: numbers[:, -1, places] for entry, places in context.items()}

    def entries(self) -> dict[str, Array]:
        """window (symbol, bar, feature), and regime and leadlag (symbol, ·) where the names have them."""
        return {"window": self._window} | self._context


def _keep_latest(before: Array, fresh: Array, bars: int) -> Array:
    """The latest `bars` bars along the second axis, in an array of their own."""
    # The copy frees the old rows; a view would keep every bar ever seen alive.
    kept = max(bars - fresh.shape[1], 0)
    return np.concatenate([before[:, max(before.shape[1] - kept, 0) :], fresh[:, -bars:]], axis=1)
