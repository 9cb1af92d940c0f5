"""Intervals of the leader scores: they cover, hold their estimates, and keep noise from having a leader."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

from pacesetter.errors import ConfigError
from pacesetter.leadlag import ESTIMATORS, LeadLag
from pacesetter.leadlag.answer import StrengthMeasure, intervals
from pacesetter.leadlag.answer.intervals import Resampled, ranking_intervals
from pacesetter.leadlag.strategy import last_moves
from pacesetter.panel import Panel

SYMBOLS = tuple("ABCDEFGH")


def ccf_lag1(increments: np.ndarray) -> np.ndarray:
    """(draws, time, N) → (draws, N, N): lag-1 cross-correlation forward less backward."""
    z = (increments - increments.mean(axis=1, keepdims=True)) / increments.std(axis=1, keepdims=True)
    forward = z[:, :-1].swapaxes(1, 2) @ z[:, 1:] / z.shape[1]
    return forward - forward.swapaxes(1, 2)


def leader_and_followers(seed: int = 0, bars: int = 300) -> np.ndarray:
    """A leads B, C and D by one bar; E … H are noise."""
    rng = np.random.default_rng(seed)
    increments = rng.standard_normal((bars, 8))
    increments[1:, 1:4] += increments[:-1, :1]
    return increments


def test_batches_give_the_same_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = ranking_intervals(leader_and_followers(), SYMBOLS, ccf_lag1, draws=20)
    monkeypatch.setattr(intervals, "BATCH_BYTES", 3 * 300 * 8 * 8)
    pd.testing.assert_frame_equal(ranking_intervals(leader_and_followers(), SYMBOLS, ccf_lag1, draws=20), whole)


def test_resampled_products_give_intervals_as_wide_as_resampled_bars() -> None:
    increments, gauge = leader_and_followers(bars=600), StrengthMeasure("ccf_lag1")
    bars = ranking_intervals(increments, SYMBOLS, gauge.leadership, draws=200)
    products = ranking_intervals(
        increments, SYMBOLS, gauge.leadership, draws=200, resampled=Resampled(increments, gauge)
    )
    width = (products["score_high"] - products["score_low"]) / (bars["score_high"] - bars["score_low"])
    assert width.between(0.7, 1.4).all()
    assert products.index[0] == "A"


def test_intervals_put_the_leader_first_and_hold_the_truth() -> None:
    def score_of(seed: int) -> np.ndarray:
        return ccf_lag1(leader_and_followers(seed)[None])[0].sum(axis=1)[0] / 7

    truth = np.mean([score_of(seed) for seed in range(200, 300)])
    inside = 0
    for seed in range(20):
        table = ranking_intervals(leader_and_followers(seed), SYMBOLS, ccf_lag1, draws=100, seed=seed)
        assert table.index[0] == "A"
        inside += table.loc["A", "score_low"] <= truth <= table.loc["A", "score_high"]
    assert inside >= binom.ppf(0.01, 20, 0.9)


def test_intervals_hold_their_estimates() -> None:
    table = ranking_intervals(leader_and_followers(), SYMBOLS, ccf_lag1, draws=50)
    for value in ("score", "rank"):
        assert (table[f"{value}_low"] <= table[value]).all()
        assert (table[value] <= table[f"{value}_high"]).all()
    assert table["rank"].is_monotonic_increasing


@pytest.mark.parametrize("options", [{"block_bars": 0}, {"block_bars": 301}, {"level": 1.0}, {"draws": 0}])
def test_wrong_interval_options_are_refused_by_name(options: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=next(iter(options))):
        ranking_intervals(leader_and_followers(), SYMBOLS, ccf_lag1, **options)


@pytest.mark.parametrize("method", [name for name in ESTIMATORS if name != "policy"])  # it has one answer
def test_the_engine_scores_a_window_of_increments_as_it_scores_the_panel(method: str) -> None:
    close = 100 * np.exp(0.01 * np.cumsum(leader_and_followers(), axis=0))
    if not ESTIMATORS[method].spans_gaps:  # else an increment covers the gap, which lone increments cannot tell
        close[160:170, 2] = np.nan
    panel = Panel.from_fields(pd.date_range("2024", periods=300, tz="UTC"), SYMBOLS, {"close": close})
    increments = np.log1p(last_moves(panel))[141:201]
    matrix = LeadLag(method).fit(panel).scores(200, 60)
    np.testing.assert_allclose(StrengthMeasure(method).scores(increments[None])[0], matrix, atol=1e-9)


def test_the_engine_scores_stacked_draws_as_it_scores_each_alone() -> None:
    score = StrengthMeasure("ccf_lag1").scores
    draws = np.stack([leader_and_followers(seed, bars=80) for seed in range(3)])
    alone = np.concatenate([score(draw[None]) for draw in draws])
    np.testing.assert_allclose(score(draws), alone, atol=1e-9)
    assert (alone[:, 0, 1:4] > 0.2).all()


def test_noise_rarely_has_a_leader_when_all_symbols_are_judged_together() -> None:
    """Intervals symbol by symbol name somebody in most noise panels of ten; those for all at once in about a tenth."""
    score, clear = StrengthMeasure("ccf_lag1").scores, {"score": 0, "sure": 0}
    for seed in range(30):
        increments = np.random.default_rng(seed).standard_normal((250, 10))
        table = ranking_intervals(increments, list("abcdefghij"), score, draws=80, level=0.9, seed=seed)
        for kind in clear:
            clear[kind] += bool(((table[f"{kind}_low"] > 0) | (table[f"{kind}_high"] < 0)).any())
    assert clear["sure"] <= 8  # 99 % of binomial(30, 0.1)
    assert clear["score"] > 15


@pytest.mark.parametrize("method", ["ccf_peak", "ccf_auc", "ccf_lag1"])
def test_every_bar_drawn_once_is_the_window_itself(method: str) -> None:
    window = np.random.default_rng(1).normal(size=(80, 4))
    gauge = StrengthMeasure(method)
    drawn = Resampled(window, gauge)(np.ones((1, 80), dtype=int))
    np.testing.assert_allclose(drawn, gauge.leadership(window[None]), atol=1e-5)


def test_a_draw_weighs_products_with_their_own_past() -> None:
    rng = np.random.default_rng(2)
    window, counts = rng.normal(size=(60, 3)), rng.integers(0, 4, (5, 60))
    drawn = Resampled(window, StrengthMeasure("ccf_lag1"))(counts)
    rows = np.repeat(np.arange(1, 60), counts[3, 1:])
    forward = np.corrcoef(window[rows - 1, 0], window[rows, 2])[0, 1]
    backward = np.corrcoef(window[rows - 1, 2], window[rows, 0])[0, 1]
    assert drawn[3, 0, 2] == pytest.approx(forward - backward, abs=1e-5)


def test_a_symbol_that_cannot_be_scored_stays_absent() -> None:
    window = np.random.default_rng(3).normal(size=(50, 3))
    window[:, 1] = 0.0
    drawn = Resampled(window, StrengthMeasure("ccf_peak"))(np.ones((2, 50), dtype=int))
    assert np.isnan(drawn[:, 1]).all()
    assert np.isfinite(drawn[:, 0, 2]).all()
