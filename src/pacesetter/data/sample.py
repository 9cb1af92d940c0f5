"""The embedded sample: daily closes of 20 US stocks, 1990–2022, as bundled with skfolio."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pandas as pd

from pacesetter.data.calendars import session_closes
from pacesetter.errors import DataError
from pacesetter.panel import Panel

__all__ = ["Sample"]

CALENDAR = "XNYS"
SURVIVORSHIP = (
    "sample: the 20 stocks were members of the S&P 500 at the end of the period and are used throughout, "
    "so returns are better than an investor of 1990 could expect (survivorship)"
)


@dataclass(frozen=True)
class Sample:
    """Adjusted closes, known at New York's session close; all symbols unless some are chosen."""

    symbols: tuple[str, ...] = ()

    def read(self) -> Panel:
        """The sample, or the chosen symbols in the order asked for; refuses symbols it does not hold."""
        closes = pd.read_csv(_file(), index_col="Date", parse_dates=True)
        index = session_closes(pd.DatetimeIndex(closes.index), CALENDAR)
        panel = Panel.from_fields(
            index, list(closes.columns), {"close": closes.to_numpy()}, calendar=CALENDAR, notes=(SURVIVORSHIP,)
        )
        return panel.select(self.symbols) if self.symbols else panel


def _file() -> Path:
    """skfolio's data file, found without importing skfolio, which takes over a second."""
    package = find_spec("skfolio")
    if package is None or package.origin is None:
        raise DataError("the sample is bundled with skfolio, which is not installed; run pip install skfolio")
    file = Path(package.origin).parent / "datasets" / "data" / "sp500_dataset.csv.gz"
    if not file.is_file():
        raise DataError(f"{file} is missing; reinstall skfolio, which bundles the sample")
    return file
