"""The population as one batch answers as its members would one by one, and plays the same bars."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from pacesetter.agents.agent import ACTION_MASK
from pacesetter.agents.encoders import network
from pacesetter.agents.fleet import Fleet
from pacesetter.envs.batch.bank import Bank
from pacesetter.errors import ConfigError
from pacesetter.learning.experience.market import FleetMarket
from pacesetter.learning.fleet.trainer import FleetTrainer
from pacesetter.methods.evolution.es import ES, FleetES
from pacesetter.methods.evolution.population import Population

MEMBERS, ENVS = 6, 2


def make(bank: Bank, kind: str = "mlp", action: str = "discrete", **options: Any) -> FleetTrainer:
    torch.manual_seed(3)
    market = FleetMarket(bank, ENVS, action=action, window_bars=6, episode_bars=10)
    sizes = {"width": 16, "heads": 2, "layers": 1} if kind == "transformer" else {"width": 16}
    fleet = Fleet(network(kind, **sizes), market.shapes, market.symbols, market.actions, hidden=8)
    config = FleetES(**({"population": MEMBERS, "n_steps": 3, "sigma": 0.1} | options))
    return FleetTrainer(ES(fleet, market.for_members(MEMBERS), config))


@pytest.mark.parametrize("kind", ["mlp", "transformer"])
@pytest.mark.parametrize(("action", "is_apart"), [("discrete", False), ("continuous", True)])
def test_the_batch_answers_as_each_member_alone(bank: Bank, kind: str, action: str, is_apart: bool) -> None:
    """Also where a member was ruined and is at other bars than the rest."""
    learner = make(bank, kind, action)
    if is_apart:
        learner.observation["index"][3, 1] += 2
    method: Any = learner.method
    population: Population = method.population
    members = population.members(population.draw(), 0.1)
    together = population.decide(members, learner.observation).mode().reshape(4, MEMBERS, ENVS)
    compact = {name: entry for name, entry in learner.observation.items() if name != ACTION_MASK}
    seen = learner.market.tables(compact)
    mask = learner.observation.get(ACTION_MASK)
    for member in range(MEMBERS):
        own = {name: one[member] for name, one in members.items()}
        learner.fleet.load_state_dict(own, strict=False)
        rows = torch.arange(4 * MEMBERS * ENVS).view(4, MEMBERS, ENVS)[:, member].flatten()
        shown = {name: entry[rows] for name, entry in seen.items()}
        with torch.no_grad():
            features = learner.fleet.encoder(shown)
            alone = learner.fleet.decide(features, None if mask is None else mask[rows])[0].mode()
        torch.testing.assert_close(together[:, member].flatten(), alone.flatten(), rtol=1e-4, atol=1e-5)


def test_members_start_at_the_same_bars_and_mirror_each_other(bank: Bank) -> None:
    learner = make(bank)
    places = learner.observation["index"].view(4, MEMBERS, ENVS, 2)
    assert torch.equal(places, places[:, :1].expand_as(places))
    assert len(places[:, 0].flatten(0, 1).unique(dim=0)) > 4  # the environments of a member differ
    method: Any = learner.method
    noise = method.population.draw()
    members = method.population.members(noise, 0.1)
    for name, parameter in method.population.parameters.items():
        pairs = members[name].view(2, MEMBERS // 2, *parameter.shape).mean(0)
        torch.testing.assert_close(pairs, parameter.detach().expand_as(pairs))


def test_equal_scores_move_nothing_but_by_decay(bank: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    learner = make(bank, decay=0.0)
    before = learner.weights_hash()
    collect = type(learner.method).collect

    def alike(self: ES, acting: Any) -> Any:
        found = collect(self, acting)
        return found._replace(scores=torch.ones_like(found.scores))

    monkeypatch.setattr(type(learner.method), "collect", alike)
    parameters = {name: tensor.detach().clone() for name, tensor in learner.parameters()}
    learner.learn(learner.round_steps)
    assert learner.weights_hash() != before  # the normaliser counted
    assert all(torch.equal(tensor, parameters[name]) for name, tensor in learner.parameters())


def test_it_logs_the_mean_and_best_member_and_leaves_critics_alone(bank: Bank) -> None:
    learner = make(bank)
    critics = [one.detach().clone() for one in learner.fleet.critic.parameters()]
    learner.learn(2 * learner.round_steps)
    figures = learner.statistics()
    assert figures["es/mean"].shape == (4,)
    assert bool((figures["es/best"] >= figures["es/mean"]).all())
    assert learner.step == 2 * 3 * ENVS * MEMBERS
    assert not learner.fleet.has_state_value
    assert all(torch.equal(old, new) for old, new in zip(critics, learner.fleet.critic.parameters(), strict=True))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"population": 7}, "even number"),
        ({"sigma": 0.0}, "above 0"),
        ({"extras": {"curiosity": {}}}, "leave them out"),
    ],
)
def test_what_it_cannot_do_is_refused(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        FleetES(**options)


def test_a_recurrent_network_is_refused(bank: Bank) -> None:
    market = FleetMarket(bank, ENVS, window_bars=6, episode_bars=10)
    fleet = Fleet(network("gru", width=16), market.shapes, market.symbols, market.actions, hidden=8)
    with pytest.raises(ConfigError, match="recurrent"):
        ES(fleet, market.for_members(MEMBERS), FleetES(population=MEMBERS))
    with pytest.raises(ConfigError, match="build the market by `crowd`"):
        ES(fleet, market, FleetES(population=MEMBERS))
