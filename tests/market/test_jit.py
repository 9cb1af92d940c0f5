"""How kernels are compiled: the digest follows every line, and compiled code equals the plain function."""

from __future__ import annotations

import numpy as np

from pacesetter.market.jit import compile_for_cpu, jitable, source_digest


@jitable
def square(x):
    return x * x


def total(values):
    result = 0.0
    for value in values:
        result += square(value) / value  # the guard against 0 is the caller's: numba must not raise here
    return result


def test_the_digest_changes_with_any_file(tmp_path):
    first, second = tmp_path / "a.py", tmp_path / "b.py"
    first.write_text("x = 1\n")
    second.write_text("y = 1\n")
    before = source_digest(first, second)
    assert source_digest(first, second) == before
    second.write_text("y = 2\n")
    assert source_digest(first, second) != before


def test_compiled_equals_plain_and_divides_as_numpy_does():
    compiled = compile_for_cpu(total)
    assert compiled(np.array([1.5, 2.5])) == total(np.array([1.5, 2.5]))
    assert np.isnan(compiled(np.array([0.0])))
