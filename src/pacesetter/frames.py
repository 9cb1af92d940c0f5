"""DataFrame → bars: layout and columns recognised, each cell's row remembered, problems listed, nothing repaired."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from pacesetter.arrays import Array
from pacesetter.errors import DataError
from pacesetter.stamps import StampReader, moment_of

if TYPE_CHECKING:
    from pacesetter.panel import Panel

__all__ = ["Bars", "Close", "Decimal", "Finding", "read_frame", "recognise"]

Close = Literal["auto", "close", "adj_close", "unadjusted"]
Decimal = Literal["point", "comma"]

OPEN_STAMPS = ("open_time", "opentime", "time_open", "start_time", "bar_start")
ALIASES = {
    "timestamp": ("timestamp", "date", "datetime", "time", "day", "ts", "close_time", "known", *OPEN_STAMPS),
    "symbol": ("symbol", "ticker", "asset", "instrument", "sym"),
    "open": ("open", "o", "open_price"),
    "high": ("high", "h", "high_price"),
    "low": ("low", "l", "low_price"),
    "close": ("close", "c", "close_price"),
    "adj_close": ("adj_close", "adjusted_close", "adjclose", "close_adj", "close_adjusted"),
    "volume": ("volume", "vol", "v"),
    "funding_rate": ("funding_rate", "fundingrate", "funding"),
    "mark_price": ("mark_price", "markprice", "mark"),
    "dividend": ("dividend", "dividends", "cash_dividend"),
    "split": ("split", "splits", "stock_splits", "split_ratio"),
    "close_unadjusted": ("close_unadjusted", "unadjusted_close", "close_raw", "raw_close"),
    "member": ("member", "is_member", "in_index"),
}
BAR_FIELDS = ("open", "high", "low", "close", "volume")
ACCOUNT_FIELDS = ("funding_rate", "mark_price", "dividend", "split", "close_unadjusted", "member")
KNOWN_FIELDS = (*BAR_FIELDS, "sentiment", "adj_close", *ACCOUNT_FIELDS)
# Stricter than float(), which also takes "1_000" and the digits of other scripts.
NUMBER = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|[+-]?[iI]nf(inity)?"
# as spreadsheets and web pages write them, by the decimal mark that is said: $1,234.50 and 1.234,50 €
WRITTEN = {
    "point": r"[$€£¥]?\s?[+-]?(?:[0-9]{1,3}(?:[,'’\s][0-9]{3})+|[0-9]+)(?:\.[0-9]*)?\s?[$€£¥]?",
    "comma": r"[$€£¥]?\s?[+-]?(?:[0-9]{1,3}(?:[.'’\s][0-9]{3})+|[0-9]+)(?:,[0-9]*)?\s?[$€£¥]?",
}
CLOSES = ("price", "last", "close/last")  # names of the close beside open, high and low, where none is called so
MOST_COLUMNS = MOST_SYMBOLS = 20_000
AUTUMN = (4, 10, 11)  # when clocks are set back, south and north: an hour of local time is there twice
CLOCK = r"[0-9]{1,2}:[0-9]{2}(:[0-9]{2}(\.[0-9]+)?)?|[0-9]{5,6}"  # a time of day in a column of its own
CLOCK_DIGITS = r"[0-9]{3,4}"  # the same without seconds, 935 for 9:35; never beside 93500
MOST_CELLS = 500_000_000  # 4 GB of numbers: sparse rows of many symbols make a table far larger than their file
NO_VALUE = frozenset({"", "nan", "na", "n/a", "#n/a", "null", "none", "<na>", "nat"})


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
    notes: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()  # columns without numbers

    def panel(self, **attributes: Any) -> Panel:
        """The bars as a Panel, as they are; cells the mask leaves out are NaN."""
        from pacesetter.panel import Panel

        blocks = np.where(self.mask[None], self.blocks, np.nan)
        attributes = {"calendar": self.calendar, "notes": self.notes} | attributes
        return Panel(self.index, self.symbols, self.fields, blocks, self.mask, **attributes)

    def where(self, time: int, symbol: int) -> str:
        """File and row of one cell, e.g. `bars.csv row 17`."""
        origin, row = self.origins[symbol], int(self.rows[time, symbol])
        return f"{origin} row {row}".strip() if row >= 0 else origin

    def between(self, start: object = None, end: object = None) -> Bars:
        """Bars known from `start` to `end`, both included, with the problems of that time; see `Panel.between`."""
        low = 0 if start is None else int(self.index.searchsorted(moment_of(start), side="left"))
        high = len(self.index) if end is None else int(self.index.searchsorted(moment_of(end, last=True), side="right"))
        if (low, high) == (0, len(self.index)):
            return self
        if low >= high:
            raise DataError(
                f"there is no bar between data.start={start} and data.end={end}; "
                f"the bars run from {self.index[0]} to {self.index[-1]}"
            )
        kept = slice(low, high)
        first, last = self.index[low], self.index[high - 1]
        problems = tuple(p for p in self.problems if p.when is None or first <= pd.Timestamp(p.when) <= last)
        blocks, mask, rows = self.blocks[:, kept], self.mask[kept], self.rows[kept]
        return replace(self, index=self.index[kept], blocks=blocks, mask=mask, rows=rows, problems=problems)

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
    def join_symbols(cls, parts: Sequence[Bars]) -> Bars:
        """Several readings (one file per symbol) side by side on the union of their moments."""
        index = parts[0].index
        for part in parts[1:]:
            index = index.union(part.index)
        fields = tuple(dict.fromkeys(field for part in parts for field in part.fields))
        whole = cls.from_parts(parts, index, fields, sum(len(part.symbols) for part in parts))
        return replace(whole, calendar=parts[0].calendar if len({part.calendar for part in parts}) == 1 else None)

    @classmethod
    def from_parts(cls, parts: Iterable[Bars], index: pd.DatetimeIndex, fields: tuple[str, ...], symbols: int) -> Bars:
        """Readings of so many `symbols` in all, taken one after another, on moments and fields that have theirs."""
        shape = (len(index), symbols)
        _check_size(len(fields), *shape, "the folder")
        blocks, mask, rows = np.full((len(fields), *shape), np.nan), np.zeros(shape, bool), np.full(shape, -1)
        names: list[str] = []
        origins: list[str] = []
        problems: list[Finding] = []
        left_out: dict[str, None] = {}
        for part in parts:
            at, columns = index.searchsorted(part.index), slice(len(names), len(names) + len(part.symbols))
            for field, block in zip(part.fields, part.blocks, strict=True):
                blocks[fields.index(field), at, columns] = block
            mask[at, columns], rows[at, columns] = part.mask, part.rows
            names += part.symbols
            origins += part.origins
            problems += part.problems
            left_out |= dict.fromkeys(part.left_out)
        placed = cls(index, tuple(names), fields, blocks, mask, rows, tuple(origins), tuple(problems))
        return replace(placed, left_out=tuple(left_out))


def recognise(name: object) -> str:
    """A column name in our words: aliases in any case and spacing; anything else as it is, without outer blanks."""
    plain = _plain(name).replace(" ", "_")
    if plain in KNOWN_FIELDS:
        return plain
    return next((ours for ours, theirs in ALIASES.items() if plain in theirs), str(name).strip())


def _plain(name: object) -> str:
    """A column's name in small letters, without the angles that some files set around it."""
    return str(name).strip().strip("<>").lower()


def read_frame(
    frame: pd.DataFrame,
    *,
    symbol: str = "asset",
    origin: str = "",
    numbers: Array | None = None,
    stamp: Literal["auto", "close", "open"] = "auto",
    bar: str | None = None,
    timezone: str | None = None,
    close_of: Callable[[pd.DatetimeIndex], pd.DatetimeIndex] | None = None,
    date_format: str | None = None,
    zone_of: Callable[[pd.DatetimeIndex], str] | None = None,
    close: Close = "auto",
    decimal: Decimal | None = None,
) -> Bars:
    """Bars from wide closes, (field, symbol) columns, long rows, or one symbol's fields (named `symbol`).

    `numbers` (row,) are the row numbers to name in findings, counted from 0 when left out. The other options are those
    of `StampReader`; a `stamp` of auto takes a column named open_time, or the like, for the opens of bars. `close` says
    which close is meant where there is an adjusted one beside it: adj_close scales open, high and low alike. `decimal`
    is the mark in numbers such as $1,234.50 or 1.234,50.
    """
    if isinstance(frame.index, pd.MultiIndex):
        frame = frame.reset_index()
    if frame.shape[0] == 0 or frame.shape[1] == 0:
        raise DataError(f"{origin or 'the table'} is empty: it has no {'rows' if frame.shape[1] else 'columns'}")
    check_columns(frame.shape[1], origin or "the table")
    table = _Table(origin, np.arange(len(frame)) if numbers is None else numbers)
    frame, stamps = _split_stamps(frame, table)
    if decimal is not None:
        frame = frame.apply(_plain_numbers, decimal=decimal, table=table)
    meant = ("open" if recognises_open(stamps.name) else "close") if stamp == "auto" else stamp
    reader = StampReader(table.report, origin or "the table", meant, bar, timezone, close_of, date_format, zone_of)
    bars = _choose_close(_read_layout(frame, reader.known_times(stamps), table, symbol), close, table)
    return _settle_next(bars) if meant == "close" and "funding_rate" in bars.fields else bars


def _settle_next(bars: Bars) -> Bars:
    """Bars whose funding, stamped at closes, is that of each symbol's next bar: funding is settled at a bar's open."""
    blocks, place = bars.blocks.copy(), bars.fields.index("funding_rate")
    for column in range(len(bars.symbols)):
        rows = np.flatnonzero(bars.mask[:, column])
        blocks[place, rows[1:], column] = bars.blocks[place, rows[:-1], column]
        blocks[place, rows[:1], column] = np.nan
    return replace(bars, blocks=blocks)


def _choose_close(bars: Bars, close: Close, table: _Table) -> Bars:
    """Bars with the one close that is meant; refuses to choose between two that differ."""
    if close == "unadjusted":
        return _adjust_forward(bars, table) if "adj_close" not in bars.fields else _keep_both(bars, table)
    if "adj_close" not in bars.fields:
        if close == "adj_close":
            raise DataError(f"data.close=adj_close: {table} has no adjusted close; it has {', '.join(bars.fields)}")
        return bars
    plain, adjusted = (bars.blocks[bars.fields.index(name)] for name in ("close", "adj_close"))
    differs = np.argwhere(bars.mask & (np.abs(adjusted - plain) > 1e-6 * np.abs(plain)))
    if close == "auto" and len(differs):
        time, symbol = map(int, differs[0])
        raise DataError(
            f"{bars.where(time, symbol)} ({bars.symbols[symbol]}): close is {plain[time, symbol]:g} and adjusted close "
            f"{adjusted[time, symbol]:g} [two_closes]; choose by data.close=adj_close (open, high and low are scaled "
            "alike) or data.close=close"
        )
    blocks = bars.blocks.copy()
    if close == "adj_close":
        with np.errstate(divide="ignore", invalid="ignore"):
            factor = adjusted / plain
        for name in ("open", "high", "low"):
            if name in bars.fields:
                blocks[bars.fields.index(name)] *= factor
        blocks[bars.fields.index("close")] = adjusted
    kept = [place for place, name in enumerate(bars.fields) if name != "adj_close"]
    return replace(bars, fields=tuple(bars.fields[place] for place in kept), blocks=blocks[kept])


def _keep_both(bars: Bars, table: _Table) -> Bars:
    """Bars by the adjusted close, with the close as `close_unadjusted` beside it."""
    raw = bars.blocks[bars.fields.index("close")]
    adjusted = _choose_close(bars, "adj_close", table)
    return _with_unadjusted(adjusted, raw)


def _adjust_forward(bars: Bars, table: _Table) -> Bars:
    """Raw bars with prices adjusted by their dividends and splits, from each symbol's first bar on.

    Forwards, so that no later event changes an earlier price; the raw close stays as `close_unadjusted`.
    """
    events = [name for name in ("dividend", "split") if name in bars.fields]
    if not events:
        raise DataError(
            f"data.close=unadjusted: {table} has neither an adjusted close nor a dividend or split column; give one"
        )
    raw = bars.blocks[bars.fields.index("close")]
    parts = dict(zip(bars.fields, bars.blocks, strict=True))
    factor = np.ones_like(raw)
    for column in range(len(bars.symbols)):
        rows = np.flatnonzero(bars.mask[:, column] & np.isfinite(raw[:, column]))
        closes = raw[rows, column]
        none = np.zeros(len(rows))
        split = np.nan_to_num(parts["split"][rows, column]) if "split" in parts else none
        paid = np.nan_to_num(parts["dividend"][rows, column]) if "dividend" in parts else none
        left = 1.0 - paid[1:] / closes[:-1]
        if (left <= 0).any():
            bad = int((left <= 0).argmax())
            raise DataError(
                f"{bars.where(int(rows[bad + 1]), column)} ({bars.symbols[column]}): a dividend of {paid[bad + 1]:g} "
                f"on a close of {closes[bad]:g} [dividend]; dividends are money a share"
            )
        steps = np.where(split[1:] > 0, split[1:], 1.0) / left
        factor[rows[1:], column] = np.cumprod(steps)
    blocks = bars.blocks.copy()
    for name in ("open", "high", "low", "close"):
        if name in bars.fields:
            blocks[bars.fields.index(name)] *= factor
    return _with_unadjusted(replace(bars, blocks=blocks), raw)


def _with_unadjusted(bars: Bars, raw: Array) -> Bars:
    if "close_unadjusted" in bars.fields:
        raise DataError("data.close=unadjusted: there is a column close_unadjusted already; leave data.close out")
    return replace(bars, fields=(*bars.fields, "close_unadjusted"), blocks=np.concatenate([bars.blocks, raw[None]]))


def recognises_open(name: object) -> bool:
    """Whether a column's name says that it holds the opens of bars; as exchanges' files have it."""
    return str(name).strip().lower().replace(" ", "_") in OPEN_STAMPS


def check_columns(count: int, origin: str) -> None:
    """Refuse a table of more columns than any market has symbols, before they are read one by one."""
    if count > MOST_COLUMNS:
        raise DataError(f"{origin} has {count:,} columns; at most {MOST_COLUMNS:,} are read, so split it")


def _check_size(fields: int, times: int, symbols: int, origin: object) -> None:
    """Refuse bars that would not fit into memory."""
    if symbols > MOST_SYMBOLS or fields * times * symbols > MOST_CELLS:
        raise DataError(
            f"{origin} has {symbols:,} symbols at {times:,} moments, {fields * times * symbols * 8 / 1e9:,.1f} GB of "
            f"bars; give fewer symbols (at most {MOST_SYMBOLS:,}) or a shorter period, or read it in parts (--memory)"
        )


class _Table:
    """Where the rows came from; gathers findings, one for each rule and symbol, with the first row and a count."""

    def __init__(self, origin: str, numbers: Array) -> None:
        self.origin, self.numbers = origin, numbers
        self.problems: list[Finding] = []

    def __str__(self) -> str:
        return self.origin or "the table"

    def report(
        self, rule: str, what: str, rows: Array, remedy: str = "", symbol: str | None = None, when: str | None = None
    ) -> None:
        """Record a finding for the row positions `rows`, if there are any."""
        if len(rows):
            where = f"{self.origin} row {int(self.numbers[rows[0]])}".strip()
            self.problems.append(Finding(rule, what, where, symbol, when, len(rows), remedy=remedy))

    def floats(self, values: pd.Series, field: str, owner: str | Callable[[int], str]) -> Array:
        """A column as float64; a cell that is not a number is reported with its symbol and becomes NaN.

        owner   the symbol of the column, or of each row
        """
        if _is_numeric(values):
            return np.asarray(values.to_numpy(dtype=np.float64, na_value=np.nan))
        text, number, bad = _cells(values)
        if bad.any():
            row = int(bad.argmax())
            symbol = owner if isinstance(owner, str) else owner(row)
            what = f"{field} is '{text.iloc[row][:40]}', not a number"
            self.report("wrong_type", what, np.flatnonzero(bad), _number_remedy(text.iloc[row]), symbol)
        out = np.full(len(text), np.nan)
        out[number] = text[number].to_numpy(dtype=object).astype(np.float64)  # float() itself: no digit is lost
        return out


def _is_numeric(values: pd.Series) -> bool:
    return pd.api.types.is_numeric_dtype(values) and values.dtype.kind in "iuf"


def _cells(values: pd.Series) -> tuple[pd.Series, Array, Array]:
    """A column as text; which cells are numbers; and which are neither numbers nor empty."""
    text = values.astype("str").fillna("").str.strip()
    number = text.str.fullmatch(NUMBER).to_numpy(dtype=bool)
    return text, number, ~number & ~text.str.lower().isin(NO_VALUE).to_numpy(dtype=bool)


def _plain_numbers(values: pd.Series, decimal: Decimal, table: _Table) -> pd.Series:
    """A column whose numbers such as $1,234.50 are written like 1234.50; refuses a number by the other mark."""
    if _is_numeric(values):
        return values
    text = values.astype("str").str.strip()
    is_written = text.str.fullmatch(WRITTEN[decimal])
    other = text.str.fullmatch(NUMBER) & ~is_written
    if decimal == "comma" and other.any():
        row = int(other.to_numpy().argmax())
        where = f"{table} row {int(table.numbers[row])}"
        raise DataError(f"{where}: '{text.iloc[row]}' has no decimal comma; leave out data.decimal=comma")
    mark = "." if decimal == "point" else ","
    plain = text.str.replace(rf"[^0-9{mark}+-]", "", regex=True).str.replace(",", ".", regex=False)
    return plain.where(is_written, values)


def _number_remedy(text: str) -> str:
    """How to write a cell, or which option reads it."""
    marks = [f"data.decimal={mark}" for mark, pattern in WRITTEN.items() if re.fullmatch(pattern, text)]
    return "write it like 1234.5" + (f", or give {' or '.join(marks)}" if marks else "")


def _split_stamps(frame: pd.DataFrame, table: _Table) -> tuple[pd.DataFrame, pd.Series]:
    """The value columns and the raw timestamps: the index when it is one of time, else the first column named so."""
    if isinstance(frame.index, pd.DatetimeIndex):
        return frame, frame.index.to_series()
    named = [place for place, name in enumerate(frame.columns) if _is_stamp(name)]
    if named:
        frame, named = _join_clock(frame, named)
        opens = [place for place in named if recognises_open(frame.columns[place])]
        closes = [place for place in named if place not in opens]
        # Exchanges write both; which bar is known when is what the close says.
        stamp, unused = (closes[0], set(opens)) if len(closes) == 1 else (named[0], set())
        rest = [place for place in range(frame.shape[1]) if place != stamp and place not in unused]
        rest = [place for place in rest if not _is_counter(frame.columns[place], frame.iloc[:, place])]
        return frame.iloc[:, rest], frame.iloc[:, stamp]
    if _is_stamp(frame.index.name):
        return frame, frame.index.to_series()
    has = ", ".join(str(name) or "a column without a name" for name in frame.columns[:6])
    raise DataError(f"{table} has no timestamps: name a column timestamp or date (it has {has})")


def _join_clock(frame: pd.DataFrame, named: list[int]) -> tuple[pd.DataFrame, list[int]]:
    """A date and a time of day in two columns as one stamp; midnights of all rows leave the dates alone."""
    words = {_plain(frame.columns[place]): place for place in named}
    if set(words) != {"date", "time"}:
        return frame, named
    dates, clock = (frame.iloc[:, words[word]].astype("str").str.strip() for word in ("date", "time"))
    if not (clock.str.fullmatch(CLOCK).all() or clock.str.fullmatch(CLOCK_DIGITS).all()):
        return frame, named
    whole = clock.str.replace(r"^([0-9]{1,2}?)([0-9]{2})([0-9]{2})$", r"\1:\2:\3", regex=True)
    whole = whole.str.replace(r"^([0-9]{1,2})([0-9]{2})$", r"\1:\2", regex=True)
    whole = whole.str.replace(r"^([0-9]:)", r"0\1", regex=True)
    days = dates.str.replace(r"^([0-9]{4})([0-9]{2})([0-9]{2})$", r"\1-\2-\3", regex=True)
    stamps = days if whole.str.fullmatch("[0:]+").all() else days + " " + whole
    rest = [place for place in range(frame.shape[1]) if place != words["time"]]
    joined = frame.assign(**{str(frame.columns[words["date"]]): stamps}).iloc[:, rest]
    return joined, [rest.index(words["date"])]


def _is_counter(name: object, values: pd.Series) -> bool:
    """Whether a column without a name counts the rows, as pandas writes an index that was not asked for."""
    if not _is_nameless(name):
        return False
    return values.astype("str").tolist() == [str(row) for row in range(len(values))]


def _is_nameless(name: object) -> bool:
    return not str(name).strip() or str(name).startswith("Unnamed: ")


def _is_stamp(name: object) -> bool:
    if isinstance(name, tuple):  # ("Date", ""), as pandas names a column that was the index
        return not any(name[1:]) and _is_stamp(name[0])
    return recognise(name) == "timestamp"


# ---- layouts ----------------------------------------------------------------------------------------------------


def _read_layout(frame: pd.DataFrame, known: pd.DatetimeIndex, table: _Table, symbol: str) -> Bars:
    """Bars from the value columns of any layout."""
    names = list(frame.columns)
    blank = [place for place, name in enumerate(names) if _is_nameless(name)]
    if blank:
        raise DataError(
            f"{table} has a column without a name (number {blank[0] + 1} after the time); name or delete it"
        )
    if any(isinstance(name, tuple) for name in names):
        return _read_wide(frame.set_axis(range(len(names)), axis=1), _pairs(frame.columns, table), known, table)
    frame = frame.set_axis(range(len(names)), axis=1)  # by place from here on: two columns may have one name
    words = [recognise(name) for name in names]
    if "close" not in words and not {"open", "high", "low"} & set(words):
        words = ["close" if word == "adj_close" else word for word in words]  # the only close there is
    if "close" not in words and {"open", "high", "low"} & set(words):
        words = ["close" if _plain(name) in CLOSES else word for name, word in zip(names, words, strict=True)]
    # A wide table may have a ticker called "SYM": its cells are numbers, names of symbols are not.
    if "symbol" in words and ("close" in words or not _cells(frame[words.index("symbol")])[1].all()):
        return _read_long(frame, words, known, table, names)
    if _is_one_symbol([*map(_plain, names)], words):
        places = _value_columns(frame, words, table)
        cells = [(words[place], symbol) for place in places]
        bars = _read_wide(frame[places].set_axis(range(len(places)), axis=1), cells, known, table)
        return replace(bars, left_out=_text_columns(names, words, places))
    cells = _joined_names(names, table) or [("close", str(name).strip()) for name in names]
    return _read_wide(frame, cells, known, table)


def _joined_names(names: Sequence[object], table: _Table) -> list[tuple[str, str]]:
    """(field, symbol) of columns such as "AAPL Close" and "AAPL Volume"; empty where columns are symbols.

    Refuses a table of which only some are so: a volume would be read as a price.
    """
    words = r"adj[ _]?close|open|high|low|close|volume"
    last = [re.fullmatch(rf"(.+?)[ _.:-]({words})", str(name).strip(), re.IGNORECASE) for name in names]
    first = [re.fullmatch(rf"({words})[ _.:-](.+)", str(name).strip(), re.IGNORECASE) for name in names]
    pairs = [(recognise(m[2]), m[1]) if m else None for m in last]
    if sum(map(bool, first)) > sum(map(bool, last)):
        pairs = [(recognise(m[1]), m[2]) if m else None for m in first]
    if len({pair[0] for pair in pairs if pair}) < 2:  # one word at the end of all names is part of them
        return []
    odd = next((name for name, pair in zip(names, pairs, strict=True) if pair is None), None)
    if odd is not None:
        joined = next(name for name, pair in zip(names, pairs, strict=True) if pair)
        raise DataError(
            f"{table} has columns of a symbol and a field, such as '{joined}', and '{odd}', which names no field; "
            "delete it or name it alike"
        )
    return [pair for pair in pairs if pair]


def _is_one_symbol(plain: list[str], words: list[str]) -> bool:
    """True for one symbol's fields; C, V, O, LOW … among other columns are tickers."""
    # O, H, L and C are tickers too; most columns must be fields of a bar.
    letters = set("ohlc") <= set(plain) and 2 * sum(word in BAR_FIELDS for word in words) > len(words)
    return "close" in plain or "close_price" in plain or sum(name in BAR_FIELDS for name in plain) > 1 or letters


def _pairs(columns: pd.Index, table: _Table) -> list[tuple[str, str]]:
    """(field, symbol) of each column whose name is a pair in either order."""
    pairs = [tuple(str(part).strip() for part in name) for name in columns if isinstance(name, tuple)]
    if len(pairs) < len(columns) or any(len(pair) != 2 or not all(pair) for pair in pairs):
        raise DataError(f"{table} has columns that are not pairs of field and symbol; name each column by both")
    levels = [recognise(name) for name in columns.names]
    first, second = (sum(pair[level].lower() in KNOWN_FIELDS for pair in pairs) for level in (0, 1))
    # yfinance writes (field, ticker), others the reverse: the level with more known fields is the field.
    if levels[0] == "symbol" or (second > first and "symbol" not in levels):
        pairs = [pair[::-1] for pair in pairs]
    return [(recognise(field), symbol) for field, symbol in pairs]


def _value_columns(frame: pd.DataFrame, words: list[str], table: _Table) -> list[int]:
    """Columns that are fields: those of a bar, and others that hold numbers (a company's name is not a field)."""
    if "timestamp" in words:
        raise DataError(f"{table} has more than one time column; keep the one with the time at which a bar is known")
    return [
        place
        for place, word in enumerate(words)
        if word != "symbol" and (word in KNOWN_FIELDS or _holds_numbers(frame[place]))
    ]


def _holds_numbers(values: pd.Series) -> bool:
    """True where cells are mostly numbers, so that one broken cell is refused and does not hide the column."""
    return _is_numeric(values) or bool(2 * _cells(values)[1].sum() > len(values))


def _text_columns(names: Sequence[object], words: list[str], places: list[int]) -> tuple[str, ...]:
    """Names of the columns that hold no numbers."""
    return tuple(str(names[k]).strip() for k, word in enumerate(words) if k not in places and word != "symbol")


def _read_long(
    frame: pd.DataFrame, words: list[str], known: pd.DatetimeIndex, table: _Table, columns: Sequence[object]
) -> Bars:
    owner, names = _owners(frame[words.index("symbol")])
    nameless = np.array([*(not name for name in names), True])[owner]  # place −1 is a missing name
    table.report("symbol", "the symbol is missing", np.flatnonzero(nameless), "name the symbol in each row")
    places = _value_columns(frame, words, table)
    fields = [words[place] for place in places]
    _check_columns([(field, "every symbol") for field in fields], table)
    owner_names = [*names, ""]
    values = [table.floats(frame[place], words[place], lambda row: owner_names[owner[row]]) for place in places]
    row = np.flatnonzero(~nameless & ~np.asarray(known.isna()))
    if len(row) == 0:
        raise DataError(table.problems[0].sentence())
    # In order of appearance, so that a file keeps its own order of symbols.
    codes, owners = pd.factorize(owner[row])
    symbols = tuple(names[place] for place in owners)
    kept = _in_order(known.asi8[row], codes, row, symbols, table)
    row, codes = row[kept], codes[kept]
    stamps, at = _moments(known.asi8[row])
    shape = (len(stamps), len(symbols))
    # Before memory is asked for.
    _check_size(len(fields), *shape, table)
    blocks, mask, rows = np.full((len(fields), *shape), np.nan), np.zeros(shape, bool), np.full(shape, -1)
    cell = at * len(symbols) + codes
    for block, column in zip(blocks, values, strict=True):
        block.reshape(-1)[cell] = column[row]
    mask.reshape(-1)[cell], rows.reshape(-1)[cell] = True, table.numbers[row]
    index = pd.DatetimeIndex(stamps.view("M8[ns]"), tz="UTC")
    origins = (table.origin,) * len(symbols)
    bars = Bars(index, symbols, tuple(fields), blocks, mask, rows, origins, tuple(table.problems))
    return replace(bars, left_out=_text_columns(columns, words, places))


def _owners(column: pd.Series) -> tuple[Array, list[str]]:
    """(row,) places among the names of symbols, −1 for none; texts are made of each name once, not of each row."""
    # Objects may be of any kind, also such as cannot be looked up.
    places, unique = pd.factorize(column.astype("str") if column.dtype == object else column)
    texts = pd.Series(unique).astype("str").fillna("").str.strip()
    again, names = pd.factorize(texts)  # two that differ by outer blanks are one
    return np.append(again, -1)[places], list(map(str, names))


def _moments(stamps: Array) -> tuple[Array, Array]:
    """The different ones of (row,) stamps in order, and the place of each row's among them."""
    steps = np.diff(stamps)
    if (steps < 0).any():
        unique, at = np.unique(stamps, return_inverse=True)
        return unique, at
    # A file that is sorted by time needs no sort.
    begins = np.append(True, steps > 0)
    return stamps[begins], np.cumsum(begins) - 1


def _read_wide(frame: pd.DataFrame, cells: list[tuple[str, str]], known: pd.DatetimeIndex, table: _Table) -> Bars:
    """Bars from one column for each (field, symbol) of `cells`."""
    _check_columns(cells, table)
    fields = {field: place for place, field in enumerate(dict.fromkeys(field for field, _ in cells))}
    symbols = {name: place for place, name in enumerate(dict.fromkeys(name for _, name in cells))}
    row = np.flatnonzero(~np.asarray(known.isna()))
    row = row[_in_order(known.asi8[row], np.zeros(len(row), int), row, ["all symbols"], table)]
    _check_size(len(fields), len(row), len(symbols), table)
    blocks = np.full((len(fields), len(row), len(symbols)), np.nan)
    for place, (field, name) in enumerate(cells):
        blocks[fields[field], :, symbols[name]] = table.floats(frame[place], field, name)[row]
    # A bar counts as observed when any field is there; a missing close is then reported, not hidden.
    mask = ~np.isnan(blocks).all(axis=0)
    rows = np.where(mask, table.numbers[row][:, None], -1)
    origins = (table.origin,) * len(symbols)
    return Bars(known[row], tuple(symbols), tuple(fields), blocks, mask, rows, origins, tuple(table.problems))


def _check_columns(cells: Sequence[tuple[str, str]], table: _Table) -> None:
    """Refuses a table without closes, and two columns for one thing."""
    fields = list(dict.fromkeys(field for field, _ in cells))
    if "close" not in fields:
        has = ", ".join(fields[:6]) or "no number column"
        raise DataError(f"{table} has no close [missing_column]; it has {has}: name the column close")
    twice = next((cell for cell, count in Counter(cells).items() if count > 1), None)
    if twice:
        raise DataError(f"{table} has two columns for {twice[0]} of {twice[1]}; keep one")


def _in_order(stamps: Array, code: Array, row: Array, symbols: Any, table: _Table) -> Array:
    """Positions to keep, each symbol's by time; duplicates (the last stands) and disorder are reported."""
    if _is_by_time(stamps, code):
        return np.arange(len(stamps))
    order = np.argsort(code, kind="stable")  # each symbol's rows as they stand in the file
    same = code[order][1:] == code[order][:-1]
    back = order[1:][same & (np.diff(stamps[order]) < 0)]
    ranked = np.lexsort((row, stamps, code)) if len(back) else order
    again = (np.diff(code[ranked]) == 0) & (np.diff(stamps[ranked]) == 0)
    double = "delete one, or keep the last with data.allow=duplicate"
    for rule, places, what, remedy in (
        ("order", back, "the bar is older than the one before it", "sort the rows, or allow with data.allow=order"),
        ("duplicate", ranked[1:][again], "the bar appears twice", double),
    ):
        for which in np.unique(code[places]):
            mine = np.sort(places[code[places] == which])
            when = pd.Timestamp(stamps[mine[0]], tz="UTC")
            local = rule == "duplicate" and when.hour in (1, 2) and when.month in AUTUMN
            more = "; of local times give data.timezone, e.g. America/New_York" if local else ""
            table.report(rule, what, row[mine], remedy + more, str(symbols[which]), str(when))
    # `again` marks the earlier of two equal stamps: the last in the file stands.
    return np.delete(ranked, np.flatnonzero(again))


def _is_by_time(stamps: Array, code: Array) -> bool:
    """Whether stamps never fall and codes rise within a stamp: nothing is then out of order, or there twice."""
    steps = np.diff(stamps)
    return bool((steps >= 0).all() and (np.diff(code)[steps == 0] > 0).all())
