"""What allocations have alike: capped shares and recent returns."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pacesetter.evaluation.baselines.baseline import cap_shares, recent_returns
from pacesetter.panel import Panel


@given(
    st.lists(st.floats(0, 1), min_size=1, max_size=30).filter(lambda shares: sum(shares) > 1e-3),
    st.floats(0.01, 1),
)
@settings(max_examples=100, deadline=None, derandomize=True)
def test_capped_shares_invest_as_much_as_the_cap_allows(given_shares: list[float], cap: float) -> None:
    shares = np.array(given_shares) / sum(given_shares)
    found = cap_shares(shares, cap)
    assert (found <= cap).all()
    assert (found[shares == 0] == 0).all()
    assert found.sum() == pytest.approx(min(1.0, cap * np.count_nonzero(shares)))
    order = np.argsort(shares)
    assert (np.diff(found[order]) >= -1e-12).all()  # who had more has no less


def test_the_excess_goes_to_the_others_in_proportion() -> None:
    np.testing.assert_allclose(cap_shares(np.array([0.7, 0.2, 0.1]), 0.4), [0.4, 0.4, 0.2])
    np.testing.assert_allclose(cap_shares(np.array([0.1, 0.1]), 0.4), [0.1, 0.1])


def test_recent_returns_run_from_one_observed_close_to_the_next() -> None:
    closes = np.array([[10.0, 1.0], [11.0, np.nan], [np.nan, np.nan], [22.0, 2.0]])
    panel = Panel.from_fields(pd.date_range("2020", periods=4, tz="UTC"), ["A", "B"], {"close": closes})
    nothing = [np.nan, np.nan]
    np.testing.assert_allclose(recent_returns(panel, 3), [[0.1, np.nan], nothing, [1.0, 1.0]])
    np.testing.assert_allclose(recent_returns(panel, 4), [nothing, [0.1, np.nan], nothing, [1.0, 1.0]])
    np.testing.assert_allclose(recent_returns(panel, 1), [nothing])
    assert recent_returns(panel, 0).shape == (0, 2)
