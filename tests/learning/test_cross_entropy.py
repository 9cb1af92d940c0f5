"""The cross-entropy method: refits by its formula, finds known optima through noise, and is held to `cma`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pacesetter.errors import ConfigError
from pacesetter.learning.cross_entropy import CrossEntropy

BEST = np.array([0.7, 0.2, 0.5, 0.9, 0.35])  # weights of a noisy validation score


def rosenbrock(point: np.ndarray) -> float:
    """−f on [−2, 2]², whose best is 0 at (1, 1), that is (0.75, 0.75) of the unit square."""
    x, y = 4 * np.asarray(point) - 2
    return -float((1 - x) ** 2 + 100 * (y - x**2) ** 2)


class NoisyWeights:
    """A score of five weights with noise as large as the score of a point that is a tenth off in each."""

    def __init__(self, seed: int) -> None:
        self.generator = np.random.default_rng(seed)

    def __call__(self, point: np.ndarray) -> float:
        return self.true(point) + 0.05 * float(self.generator.normal())

    @staticmethod
    def true(point: np.ndarray) -> float:
        return -float(((np.asarray(point) - BEST) ** 2).sum())


def test_a_refit_is_the_mean_and_covariance_of_the_elite_mixed_with_those_before() -> None:
    method = CrossEntropy(population=8, elite_share=0.5, smoothing=0.5, deviation=0.2, floor=0.1)
    points = np.random.default_rng(1).uniform(size=(8, 2))
    scores = np.array([1.0, 8.0, 3.0, 7.0, 2.0, 6.0, 4.0, 5.0])
    found = method.refit(method.first([0.5, 0.5]), points, scores)
    elite = points[[1, 3, 5, 7]]
    np.testing.assert_allclose(found.mean, 0.25 + elite.mean(0) / 2)
    expected = 0.5 * 0.04 * np.eye(2) + 0.5 * np.cov(elite.T) + 0.01 * np.eye(2)
    np.testing.assert_allclose(found.covariance, expected)
    assert method.refit(found, points[:1], scores[:1]) is found  # one point says nothing of a spread


def test_it_finds_weights_through_noise_better_than_the_best_of_as_many_random_draws() -> None:
    method, generator = CrossEntropy(population=24), np.random.default_rng(0)
    found, lucky = [], []
    for seed in range(5):
        found.append(NoisyWeights.true(method.maximise(NoisyWeights(seed), np.full(5, 0.5), 12, seed)[-1].mean))
        score, drawn = NoisyWeights(seed), generator.uniform(size=(24 * 12, 5))
        lucky.append(NoisyWeights.true(drawn[int(np.argmax([score(point) for point in drawn]))]))
    assert np.mean(found) > np.mean(lucky)
    assert min(found) > -0.05  # nearer than the noise of one score
    again = method.maximise(NoisyWeights(3), np.full(5, 0.5), 2, seed=3)[-1]
    np.testing.assert_array_equal(again.mean, method.maximise(NoisyWeights(3), np.full(5, 0.5), 2, seed=3)[-1].mean)


def test_cma_is_the_referee_on_rosenbrock_and_on_the_same_noisy_weights() -> None:
    cma: Any = pytest.importorskip("cma", reason="the referee cma is not installed: pip install 'pacesetter[dev]'")
    quiet = {"verbose": -9, "bounds": [0, 1], "popsize": 40}

    def referee(score: Any, keys: int, generations: int, seed: int) -> np.ndarray:
        search = cma.CMAEvolutionStrategy(keys * [0.5], 0.25, quiet | {"seed": seed + 1, "maxiter": generations})
        while not search.stop():
            points = search.ask()
            search.tell(points, [-score(point) for point in points])
        return np.asarray(search.result.xfavorite)

    narrow = CrossEntropy(population=100, elite_share=0.1, floor=0.005)
    found = narrow.maximise(rosenbrock, [0.5, 0.5], 60, seed=1)[-1].mean
    assert rosenbrock(referee(rosenbrock, 2, 60, 1)) > -1e-3  # the start scores −1
    assert rosenbrock(found) > -1e-3
    method = CrossEntropy(population=40)
    ours = [NoisyWeights.true(method.maximise(NoisyWeights(s), np.full(5, 0.5), 10, s)[-1].mean) for s in range(5)]
    theirs = [NoisyWeights.true(referee(NoisyWeights(s), 5, 10, s)) for s in range(5)]
    assert np.mean(ours) > np.mean(theirs) - 0.02


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ({"population": 1}, r"tune\.cem\.population=1"),
        ({"elite_share": 0.0}, r"tune\.cem\.elite_share=0\.0 must be above 0 and at most 1"),
        ({"smoothing": 1.5}, r"tune\.cem\.smoothing=1\.5"),
        ({"floor": -0.1}, r"tune\.cem\.floor=-0\.1"),
    ],
)
def test_wrong_options_are_refused(option: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        CrossEntropy(**option)
