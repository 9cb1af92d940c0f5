"""Each rule fires where it is broken, with place, symbol, moment, count and severity, and is silent on clean bars."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pacesetter.data import check, load
from pacesetter.data.calendars import session_closes, sessions
from pacesetter.data.quality import VALUE_RULES, Quality, broken_bars, examine, readiness
from pacesetter.errors import ConfigError, DataError
from pacesetter.frames import Bars, Finding
from pacesetter.panel import Panel

BARS = 40


def clean(bars: int = BARS) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(2)
    close = 20 * np.exp(np.cumsum(rng.normal(0, 0.01, (bars, 2)), axis=0))
    return {
        "open": close * 1.001,
        "high": close * 1.01,
        "low": close * 0.99,
        "close": close,
        "volume": np.full(close.shape, 5.0),
        "sentiment": np.full(close.shape, 0.5),
    }


def days(bars: int = BARS) -> pd.DatetimeIndex:
    return session_closes(sessions("XNYS", "2020-01-02", "2020-12-31").index[:bars], "XNYS")


def bars_of(
    fields: dict[str, np.ndarray], mask: np.ndarray | None = None, index: pd.DatetimeIndex | None = None
) -> Bars:
    stamps = days(len(fields["close"])) if index is None else index
    seen = np.ones(fields["close"].shape, bool) if mask is None else mask
    panel = Panel.from_fields(stamps, ["AAA", "BBB"], fields, seen, calendar="XNYS")
    return Bars.of(panel, "made")


def only(bars: Bars, rule: str, quality: Quality | None = None) -> Finding:
    found = [finding for finding in examine(bars, quality) if finding.rule == rule]
    assert len(found) == 1, found
    return found[0]


def test_clean_bars_have_no_finding() -> None:
    assert examine(bars_of(clean())) == ()


@pytest.mark.parametrize(
    ("rule", "field", "value", "what"),
    [
        ("nan_price", "low", np.nan, "a price is missing"),
        ("infinite", "volume", np.inf, "a value is infinite"),
        ("infinite", "close", -np.inf, "a value is infinite"),
        ("non_positive", "open", 0.0, "a price is not above zero"),
        ("non_positive", "close", -3.0, "a price is not above zero"),
        ("high_low", "high", 1.0, "open or close is outside low … high"),
        ("high_low", "low", 99.0, "open or close is outside low … high"),
        ("negative_volume", "volume", -1.0, "volume -1 is below zero"),
        ("sentiment_range", "sentiment", 1.5, "sentiment 1.5 is outside [0, 1]"),
        ("sentiment_range", "sentiment", -0.1, "sentiment -0.1 is outside [0, 1]"),
    ],
)
def test_each_value_rule_names_the_first_broken_bar(rule: str, field: str, value: float, what: str) -> None:
    fields = clean()
    fields[field][[7, 9], 1] = value
    finding = only(bars_of(fields), rule)
    assert finding.what.startswith(what)
    assert (finding.symbol, finding.when, finding.count, finding.severity) == ("BBB", str(days()[7]), 2, "error")
    assert finding.remedy.startswith("treat such bars as missing with data.fill=")
    broken = broken_bars(bars_of(fields))
    assert np.argwhere(broken).tolist() == [[7, 1], [9, 1]]
    assert not broken_bars(bars_of(fields), allow=tuple(each.name for each in VALUE_RULES)).any()


def test_what_was_not_observed_breaks_no_rule() -> None:
    fields, mask = clean(), np.ones((BARS, 2), bool)
    for values in fields.values():
        values[7, 1] = np.nan
    mask[7, 1] = False
    assert {finding.rule for finding in examine(bars_of(fields, mask))} == {"gap"}


@pytest.mark.parametrize(
    ("factor", "said"),
    [
        (0.5, "close moved by a factor of 0.5 in one bar, like a 2:1 split"),
        (3.0, "factor of 3 in one bar, like a 3:1 split"),
        (0.06, "by a factor of 0.06"),
    ],
)
def test_jumps_that_look_like_splits(factor: float, said: str) -> None:
    fields = {"close": np.ones((BARS, 2)) * np.linspace(1, 1.1, BARS)[:, None]}
    fields["close"][20:, 0] = fields["close"][19, 0] * factor * np.linspace(1, 1.1, BARS - 20)
    finding = only(bars_of(fields), "jump")
    assert said in finding.what
    assert ("split" in finding.what) == (factor != 0.06)
    assert (finding.symbol, finding.when, finding.count, finding.severity) == ("AAA", str(days()[20]), 1, "warning")
    assert not [each for each in examine(bars_of(fields), Quality(jump_fraction=0.99)) if each.rule == "jump"]


def test_stale_runs() -> None:
    fields = clean()
    fields["close"][5:17, 1] = fields["close"][5, 1]
    fields["high"], fields["low"] = fields["close"] * 2, fields["close"] / 2
    finding = only(bars_of(fields), "stale")
    assert finding.what == f"close stays at {fields['close'][5, 1]:g} for 12 bars"
    assert (finding.symbol, finding.when, finding.count) == ("BBB", str(days()[5]), 1)
    assert not [each for each in examine(bars_of(fields), Quality(stale_bars=13)) if each.rule == "stale"]


def test_gaps_newest_bars_and_coverage() -> None:
    mask = np.ones((BARS, 2), bool)
    mask[:3, 0] = mask[10:14, 0] = mask[-2:, 1] = False
    bars = bars_of({name: np.where(mask, values, np.nan) for name, values in clean().items()}, mask)
    gap, newest, coverage = (only(bars, rule) for rule in ("gap", "newest_missing", "coverage"))
    assert (gap.symbol, gap.when, gap.count, gap.severity) == ("AAA", str(days()[10]), 4, "warning")
    assert (newest.symbol, newest.when, newest.count) == ("BBB", str(days()[-2]), 2)
    assert newest.what == "2 of the newest 3 bars are missing"
    assert coverage.what == "only 89.2% of its bars are observed"
    report = readiness(bars)
    assert report.coverage[0] == {
        "symbol": "AAA",
        "first": str(days()[3]),
        "last": str(days()[-1]),
        "bars": 33,
        "missing": 4,
        "coverage": 33 / 37,
    }
    assert report.ok


def test_a_symbol_without_any_bar() -> None:
    mask = np.ones((BARS, 2), bool)
    mask[:, 1] = False
    assert only(bars_of(clean(), mask), "coverage").symbol == "BBB"


def test_bars_of_the_future_and_prices_without_volume_are_warned_of() -> None:
    late = days() + pd.Timedelta(days=36_500)
    future = only(bars_of(clean(), index=late), "future")
    assert (future.severity, future.count) == ("warning", BARS)
    fields = clean()
    fields["volume"][3, 0] = np.nan
    found = only(bars_of(fields), "nan_volume")
    assert (found.severity, found.count) == ("warning", 1)


def test_a_name_with_letters_that_cannot_be_seen_is_an_error_that_spells_them() -> None:
    bars = dataclasses.replace(bars_of(clean()), symbols=("A\x1b[31m", "B"))
    found = only(bars, "symbol_name")
    assert found.severity == "error"
    assert "\x1b" not in found.sentence()
    assert r"A\x1b[31m" in found.sentence()


def test_missing_columns() -> None:
    finding = only(bars_of({"close": clean()["close"]}), "missing_column")
    assert finding.what.startswith("no open, high, low, volume: ")
    assert finding.severity == "warning"


def test_sessions_without_a_bar_but_no_holidays_or_half_days() -> None:
    whole = session_closes(sessions("XNYS", "2019-11-20", "2020-01-10").index, "XNYS")  # two holidays, two half days
    keep = np.ones(len(whole), bool)
    keep[[4, 5]] = False
    fields = {name: values[: keep.sum()] for name, values in clean().items()}
    finding = only(bars_of(fields, index=whole[keep]), "missing_session")
    assert (finding.when, finding.count, finding.severity) == (str(whole[4]), 2, "warning")
    fields = clean(len(whole))
    assert not [each for each in examine(bars_of(fields, index=whole)) if "session" in each.what]


@pytest.mark.parametrize("odd", ["2020-01-04T15:00", "2020-01-03T22:00", "2020-01-03T14:30", "2020-01-20T18:00"])
def test_bars_outside_every_session(odd: str) -> None:
    index = days().insert(0, pd.Timestamp(odd, tz="UTC")).sort_values()
    finding = only(bars_of(clean(BARS + 1), index=index), "off_calendar")
    assert (finding.when, finding.count) == (str(pd.Timestamp(odd, tz="UTC")), 1)


def test_a_session_that_opens_on_the_day_before_in_utc() -> None:
    panel = Panel.from_fields(
        pd.DatetimeIndex(["2020-01-07T23:30Z"]), ["BHP"], {"close": [[1.0]]}, calendar="XASX"
    )  # Sydney's 8 January
    assert not [finding for finding in examine(Bars.of(panel)) if finding.rule == "off_calendar"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("jump_fraction", 1.0),
        ("jump_fraction", float("nan")),
        ("stale_bars", 1),
        ("newest_bars", 0),
        ("coverage_fraction", 1.1),
    ],
)
def test_limits_out_of_range_are_refused(name: str, value: float) -> None:
    with pytest.raises(ConfigError, match=rf"data.quality.{name}={value} must"):
        Quality(**{name: value})


def test_the_report_survives_json_and_names_the_files_rows(tmp_path: Path) -> None:
    path = tmp_path / "bars.csv"
    path.write_text("date,AAA,BBB\n2020-01-02,1,nan\n\n2020-01-03,1e999,3\n2020-01-06,-5,3\n2020-01-07,x,3\n")
    report = check("csv", path=str(path))
    again = json.loads(json.dumps(report.to_json(), allow_nan=False))
    assert (again["ok"], again["bars"], again["calendar"], again["fields"]) == (False, 4, "XNYS", ["close"])
    errors = [
        (each["rule"], each["where"], each["symbol"]) for each in again["findings"] if each["severity"] == "error"
    ]
    assert errors == [
        ("wrong_type", "bars.csv row 6", "AAA"),
        ("infinite", "bars.csv row 4", "AAA"),
        ("non_positive", "bars.csv row 5", "AAA"),
    ]
    with pytest.raises(
        DataError, match=r"bars.csv row 6 \(AAA\): close is 'x'.*2 more findings: pacesetter data check"
    ):
        load("csv", path=str(path))


def test_a_cell_that_is_not_a_number_is_one_finding_and_a_missing_price_beside_it_another(tmp_path: Path) -> None:
    path = tmp_path / "bars.csv"
    head, row = "date,open,high,low,close,volume\n", '2020-01-0{},"50,1","51,2","49,8","50,9",7\n'
    path.write_text(head + "".join(row.format(day) for day in (2, 3, 6)))
    errors = [finding.rule for finding in check("csv", path=str(path)).findings if finding.severity == "error"]
    assert errors == ["wrong_type"] * 4
    path.write_text(head + row.format(2) + "2020-01-03,,51,49,50,7\n2020-01-06,50,51,49,50,7\n")
    errors = [finding.rule for finding in check("csv", path=str(path)).findings if finding.severity == "error"]
    assert errors == ["wrong_type"] * 4 + ["nan_price"]


def test_prices_that_differ_by_a_rounding_are_no_violation() -> None:
    index = pd.date_range("2020-01-01", periods=3, freq="D", tz="UTC")
    close = np.array([[10.1], [10.2], [10.3]])
    high = np.nextafter(close, 0)  # as adjusted prices of a day that closed at its high
    fields = {"open": close, "high": high, "low": close, "close": close}
    assert not [f for f in examine(Bars.of(Panel.from_fields(index, ["A"], fields))) if f.rule == "high_low"]
    wrong = Bars.of(Panel.from_fields(index, ["A"], fields | {"high": high * 0.999}))
    found = next(f for f in examine(wrong) if f.rule == "high_low")
    assert "data.allow=[high_low]" in found.sentence()
