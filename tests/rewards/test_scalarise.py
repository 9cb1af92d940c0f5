"""Scalarisation by hand, and what Chebyshev can do that a weighted sum cannot."""

from __future__ import annotations

import numpy as np
import torch

from pacesetter.rewards import chebyshev, weighted_sum

VALUES = np.array([[1.0, -1.0], [0.5, 2.0]])  # (component, env)
WEIGHTS = np.array([[2.0], [4.0]])
REFERENCE = np.array([[1.0], [1.0]])


def test_weighted_sum() -> None:
    np.testing.assert_array_equal(weighted_sum(VALUES, WEIGHTS), [2 + 2, -2 + 8])


def test_chebyshev() -> None:
    # distances to (1, 1): env 0 (0, 0.5), env 1 (2, 1); weighted (0, 2) and (4, 4)
    np.testing.assert_array_equal(chebyshev(VALUES, WEIGHTS, REFERENCE), [-2.0, -4.0])


def test_torch_gives_the_same() -> None:
    values, weights, reference = map(torch.as_tensor, (VALUES, WEIGHTS, REFERENCE))
    np.testing.assert_array_equal(weighted_sum(values, weights).numpy(), weighted_sum(VALUES, WEIGHTS))
    np.testing.assert_array_equal(chebyshev(values, weights, reference).numpy(), chebyshev(VALUES, WEIGHTS, REFERENCE))


def test_only_chebyshev_prefers_the_middle_of_a_front_that_is_not_convex() -> None:
    front = np.array([[1.0, 0.4, 0.0], [0.0, 0.4, 1.0]])  # the middle lies below the line between the ends
    even = np.array([[0.5], [0.5]])
    assert np.argmax(chebyshev(front, even, REFERENCE)) == 1
    assert np.argmax(weighted_sum(front, even)) != 1


def test_a_weighted_sum_does_not_depend_on_the_batch() -> None:
    draw = np.random.default_rng(3)
    values, weights = draw.normal(size=(13, 257)), draw.normal(size=(13, 1))
    alone = [weighted_sum(values[:, [e]], weights)[0] for e in range(257)]
    np.testing.assert_array_equal(weighted_sum(values, weights), alone)
