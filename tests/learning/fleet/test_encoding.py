"""Bars encoded once are what windows are: features, gradients, whole rounds, and a fleet that is played."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from pacesetter.agents.encoders import network
from pacesetter.agents.fleet import Fleet
from pacesetter.envs.batch.bank import Bank
from pacesetter.errors import ConfigError
from pacesetter.learning.experience.market import FleetMarket
from pacesetter.learning.fleet.encoding import BarsOnce, WindowEncoding
from pacesetter.learning.fleet.graphs import RecordedRound
from pacesetter.learning.fleet.ppo import PPO, FleetPPO
from pacesetter.learning.fleet.trainer import FleetTrainer
from pacesetter.learning.fleet.validation import play

Make = Callable[..., FleetTrainer]
SIZES = {"width": 16, "heads": 2, "layers": 2, "span": 6}  # remembers 11 bars


@pytest.fixture
def make_stream(bank: Bank) -> Make:
    """A trainer whose fleet has a small stream encoder."""

    def make(window_bars: int = 11, **options: Any) -> FleetTrainer:
        torch.manual_seed(3)
        market = FleetMarket(bank, 3, window_bars=window_bars, episode_bars=10)
        fleet = Fleet(network("stream", **SIZES), market.shapes, market.symbols, market.actions, hidden=8)
        return FleetTrainer(PPO(fleet, market, FleetPPO(**({"n_steps": 16, "batch_size": 24} | options))))

    return make


def places(learner: FleetTrainer) -> dict[str, torch.Tensor]:
    """Rows in segments of 8 bars of which every third breaks off, one of them twice."""
    first = torch.arange(12)[:, None] * 17 + 10
    bars = first + torch.arange(8)
    bars[::3, 3:] += 40
    bars[6, 6:] -= 20
    index = torch.stack([torch.arange(12)[:, None].expand_as(bars) % 4, bars], dim=-1).flatten(0, 1)
    rest = {name: entry[:1].expand(len(index), -1) for name, entry in learner.observation.items() if name != "index"}
    return {name: entry for name, entry in rest.items() if name != "action_mask"} | {"index": index}


def test_segments_and_the_table_are_windows(make_stream: Make) -> None:
    learner = make_stream()
    assert isinstance(learner.encoding, BarsOnce)
    assert learner.encoding.segment_bars == 8
    windows, rows = WindowEncoding(learner.fleet, learner.market, learner.config), places(learner)
    parameters, pull = list(learner.fleet.encoder.parameters()), torch.randn(len(rows["index"]), 16)
    plain, segments = windows(rows), learner.encoding(rows)
    torch.testing.assert_close(segments, plain, rtol=1e-4, atol=1e-5)
    gradients = (torch.autograd.grad((y * pull).sum(), parameters) for y in (plain, segments))
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)
    with torch.no_grad():
        learner.encoding.begin_round()
        torch.testing.assert_close(learner.encoding(rows), plain, rtol=1e-4, atol=1e-5)


def test_the_first_minibatch_of_a_round_meets_the_policy_that_acted(make_stream: Make) -> None:
    learner = make_stream()
    method = learner.method
    learner.learn(48)  # a round that changes the weights, so that the table of bars has to be made again
    learner.fleet.encoder.normaliser.commit()
    learner.encoding.begin_round()
    data = method.prepare(method.collect(learner), learner)
    batch = next(method.minibatches(data))
    policy, _ = method.fleet.decide(learner.features(batch.observation), batch.observation["action_mask"])
    torch.testing.assert_close(policy.log_prob(batch.actions), batch.log_probs, rtol=0, atol=1e-5)


def test_it_learns_in_segments_and_resumes_bit_exactly(make_stream: Make, tmp_path: Path) -> None:
    learner = make_stream()
    before = learner.fleet.encoder.blocks[0].attention.bias.detach().clone()
    learner.learn(48)
    assert not torch.equal(learner.fleet.encoder.blocks[0].attention.bias, before)
    learner.save(tmp_path)
    learner.learn(96)
    other = make_stream()
    other.load(tmp_path)
    other.learn(96)
    assert other.weights_hash() == learner.weights_hash()


def test_minibatches_hold_every_row_once_and_whole_segments(make_stream: Make) -> None:
    learner = make_stream()
    order = learner.method.order(48)
    assert sorted(order.tolist()) == list(range(48))
    steps = order.view(-1, 8)
    assert (steps.diff(dim=1) == 3).all()  # rows are (step, env): the next step of the same environment


def test_a_fleet_is_played_alike_with_bars_encoded_ahead(
    make_stream: Make, bank: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = make_stream().fleet
    market = FleetMarket(bank, 1, starts="fixed", window_bars=11, first_bar=60)
    ahead = play(fleet, market)
    monkeypatch.setattr("pacesetter.learning.fleet.validation.make_look", lambda fleet, market: market.tables)
    plain = play(fleet, FleetMarket(bank, 1, starts="fixed", window_bars=11, first_bar=60))
    torch.testing.assert_close(ahead.returns, plain.returns, equal_nan=True)
    torch.testing.assert_close(ahead.entropy, plain.entropy, equal_nan=True)


def test_a_window_shorter_than_its_memory_is_refused(make_stream: Make) -> None:
    with pytest.raises(ConfigError, match="window_bars=10 is less than the 11 bars that network=stream reads"):
        make_stream(window_bars=10)


def test_recorded_rounds_of_a_stream_learn_what_ordinary_ones_do(make_stream: Make) -> None:
    plain = make_stream()
    plain.learn(144)
    recorded = make_stream()
    recorded.recorded = RecordedRound(recorded)
    recorded.learn(144)
    assert recorded.weights_hash() == plain.weights_hash()


def test_room_for_broken_segments_is_what_a_minibatch_needs(make_stream: Make) -> None:
    learner = make_stream()
    encoding, rows = learner.encoding, places(learner)
    index, order = rows["index"].view(4, 24, 2), torch.arange(24).view(1, -1)
    assert isinstance(encoding, BarsOnce)
    assert encoding.needs(index, order) == encoding.most_broken == 8
    plain = encoding(rows)
    encoding.room = 8
    torch.testing.assert_close(encoding(rows), plain)
    whole = torch.stack([torch.zeros(24), 50 + torch.arange(24)], dim=-1).expand(4, 24, 2)
    assert encoding.needs(whole, order) == 0
    assert encoding.needs(torch.randint(0, 250, (4, 24, 2)), order) is None
