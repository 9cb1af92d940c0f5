"""How a table of bars is read, the same whether it stands in a file or in a DataFrame."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import Literal

import pandas as pd

from pacesetter.arrays import Array
from pacesetter.data.calendars import infer_calendar, session_closes, session_zone
from pacesetter.errors import DataError, did_you_mean
from pacesetter.frames import Bars, Close, Decimal, read_frame

__all__ = ["TableOptions"]


@dataclass(frozen=True)
class TableOptions:
    """Options of a table of bars.

    symbols      keep only these, in this order
    calendar     exchange calendar: a bar stamped with a date (all are midnights, in UTC, in `timezone` or at the
                 exchange) is known at its session's close. `auto` takes 24/7 where weekends have their share of bars
                 and XNYS otherwise; none leaves a date at the end of its day
    stamp        whether timestamps are the opens or the closes of bars; auto: opens in a column named so
    bar          length of a bar stamped at its open, e.g. 1h; found from the data when left out
    timezone     of stamps without an offset (UTC by default)
    date_format  of stamps that are not ISO, e.g. %d/%m/%Y
    close        where an adjusted close stands beside the close, which is meant: close or adj_close
    decimal      of numbers that are not like 1234.5: point for $1,234.50, comma for 1.234,50
    """

    _: KW_ONLY
    symbols: tuple[str, ...] = ()
    calendar: str | None = None
    stamp: Literal["auto", "close", "open"] = "auto"
    bar: str | None = None
    timezone: str | None = None
    date_format: str | None = None
    close: Close = "auto"
    decimal: Decimal | None = None

    def read_table(
        self, frame: pd.DataFrame, symbol: str = "asset", origin: str = "", numbers: Array | None = None
    ) -> Bars:
        """The table as bars; `symbol` names a single asset, `numbers` (row,) are those named in findings."""
        calendar: list[str] = []

        def close_of(dates: pd.DatetimeIndex) -> pd.DatetimeIndex:
            # Remembered, because the calendar inferred from dates is the one the panel must carry.
            calendar.append(self._calendar_of(dates))
            return session_closes(dates, calendar[0])

        has_sessions = self.calendar is not None
        bars = read_frame(
            frame,
            symbol=symbol,
            origin=origin,
            numbers=numbers,
            stamp=self.stamp,
            bar=self.bar,
            timezone=self.timezone,
            close_of=close_of if has_sessions else None,
            date_format=self.date_format,
            zone_of=(lambda moments: session_zone(self._calendar_of(moments))) if has_sessions else None,
            close=self.close,
            decimal=self.decimal,
        )
        if not has_sessions:
            return bars
        return replace(bars, calendar=calendar[0] if calendar else self._calendar_of(bars.index))

    def _calendar_of(self, moments: pd.DatetimeIndex) -> str:
        return infer_calendar(moments) if self.calendar in ("auto", None) else str(self.calendar)

    def select_symbols(self, bars: Bars, origin: str) -> Bars:
        """The bars of `symbols` alone, in their order; refuses one that is not there."""
        if not self.symbols:
            return bars
        places = {name: column for column, name in enumerate(bars.symbols)}
        missing = [name for name in self.symbols if name not in places]
        if missing:
            raise DataError(f"{origin} has no symbol '{missing[0]}'{did_you_mean(missing[0], places)}")
        columns = [places[name] for name in self.symbols]
        # Problems of symbols that were not asked for must not refuse the load.
        kept = tuple(p for p in bars.problems if p.symbol in (None, "all symbols", *self.symbols))
        return replace(
            bars,
            symbols=self.symbols,
            blocks=bars.blocks[:, :, columns],
            mask=bars.mask[:, columns],
            rows=bars.rows[:, columns],
            origins=tuple(bars.origins[column] for column in columns),
            problems=kept,
        )
