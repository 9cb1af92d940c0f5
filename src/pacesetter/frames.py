"""DataFrame → bars: layout and columns recognised, each cell's row remembered, problems listed, nothing repaired."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pacesetter.errors import ConfigError, DataError

if TYPE_CHECKING:
    from pacesetter.panel import Panel

__all__ = ["Bars", "Finding", "read_frame", "recognise"]

Array = NDArray[Any]

ALIASES = {
    "timestamp": ("timestamp", "date", "datetime", "time", "day", "ts", "open_time", "close_time", "known"),
    "symbol": ("symbol", "ticker", "asset", "instrument", "sym"),
    "open": ("open", "o", "open_price"),
    "high": ("high", "h", "high_price"),
    "low": ("low", "l", "low_price"),
    "close": ("close", "c", "close_price"),
    "volume": ("volume", "vol", "v"),
}
BAR_FIELDS = ("open", "high", "low", "close", "volume")


@dataclass(frozen=True)
class Finding:
    """One rule broken by one symbol: what, where, how often, and how to allow or repair it."""

    rule: str
    what: str
    where: str = ""
    symbol: str | None = None
    when: str | None = None
    count: int = 1
    severity: Literal["error", "warning"] = "error"
    remedy: str = ""

    def sentence(self) -> str:
        """`bars.csv row 7 (AAPL, 2020-01-09): high 9 is below low 10 [high_low, 3 times]; repair with …`"""
        place = ", ".join(part for part in (self.symbol, self.when) if part)
        where = f"{self.where} ({place})" if self.where and place else self.where or place
        often = f", {self.count} times" if self.count > 1 else ""
        remedy = f"; {self.remedy}" if self.remedy else ""
        return f"{where + ': ' if where else ''}{self.what} [{self.rule}{often}]{remedy}"


@dataclass(frozen=True)
class Bars:
    """What was read, before it is believed: panel-shaped arrays, the row each cell came from, and the problems met.

    blocks (field, time, symbol) float64; mask (time, symbol); rows (time, symbol) row in the origin, −1 for none.
    """

    index: pd.DatetimeIndex
    symbols: tuple[str, ...]
    fields: tuple[str, ...]
    blocks: Array
    mask: Array
    rows: Array
    origins: tuple[str, ...]
    problems: tuple[Finding, ...] = ()
    calendar: str | None = None

    def panel(self, **attributes: Any) -> Panel:
        """The bars as a Panel, as they are; cells the mask leaves out are NaN."""
        from pacesetter.panel import Panel

        blocks = np.where(self.mask[None], self.blocks, np.nan)
        return Panel(
            self.index, self.symbols, self.fields, blocks, self.mask, **{"calendar": self.calendar} | attributes
        )

    def where(self, time: int, symbol: int) -> str:
        """File and row of one cell, e.g. `bars.csv row 17`."""
        origin, row = self.origins[symbol], int(self.rows[time, symbol])
        return f"{origin} row {row}".strip() if row >= 0 else origin

    @classmethod
    def of(cls, panel: Panel, origin: str = "") -> Bars:
        """A panel as bars, so that one set of checks serves files and generators."""
        return cls(
            panel.index,
            panel.symbols,
            panel.fields,
            panel.blocks,
            panel.mask,
            np.full(panel.mask.shape, -1),
            (origin,) * len(panel.symbols),
            calendar=panel.calendar,
        )

    @classmethod
    def beside(cls, parts: Sequence[Bars]) -> Bars:
        """Several readings (one file a symbol) side by side on the union of their moments."""
        index = parts[0].index
        for part in parts[1:]:
            index = index.union(part.index)
        fields = tuple(dict.fromkeys(field for part in parts for field in part.fields))
        shape = (len(index), sum(len(part.symbols) for part in parts))
        blocks, mask, rows = np.full((len(fields), *shape), np.nan), np.zeros(shape, bool), np.full(shape, -1)
        column = 0
        for part in parts:
            at, columns = index.searchsorted(part.index), slice(column, column + len(part.symbols))
            for field, block in zip(part.fields, part.blocks, strict=True):
                blocks[fields.index(field), at, columns] = block
            mask[at, columns], rows[at, columns] = part.mask, part.rows
            column += len(part.symbols)
        return cls(
            index,
            tuple(name for part in parts for name in part.symbols),
            fields,
            blocks,
            mask,
            rows,
            tuple(origin for part in parts for origin in part.origins),
            tuple(problem for part in parts for problem in part.problems),
        )


def recognise(name: object) -> str:
    """A column name in our words: aliases in any case and spacing; anything else in lower case with underscores."""
    plain = str(name).strip().lower().replace(" ", "_")
    for ours, theirs in ALIASES.items():
        if plain in theirs:
            return ours
    return plain


def read_frame(
    frame: pd.DataFrame,
    *,
    symbol: str = "asset",
    origin: str = "",
    first_row: int = 0,
    stamp: Literal["close", "open"] = "close",
    bar: str | None = None,
    timezone: str | None = None,
    close_of: Callable[[pd.DatetimeIndex], pd.DatetimeIndex] | None = None,
) -> Bars:
    """Bars from wide closes, (field, symbol) columns, long rows, or one symbol's fields.

    `stamp` says what the time stamps mean; opens move to the close by the length of a `bar`. Naive stamps are in
    `timezone` (UTC by default). Bare dates move to `close_of(dates)`, by default the end of their day. Row numbers
    start at `first_row`.
    """
    if frame.shape[0] == 0 or frame.shape[1] == 0:
        raise DataError(f"{origin or 'the table'} is empty: it has no {'rows' if frame.shape[1] else 'columns'}")
    reader = _Reader(origin, first_row, timezone)
    frame, stamps, names = _split_stamps(frame, origin)
    known, keep = reader.known(stamps, stamp, bar, close_of)
    columns = [_column_name(name) for name in names]
    frame = frame.set_axis(range(frame.shape[1]), axis=1)
    if "symbol" in columns:
        return _read_long(frame, columns, known, keep, reader)
    return _read_wide(frame, columns, known, keep, reader, symbol)


def _column_name(name: Any) -> Any:
    return tuple(map(str, name)) if isinstance(name, tuple) else recognise(name) if _is_word(name) else str(name)


def _is_word(name: Any) -> bool:
    return recognise(name) in ALIASES or recognise(name) in ("sentiment", "adj_close", "adjusted_close")


def _split_stamps(frame: pd.DataFrame, origin: str) -> tuple[pd.DataFrame, pd.Series[Any], list[Any]]:
    """The value columns, the raw time stamps, and the columns' names."""
    found = [place for place, name in enumerate(frame.columns) if _is_stamp(name)]
    if found:
        rest = [place for place in range(frame.shape[1]) if place != found[0]]
        return frame.iloc[:, rest], frame.iloc[:, found[0]], [frame.columns[place] for place in rest]
    if isinstance(frame.index, pd.DatetimeIndex) or _is_stamp(frame.index.name):
        return frame, frame.index.to_series(), list(frame.columns)
    raise DataError(
        f"{origin or 'the table'} has no time stamps: name a column timestamp or date "
        f"(it has {', '.join(map(str, frame.columns[:6]))})"
    )


def _is_stamp(name: Any) -> bool:
    return recognise(name[0] if isinstance(name, tuple) else name) == "timestamp"


class _Reader:
    """Gathers findings, one for each rule and symbol, with the first row and a count."""

    def __init__(self, origin: str, first_row: int, timezone: str | None) -> None:
        self.origin, self.first_row, self.timezone = origin, first_row, timezone
        self.problems: list[Finding] = []

    def report(
        self, rule: str, what: str, rows: Array, remedy: str = "", symbol: str | None = None, when: str | None = None
    ) -> None:
        """File a finding for the row positions `rows`, if there are any."""
        if len(rows):
            where = f"{self.origin} row {int(rows[0]) + self.first_row}".strip()
            self.problems.append(Finding(rule, what, where, symbol, when, len(rows), remedy=remedy))

    # ---- time ---------------------------------------------------------------------------------------------------

    def known(
        self,
        raw: pd.Series[Any],
        stamp: str,
        bar: str | None,
        close_of: Callable[[pd.DatetimeIndex], pd.DatetimeIndex] | None,
    ) -> tuple[pd.DatetimeIndex, Array]:
        """When each row is known, UTC; and which rows have a usable stamp."""
        from pacesetter.panel import end_of_day

        index = self.parse(raw)
        keep = ~np.asarray(index.isna())
        if not keep.any():
            raise DataError(self.problems[0].sentence() if self.problems else f"{self.origin} has no time stamp")
        seen = index[keep]
        local = seen.tz_convert(self.timezone or "UTC")
        if bool((local == local.normalize()).all()) and (bar is None or pd.Timedelta(bar) >= pd.Timedelta(days=1)):
            dates, place = np.unique(local.tz_localize(None).asi8, return_inverse=True)
            days = pd.DatetimeIndex(dates.view("M8[ns]"))
            seen = (close_of or end_of_day)(days)[place]
        elif stamp == "open":
            seen = seen + self._bar_length(seen, bar)
        out = np.full(len(index), np.iinfo(np.int64).min)
        out[keep] = seen.asi8
        return pd.DatetimeIndex(out.view("M8[ns]"), tz="UTC"), keep

    def _bar_length(self, seen: pd.DatetimeIndex, bar: str | None) -> pd.Timedelta:
        if bar is not None:
            return pd.Timedelta(bar)
        steps = np.diff(np.unique(seen.asi8))
        if len(steps) == 0:
            raise DataError(f"{self.origin}: one bar stamped at its open; say how long it is with data.bar=1h")
        return pd.Timedelta(int(steps.min()), unit="ns")

    def parse(self, raw: pd.Series[Any]) -> pd.DatetimeIndex:
        """Raw stamps as UTC nanoseconds, NaT where unusable (reported)."""
        if pd.api.types.is_datetime64_any_dtype(raw):
            index = pd.DatetimeIndex(raw)
            self.report("timestamp", "the time stamp is missing", np.flatnonzero(index.isna()))
            return self._to_utc(index)
        if pd.api.types.is_numeric_dtype(raw):
            return self._from_epoch(raw)
        text = raw.astype(str).str.strip()
        date_only = text.str.fullmatch(r"\d{8}")
        text = text.where(~date_only, text.str.slice(0, 4) + "-" + text.str.slice(4, 6) + "-" + text.str.slice(6, 8))
        zone = text.str.extract(r"[T ]\d{2}:\d{2}.*?(Z|[+-]\d{2}:?\d{2})$", expand=False)
        self._check_zones(zone)
        naive = bool(zone.isna().all())
        parsed = pd.to_datetime(text, format="ISO8601", errors="coerce", utc=not naive)
        bad = np.flatnonzero(parsed.isna().to_numpy())
        if len(bad):
            shown = text.iloc[bad[0]][:40]
            self.report("timestamp", f"'{shown}' is no ISO time stamp", bad, "write it like 2016-12-30T21:00:00Z")
        return self._to_utc(pd.DatetimeIndex(parsed))

    def _check_zones(self, zone: pd.Series[Any]) -> None:
        named = zone.fillna("none").str.replace(":", "", regex=False).replace({"Z": "UTC", "+0000": "UTC"})
        odd = np.flatnonzero((named != named.iloc[0]).to_numpy())
        if len(odd):
            what = f"time zone {named.iloc[odd[0]]} after {named.iloc[0]}"
            self.report("time_zone", what, odd, "write all stamps in one zone, or allow with data.allow=time_zone")

    def _from_epoch(self, raw: pd.Series[Any]) -> pd.DatetimeIndex:
        values = raw.to_numpy(dtype=np.float64, na_value=np.nan)
        self.report("timestamp", "the time stamp is missing", np.flatnonzero(~np.isfinite(values)))
        size = np.nanmax(np.abs(values)) if np.isfinite(values).any() else 0.0
        if 19_000_101 <= size <= 22_001_231 and np.nanmin(values) >= 19_000_101:
            text = raw.astype("Int64").astype(str)
            return self.parse(text)
        unit = next(unit for unit, most in (("s", 1e11), ("ms", 1e14), ("us", 1e17), ("ns", np.inf)) if size < most)
        if size < 1e8:
            self.report("timestamp", f"{values[0]:g} is no time stamp", np.arange(len(values)), "give dates or epochs")
            return pd.DatetimeIndex(np.full(len(values), "NaT", "M8[ns]"), tz="UTC")
        return pd.DatetimeIndex(pd.to_datetime(raw, unit=unit, utc=True)).as_unit("ns")  # type: ignore[call-overload]

    def _to_utc(self, index: pd.DatetimeIndex) -> pd.DatetimeIndex:
        """Naive stamps localised in the given zone; a stamp that happens twice or never there is reported."""
        index = index.as_unit("ns")
        if index.tz is not None:
            return index.tz_convert("UTC")
        try:
            local = index.tz_localize(self.timezone or "UTC", ambiguous="NaT", nonexistent="NaT")
        except (KeyError, ValueError) as problem:
            raise ConfigError(
                f"data.timezone='{self.timezone}' is unknown; write it like America/New_York"
            ) from problem
        lost = np.flatnonzero(np.asarray(local.isna()) & ~np.asarray(index.isna()))
        if len(lost):
            what = f"{index[lost[0]]} happens twice or never in {self.timezone} (daylight saving)"
            self.report("daylight_saving", what, lost, "write the stamps in UTC or with their offset")
        return local.tz_convert("UTC")

    # ---- values -------------------------------------------------------------------------------------------------

    def numbers(self, values: pd.Series[Any], field: str, symbol: str | None = None) -> Array:
        """A column as float64; a cell that is no number is reported and becomes NaN."""
        if pd.api.types.is_bool_dtype(values):
            self.report("wrong_type", f"{field} holds true/false, not numbers", np.arange(len(values)), symbol=symbol)
            return np.full(len(values), np.nan)
        if pd.api.types.is_numeric_dtype(values):
            return np.asarray(values.to_numpy(dtype=np.float64, na_value=np.nan))
        numeric = pd.to_numeric(values, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
        blank = values.isna() | (values.astype(str).str.strip() == "")
        bad = np.flatnonzero(np.isnan(numeric) & ~blank.to_numpy())
        if len(bad):
            self.report("wrong_type", f"{field} is '{str(values.iloc[bad[0]])[:40]}', not a number", bad, symbol=symbol)
        return np.asarray(numeric)


def _read_long(frame: pd.DataFrame, columns: list[Any], known: pd.DatetimeIndex, keep: Array, reader: _Reader) -> Bars:
    names = frame[columns.index("symbol")]
    reader.report("symbol", "the symbol is missing", np.flatnonzero(names.isna()), "name the symbol in each row")
    keep = keep & ~names.isna().to_numpy()
    fields = [(place, name) for place, name in enumerate(columns) if name != "symbol" and _is_value(frame[place], name)]
    _need_close([name for _, name in fields], reader.origin)
    values = np.stack([reader.numbers(frame[place], name) for place, name in fields])
    codes, symbols = pd.factorize(names.astype(str).str.strip().where(keep), sort=False)
    row = np.flatnonzero(keep)
    row = row[_in_order(known, codes, row, symbols, reader)]
    stamps, at = np.unique(known.asi8[row], return_inverse=True)
    shape = (len(stamps), len(symbols))
    blocks, mask, rows = np.full((len(fields), *shape), np.nan), np.zeros(shape, bool), np.full(shape, -1)
    blocks[:, at, codes[row]] = values[:, row]
    mask[at, codes[row]], rows[at, codes[row]] = True, row + reader.first_row
    index = pd.DatetimeIndex(stamps.view("M8[ns]"), tz="UTC")
    origins = (reader.origin,) * len(symbols)
    return Bars(index, tuple(symbols), tuple(n for _, n in fields), blocks, mask, rows, origins, tuple(reader.problems))


def _is_value(column: pd.Series[Any], name: str) -> bool:
    """Bar fields always; other columns only where they hold numbers (a company's name is no field)."""
    return name in BAR_FIELDS or (pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column))


def _in_order(known: pd.DatetimeIndex, codes: Array, row: Array, symbols: Any, reader: _Reader) -> Array:
    """Positions within `row` to keep, in time order; duplicates (the last stands) and disorder are reported."""
    stamps, code = known.asi8[row], codes[row]
    order = np.lexsort((row, code))  # each symbol's rows as they stand in the file
    same = code[order][1:] == code[order][:-1]
    step = stamps[order][1:] - stamps[order][:-1]
    back = order[1:][same & (step < 0)]
    ranked = np.lexsort((row, stamps, code))
    again = (code[ranked][1:] == code[ranked][:-1]) & (stamps[ranked][1:] == stamps[ranked][:-1])
    twice = ranked[1:][again]
    for rule, found, what, remedy in (
        ("order", back, "the bar is older than the one before it", "sort the rows, or allow with data.allow=order"),
        ("duplicate", twice, "the bar stands twice", "delete one, or keep the last with data.allow=duplicate"),
    ):
        for which in np.unique(code[found]):
            rows = np.sort(row[found[code[found] == which]])
            reader.report(rule, what, rows, remedy, str(symbols[which]), str(known[rows[0]]))
    return np.delete(ranked, np.flatnonzero(again))


def _read_wide(
    frame: pd.DataFrame, columns: list[Any], known: pd.DatetimeIndex, keep: Array, reader: _Reader, symbol: str
) -> Bars:
    cells = _wide_cells(columns, symbol)
    fields = tuple(dict.fromkeys(field for field, _ in cells))
    symbols = tuple(dict.fromkeys(name for _, name in cells))
    _need_close(fields, reader.origin)
    if len(set(cells)) < len(cells):
        twice = next(cell for cell in cells if cells.count(cell) > 1)
        raise DataError(f"{reader.origin or 'the table'} has two columns for {twice[0]} of {twice[1]}; keep one")
    row = np.flatnonzero(keep)
    row = row[_in_order(known, np.zeros(len(known), int), row, ["all symbols"], reader)]
    blocks = np.full((len(fields), len(row), len(symbols)), np.nan)
    for place, (field, name) in enumerate(cells):
        blocks[fields.index(field), :, symbols.index(name)] = reader.numbers(frame[place], field, name)[row]
    mask = ~np.isnan(blocks).all(axis=0) if len(fields) > 1 else ~np.isnan(blocks[0])
    rows = np.where(mask, (row + reader.first_row)[:, None], -1)
    origins = (reader.origin,) * len(symbols)
    return Bars(known[row], symbols, fields, blocks, mask, rows, origins, tuple(reader.problems))


def _wide_cells(columns: list[Any], symbol: str) -> list[tuple[str, str]]:
    """(field, symbol) of each column."""
    if any(isinstance(name, tuple) for name in columns):
        pairs = [(name[0], name[1]) for name in columns]
        swapped = sum(recognise(b) in BAR_FIELDS for _, b in pairs) > sum(recognise(a) in BAR_FIELDS for a, _ in pairs)
        return [(recognise(b), a) if swapped else (recognise(a), b) for a, b in pairs]
    if "close" in columns or sum(name in BAR_FIELDS for name in columns) > 1:
        return [(str(name), symbol) for name in columns]
    return [("close", str(name)) for name in columns]


def _need_close(fields: Sequence[str], origin: str) -> None:
    if "close" not in fields:
        raise DataError(
            f"{origin or 'the table'} has no close [missing_column]; it has {', '.join(fields) or 'no number column'}: "
            "name the column close"
        )


def with_problems(bars: Bars, *more: Finding) -> Bars:
    """The bars with findings added."""
    return replace(bars, problems=(*bars.problems, *more))
