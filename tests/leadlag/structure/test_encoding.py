"""Encoders: shapes, names, hand values, determinism, and what a permutation of the assets does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pacesetter.errors import ConfigError
from pacesetter.leadlag.structure.encoding import (
    ENCODERS,
    LookbackMetadata,
    RowSums,
    SignatureSummary,
    TopLinks,
    UniverseMask,
    UpperTriangle,
)
from pacesetter.registry import configure

SYMBOLS = ("A", "B", "C", "D", "E")


def random_matrices(seed: int = 0, windows: int = 3, assets: int = 5) -> np.ndarray:
    noise = np.random.default_rng(seed).standard_normal((windows, assets, assets))
    return noise - noise.swapaxes(1, 2)


def absent(matrices: np.ndarray, asset: int) -> np.ndarray:
    matrices = matrices.copy()
    matrices[..., asset, :] = matrices[..., :, asset] = np.nan
    return matrices


@pytest.mark.parametrize("name", list(ENCODERS))
def test_every_encoder_gives_one_finite_named_number_per_place(name: str) -> None:
    encoder = configure(ENCODERS[name], {}, "encoder")
    matrices = absent(random_matrices(), 2)
    encoded = encoder.encode(matrices, [20, 60, 250])
    names = encoder.names(SYMBOLS)
    assert encoded.shape == (3, len(names))
    assert encoded.dtype == np.float64
    assert len(set(names)) == len(names)
    assert np.isfinite(encoded).all()


@pytest.mark.parametrize("name", list(ENCODERS))
def test_a_stack_equals_its_matrices_again_and_again(name: str) -> None:
    encoder = configure(ENCODERS[name], {}, "encoder")
    matrices, lookbacks = random_matrices(), np.array([20, 60, 250])
    single = [encoder.encode(matrix, bars) for matrix, bars in zip(matrices, lookbacks, strict=True)]
    np.testing.assert_allclose(encoder.encode(matrices, lookbacks), single, rtol=1e-12)
    np.testing.assert_array_equal(encoder.encode(matrices, lookbacks), encoder.encode(matrices, lookbacks))


@pytest.mark.parametrize("name", list(ENCODERS))
def test_a_universe_without_any_asset_encodes_to_zero(name: str) -> None:
    encoder = configure(ENCODERS[name], {}, "encoder")
    assert not encoder.encode(np.full((5, 5), np.nan), 0).any()


def test_the_upper_triangle_is_named_by_pair() -> None:
    matrix = random_matrices()[0]
    encoded = dict(zip(UpperTriangle().names(SYMBOLS), UpperTriangle().encode(matrix, 60), strict=True))
    assert encoded["B>D"] == matrix[1, 3]
    assert len(encoded) == 10


def test_top_links_point_from_leader_to_follower() -> None:
    matrix = np.zeros((5, 5))
    for leader, follower, score in ((3, 1, 0.9), (0, 4, 0.5)):
        matrix[leader, follower], matrix[follower, leader] = score, -score
    np.testing.assert_allclose(TopLinks(3).encode(matrix, 60), [0.9, 0.8, 0.4, 0.5, 0.2, 1.0, 0, 0, 0])
    assert TopLinks(3).names(SYMBOLS)[:3] == ("top1_score", "top1_leader", "top1_follower")


def test_top_links_beyond_the_number_of_pairs_are_zero() -> None:
    encoded = TopLinks(4).encode(random_matrices(assets=3), 60)
    assert encoded.shape == (3, 12)
    assert (encoded[:, :9] > 0).all()
    assert not encoded[:, 9:].any()


def test_the_summary_of_one_turning_plane_by_hand() -> None:
    matrix = np.zeros((4, 4))
    matrix[0, 1], matrix[1, 0] = 2.0, -2.0
    np.testing.assert_allclose(SignatureSummary(2).encode(matrix, 60), [0.5, 0, np.sqrt(8 / 12), 1, 0], atol=1e-12)
    both = matrix + np.roll(matrix, (2, 2), (0, 1))
    np.testing.assert_allclose(SignatureSummary(2).encode(both, 60), [0.5, 0.5, np.sqrt(16 / 12), 0.5, 1])


@pytest.mark.parametrize("assets", [2, 7, 40])
def test_the_sizes_of_planes_are_singular_values(assets: int) -> None:
    drawn = np.random.default_rng(assets).normal(size=(3, assets, assets))
    matrices = drawn - np.swapaxes(drawn, -1, -2)
    matrices[0] *= 1e-6
    singular = np.linalg.svd(matrices, compute_uv=False)[:, ::2][:, : assets // 2]
    shares = singular**2 / (singular**2).sum(axis=1, keepdims=True)
    encoded = SignatureSummary().encode(matrices, 10)
    np.testing.assert_allclose(encoded[:, : min(3, assets // 2)], singular[:, :3] / assets, rtol=1e-9)
    np.testing.assert_allclose(encoded[:, 4], shares[:, 0], rtol=1e-9)
    entropy = -(shares * np.log(shares)).sum(axis=1) / np.log(max(assets // 2, 2))
    np.testing.assert_allclose(encoded[:, 5], entropy, rtol=1e-6, atol=1e-9)


def test_lookback_metadata_by_hand() -> None:
    np.testing.assert_allclose(
        LookbackMetadata(100).encode(random_matrices(), [10, 100, 1]), [[0.1, 0.5], [1, 1], [0.01, 0]]
    )


@given(order=st.permutations(range(5)), seed=st.integers(0, 99))
@settings(max_examples=30, deadline=None, derandomize=True)
def test_a_permutation_of_assets_moves_or_keeps_the_encoding(order: list[int], seed: int) -> None:
    matrix = absent(random_matrices(seed), 3)[0]
    moved = matrix[np.ix_(order, order)]
    for follows in (RowSums(), UniverseMask()):
        np.testing.assert_allclose(follows.encode(moved, 60), follows.encode(matrix, 60)[list(order)])
    summary = SignatureSummary()
    np.testing.assert_allclose(summary.encode(moved, 60), summary.encode(matrix, 60), atol=1e-10)
    np.testing.assert_allclose(TopLinks().encode(moved, 60)[::3], TopLinks().encode(matrix, 60)[::3])
    np.testing.assert_allclose(
        np.sort(np.abs(UpperTriangle().encode(moved, 60))), np.sort(np.abs(UpperTriangle().encode(matrix, 60)))
    )


def test_an_absent_asset_reads_as_if_it_were_not_there() -> None:
    matrices = random_matrices()
    smaller = np.delete(np.delete(matrices, 4, axis=1), 4, axis=2)
    for encoder in (SignatureSummary(2), RowSums()):
        whole = encoder.encode(absent(matrices, 4), 60)
        np.testing.assert_allclose(whole[:, : encoder.encode(smaller, 60).shape[1]], encoder.encode(smaller, 60))


def test_the_mask_and_the_lookback_are_vectors_of_their_own() -> None:
    matrix = absent(random_matrices(), 0)[0]
    np.testing.assert_allclose(UniverseMask().encode(matrix, 10), [0, 1, 1, 1, 1])
    np.testing.assert_allclose(LookbackMetadata(100).encode(matrix, 10), [0.1, 0.5])


@pytest.mark.parametrize("make", [lambda: TopLinks(0), lambda: SignatureSummary(0), lambda: LookbackMetadata(1)])
def test_options_out_of_range_are_refused(make) -> None:
    with pytest.raises(ConfigError, match="must be"):
        make()
