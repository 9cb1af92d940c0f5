"""Lagged products held a span at a time are bit-exactly those of the whole table, in whatever order they are asked."""

from __future__ import annotations

import numpy as np
import pytest

from pacesetter.data import load
from pacesetter.leadlag import LeadLag
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
    assert table.count_missing(110, 190) == 10
    table.hold(110, 190)
    assert (table.first, table.count_missing(100, 190)) == (100, 0)
    table.hold(150, 260)  # more than fits: begins at 150
    assert (table.first, table.count_missing(150, 260)) == (150, 0)
    assert table.count_missing(0, CAPACITY) > CAPACITY  # never
    np.testing.assert_array_equal(table.held[: table.count], LaggedProducts(x, LAGS).held[150:261])
    bars = np.array([3, 40, 40 + KEPT_EVERY, 7])
    np.testing.assert_array_equal(table.rows(bars), LaggedProducts(x, LAGS).held[bars])


def test_equal_increments_share_one_table_while_somebody_holds_it(panel):
    first = LeadLag("ccf_auc").fit(panel)
    other = LeadLag("ccf_auc", variant="difference").fit(panel)
    assert other.scorer_.products is first.scorer_.products
    assert lagged_products(first.series_.x, 1) is not first.scorer_.products


def test_tables_together_hold_no_more_than_one_may_and_give_the_same_bits() -> None:
    generator = np.random.default_rng(3)
    markets = [generator.standard_normal((300, 4)) for _ in range(3)]
    row_bytes = 2 * 4 * 4 * 8
    tight = [LaggedProducts(x, 2, 100 * row_bytes) for x in markets]
    whole = [LaggedProducts(x, 2) for x in markets]
    for first, last in ((10, 90), (40, 120), (41, 130), (200, 290), (5, 60)):
        for some, everything in zip(tight, whole, strict=True):
            some.hold(first, last)
            rows = some.held[first - some.first : last + 1 - some.first]
            assert np.array_equal(rows, everything.held[first : last + 1])
            assert sum(table.count for table in tight) <= 100
