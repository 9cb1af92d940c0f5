"""Recorded episodes are whole, their probabilities are those of who acted, and a log misses none."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from pacesetter.agents.heads import MaskedCategorical, TanhGaussian
from pacesetter.learning.experience.dataset import read_dataset
from pacesetter.learning.experience.market import FleetMarket
from pacesetter.learning.experience.recording import (
    Mixture,
    fleet_teacher,
    market_tables,
    order_teacher,
    record,
    uniform_policy,
    whole_episodes,
)
from pacesetter.learning.experience.replay_log import ReplayLog


@pytest.fixture(params=["discrete", "target"])
def market(request, bank) -> FleetMarket:
    return FleetMarket(bank, 3, action=request.param, window_bars=6, episode_bars=10)


def test_a_mixture_has_the_mixed_probability():
    torch.manual_seed(0)
    policy = MaskedCategorical(torch.randn(4, 7))
    other = MaskedCategorical(torch.zeros(4, 7), torch.arange(7) < 5)
    mixed = Mixture(policy, other, 0.3)
    for action in range(7):
        chosen = torch.full((4,), action)
        expected = 0.7 * policy.log_prob(chosen).exp() + 0.3 * (action < 5) / 5
        assert torch.allclose(mixed.log_prob(chosen).exp(), expected, atol=1e-6)
    drawn = torch.stack([mixed.sample() for _ in range(4_000)])
    shares = (drawn == 2).float().mean(0)
    assert torch.allclose(shares, mixed.log_prob(torch.full((4,), 2)).exp(), atol=0.04)


def test_random_orders_are_uniform_and_a_rule_is_certain():
    mask = torch.tensor([[True, True, False], [True, True, True]])
    even = uniform_policy({"action_mask": mask}, 3)
    assert torch.allclose(even.log_prob(torch.tensor([0, 2])), -torch.tensor([2.0, 3.0]).log())
    in_box = uniform_policy({"position": torch.zeros(2, 1)}, None).log_prob(torch.zeros(2, 1))
    assert torch.allclose(in_box, torch.full((2,), -math.log(2)))
    elsewhere = {"position": torch.zeros(2, 1, device="meta")}  # a device that every machine has beside the CPU
    for actions in (3, None):
        both = Mixture(uniform_policy(elsewhere, actions), uniform_policy(elsewhere, actions), 0.5)
        assert both.sample().device.type == "meta"
    rule = order_teacher(lambda rows: torch.tensor([2, 0]), 3)({})
    assert rule.sample().tolist() == [2, 0]
    spread = order_teacher(lambda rows: torch.tensor([0.5, -1.0]), None)({})
    assert isinstance(spread, TanhGaussian)
    assert torch.allclose(spread.mode().squeeze(), torch.tensor([0.5, -0.95]))


def test_episodes_are_whole_and_every_environment_plays_as_many(market, make_learner):
    fleet = make_learner("discrete" if market.actions else "target").fleet
    steps = record(market, fleet_teacher(fleet, market), 0.5, 20, seed=1)
    episodes, _ = whole_episodes(steps, market, 2, most=2)
    assert episodes is not None
    assert len(episodes) == 24  # 12 environments, as many episodes each
    ends = episodes.rows["terminated"] | episodes.rows["truncated"]
    assert np.array_equal(np.flatnonzero(ends), np.cumsum(episodes.lengths) - 1)
    assert np.bincount(episodes.symbols).tolist() == [6, 6, 6, 6]
    assert (episodes.regimes == 2).all()
    inside = ~ends[:-1]
    bars = episodes.observation["index"][:, 1]
    assert (np.diff(bars)[inside] == 1).all()
    final_bars = episodes.finals["index"][:, 1]
    assert np.array_equal(final_bars, bars[ends] + 1)
    assert np.isfinite(episodes.rows["log_probs"]).all()
    again, _ = whole_episodes(record(market, fleet_teacher(fleet, market), 0.5, 20, seed=1), market, 2, most=2)
    assert again is not None
    assert np.array_equal(again.rows["actions"], episodes.rows["actions"])


def test_a_log_keeps_every_episode_once(market, tmp_path):
    steps = record(market, None, 1.0, 40, seed=0)
    whole, _ = whole_episodes(steps, market, 0)
    log = ReplayLog(tmp_path, {"symbols": list(market.symbols)}, market)
    for number, step in enumerate(steps, 1):
        log.add(step)
        if number % 7 == 0:
            log.flush(number)
    log.flush(len(steps))
    _, tables, found = read_dataset(tmp_path)
    assert whole is not None
    assert found.row_count == whole.row_count
    assert np.sort(found.rows["rewards"]).tolist() == np.sort(whole.rows["rewards"]).tolist()
    assert np.array_equal(tables.windows, market_tables(market).windows)


def test_a_log_that_ends_cuts_off_what_goes_on(market, tmp_path):
    steps = record(market, None, 1.0, 12, seed=0)[:7]  # no episode of 10 bars has ended by time
    log = ReplayLog(tmp_path, {"symbols": list(market.symbols)}, market)
    for step in steps:
        log.add(step)
    log.flush(7, is_last=True)
    found = read_dataset(tmp_path)[2]
    assert (found.row_count, len(log)) == (7 * market.env_count, 0)
    last = np.cumsum(found.lengths) - 1
    assert (found.rows["truncated"] | found.rows["terminated"])[last].all()
    assert log.cut == found.rows["truncated"][last].sum() > 0
    assert np.array_equal(found.finals["index"][:, 1], found.observation["index"][last, 1] + 1)


def test_a_log_of_some_symbols_is_of_the_same_market(market, tmp_path):
    log = ReplayLog(tmp_path, {"symbols": list(market.symbols)}, market)
    some = market.select(market.symbols[2:])
    own = log.of(some)
    for step in record(some, None, 1.0, 6, seed=0):
        own.add(step)
    own.flush(10, is_last=True)
    _, tables, found = read_dataset(tmp_path)
    assert np.array_equal(tables.windows, market_tables(market).windows)
    assert set(found.symbols) == {2, 3}
    assert np.array_equal(found.observation["index"][:, 0], found.symbols[found.episode_of])


def test_a_resumed_log_leaves_out_the_episodes_that_it_did_not_see_begin(market, tmp_path):
    steps = record(market, None, 1.0, 40, seed=0)
    log = ReplayLog(tmp_path, {}, market, is_inside=True)
    for step in steps[4:]:
        log.add(step)
    log.flush(1)
    whole, _ = whole_episodes(steps, market, 0)
    assert whole is not None
    found = read_dataset(tmp_path)[2]
    assert log.left_out == whole.row_count - 4 * market.env_count - found.row_count
    assert len(found) == len(whole) - market.env_count
    ends = found.rows["terminated"] | found.rows["truncated"]
    assert np.array_equal(np.flatnonzero(ends), np.cumsum(found.lengths) - 1)
