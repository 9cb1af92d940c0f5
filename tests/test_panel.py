"""Panel: bars that cannot be changed, cut without copies, made coarser without a look ahead, stored bit for bit."""

from __future__ import annotations

import copy
import json
import pickle
from dataclasses import FrozenInstanceError, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pacesetter.errors import ConfigError, DataError
from pacesetter.panel import Panel, utc_index
from pacesetter.truth import Relations, Truth


def market(bars: int = 60, symbols: int = 4, freq: str = "1h", seed: int = 0, gaps: float = 0.2) -> Panel:
    rng = np.random.default_rng(seed)
    index = pd.date_range("2020-01-01T05:00", periods=bars, freq=freq, tz="UTC")
    close = 20 * np.exp(np.cumsum(rng.normal(0, 0.02, (bars, symbols)), axis=0))
    fields = {"open": close * 1.001, "high": close * 1.02, "low": close * 0.98, "close": close}
    fields |= {"volume": rng.integers(1, 9, close.shape).astype(float), "sentiment": rng.random(close.shape)}
    mask = rng.random(close.shape) >= gaps
    blanked = {name: np.where(mask, values, np.nan) for name, values in fields.items()}
    return Panel.from_fields(index, [f"S{k}" for k in range(symbols)], blanked, mask, notes=("planted",))


def planted(panel: Panel) -> Truth:
    """A truth whose response counts the bars."""
    none = np.zeros((1, len(panel.symbols)))
    count = np.arange(len(panel))
    response = np.repeat(count[:, None], len(panel.symbols), axis=1)
    schedule = Relations(none, none[..., None], none, none, none)
    return Truth(schedule, 0 * count, 0 * count, ("calm",), np.zeros((len(panel.symbols), 2)), response, {})


# ---- immutable, and cheap to cut --------------------------------------------------------------------------------


def test_nothing_can_be_written() -> None:
    panel = market()
    for array in (panel.close, panel.mask, panel.values, panel.blocks, panel.rows(3).close, panel.select(["S1"]).mask):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
    for twin in (copy.deepcopy(panel), pickle.loads(pickle.dumps(panel))):
        assert twin == panel
        assert not twin.close.flags.writeable
    with pytest.raises(FrozenInstanceError):
        panel.symbols = ("X",)  # type: ignore[misc]
    with pytest.raises(TypeError):
        panel.index[0] = panel.index[1]  # type: ignore[index]


def test_parts_share_memory() -> None:
    panel = market()
    parts = [panel.rows(5, 20), panel.rows(-3), panel.between("2020-01-02", "2020-01-02"), panel.select(["S1", "S2"])]
    for part in [*parts, panel.select("S0"), panel.noting("x")]:
        assert np.shares_memory(part.blocks, panel.blocks)
        assert np.shares_memory(part.mask, panel.mask)
    assert np.shares_memory(panel.values, panel.blocks)
    assert not np.shares_memory(panel.select(["S2", "S0"]).blocks, panel.blocks)


def test_parts_hold_what_they_name() -> None:
    panel = market()
    np.testing.assert_array_equal(panel.rows(5, 20).close, panel.close[5:20])
    np.testing.assert_array_equal(panel.select(["S2", "S0"]).close, panel.close[:, [2, 0]])
    assert panel.select(["S2", "S0"]).symbols == ("S2", "S0")
    assert panel.values.shape == panel.shape == (60, 4, 6)
    assert (len(panel), len(panel.rows(0, 0)), panel.position("S3")) == (60, 0, 3)
    assert "60 bars × 4 symbols × 6 fields, 2020-01-01 → 2020-01-03" in repr(panel)
    assert "empty" in repr(panel.rows(0, 0))


@pytest.mark.parametrize(
    ("start", "end", "first", "last"),
    [
        ("2020-01-02", "2020-01-02", "2020-01-02T00:00", "2020-01-02T23:00"),
        ("2020-01-02T03:00", "2020-01-02T04:00Z", "2020-01-02T03:00", "2020-01-02T04:00"),
        (None, "2020-01-02T00:00", "2020-01-01T05:00", "2020-01-02T00:00"),
        ("2020", "2020-01", "2020-01-01T05:00", "2020-01-03T16:00"),
        (pd.Timestamp("2020-01-02").date(), None, "2020-01-02T00:00", "2020-01-03T16:00"),
        ("2020-01-01T23:30-05:00", None, "2020-01-02T05:00", "2020-01-03T16:00"),
    ],
)
def test_between_includes_both_ends(start: Any, end: Any, first: str, last: str) -> None:
    index = market().between(start, end).index
    assert (index[0], index[-1]) == (pd.Timestamp(first, tz="UTC"), pd.Timestamp(last, tz="UTC"))


def test_between_nothing_and_no_moment() -> None:
    assert len(market().between("2021")) == len(market().between("2020-01-03", "2020-01-02")) == 0
    for stamp in ("soon", "2020-13-01", pd.NaT, []):
        with pytest.raises(ConfigError, match="is not a date or time; write 2016-12-30"):
            market().between(stamp)


def test_a_truth_is_cut_with_its_bars_or_left_out() -> None:
    panel = replace(market(), truth=planted(market()))
    for part, first, last in ((panel.rows(3, 9), 3, 9), (panel.between("2020-01-02", "2020-01-02"), 19, 43)):
        assert part.truth is not None
        assert part.truth.response[:, 0].tolist() == list(range(first, last))
        assert (part.truth.listed == -first).all()
    assert market().rows(3, 9).truth is None
    assert panel.noting("x").truth is panel.with_field("beta", panel.close).truth is panel.truth
    for other in (panel.select(["S1"]), panel.resample("1D"), panel.align(panel.index), panel.append(later(panel))):
        assert other.truth is None


def later(panel: Panel, days: int = 30) -> Panel:
    return replace(panel, index=panel.index + pd.Timedelta(days=days))


# ---- fingerprint ------------------------------------------------------------------------------------------------


def test_equal_content_has_one_fingerprint_in_any_layout() -> None:
    panel = market()
    fortran = replace(panel, blocks=np.asfortranarray(panel.blocks), mask=np.asfortranarray(panel.mask))
    wider = Panel.concat([panel], axis="symbol")
    other_nan = np.where(np.isnan(panel.blocks), -np.float64("nan"), panel.blocks)
    for same in (fortran, wider, replace(panel, blocks=other_nan), copy.deepcopy(panel), panel.noting("more")):
        assert same.fingerprint == panel.fingerprint
        assert same == panel
        assert hash(same) == hash(panel)
    assert panel.rows(0, 30).append(panel.rows(30)) == panel


@given(st.integers(0, 5), st.integers(0, 59), st.integers(0, 3), st.integers(0, 51))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_any_changed_bit_changes_the_fingerprint(field: int, bar: int, symbol: int, bit: int) -> None:
    panel = market(gaps=0)
    blocks = panel.blocks.copy()
    blocks.view(np.uint64)[field, bar, symbol] ^= np.uint64(1 << bit)
    mask = panel.mask.copy()
    mask[bar, symbol] = False
    changed = [replace(panel, blocks=blocks), replace(panel, mask=mask)]
    stamps = panel.index.asi8.copy()
    stamps[bar] += 1
    changed.append(replace(panel, index=utc_index(stamps.view("M8[ns]"))))
    assert len({each.fingerprint for each in (panel, *changed)}) == 4


def test_names_order_and_causality_change_the_fingerprint() -> None:
    panel = market()
    renamed = replace(panel, symbols=("S0", "S1", "S2", "X"))
    fields = replace(panel, fields=(*panel.fields[:-1], "mood"))
    split = replace(panel, symbols=("S0,S1", "S1", "S2", "S3"))
    others = [
        renamed,
        fields,
        split,
        panel.select(["S1", "S0", "S2", "S3"]),
        replace(panel, causal=False),
        panel.rows(1),
    ]
    assert len({each.fingerprint for each in (panel, *others)}) == 7
    assert panel != "a panel"


# ---- what a panel refuses ---------------------------------------------------------------------------------------


def build(**changes: Any) -> Panel:
    index = pd.DatetimeIndex(["2020-01-01", "2020-01-02"], tz="UTC").as_unit("ns")
    parts = {
        "index": index,
        "symbols": ("A",),
        "fields": ("close",),
        "blocks": np.ones((1, 2, 1)),
        "mask": np.ones((2, 1), bool),
    }
    return Panel(**(parts | changes))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"blocks": np.ones((1, 3, 1))}, "arrays do not fit"),
        ({"mask": np.ones((1, 2), bool)}, "arrays do not fit"),
        ({"blocks": np.ones((1, 2, 1), np.float32)}, "blocks must be float64 and mask bool, not float32 and bool"),
        ({"fields": ("open",)}, "a panel needs closes; it has only open"),
        (
            {"symbols": ("A", "A"), "blocks": np.ones((1, 2, 2)), "mask": np.ones((2, 2), bool)},
            "symbol 'A' appears twice",
        ),
        ({"fields": ("close", "close"), "blocks": np.ones((2, 2, 1))}, "field 'close' appears twice"),
        ({"symbols": (), "blocks": np.ones((1, 2, 0)), "mask": np.ones((2, 0), bool)}, "a panel needs a symbol"),
        ({"index": pd.DatetimeIndex(["2020-01-01", "2020-01-02"])}, "the index must be UTC nanoseconds"),
        ({"index": utc_index(["2020-01-02", "2020-01-01"])}, "bar 1 .* is not after bar 0"),
        ({"index": utc_index(["2020-01-02", "2020-01-02"])}, "bar 1 .* is not after bar 0"),
        ({"index": utc_index([pd.NaT, "2020-01-02"])}, "a bar without a time"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(DataError, match=said):
        build(**changes)


def test_names_that_are_not_there_are_refused_with_a_hint() -> None:
    panel = market()
    with pytest.raises(DataError, match=r"the panel has no symbol 's1'; did you mean 'S1'?"):
        panel.select(["s1"])
    with pytest.raises(DataError, match=r"the panel has no field 'volum'; did you mean 'volume'?"):
        panel["volum"]
    with pytest.raises(DataError, match=r"field 'beta' has shape \(3,\); the panel's is \(60, 4\)"):
        panel.with_field("beta", [1, 2, 3])
    with pytest.raises(DataError, match=r"field 'open' has shape \(1, 1\), not 2 bars × 1 symbols"):
        Panel.from_fields(build().index, ["A"], {"close": np.ones((2, 1)), "open": [[1]]})
    with pytest.raises(DataError, match="a panel needs closes; it has only no field"):
        Panel.from_fields(build().index, ["A"], {})
    with pytest.raises(DataError, match="symbol 'A' appears twice"):
        Panel.concat([build(), build()], axis="symbol")


def test_many_symbols_stay_cheap_and_messages_short() -> None:
    names = [f"T{k:05d}" for k in range(20_000)]
    panel = Panel.from_fields(build().index, names, {"close": np.ones((2, len(names)))})
    assert panel.select(names[::-1]).symbols[0] == "T19999"
    with pytest.raises(DataError) as caught:
        panel.select(["zzz"])
    assert len(str(caught.value)) < 300


def test_bars_per_year() -> None:
    assert market(gaps=0).bars_per_year == pytest.approx(365.25 * 24)
    with pytest.raises(DataError, match="give at least two"):
        _ = market(1).bars_per_year


# ---- coarser bars -----------------------------------------------------------------------------------------------


def test_hours_become_days_stamped_at_their_close() -> None:
    hours = pd.date_range("2020-01-01T01:00", periods=49, freq="1h", tz="UTC")  # the last one opens a third day
    count = np.arange(1.0, 50.0)[:, None]
    fields = {"open": count, "high": count + 5, "low": count - 0.5, "close": count + 0.1, "volume": count}
    days = Panel.from_fields(hours, ["A"], fields | {"sentiment": count / 100}).resample("1D")
    assert list(map(str, days.index)) == ["2020-01-02 00:00:00+00:00", "2020-01-03 00:00:00+00:00"]
    assert days.open[:, 0].tolist() == [1, 25]
    assert days.high[:, 0].tolist() == [29, 53]
    assert days.low[:, 0].tolist() == [0.5, 24.5]
    assert days.close[:, 0].tolist() == [24.1, 48.1]
    assert days.volume[:, 0].tolist() == [300, 876]
    assert days["sentiment"][:, 0].tolist() == [0.24, 0.48]


def test_only_observed_bars_count() -> None:
    hours = pd.date_range("2020-01-01T01:00", periods=6, freq="1h", tz="UTC")
    close = np.array([[1, 9], [2, 9], [3, 9], [4, 9], [5, 9], [6, 9]], float)
    mask = np.array([[0, 1], [1, 1], [1, 0], [0, 0], [0, 0], [1, 1]], bool)
    fields = {"open": close, "high": close, "low": close, "close": close, "volume": np.where(close == 2, np.nan, close)}
    coarse = Panel.from_fields(hours, ["A", "B"], fields, mask).resample("3h")
    np.testing.assert_array_equal(coarse.open, [[2, 9], [6, 9]])
    np.testing.assert_array_equal(coarse.volume, [[3, 18], [6, 9]])
    gap = Panel.from_fields(hours, ["A", "B"], fields, mask & (np.arange(6) < 3)[:, None]).resample("3h")
    assert np.isnan(gap.blocks[:, 1]).all()
    assert gap.mask.tolist() == [[True, True], [False, False]]


def test_an_unknown_volume_is_not_zero() -> None:
    panel = market(gaps=0)
    volume = np.full(panel.mask.shape, np.nan)
    assert np.isnan(panel.with_field("volume", volume).resample("1D").volume).all()
    assert np.isinf(panel.with_field("volume", np.full(panel.mask.shape, np.inf)).resample("1D").volume).all()


@pytest.mark.parametrize(
    ("freq", "closes"),
    [
        ("1W", ["2020-01-06", "2020-01-13", "2020-01-20"]),  # weeks end on Sunday
        ("W-FRI", ["2020-01-04", "2020-01-11", "2020-01-18"]),
        ("1ME", ["2020-02-01", "2020-03-01", "2020-04-01"]),
        ("MS", ["2020-01-01", "2020-02-01", "2020-03-01"]),
        ("QE", ["2020-04-01", "2020-07-01", "2020-10-01"]),
    ],
)
def test_weeks_and_months_close_at_the_midnight_that_ends_them(freq: str, closes: list[str]) -> None:
    days = pd.date_range("2019-12-31T21:00" if freq == "MS" else "2020-01-01T21:00", periods=500, freq="1D", tz="UTC")
    count = np.arange(500.0)[:, None] + 1
    coarse = Panel.from_fields(days, ["A"], {"close": count, "volume": np.ones((500, 1))}).resample(freq)
    assert [f"{moment:%Y-%m-%d}" for moment in coarse.index[:3]] == closes
    for moment, close in zip(coarse.index[:3], coarse.close[:3, 0], strict=True):
        assert close == count[days <= moment][-1, 0]
    assert coarse.volume[1, 0] == (coarse.index[1] - coarse.index[0]).days


def test_edges_of_the_users_own() -> None:
    panel = market(gaps=0)
    edges = panel.index[[9, 19, 59]]
    coarse = panel.resample(edges)
    assert coarse.index.equals(edges)
    np.testing.assert_array_equal(coarse.close, panel.close[[9, 19, 59]])
    np.testing.assert_array_equal(coarse.open, panel.open[[0, 10, 20]])
    assert len(panel.resample(edges.append(edges[-1:] + pd.Timedelta("1ns")))) == 3  # not over yet
    with pytest.raises(DataError, match="is not after"):
        panel.resample(edges[::-1])


@given(
    st.sampled_from(["2h", "5h", "1D", "2D", "1W", "W-WED", "1ME", "2W", "B"]),
    st.integers(2, 400),
    st.integers(0, 399),
    st.sampled_from(["1h", "3h", "7h"]),
)
@settings(max_examples=16, deadline=None, derandomize=True)
def test_a_part_of_a_panel_gives_the_same_coarse_bars(freq: str, stop: int, start: int, fine: str) -> None:
    panel = market(400, 2, fine)
    if pd.Timedelta(fine) > pd.Timedelta("2h") and freq in ("2h", "5h"):
        freq = "1D"
    whole = coarse_or_none(panel, freq)
    early = coarse_or_none(panel.rows(0, stop), freq)
    if early is not None:
        assert whole is not None
        assert early == whole.rows(0, len(early))  # the end is cut: nothing was seen early
        assert early.index[-1] <= panel.index[stop - 1]
    late = coarse_or_none(panel.rows(min(start, 398)), freq)
    if late is not None and whole is not None and len(late) > 1:
        assert late.rows(1) == whole.rows(len(whole) - len(late) + 1)  # the start is cut: only the first may differ


def coarse_or_none(panel: Panel, freq: str) -> Panel | None:
    try:
        return panel.resample(freq)
    except DataError:
        return None


@pytest.mark.parametrize("freq", ["x", "", "1M", "0h", "-1h", "-1W", "1 fortnight"])
def test_what_is_no_length_is_refused(freq: str) -> None:
    with pytest.raises(ConfigError, match="is not a bar length; use one like 1h, 1D, 1W or 1ME"):
        market().resample(freq)


def test_resampling_what_cannot_be() -> None:
    with pytest.raises(ConfigError, match="30min bars cannot be made from coarser ones"):
        market().resample("30min")
    with pytest.raises(ConfigError, match="1ns bars cannot be made"):
        market(9000).resample("1ns")
    with pytest.raises(DataError, match="no complete bar of '1W' fits into"):
        market(5).resample("1W")
    with pytest.raises(DataError, match="an empty panel has no bars"):
        market().rows(0, 0).resample("1D")
    assert len(market(1, gaps=0).resample("1h")) == 1


# ---- other moments, more bars -----------------------------------------------------------------------------------


def test_align_exactly_or_to_the_latest() -> None:
    panel = market(gaps=0)
    target = utc_index(["2020-01-01T04:00", "2020-01-01T05:00", "2020-01-01T05:30", "2020-01-01T07:00"])
    exact, latest = panel.align(target), panel.align(target, latest=True)
    assert exact.mask[:, 0].tolist() == latest.mask[:, 0].tolist() == [False, True, False, True]
    np.testing.assert_array_equal(exact.close[:, 0], [np.nan, panel.close[0, 0], np.nan, panel.close[2, 0]])
    np.testing.assert_array_equal(latest.close[:, 0], [np.nan, *panel.close[[0, 0, 2], 0]])
    assert panel.align(panel.index) == panel
    with pytest.raises(DataError, match="an empty panel"):
        panel.rows(0, 0).align(target)


def test_append_takes_newer_bars_only() -> None:
    panel = market()
    assert panel.append(later(panel)).rows(60) == later(panel)
    assert panel.append(panel.rows(0, 0)) == panel == panel.rows(0, 0).append(panel)
    for older in (panel, panel.rows(59), panel.rows(0, 1)):
        with pytest.raises(DataError, match=r"is not after the last one .*; history is never rewritten"):
            panel.append(older)
    with pytest.raises(DataError, match=r"cannot append: symbols differ \(S3\)"):
        panel.append(later(panel.select(["S0", "S1", "S2"])))
    with pytest.raises(DataError, match=r"cannot append: symbols differ \(another order\)"):
        panel.append(later(panel.select(["S1", "S0", "S2", "S3"])))
    with pytest.raises(DataError, match=r"cannot append: fields differ \(beta\)"):
        panel.append(later(panel.with_field("beta", panel.close)))
    assert not panel.append(replace(later(panel), causal=False)).causal
    assert panel.append(later(panel).noting("late")).notes == ("planted", "late")


def test_concatenate_both_ways() -> None:
    panel = market()
    assert Panel.concat([panel.rows(0, 9), panel.rows(9, 30), panel.rows(30)]) == panel
    assert Panel.concat([panel.select(["S0", "S1"]), panel.select(["S2", "S3"])], axis="symbol") == panel
    fewer = replace(panel.rows(10, 20), symbols=("A", "B", "C", "D"), causal=False, calendar="XNYS")
    both = Panel.concat([panel, fewer], axis="symbol")
    assert (both.shape, both.causal, both.calendar) == ((60, 8, 6), False, None)
    assert both.select(fewer.symbols).rows(10, 20).mask.tolist() == fewer.mask.tolist()
    assert not both.select(fewer.symbols).rows(20).mask.any()
    with pytest.raises(ConfigError, match=r"axis='symbols' is unknown; did you mean 'symbol'?"):
        Panel.concat([panel], axis="symbols")
    with pytest.raises(DataError, match="nothing to concatenate"):
        Panel.concat([])


# ---- files ------------------------------------------------------------------------------------------------------


@given(st.integers(0, 12), st.integers(1, 5), st.integers(0, 99))
@settings(max_examples=25, deadline=None, derandomize=True)
def test_stored_bit_for_bit(tmp_path_factory: pytest.TempPathFactory, bars: int, symbols: int, seed: int) -> None:
    panel = replace(market(bars, symbols, seed=seed), causal=bool(seed % 2), calendar="XNYS")
    panel = panel.with_field("mask", -panel.close * 0).with_field("a|b", panel.close)  # names that could collide
    again = Panel.load(panel.save(tmp_path_factory.mktemp("panel") / "deep" / "panel.parquet"))
    assert again == panel
    assert again.blocks.tobytes() == np.ascontiguousarray(panel.blocks).tobytes()
    assert (again.causal, again.calendar, again.notes, again.truth) == (panel.causal, "XNYS", panel.notes, None)
    assert again.index.equals(panel.index)
    assert not again.close.flags.writeable


def test_a_stored_panel_that_was_changed_is_refused(tmp_path: Path) -> None:
    path = market().save(tmp_path / "panel.parquet")
    assert [file.name for file in tmp_path.iterdir()] == ["panel.parquet"]
    table = pq.read_table(path)
    about = dict(table.schema.metadata)
    raised = table.set_column(5, table.schema.names[5], [np.ones(len(table))])
    quiet = table.replace_schema_metadata(
        about | {b"pacesetter.panel": about[b"pacesetter.panel"].replace(b"planted", b"nothing")}
    )
    for changed in (raised, quiet):
        pq.write_table(changed, path)
        with pytest.raises(DataError, match="was changed after it was stored"):
            Panel.load(path)
    lost = json.dumps({"symbols": ["S0"]}).encode()
    for other in (
        table.drop_columns(["known"]),
        table.replace_schema_metadata({}),
        table.replace_schema_metadata({b"pacesetter.panel": lost}),
    ):
        pq.write_table(other, path)
        with pytest.raises(DataError, match="is not a stored panel"):
            Panel.load(path)
    with pytest.raises(DataError, match="is not a stored panel"):
        Panel.load(tmp_path / "none.parquet")


def test_a_slice_takes_bars_by_place_or_by_date() -> None:
    index = pd.date_range("2020-01-01", periods=6, freq="D", tz="UTC")
    panel = Panel.from_fields(index, ["A", "B"], {"close": np.arange(1.0, 13.0).reshape(6, 2)})
    assert panel[-2:] == panel.rows(4, None)
    assert panel["2020-01-02":"2020-01-04"] == panel.between("2020-01-02", "2020-01-04")  # type: ignore[misc]
    with pytest.raises(DataError, match=r"no field 'A'.*use panel\.select\(\['A'\]\)"):
        panel["A"]
    with pytest.raises(DataError, match="no every 2th bar"):
        panel[::2]
    assert "6 bars × 2 symbols" in panel._repr_html_()


def test_rows_have_their_stamps_without_cutting_them_beforehand() -> None:
    panel = market(bars=8)
    rows = panel.rows(2, 7)
    assert "index" not in vars(rows)
    assert len(rows) == 5
    assert rows.moments.tolist() == panel.index.asi8[2:7].tolist()
    assert "index" not in vars(rows)
    assert rows.rows(1, 3).index.equals(panel.index[3:5])
    assert rows.index.equals(panel.index[2:7])
    for other in (
        pickle.loads(pickle.dumps(panel.rows(2, 7))),
        copy.deepcopy(panel.rows(2, 7)),
        replace(rows, notes=()),
    ):
        assert other == rows
        assert other.moments.tolist() == rows.moments.tolist()
    with pytest.raises(AttributeError, match="no attribute 'closes'"):
        _ = rows.closes  # type: ignore[attr-defined]
