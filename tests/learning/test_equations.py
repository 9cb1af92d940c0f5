"""Each equation against a loop that follows the paper's own sum, or a world whose answer is known."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn

from pacesetter.learning.equations import (
    clipped_surrogate,
    expected_advantages,
    expected_surrogate,
    gae,
    n_step_returns,
    shaping,
    soft_update,
    vtrace,
)

STEPS, ENVS, GAMMA = 7, 3, 0.9


@pytest.fixture
def path() -> dict[str, torch.Tensor]:
    """Rewards, values, discounted next values and ends of random episodes; one env never ends, another twice."""
    generator = torch.Generator().manual_seed(4)
    drawn = {name: torch.randn(STEPS, ENVS, generator=generator).double() for name in ("rewards", "values", "after")}
    ended = torch.zeros(STEPS, ENVS, dtype=torch.bool)
    ended[2, 1] = ended[5, 1] = ended[3, 2] = True
    terminated = torch.zeros_like(ended)
    terminated[5, 1] = True
    following = torch.cat([drawn["values"][1:], drawn["after"][:1]])
    following = torch.where(ended, drawn["after"], following)  # of the final observation
    next_values = torch.where(terminated, 0.0, GAMMA * following)
    return {"rewards": drawn["rewards"], "values": drawn["values"], "next_values": next_values, "ended": ended}


def test_advantages_by_hand() -> None:
    rewards, values = torch.tensor([[1.0], [2.0], [3.0]]), torch.tensor([[0.5], [1.0], [2.0]])
    following, ended = torch.tensor([[0.9], [0.0], [4.5]]), torch.tensor([[False], [True], [False]])
    advantages = gae(rewards, values, following, ended, decay=0.5)
    # δ = 1.4, 1, 5.5; the episode ends after the second step
    torch.testing.assert_close(advantages, torch.tensor([[1.9], [1.0], [5.5]]))


def test_gae_is_the_decayed_sum_of_errors_within_the_episode(path: dict[str, torch.Tensor]) -> None:
    decay = 0.6
    deltas = path["rewards"] + path["next_values"] - path["values"]
    for t in range(STEPS):
        for env in range(ENVS):
            total, weight = 0.0, 1.0
            for i in range(t, STEPS):
                total += weight * float(deltas[i, env])
                weight *= decay
                if path["ended"][i, env]:
                    break
            assert float(gae(**path, decay=decay)[t, env]) == pytest.approx(total)


@pytest.mark.parametrize("n", [1, 3, 50])
def test_n_step_returns_stop_at_the_end_of_an_episode(path: dict[str, torch.Tensor], n: int) -> None:
    returns = n_step_returns(path["rewards"], path["next_values"], path["ended"], GAMMA, n)
    for t in range(STEPS):
        for env in range(ENVS):
            last = next((i for i in range(t, min(t + n, STEPS)) if path["ended"][i, env]), min(t + n, STEPS) - 1)
            total = sum(GAMMA ** (i - t) * float(path["rewards"][i, env]) for i in range(t, last + 1))
            total += GAMMA ** (last - t) * float(path["next_values"][last, env])
            assert float(returns[t, env]) == pytest.approx(total)


def test_lambda_one_advantages_are_n_step_returns_less_values(path: dict[str, torch.Tensor]) -> None:
    returns = n_step_returns(path["rewards"], path["next_values"], path["ended"], GAMMA, STEPS)
    torch.testing.assert_close(gae(**path, decay=GAMMA), returns - path["values"])


def test_vtrace_is_the_published_sum(path: dict[str, torch.Tensor]) -> None:
    log_ratios = 0.7 * torch.randn(STEPS, ENVS, generator=torch.Generator().manual_seed(5)).double()
    rho_bar, c_bar = 1.2, 0.8
    traced = vtrace(log_ratios, **path, gamma=GAMMA, rho_bar=rho_bar, c_bar=c_bar)
    rewards, values, following = path["rewards"], path["values"], path["next_values"]
    ratio = [[math.exp(float(log_ratios[t, env])) for env in range(ENVS)] for t in range(STEPS)]
    for env in range(ENVS):
        targets = []
        for s in range(STEPS):
            target = float(values[s, env])
            for t in range(s, STEPS):
                traces = math.prod(min(c_bar, ratio[i][env]) for i in range(s, t))
                delta = min(rho_bar, ratio[t][env]) * float(rewards[t, env] + following[t, env] - values[t, env])
                target += GAMMA ** (t - s) * traces * delta
                if path["ended"][t, env]:
                    break
            targets.append(target)
            assert float(traced.values[s, env]) == pytest.approx(target)
        for s in range(STEPS - 1):
            after = float(following[s, env]) if path["ended"][s, env] else GAMMA * targets[s + 1]
            gain = min(rho_bar, ratio[s][env]) * (float(rewards[s, env]) + after - float(values[s, env]))
            assert float(traced.advantages[s, env]) == pytest.approx(gain)


def test_on_policy_vtrace_is_the_n_step_return(path: dict[str, torch.Tensor]) -> None:
    traced = vtrace(torch.zeros(STEPS, ENVS).double(), **path, gamma=GAMMA)
    returns = n_step_returns(path["rewards"], path["next_values"], path["ended"], GAMMA, STEPS)
    torch.testing.assert_close(traced.values, returns)


def optimal_values(rewards: torch.Tensor, chances: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    """(state, action) Q* of a tabular world with rewards (state, action, next), by iteration of Bellman's equation."""
    q = torch.zeros(rewards.shape[:2]).double()
    for _ in range(600):
        after = torch.where(ends, 0.0, q.amax(1))
        q = (chances * (rewards + GAMMA * after)).sum(-1)
    return q


def test_shaping_moves_optimal_values_by_the_potential_and_no_policy() -> None:
    generator = torch.Generator().manual_seed(6)
    states, actions = 5, 3
    chances = torch.rand(states, actions, states, generator=generator).double()
    chances /= chances.sum(-1, keepdim=True)
    rewards = torch.randn(states, actions, states, generator=generator).double()
    potential = torch.randn(states, generator=generator).double()
    ends = torch.tensor([False, False, False, False, True])
    shape = (states, actions, states)
    added = shaping(
        potential[:, None, None].expand(shape), potential.expand(shape), ends.expand(shape), GAMMA
    )  # towards a terminal state its potential counts as 0
    plain, shaped = optimal_values(rewards, chances, ends), optimal_values(rewards + added, chances, ends)
    torch.testing.assert_close(shaped, plain - potential[:, None])
    assert torch.equal(plain.argmax(1), shaped.argmax(1))


def test_a_soft_update_moves_by_its_share() -> None:
    target, source = nn.Linear(2, 2), nn.Linear(2, 2)
    before = target.weight.detach().clone()
    soft_update(target, source, 0.25)
    torch.testing.assert_close(target.weight.detach(), 0.75 * before + 0.25 * source.weight.detach())


# ---- all-action advantages ------------------------------------------------------------------------------------------


def _toy_policies() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(state, action) logits that require a gradient, old log-probabilities, and advantages of zero mean."""
    generator = torch.Generator().manual_seed(8)
    logits = torch.randn(3, 5, generator=generator, dtype=torch.float64)
    old = (logits + 0.3 * torch.randn(3, 5, generator=generator, dtype=torch.float64)).log_softmax(-1)
    values = torch.randn(3, 5, generator=generator, dtype=torch.float64)
    return logits.requires_grad_(), old, values - (old.exp() * values).sum(-1, keepdim=True)


def _sampled_gradient(logits: torch.Tensor, old: torch.Tensor, advantages: torch.Tensor, actions: list[int]) -> Any:
    """PPO's own gradient where action a was drawn in each state."""
    rows = torch.arange(3)
    log_ratio = logits.log_softmax(-1)[rows, actions] - old[rows, actions]
    return torch.autograd.grad(clipped_surrogate(log_ratio, advantages[rows, actions], 0.2).sum(), logits)[0]


def test_the_expected_gradient_is_the_mean_of_the_sampled_ones_and_does_not_vary() -> None:
    logits, old, advantages = _toy_policies()
    expected = torch.autograd.grad(expected_surrogate(logits.log_softmax(-1), old, advantages, 0.2).sum(), logits)[0]
    mean = torch.zeros_like(expected)
    variance = 0.0
    for action in range(5):  # states are independent, so one action at a time covers all of them
        one = _sampled_gradient(logits, old, advantages, [action] * 3)
        weight = old[:, action].exp()[:, None]
        mean += weight * one
        variance += float((weight * (one - expected) ** 2).sum())
    torch.testing.assert_close(mean, expected)
    assert variance > 0.1  # of the sampled one; that of the expected one is 0


def test_without_clipping_it_is_the_policys_own_mean_advantage() -> None:
    logits, old, advantages = _toy_policies()
    new = logits.log_softmax(-1)
    torch.testing.assert_close(expected_surrogate(new, old, advantages, 1e9), (new.exp() * advantages).sum(-1))


def test_an_action_that_is_never_taken_counts_nothing() -> None:
    old = torch.tensor([[0.5, 0.5, 0.0]]).log().clamp(min=-1e4)
    new = torch.tensor([[0.6, 0.4, 0.0]]).log().clamp(min=-1e4).requires_grad_()
    value = expected_surrogate(new, old, torch.tensor([[1.0, -1.0, 1e6]]), 0.5)
    torch.testing.assert_close(value, torch.tensor([0.2]))
    assert torch.isfinite(torch.autograd.grad(value.sum(), new)[0]).all()


def test_expected_advantages_by_hand() -> None:
    action_values = torch.tensor([[[2.0, 4.0]], [[1.0, 0.0]], [[3.0, 3.0]]])
    chances = torch.tensor([[[0.5, 0.5]], [[0.25, 0.75]], [[1.0, 0.0]]])
    values, bonus = torch.tensor([[1.0], [1.0], [2.0]]), torch.tensor([[0.0], [0.5], [0.0]])
    ended = torch.tensor([[False], [True], [False]])
    found = expected_advantages(action_values, chances, values, bonus, ended, decay=0.5)
    # means 3, 0.25, 3; A = 3 + 0 − 1 + 0.5·(−0.25), 0.25 + 0.5 − 1, 3 − 2
    torch.testing.assert_close(found.advantages[:, 0], torch.tensor([[-1.0, 1.0], [0.75, -0.25], [0.0, 0.0]]))
    torch.testing.assert_close(found.remainders, torch.tensor([[-0.125], [0.5], [0.0]]))
    torch.testing.assert_close(found.targets, torch.tensor([[2.875], [0.75], [3.0]]))


def test_the_mean_of_sampled_gae_is_the_expected_one(path: dict[str, torch.Tensor]) -> None:
    generator = torch.Generator().manual_seed(5)
    spread = torch.randn(STEPS, ENVS, 4, generator=generator, dtype=torch.float64)
    chances = torch.rand(STEPS, ENVS, 4, generator=generator, dtype=torch.float64)
    chances = chances / chances.sum(-1, keepdim=True)
    action_values = (path["rewards"] + path["next_values"]).unsqueeze(-1) + spread
    nothing = torch.zeros_like(path["values"])
    found = expected_advantages(action_values, chances, path["values"], nothing, path["ended"], 0.6)
    draws = torch.multinomial(chances.flatten(0, 1), 20_000, True, generator=generator).T.view(-1, STEPS, ENVS)
    sampled = torch.stack(
        [
            gae(action_values.gather(-1, draw[..., None])[..., 0], path["values"], nothing, path["ended"], 0.6)
            for draw in draws[:2_000]
        ]
    )
    error = sampled.std(0) / len(sampled) ** 0.5
    assert ((sampled.mean(0) - (found.targets - path["values"])).abs() < 5 * error).all()


@pytest.mark.parametrize("advantage", [-1.0, 0.0, 1.0])
def test_a_policy_that_went_very_far_leaves_no_nan_behind(advantage: float) -> None:
    log_ratios = torch.tensor([100.0, -100.0, 0.1], requires_grad=True)
    surrogate = clipped_surrogate(log_ratios, torch.full((3,), advantage), 0.2)
    surrogate.sum().backward()
    assert surrogate.isfinite().all()
    assert log_ratios.grad is not None
    assert log_ratios.grad.isfinite().all()
