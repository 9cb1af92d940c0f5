"""What an agent sees: a gather from the feature tables, and an account vector that one compiled function writes.

Training, backtests and serving all build an observation here. Numbers are raw: the network's first module normalises.

window       (bars, feature) the latest bars of all features but those below
regime       regime features at the last bar, names that begin with `regime_`
leadlag      lead–lag features at the last bar, names that begin with `leadlag_`; only where the table has them
supervised   class probabilities of a supervised model at the last bar; only where they were given
position     `PositionEntry` of a symbol
portfolio    `PortfolioEntry` of the account

A feature that is unknown at a bar (a halt, a gap) keeps its last known value, as the account keeps its last price, and
`position` says that the symbol does not trade; before the first known value it is 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pacesetter.arrays import Array
from pacesetter.envs.batch.account_entries import POSITION_SIZE, PortfolioEntry

if TYPE_CHECKING:
    from pacesetter.envs.batch.bank import Bank

__all__ = ["ObservationBuilder"]


class ObservationBuilder:
    """Observations of one account at a time, from the blocks of a bank: views, nothing is copied.

    With `has_windows` an observation has the window and the context, else `index`, the block and bar to find them at.
    `shapes` gives the shape of each entry; a whole market has an axis of symbols in front.
    """

    def __init__(self, bank: Bank, window_bars: int, has_windows: bool = True) -> None:
        self.bank, self.window_bars, self.has_windows = bank, window_bars, has_windows
        self.vector_size = bank.positions_each * POSITION_SIZE + len(PortfolioEntry)
        self.shapes = self._make_shapes()
        self._make_views()

    def _make_shapes(self) -> dict[str, tuple[int, ...]]:
        names = self.bank.names
        axis = (self.bank.positions_each,) if self.bank.is_whole else ()
        tables: dict[str, tuple[int, ...]] = {"index": (2,)}
        if self.has_windows:
            tables = {entry: (*axis, len(names[entry])) for entry in self.bank.places}
            tables["window"] = (*axis, self.window_bars, len(names["window"]))
        return tables | {"position": (*axis, POSITION_SIZE), "portfolio": (len(PortfolioEntry),)}

    def build(self, block: int, t: int, vector: Array) -> dict[str, Array]:
        """What is seen at the close of bar t of a block, with the account in `vector` (size,)."""
        observation = self._account(vector)
        if not self.has_windows:
            return observation | {"index": np.array((block, t))}
        observation["window"] = self._windows[block][t - self._bars_before]
        for entry, views in self._context:
            observation[entry] = views[block][t]
        return observation

    def market(self, block: int, first: int, end: int) -> dict[str, Array]:
        """Window and context (bar, …) at the closes first … end − 1 of a block."""
        before = self._bars_before
        context = {entry: views[block][first:end] for entry, views in self._context}
        return context | {"window": self._windows[block][first - before : end - before]}

    def arrange(self, vectors: Array, index: Array, windows: Array | None, context: Array | None) -> dict[str, Array]:
        """The observations of a batch from what the compiled step wrote, as views of its arrays."""
        if not self.has_windows or windows is None or context is None:
            return {"index": index, **self._account(vectors)}
        tables = {entry: context[..., place] for entry, place in self.bank.places.items()} | {"window": windows}
        shaped = {entry: values.reshape(len(vectors), *self.shapes[entry]) for entry, values in tables.items()}
        return shaped | self._account(vectors)

    def _account(self, vectors: Array) -> dict[str, Array]:
        """The entries of account vectors (…, size)."""
        position = vectors[self._position_place]
        if self.bank.is_whole:
            position = position.reshape(*vectors.shape[:-1], *self.shapes["position"])
        return {"position": position, "portfolio": vectors[self._portfolio_place]}

    def _make_views(self) -> None:
        """Views of each block whose place [bar] is what is seen there; windows begin at their first bar."""
        # Overlapping windows as a view: as copies they would take `window_bars` times the memory.
        windows = np.lib.stride_tricks.sliding_window_view(self.bank.windows, self.window_bars, axis=2)
        windows, context = windows.transpose(0, 2, 1, 4, 3), self.bank.context.view()
        context.flags.writeable = False
        if not self.bank.is_whole:
            windows, context = windows[:, :, 0], context[:, :, 0]
        self._windows = list(windows)
        self._context = [(entry, list(context[..., place])) for entry, place in self.bank.places.items()]
        self._bars_before = self.window_bars - 1
        end = self.bank.positions_each * POSITION_SIZE
        self._position_place, self._portfolio_place = (..., slice(0, end)), (..., slice(end, None))

    def __reduce__(self) -> tuple[object, ...]:
        """Views are created again: a pickled view of overlapping windows would be a copy of each."""
        return type(self), (self.bank, self.window_bars, self.has_windows)
