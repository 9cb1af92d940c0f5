from __future__ import annotations

import dataclasses
import logging
import pickle
import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pacesetter as ps
from pacesetter.errors import ConfigError, DataError
from pacesetter.features import FEATURES, Feature, FeatureTable, feature_table, table
from pacesetter.features.table import forget_tables
from pacesetter.panel import Panel

TREND = Feature("age", ("close",), 1, lambda panel: np.broadcast_to(np.arange(len(panel))[:, None], panel.mask.shape))


def test_the_table_holds_every_registered_feature_the_panel_can_give(bars: Panel) -> None:
    table = ps.feature_table(bars)
    # By name only: one more column would change what runs learned from.
    by_name_only = ("market_breadth", "scaled_return_60", "signature_regime")
    assert table.names == tuple(name for name in FEATURES if name not in ("sentiment", *by_name_only))
    assert table.values.shape == (3, 400, len(table.names))
    assert table.values.dtype == np.float32
    assert table.values.flags.c_contiguous
    assert not table.values.flags.writeable
    assert table.memory_bars == max(FEATURES[name].memory_bars for name in table.names)
    assert table.memory["return_5"] == 6


def test_warm_up_is_masked(bars: Panel) -> None:
    table = feature_table(bars, ["return_1", "return_20"])
    assert not table.mask[:, :20].any()
    assert table.mask[:, 20:].all()


def test_closes_only_leaves_features_out_by_name_with_a_notice(bars: Panel, caplog) -> None:
    closes = Panel.from_fields(bars.index, bars.symbols, {"close": bars.close})
    with caplog.at_level(logging.INFO, logger="pacesetter"):
        table = feature_table(closes, ["rsi_14", "atr_14", "volume_ratio_20"])
    assert table.names == ("rsi_14",)
    assert table.left_out == {"atr_14": "needs high, low", "volume_ratio_20": "needs volume"}
    assert "atr_14 is left out: it needs high, low" in caplog.text


def test_a_panel_that_gives_no_feature_is_refused(bars: Panel) -> None:
    with pytest.raises(DataError, match="no feature is left: sentiment"):
        feature_table(bars, ["sentiment"])


def test_extra_features_come_last_and_their_shape_is_checked(bars: Panel) -> None:
    table = feature_table(bars, ["gap"], extra=[TREND])
    assert table.names == ("gap", "age")
    np.testing.assert_array_equal(table.values[1, :, 1], np.arange(400))
    flat = dataclasses.replace(TREND, compute=lambda panel: np.zeros(5))
    with pytest.raises(ConfigError, match=re.escape("'age' gave shape (5,) for 400 bars")):
        feature_table(bars, [], extra=[flat])


def test_a_feature_asked_for_twice_is_refused(bars: Panel) -> None:
    with pytest.raises(ConfigError, match="'gap' is requested twice"):
        feature_table(bars, ["gap", "gap"])
    with pytest.raises(ConfigError, match="'age' is requested twice"):
        feature_table(bars, "gap", extra=[TREND, TREND])


def test_what_is_no_feature_is_refused(bars: Panel) -> None:
    with pytest.raises(ConfigError, match="is not a Feature"):
        feature_table(bars, "gap", extra=[print])


def test_what_overflows_float32_is_missing(bars: Panel) -> None:
    huge = dataclasses.replace(TREND, compute=lambda panel: np.full(panel.mask.shape, 1e300))
    assert np.isnan(feature_table(bars, [], extra=[huge]).values).all()


def test_the_same_panel_is_computed_once(bars: Panel) -> None:
    calls = []
    counted = dataclasses.replace(TREND, compute=lambda panel: calls.append(1) or panel.close)
    twin = Panel(bars.index, bars.symbols, bars.fields, bars.blocks.copy(), bars.mask)
    table = feature_table(bars, ["gap"], [counted])
    count = len(calls)  # once, and before it as often as it takes to see whether the feature looks ahead
    assert feature_table(twin, ["gap"], [counted]) is table
    assert len(calls) == count


def test_a_window_is_a_view_that_ends_at_t(bars: Panel) -> None:
    table = feature_table(bars)
    window = table.window("S1", 300, 24)
    assert np.shares_memory(window, table.values)
    np.testing.assert_array_equal(window, table.values[1, 277:301])
    np.testing.assert_array_equal(window, table.window(1, 300, 24))


@pytest.mark.parametrize(("t", "length"), [(22, 24), (400, 24), (-1, 1), (30, 0)])
def test_a_window_without_room_is_refused(bars: Panel, t: int, length: int) -> None:
    with pytest.raises(DataError, match=f"no window of {length} bars ends at bar {t}"):
        feature_table(bars).window("S0", t, length)


@pytest.mark.parametrize(("symbol", "hint"), [("s1", "no symbol 's1'"), (7, "from 0 to 2"), (-1, "from 0 to 2")])
def test_an_unknown_symbol_is_refused(bars: Panel, symbol: str | int, hint: str) -> None:
    with pytest.raises(DataError, match=hint):
        feature_table(bars).window(symbol, 100, 10)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(length=st.integers(1, 40), limit=st.floats(0, 1), seed=st.integers(0, 999))
def test_windows_missing_counts_the_rows_of_each_window(length: int, limit: float, seed: int) -> None:
    values = np.random.default_rng(seed).random((2, 30, 1), dtype=np.float32)
    values[values < 0.2] = np.nan
    index = pd.date_range("2020", periods=30, tz="UTC")
    table = FeatureTable(index, ("a", "b"), ("x",), values, {"x": 1}, {})
    missing = np.isnan(values[:, :, 0])
    expected = [
        [t < length - 1 or missing[s, t - length + 1 : t + 1].sum() > limit * length for t in range(30)]
        for s in range(2)
    ]
    np.testing.assert_array_equal(table.windows_missing(length, limit), expected)


def test_a_stored_table_comes_back_and_a_changed_file_is_refused(bars: Panel, tmp_path) -> None:
    table = feature_table(bars)
    path = table.save(tmp_path / "table.npz")
    again = FeatureTable.load(path)
    assert again.values.tobytes() == table.values.tobytes()
    assert again.fingerprint == table.fingerprint
    assert (again.names, again.symbols, again.left_out) == (table.names, table.symbols, table.left_out)
    assert again.index.equals(table.index)
    np.savez(path, **dict(np.load(path)) | {"values": table.values + 1})
    with pytest.raises(DataError, match="content hash differs"):
        FeatureTable.load(path)
    path.write_bytes(b"no table")
    with pytest.raises(DataError, match="is not a stored feature table"):
        FeatureTable.load(path)


def test_fingerprints_tell_tables_apart(bars: Panel) -> None:
    assert feature_table(bars, ["gap"]).fingerprint != feature_table(bars, ["return_1"]).fingerprint
    assert feature_table(bars, ["gap"]).fingerprint != feature_table(bars.rows(0, 399), ["gap"]).fingerprint


def test_a_table_travels_to_other_processes(bars):
    table = feature_table(bars)
    again = pickle.loads(pickle.dumps(table))
    assert again.fingerprint == table.fingerprint
    assert again.memory == table.memory


def test_a_table_is_a_frame_of_features_and_symbols() -> None:
    table = feature_table(ps.load("synthetic", symbols=2, bars=120, seed=1))
    frame = table.to_frame()
    assert frame.shape == (120, 2 * len(table.names))
    name, symbol = table.names[3], table.symbols[1]
    np.testing.assert_array_equal(frame[name, symbol].to_numpy(), table.values[1, :, 3])


def test_the_first_bars_of_a_panel_are_cut_from_its_table_bit_for_bit(bars: Panel, monkeypatch) -> None:
    names = list(FEATURES)
    alone = bars.with_field("sentiment", bars.close) if "sentiment" not in bars.fields else bars
    forget_tables()
    computed = feature_table(alone.rows(0, 250), names)
    forget_tables()
    whole = feature_table(alone, names)
    monkeypatch.setattr(table, "feature_column", lambda *_: pytest.fail("computed again"))
    cut, some = feature_table(alone.rows(0, 250), names), feature_table(alone.rows(0, 250), ["rsi_14", "return_5"])
    np.testing.assert_array_equal(cut.values, computed.values)
    np.testing.assert_array_equal(some.values[:, :, 1], whole.values[:, :250, names.index("return_5")])
    assert np.shares_memory(cut.values, whole.values)
    assert cut.index.equals(computed.index)


def test_other_bars_and_features_of_others_are_not_cut_from_a_table(bars: Panel) -> None:
    feature_table(bars, ["return_1"], [TREND])
    later = feature_table(bars.rows(100, None), ["return_1"])
    assert np.isnan(later.values[:, 0, 0]).all()
    asked: list[int] = []
    counted = dataclasses.replace(TREND, compute=lambda panel: asked.append(len(panel)) or TREND.compute(panel))
    feature_table(bars, ["return_1"], [counted])
    feature_table(bars.rows(0, 300), ["return_1"], [counted])
    assert asked[-1] == 300  # rounding may differ where somebody else computes


def test_the_same_prices_under_other_stamps_are_not_cut_from_a_table(bars: Panel, monkeypatch) -> None:
    feature_table(bars, ["return_1"])
    computed: list[str] = []
    own = table.feature_column
    monkeypatch.setattr(table, "feature_column", lambda panel, one: computed.append(one.name) or own(panel, one))
    later = dataclasses.replace(bars, index=bars.index + pd.Timedelta(hours=1))
    cut = feature_table(later.rows(0, 300), ["return_1"])
    assert computed == ["return_1"]
    assert cut.index.equals(later.index[:300])
