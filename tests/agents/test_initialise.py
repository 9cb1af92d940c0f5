"""First weights follow their rule, and the verifier sees each way they can be wrong."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from pacesetter.agents.encoders import network
from pacesetter.agents.initialise import initialise_head, verify_initialisation
from pacesetter.agents.symbol_agent import SymbolAgent

TRADING = {"window": (24, 23), "position": (5,), "portfolio": (8,), "regime": (4,)}


def make_agent() -> SymbolAgent:
    return SymbolAgent(network("lstm", width=32), TRADING)


def test_heads_are_orthogonal_with_their_gain() -> None:
    head = nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 3))
    initialise_head(head, 0.01)
    first, last = head[0].weight, head[2].weight
    torch.testing.assert_close(first @ first.T, 2 * torch.eye(8))
    torch.testing.assert_close(last @ last.T, 1e-4 * torch.eye(3))
    assert head[2].bias.abs().sum() == 0


def test_recurrent_states_start_orthogonal_and_remember() -> None:
    memory = make_agent().encoder.memory
    for gate in memory.weight_hh_l0.split(32):
        torch.testing.assert_close(gate @ gate.T, torch.eye(32), atol=1e-5, rtol=0)
    assert memory.bias_ih_l0[32:64].tolist() == [1.0] * 32
    assert memory.bias_ih_l0.sum() == 32


def spoil(layer: nn.Linear, change: Callable[[torch.Tensor], object]) -> None:
    with torch.no_grad():
        change(layer.weight)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda weight: weight[0].fill_(torch.nan), "is not finite"),
        (lambda weight: weight[:3].zero_(), "3 dead of 128 units"),
        (lambda weight: weight.mul_(10), "root mean square"),
        (lambda weight: weight.mul_(0.01), "root mean square"),
    ],
)
def test_the_verifier_names_the_layer_and_the_fault(change: Callable[[torch.Tensor], object], words: str) -> None:
    agent = make_agent()
    assert verify_initialisation(agent) == ()
    spoil(agent.actor.layers[0], change)
    (finding,) = verify_initialisation(agent)
    assert finding.startswith("actor.layers.0: weight")
    assert words in finding


def test_small_layers_give_no_false_alarm() -> None:
    for seed in range(100):
        torch.manual_seed(seed)
        assert verify_initialisation(network("gru", width=16).build({"window": (3, 1), "position": (2,)})) == ()


def test_layers_of_other_libraries_are_held_to_wide_bounds() -> None:
    layer = nn.Linear(64, 64)
    assert verify_initialisation(layer) == ()
    spoil(layer, lambda weight: weight.mul_(100))
    assert len(verify_initialisation(layer)) == 1
    nn.init.constant_(layer.bias, 5.0)
    assert any("bias reaches 5" in finding for finding in verify_initialisation(layer))
