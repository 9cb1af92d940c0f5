"""Words of the signature and of its logarithm are those of pysiglib."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from pacesetter.errors import ConfigError
from pacesetter.leadlag import LeadLag
from pacesetter.leadlag.estimators.signatures import log_words, words
from pacesetter.panel import Panel

pysiglib = pytest.importorskip("pysiglib", reason="pysiglib is not installed")


@pytest.fixture
def path() -> np.ndarray:
    steps = np.random.default_rng(7).standard_normal((30, 3)) / 6
    return np.vstack([np.zeros(3), np.cumsum(steps, axis=0)])


def coefficient(signature: np.ndarray, level: int) -> float:
    """At the word 1…12 of `level` letters in a flat two-letter signature without its leading 1."""
    return float(signature[2**level - 2 + 1])


@pytest.mark.parametrize("depth", [2, 3, 5])
def test_words_are_those_of_pysiglib(path: np.ndarray, depth: int) -> None:
    got = words(path, depth)
    for i, j in ((0, 1), (2, 0)):
        signature = pysiglib.sig(np.ascontiguousarray(path[:, [i, j]]), depth)
        assert_allclose(got[1:, i, j], [coefficient(signature, level) for level in range(2, depth + 1)], rtol=1e-10)


@pytest.mark.parametrize("depth", [2, 3, 5])
def test_log_words_are_those_of_pysiglib(path: np.ndarray, depth: int) -> None:
    got = log_words(path, depth)
    for i, j in ((0, 1), (2, 0)):
        signature = pysiglib.log_sig(np.ascontiguousarray(path[:, [i, j]]), depth, method=0)
        expected = [coefficient(signature, level) for level in range(2, depth + 1)]
        assert_allclose(got[1:, i, j], expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("log", [False, True])
def test_depth_two_is_the_levy_area_over_the_lookback(noise: Panel, log: bool) -> None:
    area = LeadLag("levy_path").fit(noise).scores(300, 80)
    assert_allclose(LeadLag("signature", depth=2, log=log).fit(noise).scores(300, 80), area / 80, atol=1e-10)


def test_depth_adds_words_and_depth_one_is_refused(noise: Panel) -> None:
    shallow, deep = (LeadLag("signature", depth=depth).fit(noise).scores(300, 80) for depth in (2, 4))
    assert np.abs(shallow - deep).max() > 1e-3
    with pytest.raises(ConfigError, match="depth=1 must be 2 or more"):
        LeadLag("signature", depth=1).fit(noise)
