from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from pacesetter.errors import ConfigError
from pacesetter.features import FEATURES, Feature, feature_table, symbolwise
from pacesetter.features.rolling import change
from pacesetter.panel import Panel


def spread(high: np.ndarray, low: np.ndarray, factor: float) -> np.ndarray:
    return factor * (high - low)


def test_the_arguments_without_default_name_the_fields() -> None:
    feature = symbolwise("spread", partial(spread, factor=2.0), memory_bars=1)
    assert feature.needs == ("high", "low")
    assert feature.kind == "custom"


def test_a_gap_does_not_count_as_a_bar(make_bars) -> None:
    close = np.array([[1.0], [2.0], [999.0], [5.0]])
    panel = make_bars(close, mask=np.array([[True], [True], [False], [True]]))
    step = symbolwise("step", lambda close: change(close), memory_bars=2)
    np.testing.assert_array_equal(step.compute(panel)[:, 0], [np.nan, 1.0, np.nan, 3.0])


def test_a_bar_whose_needed_field_is_missing_is_passed_over(bars: Panel) -> None:
    volume = bars.volume.copy()
    volume[100, 1] = np.nan
    table = feature_table(bars.with_field("volume", volume), ["volume_ratio_20", "return_1", "rsi_14"])
    assert np.isnan(table.values[1, 100, 0])
    assert np.isfinite(table.values[1, 101:]).all()
    assert np.isfinite(table.values[1, 100, 1:]).all()


@pytest.mark.parametrize("name", ["rsi_14", "obv_20", "by_panel"])
def test_values_since_a_bar_are_those_of_the_bars_alone(name: str, bars: Panel) -> None:
    mask = np.random.default_rng(0).random(bars.mask.shape) > 0.2
    gappy = Panel(bars.index, bars.symbols, bars.fields, bars.blocks, mask)
    by_panel = Feature("by_panel", ("close",), 1, lambda panel: np.cumsum(panel.close, axis=0))
    feature = by_panel if name == "by_panel" else FEATURES[name]
    for panel in (bars, gappy):
        np.testing.assert_array_equal(feature.compute_since(panel, 300), feature.compute(panel.rows(300, None)))


@pytest.mark.parametrize("name", ["rsi_14", "obv_20", "sentiment"])
def test_symbols_with_and_without_gaps_have_the_values_that_each_has_alone(name: str, bars: Panel) -> None:
    mask = np.ones(bars.mask.shape, bool)
    mask[50:60, 1], mask[:, 2] = False, False
    panel = Panel(bars.index, bars.symbols, bars.fields, bars.blocks, mask).with_field("sentiment", bars.close)
    together = FEATURES[name].compute(panel)
    alone = [FEATURES[name].compute(panel.select([symbol]))[:, 0] for symbol in bars.symbols]
    np.testing.assert_array_equal(together, np.stack(alone, axis=1))
    assert np.isfinite(together[-1]).tolist() == [True, True, False]


def test_whole_bars_are_taken_as_they_are(bars: Panel) -> None:
    feature = FEATURES["adx_14"]
    np.testing.assert_array_equal(feature.compute_since(bars, 20, is_whole=True), feature.compute_since(bars, 20))


def test_a_feature_without_memory_is_refused() -> None:
    with pytest.raises(ConfigError, match="'empty' has memory_bars=0"):
        Feature("empty", (), 0, lambda panel: panel.close)


def test_an_unknown_feature_is_refused_with_its_neighbour() -> None:
    with pytest.raises(ConfigError, match="did you mean 'rsi_14'"):
        FEATURES["rsi_15"]
