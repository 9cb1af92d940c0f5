"""Families of markets: drifts and volatilities as asked, regimes' own bars, blocks in a new order, by seed."""

from __future__ import annotations

import numpy as np
import pytest

from pacesetter.data.synthetic import Synthetic
from pacesetter.errors import ConfigError, DataError
from pacesetter.methods.meta.families import FAMILIES, add_drift, family_tasks, resample_panel


@pytest.fixture(scope="module")
def panel():
    return Synthetic(symbols=3, bars=600, seed=1).read()


def moves(panel):
    return np.diff(np.log(panel.close), axis=0)


@pytest.mark.parametrize("family", FAMILIES)
def test_tasks_repeat_by_seed_and_bars_stay_bars(panel, family):
    first, again = (family_tasks(family, panel, 3, seed=4) for _ in range(2))
    assert [task.label for task in first] == [task.label for task in again]
    for one, other in zip(first, again, strict=True):
        np.testing.assert_array_equal(one.panel.blocks, other.panel.blocks)
        assert one.panel.symbols == panel.symbols
        assert (one.panel["high"] >= one.panel["low"] - 1e-9).all()
        assert (one.panel["high"] >= one.panel.close - 1e-9).all()
        assert one.panel.truth is None
    assert len({task.panel.fingerprint for task in first}) == len(first)


def test_a_drift_is_in_annual_deviations(panel):
    other = add_drift(panel, 2.0, factor=1.5)
    deviation = moves(panel).std(axis=0) * 1.5
    np.testing.assert_allclose(moves(other).std(axis=0), deviation, rtol=1e-6)
    gained = moves(other).mean(axis=0) - 1.5 * moves(panel).mean(axis=0)
    np.testing.assert_allclose(gained * panel.bars_per_year, 2.0 * deviation * panel.bars_per_year**0.5, rtol=0.02)


def test_a_drift_falls_between_open_and_close_where_an_order_of_the_bar_earns_it(panel):
    other = add_drift(panel, 2.0)
    each = 2.0 * moves(panel).std(axis=0) / panel.bars_per_year**0.5
    within = np.log(other.close / other["open"]) - np.log(panel.close / panel["open"])
    np.testing.assert_allclose(within, np.broadcast_to(each, within.shape), atol=1e-9)
    gaps = [np.log(some["open"][1:] / some.close[:-1]) for some in (panel, other)]
    np.testing.assert_allclose(gaps[0], gaps[1], atol=1e-9)
    falls = add_drift(panel, -3.0)
    assert (falls["high"] >= np.maximum(falls["open"], falls.close)).all()
    assert (falls["low"] <= np.minimum(falls["open"], falls.close)).all()


def test_bull_and_bear_take_turns(panel):
    labels = [task.label for task in family_tasks("persistent", panel, 4, seed=0)]
    assert labels == ["bull", "bear", "bull", "bear"]


def test_mixed_markets_come_in_pairs_of_which_neither_side_outweighs(panel):
    tasks = family_tasks("mixed", panel, 6, seed=3)
    assert sum(task.drift for task in tasks) == 0
    for up, down in zip(tasks[::2], tasks[1::2], strict=True):
        assert up.drift == -down.drift > 0
        np.testing.assert_allclose(moves(up.panel).std(axis=0), moves(down.panel).std(axis=0))
    assert len(family_tasks("mixed", panel, 3, seed=3)) == 3


def test_a_resampled_bar_moves_as_its_source_did(panel):
    rows = np.arange(len(panel))[::-1]
    other = resample_panel(panel, rows)
    np.testing.assert_allclose(moves(other)[:-1], moves(panel)[rows[1:-1] - 1], atol=1e-12)
    np.testing.assert_allclose(other["open"] / other.close, (panel["open"] / panel.close)[rows])
    np.testing.assert_array_equal(other["volume"], panel["volume"][rows])


def test_regimes_differ_in_volatility(panel):
    tasks = family_tasks("slices", panel, 3, seed=0)
    spread = [moves(task.panel).std() for task in tasks]
    assert spread[0] == min(spread)  # named from the calmest on
    assert max(spread) > 1.1 * min(spread)


def test_too_few_bars_and_unknown_families_are_refused(panel):
    with pytest.raises(ConfigError, match=r"agent\.family=blend is unknown; did you mean .*blends"):
        family_tasks("blend", panel, 2, 0)
    with pytest.raises(DataError, match="slices"):
        family_tasks("slices", panel.rows(0, 90), 3, 0)
