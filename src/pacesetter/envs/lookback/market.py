"""The tables of one panel that lookback environments share: all that depends on the bar alone is computed once.

An observation of bar t gathers rows t of these tables and adds the window that was chosen. Nothing in `observation`
reads a bar after t; the outcomes after t are in `prediction` and `fills`, for the reward alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any
from weakref import WeakValueDictionary

import numpy as np

from pacesetter.arrays import Array
from pacesetter.compiled import njit
from pacesetter.envs.lookback.actions import Windows
from pacesetter.envs.lookback.liquidity import Liquidity
from pacesetter.errors import ConfigError, DataError
from pacesetter.features.feature import FEATURES
from pacesetter.leadlag.engine import Engine
from pacesetter.leadlag.lookback.policy import SHORTEST
from pacesetter.leadlag.observed import mean_observed, observed_assets
from pacesetter.leadlag.prediction import FEW_WINDOWS, Prediction, window_predictions
from pacesetter.leadlag.strategy import fill_to_fill_returns, last_moves
from pacesetter.leadlag.structure.encoding import ENCODERS, MatrixEncoder
from pacesetter.panel import Panel
from pacesetter.registry import configure

__all__ = ["LookbackMarket", "View", "lookback_market"]

BLOCK_WINDOWS = 1024
BLOCK_BYTES = 64 * 2**20  # of matrices that are encoded at once
REMEMBERED_BYTES = 256 * 2**20  # of encodings of all windows of the grid; of more than that, those always seen alone
ALIKE, LEAST_ALIKE = 0.4, 100  # deviations within which states are alike, and known bars that are needed to say so
TINY = 1e-12
REGIME_CONTEXT = tuple(name for name in FEATURES if name.startswith("regime_"))


@dataclass(frozen=True)
class View:
    """How windows are scored and shown."""

    method: Annotated[str, "lead–lag estimator"] = "ccf_auc"
    options: Annotated[dict[str, Any], "of the lead–lag estimator"] = field(default_factory=dict)
    encoder: Annotated[str, "name in ENCODERS, with its options"] = "row_sums"
    encoder_options: dict[str, Any] = field(default_factory=dict)
    context: Annotated[
        tuple[str, ...],
        'features, averaged over the symbols, that tell the regime; `("regime",)` is all regime indicators',
    ] = ()
    max_assets: Annotated[
        int | None,
        "symbols of the largest universe; smaller ones are padded; None: those of the panel",
    ] = None
    horizon_bars: Annotated[int, "bars over which followers are given to respond, for the reward"] = 1
    record_bars: Annotated[
        int | tuple[int, ...] | None,
        "bars over which the mean prediction of each window of the grid is shown, as far as its outcomes are "
        "known; several numbers show it over each of them, None shows none. Cross-validation chooses by that of "
        "250 bars",
    ] = None
    state_bars: Annotated[
        int | None,
        "bars over which one more record is shown: of those among them whose first context feature was like "
        "today's, e.g. volatility. It tells the right window where the state does; None shows none",
    ] = None

    def __post_init__(self) -> None:
        if self.record_bars is not None and min(self.records, default=0) < 1:
            raise ConfigError(f"view.record_bars={self.record_bars} must be 1 bar or more, or None for no record")
        if self.state_bars is not None and (self.state_bars < LEAST_ALIKE or not self.context or not self.record_bars):
            raise ConfigError(
                f"view.state_bars={self.state_bars} must be {LEAST_ALIKE} bars or more, with view.record_bars and a "
                "view.context that tells the state; or None"
            )
        for name in self.features:
            FEATURES[name]  # refuses an unknown name
        self.coder()
        if self.max_assets is not None and self.max_assets < 2:
            raise ConfigError(f"view.max_assets={self.max_assets} must be 2 or more, or None for those of the panel")

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the context's features."""
        return REGIME_CONTEXT if self.context == ("regime",) else self.context

    @property
    def records(self) -> tuple[int, ...]:
        """Bars of each record that is shown, that by state last; () without any."""
        if self.record_bars is None:
            return ()
        plain = self.record_bars if isinstance(self.record_bars, tuple) else (self.record_bars,)
        return plain if self.state_bars is None else (*plain, self.state_bars)

    def coder(self) -> MatrixEncoder:
        """The encoder with its options."""
        return configure(ENCODERS[self.encoder], self.encoder_options, "view.encoder_options")


class LookbackMarket:
    """One panel, ready to be looked at; `assets` is the padded universe.

    universe       (time, assets) float32, 1 for an asset that the shortest seen window could score
    is_changed     (time,) True where the universe differs from that of the bar before
    context        (time, feature) float32 means over the symbols, 0 where unknown
    record         (time, record · window) float32 mean predictions of the grid's windows known at the bar, 0 where
                   none is, a block of windows for each number of bars
    fills, moves   (time, symbol) fill-to-fill returns and last moves, NaN where there is none
    """

    def __init__(self, panel: Panel, windows: Windows, view: View, resolution: str = "") -> None:
        if not panel.causal:
            raise DataError("the panel was repaired by looking ahead; an environment takes only causal bars")
        self.panel, self.windows, self.view, self.resolution = panel, windows, view, resolution
        self.seed: int | None = None  # of a synthetic market, by which it is made again
        self.assets = view.max_assets or len(panel.symbols)
        if self.assets < len(panel.symbols):
            raise ConfigError(
                f"view.max_assets={self.assets} is below the panel's {len(panel.symbols)} symbols; raise it"
            )
        self.encoder = view.coder()
        self.engine = Engine(view.method, **view.options).fit(panel)
        # Holds outcomes after t: for the reward alone, never in an observation.
        self.prediction = Prediction.of(panel, self.engine, view.horizon_bars, windows.longest)
        self.fills, self.moves = fill_to_fill_returns(panel), last_moves(panel)
        self.liquidity = Liquidity.of(panel)
        self.context = self._context()
        self.record = self._record()
        self._entries = len(self.encoder.names([""] * self.assets))
        self._remember()
        self._find_universe()

    @property
    def first(self) -> int:
        """The first bar at which a decision can be made."""
        return max(self.windows.shortest, SHORTEST)

    @property
    def last(self) -> int:
        """The last bar whose outcome lies within the panel."""
        # A decision at t is filled in t + 1 and measured up to t + 1 + horizon.
        return len(self.panel) - 2 - self.view.horizon_bars

    def matrices(self, ends: Array, lookbacks: Array) -> Array:
        """(window, symbol, symbol) matrices of windows that are known to fit: nothing is checked again."""
        symbols = len(self.panel.symbols)
        out = np.empty((len(ends), symbols, symbols))
        if len(ends) > FEW_WINDOWS:
            self.engine.scorer_.score_many(ends, lookbacks, out)
        else:
            for row, (end, lookback) in enumerate(zip(ends.tolist(), lookbacks.tolist(), strict=True)):
                self.engine.scorer_.score(end, lookback, out[row])
        return out

    def encode(self, matrices: Array, lookbacks: Array) -> Array:
        """(window, entry) float32 encodings in the padded universe."""
        missing = self.assets - len(self.panel.symbols)
        if missing:
            # NaN, not 0: a padded asset is absent, not one without leads.
            matrices = np.pad(matrices, ((0, 0), (0, missing), (0, missing)), constant_values=np.nan)
        return np.asarray(self.encoder.encode(matrices, lookbacks), dtype=np.float32)

    def encode_windows(self, ends: Array, lookbacks: Array) -> Array:
        """(window, entry) float32 encodings of windows that are known to fit; those of the grid are computed once."""
        out = np.empty((len(ends), self._entries), dtype=np.float32)
        # −1 for a window outside the grid, which is encoded each time.
        places = self._place_of[lookbacks]
        alone = np.flatnonzero(places < 0)
        if len(alone):
            out[alone] = self.encode(self.matrices(ends[alone], lookbacks[alone]), lookbacks[alone])
        for place in np.unique(places[places >= 0]).tolist():
            own = np.flatnonzero(places == place)
            out[own] = self._grid_encodings(place, ends[own])
        return out

    def short_to_long(self, bars: Array) -> Array:
        """(bar, 3, entry) float32 encodings of the windows always seen, each cut to the history before its bar.

        Nothing is seen before `first`.
        """
        out = np.zeros((len(bars), 3, self._entries), dtype=np.float32)
        inside = np.flatnonzero(bars >= self.first)
        for column, lookback in enumerate(self.windows.seen):
            out[inside, column] = self._grid_encodings(int(self._place_of[lookback]), bars[inside])
        return out

    def _remember(self) -> None:
        """Room for the encodings of every bar and window that is asked for again and again: filled on demand.

        An environment looks at the same few windows of the same bars thousands of times, and an encoding may take a
        singular value decomposition.
        """
        lengths = sorted({*self.windows.seen, *self.windows.grid})
        # 4 bytes a number.
        if len(lengths) * len(self.panel) * self._entries * 4 > REMEMBERED_BYTES:
            lengths = list(self.windows.seen)
        self._lengths = lengths
        self._place_of = np.full(max(self.windows.longest, *lengths) + 1, -1)
        self._place_of[lengths] = np.arange(len(lengths))
        self._encodings = np.zeros((len(lengths), len(self.panel), self._entries), dtype=np.float32)
        self._is_encoded = np.zeros((len(lengths), len(self.panel)), dtype=bool)

    def _grid_encodings(self, place: int, bars: Array) -> Array:
        """(bar, entry) encodings of the window number `place`, each cut to the history before its bar."""
        fresh = np.unique(bars[~self._is_encoded[place, bars]])
        for ends in self._blocks(fresh):
            lookbacks = np.minimum(self._lengths[place], ends)
            self._encodings[place, ends] = self.encode(self.matrices(ends, lookbacks), lookbacks)
            self._is_encoded[place, ends] = True
        encodings: Array = self._encodings[place, bars]
        return encodings

    def _blocks(self, bars: Array) -> Iterator[Array]:
        """The bars a few at a time, as many as matrices of them may be held at once."""
        size = max(min(BLOCK_WINDOWS, BLOCK_BYTES // (self.assets**2 * 8)), 1)
        return (bars[start : start + size] for start in range(0, len(bars), size))

    def _find_universe(self) -> None:
        """Fill `universe`, a block of bars at a time; nothing is seen before `first`."""
        bars = len(self.panel)
        self.universe = np.zeros((bars, self.assets), dtype=np.float32)
        for ends in self._blocks(np.arange(self.first, bars)):
            matrices = self.matrices(ends, np.minimum(self.windows.seen[0], ends))
            self.universe[ends, : len(self.panel.symbols)] = observed_assets(matrices)
        self.is_changed = np.append(False, (self.universe[1:] != self.universe[:-1]).any(axis=1))

    def _record(self) -> Array:
        """(time, record · window) means over the latest bars whose outcomes are known; no column without records."""
        grid, bars = self.windows.grid, len(self.panel)
        record = np.zeros((len(self.view.records), bars, len(grid)), dtype=np.float32)
        if not self.view.records:
            return record.reshape(bars, 0)
        predictions = window_predictions(
            self.panel, grid, self.view.method, self.view.horizon_bars, **self.view.options
        )
        known = 1 + self.view.horizon_bars  # bars behind a decision until its outcome is there
        if bars > known:
            values, is_known = np.nan_to_num(predictions), np.isfinite(predictions)
            plain = self.view.records if self.view.state_bars is None else self.view.records[:-1]
            for own, length in zip(record, plain, strict=False):
                _mean_known(values, is_known, known, length, own)
            if self.view.state_bars is not None:
                state = np.log(np.maximum(self.context[:, 0].astype(np.float64), TINY))
                _mean_alike(values, np.asarray(is_known.all(axis=1)), state, known, self.view.state_bars, record[-1])
        return record.swapaxes(0, 1).reshape(bars, -1)

    def _context(self) -> Array:
        """(time, feature) means over the symbols."""
        columns = [mean_observed(FEATURES[name].compute(self.panel), axis=1) for name in self.view.features]
        return np.asarray(np.nan_to_num(np.array(columns).T.reshape(len(self.panel), -1)), dtype=np.float32)


@njit(cache=True)
def _mean_known(values: Array, is_known: Array, behind: int, bars: int, record: Array) -> None:
    """Fill `record` (time, window) with means of the known values among rows t − behind − bars + 1 … t − behind.

    Each mean is summed by itself, so that a server with the latest bars alone gets the same numbers.
    """
    for t in range(behind, record.shape[0]):
        for k in range(record.shape[1]):
            total, count = 0.0, 0
            for u in range(max(t - behind - bars + 1, 0), t - behind + 1):
                if is_known[u, k]:
                    total += values[u, k]
                    count += 1
            if count:
                record[t, k] = total / count


@njit(cache=True)
def _mean_alike(values: Array, is_known: Array, state: Array, behind: int, bars: int, record: Array) -> None:
    """The same weighed by exp(−½ (Δ/w)²), Δ how far the state was from today's and w a share of its deviation.

    Of few known bars all count alike.
    """
    for t in range(behind, record.shape[0]):
        first, last = max(t - behind - bars + 1, 0), t - behind + 1
        count, mean, square = 0, 0.0, 0.0
        for u in range(first, last):
            if is_known[u]:
                count += 1
                mean += state[u]
                square += state[u] ** 2
        if not count:
            continue
        width = ALIKE * np.sqrt(max(square / count - (mean / count) ** 2, 0.0))
        total, sums = 0.0, np.zeros(record.shape[1])
        for u in range(first, last):
            if is_known[u]:
                is_weighed = count >= LEAST_ALIKE and width > 0
                # A floor: the farthest state of all may have no neighbour.
                weight = np.exp(-0.5 * ((state[u] - state[t]) / width) ** 2) + TINY if is_weighed else 1.0
                total += weight
                sums += weight * values[u]
        record[t] = sums / total


_markets: WeakValueDictionary[tuple[str, ...], LookbackMarket] = WeakValueDictionary()


def lookback_market(panel: Panel, windows: Windows, view: View, resolution: str = "") -> LookbackMarket:
    """The tables of a panel, made once for all environments that are alive at a time and look in the same way."""
    # By content: training and validation environments load their panels separately.
    key = (panel.fingerprint, repr(windows), repr(view), resolution)
    market = _markets.get(key)
    if market is None:
        market = _markets[key] = LookbackMarket(panel, windows, view, resolution)
    return market
