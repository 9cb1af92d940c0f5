"""Drifts: unpenalised where it is sure that there are any, and without a trace where it is not."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pacesetter.data.synthetic import Synthetic
from pacesetter.methods.direct.drift import fit_drift, shrunk_means
from pacesetter.methods.direct.learner import DirectLearner
from pacesetter.methods.direct.options import USED, Direct
from pacesetter.panel import Panel

from .conftest import CHEAP, Make, whole_bank
from .test_discovery import fitted


@pytest.fixture(scope="module")
def drifting() -> Panel:
    """Ten symbols that rise, and nothing that leads."""
    plain = {
        "market_correlation": 0.0,
        "volatility_clustering": 0.0,
        "tail_degrees": 1e9,
        "gap_share": 0.0,
        "spread": 0.0,
    }
    flat = {"regimes": {"flat": (-0.045, 1.0)}, "negative_share": 0.0, "volatility": 0.3}
    return Synthetic(world="cushion", difficulty=0.25, symbols=10, bars=2000, seed=1, **plain, **flat).read()


def constants(learner: DirectLearner) -> np.ndarray:
    return learner.policy.weights[learner.policy.sizes["lags"] - 1].detach().numpy()


def test_means_are_shrunk_towards_that_of_all() -> None:
    generator = np.random.default_rng(0)
    truth = 0.05 + 0.02 * generator.standard_normal(10)
    draws = [truth + generator.standard_normal((1000, 10)) for _ in range(40)]
    own, shrunk = (
        np.mean([np.square(of(y) - truth).sum() for y in draws]) for of in (lambda y: y.mean(0), shrunk_means)
    )
    assert shrunk < 0.75 * own
    alike = np.tile(np.array([[1.0], [-0.8]]), (500, 4))
    np.testing.assert_allclose(shrunk_means(alike), 0.1)


def test_each_block_has_means_without_it() -> None:
    y = np.zeros((500, 4))
    y[:100] = 1.0
    drift = fit_drift(y, folds=5, purge_bars=0)
    assert not drift.said[:100].any()
    assert not drift.without[0].any()
    np.testing.assert_allclose(drift.said[100:], 0.25)
    np.testing.assert_allclose(drift.mean, 0.2)


def test_drifts_are_found_where_a_penalty_takes_them(drifting: Panel) -> None:
    plain, learner = fitted(drifting), fitted(drifting, "drift")
    truth, volatility = drifting.truth, np.asarray(drifting.close[1:] / drifting.close[:-1] - 1).std(0)
    assert truth is not None
    planted = truth.response.mean(0) / volatility
    assert learner.fit_figures["gain_drift"] >= 2.5
    errors = [float(np.square(constants(each) - planted).sum()) for each in (plain, learner)]
    assert errors[1] < 0.5 * errors[0]
    assert errors[1] < 0.2 * float(np.square(planted).sum())
    # What is said of the bars learned from is by means without them, so that no two blocks are alike.
    assert len(np.unique(learner.signals[: len(learner.series.earned), 0].numpy().round(12))) >= 5


def test_where_nothing_drifts_nothing_is_changed(make_learner: Make) -> None:
    plain, tried = make_learner(dictionary=("lags",)), make_learner(dictionary=("lags", "drift"))
    for learner in (plain, tried):
        learner.learn(2 * learner.round_steps)
    assert tried.fit_figures["gain_drift"] < 2.5
    assert plain.policy.weights.any()
    assert tried.policy.weights.equal(plain.policy.weights)
    assert torch.equal(tried.signals, plain.signals)
    for mine, other in zip(tried.policy.shape(), plain.policy.shape(), strict=True):
        assert torch.equal(mine, other)


def test_it_is_off_unless_named() -> None:
    assert "drift" not in USED
    panel = Synthetic(symbols=4, bars=700, strength=0.0, seed=3).read()
    learner = DirectLearner(whole_bank(panel), CHEAP, Direct())
    learner.fit_weights()
    assert "gain_drift" not in learner.fit_figures
