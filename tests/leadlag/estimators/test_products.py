"""Lagged products held a span at a time are bit-exactly those of the whole table, in whatever order they are asked."""

from __future__ import annotations

import numpy as np
import pytest

from pacesetter.data import load
from pacesetter.leadlag.engine import LeadLag
from pacesetter.leadlag.estimators import products
from pacesetter.leadlag.estimators.products import KEPT_EVERY, LaggedProducts, lagged_products

SYMBOLS, BARS, LAGS = 6, 420, 5
ROW_BYTES = LAGS * SYMBOLS * SYMBOLS * 8
CAPACITY = 120


@pytest.fixture(scope="module")
def panel():
    return load("synthetic", symbols=SYMBOLS, bars=BARS, seed=2, late_share=0.4)


@pytest.fixture
def tight(panel, monkeypatch) -> LeadLag:
    monkeypatch.setattr(products, "HELD_BYTES", CAPACITY * ROW_BYTES)
    monkeypatch.setattr(products, "_latest", None)
    engine = LeadLag("ccf_auc").fit(panel)
    assert not engine.scorer_.products.is_whole
    return engine


@pytest.fixture(scope="module")
def roomy(panel) -> LeadLag:
    engine = LeadLag("ccf_auc").fit(panel)
    assert engine.scorer_.products.is_whole
    return engine


def test_all_windows_in_order(roomy, tight):
    ends, lookbacks = roomy.windows([10, 60, 110])
    np.testing.assert_array_equal(tight.many(ends, lookbacks), roomy.many(ends, lookbacks))
    assert tight.table_bytes_ < 0.5 * roomy.table_bytes_


def test_windows_at_random_and_one_longer_than_the_span(roomy, tight):
    generator = np.random.default_rng(0)
    ends = generator.integers(200, BARS, 150)
    lookbacks = generator.integers(2, 200, 150)
    np.testing.assert_array_equal(tight.many(ends, lookbacks), roomy.many(ends, lookbacks))
    np.testing.assert_array_equal(tight.matrix(BARS - 1, 400), roomy.matrix(BARS - 1, 400))


def test_bar_after_bar_as_a_policy_asks(roomy, tight):
    lookbacks = np.arange(10, 100, 10)
    for t in range(150, 360):
        np.testing.assert_array_equal(tight.many(t, lookbacks), roomy.many(t, lookbacks))
    np.testing.assert_array_equal(tight.matrix(200, 50), roomy.matrix(200, 50))  # and back


def test_the_span_moves_on_by_the_rows_that_are_new(panel):
    x = LeadLag("ccf_auc").fit(panel).series_.x
    table = LaggedProducts(x, LAGS, CAPACITY * ROW_BYTES)
    table.hold(100, 180)
    assert table.missing(110, 190) == 10
    table.hold(110, 190)
    assert (table.first, table.missing(100, 190)) == (100, 0)
    table.hold(150, 260)  # more than fits: begins at 150
    assert (table.first, table.missing(150, 260)) == (150, 0)
    assert table.missing(0, CAPACITY) > CAPACITY  # never
    np.testing.assert_array_equal(table.held[: table.count], LaggedProducts(x, LAGS).held[150:261])
    bars = np.array([3, 40, 40 + KEPT_EVERY, 7])
    np.testing.assert_array_equal(table.rows(bars), LaggedProducts(x, LAGS).held[bars])


def test_equal_increments_share_one_table_while_somebody_holds_it(panel):
    first = LeadLag("ccf_auc").fit(panel)
    other = LeadLag("ccf_auc", variant="difference").fit(panel)
    assert other.scorer_.products is first.scorer_.products
    assert lagged_products(first.series_.x, 1) is not first.scorer_.products
