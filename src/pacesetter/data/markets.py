"""`data=markets`: daily bars of several exchanges, each known at its own close, seen from the closes of one of them.

Tokyo closes at 06:00 UTC (06:30 since November 2024), New York at 20:00 or 21:00. One timestamp a day for both would
hide who could know what. Here each bar is stamped when its exchange closed; then, at every close of the deciding
exchange, each symbol has the last bar known by that moment. With `decide=XNYS` a decision is made after New York's
close, and the open of the next bar of a Tokyo symbol, at which an order fills, is Tokyo's open a few hours later.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd

from pacesetter.data.calendars import session_closes
from pacesetter.data.online import Yahoo
from pacesetter.errors import ConfigError, DataError
from pacesetter.frames import read_frame
from pacesetter.panel import Panel

__all__ = ["AS_OF", "CALENDARS", "Markets", "exchange_of"]

AS_OF = "markets: at each close of"  # how the note begins that tells a reader of panels that bars are stamped
FIELDS = ["open", "high", "low", "close", "volume"]
# Yahoo's suffixes of the exchanges whose calendars are known
CALENDARS = {"": "XNYS", "T": "XTKS", "L": "XLON", "HK": "XHKG", "DE": "XETR", "PA": "XPAR", "AX": "XASX", "TO": "XTSE"}


@dataclass(frozen=True)
class Markets:
    """Daily bars of exchanges in several time zones, each known at its own close."""

    path: Annotated[
        str | None,
        "Parquet or CSV file of date, symbol, market (XNYS, XTKS …), open, high, low, close, volume; None asks Yahoo",
    ] = None
    symbols: Annotated[
        tuple[str, ...],
        "keep only these, in this order; of Yahoo, the exchange follows from the suffix (.T is Tokyo)",
    ] = ()
    decide: Annotated[
        str,
        "exchange after whose close decisions are made: its closes are the moments of the bars",
    ] = "XNYS"
    start: Annotated[str, "of Yahoo: first day"] = "2019-01-01"
    end: Annotated[str | None, "of Yahoo: last day"] = None
    cache: Annotated[str, "of Yahoo: folder of downloads"] = "data_cache"

    def read(self) -> Panel:
        """All symbols at the closes of `decide`; a bar that is not new at such a moment is not observed there."""
        parts = dict(self._from_file(Path(self.path)) if self.path is not None else self._from_yahoo())
        if self.decide not in parts:
            raise DataError(
                f"data.decide={self.decide} has no bars here; the exchanges are {', '.join(parts)}, choose one"
            )
        closes = parts[self.decide].index
        whole = Panel.concat([part.align(closes, latest=True) for part in parts.values()], axis="symbol")
        note = f"{AS_OF} {self.decide}, each symbol has the last bar that its own exchange had closed by then"
        chosen = whole.select(self.symbols) if self.symbols else whole
        return chosen.noting(note)

    def _from_file(self, path: Path) -> Iterator[tuple[str, Panel]]:
        if not path.is_file():
            raise DataError(f"{path} is not a file; give data.path= a Parquet or CSV file of all markets")
        table = pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path)
        if "market" not in table:
            raise DataError(
                f"{path.name} has no column 'market' (XNYS, XTKS …), without which it is unclear when a bar was known"
            )
        for market, rows in table.groupby("market", sort=False):
            yield str(market), _stamp_closes(rows.drop(columns="market"), str(market), path.name)

    def _from_yahoo(self) -> Iterator[tuple[str, Panel]]:
        if not self.symbols:
            raise ConfigError("data=markets needs data.path= or data.symbols=[…], e.g. [XLK,1617.T]")
        by_market: dict[str, list[str]] = {}
        for symbol in self.symbols:
            by_market.setdefault(exchange_of(symbol), []).append(symbol)
        for market, symbols in by_market.items():
            source = Yahoo(tuple(symbols), self.start, self.end, cache=self.cache, calendar=market)
            yield market, source.read().panel()


def exchange_of(symbol: str) -> str:
    """The calendar of a symbol's exchange by Yahoo's suffix; refuses one that is not known."""
    suffix = symbol.rpartition(".")[2] if "." in symbol else ""
    if suffix not in CALENDARS:
        raise ConfigError(f"the exchange of {symbol} is unknown; use suffixes {', '.join(filter(None, CALENDARS))}")
    return CALENDARS[suffix]


def _stamp_closes(rows: pd.DataFrame, market: str, origin: str) -> Panel:
    """The bars of one exchange, each known at its session's close."""
    kept = ["date", "symbol", *(field for field in FIELDS if field in rows)]
    missing = [name for name in ("date", "symbol", "close") if name not in rows]
    if missing:
        raise DataError(f"{origin} has no column '{missing[0]}'; it takes date, symbol, market and {', '.join(FIELDS)}")
    bars = read_frame(rows[kept], origin=origin, close_of=partial(session_closes, calendar=market))
    panel = bars.panel(calendar=market)
    return _without_broken(panel)


def _without_broken(panel: Panel) -> Panel:
    """A bar without a positive close was not observed: funds that hardly trade have such rows."""
    with np.errstate(invalid="ignore"):
        good = panel.mask & (panel.close > 0)
    if good.all():
        return panel
    blocks = np.where(good[None], panel.blocks, np.nan)
    return Panel(panel.index, panel.symbols, panel.fields, blocks, good, calendar=panel.calendar, notes=panel.notes)
