"""Worlds: every response is the written formula of what leaders did before, and is where the bars show it."""

from __future__ import annotations

import numpy as np
import pytest

from pacesetter.data.synthetic import Synthetic
from pacesetter.data.worlds import STRENGTHS, Leads, PlantedWorld, slow_mean
from pacesetter.errors import ConfigError
from pacesetter.truth import Relations

PAIR = Relations(
    groups=np.array([0, 0]),
    leaders=np.array([[0], [0]]),
    lags=np.array([0, 2]),
    strengths=np.array([0.0, 1.0]),
    signs=np.array([1.0, -1.0]),
)
TWO = Relations(
    groups=np.zeros(3, int),
    leaders=np.tile([0, 1], (3, 1)),
    lags=np.array([0, 0, 1]),
    strengths=np.array([0.0, 0.0, 1.0]),
    signs=np.ones(3),
)


def leads(symbols: int = 2, bars: int = 60) -> Leads:
    generator = np.random.default_rng(0)
    moves, wild = generator.normal(size=(bars, symbols)) * 2, np.arange(bars) % 7 > 3
    return Leads(moves, 0.01 * generator.uniform(0.5, 2, (bars, symbols)), wild, 0.009)


def answer(name: str, relations: Relations = PAIR, **options: float) -> np.ndarray:
    symbols = len(relations.lags)
    return PlantedWorld(name, **options).respond([relations], leads(symbols), np.random.default_rng(1))[0]


def test_responses_by_hand():
    seen, t = leads(), 30
    z, v = seen.moves[t - 2, 0], seen.volatility[t - 2, 0]
    assert answer("impact")[t, 1] == pytest.approx(-0.4 * z * v)
    sign = -1.0 if seen.wild[t - 1] else 1.0
    assert answer("regime")[t, 1] == pytest.approx(-0.45 * z * 0.009 * sign)
    assert answer("cushion")[t, 1] == pytest.approx(-0.02 * 0.009)
    phase = 2 * np.pi * np.random.default_rng(1).random(2)[1]
    height = max(np.cos(2 * np.pi * t / 50 + phase), 0)
    assert answer("fading", fading_bars=50)[t, 1] == pytest.approx(-0.7 * height * z * v)
    large = answer("threshold")[:, 1]
    moves = np.concatenate([[0, 0], seen.moves[:-2, 0]])
    assert ((large != 0) == (np.abs(moves) > 1.5)).all()
    assert not answer("threshold", large_move=50)[:, 1].any()
    three = leads(3)
    both = 0.45 * three.moves[t - 1, 0] * np.clip(three.moves[t - 1, 1], -3, 3) * 0.009
    assert answer("product", TWO)[t, 2] == pytest.approx(both)


def test_a_slow_signal_is_the_sum_of_its_weights():
    moves = np.random.default_rng(0).normal(size=50)
    weights = 0.2 * 0.8 ** np.arange(50)
    assert slow_mean(moves, 0.8)[-1] == pytest.approx(moves[::-1] @ weights)
    response, signals = PlantedWorld("decay").respond([PAIR], leads(), np.random.default_rng(0))
    assert signals.sum(axis=0) == pytest.approx(response)
    past = np.concatenate([[0, 0], leads().moves[:-2, 0]])
    assert signals[0, :, 1] == pytest.approx(-0.15 * 0.009 * slow_mean(past, 0.5))
    assert signals[1, :, 1] == pytest.approx(-0.6 * 0.009 * slow_mean(past, 0.9))


@pytest.mark.parametrize("name", list(STRENGTHS))
def test_difficulty_divides_and_leaders_respond_to_nobody(name):
    relations = TWO if name == "product" else PAIR
    assert answer(name, relations, difficulty=2.0) == pytest.approx(answer(name, relations) / 2)
    assert not answer(name, relations)[:, relations.lags == 0].any()


@pytest.mark.parametrize("name", list(STRENGTHS))
def test_the_response_is_known_before_its_bar_and_lies_after_the_open(name):
    leaders = 2 if name == "product" else 1
    options = {"symbols": 10, "groups": 1 if leaders == 2 else 2, "leaders": leaders, "world": name, "seed": 1}
    panel = Synthetic(bars=3_000, unrelated_share=0.0, market_correlation=0.0, difficulty=0.2, **options).read()
    truth = panel.truth
    assert truth.world == name
    assert truth.rows(10, 50).signals.shape == (2 if name == "decay" else 1, 40, 10)
    body, gap = np.log(panel.close / panel.open), np.log(panel.open[1:] / panel.close[:-1])
    follower = int(np.flatnonzero(truth.schedule.at(0).lags > 0)[0])
    response = truth.response[:, follower]
    if name == "cushion":  # a constant
        assert response.std() == pytest.approx(0.0, abs=1e-12)
        return
    assert np.corrcoef(response, body[:, follower])[0, 1] > 0.2
    assert abs(np.corrcoef(response[1:], gap[:, follower])[0, 1]) < 0.06
    longer = Synthetic(bars=3_000, unrelated_share=0.0, market_correlation=0.0, **options).read()
    assert longer.truth.response == pytest.approx(0.2 * truth.response)


def test_a_visible_fading_moves_volatility_and_brings_other_leaders():
    options = {"symbols": 6, "groups": 1, "unrelated_share": 0.0, "regimes": {"one": (0.0, 1.0)}, "tail_degrees": 1e9}
    market = Synthetic(bars=8_000, world="fading", fading_bars=200, fading_state=1.0, seed=2, **options)
    panel = market.read()
    truth, cosine = panel.truth, np.cos(2 * np.pi * np.arange(8_000) / 200)
    first, second = (truth.schedule.at(epoch) for epoch in (0, 1))
    assert first.leader_of[0] != second.leader_of[0]
    assert truth.epochs.tolist() == (cosine < 0).tolist()
    for relations, sign in ((first, 1), (second, -1)):
        leader = relations.leader_of[0]
        assert not truth.response[sign * cosine > 1e-9, leader].any()  # nothing leads the leader while it leads
        assert truth.response[sign * cosine < -0.5, leader].any()
    moves = np.diff(np.log(panel.close), axis=0).std(axis=1)
    wild, calm = moves[cosine[1:] > 0.9].mean(), moves[cosine[1:] < -0.9].mean()
    assert wild / calm == pytest.approx(np.exp(2), rel=0.15)  # ±1 of its logarithm


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"world": "product"}, "data.leaders=2"),
        ({"world": "regime", "leaders": 2}, "data.leaders=1"),
        ({"world": "fading", "signal_bars": 5}, "data.signal_bars=5 is not for data.world=fading"),
        ({"world": "impact", "symbols": 1}, "needs a leader and a follower"),
        ({"world": "threshold", "difficulty": 0}, "difficulty"),
        ({"world": "regime", "fading_state": 1}, "data.fading_state=1 is of data.world=fading"),
    ],
)
def test_a_world_that_cannot_be_is_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        Synthetic(**{"symbols": 10, "bars": 100} | options)
