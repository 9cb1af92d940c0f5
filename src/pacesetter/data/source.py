"""The registry of sources: a frozen dataclass whose fields are options, with `read()`."""

from __future__ import annotations

from typing import Protocol

from pacesetter.frames import Bars
from pacesetter.panel import Panel
from pacesetter.registry import Registry

__all__ = ["SOURCES", "Source"]


class Source(Protocol):
    """Where bars come from. `read` gives a Panel, or raw Bars with their problems and file rows still attached."""

    def read(self) -> Panel | Bars: ...


SOURCES: Registry[type[Source]] = Registry(
    "source",
    entries={
        "sample": "pacesetter.data.sample:Sample",
        "synthetic": "pacesetter.data.synthetic:Synthetic",
        "deciles": "pacesetter.data.deciles:Deciles",
        "markets": "pacesetter.data.markets:Markets",
        "csv": "pacesetter.data.files.text:CsvFiles",
        "parquet": "pacesetter.data.files.parquet:ParquetFiles",
        "yahoo": "pacesetter.data.online:Yahoo",
        "alpaca": "pacesetter.data.online:Alpaca",
        "ccxt": "pacesetter.data.online:Ccxt",
    },
)
