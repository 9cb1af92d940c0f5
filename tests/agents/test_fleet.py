"""The fleet: equal to separate agents in answers and gradients, and open to change symbol by symbol."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from pacesetter.agents.encoders import network
from pacesetter.agents.fleet import Fleet, FleetAgent, fleet_card
from pacesetter.errors import ConfigError

Make = Callable[..., dict[str, torch.Tensor]]
SHAPES = {"window": (6, 5), "position": (3,), "portfolio": (4,)}
SYMBOLS = ("A", "B", "C")


def make_fleet(actions: int | None = 7, symbols: tuple[str, ...] = SYMBOLS) -> Fleet:
    fleet = Fleet(network("transformer_small"), SHAPES, symbols, actions, hidden=16)
    with torch.no_grad():  # beyond the first, nearly uniform policy, so that agents differ
        fleet.actor.last.weight.mul_(100)
    return fleet


def with_mask(observation: dict[str, torch.Tensor], actions: int | None) -> dict[str, torch.Tensor]:
    if actions is None:
        return observation
    mask = torch.ones(len(observation["window"]), actions, dtype=torch.bool)
    mask[::2, 1] = False
    return observation | {"action_mask": mask}


@pytest.mark.parametrize("actions", [7, None])
def test_an_agent_taken_out_answers_as_in_the_fleet(actions: int | None, make_observation: Make) -> None:
    fleet, seen = make_fleet(actions), with_mask(make_observation(SHAPES, 12), actions)
    policy, values = fleet.evaluate(seen)
    for row, symbol in enumerate(SYMBOLS):
        own = {name: entry[4 * row : 4 * row + 4] for name, entry in seen.items()}
        alone, value = fleet.take(symbol).evaluate(own)
        torch.testing.assert_close(alone.mode(), policy.mode()[4 * row : 4 * row + 4])
        torch.testing.assert_close(alone.entropy(), policy.entropy()[4 * row : 4 * row + 4])
        torch.testing.assert_close(value, values[4 * row : 4 * row + 4])


def test_taking_an_agent_draws_nothing_and_shares_nothing() -> None:
    fleet, before = make_fleet(), torch.get_rng_state()
    agent = fleet.take("B")
    assert torch.equal(torch.get_rng_state(), before)
    agent.actor.layers[0].weight.data.zero_()
    assert fleet.actor.first.weight[1].abs().sum() > 0


def test_some_symbols_in_another_order_answer_as_all_do(make_observation: Make) -> None:
    fleet, seen = make_fleet(), make_observation(SHAPES, 3)
    _, values = fleet.evaluate(seen)
    _, some = fleet.evaluate({name: entry[[2, 0]] for name, entry in seen.items()}, torch.tensor([2, 0]))
    torch.testing.assert_close(some, values[[2, 0]])


@pytest.mark.parametrize("actions", [7, None])
def test_gradients_are_those_of_separate_agents(actions: int | None, make_observation: Make) -> None:
    fleet, seen = make_fleet(actions), with_mask(make_observation(SHAPES, 12), actions)
    taken = fleet.evaluate(seen)[0].sample().detach()

    def loss(of: object, at: slice = slice(None)) -> torch.Tensor:
        policy, value = of.evaluate({name: entry[at] for name, entry in seen.items()})  # type: ignore[attr-defined]
        return -policy.log_prob(taken[at]).sum() + value.square().sum() - policy.entropy().sum()

    agents = [fleet.take(symbol) for symbol in SYMBOLS]
    loss(fleet).backward()
    for row, agent in enumerate(agents):
        loss(agent, slice(4 * row, 4 * row + 4)).backward()
        for stacked, head in ((fleet.actor, agent.actor.layers), (fleet.critic, agent.critic.layers)):
            torch.testing.assert_close(stacked.first.weight.grad[row].T, head[0].weight.grad, rtol=1e-4, atol=1e-5)
            torch.testing.assert_close(stacked.last.bias.grad[row], head[2].bias.grad, rtol=1e-4, atol=1e-5)
    for name, parameter in fleet.encoder.named_parameters():
        alone = sum(dict(agent.encoder.named_parameters())[name].grad for agent in agents)
        torch.testing.assert_close(parameter.grad, alone, rtol=1e-3, atol=1e-4)


def test_heads_are_added_reinitialised_and_frozen_by_symbol() -> None:
    fleet = make_fleet()
    before = fleet.actor.first.weight.detach().clone()
    fleet.freeze(["B"])
    fleet.add(["D"])
    assert fleet.symbols == ("A", "B", "C", "D")
    assert fleet.frozen.tolist() == [False, True, False, False]
    assert torch.equal(fleet.actor.first.weight[:3], before)
    fleet.reinitialise(["C"])
    changed = (fleet.actor.first.weight[:3] != before).flatten(1).any(1)
    assert changed.tolist() == [False, False, True]
    fleet.freeze(["B"], frozen=False)
    assert not fleet.frozen.any()
    fleet.freeze_encoder()
    assert not any(parameter.requires_grad for parameter in fleet.encoder.parameters())
    fleet.freeze_encoder(frozen=False)
    assert all(parameter.requires_grad for parameter in fleet.encoder.parameters())


def test_another_encoder_can_be_the_first_one(make_observation: Make) -> None:
    fleet, encoder, seen = make_fleet(), network("transformer_small").build(SHAPES), make_observation(SHAPES, 3)
    encoder.normaliser.observe(seen)
    encoder.normaliser.commit()
    fleet.use_encoder(encoder)
    torch.testing.assert_close(fleet.encoder(seen), encoder(seen))
    with pytest.raises(ConfigError, match=r"does not fit the fleet's: embed\.weight differs"):
        fleet.use_encoder(network("transformer_small").build(SHAPES | {"window": (6, 4)}))


def test_symbols_are_named_once_and_known() -> None:
    with pytest.raises(ConfigError, match="each once, not A, A"):
        make_fleet(symbols=("A", "A"))
    with pytest.raises(ConfigError, match="no agent for 'D'; known: A, B, C"):
        make_fleet().take("D")


def test_a_fleet_acts_in_a_whole_market(make_observation: Make) -> None:
    fleet, seen = make_fleet(), make_observation({"window": (6, 5), "position": (3,)}, 2)
    arrays = {name: entry.numpy() for name, entry in seen.items()}
    arrays |= {"portfolio": np.arange(4, dtype=np.float32), "action_mask": np.ones((2, 7), dtype=bool)}
    arrays["action_mask"][0, :6] = False
    orders = FleetAgent(fleet, ["C", "A"]).act(arrays)
    assert orders.shape == (2,)
    assert orders[0] == 6
    alone = {name: arrays[name][1] for name in ("window", "position")} | {"portfolio": arrays["portfolio"]}
    assert orders[1] == fleet.take("A").act(alone)
    continuous = FleetAgent(make_fleet(None)).act(
        {name: np.repeat(v[:1], 3, 0) for name, v in arrays.items() if name in ("window", "position")}
        | {"portfolio": arrays["portfolio"]}
    )
    assert continuous.shape == (3,)


def test_143_agents_share_97_percent_of_their_parameters() -> None:
    shapes = {"window": (24, 23), "position": (7,), "portfolio": (7,), "regime": (4,)}
    card = fleet_card(Fleet(network("transformer"), shapes, [str(k) for k in range(143)]))
    assert card.saved >= 0.97
    assert 3.1e6 < card.encoder < 3.3e6
    assert str(card).endswith("% fewer")
