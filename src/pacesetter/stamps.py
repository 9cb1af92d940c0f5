"""Time stamps as files and frames write them → the UTC moments at which bars are known; none is guessed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from itertools import islice
from typing import Any, Literal, Protocol
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd

from pacesetter.arrays import Array
from pacesetter.errors import ConfigError, DataError

__all__ = ["StampReader", "bars_per_day", "day_of", "end_of_day", "moment_of", "utc_index"]

DAY, HOUR = timedelta(days=1), timedelta(hours=1)
FIRST_YEAR, LAST_YEAR = 1700, 2260  # what nanoseconds can hold, and a bar more
LONGEST_BAR = timedelta(days=366)
DATE, CLOCK, ZONE = (
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}",
    r"[0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,9})?)?",
    r"Z|[+-][0-9]{2}(?::?[0-9]{2})?",
)
ISO = rf"^(?P<date>{DATE})(?:[T ](?P<clock>{CLOCK})\s?(?P<zone>{ZONE})?)?$"
EPOCHS = (("s", 1e8), ("ms", 1e11), ("us", 1e14), ("ns", 1e17))  # each from 1973 on; smaller numbers are not timestamps
REMEDY = "write it like 2016-12-30T21:00:00Z, or give data.date_format, e.g. %d/%m/%Y or %m/%d/%Y %H:%M"
# as spreadsheets, brokers and web pages write days and times of day
DAYS: tuple[str, ...] = ("%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y", "%d-%m-%Y", "%m-%d-%Y", "%d/%m/%y", "%m/%d/%y", "%d.%m.%y")
DAYS += ("%d-%m-%y", "%m-%d-%y", "%d-%b-%Y", "%d-%b-%y", "%d %b %Y", "%b %d, %Y", "%d %B %Y", "%B %d, %Y")
MOST_COMPARED = 10_000  # stamps that are looked at to tell the day from the month
CLOCKS = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p")
FIRST_DATE, LAST_DATE = 19_000_101, 22_001_231  # dates as numbers: 20161230


class Report(Protocol):
    """Files a finding for some row positions."""

    def __call__(self, rule: str, what: str, rows: Array, remedy: str = "") -> None: ...


def utc_index(stamps: Any) -> pd.DatetimeIndex:
    """Time stamps as UTC nanoseconds; naive ones are taken as UTC. Bare dates stay at midnight."""
    index = pd.DatetimeIndex(stamps)
    index = index.tz_localize("UTC") if index.tz is None else index.tz_convert("UTC")
    return index.as_unit("ns").rename(None)


def end_of_day(dates: pd.DatetimeIndex) -> pd.DatetimeIndex:
    """Bare dates moved to the last second of their UTC day, when a daily bar is known without a calendar."""
    return utc_index(dates) + pd.Timedelta(hours=23, minutes=59, seconds=59)


def day_of(index: pd.DatetimeIndex) -> Array:
    """(time,) number of the UTC day that each moment ends or lies in: midnight belongs to the day that it closes."""
    moments: Array = index.as_unit("ns").asi8
    return (moments - 1) // pd.Timedelta(DAY).value


def bars_per_day(index: pd.DatetimeIndex) -> int:
    """Bars of a usual day, at least 1: a median, which holidays and unfinished days leave alone."""
    if not len(index):
        raise DataError("no bars have no bars a day; load more")
    _, counts = np.unique(day_of(index), return_counts=True)
    return max(int(np.median(counts)), 1)


def moment_of(stamp: Any, last: bool = False) -> pd.Timestamp:
    """A moment in UTC; a day, month or year means its start, or its end with `last`."""
    try:
        moment = pd.Timestamp(stamp)
        if pd.isna(moment):
            raise ValueError("no moment")
        span = _span(stamp) if isinstance(stamp, str) else "D" if moment == moment.normalize() else None
        if span and last and moment.tzinfo is None:
            moment = (moment.to_period(span) + 1).start_time.as_unit("ns") - pd.Timedelta(1, unit="ns")
        return utc_index([moment])[0]
    except (ValueError, TypeError) as problem:
        raise ConfigError(f"{stamp!r} is not a date or time; write 2016-12-30 or 2016-12-30T21:00Z") from problem


def _span(text: str) -> str | None:
    """What a text without a time of day names: a year, a month or a day."""
    spans = {r"\d{4}": "Y", r"\d{4}-\d{2}": "M", r"[^:T]+": "D"}
    return next((span for pattern, span in spans.items() if re.fullmatch(pattern, text.strip())), None)


@dataclass(frozen=True)
class StampReader:
    """How to read one column of stamps; what cannot be read goes to `report`.

    stamp     whether stamps are the opens or the closes of bars; opens move to the close by the length of a `bar`
    timezone  of stamps without an offset, UTC by default
    close_of  dates → moments at which their bars are known, by default the end of the day. Stamps are dates when all
              are midnights without an offset; with `close_of`, midnights with an offset are dates too
    date_format   of texts that are not ISO, e.g. %d/%m/%Y
    zone_of   moments → the exchange's time zone; with `close_of`, midnights there are dates too
    """

    report: Report
    origin: str = "the table"
    stamp: Literal["close", "open"] = "close"
    bar: str | None = None
    timezone: str | None = None
    close_of: Callable[[pd.DatetimeIndex], pd.DatetimeIndex] | None = None
    date_format: str | None = None
    zone_of: Callable[[pd.DatetimeIndex], str] | None = None

    def known_times(self, raw: pd.Series) -> pd.DatetimeIndex:
        """(row,) UTC moments at which bars are known, NaT where the stamp is unusable; refuses if all are."""
        place, unique = pd.factorize(raw)  # a long table repeats each stamp for every symbol
        self.report("timestamp", "the timestamp is missing", np.flatnonzero(place < 0), "give each row its time")
        if len(unique) == 0:
            raise DataError(f"{self.origin} has no timestamp in any row; fill the time column")

        def report(rule: str, what: str, rows: Array, remedy: str = "") -> None:
            self.report(rule, what, np.flatnonzero(np.isin(place, rows)), remedy)

        parsed = _Parser(report, self._zone, self._may_be_dates, self.date_format).parse(pd.Series(unique))
        if parsed.isna().all():
            raise DataError(f"{self.origin} has no readable timestamp, e.g. '{unique[0]}'; {_remedy(unique)}")
        moments = pd.DatetimeIndex(self._moments(parsed).append(_nothing(1))[place])  # place −1 is a missing stamp
        is_naive = getattr(raw.dtype, "tz", None) is None and str(parsed.tz) == self._zone
        return moments.where(~_is_first_of_two(parsed, place), moments - HOUR) if is_naive else moments

    @property
    def _may_be_dates(self) -> bool:
        return self._length is None or self._length >= DAY

    @cached_property
    def _zone(self) -> str:
        try:
            ZoneInfo(self.timezone or "UTC")
        except (KeyError, ValueError, OSError) as problem:
            raise ConfigError(f"data.timezone='{self.timezone}' is unknown; write it like Europe/London") from problem
        return self.timezone or "UTC"

    @cached_property
    def _length(self) -> pd.Timedelta | None:
        try:
            length = None if self.bar is None else pd.Timedelta(self.bar)
        except ValueError as problem:
            raise ConfigError(f"data.bar='{self.bar}' is not a length of time; write it like 1h or 30min") from problem
        if length is not None and not pd.Timedelta(0) < length <= LONGEST_BAR:
            raise ConfigError(f"data.bar='{self.bar}' must be above zero and at most a year")
        return length

    def _moments(self, index: pd.DatetimeIndex) -> pd.DatetimeIndex:
        """Parsed stamps, naive only when they are dates, as the moments at which their bars are known."""
        if index.tz is None:
            return self._ends_of(index)
        moments = utc_index(index)
        if self._may_be_dates and self.close_of is not None:
            # Yahoo and others write a daily bar as the exchange's own midnight: 05:00 UTC in winter, 04:00 in summer.
            for zone in (self._zone, *(() if self.zone_of is None else (self.zone_of(moments.dropna()),))):
                local = index.tz_convert(zone).tz_localize(None)
                if _all_midnight(local):
                    return self._ends_of(local)
        return moments + self._bar_length(moments) if self.stamp == "open" else moments

    def _ends_of(self, days: pd.DatetimeIndex) -> pd.DatetimeIndex:
        is_known = ~np.asarray(days.isna())
        if self.stamp == "open" and self._length_of(days[is_known]) > DAY:
            raise DataError(f"{self.origin}: dates are the opens of bars longer than a day; give the dates they close")
        out = np.full(len(days), np.iinfo(np.int64).min)
        out[is_known] = (self.close_of or end_of_day)(days[is_known]).asi8
        return utc_index(out.view("M8[ns]"))

    def _length_of(self, days: pd.DatetimeIndex) -> pd.Timedelta:
        steps = np.diff(np.unique(days.asi8))
        return self._length or pd.Timedelta(int(steps.min()) if len(steps) else 0, unit="ns")

    def _bar_length(self, moments: pd.DatetimeIndex) -> pd.Timedelta:
        """The length as said, or the step that most stamps are apart; refuses shorter steps, known too early."""
        if self._length is not None:
            return self._length
        steps, counts = np.unique(np.diff(np.unique(moments.dropna().asi8)), return_counts=True)
        if len(steps) == 0 or 2 * counts[0] <= counts.sum() or steps[0] > pd.Timedelta(LONGEST_BAR).value:
            raise DataError(
                f"{self.origin}: bars stamped at their opens have no common length; give it, e.g. data.bar=1h"
            )
        return pd.Timedelta(int(steps[0]), unit="ns")


@dataclass(frozen=True)
class _Parser:
    """Distinct raw stamps → nanoseconds, naive only when all are dates; NaT where unusable (reported)."""

    report: Report
    zone: str
    may_be_dates: bool
    date_format: str | None = None

    def parse(self, raw: pd.Series) -> pd.DatetimeIndex:
        if pd.api.types.is_datetime64_any_dtype(raw):
            return self._localise(pd.DatetimeIndex(raw))
        if pd.api.types.is_numeric_dtype(raw):
            return self._numbers(raw)
        text = raw.astype(str).str.strip()
        if self.date_format is not None:
            return self._parse_formatted(text, self.date_format)
        if text.str.fullmatch(r"[0-9]+(\.[0-9]*)?").all():
            return self._numbers(pd.to_numeric(text))
        # The year first, then any mark: only one reading of it is in use.
        return self._text(text.str.replace(r"^(\d{4})[./](\d{2})[./](\d{2})", r"\1-\2-\3", regex=True))

    def _numbers(self, values: pd.Series) -> pd.DatetimeIndex:
        """Epochs in one unit, or dates as numbers like 20161230."""
        if bool(values.between(FIRST_DATE, LAST_DATE).all()) and bool((values % 1 == 0).all()):
            text = values.astype("int64").astype(str)
            return self._text(text.str.replace(r"^(\d{4})(\d{2})(\d{2})$", r"\1-\2-\3", regex=True))
        kind = np.digitize(values.to_numpy(np.float64), [least for _, least in EPOCHS])
        unit = np.bincount(kind[kind > 0]).argmax() if (kind > 0).any() else 0
        bad = (kind != unit) | (kind == 0) | values.isna().to_numpy()
        if bad.any():
            what = f"{values.iloc[int(bad.argmax())]} is not a timestamp{f' in {EPOCHS[unit - 1][0]}' * bool(unit)}"
            self.report("timestamp", what, np.flatnonzero(bad), "give dates, or epochs in one unit")
        if unit == 0:
            return _nothing(len(values))
        name = EPOCHS[unit - 1][0]
        whole = pd.to_datetime(values.where(~bad), unit=name, utc=True, errors="coerce")  # type: ignore[call-overload]
        return self._in_range(pd.DatetimeIndex(whole))

    def _parse_formatted(self, text: pd.Series, date_format: str) -> pd.DatetimeIndex:
        """Texts in the user's own format."""
        try:
            parsed = pd.to_datetime(text, format=date_format, errors="coerce", utc="%z" in date_format)
        except ValueError as problem:
            raise ConfigError(f"data.date_format='{date_format}' is not a format such as %d/%m/%Y: {problem}") from None
        bad = parsed.isna().to_numpy()
        if bad.any():
            what = f"'{text.iloc[int(bad.argmax())][:40]}' is not a timestamp of data.date_format={date_format}"
            self.report("timestamp", what, np.flatnonzero(bad), "correct the format or the row")
        return self._localise(pd.DatetimeIndex(parsed))

    def _text(self, text: pd.Series) -> pd.DatetimeIndex:
        parts = text.str.extract(ISO)
        parsed = pd.to_datetime(text.where(parts["date"].notna()), format="ISO8601", errors="coerce", utc=True)
        bad = parsed.isna().to_numpy()
        if bad.any():
            what = f"'{text[bad].iloc[0][:40]}' is not an ISO timestamp"
            self.report("timestamp", what, np.flatnonzero(bad), _remedy(text[bad]))
        self._check_alike(parts[~bad])
        index = pd.DatetimeIndex(parsed)
        return self._localise(index.tz_localize(None) if parts["zone"].isna().all() else index)

    def _check_alike(self, parts: pd.DataFrame) -> None:
        """Bare dates among times and stamps without an offset among others could mean anything; offsets may differ."""
        for part, what in (("clock", "a date and a time of day"), ("zone", "a time zone")):
            has = parts[part].notna()
            odd = parts.index[has != has.mode().any()] if len(has) else parts.index
            if len(odd):
                remedy = "write all timestamps in one format"
                self.report("timestamp", f"only some timestamps have {what}", odd.to_numpy(), remedy)
        zones = parts["zone"].dropna().str.replace(":", "").str.replace(r"^(Z|[+-]0000|[+-]00)$", "UTC", regex=True)
        odd = zones.index[zones != zones.iloc[0]] if len(zones) else zones.index
        if len(odd) and not _is_daylight_saving(zones.unique()):
            what = f"time zone {zones[odd[0]]} after {zones.iloc[0]}"
            remedy = "use one time zone, or allow with data.allow=time_zone"
            self.report("time_zone", what, odd.to_numpy(), remedy)

    def _in_range(self, index: pd.DatetimeIndex) -> pd.DatetimeIndex:
        out = np.flatnonzero((index.year < FIRST_YEAR) | (index.year > LAST_YEAR))
        if len(out):
            what = f"{index[out[0]]} is outside {FIRST_YEAR} … {LAST_YEAR}"
            self.report("timestamp", what, out, "correct the year")
        inside = ~np.isin(np.arange(len(index)), out)
        return pd.DatetimeIndex(index.where(inside)).as_unit("ns")

    def _localise(self, index: pd.DatetimeIndex) -> pd.DatetimeIndex:
        """Naive times placed in the zone; one that happens twice or never there is reported. Dates stay naive."""
        index = self._in_range(index)
        if index.tz is not None or (self.may_be_dates and _all_midnight(index)):
            return index
        # A naive hour that happens twice is the later one, winter time: nothing is known earlier than it was. One that
        # the clocks skip was written by somebody who did not change them.
        winter = np.zeros(len(index), bool)
        return index.tz_localize(self.zone, ambiguous=winter, nonexistent=pd.Timedelta(hours=1))


def _remedy(stamps: Iterable[object]) -> str:
    """What to do about stamps that are not understood: the formats that they have, where they have a known one."""
    texts = [str(stamp).strip() for stamp in islice(stamps, MOST_COMPARED)]
    if re.fullmatch(r"[2-6][0-9]{4}(\.[0-9]+)?", texts[0]):
        return "Excel counts days so: format the column as a date and save the file again"
    fitting = [day + clock for day in DAYS for clock in CLOCKS if _has_format(texts[0], day + clock)]
    if len(fitting) > 1:  # a later stamp may say which number is the day
        fitting = [name for name in fitting if all(_has_format(text, name) for text in texts)] or fitting
    return f"give {' or '.join(map(_as_override, fitting))}" if fitting else REMEDY


def _as_override(date_format: str) -> str:
    """A format as a shell and the command line take it: a comma would make several values of it."""
    return f"\"data.date_format='{date_format}'\"" if "," in date_format else f"'data.date_format={date_format}'"


def _has_format(text: str, date_format: str) -> bool:
    try:
        datetime.strptime(text, date_format)
    except ValueError:
        return False
    return True


def _is_first_of_two(parsed: pd.DatetimeIndex, place: Array) -> Array:
    """(row,) whether a local hour is the first of the two that autumn has, where the table has both in turn.

    Only where no other stamp repeats: in a long table every stamp does, once for each symbol.
    """
    repeats = pd.Series(place).duplicated(keep="last").to_numpy() & (place >= 0)
    happens_twice = np.asarray((parsed - HOUR).tz_localize(None) == parsed.tz_localize(None))
    return repeats if happens_twice[place[repeats]].all() else np.zeros(len(place), bool)


def _nothing(length: int) -> pd.DatetimeIndex:
    return pd.DatetimeIndex(np.full(length, "NaT", "M8[ns]"), tz="UTC")


def _is_daylight_saving(zones: Iterable[str]) -> bool:
    """Whether offsets such as -0500 and -0400 are the winter and summer of one zone: two, an hour apart."""
    minutes = sorted(0 if zone == "UTC" else _offset_minutes(zone) for zone in zones)
    return len(minutes) == 2 and minutes[1] - minutes[0] == 60


def _offset_minutes(zone: str) -> int:
    """+0530 → 330."""
    return (-1 if zone[0] == "-" else 1) * (60 * int(zone[1:3]) + int(zone[3:5] or 0))


def _all_midnight(index: pd.DatetimeIndex) -> bool:
    known = index.dropna()
    return bool((known == known.normalize()).all())
