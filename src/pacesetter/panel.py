"""Panel: bars as time × symbol × field, with a mask of what was really observed. Every package works on it."""

from __future__ import annotations

import dataclasses
import hashlib
import html
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, SupportsIndex, overload

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from pacesetter.arrays import Array, Floats
from pacesetter.coarse import aggregate, coarse_closes
from pacesetter.errors import ConfigError, DataError, did_you_mean
from pacesetter.stamps import end_of_day, moment_of, utc_index

if TYPE_CHECKING:
    from pacesetter.truth import Truth

__all__ = ["PRICE_FIELDS", "Panel", "end_of_day", "utc_index"]

PRICE_FIELDS = ("open", "high", "low", "close")
SECONDS_PER_YEAR = 365.25 * 86_400
STORED_AS, SEAL = b"pacesetter.panel", b"pacesetter.panel.seal"


UNCUT = ("symbols", "fields", "causal", "calendar", "notes")  # what any rows of a panel have as it does
UNCUT_INDEX = "uncut_index"  # of rows: the stamps of the panel that they are of, and which are theirs


@dataclass(frozen=True, eq=False, repr=False)
class Panel:
    """Immutable bars.

    index      (time,) tz-aware UTC, strictly increasing: the moment each bar is *known*
    symbols    column order, fixed
    fields     names of what a bar holds; `close` is always there
    blocks     (field, time, symbol) float64, read-only; NaN where nothing was observed or filled
    mask       (time, symbol) True where a bar was really observed
    causal     False after a repair that looked ahead; environments refuse such a panel
    calendar   exchange calendar the bars follow ("XNYS", "24/7"), None when unknown
    notes      sentences a reader of any result must see (repairs, survivorship)
    truth      what a synthetic source planted; not stored on disk

    The arrays are taken over, not copied: do not write to them afterwards.
    """

    index: pd.DatetimeIndex
    symbols: tuple[str, ...]
    fields: tuple[str, ...]
    blocks: Array
    mask: Array
    causal: bool = True
    calendar: str | None = None
    notes: tuple[str, ...] = ()
    truth: Truth | None = None

    def __post_init__(self) -> None:
        shape = (len(self.fields), len(self.index), len(self.symbols))
        if self.blocks.shape != shape or self.mask.shape != shape[1:]:
            raise DataError(
                f"arrays do not fit: blocks {self.blocks.shape} and mask {self.mask.shape} for "
                f"{shape[0]} fields × {shape[1]} bars × {shape[2]} symbols"
            )
        if self.blocks.dtype != np.float64 or self.mask.dtype != np.bool_:
            raise DataError(f"blocks must be float64 and mask bool, not {self.blocks.dtype} and {self.mask.dtype}")
        if not self.symbols:
            raise DataError("a panel needs a symbol; it has none")
        if "close" not in self.fields:
            raise DataError(f"a panel needs closes; it has only {', '.join(self.fields) or 'no field'}")
        for kind, names in (("symbol", self.symbols), ("field", self.fields)):
            if len(set(names)) < len(names):
                twice = Counter(names).most_common(1)[0][0]
                raise DataError(f"{kind} '{twice}' appears twice; each {kind} has one column")
        _check_index(self.index)
        object.__setattr__(self, "blocks", _read_only(self.blocks))
        object.__setattr__(self, "mask", _read_only(self.mask))

    # ---- making one -------------------------------------------------------------------------------------------

    @classmethod
    def from_fields(
        cls,
        index: pd.DatetimeIndex,
        symbols: Sequence[str],
        fields: dict[str, ArrayLike],
        mask: Array | None = None,
        **attributes: Any,
    ) -> Panel:
        """A panel from one (time, symbol) array per field; observed where the close is finite unless `mask` says."""
        arrays = {name: np.asarray(values, dtype=np.float64) for name, values in fields.items()}
        shape = (len(index), len(symbols))
        odd = next((name for name, array in arrays.items() if array.shape != shape), None)
        if odd is not None:
            raise DataError(f"field '{odd}' has shape {arrays[odd].shape}, not {shape[0]} bars × {shape[1]} symbols")
        blocks = np.stack(list(arrays.values())) if arrays else np.empty((0, *shape))
        is_known = np.isfinite(arrays.get("close", np.full(shape, np.nan))) if mask is None else mask
        return cls(utc_index(index), tuple(map(str, symbols)), tuple(fields), blocks, is_known, **attributes)

    @classmethod
    def from_frame(cls, frame: pd.DataFrame, *, symbol: str = "asset", **attributes: object) -> Panel:
        """A panel from wide closes, from (field, symbol) columns, from long rows, or from one symbol's OHLCV columns.

        Time stamps say when a bar is known; naive ones are UTC, and bare dates move to the end of their day. The first
        bad row (wrong type, duplicate, out of order) is refused by number. `symbol` names a single asset.
        """
        from pacesetter.frames import read_frame

        bars = read_frame(frame, symbol=symbol)
        if bars.problems:
            raise DataError(bars.problems[0].sentence())
        return bars.panel(**attributes)

    def __reduce__(self) -> tuple[object, ...]:
        # a copy, also in another process, is created again and so is read-only too
        return Panel, tuple(getattr(self, part.name) for part in dataclasses.fields(self))

    # ---- looking --------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.mask)

    def __repr__(self) -> str:
        span = f"{self.index[0]:%Y-%m-%d} → {self.index[-1]:%Y-%m-%d}" if len(self) else "empty"
        return (
            f"Panel({len(self)} bars × {len(self.symbols)} symbols × {len(self.fields)} fields, {span}, "
            f"{self.mask.mean() if self.mask.size else 0:.1%} observed, {self.fingerprint[:8]})"
        )

    def _repr_html_(self) -> str:
        """What a notebook shows: the line of `repr`, and the first and last closes."""
        closes = pd.DataFrame(self.close, index=self.index, columns=list(self.symbols))
        shown = closes.to_html(max_rows=6, max_cols=8, float_format="{:,.4g}".format)
        return f"<p>{html.escape(repr(self))}</p>{shown}"

    def __eq__(self, other: object) -> bool:
        # By content, so that a panel can be a key of a cache, also after a trip to another process.
        return isinstance(other, Panel) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    @overload
    def __getitem__(self, part: str) -> Floats: ...

    @overload
    def __getitem__(self, part: slice) -> Panel: ...

    def __getitem__(self, part: str | slice) -> Array | Panel:
        """(time, symbol) view of one field; or the bars of a slice, by place or by date with both ends included.

        `panel["close"]`, `panel[-250:]`, `panel["2020":"2021-06"]`
        """
        if isinstance(part, slice):
            return self._bars(part)
        if part not in self.fields:
            wanted = f"panel.select(['{part}'])" if part in self.symbols else "a field, or a slice of places or dates"
            raise DataError(f"the panel has no field '{part}'{did_you_mean(str(part), self.fields)}; use {wanted}")
        view: Array = self.blocks[self.fields.index(part)]
        return view

    def _bars(self, part: slice) -> Panel:
        if part.step not in (None, 1):
            raise DataError(f"a panel has no every {part.step}th bar; use panel.resample('1W') for coarser ones")
        ends = [end for end in (part.start, part.stop) if end is not None]
        if all(isinstance(end, SupportsIndex) for end in ends):
            return self.rows(part.start, part.stop)
        return self.between(part.start, part.stop)

    @property
    def open(self) -> Array:
        return self["open"]

    @property
    def high(self) -> Array:
        return self["high"]

    @property
    def low(self) -> Array:
        return self["low"]

    @property
    def close(self) -> Floats:
        return self["close"]

    @property
    def volume(self) -> Floats:
        return self["volume"]

    @property
    def values(self) -> Array:
        """(time, symbol, field) view."""
        return np.moveaxis(self.blocks, 0, -1)

    @property
    def shape(self) -> tuple[int, int, int]:
        """(bars, symbols, fields)."""
        return len(self), len(self.symbols), len(self.fields)

    @property
    def has_bars(self) -> bool:
        """True when the panel also has open, high and low; False for closes only."""
        return set(PRICE_FIELDS) <= set(self.fields)

    @property
    def bars_per_year(self) -> float:
        """How many bars a year holds, for annualising; measured over the panel's own span."""
        if len(self) < 2:
            raise DataError(f"a panel of {len(self)} bars has no bar rate; give at least two")
        # Measured, not assumed to be 252: holidays, missing sessions and 24/7 markets are all in the span.
        return float((len(self) - 1) / ((self.index[-1] - self.index[0]).total_seconds() / SECONDS_PER_YEAR))

    @property
    def moments(self) -> Array:
        """(time,) int64 nanoseconds of the index, which rows need not cut for it."""
        return self.index.asi8

    def position(self, symbol: str) -> int:
        """Column of `symbol`."""
        if symbol not in self._positions:
            raise DataError(f"the panel has no symbol '{symbol}'{did_you_mean(symbol, self.symbols)}")
        return self._positions[symbol]

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {symbol: column for column, symbol in enumerate(self.symbols)}

    @cached_property
    def fingerprint(self) -> str:
        """Content hash: equal bars, mask, names and causality give equal hex digits on every machine."""
        digest = hashlib.blake2b(digest_size=16)
        # Notes and calendar are left out: they change what is said about bars, not the bars.
        names = {"symbols": self.symbols, "fields": self.fields, "causal": self.causal}
        digest.update(json.dumps(names).encode())
        digest.update(np.ascontiguousarray(self.index.asi8).tobytes())
        # The mask counts: a price that was filled is not one that was observed.
        digest.update(np.packbits(self.mask).tobytes())
        for block in self.blocks:
            canonical = np.where(np.isnan(block), np.nan, block) + 0.0  # one NaN pattern, one zero
            digest.update(np.ascontiguousarray(canonical).tobytes())
        return digest.hexdigest()

    # ---- taking parts ---------------------------------------------------------------------------------------------

    def rows(self, start: int | None = None, stop: int | None = None) -> Panel:
        """Bars start … stop−1 by position, as views; a truth is cut with them, or left out where it cannot be."""
        part, own = slice(start, stop), vars(self)
        # Rows of what was checked need no check: a backtest takes them at every bar.
        panel = object.__new__(_Rows)
        cut = vars(panel)
        cut["blocks"], cut["mask"] = self.blocks[:, part], self.mask[part]
        cut["truth"] = None if self.truth is None else self.truth.rows(start, stop)
        for name in UNCUT:
            cut[name] = own[name]
        cut[UNCUT_INDEX] = self.index, part
        return panel

    def between(self, start: object = None, end: object = None) -> Panel:
        """Bars known from `start` to `end`, both included; a day, month or year as `end` includes all of it. Views."""
        low = 0 if start is None else self.index.searchsorted(moment_of(start), side="left")
        high = len(self) if end is None else self.index.searchsorted(moment_of(end, last=True), side="right")
        return self.rows(int(low), int(high))

    def select(self, symbols: Sequence[str]) -> Panel:
        """The named symbols in the order asked for; a run of neighbours stays a view."""
        names = [symbols] if isinstance(symbols, str) else list(symbols)
        columns = [self.position(name) for name in names]
        part: Any = columns
        # Neighbours in order can be a slice, which copies nothing.
        if columns and columns == list(range(columns[0], columns[0] + len(columns))):
            part = slice(columns[0], columns[0] + len(columns))
        return replace(self, symbols=tuple(names), blocks=self.blocks[:, :, part], mask=self.mask[:, part], truth=None)

    def with_field(self, name: str, values: ArrayLike) -> Panel:
        """The panel with a (time, symbol) field added or replaced."""
        array = np.asarray(values, dtype=np.float64)
        if array.shape != self.mask.shape:
            raise DataError(f"field '{name}' has shape {array.shape}; the panel's is {self.mask.shape}")
        kept = {field: self[field] for field in self.fields} | {name: array}
        return replace(self, fields=tuple(kept), blocks=np.stack(list(kept.values())))

    def noting(self, *notes: str) -> Panel:
        """The panel with sentences added that every result drawn from it must show; each stands once."""
        return replace(self, notes=tuple(dict.fromkeys(self.notes + notes)))

    # ---- changing the clock -----------------------------------------------------------------------------------

    def resample(self, bars: str | pd.DatetimeIndex) -> Panel:
        """Coarser bars: over each `bars` (a pandas frequency, or the UTC closes of the coarse bars).

        A coarse bar covers (previous close, close], is stamped with its close, and exists only when that moment lies
        within the panel, so it can never be seen early: a truncated panel gives the same coarse bars. The first one
        holds what the panel has of it; resample before cutting. Only observed bars count.
        """
        if len(self) == 0:
            raise DataError(f"an empty panel has no bars of {bars!r}; load more")
        closes = coarse_closes(self.index, bars) if isinstance(bars, str) else utc_index(bars)
        _check_index(closes)
        # The first close not before the bar: a bar known at the close itself still belongs to it.
        group = closes.searchsorted(self.index, side="left")
        # Only groups whose close has passed: an unfinished coarse bar would change as more bars come.
        whole = int(np.searchsorted(group, int(closes.searchsorted(self.index[-1], side="right")), side="left"))
        starts = np.flatnonzero(np.diff(group[:whole], prepend=-1))
        if len(starts) == 0:
            raise DataError(f"no complete bar of {bars!r} fits into {self.index[0]} → {self.index[-1]}; use finer ones")
        blocks, mask = aggregate(self.fields, self.blocks[:, :whole], self.mask[:whole], starts)
        return replace(self, index=closes[group[starts]], blocks=blocks, mask=mask, truth=None)

    def align(self, index: pd.DatetimeIndex, *, latest: bool = False) -> Panel:
        """The panel on other moments. Exact matches only; with `latest`, each moment takes the last bar known by then.

        A moment without a bar is unobserved (NaN, mask False); a repair fills it if asked.
        """
        target = utc_index(index)
        if len(self) == 0:
            raise DataError("an empty panel has no bars to align; load more")
        # The last bar known at or before each moment.
        source = self.index.searchsorted(target, side="right") - 1
        at = np.maximum(source, 0)
        is_matched = (source >= 0) & (latest | (self.index[at] == target))
        fresh = is_matched & (
            np.diff(source, prepend=-1) > 0
        )  # a bar carried to a second moment was not observed there
        blocks = np.where(is_matched[None, :, None], self.blocks[:, at], np.nan)
        return replace(self, index=target, blocks=blocks, mask=self.mask[at] & fresh[:, None], truth=None)

    # ---- putting together -------------------------------------------------------------------------------------

    def append(self, bars: Panel) -> Panel:
        """The panel with newer bars appended; refuses other symbols or fields, and bars that are not newer."""
        for kind, ours, theirs in (
            ("symbols", self.symbols, bars.symbols),
            ("fields", self.fields, bars.fields),
        ):
            if ours != theirs:
                odd = sorted(set(ours) ^ set(theirs))
                raise DataError(f"cannot append: {kind} differ ({', '.join(odd[:3]) or 'another order'})")
        if len(self) and len(bars) and bars.index[0] <= self.index[-1]:
            raise DataError(
                f"cannot append: the new bar {bars.index[0]} is not after the last one {self.index[-1]}; "
                "history is never rewritten"
            )
        return replace(
            self,
            index=pd.DatetimeIndex(np.concatenate([self.index.asi8, bars.index.asi8]), tz="UTC"),
            blocks=np.concatenate([self.blocks, bars.blocks], axis=1),
            mask=np.concatenate([self.mask, bars.mask]),
            causal=self.causal and bars.causal,
            notes=tuple(dict.fromkeys(self.notes + bars.notes)),
            truth=None,
        )

    @classmethod
    def concat(cls, panels: Sequence[Panel], axis: str = "time") -> Panel:
        """Panels one after another (`axis="time"`), or side by side on the union of their moments (`"symbol"`)."""
        if not panels:
            raise DataError("nothing to concatenate: give one panel or more")
        if axis == "time":
            return reduce(cls.append, panels)
        if axis != "symbol":
            raise ConfigError(f"axis='{axis}' is unknown{did_you_mean(axis, ('time', 'symbol'))}")
        from pacesetter.frames import Bars

        whole = Bars.join_symbols([Bars.of(part) for part in panels])
        return cls(
            whole.index,
            whole.symbols,
            whole.fields,
            whole.blocks,
            whole.mask,
            causal=all(part.causal for part in panels),
            calendar=whole.calendar,
            notes=tuple(dict.fromkeys(note for part in panels for note in part.notes)),
        )

    # ---- tables and files -----------------------------------------------------------------------------------------

    def to_frame(self) -> pd.DataFrame:
        """Wide table with (field, symbol) columns; `Panel.from_frame` reads it back, less the mask.

        >>> import pacesetter as ps
        >>> ps.load("synthetic", symbols=2, bars=100, seed=1).to_frame()["close"].shape
        (100, 2)
        """
        columns = pd.MultiIndex.from_product([self.fields, self.symbols], names=["field", "symbol"])
        flat = np.moveaxis(self.blocks, 0, 1).reshape(len(self), -1)
        return pd.DataFrame(flat, index=self.index, columns=columns)

    def save(self, path: str | Path) -> Path:
        """Write one Parquet file that `Panel.load` gives back bit for bit (without `truth`)."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        names = ["known", *(f"{field}|{name}" for field in (*self.fields, "observed") for name in self.symbols)]
        columns = [self.index.asi8, *(column for block in self.blocks for column in block.T), *self.mask.T]
        about = {
            "symbols": self.symbols,
            "fields": self.fields,
            "causal": self.causal,
            "calendar": self.calendar,
            "notes": self.notes,
            "fingerprint": self.fingerprint,
        }
        text = json.dumps(about).encode()
        table = pa.Table.from_arrays([pa.array(np.ascontiguousarray(column)) for column in columns], names)
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f"{path.name}.partial")  # a panel on disk is whole or not there
        # prices hardly repeat: a dictionary of them takes five times as long to write and a quarter more space
        table = table.replace_schema_metadata({STORED_AS: text, SEAL: _digest(text)})
        pq.write_table(table, partial, use_dictionary=False)
        partial.replace(path)
        return path

    @classmethod
    def load(cls, path: str | Path) -> Panel:
        """Read a panel that `save` wrote; refuses a file whose content no longer has its fingerprint."""
        import pyarrow.parquet as pq

        try:
            with Path(path).open("rb") as stream:
                table = pq.ParquetFile(stream).read()
            text = table.schema.metadata[STORED_AS]
            about = json.loads(text)
            symbols, fields, notes = (tuple(about[name]) for name in ("symbols", "fields", "notes"))
            index, *columns = (column.to_numpy() for column in table.columns)
            blocks, mask = np.stack(columns[: -len(symbols)]), np.stack(columns[-len(symbols) :], axis=1)
            blocks = blocks.reshape(len(fields), len(symbols), len(index)).transpose(0, 2, 1).copy()
            panel = cls(utc_index(index), symbols, fields, blocks, mask, about["causal"], about["calendar"], notes)
        except Exception as problem:  # damaged bytes end in any of a dozen exceptions
            raise DataError(
                f"{path} is not a stored panel ({type(problem).__name__}); load it with a source"
            ) from problem
        if panel.fingerprint != about.get("fingerprint") or _digest(text) != table.schema.metadata.get(SEAL):
            raise DataError(f"{path} was changed after it was stored: its content hash differs; create it again")
        return panel


def _digest(text: bytes) -> bytes:
    return hashlib.blake2b(text, digest_size=16).hexdigest().encode()


class _Rows(Panel):
    """Bars of a panel, whose stamps are cut once somebody reads them: that takes longer than all the rest."""

    @property
    def moments(self) -> Array:
        if "index" in vars(self):
            return super().moments
        stamps, part = vars(self)[UNCUT_INDEX]
        moments: Array = stamps.asi8[part]
        return moments

    def __getattr__(self, name: str) -> pd.DatetimeIndex:
        # Asked only for what the instance does not have.
        if name != "index" or UNCUT_INDEX not in vars(self):
            raise AttributeError(f"a panel has no attribute '{name}'")
        stamps, part = vars(self)[UNCUT_INDEX]
        index: pd.DatetimeIndex = stamps[part]
        vars(self)["index"] = index
        return index


def _check_index(index: pd.DatetimeIndex) -> None:
    if not isinstance(index, pd.DatetimeIndex) or str(index.tz) != "UTC" or index.unit != "ns":
        raise DataError("the index must be UTC nanoseconds; create it with pacesetter.panel.utc_index")
    if index.hasnans:
        raise DataError("the index has a bar without a time; give each bar its time")
    stamps = index.asi8
    bad = np.flatnonzero(stamps[1:] <= stamps[:-1])
    if len(bad):
        raise DataError(
            f"bar {bad[0] + 1} ({index[bad[0] + 1]}) is not after bar {bad[0]} ({index[bad[0]]}); sort the bars"
        )


def _read_only(array: Array) -> Array:
    if not array.flags.writeable:
        return array
    # A view is locked, not the caller's array; views taken from it are read-only too.
    view = array.view()
    view.flags.writeable = False
    return view
