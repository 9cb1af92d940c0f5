"""How a table of bars is read, the same whether it stands in a file or in a DataFrame."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import Annotated, Literal

import pandas as pd

from pacesetter.arrays import Array
from pacesetter.data.calendars import infer_calendar, session_closes, session_zone
from pacesetter.errors import DataError, did_you_mean
from pacesetter.frames import Bars, Close, Decimal, read_frame

__all__ = ["TableOptions"]


@dataclass(frozen=True)
class TableOptions:
    """Options of a table of bars."""

    _: KW_ONLY
    symbols: Annotated[tuple[str, ...], "keep only these, in this order"] = ()
    calendar: Annotated[
        str | None,
        "exchange calendar: a bar stamped with a date (all are midnights, in UTC, in `timezone` or at the "
        "exchange) is known at its session's close. `auto` takes 24/7 where weekends have their share of bars and "
        "XNYS otherwise; none leaves a date at the end of its day",
    ] = None
    stamp: Annotated[
        Literal["auto", "close", "open"],
        "whether timestamps are the opens or the closes of bars; auto: opens in a column named so",
    ] = "auto"
    bar: Annotated[str | None, "length of a bar stamped at its open, e.g. 1h; found from the data when left out"] = None
    timezone: Annotated[str | None, "of stamps without an offset (UTC by default)"] = None
    date_format: Annotated[str | None, "of stamps that are not ISO, e.g. %d/%m/%Y"] = None
    close: Annotated[
        Close,
        "where an adjusted close stands beside the close, which is meant: close or adj_close",
    ] = "auto"
    decimal: Annotated[
        Decimal | None,
        "of numbers that are not like 1234.5: point for $1,234.50, comma for 1.234,50",
    ] = None

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
