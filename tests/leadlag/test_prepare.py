"""Increments of a window: residuals and whitening do what they say, on that window alone."""

from __future__ import annotations

import numpy as np
import pytest

from pacesetter.errors import ConfigError
from pacesetter.leadlag.answer import Preparation, prewhiten


def correlated(seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((800, 1)) + 0.7 * rng.standard_normal((800, 6))


def mean_correlation(x: np.ndarray) -> float:
    return float(np.corrcoef(x.T)[np.triu_indices(x.shape[1], 1)].mean())


@pytest.mark.parametrize("residual", ["market", "pca(1)", "pca"])
def test_residuals_lack_the_common_factor(residual: str) -> None:
    x = correlated()
    assert mean_correlation(x) > 0.6
    assert abs(mean_correlation(Preparation(residual=residual).window(x))) < 0.25


def test_components_are_read_and_refused() -> None:
    assert [Preparation(residual=text).components for text in ("none", "market", "pca", "pca(3)")] == [0, 0, 1, 3]
    with pytest.raises(ConfigError, match=r"lag\.residual=pca\(6\) leaves nothing of 6 symbols"):
        Preparation(residual="pca(6)").window(correlated())


def test_a_missing_increment_stays_missing() -> None:
    x = correlated()
    x[5, 2] = np.nan
    for residual in ("market", "pca(1)"):
        assert np.argwhere(np.isnan(Preparation(residual).window(x))).tolist() == [[5, 2]]


def test_whitening_takes_autocorrelation_off_and_leaves_noise_alone() -> None:
    noise = np.random.default_rng(3).standard_normal((1500, 5))
    same, orders = prewhiten(noise)
    assert orders.tolist() == [0] * 5
    np.testing.assert_allclose(same, noise - noise.mean(axis=0), atol=1e-12)
    moving = noise.copy()
    for t in range(1, len(moving)):
        moving[t, 1] += 0.4 * moving[t - 1, 1]
    white, orders = prewhiten(moving)
    assert orders[1] >= 1
    assert abs(np.corrcoef(white[1:, 1], white[:-1, 1])[0, 1]) < 0.06
