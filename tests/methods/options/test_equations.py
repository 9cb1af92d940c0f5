"""Equations of options against four rooms (Sutton, Precup, Singh 1999), solved by independent dynamic programming."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
import torch

from pacesetter.learning.equations import clipped_surrogate, gae
from pacesetter.methods.options.equations import (
    arrival_values,
    option_advantages,
    smdp_targets,
    termination_loss,
)

GAMMA = 0.9
ROOMS = """
#############
#     #     #
#     #     #
#           #
#     #     #
#     #     #
## ####     #
#     ### ###
#     #     #
#     #     #
#           #
#     #     #
#############
"""
MOVES = ((-1, 0), (1, 0), (0, -1), (0, 1))
HALLWAYS = ((3, 6), (6, 2), (7, 9), (10, 6))


class Rooms(NamedTuple):
    """moves (action, state, state) where each action leads; goal; options (option, state): policy, ending, beginning"""

    moves: np.ndarray
    goal: int
    policy: np.ndarray
    ending: np.ndarray
    opens: np.ndarray


@pytest.fixture(scope="module")
def rooms() -> Rooms:
    """Four rooms with an option to each hallway from either side of it; the goal is the hallway in the east."""
    grid = ROOMS.strip().splitlines()
    cells = [(y, x) for y, row in enumerate(grid) for x, letter in enumerate(row) if letter == " "]
    place = {cell: number for number, cell in enumerate(cells)}
    moves = np.zeros((4, len(cells), len(cells)))
    for (y, x), number in place.items():
        for action, (dy, dx) in enumerate(MOVES):
            moves[action, number, place.get((y + dy, x + dx), number)] = 1.0
    policy, ending, opens = [], [], []
    everywhere = np.arange(len(cells))
    for hallway in HALLWAYS:
        is_other = np.isin(everywhere, [place[each] for each in HALLWAYS if each != hallway])
        distance = np.where(everywhere == place[hallway], 0.0, np.inf)
        for _ in cells:  # shortest paths that pass no other hallway: those of the two rooms beside it
            around = reached(moves, distance).min(0) + 1
            distance = np.where(is_other, np.inf, np.minimum(distance, around))
        nearest = reached(moves, distance)
        policy.append(nearest.argmin(0))
        ending.append(np.where(np.isfinite(distance) & (distance > 0), 0.0, 1.0))
        opens.append(np.isfinite(nearest.min(0)) & (everywhere != place[hallway]))  # the other hallways of both, too
    return Rooms(moves, place[(7, 9)], np.array(policy), np.array(ending), np.array(opens))


def reached(moves: np.ndarray, distance: np.ndarray) -> np.ndarray:
    """(action, state) distance of where each action leads."""
    return np.array([np.where(move > 0, distance, np.inf).min(1) for move in moves])


def slippery(rooms: Rooms) -> np.ndarray:
    """(action, state, state): two thirds of the moves succeed, others go any other way; the goal absorbs."""
    chance = np.full((4, 4), 1 / 9) + np.eye(4) * (2 / 3 - 1 / 9)
    moved = np.einsum("ab,bst->ast", chance, rooms.moves)
    moved[:, rooms.goal] = 0.0
    return moved


def models(rooms: Rooms, moved: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(option, state) discounted rewards and (option, state, state) discounted ends: the option's linear system."""
    states, rewards, ends = moved.shape[1], [], []
    for policy, ending in zip(rooms.policy, rooms.ending, strict=True):
        step = moved[policy, np.arange(states)]
        going = GAMMA * step * (1 - ending)
        inverse = np.linalg.inv(np.eye(states) - going)
        rewards.append(inverse @ step[:, rooms.goal])
        ends.append(inverse @ (GAMMA * step * ending))
    return np.array(rewards), np.array(ends)


def test_every_room_has_its_two_hallways(rooms):
    assert rooms.moves.shape[1] == 104  # as in the paper
    counts = rooms.opens.sum(0)
    assert set(np.unique(counts)) <= {2, 3}  # a hallway can also lead to those of both its rooms
    assert (rooms.opens.sum(1) > 40).all()


def test_optimal_option_values_are_those_of_the_models(rooms):
    """Options are walked step by step on the one side; on the other their models solve a linear system."""
    walked = rooms.moves.copy()
    walked[:, rooms.goal] = 0.0
    rewards, ends = models(rooms, walked)
    exact = np.zeros(rooms.opens.shape)
    for _ in range(200):
        best = np.where(rooms.opens, exact, -np.inf).max(0)
        exact = rewards + np.einsum("ost,t->os", ends, best)

    options, states = rooms.opens.shape
    rows = [(s, o) for s in range(states) for o in range(options) if rooms.opens[o, s] and s != rooms.goal]
    earned, discount, left = [], [], []
    for state, option in rows:
        total, weight, here = 0.0, 1.0, state
        while True:
            here = int(walked[rooms.policy[option, here], here].argmax())
            total, weight = total + weight * (here == rooms.goal), weight * GAMMA
            if here == rooms.goal or rooms.ending[option, here]:
                break
        earned.append(total)
        discount.append(0.0 if here == rooms.goal else weight)
        left.append(here)
    start, option = (torch.tensor(part) for part in zip(*rows, strict=True))
    opens, values = torch.tensor(rooms.opens.T), torch.zeros(states, options, dtype=torch.float64)
    for _ in range(200):
        values[start, option] = smdp_targets(
            torch.tensor(earned, dtype=torch.float64),
            torch.tensor(discount, dtype=torch.float64),
            values[left],
            opens[left],
        )
    np.testing.assert_allclose(values[start, option], exact[option, start], atol=1e-12)
    one_step = np.zeros(states)  # the flat learner reaches no more: options only save decisions
    for _ in range(300):
        one_step = (walked @ (GAMMA * one_step) + walked[:, :, rooms.goal]).max(0)
    best = np.where(rooms.opens, exact, -np.inf).max(0)
    np.testing.assert_allclose(best[np.arange(states) != rooms.goal], one_step[np.arange(states) != rooms.goal])


def test_values_of_a_fixed_selector_solve_the_linear_system(rooms):
    """Step by step through `arrival_values` on slippery floors, and at once by the models of the options."""
    moved = slippery(rooms)
    chances = rooms.opens / rooms.opens.sum(0)
    rewards, ends = models(rooms, moved)
    states = moved.shape[1]
    mean = np.einsum("os,ost->st", chances, ends)
    value = np.linalg.solve(np.eye(states) - mean, (chances * rewards).sum(0))
    exact = rewards + ends @ value

    steps = torch.tensor(np.array([moved[policy, np.arange(states)] for policy in rooms.policy]))
    selector, ending = torch.tensor(chances.T), torch.tensor(rooms.ending)
    values = torch.zeros(states, len(ending), dtype=torch.float64)
    for _ in range(400):
        arrivals = torch.stack(
            [
                arrival_values(values, selector, ending[o], torch.full((states,), o), cost=0.0)
                for o in range(len(ending))
            ]
        )
        values = (steps[:, :, rooms.goal] + GAMMA * torch.einsum("ost,ot->os", steps, arrivals)).T
    np.testing.assert_allclose(values.T, exact, atol=1e-10)


def test_a_one_step_option_is_the_flat_learner():
    generator = torch.Generator().manual_seed(0)
    rewards, values, following = (torch.randn(12, 3, generator=generator) for _ in range(3))
    ended = torch.rand(12, 3, generator=generator) < 0.2
    began = torch.ones(12, 3, dtype=torch.bool)
    # One option, which ends at every bar and costs nothing: what follows on the path is its own value.
    arrivals = torch.cat([values[1:], following[-1:]])
    arrivals = torch.where(ended, following, arrivals)
    own = option_advantages(rewards, values, arrivals, began, ended, GAMMA, 0.8, cost=0.0)
    flat = gae(rewards, values, GAMMA * arrivals, ended, GAMMA * 0.8)
    torch.testing.assert_close(own, flat)
    q, opens = torch.randn(5, 4, generator=generator), torch.ones(5, 4, dtype=torch.bool)
    reward = torch.randn(5, generator=generator)
    torch.testing.assert_close(
        smdp_targets(reward, torch.full((5,), GAMMA), q, opens), reward + GAMMA * q.max(-1).values
    )


def test_a_target_takes_only_what_may_begin_and_nothing_after_a_termination():
    values = torch.tensor([[5.0, 1.0], [5.0, 1.0]])
    opens = torch.tensor([[False, True], [True, True]])
    targets = smdp_targets(torch.tensor([1.0, 1.0]), torch.tensor([0.5, 0.0]), values, opens)
    assert targets.tolist() == [1.5, 1.0]


def test_a_switch_is_charged_once_to_the_option_that_ended():
    rewards, values = torch.zeros(3, 1), torch.zeros(3, 1)
    arrivals, ended = torch.zeros(3, 1), torch.zeros(3, 1, dtype=torch.bool)
    began = torch.tensor([[True], [False], [True]])
    found = option_advantages(rewards, values, arrivals, began, ended, 1.0, 1.0, cost=0.25)
    assert found.flatten().tolist() == [-0.25, -0.25, 0.0]  # at the beginning of the rollout none ended


# ---- gradients ------------------------------------------------------------------------------------------------------

OPTIONS, COST = 3, 0.02


@pytest.fixture(scope="module")
def tabular(rooms):
    """Random tables of intra-option policies, endings and a selector on the slippery rooms."""
    torch.manual_seed(3)
    states = rooms.moves.shape[1]
    tables = [
        torch.randn(shape, dtype=torch.float64, requires_grad=True)
        for shape in ((states, OPTIONS, 4), (states, OPTIONS), (states, OPTIONS))
    ]
    return tables, torch.tensor(slippery(rooms)), rooms.goal


def solved(tables, moved, goal):
    """Q(s, o), Q_U(s, o, a), probabilities, by the linear system of all pairs (state, option); differentiable."""
    orders, endings, selector = tables
    policy, ending, chances = orders.softmax(-1), endings.sigmoid(), selector.softmax(-1)
    states = len(policy)
    step = torch.einsum("soa,ast->sot", policy, moved)
    # From (s, o) through s' to (s', o): goes on, or ends, pays and chooses again.
    same = torch.einsum("sot,to,op->sotp", step, 1 - ending, torch.eye(OPTIONS, dtype=torch.float64))
    other = torch.einsum("sot,to,tp->sotp", step, ending, chances)
    flow = (same + other).reshape(states * OPTIONS, -1)
    paid = torch.einsum("sot,to->so", step, ending) * COST
    rewards = step[..., goal] - GAMMA * paid
    system = torch.eye(states * OPTIONS, dtype=torch.float64) - GAMMA * flow
    values = torch.linalg.solve(system, rewards.reshape(-1)).view(states, OPTIONS)
    return values, policy, ending, chances, step, system


def test_gradients_are_those_of_the_exact_return(tabular):
    """Automatic differentiation through the linear system, against the three losses under exact visits."""
    tables, moved, goal = tabular
    start = torch.full((moved.shape[1],), 1 / moved.shape[1], dtype=torch.float64)
    values, policy, ending, chances, step, system = solved(tables, moved, goal)
    expected = torch.autograd.grad((start[:, None] * chances * values).sum(), tables, retain_graph=True)

    with torch.no_grad():
        first = (start[:, None] * chances).reshape(-1)
        visits = torch.linalg.solve(system.T, first).view(-1, OPTIONS)  # Σ γ^t of deciding in (s, o)
        arrived = GAMMA * torch.einsum("so,sot->to", visits, step)
        arrivals = torch.stack(
            [
                arrival_values(values, chances, ending[:, o], torch.full((len(values),), o), COST)
                for o in range(OPTIONS)
            ],
            dim=-1,
        )
        action_values = moved[..., goal].T[:, None] + GAMMA * torch.einsum("ast,to->soa", moved, arrivals)
        torch.testing.assert_close((policy * action_values).sum(-1), values)
    ratio = policy.log() - policy.log().detach()
    advantages = action_values - values.detach()[..., None]
    ascended = (policy.detach() * clipped_surrogate(ratio, advantages, 0.2)).sum(-1)
    chosen_in = start + (arrived * ending.detach()).sum(-1)
    selected = (chances * values.detach()).sum(-1)
    closing = torch.stack(
        [termination_loss(ending[:, o], values, chances, torch.full((len(values),), o), COST) for o in range(OPTIONS)],
        dim=-1,
    )
    total = (visits * ascended).sum() + (chosen_in * selected).sum() - (arrived * closing).sum()
    for own, exact in zip(torch.autograd.grad(total, tables), expected, strict=True):
        torch.testing.assert_close(own, exact, rtol=1e-9, atol=1e-12)
