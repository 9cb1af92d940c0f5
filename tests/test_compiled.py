"""Kernels compile at their first call, call each other, and leave numba alone until then."""

from __future__ import annotations

import subprocess
import sys
from copy import copy

import numpy as np

from pacesetter.compiled import LateKernel, njit, prange, register_jitable


@register_jitable()
def halve(value: float) -> float:
    return value / 2


@njit()
def halve_all(values: np.ndarray) -> float:
    total = 0.0
    for k in range(values.size):
        total += halve(values[k])
    return total


@njit(parallel=True)
def halve_rows(values: np.ndarray) -> np.ndarray:
    sums = np.empty(len(values))
    for row in prange(len(values)):
        sums[row] = halve_all(values[row])
    return sums


def test_a_kernel_calls_another_and_what_stays_plain_python() -> None:
    values = np.arange(12.0).reshape(3, 4)
    np.testing.assert_array_equal(halve_rows(values), values.sum(axis=1) / 2)
    assert halve(3.0) == 1.5  # plain Python outside of kernels


def test_a_kernel_answers_as_numba_does() -> None:
    kernel = njit()(lambda value: value + 1)
    assert isinstance(kernel, LateKernel)
    assert (kernel(1), copy(kernel)(2)) == (2, 3)
    assert getattr(kernel, "py_func", kernel)(3) == 4  # NUMBA_DISABLE_JIT leaves the function itself


def test_a_plan_is_composed_without_numba() -> None:
    code = (
        "import sys; from pacesetter.jobs import resolve; resolve(['task=fleet', 'agent=ppo', 'lag.max_lag=3']);"
        "assert 'numba' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
