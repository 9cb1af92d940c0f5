"""Sparse weights: the lasso's own optimum, a planted input found, and nothing in noise."""

from __future__ import annotations

from typing import Any

import numpy as np

from pacesetter.methods.direct.sparse import CrossProducts, _purge_blocks, fit_sparse, relax_weights, sparse_weights


def noise(seed: int, bars: int = 600, inputs: int = 20, symbols: int = 4) -> tuple[Any, Any]:
    generator = np.random.default_rng(seed)
    return generator.standard_normal((bars, inputs)), generator.standard_normal((bars, symbols))


def test_the_optimum_is_that_of_a_lasso() -> None:
    from sklearn.linear_model import Lasso

    x, y = noise(0)
    y[:, 1] += 0.3 * x[:, 4]
    found = sparse_weights(CrossProducts.of(x, y), 0.05, np.zeros((20, 4)))
    for column in range(4):
        fitted = Lasso(alpha=0.05, fit_intercept=False, tol=1e-10, max_iter=100_000).fit(x, y[:, column])
        np.testing.assert_allclose(found[:, column], fitted.coef_, atol=1e-5)


def test_inputs_that_hardly_differ_reach_the_optimum_at_a_small_penalty() -> None:
    common = np.random.default_rng(3).standard_normal((40, 1))
    x = common + 0.1 * np.random.default_rng(4).standard_normal((40, 20))
    y = 5 * (x[:, :1] - x[:, 1:2])
    found = sparse_weights(CrossProducts.of(x, y), 1e-4, np.zeros((20, 1)))
    pull = x.T @ (y - x @ found) / len(x)
    assert np.abs(pull).max() < 1e-4 + 1e-6
    assert np.corrcoef((x @ found)[:, 0], y[:, 0])[0, 1] > 0.9


def test_a_refit_is_least_squares_over_the_inputs_that_are_used() -> None:
    x, y = noise(1)
    weights = np.zeros((20, 4))
    weights[[2, 7], 3] = 1.0
    found = relax_weights(CrossProducts.of(x, y), weights)
    expected = np.linalg.lstsq(x[:, [2, 7]], y[:, 3], rcond=None)[0]
    np.testing.assert_allclose(found[[2, 7], 3], expected, rtol=5e-3)
    assert not found[:, :3].any()


def test_one_input_that_matters_is_found_alone() -> None:
    x, y = noise(2)
    y[:, 2] += 0.4 * x[:, 5]
    found = fit_sparse(x, y)
    assert [tuple(place) for place in np.argwhere(found.weights)] == [(5, 2)]
    assert abs(found.weights[5, 2] - 0.4) < 0.1
    assert found.utility > 0.01
    assert np.corrcoef(found.held_out[:, 2], y[:, 2])[0, 1] > 0.25


def test_bars_around_a_block_that_is_left_out_are_left_out_too() -> None:
    x, y = noise(3, bars=60)
    blocks = np.array_split(np.arange(60), 3)
    purged = _purge_blocks(x, y, CrossProducts.of(x, y), blocks, 4)
    for found, rest in zip(purged, (np.r_[24:60], np.r_[0:16, 44:60], np.r_[0:36]), strict=True):
        expected = CrossProducts.of(x[rest], y[rest])
        assert found.bars == expected.bars
        np.testing.assert_allclose(found.inputs, expected.inputs, atol=1e-9)
        np.testing.assert_allclose(found.response, expected.response, atol=1e-9)


def test_noise_has_no_weights() -> None:
    used = [np.count_nonzero(fit_sparse(*noise(seed)).weights) for seed in range(10, 20)]
    assert sum(count == 0 for count in used) >= 7
