"""Pictures show the numbers they are given."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from pacesetter.evaluation.report import pictures
from pacesetter.panel import Panel


@pytest.fixture
def panel():
    close = np.array([[10.0, np.nan], [11.0, 5.0], [12.0, 10.0], [np.nan, 5.0]])
    return Panel.from_fields(pd.date_range("2020-01-01", periods=4, tz="UTC"), ["A", "B"], {"close": close})


def test_prices_start_at_100_at_each_symbols_first_bar(panel):
    figure = pictures.prices(panel)
    assert [trace.name for trace in figure.data] == ["A", "B"]
    np.testing.assert_allclose(figure.data[0].y[:3], [100, 110, 120])
    np.testing.assert_allclose(figure.data[1].y[1:], [100, 200, 100])


def test_no_two_lines_of_a_figure_look_alike():
    days = pd.date_range("2020-01-01", periods=3, tz="UTC")
    figure = pictures.lookbacks(days, {str(place): np.full(3, place + 1) for place in range(11)})
    looks = [(trace.line.color, trace.line.dash) for trace in figure.data]
    assert len(set(looks)) == 11
    assert [dash for _, dash in looks] == ["solid"] * 8 + ["dash"] * 3


def test_coverage_is_the_observed_share(panel):
    np.testing.assert_array_equal(pictures.coverage(panel, buckets=2).data[0].z, [[1.0, 0.5], [0.5, 1.0]])


def test_regime_shares_add_up(panel):
    labels = np.array([[-1, -1], [0, 1], [1, 1], [-1, 0]])
    shares = [trace.y for trace in pictures.regimes(panel, labels, ("bull", "bear")).data]
    np.testing.assert_array_equal(shares, [[0, 0.5, 0, 1], [0, 0.5, 1, 0]])
