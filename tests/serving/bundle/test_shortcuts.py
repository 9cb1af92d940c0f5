"""Shortcuts: a rewritten policy gives the answers of the one that was trained, for less work."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from pacesetter.agents.encoders import Encoder, network
from pacesetter.serving.bundle.shortcuts import shorten_module

SHAPES = {"window": (5, 4), "position": (7,)}


def encoder(shapes: dict[str, tuple[int, ...]], **options: Any) -> Encoder:
    """A small transformer with no parameter left at 0 or 1, and a normaliser that has seen something."""
    torch.manual_seed(0)
    made = network("transformer_small", width=16, heads=2, **options).build(shapes)
    for parameter in made.parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)
    made.normaliser.centre.normal_()
    made.normaliser.scale.uniform_(0.5, 2.0)
    return made.eval()


def observation(shapes: dict[str, tuple[int, ...]], rows: int) -> dict[str, torch.Tensor]:
    return {name: torch.randn(rows, *shape) for name, shape in shapes.items()}


@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("entries", [("window",), ("window", "position"), ("position",)])
@pytest.mark.parametrize("rows", [1, 6])
def test_the_answer_is_that_of_the_encoder(layers, entries, rows):
    shapes = {name: SHAPES[name] for name in entries}
    trained = encoder(shapes, layers=layers)
    seen = observation(shapes, rows)
    with torch.no_grad():
        torch.testing.assert_close(shorten_module(trained)(seen), trained(seen), rtol=1e-5, atol=1e-5)


def test_holes_and_infinities_are_treated_as_in_training():
    trained = encoder(SHAPES)
    seen = observation(SHAPES, 3)
    seen["window"][0, 1:4, 0] = torch.tensor([torch.nan, torch.inf, -torch.inf])
    own, other = trained.normaliser(seen), shorten_module(trained).normaliser(seen)
    assert all(torch.equal(own[name], other[name]) for name in SHAPES)
    assert own["window"][0, 1:4, 0].tolist() == [0.0, 10.0, -10.0]


def test_the_last_block_works_for_the_newest_bar_alone_and_the_trained_policy_stays_as_it_was():
    trained = encoder(SHAPES, layers=1)
    before = {name: value.clone() for name, value in trained.state_dict().items()}
    whole: Any = copy.deepcopy(trained)
    whole.stack.forward_last = lambda tokens: whole.stack(tokens)[:, -1]  # every bar's answer, of which one is read
    work = {}
    for name, module in (("whole", whole), ("trained", trained), ("short", shorten_module(trained))):
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            module(observation(SHAPES, 6))
        work[name] = counter.get_total_flops()
    assert work["short"] < work["whole"] / 3  # one bar of five, and no key or value for any
    assert work["short"] <= work["trained"]  # which does the same since its last block answers for one bar
    assert {name: value.tolist() for name, value in trained.state_dict().items()} == {
        name: value.tolist() for name, value in before.items()
    }
