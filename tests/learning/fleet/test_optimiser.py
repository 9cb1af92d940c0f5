"""Adam on stacked parameters: each symbol goes its own way, absent ones stay."""

from __future__ import annotations

from copy import deepcopy

import torch
from torch import nn

from pacesetter.learning.fleet.optimiser import StackedAdam, clip_each


def test_each_symbol_goes_the_way_of_its_own_adam() -> None:
    torch.manual_seed(0)
    stacked = nn.Parameter(torch.randn(3, 2, 4))
    alone = [nn.Parameter(row.clone()) for row in stacked.detach()]
    ours, theirs = StackedAdam([stacked], 0.01), [torch.optim.Adam([parameter], 0.01) for parameter in alone]
    for step in range(5):
        gradient, present = torch.randn(3, 2, 4), torch.tensor([True, step != 2, step > 3])
        before = stacked.detach().clone(), {k: v.clone() for k, v in ours.state[stacked].items()}
        stacked.grad = gradient
        ours.step(present)
        for row in range(3):
            if present[row]:
                alone[row].grad = gradient[row]
                theirs[row].step()
            else:
                assert torch.equal(stacked[row], before[0][row])
                assert all(torch.equal(ours.state[stacked][k][row], v[row]) for k, v in before[1].items())
    torch.testing.assert_close(stacked.detach(), torch.stack([p.detach() for p in alone]))


def test_it_goes_on_from_its_state() -> None:
    torch.manual_seed(0)
    first = nn.Parameter(torch.randn(2, 3))
    everyone = torch.ones(2, dtype=torch.bool)
    optimiser = StackedAdam([first], 0.1)
    first.grad = torch.randn(2, 3)
    optimiser.step(everyone)
    second = nn.Parameter(first.detach().clone())
    other = StackedAdam([second], 0.1)
    other.load_state_dict(deepcopy(optimiser.state_dict()))
    second.grad = first.grad
    optimiser.step(everyone)
    other.step(everyone)
    assert torch.equal(first, second)


def test_gradients_are_clipped_symbol_by_symbol() -> None:
    parameters = [nn.Parameter(torch.zeros(2, 1)), nn.Parameter(torch.zeros(2, 1, 1))]
    parameters[0].grad, parameters[1].grad = torch.tensor([[3.0], [0.3]]), torch.tensor([[[4.0]], [[0.4]]])
    norms = clip_each(parameters, 1.0)
    torch.testing.assert_close(norms, torch.tensor([5.0, 0.5]))
    torch.testing.assert_close(parameters[0].grad, torch.tensor([[0.6], [0.3]]))
    torch.testing.assert_close(parameters[1].grad, torch.tensor([[[0.8]], [[0.4]]]))
