"""Scores from lagged dependence: they agree with pandas and with definitions, and reach REFERENCE §1."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from pacesetter.errors import ConfigError
from pacesetter.leadlag import LeadLag
from pacesetter.panel import Panel

END, LOOKBACK, MAX_LAG = 300, 80, 4
BACKENDS = ["table", "gemm", "torch"]


def by_pandas(panel: Panel, method: Callable[..., float] | str = "pearson") -> np.ndarray:
    """(lag, symbol, symbol) `x_i.shift(lag).corr(x_j)` over the window; a missing increment is zero."""
    x = pd.DataFrame(np.log(panel.close)).where(panel.mask).diff().fillna(0.0).iloc[END - LOOKBACK + 1 : END + 1]
    pairs = range(x.shape[1])
    return np.array(
        [[[x[i].shift(lag).corr(x[j], method=method) for j in pairs] for i in pairs] for lag in range(1, MAX_LAG + 1)]
    )


@pytest.fixture(scope="module")
def gappy(panel_of) -> Panel:
    rng = np.random.default_rng(8)
    mask = np.ones((400, 5), bool)
    mask[:, 1] = rng.random(400) > 0.1
    return panel_of(0.01 * rng.standard_normal((399, 5)), mask)


@pytest.mark.parametrize("backend", BACKENDS)
def test_ccf_lag1_is_the_difference_of_pandas_correlations(gappy: Panel, backend: str) -> None:
    lag1 = by_pandas(gappy)[0]
    assert_allclose(LeadLag("ccf_lag1", backend=backend).fit(gappy).scores(END, LOOKBACK), lag1 - lag1.T, atol=1e-12)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("inner", ["pearson", "squared"])
def test_ccf_auc_has_both_published_forms(gappy: Panel, backend: str, inner: str) -> None:
    size = np.abs(by_pandas(gappy) if inner == "pearson" else by_pandas(gappy) ** 2).sum(axis=0)
    larger = np.sign(size - size.T) * np.maximum(size, size.T) / (size + size.T)
    for variant, expected in (("published", larger), ("difference", (size - size.T) / (size + size.T))):
        lag = LeadLag("ccf_auc", max_lag=MAX_LAG, variant=variant, inner=inner, backend=backend).fit(gappy)
        assert_allclose(lag.scores(END, LOOKBACK), expected, atol=1e-12)


@pytest.mark.parametrize("backend", BACKENDS)
def test_ccf_peak_is_the_larger_peak(gappy: Panel, backend: str) -> None:
    peak = np.abs(by_pandas(gappy)).max(axis=0)
    got = LeadLag("ccf_peak", max_lag=MAX_LAG, backend=backend).fit(gappy).scores(END, LOOKBACK)
    assert_allclose(got, peak - peak.T, atol=1e-12)


def test_lags_and_correlations_find_planted_delays(panel_of) -> None:
    z = np.random.default_rng(4).standard_normal(300)
    delays = [0, 1, 3]
    panel = panel_of(0.01 * np.stack([z[10 - delay : 290 - delay] for delay in delays], axis=1))
    lag = LeadLag("ccf_peak", max_lag=5).fit(panel)
    assert_array_equal(lag.lags(270, 200), np.subtract.outer(delays, delays).T)
    assert lag.correlations(270, 200).shape == (5, 3, 3)
    assert lag.correlations(270, 200)[2, 0, 2] > 0.99


def test_kendall_agrees_with_scipy_and_counts_ties(gappy: Panel) -> None:
    assert_allclose(
        LeadLag("ccf_peak", max_lag=MAX_LAG, inner="kendall").fit(gappy).correlations(END, LOOKBACK),
        by_pandas(gappy, "kendall"),
        atol=1e-12,
    )


def test_distance_correlation_agrees_with_its_definition(gappy: Panel) -> None:
    def distance_correlation(x: np.ndarray, y: np.ndarray) -> float:
        a, b = (np.abs(np.subtract.outer(v, v)) for v in (x, y))
        a, b = (m - m.mean(0) - m.mean(1)[:, None] + m.mean() for m in (a, b))
        return float(np.sqrt((a * b).mean() / np.sqrt((a * a).mean() * (b * b).mean())))

    got = LeadLag("ccf_peak", max_lag=MAX_LAG, inner="distance").fit(gappy).correlations(END, LOOKBACK)
    assert_allclose(got, by_pandas(gappy, distance_correlation), atol=1e-10)


@pytest.mark.parametrize(
    ("groups", "sigma", "known"),
    [
        (10, 1, {"ccf_lag1": 0.583, "ccf_auc": 0.891, "levy_path": 0.718}),
        (10, 2, {"ccf_lag1": 0.593, "ccf_auc": 0.787, "levy_path": 0.578}),
        (5, 1, {"ccf_lag1": 0.676, "ccf_auc": 1.0, "levy_path": 0.722}),
    ],
)
def test_sign_accuracy_reaches_the_known_answers(planted, groups: int, sigma: float, known: dict[str, float]) -> None:
    """REFERENCE §1 within 0.02: lags 0 … groups−1, max_lag 5, mean over 10 seeds of pairs from different groups."""
    hits: dict[str, list[float]] = {method: [] for method in known}
    for seed in range(10):
        panel, lags = planted(groups, sigma, seed)
        truth = np.sign(lags - lags[:, None])
        for method in known:
            score = LeadLag(method, backend="gemm").fit(panel).scores(250, 250)
            hits[method].append(float((np.sign(score) == truth)[truth != 0].mean()))
    for method, share in known.items():
        assert np.mean(hits[method]) >= share - 0.02, method


@settings(max_examples=25, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10_000), lookback=st.integers(2, 40), quiet=st.integers(0, 30))
def test_backends_agree_on_any_window(panel_of, seed: int, lookback: int, quiet: int) -> None:
    """Also where an asset rests for a while, so that parts of the window are constant."""
    rng = np.random.default_rng(seed)
    returns = 0.01 * rng.standard_normal((60, 4))
    returns[20 : 20 + quiet, 2] = 0.0
    panel = panel_of(returns, rng.random((61, 4)) > 0.05)
    scores = [
        LeadLag("ccf_auc", variant="difference", min_observations=2, backend=backend).fit(panel).scores(50, lookback)
        for backend in BACKENDS
    ]
    assert_allclose(scores[0], scores[1], atol=1e-9)
    assert_allclose(scores[0], scores[2], atol=1e-9)


def test_too_short_an_overlap_counts_as_zero(noise: Panel) -> None:
    assert (LeadLag("ccf_auc").fit(noise).scores(50, 2) == 0).all()


def test_options_out_of_range_are_refused(noise: Panel) -> None:
    for options, message in (
        ({"max_lag": 0}, "lag.max_lag=0 must be 1 or more"),
        ({"method": "mutual_information", "bins": 1}, "lag.bins=1 must be 2 or more"),
        ({"inner": "kendall", "backend": "table"}, "has no backend 'table'"),
    ):
        with pytest.raises(ConfigError, match=message):
            LeadLag(**options).fit(noise)
