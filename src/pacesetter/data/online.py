"""Sources on the network: Yahoo, Alpaca and crypto exchanges, through one download and one verified cache.

A bar enters the cache only when it is finished: its close had passed at the moment of the download. Each symbol has a
Parquet file and, written after it, a JSON manifest that names the request, the time, the rows and the SHA-256.
"""

from __future__ import annotations

import hashlib
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, ClassVar, Literal

import pandas as pd

from pacesetter.data.calendars import session_closes
from pacesetter.errors import ConfigError, DataError, did_you_mean, needs
from pacesetter.frames import Bars, read_frame
from pacesetter.panel import utc_index
from pacesetter.runs import sha256

__all__ = ["Alpaca", "Ccxt", "Online", "Yahoo"]

Freq = Literal["1min", "5min", "15min", "30min", "1h", "1D"]
FIELDS = ["open", "high", "low", "close", "volume"]
SECRETS = ("ALPACA_API_KEY", "ALPACA_SECRET_KEY")
ADJUSTED = "prices are adjusted for splits and dividends known at the download, not at the time of the bar"


@dataclass(frozen=True)
class Online(ABC):
    """What all network sources share: the request, the cache, and the moment a bar is known."""

    symbols: Annotated[tuple[str, ...], "what to ask for"]
    start: Annotated[str, "first day, included"]
    end: Annotated[str | None, "last day, included; None: up to now"] = None
    freq: Annotated[Freq, "length of a bar"] = "1D"
    cache: Annotated[str, "folder of downloads"] = "data_cache"
    refresh: Annotated[bool, "ask the service again"] = False
    calendar: Annotated[str, "whose session closes make a daily bar known"] = "XNYS"

    name: ClassVar[str]
    notes: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        if not self.symbols:
            raise ConfigError(f"{self.name} needs one symbol or more: give data.symbols=[…]")
        if self.last <= self.first:
            raise ConfigError(f"data.end={self.end} is before data.start={self.start}; swap them")

    @property
    def first(self) -> pd.Timestamp:
        """Start of the first day, UTC."""
        return _day(self.start, "start")

    @property
    def last(self) -> pd.Timestamp:
        """End of the last day, UTC; now when no `end` is set."""
        return _now() if self.end is None else _day(self.end, "end") + pd.Timedelta(days=1)

    def read(self) -> Bars:
        """Bars of all symbols from the cache, downloading what it lacks; refuses a cache file that was changed."""
        parts = []
        for symbol in self.symbols:
            file = self._file(symbol)
            if self.refresh or not file.with_suffix(".json").exists():
                self._download(symbol, file)
            # stamps in the cache say when a bar is known already, also those at midnight
            parts.append(read_frame(_read_cached(file), symbol=symbol, origin=str(file), close_of=utc_index))
        return replace(Bars.join_symbols(parts), calendar=self.calendar, notes=self.notes)

    @abstractmethod
    def fetch(self, symbol: str) -> pd.DataFrame:
        """The service's answer: OHLCV columns under session dates (no time zone) or UTC opens; empty for no bars."""

    def request(self, symbol: str) -> dict[str, object]:
        """What was asked, as the cache files it; without an `end` each new day is a new request."""
        end = self.end or f"{_now():%Y-%m-%d}"
        asked = {"symbol": symbol, "start": self.start, "end": end, "freq": self.freq, "calendar": self.calendar}
        return {"source": self.name, **asked}

    def _file(self, symbol: str) -> Path:
        # The file is named by the whole request: another span or bar length never reads this cache.
        digest = hashlib.sha256(json.dumps(self.request(symbol), sort_keys=True).encode()).hexdigest()[:12]
        plain = "".join(letter if letter.isalnum() else "-" for letter in symbol)
        return Path(self.cache) / self.name / f"{plain}-{self.freq}-{digest}.parquet"

    def _download(self, symbol: str, file: Path) -> None:
        # Taken before the request: a bar that closes while it runs does not count as finished.
        asked_at = _now()
        try:
            bars = self._drop_unfinished(self.fetch(symbol), asked_at)
        except (ConfigError, DataError):
            raise
        # `from None`: a library's traceback may hold the request with its keys.
        except Exception as problem:  # each library has its own family of errors, and an answer may be malformed
            reason = _without_secrets(f"{type(problem).__name__}: {problem}")
            raise DataError(
                f"{self.name} has no bars for '{symbol}' ({reason}); check the symbol, the network and the service, "
                "then try again"
            ) from None
        if bars.empty:
            raise DataError(
                f"{self.name} has no finished {self.freq} bar of '{symbol}' from {self.start} to {self.end or 'now'}; "
                "check the symbol and the dates"
            )
        _write_cached(file, bars, self.request(symbol), asked_at)

    def _drop_unfinished(self, answer: pd.DataFrame, asked_at: pd.Timestamp) -> pd.DataFrame:
        """The bars within the request that were known when it was made, under the moment they were known."""
        if answer.empty:
            return answer
        stamps = pd.DatetimeIndex(answer.index)
        known = self._closing_times(stamps)
        # `known <= asked_at` drops the bar that is still forming, whose close would change later.
        wanted = (utc_index(stamps) >= self.first) & (utc_index(stamps) < self.last) & (known <= asked_at)
        bars = answer[FIELDS].astype("float64")
        return bars.set_axis(known, axis=0)[wanted].rename_axis("known")

    def _closing_times(self, stamps: pd.DatetimeIndex) -> pd.DatetimeIndex:
        if stamps.tz is None:
            return session_closes(stamps, self.calendar)
        return utc_index(stamps) + pd.Timedelta(self.freq)


@dataclass(frozen=True)
class Yahoo(Online):
    """Yahoo Finance through yfinance: prices adjusted for splits and dividends as known at the download.

    Intraday stamps are opens; the last hourly bar of a US session is shorter, and is taken as known a full hour after
    its open.
    """

    name: ClassVar[str] = "yahoo"
    notes: ClassVar[tuple[str, ...]] = (ADJUSTED,)

    def fetch(self, symbol: str) -> pd.DataFrame:
        library = _library("yfinance")
        # By default yfinance logs errors and returns nothing, which would look like a symbol without bars.
        library.config.debug.hide_exceptions = False
        # Yahoo reads days in the exchange's own zone; a day more at both ends covers ours
        start, end = self.first - pd.Timedelta(days=1), self.last + pd.Timedelta(days=1)
        answer: pd.DataFrame = library.Ticker(symbol).history(
            start=f"{start:%Y-%m-%d}", end=f"{end:%Y-%m-%d}", interval=_spelling(self.freq), auto_adjust=True
        )
        stamps = pd.DatetimeIndex(answer.index)
        dates = stamps.tz_localize(None).normalize() if self.freq == "1D" else stamps
        return answer.rename(columns=str.lower).set_axis(dates, axis=0)


@dataclass(frozen=True)
class Alpaca(Online):
    """US stocks from Alpaca, adjusted; keys come from ALPACA_API_KEY and ALPACA_SECRET_KEY and are stored nowhere."""

    name: ClassVar[str] = "alpaca"
    notes: ClassVar[tuple[str, ...]] = (ADJUSTED,)

    def fetch(self, symbol: str) -> pd.DataFrame:
        history, requests = _library("alpaca.data.historical"), _library("alpaca.data.requests")
        keys = [os.environ.get(variable, "") for variable in SECRETS]
        if not all(keys):
            raise ConfigError(f"alpaca needs its keys in the environment: set {' and '.join(SECRETS)}")
        request = requests.StockBarsRequest(
            symbol_or_symbols=symbol,
            timeframe=_alpaca_timeframe(self.freq),
            start=self.first.to_pydatetime(),
            end=self.last.to_pydatetime(),
            adjustment="all",
        )
        rows = history.StockHistoricalDataClient(*keys).get_stock_bars(request).data.get(symbol, [])
        bars = pd.DataFrame([[getattr(row, field) for field in FIELDS] for row in rows], columns=FIELDS)
        opens = pd.DatetimeIndex([row.timestamp for row in rows])
        if self.freq == "1D" and rows:  # stamped at New York's midnight
            opens = opens.tz_convert("America/New_York").tz_localize(None).normalize()
        return bars.set_axis(opens, axis=0)


@dataclass(frozen=True)
class Ccxt(Online):
    """Public candles of any exchange ccxt knows, symbols like BTC/USDT; stamps are opens, page after page."""

    calendar: str = "24/7"
    exchange: str = "binance"

    name: ClassVar[str] = "ccxt"

    def request(self, symbol: str) -> dict[str, object]:
        return super().request(symbol) | {"exchange": self.exchange}

    def fetch(self, symbol: str) -> pd.DataFrame:
        library = _library("ccxt")
        if self.exchange not in library.exchanges:
            raise ConfigError(
                f"data.exchange='{self.exchange}' is unknown{did_you_mean(self.exchange, library.exchanges)}"
            )
        client = getattr(library, self.exchange)({"enableRateLimit": True})
        candles = pd.DataFrame(self._candles(client, symbol), columns=["open_time", *FIELDS])
        return candles.set_index(pd.to_datetime(candles.pop("open_time"), unit="ms", utc=True))

    def _candles(self, client: Any, symbol: str) -> Iterator[list[float]]:
        """Rows [open in milliseconds, open, high, low, close, volume], each page starting after the one before."""
        bar = int(pd.Timedelta(self.freq).total_seconds() * 1000)
        since, end = int(self.first.timestamp() * 1000), self.last.timestamp() * 1000
        while since < end:
            # A candle from before `since` would come twice, or send `since` backwards for ever.
            page = [row for row in client.fetch_ohlcv(symbol, _spelling(self.freq), since) if row[0] >= since]
            if not page:
                return
            yield from page
            since = int(page[-1][0]) + bar


# ---- the cache ----------------------------------------------------------------------------------------------------


def _write_cached(file: Path, bars: pd.DataFrame, request: dict[str, object], asked_at: pd.Timestamp) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    about = file.with_suffix(".json")
    about.unlink(missing_ok=True)  # bars without a manifest count as not downloaded, should writing be interrupted
    bars.to_parquet(file)
    content = {"request": request, "downloaded": asked_at.isoformat(), "rows": len(bars), "sha256": sha256(file)}
    # Last, because a manifest that exists says that its bars are complete.
    about.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def _read_cached(file: Path) -> pd.DataFrame:
    remedy = "delete it or download again with data.refresh=true"
    try:
        sound = sha256(file) == json.loads(file.with_suffix(".json").read_text(encoding="utf-8"))["sha256"]
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise DataError(f"{file} or its manifest cannot be read ({type(problem).__name__}); {remedy}") from problem
    if not sound:
        raise DataError(f"{file} was changed after the download: its hash differs from its manifest; {remedy}")
    return pd.read_parquet(file)


# ---- small words --------------------------------------------------------------------------------------------------


def _library(name: str) -> ModuleType:
    with needs("this source", "online"):
        library = import_module(name)
    return library


def _spelling(freq: Freq) -> str:
    """A bar length as Yahoo and ccxt write it: 5m, 1h, 1d."""
    return freq.replace("min", "m").lower()


def _alpaca_timeframe(freq: Freq) -> object:
    frames = _library("alpaca.data.timeframe")
    amount = "".join(letter for letter in freq if letter.isdigit())
    unit = {"min": "Min", "h": "Hour", "D": "Day"}[freq.removeprefix(amount)]
    return frames.TimeFrame(int(amount), frames.TimeFrameUnit(unit))


def _without_secrets(text: str) -> str:
    for variable in SECRETS:
        # "\0" is in no message; replacing an empty string would insert the name everywhere.
        text = text.replace(os.environ.get(variable) or "\0", f"<{variable}>")
    return " ".join(text.split())[:200]


def _day(text: str, option: str) -> pd.Timestamp:
    try:
        return pd.Timestamp(pd.Timestamp(text).date(), tz="UTC")
    except (ValueError, TypeError) as problem:
        raise ConfigError(f"data.{option}={text!r} is not a date; write it like 2016-12-30") from problem


def _now() -> pd.Timestamp:
    return pd.Timestamp.now("UTC")
