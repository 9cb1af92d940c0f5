"""Synthetic markets: what is planted is what the bars show, and nothing else is.

Runs `data.truth`.
"""

from __future__ import annotations

import dataclasses
import logging
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pacesetter as ps
from pacesetter.data.synthetic import Synthetic
from pacesetter.errors import ConfigError

FLAT = {"flat": (0.0, 1.0)}
# no drift, no market and no noise of their own: followers move by their leaders alone
BARE = {"regimes": FLAT, "market_correlation": 0.0, "noise": 0.0}
CALM = {"regimes": FLAT, "volatility_clustering": 0.0, "tail_degrees": 1e6}


def returns(panel):
    """Log returns close → close, before the open, and after it; (time, symbol), first row NaN where unknown."""
    close, opened = np.log(panel.close), np.log(panel.open)
    before = np.vstack([np.full(close.shape[1], np.nan), close[:-1]])
    return close - before, opened - before, close - opened


def correlation(x, y):
    return float(np.corrcoef(x, y)[0, 1])


# ---- leaders and followers ------------------------------------------------------------------------------------------


def test_lagged_correlation_finds_every_planted_delay_and_sign():
    panel = Synthetic(
        symbols=12, groups=2, bars=4000, max_delay=4, noise=0.6, strength=0.8, market_correlation=0.0, seed=1
    ).read()
    truth, (whole, _, body) = panel.truth, returns(panel)
    followers = np.flatnonzero(truth.strengths > 0)
    assert len(followers) == 8
    assert set(truth.signs[followers]) == {-1.0, 1.0}
    for follower in followers:
        leader = truth.leader_of[follower]
        found = [correlation(whole[1 : -lag or None, leader], body[1 + lag :, follower]) for lag in range(7)]
        best = int(np.argmax(np.abs(found)))
        assert best == truth.delays[leader, follower] == -truth.delays[follower, leader]
        assert np.sign(found[best]) == truth.signs[follower]
        assert max(abs(value) for lag, value in enumerate(found) if lag != best) < 0.1


def test_response_comes_after_the_open_and_never_in_the_gap():
    panel = Synthetic(symbols=10, groups=2, bars=5000, min_delay=1, max_delay=1, negative_share=0.0, seed=2).read()
    truth, (whole, gap, body) = panel.truth, returns(panel)
    for follower in np.flatnonzero(truth.strengths > 0):
        led = whole[1:-1, truth.leader_of[follower]]
        assert abs(correlation(led, gap[2:, follower])) < 0.05
        assert correlation(led, body[2:, follower]) > 0.25


@pytest.mark.parametrize("leaders", [1, 2])
@pytest.mark.parametrize("change", [0, 50])
def test_without_noise_the_body_is_strength_times_the_leaders_mean_return(leaders, change):
    panel = Synthetic(symbols=9, groups=2, leaders=leaders, bars=300, relation_change_bars=change, **BARE).read()
    truth, (_, gap, body) = panel.truth, returns(panel)
    for t in range(10, 300):
        relations = truth.relations_at(t)
        for follower in np.flatnonzero(relations.strengths):
            led = [own_return(panel, t - relations.lags[follower], leader) for leader in relations.leaders[follower]]
            expected = relations.signs[follower] * relations.strengths[follower] * np.mean(led)
            assert body[t, follower] == pytest.approx(expected, abs=1e-9)
            assert gap[t, follower] == pytest.approx(0.0, abs=1e-12)


def own_return(panel, t, symbol):
    """Log return close → close less the planted response."""
    return np.log(panel.close[t, symbol] / panel.close[t - 1, symbol]) - panel.truth.response[t, symbol]


def test_strengths_lie_within_the_spread_and_delays_within_their_bounds():
    truth = Synthetic(symbols=100, strength=0.4, spread=0.5, min_delay=2, max_delay=5).read().truth
    followers = truth.strengths > 0
    assert truth.strengths[followers].min() >= 0.2
    assert truth.strengths[followers].max() <= 0.6
    assert np.ptp(truth.strengths[followers]) > 0.3
    assert set(truth.relations_at(0).lags[followers]) == {2, 3, 4, 5}
    assert (truth.groups < 0).sum() == 20
    assert len(set(truth.groups)) - 1 == 20


def test_leaders_of_one_group_share_a_factor_and_do_not_lead_each_other():
    market = Synthetic(symbols=6, groups=1, leaders=3, leader_correlation=0.6, market_correlation=0.0, bars=6000)
    panel = dataclasses.replace(market, **CALM).read()
    first, second, third = panel.truth.relations_at(0).leaders[panel.truth.leader_of[0]]
    whole = returns(panel)[0][1:]
    assert correlation(whole[:, first], whole[:, second]) == pytest.approx(0.6, abs=0.03)
    assert panel.truth.delays[first, second] == panel.truth.delays[second, third] == 0


def test_groups_tell_nothing_about_each_other():
    panel = Synthetic(symbols=10, groups=2, bars=6000, max_delay=1, strength=0.9, market_correlation=0.4).read()
    truth, (whole, _, body) = panel.truth, returns(panel)
    for follower in np.flatnonzero(truth.strengths > 0):
        strangers = np.flatnonzero(np.isnan(truth.delays[follower]))
        for stranger in strangers:
            assert abs(correlation(whole[1:-1, stranger], body[2:, follower])) < 0.06


@pytest.mark.parametrize("options", [{"strength": 0.0}, {"groups": 0}, {"symbols": 1}])
def test_pure_noise_has_no_relation(options):
    truth = Synthetic(**({"symbols": 6, "bars": 100} | options)).read().truth
    assert np.isnan(truth.delays).all()
    assert (truth.leader_of == -1).all()
    assert not truth.response.any()


def test_relations_change_after_the_bars_asked_for():
    truth = Synthetic(symbols=10, bars=210, relation_change_bars=50).read().truth
    assert np.flatnonzero(np.diff(truth.epochs)).tolist() == [49, 99, 149, 199]
    assert np.array_equal(truth.delays_at(0), truth.delays_at(49), equal_nan=True)
    assert not np.array_equal(truth.delays_at(49), truth.delays_at(50), equal_nan=True)


def test_a_regime_returns_to_its_own_relations_and_delays():
    market = Synthetic(symbols=6, bars=900, regime_bars=60.0, regime_relations=True, max_delay=5, seed=3).read()
    truth = market.truth
    np.testing.assert_array_equal(truth.epochs, truth.regimes)
    lags = {tuple(truth.relations_at(int(t)).lags) for t in np.flatnonzero(truth.regimes == truth.regimes[0])[::50]}
    assert len(lags) == 1
    assert len({tuple(row) for row in truth.schedule.lags.tolist()}) > 1
    with pytest.raises(ConfigError, match=r"data\.relation_change_bars=30 changes them; give one of the two"):
        Synthetic(regime_relations=True, relation_change_bars=30)


def test_relations_change_at_the_pace_of_the_regime():
    regimes = {"slow": (0.0, 1.0), "fast": (0.0, 1.0)}
    truth = Synthetic(symbols=4, bars=3000, regimes=regimes, regime_bars=300, relation_change_bars=(0, 10)).read().truth
    changes = np.flatnonzero(np.diff(truth.epochs))
    assert (truth.regimes[changes] == 1).all()
    assert len(changes) == (truth.regimes[:-1] == 1).sum() // 10


# ---- how the bars behave --------------------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    symbols=st.integers(1, 8),
    bars=st.integers(3, 60),
    freq=st.sampled_from(["1D", "1h", "30min"]),
    calendar=st.sampled_from(["weekdays", "24/7"]),
    seed=st.integers(0, 2**32),
    path_steps=st.integers(1, 8),
    gap_share=st.floats(0, 0.9),
    volatility=st.floats(0.01, 1.0),
    late_share=st.floats(0, 1),
    delisted_share=st.floats(0, 1),
)
def test_every_bar_is_consistent(**options):
    panel = Synthetic(**options).read()
    seen = panel.mask
    low, high = panel.low[seen], panel.high[seen]
    assert (low <= np.minimum(panel.open, panel.close)[seen]).all()
    assert (high >= np.maximum(panel.open, panel.close)[seen]).all()
    assert (low > 0).all()
    assert (panel.volume[seen] >= 1).all()
    assert ((panel["sentiment"][seen] >= 0) & (panel["sentiment"][seen] <= 1)).all()
    assert np.isfinite(panel.blocks[:, seen]).all()
    assert np.isnan(panel.blocks[:, ~seen]).all()
    assert seen.any(axis=0).all()


def test_more_steps_inside_the_bar_widen_its_range():
    narrow, wide = (Synthetic(bars=500, path_steps=steps).read() for steps in (1, 12))
    assert np.array_equal(narrow.high, np.maximum(narrow.open, narrow.close))
    assert np.log(wide.high / wide.low).mean() > 1.3 * np.log(narrow.high / narrow.low).mean()


def test_annual_volatility_is_as_asked_before_responses():
    panel = Synthetic(symbols=30, bars=6000, groups=0, volatility=0.25, regimes=FLAT).read()
    assert returns(panel)[0][1:].std() * np.sqrt(panel.bars_per_year) == pytest.approx(0.25, rel=0.08)


def kurtosis(x):
    return float(((x - x.mean()) ** 4).mean() / x.var() ** 2)


def clustering(x):
    return correlation(np.abs(x[1:]), np.abs(x[:-1]))


def test_volatility_clusters_and_tails_are_fat_only_when_asked():
    market = Synthetic(symbols=8, bars=8000, groups=0, regimes=FLAT)
    wild = returns(market.read())[0][1:].T
    tame = returns(dataclasses.replace(market, volatility_clustering=0.0, tail_degrees=1e6).read())[0][1:].T
    assert min(map(clustering, wild)) > 0.05 > 0.04 > max(map(abs, map(clustering, tame)))
    assert min(map(kurtosis, wild)) > 4.5
    assert max(map(kurtosis, tame)) < 3.3


def test_volume_rises_with_volatility():
    panel = Synthetic(symbols=5, bars=2000).read()
    ranges = np.log(panel.high / panel.low)
    assert all(correlation(np.log(panel.volume[:, i]), np.log(ranges[:, i])) > 0.4 for i in range(5))


def test_regimes_follow_the_transition_matrix_and_set_drift_and_volatility():
    matrix = ((0.98, 0.02, 0.0), (0.0, 0.95, 0.05), (0.1, 0.0, 0.9))
    regimes = {"up": (1.5, 1.0), "down": (-1.5, 1.0), "storm": (0.0, 3.0)}
    panel = Synthetic(
        symbols=40, bars=9000, groups=0, regimes=regimes, transition=matrix, market_correlation=0.0
    ).read()
    truth, body = panel.truth, returns(panel)[2]
    counts = np.zeros((3, 3))
    np.add.at(counts, (truth.regimes[:-1], truth.regimes[1:]), 1)
    assert np.allclose(counts / counts.sum(axis=1, keepdims=True), matrix, atol=0.02)
    up, down, storm = (body[truth.regimes == number] for number in range(3))
    assert up.mean() * panel.bars_per_year == pytest.approx(1.5, abs=0.2)
    assert down.mean() * panel.bars_per_year == pytest.approx(-1.5, abs=0.3)
    assert storm.std() / up.std() == pytest.approx(3.0, rel=0.1)
    assert truth.regime_names == ("up", "down", "storm")


@pytest.mark.parametrize("strength", [0.0, 0.3, -0.5])
def test_sentiment_predicts_the_next_body_as_strongly_as_asked(strength):
    panel = Synthetic(symbols=10, bars=6000, groups=0, sentiment_strength=strength, **CALM).read()
    logit, body = np.log(panel["sentiment"] / (1 - panel["sentiment"])), returns(panel)[2]
    scaled = body / body.std(axis=0)
    assert correlation(logit[:-1].ravel(), scaled[1:].ravel()) == pytest.approx(strength, abs=0.02)
    assert correlation(logit.ravel(), scaled.ravel()) == pytest.approx(0.0, abs=0.02)


def test_useless_sentiment_is_the_same_whatever_happens_next():
    one, other = (
        Synthetic(symbols=3, bars=50, volatility=v, market_correlation=c).read() for v, c in ((0.1, 0), (0.9, 1))
    )
    assert not np.array_equal(one.close, other.close)
    assert np.array_equal(one["sentiment"], other["sentiment"])


def test_symbols_list_and_delist():
    panel = Synthetic(symbols=20, bars=400, late_share=0.25, delisted_share=0.5).read()
    first, last = panel.truth.listed.T
    assert ((first > 0).sum(), (last < 399).sum()) == (5, 10)
    for symbol in range(20):
        assert np.flatnonzero(panel.mask[:, symbol]).tolist() == list(range(first[symbol], last[symbol] + 1))


def test_nobody_follows_a_leader_that_is_not_listed():
    panel = Synthetic(symbols=10, bars=400, groups=5, unrelated_share=0, late_share=1.0, max_delay=1).read()
    truth = panel.truth
    for follower in np.flatnonzero(truth.strengths > 0):
        first = truth.listed[truth.leader_of[follower], 0]
        assert not truth.response[: first + 2, follower].any()
        assert truth.response[first + 2 :, follower].all()


# ---- the clock ------------------------------------------------------------------------------------------------------


def test_daily_bars_close_at_21_on_weekdays():
    index = Synthetic(bars=6, start="2024-02-29").read().index
    assert [f"{moment:%a %d %H:%M}" for moment in index[:3]] == ["Thu 29 21:00", "Fri 01 21:00", "Mon 04 21:00"]


def test_hourly_sessions_have_seven_bars_and_gap_only_overnight():
    panel = Synthetic(bars=70, freq="1h").read()
    assert sorted(set(panel.index.hour)) == list(range(15, 22))
    assert (panel.index[:7].date == panel.index[0].date()).all()
    gap = returns(panel)[1]
    assert np.abs(gap[7::7]).min() > 0
    assert np.array_equal(panel.open[1:7], panel.close[:6])


def test_around_the_clock_there_is_neither_weekend_nor_gap():
    panel = Synthetic(bars=400, freq="1h", calendar="24/7").read()
    assert set(np.diff(panel.index.asi8)) == {3_600_000_000_000}
    assert np.array_equal(panel.open[1:], panel.close[:-1])
    assert panel.calendar == "24/7"


# ---- seeds and the truth --------------------------------------------------------------------------------------------


def test_seed_fixes_the_market_across_processes():
    code = (
        "from pacesetter.data.synthetic import Synthetic as S; print(S(symbols=4, bars=50, seed=7).read().fingerprint)"
    )
    elsewhere = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    here = Synthetic(symbols=4, bars=50, seed=7).read()
    assert elsewhere.stdout.strip() == here.fingerprint
    assert Synthetic(symbols=4, bars=50, seed=8).read().fingerprint != here.fingerprint


def test_loads_by_name_with_its_truth():
    panel = ps.load("synthetic", symbols=5, bars=30, freq="1h", seed=3)
    assert panel.shape == (30, 5, 6)
    assert panel.truth.delays.shape == (5, 5)
    assert panel == Synthetic(symbols=5, bars=30, freq="1h", seed=3).read()


def test_truth_is_immutable_and_can_be_cut():
    truth = Synthetic(symbols=5, bars=30, relation_change_bars=10).read().truth
    with pytest.raises(ValueError, match="read-only"):
        truth.response[0, 0] = 1.0
    with pytest.raises(ValueError, match="read-only"):
        truth.schedule.groups[0, 0] = 1
    part = truth.rows(-8, -2)
    assert np.array_equal(part.delays_at(0), truth.delays_at(22), equal_nan=True)
    assert len(part.regimes) == len(part.response) == 6
    assert part.listed[0].tolist() == [-22, 7]


# ---- domain randomisation -------------------------------------------------------------------------------------------

RANDOM = {
    "noise": {"uniform": [0.5, 2]},
    "strength": {"log_uniform": [0.1, 1.0]},
    "max_delay": {"choice": [1, 2, 3]},
    "groups": {"integers": [1, 4]},
    "volatility": {"normal": [0.25, 0.01]},
}


def test_randomised_markets_are_drawn_from_the_seed_and_logged(caplog):
    caplog.set_level(logging.INFO, logger="pacesetter.data")
    one, again, other = (Synthetic(bars=30, seed=seed, randomise=RANDOM).read() for seed in (1, 1, 2))
    first, second, third = caplog.messages
    assert first == second != third
    assert one == again != other
    assert one.truth.drawn == again.truth.drawn != other.truth.drawn
    assert all(f"{name}={value!r}" in first for name, value in one.truth.drawn.items())
    plain = Synthetic(bars=30, seed=1, **one.truth.drawn).read()
    assert plain == one
    assert plain.truth.drawn == {}


def test_draws_stay_inside_their_distributions():
    values = [Synthetic(symbols=9, bars=3, seed=seed, randomise=RANDOM).read().truth.drawn for seed in range(40)]
    assert {value["groups"] for value in values} == {1, 2, 3, 4}
    assert {value["max_delay"] for value in values} == {1, 2, 3}
    assert all(0.5 <= value["noise"] <= 2 for value in values)
    assert all(0.1 <= value["strength"] <= 1 for value in values)
    assert np.std([value["volatility"] for value in values]) == pytest.approx(0.01, rel=0.4)


# ---- what is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"symbols": 0}, r"data\.symbols=0 must be in 1 … 1e\+06"),
        ({"noise": float("nan")}, r"data\.noise=nan must be in 0 … 100"),
        ({"sentiment_strength": 1.5}, r"data\.sentiment_strength=1\.5 must be in -1 … 1"),
        ({"freq": "2h"}, r"data\.freq='2h' must be 1D, or divide a session of 7 hours"),
        ({"freq": "soon"}, r"data\.freq='soon' must be 1D"),
        ({"start": "yesterday"}, r"data\.start='yesterday' is not a date"),
        ({"bars": 100_000}, r"data\.bars=100000 reach from 2000-01-03 to .*; stay within"),
        ({"groups": -1}, r"data\.groups=-1 must be 0 or more"),
        ({"groups": 11}, r"data\.groups=11 .* do not fit into data\.symbols=20; use fewer"),
        ({"leaders": 20}, r"do not fit into data\.symbols=20; use fewer"),
        ({"min_delay": 4}, r"data\.max_delay=3 must not be below data\.min_delay=4"),
        ({"relation_change_bars": (5, 5)}, r"data\.relation_change_bars=\(5, 5\) must be one number"),
        ({"regimes": {}}, r"data\.regimes must give one regime or more"),
        ({"transition": ((1.0,),)}, r"data\.transition must have 4 rows of 4 probabilities"),
        ({"regimes": FLAT, "transition": ((0.9,),)}, r"data\.transition must have 1 rows .* sum to 1"),
        ({"randomise": {"nois": {"uniform": [0, 1]}}}, r"unknown option 'nois'; did you mean 'noise'\?"),
        ({"randomise": {"seed": {"uniform": [0, 1]}}}, r"unknown option 'seed'"),
        ({"randomise": {"noise": {"unform": [0, 1]}}}, r"unknown distribution 'unform'; did you mean 'uniform'\?"),
        ({"randomise": {"noise": {"uniform": [2, 1]}}}, r"data\.randomise\.noise\.uniform=\[2, 1\] does not fit"),
        ({"randomise": {"noise": {"log_uniform": [0, 1]}}}, r"it takes \[0 < low ≤ high\]"),
        ({"randomise": {"noise": {"normal": [0]}}}, r"it takes \[mean, sd ≥ 0\]"),
        ({"randomise": {"noise": 3}}, r"data\.randomise\.noise=3 must name one distribution"),
    ],
)
def test_bad_options_are_refused_in_one_sentence(options, sentence):
    with pytest.raises(ConfigError, match=sentence) as refused:
        Synthetic(**options)
    assert "\n" not in str(refused.value)


def test_a_draw_out_of_range_is_refused_by_name():
    market = Synthetic(bars=10, randomise={"noise": {"uniform": [-2, -1]}})
    with pytest.raises(ConfigError, match=r"data\.noise=-1\.\d+ must be in 0"):
        market.read()
    with pytest.raises(ConfigError, match=r"data\.groups=.* must be of type int"):
        Synthetic(bars=10, randomise={"groups": {"uniform": [1.1, 1.9]}}).read()


def test_prices_that_run_away_are_refused():
    wild = Synthetic(symbols=2, bars=5000, volatility=3.0, strength=10.0, noise=100.0, regimes={"wild": (0.0, 100.0)})
    with pytest.raises(ConfigError, match=r"lower data\.volatility"):
        wild.read()


def test_a_signal_that_ends_leaves_the_bars_before_it_as_they_were() -> None:
    options = {"symbols": 10, "bars": 400, "groups": 2, "strength": 0.8, "seed": 3}
    whole, ended = Synthetic(**options).read(), Synthetic(**options, signal_bars=300).read()
    assert np.array_equal(whole.close[:300], ended.close[:300])
    assert np.array_equal(whole.truth.response[:300], ended.truth.response[:300])
    assert (ended.truth.response[300:] == 0).all()
    assert (ended.truth.relations_at(299).strengths > 0).any()
    assert np.isnan(ended.truth.delays_at(300)).all()
    assert np.array_equal(Synthetic(**options, signal_bars=400).read().close, whole.close)
