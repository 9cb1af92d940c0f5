from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pacesetter.data import load
from pacesetter.envs.batch.tables import ObservationTables
from pacesetter.errors import ConfigError, DataError
from pacesetter.features import feature_table
from pacesetter.features.feature import default_names
from pacesetter.panel import Panel
from pacesetter.serving.bundle.bundle import FeatureSpec
from pacesetter.serving.trader.history import History

BARS, WARM, WINDOW = 470, 420, 5
NAMES = [*default_names(), "signature_regime"]
RECURSIVE = ("close_to_ema_12", "close_to_ema_26", "rsi_14", "macd", "macd_signal", "atr_14", "adx_14")


@pytest.fixture(scope="module")
def panel() -> Panel:
    return load("synthetic", symbols=3, bars=BARS, seed=3)


def spec_of(panel: Panel) -> FeatureSpec:
    table = feature_table(panel, NAMES)
    entries = ObservationTables.from_table(table).names
    return FeatureSpec(table.names, dict(table.memory), panel.fields, panel.symbols, entries, WINDOW, 252.0)


def with_hole(panel: Panel, bar: int) -> Panel:
    """One symbol without the bar, and another without its volume."""
    blocks, mask = panel.blocks.copy(), panel.mask.copy()
    blocks[:, bar, 1], mask[bar, 1] = np.nan, False
    blocks[panel.fields.index("volume"), bar, 2] = np.nan
    return replace(panel, blocks=blocks, mask=mask, truth=None)


@pytest.mark.parametrize("hole", [None, 300, 440])
def test_windows_are_equal_to_the_table_bit_for_bit(panel: Panel, hole: int | None) -> None:
    panel = panel if hole is None else with_hole(panel, hole)
    spec, tables = spec_of(panel), ObservationTables.from_table(feature_table(panel, NAMES))
    history = History(spec, panel.symbols)
    history.append(panel.rows(0, WARM))
    exact = [k for k, name in enumerate(tables.names["window"]) if name not in RECURSIVE]
    for t in range(WARM, BARS):
        history.append(panel.rows(t, t + 1))
        seen, expected = history.observation(), tables.windows[:, t - WINDOW + 1 : t + 1]
        np.testing.assert_array_equal(seen["window"][:, :, exact], expected[:, :, exact])
        np.testing.assert_allclose(seen["window"], expected, rtol=2e-6, atol=1e-9)
        np.testing.assert_array_equal(seen["regime"], tables.context[:, t, tables.places["regime"]])


def test_a_recursion_depends_on_its_memory_alone(panel: Panel) -> None:
    spec = spec_of(panel)
    grown, begun = History(spec, panel.symbols), History(spec, panel.symbols)
    grown.append(panel.rows(0, WARM))
    for t in range(WARM, BARS):
        grown.append(panel.rows(t, t + 1))
    begun.append(panel.rows(BARS - spec.memory_bars, BARS - 1))
    begun.append(panel.rows(BARS - 1, BARS))
    np.testing.assert_array_equal(begun.observation()["window"][:, -1], grown.observation()["window"][:, -1])


def test_what_was_handed_out_never_changes(panel: Panel) -> None:
    history = History(spec_of(panel), panel.symbols)
    history.append(panel.rows(0, 10))
    kept = []
    for t in range(10, BARS):
        history.append(panel.rows(t, t + 1))
        assert history.panel is not None
        kept.append((history.panel, history.observation()["window"], history.observation()["window"].copy()))
    for t, (held, window, copied) in enumerate(kept, start=10):
        assert held == panel.rows(t + 1 - len(held), t + 1)
        np.testing.assert_array_equal(window, copied)
    assert len(kept[-1][0]) == history.spec.memory_bars + 1


def test_older_bars_and_unknown_features_are_refused(panel: Panel) -> None:
    spec = spec_of(panel)
    history = History(spec, panel.symbols)
    with pytest.raises(DataError, match="there is no bar; give"):
        history.append(panel.rows(0, 0))
    history.append(panel.rows(0, 20))
    with pytest.raises(DataError, match=r"is not after the last one .*; history is never rewritten"):
        history.append(panel.rows(19, 21))
    with pytest.raises(ConfigError, match="rsi_14"):
        History(replace(spec, names=("rsi_15", *spec.names)), panel.symbols)
