"""Feature tables as observations read them: what was unknown, and how much memory it takes to fill it."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

from pacesetter.data import load
from pacesetter.envs.batch import tables
from pacesetter.envs.batch.tables import ObservationTables, last_known
from pacesetter.features.table import FeatureTable

SYMBOLS, BARS, FEATURES = 8, 3_000, 20


@pytest.fixture(scope="module")
def table() -> FeatureTable:
    panel, rng = load("synthetic", symbols=SYMBOLS, bars=BARS, seed=1), np.random.default_rng(0)
    values = rng.standard_normal((SYMBOLS, BARS, FEATURES)).astype(np.float32)
    values[rng.random(values.shape) < 0.3] = np.nan
    names = tuple(f"regime_{place}" if place % 4 == 0 else f"feature_{place}" for place in range(FEATURES))
    return FeatureTable(panel.index, panel.symbols, names, values, dict.fromkeys(names, 1), {})


def carried(values: Any) -> Any:
    """The definition, one value after another."""
    last = np.float32(0)
    return np.array([last := (last if np.isnan(value) else value) for value in values], np.float32)


def test_what_is_unknown_is_what_was_last_known_or_0(table: FeatureTable) -> None:
    made = ObservationTables.from_table(table)
    window = [place for place in range(FEATURES) if place % 4]
    assert made.names["window"] == tuple(table.names[place] for place in window)
    for symbol, place in ((0, 0), (3, 5), (7, FEATURES - 5 - 1)):
        np.testing.assert_array_equal(made.windows[symbol, :, place], carried(table.values[symbol, :, window[place]]))
    np.testing.assert_array_equal(made.context[2, :, 1], carried(table.values[2, :, 4]))
    assert np.isnan(table.values).any()  # the table itself is left as it is


def test_some_columns_are_filled_as_all_are(table: FeatureTable) -> None:
    np.testing.assert_array_equal(last_known(table.values, columns=[5, 2]), last_known(table.values)[:, :, [5, 2]])


def test_filling_needs_no_second_copy(table: FeatureTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "CHUNK", table.values[0].size)  # a symbol at a time
    tracemalloc.start()
    try:
        made = ObservationTables.from_table(table)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    left = made.windows.nbytes + made.context.nbytes
    assert most < left + 6 * table.values[0].nbytes + 2 * made.context.nbytes
