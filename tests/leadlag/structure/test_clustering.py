"""Hermitian clustering reaches the adjusted Rand indices of REFERENCE §1."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from pacesetter.errors import ConfigError, DataError
from pacesetter.leadlag.answer import StrengthMeasure
from pacesetter.leadlag.structure.clustering import hermitian_clusters, hermitian_projector

TOLERANCE = 0.02  # of the mean over 10 seeds, which are other seeds than the table's


def planted(seed: int, groups: int, noise: float) -> tuple[np.ndarray, np.ndarray]:
    """x_i(t) = z(t − lag_i) + σε: (250, 100) increments and the lag group of each series."""
    rng = np.random.default_rng(seed)
    lags = np.repeat(np.arange(groups), 100 // groups)
    common = rng.standard_normal(250 + groups)
    signal = common[np.arange(250)[:, None] + groups - lags]
    return signal + noise * rng.standard_normal(signal.shape), lags


def matrix_of(method: str, increments: np.ndarray) -> np.ndarray:
    return StrengthMeasure(method).scores(increments[None])[0]


@pytest.mark.parametrize(
    ("method", "groups", "noise", "known"),
    [
        ("ccf_lag1", 10, 1.0, 1.00),
        ("ccf_lag1", 10, 2.0, 0.991),
        ("ccf_lag1", 5, 1.0, 1.00),
        ("ccf_auc", 10, 1.0, 0.750),
        ("ccf_auc", 10, 2.0, 0.380),
        ("ccf_auc", 5, 1.0, 1.00),
    ],
)
def test_adjusted_rand_index_of_the_reference_table(method: str, groups: int, noise: float, known: float) -> None:
    found = []
    for seed in range(10):
        increments, lags = planted(seed, groups, noise)
        found.append(adjusted_rand_score(lags, hermitian_clusters(matrix_of(method, increments), groups)))
    assert np.mean(found) >= known - TOLERANCE


def test_the_projector_is_real_idempotent_and_of_even_rank() -> None:
    matrix = matrix_of("ccf_lag1", planted(0, 5, 1.0)[0])
    projector = hermitian_projector(matrix, clusters=5)
    np.testing.assert_allclose(projector @ projector, projector, atol=1e-12)
    assert np.trace(projector) == pytest.approx(4)


def test_clusters_are_deterministic_and_absent_assets_are_left_out() -> None:
    increments, lags = planted(1, 5, 0.5)
    matrix = matrix_of("ccf_lag1", increments)
    matrix[7, :] = matrix[:, 7] = np.nan
    labels = hermitian_clusters(matrix, 5)
    assert labels[7] == -1
    assert adjusted_rand_score(np.delete(lags, 7), np.delete(labels, 7)) == 1
    np.testing.assert_array_equal(labels, hermitian_clusters(matrix, 5))


def test_refusals_name_the_problem() -> None:
    with pytest.raises(ConfigError, match=r"clusters=4 must be in 2 … 3"):
        hermitian_clusters(np.zeros((3, 3)), 4)
    with pytest.raises(DataError, match="zero everywhere"):
        hermitian_clusters(np.zeros((3, 3)), 2)
