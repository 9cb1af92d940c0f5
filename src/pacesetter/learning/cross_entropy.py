"""The cross-entropy method (Rubinstein 1999; Botev et al. 2013): a Gaussian is drawn from, and refitted to the best.

Points lie in the unit cube. A generation draws `population` of them; the mean and covariance of the elite, mixed with
those before, are what the next generation draws from:

    μ ← (1 − a)·μ + a·mean(elite)        Σ ← (1 − a)·Σ + a·cov(elite) + floor²·I

It needs scores only, which may be noisy: the mean of an elite varies less than its best member.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from pacesetter.arrays import Array
from pacesetter.errors import ConfigError, check_range

__all__ = ["CrossEntropy", "Proposal"]

FEWEST_ELITE = 2  # one point has no covariance


@dataclass(frozen=True, eq=False)
class Proposal:
    """A Gaussian over the unit cube: `mean` (key,) and `covariance` (key, key)."""

    mean: Array
    covariance: Array

    def draw(self, generator: np.random.Generator) -> Array:
        """(key,) a point; what falls outside the cube is moved to its face."""
        # By eigenvalues: few elite points have a singular covariance where floor = 0, which Cholesky refuses.
        drawn = generator.multivariate_normal(self.mean, self.covariance, method="eigh")
        # Moved to the face, not drawn again: near a corner of many keys rejection would take ever longer.
        return np.asarray(np.clip(drawn, 0.0, 1.0))

    @property
    def deviation(self) -> Array:
        """(key,) standard deviation along each axis."""
        return np.asarray(np.sqrt(np.diag(self.covariance)))


@dataclass(frozen=True)
class CrossEntropy:
    """Options of the method.

    population    points of a generation
    elite_share   of a generation that the next one is fitted to
    smoothing     weight a of the elite against what was before
    deviation     of the first generation along each axis, as a share of its range
    floor         deviation that is added in each refit, so that the search does not end at a lucky point
    """

    population: int = 16
    elite_share: float = 0.25
    smoothing: float = 0.7
    deviation: float = 0.25
    floor: float = 0.01

    def __post_init__(self) -> None:
        check_range(FEWEST_ELITE, owner="tune.cem", population=self.population)
        shares = {"elite_share": self.elite_share, "smoothing": self.smoothing, "deviation": self.deviation}
        for name, value in shares.items():
            if not 0 < value <= 1:
                raise ConfigError(f"tune.cem.{name}={value} must be above 0 and at most 1")
        check_range(0, owner="tune.cem", floor=self.floor)

    def first(self, mean: ArrayLike) -> Proposal:
        """The proposal of the first generation, around (key,) `mean`."""
        centre = np.asarray(mean, dtype=np.float64)
        return Proposal(centre, np.eye(len(centre)) * self.deviation**2)

    def refit(self, proposal: Proposal, points: ArrayLike, scores: ArrayLike) -> Proposal:
        """The next proposal from (point, key) points and their (point,) scores, of which higher ones are better.

        Fewer than two points change nothing: they have no spread.
        """
        drawn, reached = np.asarray(points, dtype=np.float64), np.asarray(scores, dtype=np.float64)
        if len(drawn) < FEWEST_ELITE:
            return proposal
        # Of the planned population, not of the points given: where trials failed, the elite is not made smaller too.
        count = min(max(round(self.elite_share * self.population), FEWEST_ELITE), len(drawn))
        # Stable, so that equal scores leave the earlier points in.
        elite = drawn[np.argsort(-reached, kind="stable")[:count]]
        # Around the elite's own mean: around the old one the spread would contain the step, and grow while the search
        # moves.
        rate, apart = self.smoothing, elite - elite.mean(axis=0)
        mean = (1 - rate) * proposal.mean + rate * elite.mean(axis=0)
        covariance = (1 - rate) * proposal.covariance + rate * apart.T @ apart / (count - 1)
        return Proposal(mean, covariance + self.floor**2 * np.eye(len(mean)))

    def maximise(
        self, score: Callable[[Array], float], mean: ArrayLike, generations: int, seed: int = 0
    ) -> list[Proposal]:
        """The proposals of a whole search of `score` over the unit cube, the last one after `generations`."""
        generator, proposals = np.random.default_rng(seed), [self.first(mean)]
        for _ in range(generations):
            points = [proposals[-1].draw(generator) for _ in range(self.population)]
            proposals.append(self.refit(proposals[-1], points, [score(point) for point in points]))
        return proposals
