"""The lasso: the optimality conditions, a tight reference, and inputs that are nearly or exactly the same."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import Lasso

from pacesetter.arrays import Array
from pacesetter.errors import DataError, RunError
from pacesetter.leadlag import lasso as module
from pacesetter.leadlag.lasso import lasso


def _inputs(kind: str, seed: int) -> tuple[Array, Array]:
    """(bar, input) inputs and (bar, response) responses that a few of them move."""
    generator = np.random.default_rng(seed)
    bars, size = (60, 90) if kind == "more inputs than bars" else (300, 40)
    x = generator.normal(size=(bars, size))
    if kind == "alike":
        x = generator.normal(size=(bars, 1)) + 0.05 * x
    y = x[:, [3]] - 0.5 * x[:, [5]] + generator.normal(size=(bars, 3))
    return x, y


def _violation(x: Array, y: Array, penalty: float, weights: Array) -> float:
    """By how much the optimality conditions fail at most, as a share of the largest |Xᵀy|."""
    pull = x.T @ (y - x @ weights)
    outside = np.where(weights == 0, np.maximum(np.abs(pull) - penalty, 0), pull - penalty * np.sign(weights))
    return float(np.abs(outside).max() / np.abs(x.T @ y).max())


@pytest.mark.parametrize("kind", ["apart", "alike", "more inputs than bars"])
@pytest.mark.parametrize("share", [0.5, 0.1, 0.01, 0.0001])
def test_the_optimality_conditions_hold(kind: str, share: float) -> None:
    x, y = _inputs(kind, 1)
    penalty = share * np.abs(x.T @ y).max()
    weights = lasso(x.T @ x, x.T @ y, penalty)
    assert np.any(weights)
    assert _violation(x, y, penalty, weights) < 1e-6


@pytest.mark.parametrize("kind", ["apart", "alike"])
def test_weights_are_those_of_a_tight_reference(kind: str) -> None:
    x, y = _inputs(kind, 2)
    for share in (0.3, 0.03):
        penalty = share * np.abs(x.T @ y).max()
        weights = lasso(x.T @ x, x.T @ y, penalty)
        for place in range(y.shape[1]):
            reference = Lasso(alpha=penalty / len(x), fit_intercept=False, tol=1e-13, max_iter=1_000_000)
            np.testing.assert_allclose(weights[:, place], reference.fit(x, y[:, place]).coef_, atol=2e-6)


def test_a_warm_start_ends_where_a_cold_one_does() -> None:
    x, y = _inputs("alike", 3)
    gram, moments = x.T @ x, x.T @ y
    penalty = 0.01 * np.abs(moments).max()
    warm = lasso(gram, moments, penalty, lasso(gram, moments, 10 * penalty))
    np.testing.assert_allclose(warm, lasso(gram, moments, penalty), atol=1e-5)


def test_a_penalty_for_each_input_keeps_a_dear_one_out() -> None:
    x, y = _inputs("apart", 4)
    penalties = np.full(40, 1.0)
    penalties[3] = 1e6
    weights = lasso(x.T @ x, x.T @ y, penalties)
    assert not weights[3].any()
    assert weights[5].all()


def test_an_input_that_is_there_twice_and_one_that_never_moves() -> None:
    x, y = _inputs("apart", 5)
    x[:, 7], x[:, 9] = x[:, 3], 0.0
    weights = lasso(x.T @ x, x.T @ y, 5.0)
    assert _violation(x, y, 5.0, weights) < 1e-6
    assert not weights[9].any()


def test_above_the_largest_product_all_is_zero() -> None:
    x, y = _inputs("apart", 6)
    most = np.abs(x.T @ y).max()
    assert not lasso(x.T @ x, x.T @ y, most).any()
    assert lasso(x.T @ x, x.T @ y, 0.999 * most).any()


def test_a_missing_return_and_a_fit_that_does_not_end_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = _inputs("alike", 7)
    with pytest.raises(DataError, match="needs finite inputs and returns"):
        lasso(x.T @ x, np.full((40, 1), np.nan), 1.0)
    monkeypatch.setattr(module, "_descend", lambda *parts: False)
    with pytest.raises(RunError, match="40 inputs did not reach its optimum"):
        lasso(x.T @ x, x.T @ y, 1.0)
