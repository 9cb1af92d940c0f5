"""What all symbols answer alike is one weight, and how far back to fit is chosen by blocks that follow each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pacesetter.data.synthetic import Synthetic
from pacesetter.methods.direct.learner import DirectLearner
from pacesetter.methods.direct.memory import age_weights, choose_memory
from pacesetter.methods.direct.options import Direct
from pacesetter.methods.direct.pooling import common_weights, fit_pooled
from pacesetter.methods.direct.sparse import fit_sparse
from pacesetter.panel import Panel

from .conftest import CHEAP, DRIFT, whole_bank

Array = np.ndarray[Any, Any]
LAGS, OPTIONS = 2, {"folds": 5, "purge_bars": 4}
OWN = np.arange(24).reshape(LAGS, 12)


def alike(strength: float, symbols: int = 25, bars: int = 700) -> Panel:
    """Every symbol but the leader answers its last move, all of them alike and weakly."""
    return Synthetic(
        symbols=symbols,
        bars=bars,
        groups=1,
        unrelated_share=0.0,
        strength=strength,
        spread=0.0,
        negative_share=0.0,
        max_delay=1,
        market_correlation=0.05,
        volatility=0.15,
        regimes=DRIFT,
        seed=3,
    ).read()


def fitted(panel: Panel, *groups: str) -> DirectLearner:
    learner = DirectLearner(whole_bank(panel), CHEAP, Direct(dictionary=("lags", *groups)))
    learner.fit_weights()
    return learner


def agreement(learner: DirectLearner, panel: Panel) -> float:
    """Correlation of the held-out signals with the planted response."""
    assert panel.truth is not None
    signals, first = learner.signals[:-1].numpy(), learner.series.first
    answer = panel.truth.response[first + 1 :] / learner.series.volatility[:-1].numpy()
    return float(np.corrcoef(signals.ravel(), answer.ravel())[0, 1]) if signals.any() else 0.0


def test_a_weak_answer_that_all_symbols_share_is_found_by_pooling() -> None:
    panel = alike(0.15)
    plain, pooled = fitted(panel), fitted(panel, "pooled")
    assert pooled.fit_figures["pooled"] == 1.0
    assert agreement(pooled, panel) > agreement(plain, panel) + 0.2


def moves(bars: int = 1_500, symbols: int = 12) -> tuple[Array, Array, np.random.Generator]:
    """(x, noise, generator): lags 1 and 2 of every symbol's moves and a constant."""
    generator = np.random.default_rng(0)
    u, noise = generator.standard_normal((bars + LAGS, symbols)), generator.standard_normal((bars, symbols))
    x = np.concatenate([u[1:-1], u[:-2], np.ones((bars, 1))], 1)
    return x, noise, generator


def test_every_symbol_answers_its_own_lag_alike() -> None:
    x, noise, _ = moves()
    y = noise - 0.06 * x[:, :12]
    shared = common_weights(x, y, OWN, folds=5, purge_bars=4)
    assert len(shared) == 6
    own = shared[0][np.arange(12), np.arange(12)]
    np.testing.assert_allclose(own, own[0])
    assert own[0] == pytest.approx(-0.06, abs=0.02)
    alone = fit_sparse(x, y, **OPTIONS)
    pooled = fit_pooled(x, y, OWN, lambda given: fit_sparse(x, y, given=given, **OPTIONS), **OPTIONS)
    assert pooled is not None
    assert pooled.sureness > alone.sureness + 2


def test_symbols_that_join_and_leave_take_part_while_they_are_listed() -> None:
    x, noise, _ = moves(bars=2_000)
    y = noise - 0.08 * x[:, :12]
    y[:1_500, :6] = 0.0  # six of twelve join late
    shared = common_weights(x, y, OWN, folds=5, purge_bars=4)
    assert shared[0][0, 0] == shared[0][11, 11] == pytest.approx(-0.08, abs=0.02)


def test_nothing_is_pooled_in_noise() -> None:
    x, noise, _ = moves()
    assert fit_pooled(x, noise, OWN, lambda given: fit_sparse(x, noise, given=given, **OPTIONS), **OPTIONS) is None


def test_deviations_are_fitted_beside_what_is_given() -> None:
    x, noise, _ = moves()
    y = noise + 0.3 * x[:, [0]]
    y[:, 3] += 0.4 * x[:, 5]
    given = [np.zeros((x.shape[1], 12)) for _ in range(6)]
    for each in given:
        each[0] = 0.3
    sparse = fit_sparse(x, y, given=given, **OPTIONS)
    assert sparse.weights[5, 3] == pytest.approx(0.4, abs=0.08)
    np.testing.assert_allclose(np.delete(sparse.weights[0], 3), 0.3, atol=0.1)
    assert np.count_nonzero(sparse.weights - given[0]) < 12


def test_older_bars_count_less_where_a_relation_has_turned() -> None:
    x, noise, _ = moves(bars=2_000)
    sign = np.where(np.arange(2_000) < 1_000, 1.0, -1.0)[:, None]
    used = np.zeros((x.shape[1], 12))
    used[0] = 1.0
    turned, gains = choose_memory(x, noise + 0.2 * sign * x[:, [0]], used, **OPTIONS)
    assert turned <= 500
    assert gains > 2.5
    steady, _ = choose_memory(x, noise + 0.2 * x[:, [0]], used, **OPTIONS)
    assert steady == np.inf
    assert choose_memory(x, noise, 0.0 * used, **OPTIONS) == (np.inf, 0.0)


def test_a_bar_counts_half_after_its_memory() -> None:
    weights = age_weights(400, 100.0)[:, 0]
    assert weights[-101] / weights[-1] == pytest.approx(0.5)
    assert weights.mean() == pytest.approx(1.0)
    assert (age_weights(10, np.inf) == 1.0).all()
