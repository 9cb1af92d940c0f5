"""The symbol agent: size, masks, one and many, determinism, export as one graph."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from pacesetter.agents import Agent
from pacesetter.agents.card import count_parameters
from pacesetter.agents.encoders import network
from pacesetter.agents.initialise import verify_initialisation
from pacesetter.agents.symbol_agent import SymbolAgent

Make = Callable[..., dict[str, torch.Tensor]]
SHAPES = {"window": (24, 23), "position": (5,), "portfolio": (8,), "regime": (4,), "action_mask": (7,)}


def make_agent(actions: int | None = 7) -> SymbolAgent:
    return SymbolAgent(network("transformer_small"), SHAPES, actions)


@pytest.mark.parametrize(("actions", "parameters"), [(7, 66_824), (None, 66_179)])
def test_heads_have_about_67_thousand_parameters(actions: int | None, parameters: int) -> None:
    agent = SymbolAgent(network("mlp"), SHAPES, actions)
    assert count_parameters(agent.actor) + count_parameters(agent.critic) == parameters
    assert verify_initialisation(agent) == ()


def test_it_acts_within_the_mask_for_one_and_for_many(make_observation: Make) -> None:
    agent, observation = make_agent(), make_observation(SHAPES, 300)
    arrays = {name: value.numpy() for name, value in observation.items()}
    assert isinstance(agent, Agent)
    drawn = agent.act(arrays, deterministic=False)
    assert set(drawn.tolist()) == {0, 1, 2, 3, 4, 5}
    best = agent.act(arrays)
    assert (best == agent.act(arrays)).all()
    assert agent.act({name: value[3] for name, value in arrays.items()}) == best[3]


def test_continuous_orders_stay_in_the_box(make_observation: Make) -> None:
    agent, observation = make_agent(None), make_observation(SHAPES, 8)
    arrays = {name: value.numpy() for name, value in observation.items()}
    orders = agent.act(arrays, deterministic=False)
    assert orders.shape == (8, 1)
    assert (abs(orders) <= 1).all()
    assert orders.std() > 0


@pytest.mark.parametrize("actions", [7, None])
def test_it_exports_as_one_graph_with_normaliser_and_mask(actions: int | None, make_observation: Make) -> None:
    agent = make_agent(actions).eval()
    agent.encoder.normaliser.observe(make_observation(SHAPES, 32))
    agent.encoder.normaliser.commit()
    batch = torch.export.Dim("batch")
    graph = torch.export.export(
        agent, (make_observation(SHAPES, 2),), dynamic_shapes=({name: {0: batch} for name in SHAPES},)
    ).module()
    probe = make_observation(SHAPES, 5)
    probe["window"][0, 0, 0] = torch.nan
    for ours, theirs in zip(agent(probe), graph(probe), strict=True):
        torch.testing.assert_close(ours, theirs)
    if actions:
        assert (graph(probe)[0][:, -1] == 0).all()
