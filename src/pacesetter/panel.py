"""Panel: bars as time × symbol × field, with a mask of what was really observed. The one noun every room knows."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from pacesetter.errors import ConfigError, DataError, did_you_mean

__all__ = ["PRICE_FIELDS", "Panel", "end_of_day", "utc_index"]

PRICE_FIELDS = ("open", "high", "low", "close")
SECONDS_PER_YEAR = 365.25 * 86_400
STORED_AS = b"pacesetter.panel"

Array = NDArray[Any]


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
    truth: Any = None

    def __post_init__(self) -> None:
        shape = (len(self.fields), len(self.index), len(self.symbols))
        if self.blocks.shape != shape or self.mask.shape != shape[1:]:
            raise DataError(
                f"arrays do not fit: blocks {self.blocks.shape} and mask {self.mask.shape} for "
                f"{shape[0]} fields × {shape[1]} bars × {shape[2]} symbols"
            )
        if self.blocks.dtype != np.float64 or self.mask.dtype != np.bool_:
            raise DataError(f"blocks must be float64 and mask bool, not {self.blocks.dtype} and {self.mask.dtype}")
        if "close" not in self.fields:
            raise DataError(f"a panel needs closes; it has only {', '.join(self.fields) or 'no field'}")
        for kind, names in (("symbol", self.symbols), ("field", self.fields)):
            twice = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
            if twice:
                raise DataError(f"{kind} '{twice[0]}' stands twice; each {kind} has one column")
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
        blocks = np.stack([np.asarray(values, dtype=np.float64) for values in fields.values()])
        if mask is None and "close" in fields:
            mask = np.isfinite(blocks[list(fields).index("close")])
        seen = np.zeros(blocks.shape[1:], bool) if mask is None else mask
        return cls(utc_index(index), tuple(map(str, symbols)), tuple(fields), blocks, seen, **attributes)

    @classmethod
    def from_frame(cls, frame: pd.DataFrame, *, symbol: str = "asset", **attributes: Any) -> Panel:
        """A panel from wide closes, from (field, symbol) columns, from long rows, or from one symbol's OHLCV columns.

        Time stamps say when a bar is known; naive ones are UTC, and bare dates move to the end of their day. The first
        bad row (wrong type, duplicate, out of order) is refused by number. `symbol` names a single asset.
        """
        from pacesetter.frames import read_frame

        bars = read_frame(frame, symbol=symbol)
        if bars.problems:
            raise DataError(bars.problems[0].sentence())
        return bars.panel(**attributes)

    # ---- looking --------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.index)

    def __repr__(self) -> str:
        span = f"{self.index[0]:%Y-%m-%d} → {self.index[-1]:%Y-%m-%d}" if len(self) else "empty"
        return (
            f"Panel({len(self)} bars × {len(self.symbols)} symbols × {len(self.fields)} fields, {span}, "
            f"{self.mask.mean() if self.mask.size else 0:.1%} observed, {self.fingerprint[:8]})"
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Panel) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __getitem__(self, field: str) -> Array:
        """(time, symbol) view of one field."""
        if field not in self.fields:
            raise DataError(f"the panel has no field '{field}'{did_you_mean(field, self.fields)}")
        view: Array = self.blocks[self.fields.index(field)]
        return view

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
    def close(self) -> Array:
        return self["close"]

    @property
    def volume(self) -> Array:
        return self["volume"]

    @property
    def values(self) -> Array:
        """(time, symbol, field) view."""
        return np.moveaxis(self.blocks, 0, -1)

    @property
    def shape(self) -> tuple[int, int, int]:
        """(bars, symbols, fields)."""
        return len(self.index), len(self.symbols), len(self.fields)

    @property
    def has_bars(self) -> bool:
        """True when open, high and low are there too; False for closes only."""
        return set(PRICE_FIELDS) <= set(self.fields)

    @property
    def bars_per_year(self) -> float:
        """How many bars a year holds, for annualising; measured over the panel's own span."""
        if len(self) < 2:
            raise DataError(f"a panel of {len(self)} bars has no bar rate; it takes two or more")
        return float((len(self) - 1) / ((self.index[-1] - self.index[0]).total_seconds() / SECONDS_PER_YEAR))

    def position(self, symbol: str) -> int:
        """Column of `symbol`."""
        if symbol not in self.symbols:
            raise DataError(f"the panel has no symbol '{symbol}'{did_you_mean(symbol, self.symbols)}")
        return self.symbols.index(symbol)

    @cached_property
    def fingerprint(self) -> str:
        """Content hash: equal bars, mask, names and causality give equal hex digits on every machine."""
        digest = hashlib.blake2b(digest_size=16)
        names = {"symbols": self.symbols, "fields": self.fields, "causal": self.causal}
        digest.update(json.dumps(names).encode())
        digest.update(np.ascontiguousarray(self.index.asi8).tobytes())
        digest.update(np.packbits(self.mask).tobytes())
        for block in self.blocks:
            canonical = np.where(np.isnan(block), np.nan, block) + 0.0  # one NaN pattern, one zero
            digest.update(np.ascontiguousarray(canonical).tobytes())
        return digest.hexdigest()

    # ---- taking parts ---------------------------------------------------------------------------------------------

    def rows(self, start: int | None = None, stop: int | None = None) -> Panel:
        """Bars start … stop−1 by position, as views."""
        part = slice(start, stop)
        return replace(self, index=self.index[part], blocks=self.blocks[:, part], mask=self.mask[part])

    def between(self, start: Any = None, end: Any = None) -> Panel:
        """Bars known from `start` to `end`, both included; a bare date as `end` includes its whole day. Views."""
        low = 0 if start is None else self.index.searchsorted(_moment(start), side="left")
        high = len(self) if end is None else self.index.searchsorted(_moment(end, last=True), side="right")
        return self.rows(int(low), int(high))

    def select(self, symbols: Sequence[str]) -> Panel:
        """The named symbols in the order asked for; a run of neighbours stays a view."""
        names = [symbols] if isinstance(symbols, str) else list(symbols)
        columns = [self.position(name) for name in names]
        part: Any = columns
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
        """The panel with sentences added that every result drawn from it must show."""
        return replace(self, notes=(*self.notes, *notes))

    # ---- changing the clock -----------------------------------------------------------------------------------

    def resample(self, bars: str | pd.DatetimeIndex) -> Panel:
        """Coarser bars: over each `bars` (a pandas frequency, or the UTC closes of the coarse bars).

        A coarse bar covers (previous close, close], is stamped with its close, and exists only when that moment lies
        within the panel, so it can never be seen early: a truncated panel gives the same coarse bars.
        """
        closes = self._coarse_closes(bars) if isinstance(bars, str) else utc_index(bars)
        group = closes.searchsorted(self.index, side="left")
        whole = int(np.searchsorted(group, int(closes.searchsorted(self.index[-1], side="right")), side="left"))
        starts = np.flatnonzero(np.r_[True, np.diff(group[:whole]) > 0]) if whole else np.empty(0, int)
        if len(starts) == 0:
            raise DataError(f"no whole bar of {bars!r} fits into {self.index[0]} → {self.index[-1]}; take finer ones")
        blocks, mask = _aggregate(self.fields, self.blocks[:, :whole], self.mask[:whole], starts)
        return replace(self, index=closes[group[starts]], blocks=blocks, mask=mask, truth=None)

    def _coarse_closes(self, freq: str) -> pd.DatetimeIndex:
        try:
            step = pd.tseries.frequencies.to_offset(freq)
        except ValueError as problem:
            raise ConfigError(f"'{freq}' is no bar length; take one like 1h, 1D, 1W or 1ME") from problem
        # pandas anchors weeks and months on days: the coarse close is the midnight that ends that day
        floor = self.index[0].normalize() - pd.Timedelta(days=1)
        closes = pd.date_range(floor, self.index[-1] + pd.Timedelta(days=1) + 2 * step, freq=step)
        if not isinstance(step, pd.tseries.offsets.Tick):
            closes = closes + pd.Timedelta(days=1)
        finest = self.index.to_series().diff().min()
        if len(closes) > 1 and len(self) > 1 and (closes[1:] - closes[:-1]).min() < finest:
            raise ConfigError(f"cannot make {freq} bars from coarser ones (the finest step here is {finest})")
        return closes

    def align(self, index: pd.DatetimeIndex, *, latest: bool = False) -> Panel:
        """The panel on other moments. Exact matches only; with `latest`, each moment takes the last bar known by then.

        A moment without a bar is unobserved (NaN, mask False); a repair fills it if asked.
        """
        target = utc_index(index)
        source = self.index.searchsorted(target, side="right") - 1
        found = (source >= 0) & (latest | (self.index[np.maximum(source, 0)] == target))
        fresh = found & (np.diff(source, prepend=-1) > 0)  # a bar carried to a second moment was not observed there
        blocks = np.where(found[None, :, None], self.blocks[:, np.maximum(source, 0)], np.nan)
        return replace(
            self, index=target, blocks=blocks, mask=self.mask[np.maximum(source, 0)] & fresh[:, None], truth=None
        )

    # ---- putting together -------------------------------------------------------------------------------------

    def append(self, bars: Panel) -> Panel:
        """The panel with newer bars behind it; refuses other symbols or fields, and bars that are not newer."""
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
            index=utc_index(self.index.append(bars.index)),
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

        whole = Bars.beside([Bars.of(part) for part in panels])
        return cls(
            whole.index,
            whole.symbols,
            whole.fields,
            whole.blocks,
            whole.mask,
            causal=all(part.causal for part in panels),
            calendar=panels[0].calendar if len({part.calendar for part in panels}) == 1 else None,
            notes=tuple(dict.fromkeys(note for part in panels for note in part.notes)),
        )

    # ---- tables and files -----------------------------------------------------------------------------------------

    def to_frame(self) -> pd.DataFrame:
        """Wide table with (field, symbol) columns; `Panel.from_frame` reads it back, less the mask."""
        columns = pd.MultiIndex.from_product([self.fields, self.symbols], names=["field", "symbol"])
        flat = np.moveaxis(self.blocks, 0, 1).reshape(len(self), -1)
        return pd.DataFrame(flat, index=self.index, columns=columns)

    def save(self, path: str | Path) -> Path:
        """Write one Parquet file that `Panel.load` gives back bit for bit (without `truth`)."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        columns = {"known": pa.array(self.index.asi8)}
        columns |= {
            f"{field}|{name}": block[:, column]
            for field, block in zip(self.fields, self.blocks, strict=True)
            for column, name in enumerate(self.symbols)
        }
        columns |= {f"mask|{name}": self.mask[:, column] for column, name in enumerate(self.symbols)}
        about = {
            "symbols": self.symbols,
            "fields": self.fields,
            "causal": self.causal,
            "calendar": self.calendar,
            "notes": self.notes,
            "fingerprint": self.fingerprint,
        }
        table = pa.table(columns).replace_schema_metadata({STORED_AS: json.dumps(about).encode()})
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, path)
        return path

    @classmethod
    def load(cls, path: str | Path) -> Panel:
        """Read a panel that `save` wrote; refuses a file whose content no longer has its fingerprint."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            table = pq.read_table(path)
            about = json.loads((table.schema.metadata or {})[STORED_AS])
            symbols, fields = tuple(about["symbols"]), tuple(about["fields"])
            index = pd.DatetimeIndex(table["known"].to_numpy(), tz="UTC").as_unit("ns")
            blocks = np.stack([np.stack([table[f"{f}|{s}"].to_numpy() for s in symbols], axis=1) for f in fields])
            mask = np.stack([table[f"mask|{s}"].to_numpy() for s in symbols], axis=1)
        except (KeyError, ValueError, TypeError, OSError, pa.ArrowException) as problem:
            raise DataError(
                f"{path} is not a stored panel ({type(problem).__name__}); load it with a source"
            ) from problem
        panel = cls(index, symbols, fields, blocks, mask, about["causal"], about["calendar"], tuple(about["notes"]))
        if panel.fingerprint != about["fingerprint"]:
            raise DataError(f"{path} was changed after it was stored: its content hash differs; make it again")
        return panel


def utc_index(stamps: Any) -> pd.DatetimeIndex:
    """Time stamps as UTC nanoseconds; naive ones are taken as UTC. Bare dates stay at midnight."""
    index = pd.DatetimeIndex(stamps)
    index = index.tz_localize("UTC") if index.tz is None else index.tz_convert("UTC")
    return index.as_unit("ns").rename(None)


def end_of_day(dates: pd.DatetimeIndex) -> pd.DatetimeIndex:
    """Bare dates moved to the last second of their UTC day, when a daily bar is known without a calendar."""
    return utc_index(dates) + pd.Timedelta(hours=23, minutes=59, seconds=59)


def _moment(stamp: Any, last: bool = False) -> pd.Timestamp:
    """A moment in UTC; a bare date means the start of its day, or its end with `last`."""
    try:
        moment = pd.Timestamp(stamp)
    except (ValueError, TypeError) as problem:
        raise ConfigError(f"{stamp!r} is no moment; write it like 2016-12-30 or 2016-12-30T21:00Z") from problem
    bare = moment.tzinfo is None and moment == moment.normalize()
    moment = moment.tz_localize("UTC") if moment.tzinfo is None else moment.tz_convert("UTC")
    return moment + pd.Timedelta(days=1) - pd.Timedelta(nanoseconds=1) if bare and last else moment


def _check_index(index: pd.DatetimeIndex) -> None:
    if not isinstance(index, pd.DatetimeIndex) or str(index.tz) != "UTC" or index.unit != "ns":
        raise DataError("the index must be UTC nanoseconds; make it with pacesetter.panel.utc_index")
    stamps = index.asi8
    bad = np.flatnonzero(stamps[1:] <= stamps[:-1])
    if len(bad):
        raise DataError(f"bar {bad[0] + 1} ({index[bad[0] + 1]}) is not after bar {bad[0]} ({index[bad[0]]})")


def _read_only(array: Array) -> Array:
    if not array.flags.writeable:
        return array
    view = array.view()
    view.flags.writeable = False
    return view


def _aggregate(fields: tuple[str, ...], blocks: Array, mask: Array, starts: Array) -> tuple[Array, Array]:
    """Coarse (field, group, symbol) blocks from fine ones whose groups begin at rows `starts`; observed bars only."""
    bars = np.arange(len(mask))[:, None]
    last = np.maximum.reduceat(np.where(mask, bars, -1), starts)
    first = np.minimum.reduceat(np.where(mask, bars, len(mask)), starts)
    seen = last >= 0
    column = np.arange(mask.shape[1])[None, :]

    def pick(block: Array, rows: Array) -> Array:
        return np.where(seen, block[np.where(seen, rows, 0), column], np.nan)

    coarse = []
    for field, block in zip(fields, blocks, strict=True):
        observed = np.where(mask, block, np.nan)
        if field == "open":
            coarse.append(pick(block, first))
        elif field == "high":
            coarse.append(np.fmax.reduceat(observed, starts))
        elif field == "low":
            coarse.append(np.fmin.reduceat(observed, starts))
        elif field == "volume":
            coarse.append(np.where(seen, np.add.reduceat(np.nan_to_num(observed), starts), np.nan))
        else:
            coarse.append(pick(block, last))
    return np.stack(coarse), seen
