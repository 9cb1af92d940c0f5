"""A bank of markets: bars and feature tables of many symbols as a few blocks of memory that all environments share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from pacesetter.arrays import Array, Booleans, Singles
from pacesetter.envs.batch.tables import ObservationTables
from pacesetter.errors import ConfigError, DataError, check_range
from pacesetter.market.account_bars import apply_market, check_account_bars, check_step_symbols
from pacesetter.market.bars import Bar, MarketBars, Status
from pacesetter.market.parameters import MarketParameters

if TYPE_CHECKING:
    from pacesetter.features.table import FeatureTable
    from pacesetter.panel import Panel

__all__ = ["PRIOR", "Bank", "check_kind"]

PRIOR = "prior"  # entry of the context, see `around_prior`


@dataclass(frozen=True, eq=False)
class Bank:
    """What an episode may be played on: each block is one symbol of a market, or a whole market of K symbols.

    bars      (block, time, K, Bar) float64
    windows   (block, K, time, feature) float32    known    (block, K, time) True where all features were known
    context   (block, time, K, number) float32     labels   (block, K, time) int8 regimes
    lasts     (block,) int64 last bar; blocks of shorter markets are padded after it
    symbols   names per block                      times    (time,) datetime64 UTC per block
    names     entry of the observation -> names of its last axis
    places    entry -> its slice of the context's last axis
    is_whole  blocks are markets, so that observations have an axis of symbols
    """

    bars: Array
    windows: Array
    context: Array
    known: Array
    labels: Array
    lasts: Array
    symbols: tuple[tuple[str, ...], ...]
    times: tuple[Array, ...]
    names: dict[str, tuple[str, ...]]
    places: dict[str, slice]
    is_whole: bool

    @classmethod
    def from_panels(
        cls,
        panels: Panel | Sequence[Panel],
        tables: FeatureTable | Sequence[FeatureTable] | None = None,
        supervised: ArrayLike | Sequence[ArrayLike] | None = None,
        *,
        symbols: str | Sequence[str] | None = None,
        is_whole: bool = False,
    ) -> Bank:
        """The bank of one panel or of several with equal features, of all symbols or the named ones.

        A block is a symbol, or with `is_whole` a market. Tables are computed where none are given. Refuses a panel
        that was repaired by looking ahead, a symbol that is unknown or named twice, and a table of other symbols or
        bars.
        """
        markets: list[Any] = list(panels) if isinstance(panels, (list, tuple)) else [panels]
        if not markets:
            raise ConfigError("an environment needs one panel or more; the list is empty")
        given = _for_each(tables, len(markets), "table")
        odds = _for_each(supervised, len(markets), "supervised")
        parts = [cls._from_panel(*market, symbols, is_whole) for market in zip(markets, given, odds, strict=True)]
        return parts[0] if len(parts) == 1 else cls._join_blocks(parts)

    def with_market(self, market: MarketParameters) -> Bank:
        """The same markets with their bars as the rules read them; itself where plain bars are enough."""
        blocks = [apply_market(bars, names, market) for bars, names in zip(self.bars, self.symbols, strict=True)]
        if all(block is bars for block, bars in zip(blocks, self.bars, strict=True)):
            return self
        width = max(block.shape[-1] for block in blocks)
        bars = np.zeros((*self.bars.shape[:-1], width))
        for block, values in zip(bars, blocks, strict=True):
            block[..., : values.shape[-1]] = values
        return replace(self, bars=bars)

    def with_prior(self, prior: ArrayLike) -> Bank:
        """The same markets with the entry `prior` in their context, from (symbol, time, 2) of all their symbols."""
        values = np.asarray(prior, np.float32)
        # A block is a symbol, or all of them.
        blocks = np.swapaxes(values, 0, 1)[None] if self.is_whole else values[:, :, None]
        if blocks.shape[:3] != self.context.shape[:3]:
            raise DataError(f"a prior of {values.shape[:2]} symbols and bars is not of this market")
        end = self.context.shape[-1]
        return replace(
            self,
            context=np.ascontiguousarray(np.concatenate([self.context, blocks], axis=-1)),
            names=self.names | {PRIOR: ("lowest", "highest")},
            places=self.places | {PRIOR: slice(end, end + 2)},
        )

    @classmethod
    def _from_panel(
        cls,
        panel: Panel,
        table: FeatureTable | None,
        supervised: Any,
        symbols: str | Sequence[str] | None,
        is_whole: bool,
    ) -> Bank:
        """The blocks of one panel."""
        from pacesetter.features import FeatureTable, feature_table, regime_labels

        _check_panel(panel)
        rows = _rows_of(panel, symbols)
        table = feature_table(panel) if table is None else table
        check_kind(FeatureTable, table=table)
        # Rows are matched by place alone, so a table of other bars would shift features against prices unnoticed.
        if table.symbols != panel.symbols or not table.index.equals(panel.index):
            raise DataError(f"{table!r} is not of {panel!r}; compute it from the same symbols and bars")
        tables = ObservationTables.from_table(table, supervised)
        # A list of places copies, a slice does not.
        chosen: Any = slice(None) if rows == list(range(len(panel.symbols))) else rows
        bars, labels = MarketBars.from_panel(panel).values[:, chosen], regime_labels(panel)[:, rows].T
        names = tuple(panel.symbols[row] for row in rows)
        blocks = 1 if is_whole else len(rows)

        def symbol_major(values: Array) -> Array:
            # One block of K symbols, or K blocks of one: the same memory, cut differently.
            taken: Array = values[chosen]
            return taken.reshape(blocks, len(rows) // blocks, *values.shape[1:])

        def time_major(values: Singles) -> Singles:
            # Context is read one bar at a time for all symbols, so bars come first in memory; windows are read along
            # time.
            return np.ascontiguousarray(np.swapaxes(symbol_major(values), 1, 2))

        return cls(
            bars=np.ascontiguousarray(bars[None] if is_whole else bars.swapaxes(0, 1)[:, :, None]),
            windows=symbol_major(tables.windows),
            context=time_major(tables.context),
            known=np.array(symbol_major(tables.known)),  # the table's own is read-only
            labels=labels.reshape(blocks, len(rows) // blocks, len(panel)),
            lasts=np.full(blocks, len(panel) - 1),
            symbols=(names,) if is_whole else tuple((name,) for name in names),
            times=(panel.index.asi8.view("datetime64[ns]"),) * blocks,
            names=tables.names,
            places=tables.places,
            is_whole=is_whole,
        )

    @classmethod
    def _join_blocks(cls, parts: Sequence[Bank]) -> Bank:
        """Blocks of several markets, one after another."""
        first = parts[0]
        for part in parts:
            if part.names != first.names:
                raise DataError("the markets of a bank must have the same features in the same order")
            if part.positions_each != first.positions_each:
                raise DataError(
                    f"markets of {first.positions_each} and {part.positions_each} symbols do not fit one portfolio "
                    "environment; give each the same number"
                )
        return cls(
            bars=_pad_blocks([part.bars for part in parts], 1),
            windows=_pad_blocks([part.windows for part in parts], 2),
            context=_pad_blocks([part.context for part in parts], 1),
            known=_pad_blocks([part.known for part in parts], 2),
            labels=_pad_blocks([part.labels for part in parts], 2),
            lasts=np.concatenate([part.lasts for part in parts]),
            symbols=tuple(names for part in parts for names in part.symbols),
            times=tuple(times for part in parts for times in part.times),
            names=first.names,
            places=first.places,
            is_whole=first.is_whole,
        )

    @property
    def positions_each(self) -> int:
        """K, the symbols of a block."""
        return int(self.bars.shape[2])

    @property
    def regimes(self) -> Array:
        """(block, time) label of the regime that most symbols of the block are in; −1 is unknown."""
        labels = range(-1, int(self.labels.max(initial=0)) + 1)
        counts = [(self.labels == label).sum(axis=1) for label in labels]
        # Labels begin at −1, unknown; at a tie the lower label wins.
        most: Array = np.argmax(counts, axis=0) - 1
        return most

    def usable(self, window_bars: int, room_bars: int) -> Booleans:
        """(block, time) True where some symbol trades with its whole window known and `room_bars` more bars follow."""
        is_trading = np.swapaxes(self.bars[..., Bar.STATUS], 1, 2) == Status.TRADING
        usable: Array = (is_trading & _whole_windows(self.known, window_bars)).any(axis=1)
        # Padding after a shorter market is excluded here as well.
        has_room: Array = np.arange(usable.shape[1]) <= self.lasts[:, None] - room_bars
        return np.logical_and(usable, has_room)

    def check_market(self, market: MarketParameters) -> None:
        """Refuse what is not a `MarketParameters`, a cap on volume where there is none, and what bars cannot serve."""
        check_kind(MarketParameters, market=market)
        check_step_symbols([name for names in self.symbols for name in names], market)
        for bars, names in self._markets():
            check_account_bars(bars, names, market)
        if market.limits.volume_cap_fraction is not None and self._volumeless is not None:
            raise ConfigError(
                f"limits.volume_cap_fraction needs volume, which {self._volumeless} lacks; "
                "give it or set the limit to None"
            )

    def _markets(self) -> Iterable[tuple[Array, Sequence[str]]]:
        """Bars (time, symbol, column) and names of each market; blocks of one symbol each are one together.

        What one symbol's bars lack, e.g. a dividend, another's may have.
        """
        if self.is_whole:
            return zip(self.bars, self.symbols, strict=True)
        return [(np.swapaxes(self.bars[:, :, 0], 0, 1), [name for names in self.symbols for name in names])]

    @cached_property
    def _volumeless(self) -> str | None:
        """Symbols of the first block without any volume; looked for once, as a curriculum asks at every change."""
        is_dry = ~self.bars[..., Bar.VOLUME].any(axis=(1, 2))
        return ", ".join(self.symbols[int(is_dry.argmax())]) if is_dry.any() else None

    def contains_starts(self, places: Array, window_bars: int) -> bool:
        """Whether each of (place, Start) lies in the bank: a whole window before it, its last bar after it."""
        block, t, last = places.T
        if not ((block >= 0) & (block < len(self.lasts))).all():
            return False
        return bool(((window_bars <= t + 1) & (t < last) & (last <= self.lasts[block])).all())

    def why_unusable(self, window_bars: int, episode_bars: int | None) -> str:
        """One sentence on what keeps every bar from being a start."""
        known = int(self.known.any(axis=1).sum(axis=1).max(initial=0))
        wanted = f"window_bars={window_bars}" + (f" with episode_bars={episode_bars}" if episode_bars else "")
        return (
            f"no bar can start an episode: {wanted} does not fit into {int(self.lasts.max()) + 1} bars, of which "
            f"{known} have all features; give more bars, or shorten them"
        )


def check_kind(kind: type, /, **values: object) -> None:
    """Refuse, by its name, a value that is not of this kind."""
    for name, value in values.items():
        if not isinstance(value, kind):
            raise ConfigError(f"{name} must be of type {kind.__name__}, not {type(value).__name__}")


def _for_each(given: object, count: int, name: str) -> list[Any]:
    """One of `given` for each market; None for each where nothing is given."""
    several = list(given) if isinstance(given, (list, tuple)) else [given] * (count if given is None else 1)
    if len(several) != count:
        raise ConfigError(
            f"{name} was given for {len(several)} of {count} markets; give a list with one for each panel"
        )
    return several


def _rows_of(panel: Panel, symbols: Any) -> list[int]:
    """Columns of the named symbols, of all where None is given; refuses no name, and one that is given twice."""
    given = panel.symbols if symbols is None else symbols
    wanted = list(given) if np.iterable(given) and not isinstance(given, str) else [given]
    if not wanted or not all(isinstance(name, str) for name in wanted) or len({*wanted}) < len(wanted):
        raise ConfigError(f"{wanted} must name symbols, each once; give at least one name, or None for all")
    return [panel.position(name) for name in wanted]


def _check_panel(panel: Panel) -> None:
    from pacesetter.panel import Panel

    check_kind(Panel, panel=panel)
    if not panel.causal:
        raise DataError("this panel was repaired by looking ahead; environments need causal ones, e.g. fill=forward")
    if not panel.mask.any():
        raise DataError(f"{panel!r} has no usable bar; none was observed")


def _whole_windows(known: Booleans, bars: int) -> Booleans:
    """(block, K, time) True where the latest `bars` bars are all known."""
    check_range(1, window_bars=bars)
    # No unknown bar was counted between both ends of the window.
    unknown = np.cumsum(~known, axis=2)
    before = np.pad(unknown, ((0, 0), (0, 0), (bars, 0)))[:, :, : unknown.shape[2]]
    whole: Array = unknown == before
    whole[:, :, : bars - 1] = False
    return whole


def _pad_blocks(blocks: Sequence[Array], time_axis: int) -> Array:
    """Blocks joined along their first axis, with zeros after the end of shorter ones."""
    longest = max(block.shape[time_axis] for block in blocks)
    padded = []
    for block in blocks:
        margins = [(0, 0)] * block.ndim
        margins[time_axis] = (0, longest - block.shape[time_axis])
        # What is padded is never reached: starts and episodes end at `lasts`.
        padded.append(np.pad(block, margins))
    return np.concatenate(padded)
