"""The two Lévy areas agree with pysiglib on every backend, and with the sum over all lags."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from pacesetter.leadlag import LeadLag
from pacesetter.panel import Panel

END, LOOKBACK = 300, 90


def area(curve: np.ndarray) -> np.ndarray:
    """½(S¹² − S²¹) of every pair by pysiglib, from (time, symbol) curves."""
    pysiglib = pytest.importorskip("pysiglib", reason="pysiglib is not installed")
    i, j = np.triu_indices(curve.shape[1], 1)
    second = pysiglib.sig(np.ascontiguousarray(np.stack([curve[:, i].T, curve[:, j].T], axis=-1)), 2)[:, 2:]
    out = np.zeros((curve.shape[1],) * 2)
    out[i, j] = 0.5 * (second[:, 1] - second[:, 2])
    return out - out.T


def window(panel: Panel) -> np.ndarray:
    return np.diff(np.log(panel.close[END - LOOKBACK : END + 1]), axis=0)


@pytest.mark.parametrize("backend", ["table", "gemm", "torch"])
def test_levy_path_is_the_signature_area_of_the_cumulated_path(noise: Panel, backend: str) -> None:
    x = window(noise)
    path = np.vstack([np.zeros(x.shape[1]), np.cumsum(x / x.std(axis=0), axis=0)])
    got = LeadLag("levy_path", backend=backend).fit(noise).scores(END, LOOKBACK)
    assert_allclose(got, area(path), rtol=0, atol=1e-9 * np.abs(got).max())


@pytest.mark.parametrize("backend", ["table", "gemm", "torch"])
def test_levy_returns_is_the_signature_area_of_the_standardised_returns(noise: Panel, backend: str) -> None:
    x = window(noise)
    got = LeadLag("levy_returns", backend=backend).fit(noise).scores(END, LOOKBACK)
    assert_allclose(got, area((x - x.mean(axis=0)) / x.std(axis=0)), rtol=0, atol=1e-9 * np.abs(got).max())


def test_levy_path_is_the_sum_over_all_lags(noise: Panel) -> None:
    x = window(noise) / window(noise).std(axis=0)
    products = sum(x[:-lag].T @ x[lag:] for lag in range(1, LOOKBACK))
    got = LeadLag("levy_path").fit(noise).scores(END, LOOKBACK)
    assert_allclose(got, 0.5 * (products - products.T), atol=1e-9)


def test_the_two_levy_scores_disagree(noise: Panel) -> None:
    path, returns = (LeadLag(name).fit(noise).scores(END, LOOKBACK) for name in ("levy_path", "levy_returns"))
    assert (np.sign(path) != np.sign(returns)).any()


def test_a_planted_leader_leads(panel_of) -> None:
    z = np.random.default_rng(1).standard_normal(401)
    panel = panel_of(0.01 * np.stack([z[1:], z[:-1]], axis=1))  # the second asset repeats the first a bar later
    for method in ("levy_path", "levy_returns"):
        assert LeadLag(method).fit(panel).scores(400, 300)[0, 1] > 0
