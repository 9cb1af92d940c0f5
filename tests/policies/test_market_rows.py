"""One observation wherever it is asked for: gathered from a table, or kept row by row, bit for bit the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pacesetter.data import load
from pacesetter.envs.batch.account_entries import POSITION_SIZE, PortfolioEntry
from pacesetter.envs.batch.observation import ObservationBuilder
from pacesetter.features import FEATURES, feature_table
from pacesetter.features.table import FeatureTable
from pacesetter.panel import Panel
from pacesetter.policies.market_rows import LatestRows, bank_observer, market_bank, table_observer, with_account

WINDOW = 5


@pytest.fixture(scope="module")
def market() -> tuple[Panel, FeatureTable]:
    """Four symbols with a table in which features are unknown here and there, and one symbol's at first."""
    panel = load("synthetic", symbols=4, bars=120, seed=2)
    names = ["return_1", "volatility_10", *[name for name in FEATURES if name.startswith("regime_")][:2]]
    table = feature_table(panel, names)
    values = table.values.copy()
    values[np.random.default_rng(0).random(values.shape) < 0.2] = np.nan
    values[1, :40] = np.nan
    return panel, replace(table, values=values)


@pytest.mark.parametrize("step", [1, 3, 7, 50])
def test_rows_as_they_come_show_what_the_whole_table_shows(market: tuple[Panel, FeatureTable], step: int) -> None:
    panel, table = market
    builder = ObservationBuilder(market_bank(panel, table), WINDOW)
    latest = LatestRows(table.names, len(panel.symbols), WINDOW)
    vector = np.zeros(builder.vector_size, np.float32)
    for first in range(0, 100, step):
        latest.append(table.values[:, first : first + step])
        last = min(first + step, len(panel)) - 1
        if last < WINDOW - 1:
            continue
        expected = builder.build(0, last, vector)
        entries = latest.entries()
        assert {"window", "regime"} == set(entries)
        for name, entry in entries.items():
            np.testing.assert_array_equal(entry, expected[name])
            assert entry.dtype == np.float32
    assert latest.known.shape == (len(panel.symbols), WINDOW)


def test_what_was_never_known_is_zero_and_not_known(market: tuple[Panel, FeatureTable]) -> None:
    _, table = market
    latest, values = LatestRows(table.names[:2], 4, WINDOW), table.values[:, :, :2]  # regimes remember more bars
    latest.append(values[:, :20])
    assert not latest.entries()["window"][1].any()
    assert not latest.known[1].any()
    latest.append(values[:, 20:])
    assert latest.known.all()


def test_a_trader_with_all_bars_sees_the_last_row_of_the_table() -> None:
    panel = load("synthetic", symbols=3, bars=90, seed=1)
    builder = ObservationBuilder(market_bank(panel), WINDOW)
    expected = builder.build(0, 79, np.zeros(builder.vector_size, np.float32))
    for observe in (table_observer(WINDOW), bank_observer(market_bank(panel), WINDOW)):
        found = observe(panel.rows(0, 80))
        for name in set(expected) - {"position", "portfolio"}:
            np.testing.assert_array_equal(found[name], expected[name])


def test_the_account_joins_as_in_training() -> None:
    panel = load("synthetic", symbols=3, bars=90, seed=1)
    builder = ObservationBuilder(market_bank(panel), WINDOW)
    vector = np.arange(builder.vector_size, dtype=np.float32)
    expected = builder.build(0, 79, vector)
    found = with_account({name: expected[name] for name in ("window",)}, vector)
    assert found["position"].shape == (3, POSITION_SIZE)
    assert found["portfolio"].shape == (len(PortfolioEntry),)
    for name in ("position", "portfolio"):
        np.testing.assert_array_equal(found[name], expected[name])
