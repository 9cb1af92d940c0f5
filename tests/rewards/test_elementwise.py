"""Element-wise functions give the same on floats, NumPy, torch and inside numba."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pacesetter.compiled import njit
from pacesetter.rewards.elementwise import has, log1p, maximum, minimum, sqrt, where

VALUES = np.array([0.0, 0.5, 2.0, 7.0])


@njit()
def compiled(x):
    return where(x > 1.0, minimum(x, 3.0), maximum(x, 0.25)) + log1p(x) + sqrt(x) + has(x, 2)


def plain(x):
    return where(x > 1.0, minimum(x, 3.0), maximum(x, 0.25)) + log1p(x) + sqrt(x) + has(x, 2)


def test_numpy_torch_and_numba_agree():
    expected = plain(VALUES)
    np.testing.assert_allclose(plain(torch.from_numpy(VALUES)).numpy(), expected, rtol=1e-15)
    np.testing.assert_allclose([compiled(x) for x in VALUES], expected, rtol=1e-15)


def test_a_flag_is_a_bit_of_a_whole_number():
    assert has(np.array([0.0, 1.0, 2.0, 3.0, 6.0]), 2).tolist() == [False, False, True, True, True]


@pytest.mark.parametrize("kind", [np.asarray, torch.as_tensor])
def test_two_plain_numbers_give_float64(kind):
    assert "float64" in str(where(kind([True, False]), 1.0, 0.0).dtype)
