"""The stated chance of a false link is kept on five kinds of noise, and what was planted is found.

`make proof` takes 1,000 markets of each kind and tests the rate exactly; here a few of them.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, binomtest

import pacesetter as ps
from pacesetter.errors import ConfigError, DataError
from pacesetter.leadlag import memory
from pacesetter.leadlag.answer import StrengthMeasure, answer_window, find_links
from pacesetter.leadlag.answer.intervals import leader_table
from pacesetter.leadlag.answer.thin import stale_share

BARS, SYMBOLS, LEVEL = 500, 10, 0.05
KINDS = ("gaussian", "fat_tails", "common_volatility", "autocorrelated", "stale")


def noise(kind: str, seed: int) -> np.ndarray:
    """(time, symbol) increments of a market with a common factor in which nobody leads; stale ones only seem to."""
    rng = np.random.default_rng((seed, KINDS.index(kind)))
    draw = (lambda shape: rng.standard_t(3, shape)) if kind == "fat_tails" else rng.standard_normal
    x = 0.5 * draw((BARS, 1)) + 0.87 * draw((BARS, SYMBOLS))
    if kind == "common_volatility":
        size = np.zeros(BARS)
        for t in range(1, BARS):
            size[t] = 0.97 * size[t - 1] + 0.2 * rng.standard_normal()
        x *= np.exp(size)[:, None]
    if kind == "autocorrelated":
        for t in range(1, BARS):
            x[t] += 0.3 * x[t - 1]
    if kind == "stale":
        x = held_back(x, rng.random((BARS, SYMBOLS)) < np.where(np.arange(SYMBOLS) < 3, 0.3, 0.0))
    return x


def held_back(x: np.ndarray, is_stale: np.ndarray) -> np.ndarray:
    """The increments of prices that were not renewed where stale and catch up later."""
    path = np.cumsum(x, axis=0)
    for t in range(1, len(path)):
        path[t] = np.where(is_stale[t], path[t - 1], path[t])
    return np.diff(path, axis=0, prepend=0.0)


def has_false_link(kind: str, seed: int, gauge: StrengthMeasure, draws: int) -> bool:
    """Whether any link between symbols that trade is found."""
    window = noise(kind, seed)
    linked = find_links(window, gauge, draws=draws, level=LEVEL, seed=seed).mask_linked(LEVEL)
    thin = stale_share(window) > 0.05
    return bool(linked[np.ix_(~thin, ~thin)].any())


@pytest.mark.parametrize("kind", KINDS)
def test_false_links_are_rare_on_noise(kind: str) -> None:
    gauge = StrengthMeasure("ccf_peak")
    found = sum(has_false_link(kind, seed, gauge, 100) for seed in range(40))
    assert found <= binom.ppf(0.995, 40, LEVEL)


@pytest.mark.proof
@pytest.mark.parametrize("kind", KINDS)
def test_false_links_have_the_stated_rate_on_a_thousand_markets(kind: str) -> None:
    gauge, markets = StrengthMeasure("ccf_peak"), 1000
    found = sum(has_false_link(kind, seed, gauge, 200) for seed in range(markets))
    print(f"{kind}: any false link in {found} of {markets} markets, stated {LEVEL:.0%}")
    assert binomtest(found, markets, LEVEL, alternative="greater").pvalue > 0.01
    assert binomtest(found, markets, LEVEL / 2, alternative="less").pvalue > 0.01


def slow_factor(seed: int) -> np.ndarray:
    """Noise whose common factor alone predicts itself: each symbol predicts every other, both ways alike."""
    rng = np.random.default_rng((seed, len(KINDS)))
    factor = rng.standard_normal((BARS, 1))
    for t in range(1, BARS):
        factor[t] += 0.3 * factor[t - 1]
    return 0.5 * factor + 0.87 * rng.standard_normal((BARS, SYMBOLS))


def has_false_leader(kind: str, seed: int, draws: int) -> bool:
    """Whether any score of a market in which nothing leads is called rare."""
    window = slow_factor(seed) if kind == "slow factor" else noise(kind, seed)
    return bool((find_links(window, StrengthMeasure("ccf_peak"), draws=draws, seed=seed).leader_p <= LEVEL).any())


@pytest.mark.parametrize("kind", [*KINDS[:-1], "slow factor"])
def test_scores_of_noise_are_seldom_called_rare(kind: str) -> None:
    found = sum(has_false_leader(kind, seed, 60) for seed in range(40))
    assert found <= binom.ppf(0.995, 40, LEVEL)


@pytest.mark.proof
@pytest.mark.parametrize("kind", [*KINDS[:-1], "slow factor"])
def test_scores_of_a_thousand_noise_markets_are_called_rare_at_the_stated_rate(kind: str) -> None:
    found = sum(has_false_leader(kind, seed, 100) for seed in range(1000))
    print(f"ranking, {kind}: any score called rare in {found} of 1000 markets, stated {LEVEL:.0%}")
    assert binomtest(found, 1000, LEVEL, alternative="greater").pvalue > 0.01


def test_stale_prices_seem_to_follow_and_are_flagged() -> None:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((1000, 1)) + 0.7 * rng.standard_normal((1000, 8))
    x = held_back(x, rng.random(x.shape) < np.where(np.arange(8) < 3, 0.4, 0.0))
    linked = find_links(x, StrengthMeasure("ccf_peak")).mask_linked(LEVEL)
    assert linked[3:, :3].any()
    assert (stale_share(x)[:3] > 0.05).all()
    assert (stale_share(x)[3:] == 0).all()


@pytest.mark.parametrize(("method", "precision"), [("ccf_peak", 0.95), ("granger", 0.95)])
def test_planted_leads_are_found_with_delay_and_sign(method: str, precision: float) -> None:
    gauge = StrengthMeasure(method)
    for seed in (11, 12):
        panel = ps.load("synthetic", symbols=20, bars=2501, strength=0.4, seed=seed)
        window = np.diff(np.log(panel.close), axis=0)
        answer = answer_window(window, panel.symbols, gauge)
        linked = find_links(window, gauge, answer).mask_linked(LEVEL)
        delays, signs = panel.truth.delays, panel.truth.signs
        direct = np.zeros_like(linked)
        followers = np.flatnonzero((panel.truth.leader_of >= 0) & (panel.truth.leader_of != np.arange(20)))
        direct[panel.truth.leader_of[followers], followers] = True
        assert (linked & direct).sum() >= 0.9 * direct.sum()
        assert (linked & (delays > 0)).sum() >= precision * linked.sum()
        if method == "granger":
            assert (linked & direct).sum() >= 0.85 * linked.sum()  # conditional: direct links alone
        hits = np.argwhere(linked & direct)
        assert all(answer.delays[i, j] == delays[i, j] and answer.signs[i, j] == signs[j] for i, j in hits)


def test_pairs_that_predict_each_other_equally_are_not_linked() -> None:
    rng = np.random.default_rng(6)
    x = rng.standard_normal((1500, 2))
    for t in range(1, 1500):
        x[t] += 0.35 * x[t - 1, ::-1]
    assert find_links(x, StrengthMeasure("ccf_peak")).mask_linked(LEVEL).sum() == 0


@pytest.mark.parametrize("control", ["bh", "by"])
def test_discovery_rates_find_what_was_planted(control: str) -> None:
    rng = np.random.default_rng(7)
    x = rng.standard_normal((400, 8))
    x[1:, 1:4] += 0.6 * x[:-1, :1]
    linked = find_links(x, StrengthMeasure("ccf_lag1"), control=control).mask_linked(LEVEL)
    assert linked[0, 1:4].all()
    assert linked.sum() <= 4


@pytest.mark.parametrize("method", ["levy_returns", "mutual_information"])
def test_other_methods_are_tested_on_their_own_score(method: str) -> None:
    rng = np.random.default_rng(8)
    x = rng.standard_normal((600, 4))
    x[1:, 1] += x[:-1, 0]
    assert np.argwhere(find_links(x, StrengthMeasure(method), draws=60).mask_linked(LEVEL)).tolist() == [[0, 1]]


def test_information_sees_relations_that_correlation_cannot() -> None:
    """Bennett's cosine relation: x_j(t) = cos(x_i(t−1)) is even, so every correlation with x_i is zero."""
    rng = np.random.default_rng(9)
    x = rng.standard_normal((1500, 3))
    x[1:, 1] = np.cos(2 * x[:-1, 0]) + 0.3 * rng.standard_normal(1499)
    assert not find_links(x, StrengthMeasure("ccf_lag1")).mask_linked(LEVEL)[0, 1]
    for method in ("mutual_information", "transfer_entropy"):
        assert find_links(x, StrengthMeasure(method), draws=40).mask_linked(LEVEL)[0, 1], method


def test_information_points_a_multiplicative_relation_the_right_way() -> None:
    """x_j(t) = x_i(t−1)·ε(t) moves volatility alone: information sees its direction, and the null, which keeps
    volatility, does not call it a link."""
    rng = np.random.default_rng(11)
    x = rng.standard_normal((1500, 6))
    for leader in (0, 2, 4):
        x[1:, leader + 1] *= x[:-1, leader]
    pairs = [0, 2, 4], [1, 3, 5]
    for method in ("mutual_information", "transfer_entropy"):
        answer = answer_window(x, tuple("abcdef"), StrengthMeasure(method))
        assert (answer.leadership[pairs] > 0.02).all(), method
    assert not find_links(x, StrengthMeasure("mutual_information"), draws=40).mask_linked(LEVEL)[pairs].any()


def test_absent_symbols_have_no_chance() -> None:
    x = np.random.default_rng(10).standard_normal((200, 3))
    x[:, 1] = np.nan
    links = find_links(x, StrengthMeasure("ccf_peak"), draws=30)
    assert np.isnan(links.p_values[1]).all()
    assert np.isnan(links.leader_p[1])
    with pytest.raises(ConfigError, match=r"lag\.control='bf' is unknown"):
        find_links(x, StrengthMeasure("ccf_peak"), control="bf")  # type: ignore[arg-type]


@pytest.mark.parametrize("method", ["ccf_peak", "ccf_auc"])
def test_blocks_of_one_draw_give_the_same_numbers(method: str) -> None:
    panel = ps.load("synthetic", symbols=12, bars=401, strength=0.4, seed=3)
    window = np.diff(np.log(panel.close), axis=0)
    whole, blocked = StrengthMeasure(method), StrengthMeasure(method, memory_budget_mb=0.001)
    assert blocked.draws_at_once(*window.shape) == 1 < whole.draws_at_once(*window.shape)
    found = []
    for gauge in (whole, blocked):
        answer = answer_window(window, panel.symbols, gauge)
        links = find_links(window, gauge, answer, draws=60)
        table = leader_table(window, gauge, answer, links, draws=60, level=LEVEL, seed=0)
        found.append((answer.leadership, links.p_values, links.leader_p, links.leader_least, links.detectable))
        found[-1] += tuple(table[name].to_numpy() for name in ("score", "sure_low", "sure_high", "rank_low"))
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)
    assert (found[0][1] <= LEVEL).any()


def test_what_keeps_every_draw_is_refused_where_it_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(10).standard_normal((200, 30))
    monkeypatch.setattr(memory, "free_bytes", lambda: 1e6)
    gauge = StrengthMeasure("ccf_peak")
    find_links(x, gauge, draws=100)
    with pytest.raises(DataError, match=r"lag\.control=bh of 30 symbols keeps 100 draws .* take lag\.control=max"):
        find_links(x, gauge, draws=100, control="bh")
    with pytest.raises(DataError, match=r"lag\.test=differs of 30 symbols .* take lag\.test=predicts"):
        find_links(x, gauge, draws=100, test="differs")
