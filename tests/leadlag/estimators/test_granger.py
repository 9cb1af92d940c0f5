"""The sparse autoregression: statsmodels' coefficients where everything is chosen, and the direct links alone."""

from __future__ import annotations

import numpy as np
import pytest

from pacesetter.errors import ConfigError
from pacesetter.leadlag.answer import StrengthMeasure
from pacesetter.leadlag.estimators.granger import sparse_autoregression


def chain(seed: int = 0, bars: int = 3000) -> np.ndarray:
    """A leads B by one bar, B leads C by one: A leads C by two, but only through B. D is noise."""
    x = np.random.default_rng(seed).standard_normal((bars, 4))
    for t in range(1, bars):
        x[t, 1] += 0.5 * x[t - 1, 0]
        x[t, 2] += 0.5 * x[t - 1, 1]
    return x


def test_chosen_coefficients_and_statistics_are_those_of_statsmodels() -> None:
    api = pytest.importorskip("statsmodels.api")
    x = chain()
    beta, t = sparse_autoregression(x, 2)
    z = (x - x.mean(axis=0)) / x.std(axis=0)
    chosen = np.flatnonzero(beta[:, :, 2].ravel())
    past = np.hstack([z[1:-1], z[:-2]])[:, chosen]
    fitted = api.OLS(z[2:, 2], past).fit(cov_type="HC0")
    np.testing.assert_allclose(beta[:, :, 2].ravel()[chosen], fitted.params, rtol=1e-8)
    np.testing.assert_allclose(t[:, :, 2].ravel()[chosen], fitted.tvalues, rtol=1e-8)


def test_only_direct_links_are_chosen() -> None:
    beta, _ = sparse_autoregression(chain(), 5)
    linked = np.argwhere(np.abs(beta).sum(axis=0) > 0).tolist()
    assert linked == [[0, 1], [1, 2]]
    assert np.argwhere(beta).tolist() == [[0, 0, 1], [0, 1, 2]]


def test_noise_is_rarely_chosen() -> None:
    windows = (np.random.default_rng(seed).standard_normal((300, 6)) for seed in range(40))
    assert sum(bool(sparse_autoregression(window, 3)[0].any()) for window in windows) <= 6


def test_it_is_a_method_like_the_others() -> None:
    gauge = StrengthMeasure("granger", max_lag=2)
    assert (gauge.has_lags, gauge.is_conditional, gauge.is_signed) == (True, True, True)
    assert gauge.leadership(chain(bars=1000)[None])[0, 0, 1] > 0.3
    with pytest.raises(ConfigError, match=r"lag\.chance=0"):
        StrengthMeasure("granger", chance=0)
