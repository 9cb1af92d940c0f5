"""Some symbols at a time: the same bars, findings and coverage as of all at once; `data.files.folder` reads them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from pacesetter.data import check, load
from pacesetter.data.files.stream import check_stream, groups, open_stream
from pacesetter.data.loading import source_and_loading
from pacesetter.errors import ConfigError, DataError


def minutes(seed, bars=300, start="2024-01-01"):
    """A symbol's bars in float32, with a gap, a jump and a stretch of equal closes."""
    rng = np.random.default_rng(seed)
    close = 100 * np.exp(np.cumsum(rng.normal(0, 1e-3, bars)))
    close[40:55] = close[40]
    close[200:] *= 2.0
    opening = np.append(close[0], close[:-1])
    frame = pd.DataFrame(
        {
            "timestamp": pd.date_range(start, periods=bars, freq="min", tz="UTC"),
            "open": opening,
            "high": np.maximum(opening, close) * 1.001,
            "low": np.minimum(opening, close) * 0.999,
            "close": close,
            "volume": rng.uniform(1e3, 1e5, bars),
        }
    )
    values = frame.columns[1:]
    frame[values] = frame[values].astype(np.float32)
    return frame.drop(index=range(100 + seed, 110 + seed))


@pytest.fixture(scope="module")
def frames():
    """Five symbols: one begins later, one ends earlier, one has no volume and one a broken bar."""
    made = {f"S{number}": minutes(number) for number in range(5)}
    made["S1"] = minutes(1, start="2024-01-01 01:00")
    made["S2"] = made["S2"].iloc[:200]
    made["S3"] = made["S3"].drop(columns="volume")
    made["S4"].loc[20, "high"] = 1.0
    return made


@pytest.fixture(params=["folder", "long file", "file by time"])
def path(request, frames, tmp_path):
    """The same bars as a folder, as a file sorted by symbol in small row groups, and as one sorted by time."""
    if request.param == "folder":
        for name, frame in frames.items():
            frame.to_parquet(tmp_path / f"{name}.parquet", index=False)
        return str(tmp_path)
    long = pd.concat([frame.assign(symbol=name) for name, frame in frames.items()])
    long = long.sort_values("timestamp", kind="stable") if request.param == "file by time" else long
    long.to_parquet(tmp_path / "bars.parquet", index=False, row_group_size=100)
    return str(tmp_path / "bars.parquet")


def stream_of(path, **options):
    return open_stream(*source_and_loading("parquet", {"path": path} | options), at_once=2)


def test_parts_have_the_findings_and_coverage_of_all(path):
    stream = stream_of(path)
    whole, parts = check("parquet", path=path), check_stream(stream, at_once=2)
    assert {finding.rule for finding in whole.findings} >= {"high_low", "jump", "stale", "gap", "newest_missing"}
    assert sorted(map(str, parts.findings)) == sorted(map(str, whole.findings))
    assert (parts.coverage, parts.bars, parts.fields) == (whole.coverage, whole.bars, whole.fields)
    assert (parts.first, parts.last, parts.calendar, parts.ok) == (whole.first, whole.last, whole.calendar, False)


@pytest.mark.parametrize(
    "options",
    [{}, {"fill": "forward"}, {"fill": "interpolate"}, {"resolution": "5min"}],
    ids=str,
)
def test_parts_are_columns_of_the_panel_of_all(path, options):
    options = {"allow": ["high_low"], "start": "2024-01-01 00:30"} | options
    whole, stream = load("parquet", path=path, **options), stream_of(path, **options)
    assert stream.moments.equals(whole.index)
    for symbols in groups(stream.symbols, 2):
        part, expected = stream.panel(symbols), whole.select(symbols)
        assert part.fingerprint == expected.fingerprint


@pytest.mark.parametrize("order", ["symbol", "timestamp"])
def test_a_file_that_each_part_reads_whole_is_said(frames, tmp_path, caplog, order):
    long = pd.concat([frame.assign(symbol=name) for name, frame in frames.items()]).sort_values(order, kind="stable")
    long.to_parquet(tmp_path / "bars.parquet", index=False, row_group_size=100)
    stream_of(str(tmp_path / "bars.parquet"))
    assert ("bars.parquet is not sorted by symbol" in caplog.text) == (order == "timestamp")


def test_a_folder_of_text_is_read_in_parts_too(frames, tmp_path):
    for name, frame in frames.items():
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    whole = check("csv", path=str(tmp_path))
    stream = open_stream(*source_and_loading("csv", {"path": str(tmp_path)}), at_once=2)
    assert check_stream(stream, at_once=3) == whole


def test_wide_files_and_files_of_one_symbol_name_their_symbols(frames, tmp_path):
    frames["S0"].to_parquet(tmp_path / "S0.parquet", index=False)
    closes = pd.DataFrame({name: frame.set_index("timestamp")["close"] for name, frame in frames.items()})
    closes.reset_index().to_parquet(tmp_path / "wide.parquet", index=False)
    for name, symbols in (("S0", ("S0",)), ("wide", tuple(frames))):
        path = str(tmp_path / f"{name}.parquet")
        stream = stream_of(path)
        assert stream.symbols == symbols
        whole = load("parquet", path=path)
        assert stream.panel(symbols[:2]).fingerprint == whole.select(symbols[:2]).fingerprint


def test_what_cannot_be_read_in_parts_is_refused(frames, tmp_path):
    frames["S0"].to_csv(tmp_path / "S0.csv", index=False)
    for source, options, error, match in (
        ("synthetic", {}, ConfigError, "has no files to read in parts"),
        ("csv", {"path": str(tmp_path / "S0.csv")}, DataError, "S0.csv is text and read whole; store it as Parquet"),
        ("csv", {"path": str(tmp_path), "fill": "drop"}, ConfigError, "data.fill=drop asks all symbols at once"),
        ("csv", {"path": str(tmp_path), "symbols": ["S1"]}, DataError, "has no symbol 'S1'"),
    ):
        with pytest.raises(error, match=match):
            open_stream(*source_and_loading(source, options), at_once=1)
    panel = load("synthetic", symbols=2, bars=100)
    panel.save(tmp_path / "stored.parquet")
    with pytest.raises(DataError, match=r"stored\.parquet is a stored panel, which is read whole"):
        stream_of(str(tmp_path / "stored.parquet"), symbols=["S0"])


def test_rows_without_a_symbol_and_files_named_otherwise_are_refused(frames, tmp_path):
    long = pd.concat([frames["S0"].assign(symbol="S0"), frames["S1"].assign(symbol=None)])
    long.to_parquet(tmp_path / "bars.parquet", index=False)
    with pytest.raises(DataError, match="rows without a symbol"):
        stream_of(str(tmp_path / "bars.parquet"))
    folder = tmp_path / "folder"
    folder.mkdir()
    frames["S0"].assign(symbol="OTHER").to_parquet(folder / "S0.parquet", index=False)
    with pytest.raises(DataError, match="the file of S0 calls its symbol 'OTHER'"):
        stream_of(str(folder))
