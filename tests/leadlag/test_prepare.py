"""Increments of a window: residuals and whitening do what they say, on that window alone."""

from __future__ import annotations

import numpy as np
import pytest

from pacesetter.errors import ConfigError
from pacesetter.leadlag.answer import Preparation, prewhiten
from pacesetter.leadlag.prepare import shared_autocorrelation


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


def slow_market(seed: int, bars: int = 3000) -> np.ndarray:
    """Five symbols that share a factor which predicts itself."""
    rng = np.random.default_rng(seed)
    factor = rng.standard_normal(bars)
    for t in range(1, bars):
        factor[t] += 0.5 * factor[t - 1]
    return factor[:, None] + rng.standard_normal((bars, 5))


@pytest.mark.parametrize("bars", [3000, 4])  # more bars than symbols, and fewer
def test_without_flips_shared_autocorrelation_gives_the_increments_back(bars: int) -> None:
    x = slow_market(4)[:bars]
    whole = shared_autocorrelation(x).flip(np.ones((1, bars), dtype=np.float32))[0]
    np.testing.assert_allclose(whole, (x - x.mean(axis=0)) / x.std(axis=0), atol=1e-4)


def test_flips_keep_shared_autocorrelation_the_same_both_ways() -> None:
    x = slow_market(5)
    flips = np.random.default_rng(6).choice([-1.0, 1.0], (40, len(x))).astype(np.float32)
    lagged = lagged_covariances(shared_autocorrelation(x).flip(flips))
    assert lagged.min() > 0.1
    assert np.abs(lagged - lagged.T).max() < 0.03
    x[1:, 0] += 0.8 * x[:-1, 1]  # a lead, which flips take away
    kept = shared_autocorrelation(x)
    own, lagged = (
        lagged_covariances(kept.flip(np.ones((1, len(x)), dtype=np.float32))),
        lagged_covariances(kept.flip(flips)),
    )
    assert own[1, 0] - own[0, 1] > 0.2
    assert np.abs(lagged - lagged.T).max() < (own[1, 0] - own[0, 1]) / 2


def lagged_covariances(drawn: np.ndarray) -> np.ndarray:
    """(i, j) mean over draws of the covariance of i with j a bar later."""
    return np.mean([each[:-1].T @ each[1:] / len(each) for each in drawn], axis=0)


def test_noise_has_no_shared_autocorrelation() -> None:
    assert not shared_autocorrelation(np.random.default_rng(3).standard_normal((1500, 5))).filters.any()
