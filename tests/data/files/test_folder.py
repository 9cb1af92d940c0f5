"""Files as people and programs write them, and as they break: read exactly, or refused in one sentence.

By `data.files.text`, `data.files.parquet` and `data.files.kinds`.
"""

from __future__ import annotations

import gzip
import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pacesetter.data import check, load
from pacesetter.data.files.parquet import ParquetFiles
from pacesetter.data.repair import REPAIRS
from pacesetter.errors import ConfigError, DataError, PacesetterError
from pacesetter.panel import Panel

LONG = (
    "date,symbol,open,high,low,close,volume\n"
    "2020-01-02,AAA,10,11,9,10.5,100\n"
    "2020-01-02,BBB,20,21,19,20.5,200\n"
    "2020-01-03,AAA,10.5,12,10,11.5,110\n"
    "2020-01-03,BBB,20.5,22,20,21.5,210\n"
)
HOURS = "timestamp,AAA\n2020-01-02T15:00:00Z,1\n2020-01-02T16:00:00Z,2\n2020-01-02T17:00:00Z,3\n"
US143 = Path(__file__).resolve().parents[3] / "../shared/data/us143_daily_2005_2016.parquet"
Write = Callable[..., str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Puts text or bytes into a file and gives its path."""

    def put(content: str | bytes, name: str = "bars.csv") -> str:
        raw = content.encode() if isinstance(content, str) else content
        (tmp_path / name).write_bytes(raw)
        return str(tmp_path / name)

    return put


def read(path: str, kind: str = "csv", **options: Any) -> Panel:
    return load(kind, path=path, **options)


def refusal(path: str, kind: str = "csv", **options: Any) -> str:
    """The one sentence with which a file is refused."""
    with pytest.raises(PacesetterError) as caught:
        read(path, kind, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# ---- read exactly -----------------------------------------------------------------------------------------------


def test_a_long_file_gives_each_value_at_its_session_close(write: Write) -> None:
    panel = read(write(LONG))
    assert panel.symbols == ("AAA", "BBB")
    assert panel.fields == ("open", "high", "low", "close", "volume")
    assert panel.close.tolist() == [[10.5, 20.5], [11.5, 21.5]]
    assert panel.volume[1].tolist() == [110, 210]
    assert [str(moment) for moment in panel.index] == ["2020-01-02 21:00:00+00:00", "2020-01-03 21:00:00+00:00"]
    assert panel.calendar == "XNYS"


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("semicolons", lambda text: text.replace(",", ";")),
        ("tabs", lambda text: text.replace(",", "\t")),
        ("Windows line ends", lambda text: text.replace("\n", "\r\n")),
        ("byte order mark", lambda text: "\ufeff" + text),
        ("blank lines", lambda text: "\n" + text.replace("\n", "\n\n")),
        ("quotes", lambda text: '"' + text.strip().replace(",", '","').replace("\n", '"\n"') + '"\n'),
        ("capitals", lambda text: text.replace("date,symbol", "Date,TICKER").replace("close", "Close")),
        ("blanks around", lambda text: text.replace(",", " , ")),
        ("numbers as dates", lambda text: text.replace("2020-01-02", "20200102").replace("2020-01-03", "20200103")),
        ("a text column", lambda text: text.replace("\n", ",name of it\n")),
    ],
)
def test_the_same_bars_in_another_dress_are_the_same_panel(write: Write, name: str, change: Any) -> None:
    assert read(write(change(LONG))) == read(write(LONG, "plain.csv")), name


@given(st.lists(st.floats(1e-300, 1e300), min_size=1, max_size=30))
@settings(max_examples=50, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_number_is_read_to_its_last_bit(tmp_path: Path, closes: list[float]) -> None:
    days = pd.date_range("2020-01-01", periods=len(closes), freq="D")
    rows = "".join(f"{day:%Y-%m-%d},{close!r}\n" for day, close in zip(days, closes, strict=True))
    (tmp_path / "exact.csv").write_text("date,AAA\n" + rows)
    assert read(str(tmp_path / "exact.csv")).close[:, 0].tolist() == closes


@pytest.mark.parametrize("factor", [1, 10**3, 10**6, 10**9])
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_epochs_are_read_in_every_unit(tmp_path: Path, factor: int, kind: str) -> None:
    stamps = [1577977200 * factor, 1577980800 * factor]
    frame = pd.DataFrame({"time": stamps, "AAA": [1.0, 2.0]})
    path = tmp_path / f"epochs.{kind}"
    frame.to_csv(path, index=False) if kind == "csv" else frame.to_parquet(path)
    assert [str(moment)[:16] for moment in read(str(path), kind).index] == ["2020-01-02 15:00", "2020-01-02 16:00"]


def test_epochs_with_fractions_and_in_mixed_units(write: Write) -> None:
    assert read(write("ts,AAA\n1577977200.5,1\n1577980800,2\n")).index[0] == pd.Timestamp("2020-01-02T15:00:00.5Z")
    assert "row 3: 1577980800000" in refusal(write("ts,AAA\n1577977200,1\n1577980800000,2\n1577984400,2\n"))
    assert "no readable timestamp, e.g. '1'" in refusal(write("ts,AAA\n1,1\n2,2\n"))


@pytest.mark.parametrize("symbol", ["NA", "NULL", "nan", "TRUE", "1", "INF", "None", "005930", "1e5", "BRK.B"])
def test_a_symbol_keeps_its_name(write: Write, symbol: str) -> None:
    assert read(write(LONG.replace("AAA", symbol))).symbols == (symbol, "BBB")
    assert read(write(f"date,{symbol},ZZZ\n2020-01-02,1,2\n")).symbols == (symbol, "ZZZ")


@pytest.mark.parametrize(
    "tickers", [("C", "V"), ("LOW", "AAPL"), ("AAPL", "C", "O", "H", "L", "V", "A", "B", "D", "E")]
)
def test_tickers_that_look_like_fields_stay_tickers(write: Write, tickers: tuple[str, ...]) -> None:
    cells = ",".join(str(place + 1) for place in range(len(tickers)))
    panel = read(write(f"date,{','.join(tickers)}\n2020-01-02,{cells}\n"))
    assert (panel.symbols, panel.fields) == (tickers, ("close",))
    assert panel.close[0].tolist() == [place + 1 for place in range(len(tickers))]


@pytest.mark.parametrize("header", ["date,open,high,low,close,volume", "ts,o,h,l,c,v"])
def test_one_symbol_is_named_after_its_file(write: Write, header: str) -> None:
    panel = read(write(f"{header}\n2020-01-02,1,3,1,2,9\n", "BRK.B.csv"))
    assert (panel.symbols, panel.close.tolist(), panel.volume.tolist()) == (("BRK.B",), [[2]], [[9]])


def test_frames_that_pandas_and_yfinance_wrote(tmp_path: Path) -> None:
    index = pd.DatetimeIndex(["2020-01-02", "2020-01-03"])
    pairs = pd.MultiIndex.from_tuples([("Close", "AAA"), ("Close", "BBB"), ("Open", "AAA"), ("Open", "BBB")])
    wide = pd.DataFrame(np.arange(1.0, 9.0).reshape(2, 4), index, pairs)
    path = str(tmp_path / "bars.csv")
    for names, label in (([None, None], None), (["Price", "Ticker"], "Date"), (["Ticker", "Price"], "Date")):
        frame = wide.swaplevel(axis=1) if names[0] == "Ticker" else wide
        frame.rename_axis(columns=names).rename_axis(index=label).to_csv(path)
        panel = read(path, allow=["high_low"])
        assert (panel.symbols, panel.fields) == (("AAA", "BBB"), ("close", "open"))
        assert panel.close.tolist() == [[1, 2], [5, 6]]
    one = "Price,Close,High,Low,Open,Volume\nTicker,AAA,AAA,AAA,AAA,AAA\nDate,,,,,\n2020-01-02,2,3,1,2,9\n"
    (tmp_path / "bars.csv").write_text(one)
    assert read(path).high.tolist() == [[3]]
    wide["Close"].to_csv(path)  # an index without a name
    assert read(path).close.tolist() == [[1, 2], [5, 6]]


def test_a_folder_holds_one_file_a_symbol(tmp_path: Path) -> None:
    (tmp_path / "BBB.csv").write_text("date,close\n2020-01-02,2\n2020-01-03,3\n")
    (tmp_path / "AAA.csv.gz").write_bytes(gzip.compress(b"date,close\n2020-01-03,5\n"))
    (tmp_path / "._AAA.csv").write_bytes(b"\x00junk")
    (tmp_path / "old.csv").mkdir()
    panel = read(str(tmp_path))
    assert (panel.symbols, panel.calendar) == (("AAA", "BBB"), "XNYS")
    np.testing.assert_array_equal(panel.close, [[np.nan, 2], [5, 3]])
    assert panel.mask.tolist() == [[False, True], [True, True]]
    (tmp_path / "CCC.csv").write_text("date,X,Y\n2020-01-03,5,6\n")
    assert refusal(str(tmp_path)) == "CCC.csv has 2 symbols; in a folder each file must have one"


def test_chosen_symbols_come_in_the_order_asked_for(write: Write, tmp_path: Path) -> None:
    assert read(write(LONG), symbols=["BBB", "AAA"]).close[0].tolist() == [20.5, 10.5]
    assert refusal(write(LONG), symbols=["BBBB"]).endswith("bars.csv has no symbol 'BBBB'; did you mean 'BBB'?")
    broken = LONG.replace("2020-01-03,AAA,10.5", "2020-01-03,AAA,-1")
    assert read(write(broken), symbols=["BBB"]).symbols == ("BBB",)
    stored = read(write(LONG)).save(tmp_path / "stored.parquet")
    assert read(str(stored), "parquet", symbols=["BBB"]).symbols == ("BBB",)


@pytest.mark.parametrize(
    ("options", "hour"),
    [({}, 15), ({"stamp": "open"}, 16), ({"stamp": "open", "bar": "30min"}, 15.5), ({"stamp": "close"}, 15)],
)
def test_opens_move_to_the_close(write: Write, options: dict[str, Any], hour: float) -> None:
    assert read(write(HOURS), **options).index[0] == pd.Timestamp("2020-01-02T00:00Z") + pd.Timedelta(hours=hour)


def test_opens_of_unclear_length_are_refused(write: Write) -> None:
    assert "data.bar=1h" in refusal(write(HOURS.replace("17:00", "16:01")), stamp="open")
    assert "data.bar=1h" in refusal(write("".join(HOURS.splitlines(True)[:2])), stamp="open")
    weekly = "date,AAA\n2020-01-06,1\n2020-01-13,2\n2020-01-20,3\n"
    assert "bars longer than a day" in refusal(write(weekly), stamp="open")
    for bar in ("x", "-1h", "0h", "1M", "99999D"):
        assert "data.bar" in refusal(write(HOURS), stamp="open", bar=bar)


def test_local_times_and_dates_in_a_zone(write: Write) -> None:
    local = HOURS.replace("Z", "")
    assert read(write(local), timezone="America/New_York").index[0] == pd.Timestamp("2020-01-02T20:00Z")
    daily = "date,AAA\n2018-11-04,1\n2018-11-05,2\n"  # midnight of 4 November does not exist in São Paulo
    assert len(read(write(daily), timezone="America/Sao_Paulo", calendar="BVMF")) == 2
    assert "data.timezone='Mars/Base' is unknown" in refusal(write(HOURS), timezone="Mars/Base")


def test_clocks_that_change_are_no_error(write: Write) -> None:
    text = "timestamp,AAA\n2020-11-01 00:30,1\n2020-11-01 01:30,2\n2020-11-01 03:30,3\n"
    moments = read(write(text), timezone="America/New_York").index
    assert [f"{moment:%H:%M}" for moment in moments] == ["04:30", "06:30", "08:30"]
    offsets = "timestamp,AAA\n2020-03-06 16:00:00-05:00,1\n2020-03-09 16:00:00-04:00,2\n"
    assert len(read(write(offsets))) == 2


# ---- files as newcomers have them -------------------------------------------------------------------------------

YAHOO = (
    "Date,Open,High,Low,Close,Adj Close,Volume\n2020-03-05,99,101,98,100,50,1000\n2020-03-06,100,103,99,102,51,1100\n"
)


def test_an_adjusted_close_beside_the_close_is_asked_for(write: Write) -> None:
    said = refusal(write(YAHOO))
    assert said == (
        "bars.csv row 2 (bars): close is 100 and adjusted close 50 [two_closes]; choose by data.close=adj_close "
        "(open, high and low are scaled alike) or data.close=close"
    )
    plain, adjusted = read(write(YAHOO), close="close"), read(write(YAHOO), close="adj_close")
    assert plain.fields == adjusted.fields == ("open", "high", "low", "close", "volume")
    assert plain.close[:, 0].tolist() == [100, 102]
    assert adjusted.close[:, 0].tolist() == [50, 51]
    assert adjusted["open"][:, 0].tolist() == [49.5, 50]
    same = YAHOO.replace(",50,", ",100,").replace(",51,", ",102,")
    assert read(write(same)).close[:, 0].tolist() == [100, 102]
    assert "has no adjusted close" in refusal(write("date,AAA\n2020-03-05,1\n"), close="adj_close")
    only = "Date,Adjusted Close\n2020-03-05,50\n2020-03-06,51\n"
    assert read(write(only)).close[:, 0].tolist() == [50, 51]


def test_day_first_dates_by_their_format(write: Write) -> None:
    text = "date,AAA\n31/12/2019,1\n02/01/2020,2\n"
    assert "give 'data.date_format=%d/%m/%Y'" in refusal(write(text))
    assert [f"{moment:%Y-%m-%d}" for moment in read(write(text), date_format="%d/%m/%Y").index] == [
        "2019-12-31",
        "2020-01-02",
    ]


@pytest.mark.parametrize(
    "stamps",
    [
        ("2020-03-06 00:00:00-05:00", "2020-03-09 00:00:00-04:00"),
        ("2020-03-06T05:00:00Z", "2020-03-09T04:00:00Z"),
    ],
)
def test_midnights_of_new_york_are_its_sessions(write: Write, stamps: tuple[str, str]) -> None:
    text = f"Date,AAA\n{stamps[0]},1\n{stamps[1]},2\n"
    assert list(read(write(text)).index) == [pd.Timestamp("2020-03-06T21:00Z"), pd.Timestamp("2020-03-09T20:00Z")]


def test_one_broken_file_of_a_folder_is_left_out_by_name(tmp_path: Path) -> None:
    for name in ("AAA", "BBB", "CCC"):
        (tmp_path / f"{name}.csv").write_text("date,close\n2020-01-02,1\n2020-01-03,2\n")
    (tmp_path / "BBB.csv").write_text("date,close\n2020-01-02\n")
    assert refusal(str(tmp_path)).endswith("or leave the file out: data.skip=[BBB]")
    assert read(str(tmp_path), skip=("BBB",)).symbols == ("AAA", "CCC")
    assert read(str(tmp_path), skip=("BBB.csv",)).symbols == ("AAA", "CCC")
    assert "data.skip names 'BBBB'" in refusal(str(tmp_path), skip=("BBBB",))
    assert "data.skip leaves none" in refusal(str(tmp_path), skip=("AAA", "BBB", "CCC"))


# ---- refused with the row ---------------------------------------------------------------------------------------

BAD_TEXT = [
    ("", "bars.csv is empty (0 bytes)"),
    ("\n", "bars.csv has no table"),
    ("\n\n\n", "bars.csv has no table"),
    ("close\n1\n", "bars.csv has no table"),
    ("date,close\n", "bars.csv is empty: it has a header and no rows"),
    ("date,close\n2020-01-02,1", "bars.csv row 2: the last line has no newline"),
    ("date,close\n2020-01-02,1\n2020-01-03\n", "bars.csv row 3: 1 columns instead of 2"),
    ("date,close\n\n2020-01-02,1\n\n2020-01-03,1,1\n", "bars.csv row 5: 3 columns instead of 2"),
    ('date,close,who\n2020-01-02,1,"a\nb"\n', "quoted field"),
    ("date,close\n2020-01-02,1\x00\n", "bars.csv row 2: a stray '\\x00'"),
    ("date,close\r2020-01-02,1\n", "bars.csv row 1: a stray '\\r'"),
    ("date,close,close\n2020-01-02,1,1\n", "two columns for close of bars"),
    ("date,AAA,AAA\n2020-01-02,1,1\n", "two columns for close of AAA"),
    ("date,symbol,close,c\n2020-01-02,A,1,1\n", "two columns for close of every symbol"),
    ("date,open,high,low,volume\n2020-01-02,1,1,1,1\n", "bars.csv has no close [missing_column]"),
    ("date,symbol,price\n2020-01-02,A,1\n", "bars.csv has no close [missing_column]; it has price"),
    ("when,close\n2020-01-02,1\n", "bars.csv has no timestamps: name a column timestamp or date (it has when, close)"),
    (",date,close\n7,2020-01-02,1\n", "bars.csv has a column without a name"),
    ("date,close,close_time\n2020-01-02,1,2020-01-02\n", "more than one time column"),
    ("date,close\n2020-01-02,1\n02/01/2020,1\n", "bars.csv row 3: '02/01/2020' is not an ISO timestamp"),
    ("date,close\n2020-01-02,1\n2020-01,1\n", "bars.csv row 3: '2020-01' is not an ISO timestamp"),
    ("date,close\n2020-01-02,1\n2020-02-30,1\n", "bars.csv row 3: '2020-02-30' is not an ISO timestamp"),
    ("date,close\n2020-01-02,1\n,1\n", "bars.csv row 3: "),
    ("date,close\n2020-01-02,1\n9999-12-31,1\n", "bars.csv row 3: 9999-12-31 00:00:00 is outside 1700 … 2260"),
    ("date,close\n1066-10-14,1\n", "bars.csv"),
    ("date,close\n2020-01-02,1\n2020-01-03 16:00,1\n2020-01-06,1\n", "bars.csv row 3: only some timestamps have"),
    ("date,close\nyesterday,1\n", "no readable timestamp, e.g. 'yesterday'"),
    (
        "date,close\n2020-01-02,1\n2020-01-02,2\n",
        "bars.csv row 3 (all symbols, 2020-01-02 21:00:00+00:00): the bar appears",
    ),
    (
        "date,close\n2020-01-03,1\n2020-01-02,2\n",
        "bars.csv row 3 (all symbols, 2020-01-02 21:00:00+00:00): the bar is old",
    ),
    ("date,symbol,close\n2020-01-02,,1\n2020-01-02,A,1\n", "bars.csv row 2: the symbol is missing"),
    ("date,symbol,close\n2020-01-02T10:00Z,,1\n", "bars.csv row 2: the symbol is missing"),
    ("date,symbol,close\n2020-01-02,A,1\n\n2020-01-03,A,-\n", "bars.csv row 4 (A): close is '-', not a number"),
]


@pytest.mark.parametrize(("text", "said"), BAD_TEXT)
def test_a_bad_text_is_refused_with_its_row(write: Write, text: str, said: str) -> None:
    assert said in refusal(write(text))


@pytest.mark.parametrize(
    "cell", ["1,234.5", "abc", "-", "0x1F", "1_000", "$5", "5%", "true", "2020-01-01", "1.2.3", "１２"]
)
def test_a_cell_that_is_no_number_is_refused(write: Write, cell: str) -> None:
    said = refusal(write(LONG.replace("11.5", f'"{cell}"')))
    assert said.startswith(f"bars.csv row 4 (AAA): close is '{cell}', not a number [wrong_type]")


@pytest.mark.parametrize(
    ("cell", "rule"),
    [
        ("inf", "infinite"),
        ("1e999", "infinite"),
        ("nan", "nan_price"),
        ("", "nan_price"),
        ("0", "non_positive"),
        ("-1", "non_positive"),
    ],
)
def test_a_number_that_is_no_price_is_refused_by_rule(write: Write, cell: str, rule: str) -> None:
    said = refusal(write(LONG.replace("11.5", cell)))
    assert said.startswith("bars.csv row 4 (AAA, 2020-01-03 21:00:00+00:00): ")
    assert f"[{rule}]; treat such bars as missing with data.fill=" in said


def test_a_broken_cell_does_not_hide_a_field(write: Write) -> None:
    text = "date,close,sentiment,beta\n2020-01-02,1,0.5,1\n2020-01-03,1,0.5,1\n2020-01-06,1,0.5,1\n"
    assert read(write(text)).fields == ("close", "sentiment", "beta")
    assert "beta is 'x'" in refusal(write(text.replace("06,1,0.5,1", "06,1,0.5,x")))
    assert "sentiment is 'x'" in refusal(write(text.replace("0.5", "x")))


def test_stamps_of_differing_zones(write: Write) -> None:
    mixed = HOURS.replace("16:00:00Z", "11:00:00-05:00")
    assert refusal(write(mixed)).startswith("bars.csv row 3: time zone -0500 after UTC [time_zone]")
    assert read(write(mixed), allow=["time_zone"]) == read(write(HOURS, "plain.csv"))
    assert "row 3: only some timestamps have a time zone" in refusal(
        write(HOURS.replace("16:00:00Z", "16:00:00")), allow=["time_zone"]
    )
    assert read(write(HOURS.replace("Z", "+00:00").replace("+00:00", "+00", 1))) == read(write(HOURS, "plain.csv"))


def test_order_and_duplicates_can_be_allowed_by_name(write: Write) -> None:
    text = "date,close\n2020-01-03,1\n2020-01-02,2\n2020-01-03,3\n"
    assert read(write(text), allow=["order", "duplicate"]).close.tolist() == [[2], [3]]  # the last one stands


@pytest.mark.parametrize(
    "junk", [b"\xff\xfe\x00a", b"\x89PNG\r\n\x1a\n", bytes(range(256)), b"PK\x03\x04rest", b"a," * 200_000 + b"\n"]
)
def test_binary_junk_is_refused(write: Write, junk: bytes) -> None:
    assert "bars.csv" in refusal(write(junk))
    assert "is not a readable Parquet file" in refusal(write(junk, "bars.parquet"), "parquet")


def test_paths_that_hold_nothing(tmp_path: Path, write: Write) -> None:
    assert "does not exist" in refusal(str(tmp_path / "none.csv"))
    assert "has no .csv or .csv.gz or .tsv or .txt file" in refusal(str(tmp_path))
    assert "does not exist" in refusal(str(tmp_path / ("x" * 5000)))
    with pytest.raises(ConfigError, match=r"data needs 'path': give data.path=…"):
        load("csv")
    path = write(LONG)
    os.chmod(path, 0)
    if os.access(path, os.R_OK):
        pytest.skip("this user may read every file")
    assert "cannot be read" in refusal(path)


def test_size_is_limited_also_inside_gzip(write: Write) -> None:
    big = LONG + "2020-01-06,AAA,1,1,1,1,1\n" * 60_000
    assert "above data.max_mb=1" in refusal(write(big), max_mb=1)
    packed = write(gzip.compress(big.encode()), "bars.csv.gz")
    assert os.path.getsize(packed) < 2**20
    assert "above data.max_mb=1" in refusal(packed, max_mb=1)


# ---- damage -----------------------------------------------------------------------------------------------------


def outcome(path: str, kind: str, **options: Any) -> Panel | None:
    """The panel, or None where one sentence refused it; any other exception fails the test."""
    try:
        return read(path, kind, **options)
    except PacesetterError:
        return None


def by_hand(text: str) -> dict[tuple[str, str], float]:
    """(date, symbol) → close of a long file, read as plainly as possible."""
    head, *lines = [line.split(",") for line in text.splitlines()]
    return {(cells[0].strip(), cells[1].strip()): float(cells[head.index("close")]) for cells in lines}


def agrees(panel: Panel, text: str) -> bool:
    """True when a panel of days that end at midnight holds the closes of the text, and nothing else."""
    closes = by_hand(text)
    found = {
        (f"{moment - pd.Timedelta(seconds=1):%Y-%m-%d}", symbol): panel.close[row, column]
        for row, moment in enumerate(panel.index)
        for column, symbol in enumerate(panel.symbols)
        if panel.mask[row, column]
    }
    return found == closes


def test_a_csv_cut_anywhere_is_refused_or_ends_with_a_whole_line(write: Write) -> None:
    for length in range(len(LONG)):
        panel = outcome(write(LONG[:length]), "csv", calendar="24/7")
        assert panel is None or (LONG[length - 1] == "\n" and agrees(panel, LONG[:length])), length


TOKENS = [
    *("1", "2.5", "", "nan", "x", "-", "1e999", "0", "AAA", '"x"', '"1,2"', "0x1F", "true", " 5 ", "NaT", "é"),
    *("\t", ";"),
]
STAMPS = [
    *("2020-01-02", "2020-01-03", "2020-01-03T10:00Z", "2020-01-03 10:00", "20200102", "1577977200"),
    *("9999-01-01", "2020-1"),
]
HEADS = [
    *("date", "symbol", "close", "Close", "C", "V", "LOW", "open", "high", "volume", "AAA", "", "time", "sentiment"),
    "DAY",
]


@given(st.data())
@settings(
    max_examples=150, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_whatever_a_csv_holds_it_is_a_panel_or_one_sentence(write: Write, data: st.DataObject) -> None:
    heads = ["date", *data.draw(st.lists(st.sampled_from(HEADS), min_size=1, max_size=4))]
    cell = st.sampled_from([*TOKENS, *STAMPS])
    row = st.tuples(st.sampled_from(STAMPS), *(cell for _ in heads[1:]))
    rows = data.draw(st.lists(row, max_size=5))
    options = data.draw(
        st.fixed_dictionaries({"fill": st.sampled_from(list(REPAIRS)), "stamp": st.sampled_from(["open", "close"])})
    )
    text = "".join(",".join(cells) + "\n" for cells in [heads, *rows])
    panel = outcome(write(text), "csv", calendar="24/7", **options)
    assert panel is None or np.isfinite(panel.close[panel.mask]).all()


def test_a_csv_with_any_flipped_bit_is_refused_or_says_what_its_bytes_say(write: Write) -> None:
    raw = b"date,symbol,close\n2020-01-02,AAA,10.5\n2020-01-03,AAA,1e1\n"
    for place in range(raw.index(b"\n") + 1, len(raw)):  # the header has a test of its own
        for bit in range(8):
            damaged = bytes([*raw[:place], raw[place] ^ (1 << bit), *raw[place + 1 :]])
            panel = outcome(write(damaged), "csv", calendar="24/7")
            assert panel is None or agrees(panel, damaged.decode()), damaged


def test_a_flipped_bit_in_the_header_never_moves_a_number(write: Write) -> None:
    raw = LONG.encode()
    for place in range(LONG.index("\n")):
        for bit in (0, 1, 2, 5):  # another letter, or another case
            panel = outcome(write(bytes([*raw[:place], raw[place] ^ (1 << bit), *raw[place + 1 :]])), "csv")
            assert panel is None or panel.close.tolist() == [[10.5, 20.5], [11.5, 21.5]]


def damaged_files(raw: bytes, cuts: int, flips: int) -> list[bytes]:
    rng = np.random.default_rng(5)
    cut = [raw[:length] for length in rng.integers(1, len(raw), cuts)]
    bits = zip(rng.integers(0, len(raw), flips), rng.integers(0, 8, flips), strict=True)
    return cut + [bytes([*raw[:place], raw[place] ^ (1 << int(bit)), *raw[place + 1 :]]) for place, bit in bits]


@pytest.mark.parametrize("checksum", [True, False])
def test_a_damaged_parquet_is_refused_or_reads_without_a_crash(write: Write, tmp_path: Path, checksum: bool) -> None:
    frame = read(write(LONG)).to_frame().stack(future_stack=True).reset_index(names=["date", "symbol"])
    frame.to_parquet(tmp_path / "whole.parquet", write_page_checksum=checksum)
    raw = (tmp_path / "whole.parquet").read_bytes()
    whole = read(write(raw, "bars.parquet"), "parquet")
    digest = hashlib.sha256(raw).hexdigest()
    changed = 0
    for damaged in damaged_files(raw, 40, 250):
        path = write(damaged, "bars.parquet")
        panel = outcome(path, "parquet")
        changed += panel is not None and panel.fields == whole.fields and panel != whole
        assert outcome(path, "parquet", sha256=digest) is None
    assert changed == 0 or not checksum


def test_a_damaged_stored_panel_is_refused_or_the_same(write: Write, tmp_path: Path) -> None:
    whole = read(write(LONG)).noting("seen by a reader")
    raw = whole.save(tmp_path / "whole.parquet").read_bytes()
    for damaged in damaged_files(raw, 40, 400):
        panel = outcome(write(damaged, "bars.parquet"), "parquet")
        assert panel is None or (panel == whole and panel.notes == whole.notes and panel.calendar == "XNYS")


def test_a_damaged_gzip_is_refused(write: Write) -> None:
    raw = gzip.compress(LONG.encode(), mtime=0)
    whole = read(write(LONG))
    assert read(write(raw, "bars.csv.gz")) == whole
    for damaged in [raw[:length] for length in range(1, len(raw))] + damaged_files(raw, 0, 200):
        panel = outcome(write(damaged, "bars.csv.gz"), "csv")
        assert panel is None or panel == whole  # some header bits (time, system) mean nothing


def test_a_digest_refuses_every_change(write: Write) -> None:
    digest = hashlib.sha256(LONG.encode()).hexdigest()
    assert read(write(LONG), sha256=digest.upper()) == read(write(LONG))
    for damaged in damaged_files(LONG.encode(), 20, 40):
        assert "not data.sha256" in refusal(write(damaged), sha256=digest)


# ---- Parquet ----------------------------------------------------------------------------------------------------


def test_parquet_with_odd_types(tmp_path: Path) -> None:
    days = pd.DatetimeIndex(["2020-01-02", "2020-01-03"])
    path = str(tmp_path / "bars.parquet")
    for dates in (days, days.date, days.strftime("%Y-%m-%d"), days.as_unit("s"), days.tz_localize("UTC")):
        pd.DataFrame({"date": dates, "AAA": [1, 2]}).to_parquet(path)
        assert read(path, "parquet").index.equals(read_dates())
    for wrong in (days, [True, False], ["a", "b"], [[1], [2]], pd.to_timedelta([1, 2], "D")):
        pd.DataFrame({"date": days, "AAA": wrong}).to_parquet(path)
        assert "[wrong_type" in refusal(path, "parquet")
    pd.DataFrame({"AAA": [1.0, 2.0]}, index=days.rename("date")).to_parquet(path)
    assert read(path, "parquet").close.tolist() == [[1], [2]]


def read_dates() -> pd.DatetimeIndex:
    return pd.DatetimeIndex(["2020-01-02T21:00Z", "2020-01-03T21:00Z"])


def test_stored_panels_are_given_one_by_one(write: Write, tmp_path: Path) -> None:
    panel = read(write(LONG))
    panel.save(tmp_path / "one.parquet")
    assert read(str(tmp_path), "parquet") == panel
    panel.save(tmp_path / "two.parquet")
    assert "one.parquet is a stored panel among 2 files" in refusal(str(tmp_path), "parquet")


def test_us143_loads_as_it_is() -> None:
    if not US143.exists():
        pytest.skip("../shared/data/us143_daily_2005_2016.parquet is not here")
    panel = read(str(US143), "parquet")
    raw = pd.read_parquet(US143)
    assert panel.shape == (3021, 143, 5)
    assert (str(panel.index[0]), str(panel.index[-1])) == ("2005-01-03 21:00:00+00:00", "2016-12-30 21:00:00+00:00")
    assert panel.index[int(panel.index.searchsorted(pd.Timestamp("2016-07-01T00:00Z")))].hour == 20  # summer time
    assert int(panel.mask.sum()) == len(raw) == 432_003
    for row in raw.iloc[[0, 1, 200_000, -1]].itertuples():
        bar = panel.between(str(row.timestamp.date()), str(row.timestamp.date())).select([row.symbol])
        assert [bar[name].item() for name in panel.fields] == [row.open, row.high, row.low, row.close, row.volume]
    assert check("parquet", path=str(US143)).ok


def test_bad_options_are_refused(write: Write) -> None:
    assert "did you mean 'timezone'?" in refusal(write(LONG), timezon="UTC")
    assert "data.calendar='XNYX' is unknown; did you mean 'XNYS'?" in refusal(write(LONG), calendar="XNYX")
    assert "data.stamp='middle' is unknown" in refusal(write(LONG), stamp="middle")
    with pytest.raises(DataError, match="does not reach"):
        read(write(LONG.replace("2020-", "1900-")), calendar="XSHG")


def test_a_column_of_opens_is_read_as_such(write: Write) -> None:
    header = HOURS.splitlines()[0].split(",")[0]
    opens = HOURS.replace(header, "open_time", 1)
    assert read(write(opens)).index[0] == read(write(HOURS), stamp="open").index[0]
    assert read(write(opens), stamp="close").index[0] == read(write(HOURS)).index[0]


def test_a_path_says_which_source_reads_it(write: Write, tmp_path: Path) -> None:
    file = write(LONG)
    assert load(file) == read(file)
    stored = tmp_path / "sub" / "stored.parquet"
    stored.parent.mkdir()
    read(file).save(stored)
    assert load(stored) == read(file)
    assert load(stored.parent) == read(file)
    with pytest.raises(DataError, match="by its ending"):
        load(tmp_path / "bars.xlsx")


# ---- only what is asked for -----------------------------------------------------------------------------------------


def test_of_a_folder_only_the_files_of_the_symbols_are_read(tmp_path: Path) -> None:
    rows = "date,close\n2020-01-02,1\n2020-01-03,2\n"
    for name in ("AAA", "BBB"):
        (tmp_path / f"{name}.csv").write_text(rows)
    (tmp_path / "CCC.csv").write_text("broken")  # would be refused
    panel = load("csv", path=str(tmp_path), symbols=["BBB", "AAA"])
    assert panel.symbols == ("BBB", "AAA")
    with pytest.raises(DataError, match="CCC"):
        load("csv", path=str(tmp_path))


def test_a_file_of_a_folder_that_names_its_symbol_otherwise_is_still_read(tmp_path: Path) -> None:
    for name, symbol in (("one", "AAA"), ("two", "BBB"), ("AAA", "CCC")):
        (tmp_path / f"{name}.csv").write_text(f"date,symbol,close\n2020-01-02,{symbol},1\n2020-01-03,{symbol},2\n")
    assert load("csv", path=str(tmp_path), symbols=["AAA", "BBB"]).symbols == ("AAA", "BBB")
    with pytest.raises(DataError, match="no symbol 'ZZZ'"):
        load("csv", path=str(tmp_path), symbols=["ZZZ"])


@pytest.fixture
def long_parquet(tmp_path: Path) -> str:
    """Three symbols in three row groups."""
    days = pd.date_range("2020-01-02", periods=40, freq="B")
    frames = [
        pd.DataFrame({"timestamp": days, "symbol": name, "high": high, "low": 2.0, "close": 2.5}).assign(extra=k)
        for k, (name, high) in enumerate({"AAA": 5.0, "BBB": 3.0, "CCC": 4.0}.items())
    ]
    pd.concat(frames).to_parquet(tmp_path / "bars.parquet", index=False, row_group_size=40)
    return str(tmp_path / "bars.parquet")


def test_of_parquet_only_row_groups_of_the_symbols_are_read(long_parquet: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import pyarrow.parquet

    whole, groups = load("parquet", path=long_parquet), []
    original = pyarrow.parquet.ParquetFile.read_row_group
    monkeypatch.setattr(
        pyarrow.parquet.ParquetFile,
        "read_row_group",
        lambda self, group, **more: groups.append(group) or original(self, group, **more),
    )
    part = load("parquet", path=long_parquet, symbols=["CCC", "BBB"])
    assert part == whole.select(["CCC", "BBB"])
    assert groups == [1, 2]
    _, numbers = ParquetFiles(long_parquet, symbols=("CCC",))._table(Path(long_parquet))
    np.testing.assert_array_equal(numbers, np.arange(80, 120))  # as in the whole file
    with pytest.raises(DataError, match="no symbol 'DDD'"):
        load("parquet", path=long_parquet, symbols=["DDD"])


def test_of_wide_parquet_only_columns_of_the_symbols_are_read(tmp_path: Path) -> None:
    days = pd.date_range("2020-01-02", periods=5, freq="B", name="timestamp")
    frame = pd.DataFrame({"AAA": [1.0, 2, 3, 4, 5], "BBB": [2.0, 2, 3, 4, 6], "CCC": ["x"] * 5}, days)
    for name, table in (("index", frame), ("column", frame.reset_index())):
        table.to_parquet(tmp_path / f"{name}.parquet")
        panel = load("parquet", path=str(tmp_path / f"{name}.parquet"), symbols=["BBB"])  # CCC would be refused
        assert panel.symbols == ("BBB",)
        np.testing.assert_array_equal(panel.close[:, 0], frame["BBB"])


# ---- checked once ---------------------------------------------------------------------------------------------------


def test_a_checked_panel_is_kept_until_the_file_or_an_option_changes(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pacesetter.data import loading

    checks: list[int] = []
    examine = loading.examine
    monkeypatch.setattr(loading, "examine", lambda *given: checks.append(1) or examine(*given))
    path, cache = write(LONG), str(tmp_path / "kept")
    first = read(path, cache=cache)
    assert read(path, cache=cache) == first
    assert len(checks) == 1
    assert read(path, cache=cache, symbols=["BBB"]).symbols == ("BBB",)
    write(LONG.replace("21.5", "21.75"))
    assert read(path, cache=cache).close[1, 1] == 21.75
    assert len(checks) == 3


def test_a_damaged_panel_of_the_cache_is_read_again(write: Write, tmp_path: Path) -> None:
    path, cache = write(LONG), tmp_path / "kept"
    first = read(path, cache=str(cache))
    (kept,) = cache.iterdir()
    kept.write_bytes(kept.read_bytes()[:-100])
    assert read(path, cache=str(cache)) == first
    with pytest.raises(ConfigError, match="leave it out"):
        load("synthetic", cache=str(cache))


def _listed(line: str, bars: int = 40, first: str = "2024-01-02") -> str:
    """A line of a file for each of so many days, with a date `t` and a price `p`."""
    days = pd.bdate_range(first, periods=bars)
    return "".join(line.format(t=day, p=100 + row, row=row) + "\n" for row, day in enumerate(days))


NEWCOMERS = {
    "german Excel": ("Date;Close\n" + _listed("{t:%Y-%m-%d};{p},50"), {}, "close is '100,50', not a number"),
    "American dates": (
        "Date,Close\n" + _listed("{t:%m/%d/%Y},{p}", bars=8),
        {},
        "%d/%m/%Y' or 'data.date_format=%m/%d/%Y'",
    ),
    "American dates beyond the 12th": (
        "Date,Close\n" + _listed("{t:%m/%d/%Y},{p}"),
        {},
        "'01/02/2024'; give 'data.date_format=%m/%d/%Y'",
    ),
    "German days without a century": (
        "Date,Close\n" + _listed("{t:%d-%m-%y},{p}"),
        {},
        "'02-01-24'; give 'data.date_format=%d-%m-%y'",
    ),
    "American dates, told": ("Date,Close\n" + _listed("{t:%m/%d/%Y},{p}"), {"date_format": "%m/%d/%Y"}, None),
    "Yahoo": (
        "Date,Open,High,Low,Close,Adj Close,Volume\n" + _listed("{t:%Y-%m-%d},{p},{p},{p},{p},{row},9"),
        {"close": "close"},
        None,
    ),
    "currency": ("Date,Close\n" + _listed("{t:%Y-%m-%d},${p}"), {}, "close is '$100', not a number"),
    "currency, told": ("Date,Close\n" + _listed("{t:%Y-%m-%d},${p}.00"), {"decimal": "point"}, None),
    "german Excel, told": ("\ufeffDate;Close\n" + _listed("{t:%Y-%m-%d};{p},00"), {"decimal": "comma"}, None),
    "year first": ("Date,Close\n" + _listed("{t:%Y/%m/%d},{p}"), {}, None),
    "thousands": ("Date,Close,Volume\n" + _listed('{t:%Y-%m-%d},{p},"1,234"'), {}, "volume is '1,234', not a number"),
    "opens and closes": (
        "open_time,close,close_time\n" + _listed("{t:%Y-%m-%dT00:00Z},{p},{t:%Y-%m-%dT23:59Z}"),
        {},
        None,
    ),
    "counted rows": (",Date,Close\n" + _listed("{row},{t:%Y-%m-%d},{p}"), {}, None),
    "Excel's Unicode text": (("Date\tClose\n" + _listed("{t:%Y-%m-%d}\t{p}")).encode("utf-16"), {}, None),
    "a byte order mark": ("\ufeffDate,Close\n" + _listed("{t:%Y-%m-%d},{p}"), {}, None),
    "newest first": (
        "Date,Close\n" + "\n".join(_listed("{t:%Y-%m-%d},{p}").split()[::-1]) + "\n",
        {},
        "data.allow=order",
    ),
    "newest first, allowed": (
        "Date,Close\n" + "\n".join(_listed("{t:%Y-%m-%d},{p}").split()[::-1]) + "\n",
        {"allow": ("order",)},
        None,
    ),
    "a sum below": (
        "Date,Close\n" + _listed("{t:%Y-%m-%d},{p}") + "Total,4000\n",
        {},
        "'Total' is not an ISO timestamp",
    ),
    "a title above": ("My bars\nDate,Close\n" + _listed("{t:%Y-%m-%d},{p}"), {}, "the first line must name at least"),
    "MetaTrader": ("<DATE>\t<TIME>\t<CLOSE>\n" + _listed("{t:%Y.%m.%d}\t16:00:00\t{p}"), {}, None),
    "Nasdaq": (
        "Date,Close/Last,Open\n" + _listed("{t:%m/%d/%Y},${p},$1"),
        {"date_format": "%m/%d/%Y", "decimal": "point"},
        None,
    ),
    "names with blanks": (
        "Date,Ticker,Close\n" + _listed("{t:%Y-%m-%d},BRK B,{p}\n{t:%Y-%m-%d},Müller AG,{p}"),
        {},
        None,
    ),
    "Latin-1": ("Date,Müller\n".encode("latin-1") + _listed("{t:%Y-%m-%d},{p}").encode(), {}, "save it as UTF-8"),
    "two-digit years": ("Date,Close\n" + _listed("{t:%m/%d/%y},{p}"), {}, "'data.date_format=%m/%d/%y'"),
    "Excel's days": ("Date,Close\n" + _listed("4{row:04d},{p}"), {}, "Excel counts days so"),
    "Investing.com": (
        '"Date","Price","Open","High","Low","Vol.","Change %"\n'
        + _listed('"{t:%b %d, %Y}","{p}.00","{p}.00","{p}.00","{p}.00","1.23M","0.51%"'),
        {},
        "give \"data.date_format='%b %d, %Y'\"",
    ),
    "Investing.com, told": (
        '"Date","Price","Open","High","Low","Vol.","Change %"\n'
        + _listed('"{t:%b %d, %Y}","{p}.00","{p}.00","{p}.00","{p}.00","1.23M","0.51%"'),
        {"date_format": "%b %d, %Y"},
        None,
    ),
    "stooq": ("<TICKER>,<PER>,<DATE>,<TIME>,<CLOSE>\n" + _listed("AAPL.US,D,{t:%Y%m%d},000000,{p}"), {}, None),
    "Binance": (_listed("17{row:08d}000,{p},{p},{p},{p},9,1,1,1,1,1,0"), {}, "has no line of names, it begins with 17"),
    "an address above": ("https://a.site\nunix,close\n" + _listed("1{row:09d},{p}"), {}, "the first line must name"),
    "half a day": ("Date,Close\n" + _listed("{t:%m/%d/%Y} 4:00 PM,{p}"), {}, "'data.date_format=%m/%d/%Y %I:%M %p'"),
    "half a day, told": (
        "Date,Close\n" + _listed("{t:%m/%d/%Y} 4:00 PM,{p}"),
        {"date_format": "%m/%d/%Y %I:%M %p", "timezone": "America/New_York"},
        None,
    ),
    "a comma at each end": ("Date,Close,\n" + _listed("{t:%Y-%m-%d},{p},"), {}, "has a column without a name"),
    "Swiss, told": ("Date;Close\n" + _listed("{t:%Y-%m-%d};{p}.00"), {"decimal": "point"}, None),
    "pipes": ("Date|Close\n" + _listed("{t:%Y-%m-%d}|{p}"), {}, None),
    "hours as numbers": (
        "Date,Time,Close\n" + _listed("{t:%Y%m%d},935,{p}"),
        {"timezone": "America/New_York"},
        None,
    ),
    "German names": ("Datum;Schluss\n" + _listed("{t:%Y-%m-%d};{p}"), {}, "name a column timestamp or date"),
    "a field and a symbol in each name": (
        "Date,AAPL Close,AAPL Volume,MSFT Close,MSFT Volume\n" + _listed("{t:%Y-%m-%d},{p},{row},{p},{row}"),
        {},
        None,
    ),
    "symbols, and one that is none": (
        "Date,AAPL Close,AAPL Volume,Mood\n" + _listed("{t:%Y-%m-%d},{p},{row},{row}"),
        {},
        "and 'Mood', which names no field",
    ),
    "the newest day twice": (
        "Date,Close\n" + _listed("{t:%Y-%m-%d},{p}") + "2024-02-26,140\n",
        {},
        "data.allow=duplicate",
    ),
}


@pytest.mark.parametrize("name", NEWCOMERS)
def test_a_newcomers_file_loads_or_is_refused_in_one_sentence(tmp_path: Path, name: str) -> None:
    content, options, said = NEWCOMERS[name]
    path = tmp_path / "bars.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    if said is None:
        panel = load(path, **options)
        assert len(panel) == 40
        assert panel.close[[0, -1], 0].tolist() == [100, 139]
        return
    with pytest.raises(DataError) as refused:
        load(path, **options)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 260


def test_a_symbol_and_a_field_in_each_name_are_read_as_both(write: Write) -> None:
    for names in ("AAPL Close,AAPL Volume,BRK.B Close,BRK.B Volume", "Close_AAPL,Volume_AAPL,Close_BRK.B,Volume_BRK.B"):
        panel = read(write(f"Date,{names}\n2020-01-02,1,10,2,20\n"))
        assert (panel.symbols, panel.fields) == (("AAPL", "BRK.B"), ("close", "volume"))
        assert (panel.close.tolist(), panel.volume.tolist()) == ([[1, 2]], [[10, 20]])
    assert read(write("Date,AAPL Close,MSFT Close\n2020-01-02,1,2\n")).symbols == ("AAPL Close", "MSFT Close")


def test_hours_as_numbers_are_times_of_day(write: Write) -> None:
    text = "Date,Time,Close\n2020-01-02,935,1\n2020-01-02,1000,2\n"
    assert [f"{moment:%H:%M}" for moment in read(write(text)).index] == ["09:35", "10:00"]
