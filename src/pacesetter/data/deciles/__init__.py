"""`data=deciles`: closes made of the daily returns of ten portfolios by company size, size01 smallest, size10 largest.

Large companies lead small ones (Lo and MacKinlay 1990): strongly until about 1995, and no longer since 2009.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import numpy as np
import pandas as pd

from pacesetter.errors import DataError
from pacesetter.panel import Panel, utc_index

__all__ = ["FILE", "LICENCE", "NOT_SECURITIES", "PORTFOLIOS", "Deciles", "has_deciles"]

FILE = Path(__file__).with_name("size_deciles_daily_1926_2025.parquet")
PORTFOLIOS = tuple(f"size{number:02d}" for number in range(1, 11))
PER_UNIT = 10_000  # the file holds hundredths of a percent
BASE = 100.0
NEW_YORK, LATEST_CLOSE = "America/New_York", timedelta(hours=16)

NOT_SECURITIES = (
    "deciles: the ten portfolios are not securities and cannot be bought at these prices; money shown on them measures "
    "what a method detects, not what it would earn"
)
LICENCE = (
    "deciles: returns from Kenneth R. French's data library (© Eugene F. Fama and Kenneth R. French), for research "
    "with citation, not covered by Pacesetter's MIT licence; see pacesetter/data/deciles/NOTICE.txt"
)


@dataclass(frozen=True)
class Deciles:
    """Daily closes of ten US portfolios by company size, 1926–2025; all of them unless some are chosen."""

    symbols: tuple[str, ...] = ()

    def read(self) -> Panel:
        """The portfolios, or the chosen ones in the given order; refuses where the file was removed.

        The first bar holds the first day's return on a base of 100. The sessions of 1926 to 1952 include Saturdays that
        no calendar records, hence no calendar; a bar counts as known at 16:00 in New York, never before its close.
        """
        if not has_deciles():
            raise DataError(f"{FILE.name} is not in this installation; use data=synthetic, or reinstall pacesetter")
        returns = pd.read_parquet(FILE)
        days = pd.DatetimeIndex(pd.to_datetime(returns["date"]))
        # The file has returns only; a price level is needed by everything that reads panels.
        closes = BASE * np.cumprod(1 + returns[list(PORTFOLIOS)].to_numpy(np.float64) / PER_UNIT, axis=0)
        known = utc_index((days + LATEST_CLOSE).tz_localize(NEW_YORK))
        panel = Panel.from_fields(known, PORTFOLIOS, {"close": closes}, notes=(NOT_SECURITIES, LICENCE))
        return panel.select(self.symbols) if self.symbols else panel


def has_deciles() -> bool:
    """Whether the file is there: it may be removed, since its licence is not ours."""
    return FILE.is_file()
