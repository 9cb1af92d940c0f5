"""Domain randomisation: draws stay within their distribution, repeat by seed, and bad distributions are refused."""

from __future__ import annotations

import numpy as np
import pytest

from pacesetter.data.randomise import check_distributions, draw
from pacesetter.errors import ConfigError

RANGES = {
    "a": {"uniform": [0.5, 2]},
    "b": {"log_uniform": [0.01, 1]},
    "c": {"integers": [1, 3]},
    "d": {"choice": ["x", "y"]},
}


def test_draws_stay_within_their_distributions():
    generator = np.random.default_rng(0)
    draws = [draw(RANGES, generator, "data.randomise") for _ in range(200)]
    assert all(0.5 <= one["a"] <= 2 and 0.01 <= one["b"] <= 1 for one in draws)
    assert {one["c"] for one in draws} == {1, 2, 3}
    assert {one["d"] for one in draws} == {"x", "y"}


def test_the_median_of_a_log_uniform_draw_is_the_geometric_mean():
    generator = np.random.default_rng(1)
    values = [draw({"b": RANGES["b"]}, generator, "data.randomise")["b"] for _ in range(4000)]
    assert np.median(values) == pytest.approx(0.1, rel=0.1)


def test_the_order_of_options_does_not_change_the_draw():
    one = draw(RANGES, np.random.default_rng(7), "data.randomise")
    other = draw(dict(reversed(RANGES.items())), np.random.default_rng(7), "data.randomise")
    assert one == other


@pytest.mark.parametrize(
    ("distributions", "message"),
    [
        ({"noize": {"uniform": [0, 1]}}, "did you mean 'noise'"),
        ({"noise": {"unifrom": [0, 1]}}, "did you mean 'uniform'"),
        ({"noise": {"uniform": [2, 1]}}, "does not fit; it takes \\[low ≤ high\\]"),
        ({"noise": {"integers": [0.5, 1]}}, "whole low ≤ high"),
        ({"noise": [0, 1]}, "must name one distribution"),
    ],
)
def test_a_bad_distribution_is_refused(distributions, message):
    with pytest.raises(ConfigError, match=message):
        check_distributions(distributions, ["noise"], "data.randomise")
