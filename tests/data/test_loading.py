"""Loading: options split by name, broken bars refused, allowed or repaired, then made coarser and cut."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from pacesetter.data import SOURCES, check, load
from pacesetter.data.loading import fold_findings, source_and_loading
from pacesetter.data.quality import Quality
from pacesetter.errors import ConfigError, DataError
from pacesetter.frames import Finding
from pacesetter.panel import Panel

INDEX = pd.date_range("2020-01-01T01:00", periods=96, freq="1h", tz="UTC")


@dataclass(frozen=True)
class Broken:
    """Four days of hours; the close of bar 30 is negative, and bars 40 to 49 are missing."""

    symbols: int = 2

    def read(self) -> Panel:
        close = np.arange(1.0, 97.0)[:, None] * np.ones(self.symbols)
        close[30, 0], close[40:50, 0] = -1, np.nan
        return Panel.from_fields(INDEX, [f"S{k}" for k in range(self.symbols)], {"close": close})


@pytest.fixture(autouse=True)
def source(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user's own source, added without touching ours."""
    monkeypatch.setitem(SOURCES._members, "broken", Broken)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"simbols": 3}, "unknown option 'data.simbols'; did you mean 'symbols'?"),
        ({"fil": "forward"}, "unknown option 'data.fil'; did you mean 'fill'?"),
        ({"fill": "backward"}, "data.fill='backward' is unknown; known: drop, forward, interpolate, none"),
        (
            {"allow": "non_positiv"},
            "data.allow=non_positiv is not a rule that can be allowed; did you mean 'non_positive'?",
        ),
        ({"allow": ["wrong_type"]}, "data.allow=wrong_type is not a rule that can be allowed; known: "),
        ({"quality": {"stale": 3}}, "unknown option 'data.quality.stale'; did you mean 'stale_bars'?"),
        ({"quality": 3}, "data.quality=3 must be a mapping"),
        ({"start": "soon", "fill": "forward"}, "'soon' is not a date or time"),
        ({"resolution": "1M", "fill": "forward"}, "'1M' is not a bar length"),
    ],
)
def test_wrong_options_are_refused_in_one_sentence(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load("broken", **options)
    assert said in str(caught.value)


def test_an_unknown_source_gets_a_hint() -> None:
    with pytest.raises(ConfigError, match=r"unknown source 'synthetik'; did you mean 'synthetic'\?"):
        load("synthetik")


def test_options_are_split_and_a_sources_own_come_first() -> None:
    source, loading = source_and_loading("broken", {"symbols": 3, "fill": "drop", "quality": {"stale_bars": 5}})
    assert source == Broken(3)
    assert (loading.fill, loading.quality) == ("drop", Quality(stale_bars=5))
    synthetic, loading = source_and_loading("synthetic", {"start": "2010-01-04"})  # its own start, not the cut
    assert (synthetic.start, loading.start) == ("2010-01-04", None)  # type: ignore[attr-defined]


def test_a_broken_bar_is_refused_allowed_or_repaired() -> None:
    with pytest.raises(DataError, match=r"broken \(S0, 2020-01-02 07:00:00\+00:00\): a price is not above zero"):
        load("broken")
    assert not check("broken").ok
    assert load("broken", allow="non_positive").close[30, 0] == -1
    filled = load("broken", fill="forward")
    assert filled.close[[29, 30, 31], 0].tolist() == [30, 30, 32]
    assert filled.mask[[29, 30, 31], 0].tolist() == [True, False, True]
    assert filled.notes == ("1 broken bars treated as missing", "11 missing bars carried forward")
    assert load("broken", fill="interpolate").close[30, 0] == 31
    assert not load("broken", fill="interpolate").causal
    assert len(load("broken", fill="drop")) == 85
    assert load("broken", fill="forward", allow="non_positive").close[30, 0] == -1


def test_start_and_end() -> None:
    part = load("broken", fill="forward", start="2020-01-02", end="2020-01-03")
    assert (part.index[0], part.index[-1]) == (pd.Timestamp("2020-01-02T00:00Z"), pd.Timestamp("2020-01-03T23:00Z"))
    first = load("broken", fill="forward", start="2020-01-02T17:00")
    assert first.close[0, 0] == 40  # carried from before the start
    with pytest.raises(
        DataError, match=r"there is no bar between data.start=2021 and data.end=None; the bars run from 2020-01-01 01"
    ):
        load("broken", fill="forward", start="2021")


def test_coarse_bars_are_whole_at_the_start_and_filled_when_missing() -> None:
    days = load("broken", fill="forward", resolution="1D")
    cut = load("broken", fill="forward", resolution="1D", start="2020-01-02T12:00")
    assert cut == days.rows(1)  # the first day after the start holds all of its hours
    quarters = load("broken", fill="forward", resolution="5h")
    assert not np.isnan(quarters.close).any()
    assert not quarters.mask.all()  # ten missing hours leave a coarse bar unobserved


def test_a_files_rows_are_named_after_every_route(tmp_path: Path) -> None:
    (tmp_path / "bars.csv").write_text("date,AAA\n2020-01-02,1\n2020-01-03,-1\n2020-01-06,3\n")
    path = str(tmp_path / "bars.csv")
    with pytest.raises(DataError, match=r"bars.csv row 3 \(AAA, 2020-01-03 21:00:00\+00:00\)"):
        load("csv", path=path)
    assert load("csv", path=path, fill="forward").close[:, 0].tolist() == [1, 1, 3]


@pytest.mark.parametrize("option", [{"fill": "forward"}, {"allow": ("non_positive",)}])
def test_a_check_knows_what_the_options_repair_or_allow(tmp_path, option):
    path = tmp_path / "bars.csv"
    path.write_text("date,A,B\n2020-01-02,10,20\n2020-01-03,0,21\n2020-01-06,11,22\n")
    assert not check("csv", path=str(path)).ok
    apply_allowances = check("csv", path=str(path), **option)
    assert apply_allowances.ok
    (finding,) = [finding for finding in apply_allowances.findings if finding.rule == "non_positive"]
    assert finding.remedy.startswith(("repaired by data.fill=forward", "allowed by data.allow=non_positive"))


def test_warnings_of_one_rule_are_one_sentence() -> None:
    found = [Finding("gap", f"{name} has a gap", symbol=name, severity="warning") for name in "ABC"]
    assert fold_findings([*found, Finding("stale", "B stands still")]) == [
        "A: A has a gap [gap] (and 2 more of [gap])",
        "B stands still [stale]",
    ]


def test_a_frame_is_checked_as_a_file_is() -> None:
    frame = pd.DataFrame({"A": [1.0, 2.0, 3.0]}, index=pd.date_range("2020-01-01", periods=3, tz="UTC", freq="D"))
    assert load(frame).symbols == ("A",)
    with pytest.raises(DataError, match="not above zero"):
        load(frame.assign(A=[1.0, -2.0, 3.0]))
    with pytest.raises(ConfigError, match="takes a source's name, a path or a DataFrame, not int"):
        load(3)  # type: ignore[arg-type]


def test_a_frame_takes_the_options_of_a_file(tmp_path: Path) -> None:
    text = "open_time,symbol,close,adj_close\n2020-01-02 15:00,A,2,1\n2020-01-02 15:00,B,4,3\n2020-01-02 16:00,A,4,2\n"
    path = tmp_path / "bars.csv"
    path.write_text(text)
    options = {"timezone": "America/New_York", "close": "adj_close", "symbols": ["A"], "bar": "1h", "calendar": "auto"}
    frame = pd.read_csv(path)
    assert load(frame, **options) == load(path, **options)
    assert load(frame, **options).index[0] == pd.Timestamp("2020-01-02T21:00Z")
    with pytest.raises(ConfigError, match=r"unknown option 'data.stmap'; did you mean 'stamp'\?"):
        load(frame, stmap="open")
    with pytest.raises(DataError, match="the frame has no symbol 'C'"):
        load(frame, close="close", symbols=["C"])


def test_a_check_keeps_to_the_period(tmp_path: Path) -> None:
    path = tmp_path / "bars.csv"
    path.write_text("date,A\n2020-01-02,-1\n2020-01-03,1\n2020-01-06,2\n2020-01-07,3\n")
    assert not check("csv", path=str(path)).ok
    report = check("csv", path=str(path), start="2020-01-03", end="2020-01-06")
    assert (report.ok, report.bars) == (True, 2)
    with pytest.raises(DataError, match=r"there is no bar between data\.start=2021"):
        check("csv", path=str(path), start="2021")


@pytest.mark.parametrize("name", ["A\tB", "A" * 65])
def test_a_symbol_that_no_server_takes_is_refused_at_load(name: str) -> None:
    frame = pd.DataFrame({name: [1.0, 2.0]}, index=pd.date_range("2020-01-01", periods=2, tz="UTC", freq="D"))
    with pytest.raises(DataError, match="names have at most 64 printable letters"):
        load(frame)
