"""Mutual information and transfer entropy agree with scikit-learn on contingency tables.

Runs `leadlag.estimators.dependence`.
"""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import mutual_info_score

from pacesetter.leadlag import LeadLag
from pacesetter.leadlag.estimators.information import lagged_information, lagged_transfer, quantile_bins


@pytest.fixture
def window() -> np.ndarray:
    x = np.random.default_rng(6).standard_normal((120, 4))
    x[:, 3] = np.roll(x[:, 0], 1) ** 2  # a dependence that no correlation sees
    x[::3, 1] = 0.0
    return x


def test_bins_are_quartiles_and_ties_stay_together(window: np.ndarray) -> None:
    labels = quantile_bins(window, 4)
    assert_array_equal(np.bincount(labels[:, 0]), [30, 30, 30, 30])
    assert len(np.unique(labels[::3, 1])) == 1


@pytest.mark.parametrize("bins", [2, 4, 5])
def test_mutual_information_is_sklearn_contingency_form(window: np.ndarray, bins: int) -> None:
    labels = quantile_bins(window, bins)
    for lag, got in zip((1, 2), lagged_information(window, (1, 2), bins), strict=True):
        expected = [[mutual_info_score(a, b) for b in labels[lag:].T] for a in labels[:-lag].T]
        assert_allclose(got, expected, atol=1e-12)


def test_transfer_entropy_is_conditional_information(window: np.ndarray) -> None:
    """I(source; future | past) = I(source; (future, past)) − I(source; past), each by scikit-learn."""
    labels = quantile_bins(window, 3)
    for lag, got in zip((1, 2), lagged_transfer(window, (1, 2), 3), strict=True):
        past, future, source = labels[lag - 1 : -1].T, labels[lag:].T, labels[:-lag].T
        expected = [
            [mutual_info_score(s, 3 * f + p) - mutual_info_score(s, p) for f, p in zip(future, past, strict=True)]
            for s in source
        ]
        assert_allclose(got, np.maximum(expected, 0), atol=1e-12)


@pytest.mark.parametrize("method", ["mutual_information", "transfer_entropy"])
def test_a_nonlinear_leader_is_seen(method: str, panel_of, window: np.ndarray) -> None:
    matrix = LeadLag(method).fit(panel_of(0.01 * window)).scores(120, 120)
    assert matrix[0, 3] == np.nanmax(matrix)
    assert matrix[0, 3] > 0.2


def test_inner_mutual_information_matches_the_estimator(panel_of, window: np.ndarray) -> None:
    panel = panel_of(0.01 * window)
    inner = LeadLag("ccf_lag1", inner="mutual_information").fit(panel).scores(100, 60)
    assert_allclose(inner, LeadLag("mutual_information").fit(panel).scores(100, 60), atol=1e-15)
