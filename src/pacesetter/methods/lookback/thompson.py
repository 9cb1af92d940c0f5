"""Thompson sampling while an agent learns which window to choose: exploration by what is not known yet.

A network gives features φ(x) of an observation. The reward of each window a is a Bayesian linear regression on them,

    r | x, a ~ N(φ(x)·w_a, s²),        w_a ~ N(m_a, s²·P_a⁻¹),        P_a = p·I + Σ φφᵀ,        P_a m_a = Σ φ·r

and at every bar the window with the highest drawn reward is chosen: a window is tried as often as it is likely the best
(Thompson 1933; neural-linear, Riquelme, Tucker and Snoek 2018). Only the chosen window's reward is used. The window in
force is part of the observation, so that the cost of a switch is learned too; what a choice costs at later bars is not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.policies import MultiInputActorCriticPolicy
from torch import nn
from torch.nn import functional

from pacesetter.learning.sb3.own import OwnAlgorithm, Steps
from pacesetter.methods.lookback.options import ThompsonOptions

__all__ = ["ThompsonPolicy", "ThompsonSampling", "WindowPosterior"]

SMALLEST_DEVIATION = 1e-8  # of rewards; below it they do not vary


class WindowPosterior(nn.Module):
    """Posterior of a linear regression per choice, in buffers, so that a checkpoint has it.

    precision   (choice, feature, feature)      moment   (choice, feature) Σ φ·r      deviation   of the rewards
    """

    precision: torch.Tensor
    moment: torch.Tensor
    deviation: torch.Tensor

    def __init__(self, features: int, choices: int, prior_precision: float = 1.0) -> None:
        super().__init__()
        self.prior_precision = prior_precision
        # float64: precisions of many steps are inverted.
        eye = torch.eye(features, dtype=torch.float64)
        self.register_buffer("precision", (prior_precision * eye).repeat(choices, 1, 1))
        self.register_buffer("moment", torch.zeros(choices, features, dtype=torch.float64))
        self.register_buffer("deviation", torch.ones((), dtype=torch.float64))

    @property
    def mean(self) -> torch.Tensor:
        """(choice, feature) expected weights."""
        weights: torch.Tensor = torch.linalg.solve(self.precision, self.moment.unsqueeze(-1)).squeeze(-1)
        return weights

    def update(self, features: torch.Tensor, choices: torch.Tensor, rewards: torch.Tensor, forgetting: float) -> None:
        """Take in features (row, feature), the choices (row,) made there, and their rewards in deviations (row,)."""
        eye = self.prior_precision * torch.eye(features.shape[1], dtype=torch.float64, device=features.device)
        chosen = functional.one_hot(choices, len(self.moment)).to(self.moment)
        known = features.to(self.moment)
        products = torch.einsum("ra,ri,rj->aij", chosen, known, known)
        self.precision.copy_(forgetting * (self.precision - eye) + eye + products)
        self.moment.copy_(forgetting * self.moment + torch.einsum("ra,ri,r->ai", chosen, known, rewards.to(known)))

    def draw(self, features: torch.Tensor) -> torch.Tensor:
        """(row, choice) rewards of weights drawn for each row: φ·w is normal with mean φ·m and variance φᵀP⁻¹φ."""
        known = features.to(self.moment)
        spread = torch.linalg.solve(
            self.precision, known.T.expand(len(self.precision), -1, -1)
        )  # (choice, feature, row)
        variance = torch.einsum("ri,air->ra", known, spread).clamp(min=0.0)
        return known @ self.mean.T + variance.sqrt() * torch.randn_like(variance)


class ThompsonPolicy(MultiInputActorCriticPolicy):
    """Actor and critic whose actor is the mean of the posterior; drawn actions are those of drawn weights."""

    def __init__(self, *arguments: Any, prior_precision: float = 1.0, **options: Any) -> None:
        super().__init__(*arguments, **options)
        head: Any = self.action_net
        self.posterior = WindowPosterior(int(head.in_features) + 1, int(head.out_features), prior_precision)

    def basis(self, observation: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """φ (row, feature) with a 1 behind for the bias, and values (row,)."""
        latent, latent_value = self.mlp_extractor(self.extract_features(observation))
        return torch.cat([latent, torch.ones_like(latent[:, :1])], -1), self.value_net(latent_value).flatten()

    def forward(self, obs: object, deterministic: bool = False) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        features, values = self.basis(obs)
        scores = self.action_net(features[:, :-1])
        drawn = scores if deterministic else self.posterior.draw(features)
        actions = drawn.argmax(-1)
        return actions, values[:, None], scores.log_softmax(-1).gather(1, actions[:, None]).flatten()

    def _predict(self, observation: object, deterministic: bool = False) -> torch.Tensor:
        return self.forward(observation, deterministic)[0]

    @torch.no_grad()
    def take_mean(self) -> None:
        """Let the actor's last layer be the mean of the posterior."""
        head: Any = self.action_net
        mean = self.posterior.mean.to(head.weight)
        head.weight.copy_(mean[:, :-1])
        head.bias.copy_(mean[:, -1])


class ThompsonSampling(OwnAlgorithm):
    """Rounds of drawn windows; the network learns to predict rewards, in their deviations."""

    options_kind = ThompsonOptions
    options: ThompsonOptions
    policy_kind = ThompsonPolicy
    policy: ThompsonPolicy
    steps: Steps

    def make_policy(self, options: Mapping[str, object]) -> MultiInputActorCriticPolicy:
        """The networks, with the posterior that the options begin at."""
        return super().make_policy({**options, "prior_precision": self.options.prior_precision})

    @property
    def gamma(self) -> float:
        """None: later bars do not count."""
        return 0.0

    def collect(self, callback: BaseCallback) -> bool:
        """Choose drawn windows for a round."""
        steps = self.play(callback)
        if steps is not None:
            self.steps = steps
        return steps is not None

    def update(self) -> None:
        """Fit the network to the rewards of this round, then the posterior to its new features."""
        rows, deviation = self.steps.rows(), self.steps.rewards.double().std(correction=0)
        if deviation > SMALLEST_DEVIATION:
            self.policy.posterior.deviation.copy_(deviation)
        for _ in range(self.options.n_epochs):
            for places in self.minibatches(len(rows.rewards), self.options.batch_size):
                error, value_error = self._losses(rows.at(places))
                self.descend(error + self.options.vf_coef * value_error)
        self._fit_posterior(rows)
        self._n_updates += self.options.n_epochs
        self.logger.record("train/prediction_loss", float(error.detach()))
        self.logger.record("train/value_loss", float(value_error.detach()))

    def _losses(self, rows: Steps) -> tuple[torch.Tensor, torch.Tensor]:
        """Squared errors of the chosen windows' rewards, and of the value, both in deviations."""
        features, values = self.policy.basis(rows.observation)
        rewards = rows.rewards / self.policy.posterior.deviation.to(rows.rewards)
        scores = self.policy.action_net(features[:, :-1]).gather(1, rows.actions[:, None]).flatten()
        return functional.mse_loss(scores, rewards), functional.mse_loss(values, rewards)

    @torch.no_grad()
    def _fit_posterior(self, rows: Steps) -> None:
        features, _ = self.policy.basis(rows.observation)
        rewards = rows.rewards / self.policy.posterior.deviation.to(rows.rewards)
        self.policy.posterior.update(features, rows.actions, rewards, self.options.forgetting)
        self.policy.take_mean()
