"""Answers in the format of each service (composed, adjusted closes halved) → exact bars, stamps, cache and refusals."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pacesetter.data import load, online
from pacesetter.data.online import Alpaca, Ccxt, Online, Yahoo
from pacesetter.errors import ConfigError, DataError

RECORDED = Path(__file__).parent / "recorded"
LATER = "2024-02-01"
KEY, SECRET = "PKTESTKEY0123456789", "secretNeverToBeSeen9876543210"
CLOSES = [185.64, 184.25, 181.91, 181.18]
SESSION_CLOSES = pd.DatetimeIndex([f"2024-01-0{day}T21:00Z" for day in (2, 3, 4, 5)])


def recorded(name: str) -> Any:
    return json.loads((RECORDED / f"{name}.json").read_text())


def at(monkeypatch: pytest.MonkeyPatch, moment: str) -> None:
    monkeypatch.setattr(online, "_now", lambda: pd.Timestamp(moment, tz="UTC"))


@pytest.fixture(autouse=True)
def _a_later_day(monkeypatch: pytest.MonkeyPatch) -> None:
    at(monkeypatch, LATER)


class Answer:
    """One HTTP answer, as requests and curl_cffi give it."""

    status_code = 200

    def __init__(self, content: Any) -> None:
        self.text = json.dumps(content)

    def json(self) -> Any:
        return json.loads(self.text)

    def raise_for_status(self) -> None:
        return None


@pytest.fixture
def yahoo(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], list[dict[str, Any]]]:
    """Serve a recorded chart in place of Yahoo's server; gives the list of requests made."""
    data = pytest.importorskip("yfinance.data")
    base = pytest.importorskip("yfinance.base")
    monkeypatch.setattr(base.TickerBase, "_get_ticker_tz", lambda self, timeout: "America/New_York")

    def serve(name: str) -> list[dict[str, Any]]:
        calls: list[dict[str, Any]] = []

        def get(self: Any, url: str, params: Any = None, timeout: int = 30) -> Answer:
            calls.append({"url": url, **params})
            return Answer(recorded(name))

        monkeypatch.setattr(data.YfData, "get", get)
        monkeypatch.setattr(data.YfData, "cache_get", get)
        return calls

    return serve


@pytest.fixture
def alpaca(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], list[dict[str, Any]]]:
    """Serve recorded pages in place of Alpaca's server, with keys in the environment; gives the requests made."""
    pytest.importorskip("alpaca.data")
    requests = pytest.importorskip("requests")
    monkeypatch.setenv("ALPACA_API_KEY", KEY)
    monkeypatch.setenv("ALPACA_SECRET_KEY", SECRET)

    def serve(name: str) -> list[dict[str, Any]]:
        pages, calls = iter(recorded(name)), []

        def request(self: Any, method: str, url: str, **options: Any) -> Answer:
            calls.append({"url": url, **options, "params": dict(options["params"])})  # the client reuses its own
            return Answer(next(pages))

        monkeypatch.setattr(requests.Session, "request", request)
        return calls

    return serve


@pytest.fixture
def binance(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Serve recorded candles two a page, as `fetch_ohlcv` gives them; gives the `since` of each request."""
    library = pytest.importorskip("ccxt")
    calls: list[int] = []

    def fetch_ohlcv(self: Any, symbol: str, timeframe: str, since: int) -> list[list[float]]:
        if symbol != "BTC/USDT":
            raise library.BadSymbol(f"binance does not have market symbol {symbol}")
        calls.append(since)
        return [row for row in recorded("ccxt_binance_btc_usdt_1d") if row[0] >= since][:2]

    monkeypatch.setattr(library.binance, "fetch_ohlcv", fetch_ohlcv)
    return calls


def bitcoin(tmp_path: Path, **options: Any) -> Ccxt:
    return Ccxt(("BTC/USDT",), **{"start": "2024-01-01", "end": "2024-01-04", "cache": str(tmp_path)} | options)


# ---- exact bars and stamps ------------------------------------------------------------------------------------------


def test_yahoo_daily_bars_are_adjusted_and_known_at_the_session_close(yahoo: Any, tmp_path: Path) -> None:
    yahoo("yahoo_aapl_1d")
    panel = Yahoo(("AAPL",), "2024-01-02", "2024-01-05", cache=str(tmp_path)).read().panel()
    assert panel.index.equals(SESSION_CLOSES)
    assert panel.calendar == "XNYS"
    assert "adjusted for splits and dividends known at the download" in panel.notes[0]
    assert panel.fields == ("open", "high", "low", "close", "volume")
    np.testing.assert_allclose(panel.close[:, 0], np.array(CLOSES) / 2, rtol=1e-15)  # adjclose is half in the record
    np.testing.assert_allclose(panel.open[0, 0], 187.15 / 2, rtol=1e-15)
    np.testing.assert_array_equal(panel.volume[:, 0], [82488700, 58414500, 71983600, 62303300])


def test_yahoo_hourly_bars_are_known_an_hour_after_their_open(yahoo: Any, tmp_path: Path) -> None:
    calls = yahoo("yahoo_aapl_1h")
    panel = Yahoo(("AAPL",), "2024-01-02", "2024-01-02", "1h", str(tmp_path)).read().panel()
    assert list(panel.index) == [pd.Timestamp(f"2024-01-02T{hour}:30Z") for hour in (15, 16, 21)]
    np.testing.assert_array_equal(panel.close[:, 0], [186.5, 185.3, 185.64])
    assert calls[-1]["interval"] == "1h"


def test_alpaca_reads_all_pages_and_dates_become_session_closes(alpaca: Any, tmp_path: Path) -> None:
    calls = alpaca("alpaca_aapl_1d")
    panel = Alpaca(("AAPL",), "2024-01-02", "2024-01-05", cache=str(tmp_path)).read().panel()
    assert panel.index.equals(SESSION_CLOSES)
    np.testing.assert_array_equal(panel.close[:, 0], CLOSES)
    np.testing.assert_array_equal(panel.low[:, 0], [183.89, 183.43, 180.88, 180.17])
    assert [call["params"].get("page_token") for call in calls] == [None, "QUFQTHxEfDE3MDQyNTgwMDAwMDAwMDAwMDA="]
    assert str(calls[0]["params"]["timeframe"]) == "1Day"
    assert calls[0]["params"]["adjustment"] == "all"


def test_ccxt_walks_the_pages_and_a_day_is_known_at_the_next_midnight(binance: list[int], tmp_path: Path) -> None:
    panel = bitcoin(tmp_path).read().panel()
    assert list(panel.index) == [pd.Timestamp(f"2024-01-0{day}", tz="UTC") for day in (2, 3, 4, 5)]
    np.testing.assert_array_equal(panel.close[:, 0], [44179.55, 44946.91, 42845.23, 44151.1])
    np.testing.assert_array_equal(panel.volume[0], [27174.29903])
    assert panel.calendar == "24/7"
    day = 86_400_000
    assert binance == [1704067200000, 1704067200000 + 2 * day]


def test_the_unfinished_newest_bar_is_dropped(
    binance: list[int], yahoo: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at(monkeypatch, "2024-01-04T20:59:59")
    yahoo("yahoo_aapl_1d")
    shares = Yahoo(("AAPL",), "2024-01-02", cache=str(tmp_path)).read()
    assert shares.index[-1] == pd.Timestamp("2024-01-03T21:00Z")
    coins = bitcoin(tmp_path, end=None).read()
    assert coins.index[-1] == pd.Timestamp("2024-01-04T00:00Z")


def test_symbols_stand_side_by_side(yahoo: Any, tmp_path: Path) -> None:
    yahoo("yahoo_aapl_1d")
    bars = Yahoo(("AAPL", "MSFT"), "2024-01-02", "2024-01-05", cache=str(tmp_path)).read()
    assert bars.symbols == ("AAPL", "MSFT")
    assert bars.mask.all()


def test_load_takes_the_options_as_plain_keywords(binance: list[int], tmp_path: Path) -> None:
    options = {"symbols": ["BTC/USDT"], "start": "2024-01-01", "end": "2024-01-03", "cache": str(tmp_path)}
    panel = load("ccxt", **options)
    assert panel.symbols == ("BTC/USDT",)
    assert panel.close[-1, 0] == 42845.23
    with pytest.raises(ConfigError, match=r"unknown option 'data\.exchang'; did you mean 'exchange'"):
        load("ccxt", exchang="kraken", **options)


# ---- the cache ------------------------------------------------------------------------------------------------------


def test_the_second_reading_makes_no_request_and_refresh_does(binance: list[int], tmp_path: Path) -> None:
    first = bitcoin(tmp_path).read().panel()
    asked = len(binance)
    assert bitcoin(tmp_path).read().panel() == first
    assert len(binance) == asked
    bitcoin(tmp_path, refresh=True).read()
    assert len(binance) == 2 * asked


def test_without_an_end_a_new_day_asks_again(
    binance: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at(monkeypatch, "2024-01-03T12:00")
    assert len(bitcoin(tmp_path, end=None).read().index) == 2
    at(monkeypatch, "2024-01-04T12:00")
    assert len(bitcoin(tmp_path, end=None).read().index) == 3


def test_an_interrupted_download_is_made_again(binance: list[int], tmp_path: Path) -> None:
    bitcoin(tmp_path).read()
    (about,) = tmp_path.rglob("*.json")
    about.unlink()
    assert len(bitcoin(tmp_path).read().index) == 4


@given(st.integers(1, 30), st.integers(1, 7), st.integers(-12, 24 * 31), st.integers(1, 30))
@settings(max_examples=25, deadline=None, derandomize=True)
def test_any_page_size_gives_each_finished_bar_of_the_request_once(
    candles: int, page: int, hours: int, last: int
) -> None:
    library = pytest.importorskip("ccxt")
    opens = pd.date_range("2024-01-01", periods=candles, freq="D", tz="UTC")
    rows = [[int(moment.timestamp() * 1000), 1.0, 2.0, 0.5, 1.0 + place, 9.0] for place, moment in enumerate(opens)]
    now = pd.Timestamp("2024-01-02", tz="UTC") + pd.Timedelta(hours=hours)
    finished = [place for place in range(min(candles, last)) if opens[place] + pd.Timedelta(days=1) <= now]
    with pytest.MonkeyPatch.context() as patch, TemporaryDirectory() as folder:
        patch.setattr(online, "_now", lambda: now)
        patch.setattr(library.binance, "fetch_ohlcv", lambda _, s, f, since: [r for r in rows if r[0] >= since][:page])
        source = bitcoin(Path(folder), end=f"2024-01-{last:02}")
        if finished:
            assert source.read().blocks[3, :, 0].tolist() == [1.0 + place for place in finished]
        else:
            with pytest.raises(DataError, match="no finished 1D bar"):
                source.read()


def test_the_manifest_tells_request_time_rows_and_hash(binance: list[int], tmp_path: Path) -> None:
    bitcoin(tmp_path).read()
    (about,) = tmp_path.rglob("*.json")
    content = json.loads(about.read_text())
    assert content["request"] == {
        "source": "ccxt",
        "exchange": "binance",
        "symbol": "BTC/USDT",
        "start": "2024-01-01",
        "end": "2024-01-04",
        "freq": "1D",
        "calendar": "24/7",
    }
    assert content["downloaded"] == "2024-02-01T00:00:00+00:00"
    assert content["rows"] == 4
    assert content["sha256"] == online.sha256(about.with_suffix(".parquet"))


def test_a_changed_cache_file_is_refused_by_name(binance: list[int], tmp_path: Path) -> None:
    bitcoin(tmp_path).read()
    (file,) = tmp_path.rglob("*.parquet")
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    with pytest.raises(DataError, match=rf"{file.name} was changed after the download.*data\.refresh=true"):
        bitcoin(tmp_path).read()


@pytest.mark.parametrize("damage", ["", "{}", "[]"])
def test_a_damaged_manifest_is_refused(binance: list[int], tmp_path: Path, damage: str) -> None:
    bitcoin(tmp_path).read()
    (about,) = tmp_path.rglob("*.json")
    about.write_text(damage)
    with pytest.raises(DataError, match="cannot be read"):
        bitcoin(tmp_path).read()


# ---- refusals -------------------------------------------------------------------------------------------------------


def test_an_unknown_symbol_is_named(yahoo: Any, binance: list[int], tmp_path: Path) -> None:
    yahoo("yahoo_unknown")
    with pytest.raises(DataError, match=r"yahoo has no bars for 'NOPE'.*No data found, symbol may be delisted"):
        Yahoo(("NOPE",), "2024-01-02", cache=str(tmp_path)).read()
    with pytest.raises(DataError, match=r"ccxt has no bars for 'NOPE/USDT'.*BadSymbol"):
        Ccxt(("NOPE/USDT",), "2024-01-02", cache=str(tmp_path)).read()
    assert not list(tmp_path.rglob("*.parquet"))


def test_an_empty_answer_is_named(alpaca: Any, tmp_path: Path) -> None:
    alpaca("alpaca_empty")
    with pytest.raises(DataError, match="no finished 1D bar of 'AAPL' from 2024-01-06 to 2024-01-07"):
        Alpaca(("AAPL",), "2024-01-06", "2024-01-07", cache=str(tmp_path)).read()


def test_a_malformed_answer_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = pytest.importorskip("ccxt")
    monkeypatch.setattr(library.binance, "fetch_ohlcv", lambda *_: [[1704067200000, "high", None]])
    with pytest.raises(DataError, match="ccxt has no bars for 'BTC/USDT'"):
        bitcoin(tmp_path).read()


def test_a_network_failure_is_one_sentence_without_the_keys(
    alpaca: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = pytest.importorskip("requests")
    alpaca("alpaca_empty")

    def fail(self: Any, method: str, url: str, **options: Any) -> Answer:
        raise requests.ConnectionError(f"cannot reach {url}\nwith {options['headers']}")

    monkeypatch.setattr(requests.Session, "request", fail)
    with pytest.raises(DataError, match=r"alpaca has no bars for 'AAPL'.*ConnectionError.*check") as refused:
        Alpaca(("AAPL",), "2024-01-02", cache=str(tmp_path)).read()
    assert "\n" not in str(refused.value)
    assert KEY not in str(refused.value)
    assert SECRET not in str(refused.value)
    assert refused.value.__suppress_context__


def test_keys_go_to_the_service_and_nowhere_else(alpaca: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    calls = alpaca("alpaca_aapl_1d")
    source = Alpaca(("AAPL",), "2024-01-02", "2024-01-05", cache=str(tmp_path))
    source.read()
    assert calls[0]["headers"]["APCA-API-SECRET-KEY"] == SECRET
    written = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
    for seen in (written.decode("latin-1"), caplog.text, repr(source)):
        assert KEY not in seen
        assert SECRET not in seen


def test_missing_keys_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("alpaca.data")
    monkeypatch.delenv("ALPACA_API_KEY", raising=False)
    monkeypatch.setenv("ALPACA_SECRET_KEY", SECRET)
    with pytest.raises(ConfigError, match="set ALPACA_API_KEY and ALPACA_SECRET_KEY"):
        Alpaca(("AAPL",), "2024-01-02", cache=str(tmp_path)).read()


@pytest.mark.parametrize(
    ("source", "library"), [(Yahoo, "yfinance"), (Alpaca, "alpaca.data.historical"), (Ccxt, "ccxt")]
)
def test_a_missing_library_names_the_extra(
    source: type[Online], library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ConfigError, match=rf"needs {library.split('.')[0]}.*pacesetter\[online\]"):
        source(("X",), "2024-01-02", cache=str(tmp_path)).read()


def test_bad_requests_are_refused() -> None:
    with pytest.raises(ConfigError, match="needs one symbol or more"):
        Yahoo((), "2024-01-02")
    with pytest.raises(ConfigError, match="is not a date"):
        Yahoo(("AAPL",), "someday")
    with pytest.raises(ConfigError, match="is before"):
        Yahoo(("AAPL",), "2024-01-02", "2023-01-02")
    pytest.importorskip("ccxt")
    with pytest.raises(ConfigError, match="did you mean 'binance'"):
        Ccxt(("BTC/USDT",), "2024-01-02", exchange="binanse").read()
