"""Groups of assets that lead and follow alike: Hermitian clustering of a lead–lag matrix."""

from __future__ import annotations

import numpy as np

from pacesetter.arrays import Array
from pacesetter.errors import ConfigError, DataError
from pacesetter.leadlag.observed import observed_assets

__all__ = ["hermitian_clusters", "hermitian_projector"]


def hermitian_projector(matrix: Array, clusters: int) -> Array:
    """(n, n) real projector on the leading eigenvectors of i·D^-½ S D^-½, D = diag Σ_j |S_ij|.

    The eigenvalues come in pairs ±λ with conjugate vectors, so whole pairs are taken: `clusters` vectors, or one
    fewer when that number is odd (Cucuringu, Li, Sun, Zanetti 2020). S must be finite and antisymmetric.
    """
    degree = np.abs(matrix).sum(axis=1)
    scale = np.divide(1.0, np.sqrt(degree), out=np.zeros(len(degree)), where=degree > 0)
    # i·S is Hermitian for an antisymmetric S, so its eigenvalues are real.
    values, vectors = np.linalg.eigh(1j * scale[:, None] * matrix * scale)
    positive = vectors[:, np.argsort(values)[::-1][: max(clusters // 2, 1)]]
    projector: Array = (positive @ positive.conj().T).real
    return 2 * projector  # a vector and its conjugate add up to twice the real part


def hermitian_clusters(matrix: Array, clusters: int, seed: int = 0) -> Array:
    """(N,) group 0 … clusters−1 of each asset of an (N, N) lead–lag matrix; −1 for an unobserved one.

    Refuses fewer than two clusters, more clusters than observed assets, and a matrix without any lead.
    """
    from sklearn.cluster import KMeans

    matrix = np.asarray(matrix, dtype=np.float64)
    observed = observed_assets(matrix)
    if not 2 <= clusters <= observed.sum():
        raise ConfigError(f"clusters={clusters} must be in 2 … {observed.sum()}, the number of observed assets")
    inner = np.nan_to_num(matrix[np.ix_(observed, observed)])
    if not inner.any():
        raise DataError("the lead–lag matrix is zero everywhere; there is nothing to cluster")
    labels = np.full(len(matrix), -1)
    means = KMeans(clusters, n_init=10, random_state=seed)
    labels[observed] = means.fit_predict(hermitian_projector(inner, clusters))
    return labels
