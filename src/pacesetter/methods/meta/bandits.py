"""Bernoulli bandits with Beta(1, 1) priors: the smallest world in which a context is worth something exactly known.

Every episode draws new arms; a policy that does not read its own transitions earns one half a pull. The policy here is
a context encoder of `methods.meta.context` and two linear heads, trained by PPO's equations; what the best possible
one earns is known by dynamic programming.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import nn

from pacesetter.agents.heads import MaskedCategorical
from pacesetter.errors import check_range
from pacesetter.learning.equations import clipped_surrogate, gae
from pacesetter.methods.meta.context import ContextKind, make_context

__all__ = ["BanditOptions", "BanditPolicy", "exact_reward", "train_bandit"]

ROWS_AT_ONCE = 16_384


@dataclass(frozen=True)
class BanditOptions:
    """A family of bandits, and how a context learns it.

    arms, pulls      of each episode; the context holds all pulls before
    context          gru, attention or pearl          width   of it          latent   of pearl
    rounds           of `episodes` episodes, learned from in `epochs` passes of minibatches of `batch_size` pulls
    """

    arms: int = 2
    pulls: int = 10
    context: ContextKind = "gru"
    width: int = 32
    latent: int = 8
    rounds: int = 60
    episodes: int = 256
    epochs: int = 4
    batch_size: int = 320
    learning_rate: float = 1e-2
    clip_range: float = 0.2
    gae_lambda: float = 0.95
    ent_coef: float = 0.01
    seed: int = 0

    def __post_init__(self) -> None:
        check_range(2, owner="bandit", arms=self.arms, pulls=self.pulls)
        check_range(1, owner="bandit", rounds=self.rounds, episodes=self.episodes, epochs=self.epochs)
        check_range(1, owner="bandit", batch_size=self.batch_size)


class BanditPolicy(nn.Module):
    """Transitions so far (row, pull, arms + 1), one-hot arms and rewards, to a policy over arms and a value."""

    def __init__(self, options: BanditOptions) -> None:
        super().__init__()
        self.options = options
        size = (options.arms + 1, options.pulls, options.width, options.latent)
        self.context = make_context(options.context, *size)
        self.mix = nn.Sequential(nn.Linear(options.width + 1, options.width), nn.ReLU())
        self.actor, self.critic = nn.Linear(options.width, options.arms), nn.Linear(options.width, 1)

    def forward(self, tokens: torch.Tensor, valid: torch.Tensor) -> tuple[MaskedCategorical, torch.Tensor]:
        left = 1 - valid.mean(1, keepdim=True)  # pulls that are left: the horizon is part of the problem
        hidden = self.mix(torch.cat([self.context(tokens, valid), left], dim=-1))
        return MaskedCategorical(self.actor(hidden)), self.critic(hidden).squeeze(-1)

    def fresh(self, rows: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Tokens and valid marks of so many episodes that begin."""
        return torch.zeros(rows, self.options.pulls, self.options.arms + 1), torch.zeros(rows, self.options.pulls)

    def after(
        self, tokens: torch.Tensor, valid: torch.Tensor, arm: torch.Tensor, reward: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The same with one more pull (row,), the newest last."""
        one_hot = nn.functional.one_hot(arm, self.options.arms).float()
        token = torch.cat([one_hot, reward[:, None]], dim=-1)
        ones = torch.ones(len(valid), 1)
        return torch.cat([tokens[:, 1:], token[:, None]], dim=1), torch.cat([valid[:, 1:], ones], dim=1)


def train_bandit(options: BanditOptions) -> BanditPolicy:
    """A policy that has learned the family; the same options give the same policy."""
    torch.manual_seed(options.seed)
    policy = BanditPolicy(options)
    optimiser = torch.optim.Adam(policy.parameters(), options.learning_rate)
    for number in range(options.rounds):
        for group in optimiser.param_groups:
            group["lr"] = options.learning_rate * (1 - number / options.rounds)
        rows = _play(policy)
        for some in _minibatches(rows, options):
            loss = _loss(policy, some)
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
            optimiser.step()
    return policy


def _minibatches(rows: dict[str, torch.Tensor], options: BanditOptions) -> Iterator[dict[str, torch.Tensor]]:
    for _ in range(options.epochs):
        for some in torch.split(torch.randperm(len(rows["arm"])), options.batch_size):
            yield {name: entry[some] for name, entry in rows.items()}


@torch.no_grad()
def _play(policy: BanditPolicy) -> dict[str, torch.Tensor]:
    """A round of episodes as rows (pull · episode, …) with advantages and targets."""
    options = policy.options
    chances = torch.rand(options.episodes, options.arms)
    tokens, valid = policy.fresh(options.episodes)
    steps = []
    for _ in range(options.pulls):
        answer, value = policy(tokens, valid)
        arm = answer.sample()
        reward = torch.bernoulli(chances.gather(1, arm[:, None]).squeeze(1))
        steps.append((tokens, valid, arm, answer.log_prob(arm), value, reward))
        tokens, valid = policy.after(tokens, valid, arm, reward)
    tokens, valid, arm, log_probs, values, rewards = (torch.stack(part) for part in zip(*steps, strict=True))
    following = torch.cat([values[1:], torch.zeros(1, options.episodes)])
    ended = torch.zeros_like(rewards, dtype=torch.bool)
    ended[-1] = True
    gains = gae(rewards, values, following, ended, options.gae_lambda)
    rows = {"tokens": tokens, "valid": valid, "arm": arm, "log_probs": log_probs, "targets": gains + values}
    rows["gains"] = (gains - gains.mean()) / (gains.std() + 1e-8)
    return {name: entry.flatten(0, 1) for name, entry in rows.items()}


def _loss(policy: BanditPolicy, rows: dict[str, torch.Tensor]) -> torch.Tensor:
    """PPO's loss of a round."""
    answer, values = policy(rows["tokens"], rows["valid"])
    log_ratio = answer.log_prob(rows["arm"]) - rows["log_probs"]
    surrogate = clipped_surrogate(log_ratio, rows["gains"], policy.options.clip_range).mean()
    error = (values - rows["targets"]).square().mean()
    loss: torch.Tensor = 0.5 * error - surrogate - policy.options.ent_coef * answer.entropy().mean()
    return loss


def _likeliest_arms(policy: BanditPolicy, tokens: torch.Tensor, valid: torch.Tensor) -> torch.Tensor:
    """(row,) arms of the deterministic policy, some rows at a time: twenty pulls have half a million outcomes."""
    some = zip(torch.split(tokens, ROWS_AT_ONCE), torch.split(valid, ROWS_AT_ONCE), strict=True)
    return torch.cat([policy(*rows)[0].mode() for rows in some])


@torch.no_grad()
def exact_reward(policy: BanditPolicy) -> float:
    """The expected reward of an episode, by playing the deterministic policy through every outcome of its pulls."""
    options = policy.options
    tokens, valid = policy.fresh(1)
    chance, counts, expected = torch.ones(1), torch.ones(1, options.arms, 2), 0.0  # wins and losses, from Beta(1, 1)
    for _ in range(options.pulls):
        arm = _likeliest_arms(policy, tokens, valid)
        beliefs = counts[torch.arange(len(arm)), arm]
        wins = beliefs[:, 0] / beliefs.sum(1)
        expected += float((chance * wins).sum())
        parts = []
        for won in (1, 0):
            grown = counts.clone()
            grown[torch.arange(len(arm)), arm, 1 - won] += 1
            reward = torch.full((len(arm),), float(won))
            share = wins if won else 1 - wins
            parts.append((*policy.after(tokens, valid, arm, reward), chance * share, grown))
        tokens, valid, chance, counts = (torch.cat(part) for part in zip(*parts, strict=True))
    return expected
