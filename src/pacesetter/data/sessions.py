"""When the bars of a made-up market open and close: weekday sessions or around the clock, without holidays."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import timedelta

import numpy as np
import pandas as pd

from pacesetter.arrays import Booleans, Dates
from pacesetter.errors import ConfigError
from pacesetter.panel import utc_index

__all__ = ["Sessions"]

CLOSE_AND_HOURS = {"weekdays": (21, 7), "24/7": (24, 24)}  # hour of the close (UTC), hours from open to close
DAY = timedelta(days=1)
FIRST_DATE, LAST_DATE = np.datetime64("1700-01-01"), np.datetime64("2261-12-31")  # what nanoseconds can hold


@dataclass(frozen=True)
class Sessions:
    """Bars of length `freq` from the date `start` on; refuses a length that does not divide the session."""

    freq: str
    calendar: str
    start: str

    def __post_init__(self) -> None:
        hours = CLOSE_AND_HOURS[self.calendar][1]
        try:
            step = pd.Timedelta(self.freq)
            fits = step == DAY or (step > pd.Timedelta(0) and pd.Timedelta(hours=hours) % step == pd.Timedelta(0))
        except ValueError:
            fits = False
        if not fits:
            raise ConfigError(
                f"data.freq='{self.freq}' must be 1D, or divide a session of {hours} hours like 1h or 30min"
            )

    @property
    def bars_per_day(self) -> int:
        step = pd.Timedelta(self.freq)
        return 1 if step == DAY else pd.Timedelta(hours=CLOSE_AND_HOURS[self.calendar][1]) // step

    @property
    def bars_per_year(self) -> float:
        return 365.25 * (1 if self.calendar == "24/7" else 5 / 7) * self.bars_per_day

    def opens(self, bars: int) -> Booleans:
        """(bars,) True where a bar is the first after a time without trading."""
        # Around the clock there is no time without trading, hence no opening gap.
        first: Booleans = np.arange(bars) % self.bars_per_day == 0
        return first & (self.calendar != "24/7")

    def closes(self, bars: int) -> pd.DatetimeIndex:
        """(bars,) moments at which the bars close."""
        dates = self._dates(bars).astype("datetime64[ns]")
        close = pd.Timedelta(hours=CLOSE_AND_HOURS[self.calendar][0]).to_timedelta64()
        before_close = np.arange(self.bars_per_day)[::-1] * pd.Timedelta(self.freq).to_timedelta64()
        return utc_index(((dates + close)[:, None] - before_close).ravel()[:bars])

    def _dates(self, bars: int) -> Dates:
        """Dates of the sessions that hold this number of bars."""
        numbers = np.arange(math.ceil(bars / self.bars_per_day))
        try:
            first = np.datetime64(self.start, "D")
            dates = first + numbers if self.calendar == "24/7" else np.busday_offset(first, numbers, roll="forward")
        except ValueError as problem:
            raise ConfigError(f"data.start='{self.start}' is not a date; write it like 2000-01-03") from problem
        if dates[0] < FIRST_DATE or dates[-1] > LAST_DATE:
            raise ConfigError(f"data.bars={bars} reach from {dates[0]} to {dates[-1]}; stay within 1700 … 2261")
        return dates
