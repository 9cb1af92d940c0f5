"""`learned`: attention of followers over leaders and delays, trained in each window (after DeltaLag, Zhao et al. 2025).

The bar x_j(t) is predicted by what follower j attends to, of the past of all symbols:

    x̂_j(t) = g_j Σ_k (a⁺_k − a⁻_k) x_k,     (a⁺, a⁻, a⁰) = softmax θ_j,     k = (leader i, delay l)

Each of the CANDIDATES strongest pairs (i, l) can be attended to in either direction, and a⁰ attends to nothing. Queries
and keys start from what the window shows: θ is the t-value of the lagged product, that of "nothing" the level of noise.
Gradient descent on the squared error then moves attention to where it predicts best; pairs compete, so that what runs
through a third symbol loses. How many steps are taken is chosen by cross-validation over blocks of time, for each
follower; where no step predicts better than zero, it attends to nothing and follows no one.

DeltaLag conditions attention on features of the bar. Here it is fixed inside a window, and windows differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated

import numpy as np

from pacesetter.arrays import Array
from pacesetter.compiled import njit, prange
from pacesetter.errors import check_range
from pacesetter.leadlag.estimators.correlation import DIFFERENCE, PEAK, ConditionalWindows, ScoreRecipe
from pacesetter.leadlag.estimators.estimator import Estimator, Resources, Scorer
from pacesetter.leadlag.memory import check_memory
from pacesetter.leadlag.series import Series

__all__ = ["AttentionWindows", "LearnedAttention", "attend", "attention_weights"]

LEAST_SHARE = 0.1  # of a follower's strongest weight; a softmax gives everything a little
CANDIDATES = 32  # pairs of leader and delay that a follower can attend to
FOLDS = 4
RATE, FIRST_DECAY, SECOND_DECAY, TINY = 0.1, 0.9, 0.999, 1e-8  # Adam, with its published decays
SHARPNESS, GAIN = 0.5, 0.1  # of the attention before the first step, and how far it is trusted
STEPS = 60
LEAST_BARS = 40  # of a window that is cut into folds


@dataclass(frozen=True)
class LearnedAttention(Estimator):
    """max_l |w_l[i, j]| − max_l |w_l[j, i]| of the attention weights w = g·(a⁺ − a⁻)."""

    max_lag: Annotated[int, "longest delay"] = 5
    steps: Annotated[int, "of gradient descent, at most"] = STEPS

    def scorer(self, series: Series, resources: Resources) -> Scorer:
        """Scorer of lags 1 … max_lag."""
        resources.refuse_backends("learned")
        check_range(1, owner="lag", steps=self.steps)
        symbols = len(series.symbols)
        check_memory(
            8.0 * (FOLDS + 1) * (symbols * self.max_lag) ** 2,
            f"lag.method=learned of {symbols:,} symbols and {self.max_lag} delays",
            "take fewer symbols (data.symbols) or a smaller lag.max_lag",
        )
        return AttentionWindows(series, ScoreRecipe(self.max_lag, PEAK, DIFFERENCE), self.steps)


class AttentionWindows(ConditionalWindows):
    """Attention trained in one window at a time."""

    def __init__(self, series: Series, recipe: ScoreRecipe, steps: int) -> None:
        super().__init__(series, self._weights, recipe)
        self.steps = steps

    def _weights(self, window: Array, lags: Iterable[int]) -> Iterator[Array]:
        return iter(attend(window, len(list(lags)), self.steps))

    def statistics(self, end: int, lookback: int) -> Array:
        """(lag, i, j) t-value of the lagged product where j attends to it, 0 elsewhere.

        What is attended to is a choice among all pairs and delays, so that the largest of all under the null bounds it.
        """
        window = self.series.window(end, lookback)
        x = _standardise(window)
        lags = len(self.recipe.lags(lookback))
        weights = attend(window, lags, self.steps)
        values = np.zeros_like(weights)
        for lag in range(1, lags + 1):
            past, now = x[:-lag], x[lag:]
            error = np.sqrt((past**2).T @ now**2)
            values[lag - 1] = (past.T @ now) / np.where(error > 0, error, np.inf)
        return np.where(weights != 0, values, 0.0)


def attend(window: Array, lags: int, steps: int = STEPS) -> Array:
    """(lag, i, j) attention weights of increments (time, symbol) in units of their deviations; 0 where none is paid."""
    symbols = window.shape[1]
    if len(window) < LEAST_BARS + lags or not lags:
        return np.zeros((max(lags, 1), symbols, symbols))
    x = _standardise(window)
    past = np.hstack([x[lags - lag : len(x) - lag] for lag in range(1, lags + 1)])  # column (lag − 1)·N + i
    return attention_weights(past, x[lags:], steps).reshape(lags, symbols, symbols)


def attention_weights(past: Array, now: Array, steps: int = STEPS) -> Array:
    """(input, follower) weights by which followers `now` (time, follower) attend to inputs `past` (time, input)."""
    edges = np.linspace(0, len(now), FOLDS + 1).astype(int)
    blocks = [slice(begin, end) for begin, end in pairwise(edges.tolist())]
    # Sums of each block, then of all bars: with squared errors they are all that training and validation need.
    grams = np.stack([past[block].T @ past[block] for block in (*blocks, slice(None))])
    moments = np.stack([past[block].T @ now[block] for block in (*blocks, slice(None))])
    bars = np.append(np.diff(edges), len(now)).astype(np.float64)
    return np.asarray(_train_followers(grams, moments, bars, steps))


def _standardise(window: Array) -> Array:
    centred = window - window.mean(axis=0)
    deviation = centred.std(axis=0)
    return np.asarray(centred / np.where(deviation > 0, deviation, np.inf))


@njit(parallel=True, cache=True)
def _train_followers(grams: Array, moments: Array, bars: Array, steps: int) -> Array:
    """(pair, follower) weights: the number of steps by cross-validation, then as many on all bars."""
    pairs, followers = moments.shape[1:]
    weights = np.zeros((pairs, followers))
    for j in prange(followers):
        errors = np.zeros(steps + 1)
        for fold in range(FOLDS):
            _descend(grams, moments, bars, j, fold, steps, errors, weights)
        best = int(np.argmin(errors))
        if best > 0:
            _descend(grams, moments, bars, j, FOLDS, best, errors, weights)
    return weights


@njit(cache=True)
def _descend(
    grams: Array, moments: Array, bars: Array, j: int, fold: int, steps: int, errors: Array, weights: Array
) -> None:
    """Train follower j on the bars outside `fold`, and add its error there after each step; on all for fold FOLDS.

    On all bars the weights of the last step are written into `weights`.
    """
    is_whole = fold == FOLDS
    count = bars[FOLDS] if is_whole else bars[FOLDS] - bars[fold]
    own = moments[FOLDS, :, j] / count if is_whole else (moments[FOLDS, :, j] - moments[fold, :, j]) / count
    chosen = np.argsort(-np.abs(own))[: min(CANDIDATES, own.size)]
    size = chosen.size
    gram, moment = np.empty((size, size)), own[chosen]
    for a in range(size):
        for b in range(size):
            total = grams[FOLDS, chosen[a], chosen[b]]
            gram[a, b] = (total if is_whole else total - grams[fold, chosen[a], chosen[b]]) / count
    theta = np.empty(2 * size + 1)
    theta[:size] = SHARPNESS * np.sqrt(count) * moment
    theta[size:-1] = -theta[:size]
    theta[-1] = SHARPNESS * np.sqrt(2 * np.log(2.0 * own.size))  # what the largest of so many t-values of noise has
    gain, first, second = GAIN, np.zeros(theta.size + 1), np.zeros(theta.size + 1)
    gradient, pull = np.empty(theta.size + 1), np.empty(size)
    for step in range(1, steps + 1):
        attention = np.exp(theta - theta.max())
        attention /= attention.sum()
        net = attention[:size] - attention[size:-1]
        for a in range(size):
            pull[a] = gain * (gram[a] * net).sum() - moment[a]  # of half the squared error, by the weight
        # The softmax's Jacobian: what all directions have in common is taken off.
        common = gain * (pull * net).sum()
        gradient[:size] = attention[:size] * (gain * pull - common)
        gradient[size : 2 * size] = attention[size:-1] * (-gain * pull - common)
        gradient[2 * size] = -attention[-1] * common
        gradient[-1] = (pull * net).sum()
        first = FIRST_DECAY * first + (1 - FIRST_DECAY) * gradient
        second = SECOND_DECAY * second + (1 - SECOND_DECAY) * gradient**2
        move = first / (1 - FIRST_DECAY**step)
        move *= RATE / (np.sqrt(second / (1 - SECOND_DECAY**step)) + TINY)
        theta -= move[:-1]
        gain = max(gain - move[-1], 0.0)
        if is_whole:
            continue
        attention = np.exp(theta - theta.max())
        attention /= attention.sum()
        weight = gain * (attention[:size] - attention[size:-1])
        for a in range(size):
            errors[step] -= weight[a] * moments[fold, chosen[a], j]
            for b in range(size):
                errors[step] += 0.5 * weight[a] * weight[b] * grams[fold, chosen[a], chosen[b]]
    if is_whole:
        attention = np.exp(theta - theta.max())
        attention /= attention.sum()
        weight = gain * (attention[:size] - attention[size:-1])
        weights[chosen, j] = np.where(np.abs(weight) >= LEAST_SHARE * np.abs(weight).max(), weight, 0.0)
