"""Encoders of a lead–lag matrix to a fixed vector, for agents and detectors. Deterministic, with named outputs.

An encoder maps matrices (…, N, N) and their lookbacks (…,) to (…, k) float64. Unobserved pairs give 0, never NaN;
`universe_mask` says which assets were there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from pacesetter.arrays import Array
from pacesetter.errors import check_range
from pacesetter.leadlag.observed import observed_assets
from pacesetter.registry import Registry

__all__ = [
    "ENCODERS",
    "LookbackMetadata",
    "MatrixEncoder",
    "RowSums",
    "SignatureSummary",
    "TopLinks",
    "UniverseMask",
    "UpperTriangle",
]


class MatrixEncoder(Protocol):
    """A matrix to a vector, with a name for each entry."""

    def encode(self, matrices: Array, lookbacks: ArrayLike) -> Array: ...

    def names(self, symbols: Sequence[str]) -> tuple[str, ...]: ...


ENCODERS: Registry[type[MatrixEncoder]] = Registry("encoder")


@ENCODERS.register("upper_triangle")
@dataclass(frozen=True)
class UpperTriangle:
    """Everything: S[i, j] for i < j, row by row; N(N−1)/2 entries."""

    def encode(self, matrices: Array, lookbacks: ArrayLike) -> Array:
        return _upper_entries(matrices)

    def names(self, symbols: Sequence[str]) -> tuple[str, ...]:
        return tuple(f"{leader}>{follower}" for i, leader in enumerate(symbols) for follower in symbols[i + 1 :])


@ENCODERS.register("row_sums")
@dataclass(frozen=True)
class RowSums:
    """Σ_j S[i, j] for each asset; N entries. S is antisymmetric, so column sums are the same with the other sign."""

    def encode(self, matrices: Array, lookbacks: ArrayLike) -> Array:
        sums: Array = np.nansum(matrices, axis=-1)
        return sums

    def names(self, symbols: Sequence[str]) -> tuple[str, ...]:
        return tuple(f"sum({symbol})" for symbol in symbols)


@ENCODERS.register("top_k")
@dataclass(frozen=True)
class TopLinks:
    """The `k` strongest links, strongest first: score > 0, and the places of leader and follower as 1/N … 1.

    Where there are fewer links, score and both places are 0. Ties go to the earlier pair.
    """

    k: int = 10

    def __post_init__(self) -> None:
        check_range(1, k=self.k)

    def encode(self, matrices: Array, lookbacks: ArrayLike) -> Array:
        values = _upper_entries(matrices)
        order = np.argsort(-np.abs(values), axis=-1, kind="stable")[..., : self.k]
        strongest = np.take_along_axis(values, order, axis=-1)
        first, second = (side[order] + 1 for side in np.triu_indices(matrices.shape[-1], 1))
        places = np.where(strongest > 0, (first, second), (second, first)) * (strongest != 0) / matrices.shape[-1]
        links = np.stack([np.abs(strongest), *places], axis=-1)
        encoded = np.zeros((*links.shape[:-2], 3 * self.k))
        encoded[..., : 3 * links.shape[-2]] = links.reshape(*links.shape[:-2], -1)
        return encoded

    def names(self, symbols: Sequence[str]) -> tuple[str, ...]:
        return tuple(f"top{place}_{part}" for place in range(1, self.k + 1) for part in ("score", "leader", "follower"))


@ENCODERS.register("signature_summary")
@dataclass(frozen=True)
class SignatureSummary:
    """What stays of the matrix under any rotation of the assets; of a Lévy matrix, the level-2 log-signature.

    An antisymmetric matrix is a sum of planes in which the path turns, with sizes σ₁ ≥ σ₂ ≥ …: the first `planes`
    sizes per asset, the root mean square of a link, the share σ₁²/Σσ² of the largest plane, and the entropy of the
    shares (0: one plane, 1: all alike).
    """

    planes: int = 3

    def __post_init__(self) -> None:
        check_range(1, planes=self.planes)

    def encode(self, matrices: Array, lookbacks: ArrayLike) -> Array:
        sizes = np.sqrt(squares := _squared_sizes(np.nan_to_num(matrices)))
        counts = np.maximum(observed_assets(matrices).sum(axis=-1), 2)[..., None]
        energy = squares.sum(axis=-1, keepdims=True)
        share = np.divide(squares, energy, out=np.zeros(sizes.shape), where=energy > 0)
        entropy = -(share * np.log(np.where(share > 0, share, 1.0))).sum(axis=-1, keepdims=True)
        leading = np.zeros((*sizes.shape[:-1], self.planes))
        leading[..., : sizes.shape[-1]] = (sizes / counts)[..., : self.planes]
        # ‖S‖² is twice the sum over planes, spread over n(n − 1) ordered pairs.
        rms = np.sqrt(2 * energy / (counts * (counts - 1)))
        # ⌊n/2⌋ planes at most, whose entropy is log ⌊n/2⌋ when all are alike.
        return np.concatenate([leading, rms, share[..., :1], entropy / np.log(np.maximum(counts // 2, 2))], axis=-1)

    def names(self, symbols: Sequence[str]) -> tuple[str, ...]:
        return (*(f"plane{place}" for place in range(1, self.planes + 1)), "link_rms", "plane1_share", "plane_entropy")


@ENCODERS.register("universe_mask")
@dataclass(frozen=True)
class UniverseMask:
    """1 for an observed asset, 0 for an absent one; N entries."""

    def encode(self, matrices: Array, lookbacks: ArrayLike) -> Array:
        return observed_assets(matrices).astype(np.float64)

    def names(self, symbols: Sequence[str]) -> tuple[str, ...]:
        return tuple(f"seen({symbol})" for symbol in symbols)


@ENCODERS.register("lookback")
@dataclass(frozen=True)
class LookbackMetadata:
    """The window itself: lookback / `longest`, and its logarithm scaled to 1 at `longest`."""

    longest: int = 250

    def __post_init__(self) -> None:
        check_range(2, longest=self.longest)

    def encode(self, matrices: Array, lookbacks: ArrayLike) -> Array:
        bars = np.broadcast_to(np.asarray(lookbacks, dtype=np.float64), matrices.shape[:-2])
        return np.stack([bars / self.longest, np.log(np.maximum(bars, 1)) / np.log(self.longest)], axis=-1)

    def names(self, symbols: Sequence[str]) -> tuple[str, ...]:
        return ("lookback", "log_lookback")


def _squared_sizes(matrices: Array) -> Array:
    """(…, N // 2) σ² of the planes of antisymmetric matrices (…, N, N), largest first.

    Singular values come in equal pairs, one for each plane; an odd N leaves one 0 over. They are asked for as the
    eigenvalues σ² of S·Sᵀ, which takes two thirds of the time of a singular value decomposition.
    """
    squares = np.linalg.eigvalsh(matrices @ np.swapaxes(matrices, -1, -2))[..., ::-1]
    return np.maximum(squares[..., ::2][..., : matrices.shape[-1] // 2], 0.0)


def _upper_entries(matrices: Array) -> Array:
    """(…, N(N−1)/2) entries above the diagonal, 0 where unobserved."""
    rows, columns = np.triu_indices(matrices.shape[-1], 1)
    upper: Array = np.nan_to_num(matrices[..., rows, columns])
    return upper
