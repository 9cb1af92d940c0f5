"""Significance: noise gives α, false discovery is controlled, planted links are found, intervals cover."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

from pacesetter.errors import ConfigError
from pacesetter.leadlag import ESTIMATORS, LeadLag
from pacesetter.leadlag.strategy import last_moves
from pacesetter.leadlag.structure import network
from pacesetter.leadlag.structure.network import (
    Score,
    engine_score,
    false_discovery_rate,
    lead_lag_network,
    link_p_values,
    ranking_intervals,
)
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


def noise_shares(level: float, score: Score, **options: object) -> tuple[int, int]:
    """How many links of 40 noise windows have p ≤ level, of how many; disjoint pairs, which are independent."""
    found = total = 0
    for seed in range(40):
        noise = np.random.default_rng(seed).standard_normal((120, 20))
        p_values = link_p_values(noise, score, draws=99, seed=1000 + seed, **options)
        disjoint = p_values[np.arange(0, 20, 2), np.arange(1, 20, 2)]
        found, total = found + int((disjoint <= level).sum()), total + disjoint.size
    return found, total


def assert_share(found: int, total: int, level: float) -> None:
    """The share lies where 99 % of binomial draws at `level` lie."""
    low, high = binom.ppf([0.005, 0.995], total, level)
    assert low <= found <= high


@pytest.mark.parametrize("options", [{}, {"null": "shift"}, {"pooled": True}])
@pytest.mark.parametrize("level", [0.05, 0.2])
def test_pure_noise_has_a_share_of_alpha_significant_links(level: float, options: dict[str, object]) -> None:
    assert_share(*noise_shares(level, ccf_lag1, **options), level)


@pytest.mark.parametrize("method", ["ccf_auc", "ccf_peak", "levy_path", "levy_returns"])
def test_pure_noise_has_a_share_of_alpha_significant_links_by_every_fast_estimator(method: str) -> None:
    assert_share(*noise_shares(0.1, engine_score(method)), 0.1)


def test_p_values_are_symmetric_with_an_empty_diagonal() -> None:
    p_values = link_p_values(leader_and_followers(), ccf_lag1, draws=50)
    np.testing.assert_array_equal(p_values, p_values.T)
    assert np.isnan(np.diag(p_values)).all()
    assert np.isfinite(p_values).sum() == 8 * 7


def test_batches_give_the_same_p_values(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = link_p_values(leader_and_followers(), ccf_lag1, draws=20)
    monkeypatch.setattr(network, "BATCH_BYTES", 3 * 300 * 8 * 8)
    np.testing.assert_array_equal(link_p_values(leader_and_followers(), ccf_lag1, draws=20), whole)


def test_false_discovery_rate_has_the_hand_values_of_benjamini_and_hochberg() -> None:
    p_values = np.full((3, 3), np.nan)
    p_values[np.triu_indices(3, 1)] = [0.01, 0.04, 0.03]
    adjusted = false_discovery_rate(p_values)
    np.testing.assert_allclose(adjusted[np.triu_indices(3, 1)], [0.03, 0.04, 0.04])
    np.testing.assert_array_equal(adjusted, adjusted.T)
    assert np.isnan(false_discovery_rate(np.full((2, 2), np.nan))).all()


def test_noise_networks_are_empty_at_the_promised_rate() -> None:
    # on pure noise every link is false, so the chance of any link is at most the level
    made = 0
    for seed in range(60):
        noise = np.random.default_rng(500 + seed).standard_normal((120, 8))
        p_values = link_p_values(noise, ccf_lag1, draws=100, pooled=True, seed=seed)
        graph = lead_lag_network(ccf_lag1(noise[None])[0], p_values, SYMBOLS, level=0.1)
        made += graph.number_of_edges() > 0
    assert made <= binom.ppf(0.99, 60, 0.1)


def test_planted_links_are_edges_from_leader_to_follower() -> None:
    increments = leader_and_followers()
    p_values = link_p_values(increments, ccf_lag1, draws=200, pooled=True)
    graph = lead_lag_network(ccf_lag1(increments[None])[0], p_values, SYMBOLS, level=0.01)
    assert set(graph.edges) == {("A", "B"), ("A", "C"), ("A", "D")}
    assert graph.nodes["A"]["rank"] == 1
    assert set(graph.nodes) == set(SYMBOLS)
    assert all(link["weight"] > 0 and link["p_value"] <= link["q_value"] <= 0.01 for *_, link in graph.edges(data=True))


def test_an_absent_asset_is_a_node_without_links() -> None:
    def score(increments: np.ndarray) -> np.ndarray:
        matrices = ccf_lag1(increments)
        matrices[:, 0, :] = matrices[:, :, 0] = np.nan
        return matrices

    increments = leader_and_followers()
    p_values = link_p_values(increments, score, draws=50, pooled=True)
    graph = lead_lag_network(score(increments[None])[0], p_values, SYMBOLS, level=0.5)
    assert np.isnan(p_values[0]).all()
    assert graph.degree["A"] == 0
    assert np.isnan(graph.nodes["A"]["rank"])


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


@pytest.mark.parametrize(
    ("options", "message"),
    [({"null": "permutte"}, "did you mean 'permute'"), ({"draws": 0}, "draws=0")],
)
def test_wrong_options_are_refused_by_name(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        link_p_values(leader_and_followers(), ccf_lag1, **options)


@pytest.mark.parametrize("options", [{"block_bars": 0}, {"block_bars": 301}, {"level": 1.0}])
def test_wrong_interval_options_are_refused_by_name(options: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=next(iter(options))):
        ranking_intervals(leader_and_followers(), SYMBOLS, ccf_lag1, **options)


@pytest.mark.parametrize("method", [name for name in ESTIMATORS if name != "learned"])  # it has one answer
def test_the_engine_scores_a_window_of_increments_as_it_scores_the_panel(method: str) -> None:
    close = 100 * np.exp(0.01 * np.cumsum(leader_and_followers(), axis=0))
    if not ESTIMATORS[method].spans_gaps:  # else an increment covers the gap, which lone increments cannot tell
        close[160:170, 2] = np.nan
    panel = Panel.from_fields(pd.date_range("2024", periods=300, tz="UTC"), SYMBOLS, {"close": close})
    increments = np.log1p(last_moves(panel))[141:201]
    matrix = LeadLag(method).fit(panel).scores(200, 60)
    np.testing.assert_allclose(engine_score(method)(increments[None])[0], matrix, atol=1e-9)


def test_the_engine_scores_stacked_draws_as_it_scores_each_alone() -> None:
    score = engine_score("ccf_lag1")
    draws = np.stack([leader_and_followers(seed, bars=80) for seed in range(3)])
    alone = np.concatenate([score(draw[None]) for draw in draws])
    np.testing.assert_allclose(score(draws), alone, atol=1e-9)
    assert (alone[:, 0, 1:4] > 0.2).all()


def test_noise_rarely_has_a_leader_when_all_symbols_are_judged_together() -> None:
    """Intervals symbol by symbol name somebody in most noise panels of ten; those for all at once in about a tenth."""
    score, clear = engine_score("ccf_lag1"), {"score": 0, "sure": 0}
    for seed in range(30):
        increments = np.random.default_rng(seed).standard_normal((250, 10))
        table = ranking_intervals(increments, list("abcdefghij"), score, draws=80, level=0.9, seed=seed)
        for kind in clear:
            clear[kind] += bool(((table[f"{kind}_low"] > 0) | (table[f"{kind}_high"] < 0)).any())
    assert clear["sure"] <= 8  # 99 % of binomial(30, 0.1)
    assert clear["score"] > 15
