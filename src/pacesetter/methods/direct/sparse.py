"""Sparse weights: the mean–variance optimum of the ledger under an L1 penalty, its strength chosen by cross-validation.

For positions q = w · x in units of risk, long or short, without caps and costs, the utility of a bar is quadratic:

    U(w) = mean(q · y) − ½ mean(q²) − penalty · Σ |w|        y  next return, fill to fill, in units of its volatility

Its maximum is a lasso, which coordinate descent finds exactly, where a policy that is cut to long positions learns only
from the bars that it holds. Weights that are not 0 are then moved a part of the way to their own optimum without the
penalty (relaxed lasso, Meinshausen 2007). Penalty and part are those with the largest U on held-out blocks of bars. It
is one penalty for all symbols: most have too little signal to choose their own. Where even that U is not two standard
errors above 0, nothing was found, and all weights are 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pacesetter.arrays import Array
from pacesetter.leadlag.lasso import lasso

__all__ = [
    "LEAST_SURE",
    "CrossProducts",
    "Sparse",
    "blocks_of",
    "fit_sparse",
    "purged_rows",
    "relax_weights",
    "signal_utility",
    "sparse_weights",
]

Candidate = tuple[float, float, list[Array]]  # penalty, share, weights: of all bars, without each block
RIDGE = 1e-3  # of the refit, for inputs that are nearly alike
LEAST_SURE = 2.0  # the best of some fifty candidates is often a little above 0 in noise
PATIENCE = 4  # penalties in a row that are worse than an earlier one, after which the path is not followed


class CrossProducts(NamedTuple):
    """Sums over bars: inputs × inputs (p, p), inputs × returns (p, symbol), and how many bars."""

    inputs: Array
    response: Array
    bars: int

    @classmethod
    def of(cls, x: Array, y: Array) -> CrossProducts:
        return cls(x.T @ x, x.T @ y, len(x))

    def residual(self, weights: Array) -> CrossProducts:
        """The same for what is left of the returns beside weights (input, symbol)."""
        return CrossProducts(self.inputs, self.response - self.inputs @ weights, self.bars)

    def __add__(self, other: Any) -> CrossProducts:
        return CrossProducts(self.inputs + other.inputs, self.response + other.response, self.bars + other.bars)

    def __sub__(self, other: Any) -> CrossProducts:
        return CrossProducts(self.inputs - other.inputs, self.response - other.response, self.bars - other.bars)

    def utility(self, weights: Array) -> float:
        """Σ over bars and symbols of q·y − ½q²."""
        return float((weights * self.response).sum() - 0.5 * (weights * (self.inputs @ weights)).sum())


@dataclass(frozen=True)
class Sparse:
    """What `fit_sparse` found.

    weights    (input, symbol)
    held_out   (bar, symbol) signals of each bar by weights that did not see its block
    penalty    as a multiple of √(2 log p / n), below which the largest of p noise correlations lies
    share      of the way to the optimum without a penalty
    utility    per bar and symbol on the blocks left out; 0 is that of doing nothing
    sureness   standard errors of the utility above 0; below `LEAST_SURE` all weights are 0
    without    weights of all bars but each block
    """

    weights: Array
    held_out: Array
    penalty: float
    share: float
    utility: float
    sureness: float
    without: tuple[Array, ...]


def fit_sparse(
    x: Array,
    y: Array,
    *,
    folds: int = 5,
    points: int = 16,
    lowest: float = 0.4,
    shares: Sequence[float] = (0.0, 0.5, 1.0),
    purge_bars: int = 0,
    given: Sequence[Array] | None = None,
) -> Sparse:
    """Weights for inputs x (bar, p) and returns y (bar, symbol), from the strongest penalty to `lowest`.

    given        weights (input, symbol) of all bars and without each block, which those found come on top of
    purge_bars   on either side of a block left out that its weights do not see either: as many as inputs reach back
                 and returns reach ahead
    """
    blocks = blocks_of(len(x), folds)
    parts = [CrossProducts.of(x[block], y[block]) for block in blocks]
    whole = sum(parts[1:], parts[0])
    # The universal threshold √(2 log p / n): penalties are reported in it, so that they compare across markets.
    unit = math.sqrt(2 * math.log(max(x.shape[1], 2)) / whole.bars)
    # Above the largest correlation every weight is 0; starting there, the path includes doing nothing.
    strongest = max(float(np.abs(whole.response).max()) / whole.bars, 1.2 * unit)
    path = _Path([whole, *_purge_blocks(x, y, whole, blocks, purge_bars)], given)
    utilities: list[float] = []
    best: Candidate | None = None  # the first of equals: the sparsest; the others' weights are not kept
    # Falling, so that each solution starts from a sparser one; by factors, as supports change by factors.
    for penalty in np.geomspace(strongest, lowest * unit, points):
        plain, refit = path.at(float(penalty))
        for share in shares:
            # Selection by the penalty, shrinkage by the share: the lasso alone would tie both (Meinshausen 2007).
            weights = [share * far + (1 - share) * near for near, far in zip(plain, refit, strict=True)]
            # Each block by the weights that did not see it; weights[0], fitted to all bars, take no part in the choice.
            utility = sum(part.utility(each) for part, each in zip(parts, weights[1:], strict=True))
            if best is None or utility > max(utilities):
                best = float(penalty) / unit, share, weights
            utilities.append(utility)
        if _is_past(utilities, len(shares)):
            break
    assert best is not None
    penalty, share, weights = best
    # Blocks are in the order of time, so their signals make (bar, symbol) again.
    held_out = np.concatenate([x[block] @ each for block, each in zip(blocks, weights[1:], strict=True)])
    utility, sureness = signal_utility(held_out, y)
    # The utility was chosen as the best of many, so being above 0 is not enough.
    if sureness < LEAST_SURE:
        weights, held_out = [np.zeros_like(each) for each in weights], np.zeros_like(held_out)
    return Sparse(weights[0], held_out, penalty, share, utility, sureness, tuple(weights[1:]))


def blocks_of(bars: int, folds: int) -> list[Array]:
    """The bars of each block that is left out once."""
    # Unbroken blocks: with shuffled bars the neighbours of a held-out bar would give it away.
    return np.array_split(np.arange(bars), folds)


def purged_rows(block: Array, purge_bars: int) -> slice:
    """A block with the bars around it whose inputs or returns share a bar with it."""
    return slice(max(int(block[0]) - purge_bars, 0), int(block[-1]) + 1 + purge_bars)


def _purge_blocks(
    x: Array, y: Array, whole: CrossProducts, blocks: list[Array], purge_bars: int
) -> list[CrossProducts]:
    """The products without each block and the bars around it whose inputs or returns share a bar with it."""
    around = [purged_rows(block, purge_bars) for block in blocks]
    # Those of all less what is left out: no pass over all bars for each fold.
    return [whole - CrossProducts.of(x[rows], y[rows]) for rows in around]


def signal_utility(signal: Array, y: Array) -> tuple[float, float]:
    """Utility per bar and symbol of signals (bar, symbol), and how many standard errors it is above 0."""
    # Summed over symbols first: symbols of one bar are correlated, so the sample of the standard error is the bars.
    by_bar = (signal * y - 0.5 * signal**2).sum(1)
    spread = float(by_bar.std()) / math.sqrt(len(by_bar))
    return float(by_bar.mean()) / y.shape[1], float(by_bar.mean()) / spread if spread > 0 else 0.0


def _is_past(utilities: list[float], shares: int) -> bool:
    """Whether the best penalty so far finds something and lies `PATIENCE` penalties back."""
    best = utilities.index(max(utilities))
    return utilities[best] > 0 and len(utilities) // shares - 1 - best // shares >= PATIENCE


class _Path:
    """Solutions for several sets of bars along falling penalties, each begun from the one before."""

    def __init__(self, products: list[CrossProducts], given: Sequence[Array] | None = None) -> None:
        self.given = given
        pairs = zip(products, given or products, strict=True)
        self.products = [each if given is None else each.residual(np.asarray(known)) for each, known in pairs]
        self.weights = [np.zeros_like(each.response) for each in products]

    def at(self, penalty: float) -> tuple[list[Array], list[Array]]:
        """The solutions at a penalty, and without it over the inputs that they use."""
        pairs = list(zip(self.products, self.weights, strict=True))
        # Warm starts: solutions of neighbouring penalties are near, and coordinate descent needs few sweeps between
        # them.
        self.weights = [sparse_weights(each, penalty, start) for each, start in pairs]
        free = [relax_weights(each, weights) for each, weights in zip(self.products, self.weights, strict=True)]
        return self._with_given(self.weights), self._with_given(free)

    def _with_given(self, weights: list[Array]) -> list[Array]:
        return weights if self.given is None else [known + own for known, own in zip(self.given, weights, strict=True)]


def sparse_weights(products: CrossProducts, penalty: float, start: Array) -> Array:
    """(input, symbol) the optimum of U for each symbol, from that of a larger penalty."""
    return lasso(products.inputs, products.response, penalty * products.bars, start)


def relax_weights(products: CrossProducts, weights: Array) -> Array:
    """The optimum without a penalty over the inputs that each symbol uses."""
    gram, response = products.inputs / products.bars, products.response / products.bars
    solution = np.zeros_like(weights)
    for column in range(weights.shape[1]):
        used = np.flatnonzero(weights[:, column])
        if len(used):
            # The chosen inputs may be nearly collinear, since neighbouring lags and markets are.
            system = gram[np.ix_(used, used)] + RIDGE * np.eye(len(used))
            solution[used, column] = np.linalg.solve(system, response[used, column])
    return solution
