"""Curiosity (Pathak et al. 2017, ICM): the intrinsic reward is the error of a model that predicts what an action does.

An encoder of its own turns what the agents see into 128 features. The inverse model predicts the action from the
features before and after it, and is what shapes them: they keep what actions change. The forward model predicts the
features after the action from those before; its error, standardised and cut, is the intrinsic reward.

The state is the agents' own encoding, taken as given, so that no window is gathered twice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  (torch's own custom)

from pacesetter.errors import ConfigError, check_range
from pacesetter.learning.experience.transitions import Transitions
from pacesetter.learning.extras.extra import ROLLOUT_ROWS, Extra, Surroundings

__all__ = ["Curiosity", "CuriosityConfig", "CuriosityGates", "make_curiosity"]

LARGEST = 5.0  # deviations of an intrinsic reward
FEATURES = 128
DROPOUT = 0.1
RATE, FIRST_UPDATES = 0.01, 10  # of the moving average of errors, and updates before it standardises anything
# Of a rollout for one update of the average: as one update alone it would pay nothing for its first ten rounds.
UPDATE_ROWS = 512
ENDS = 10  # of the updates at the start and at the end are compared by the gates
LEAST_VARIATION = 0.3
LARGEST_GRADIENT = 10.0  # norm, before it is cut, that a gate allows


@dataclass(frozen=True)
class CuriosityConfig:
    """Options of curiosity.

    share          of the intrinsic reward in the sum; the rest is the market's
    eta            size of an intrinsic reward of one deviation. The programme's 0.01 times a share of 0.1 is a
                   thousandth of a deviation, which no learner notices: 1 makes the share mean what it says
    beta           of the forward loss in (1 − β)·inverse + β·forward
    warmup_steps   environment steps of each symbol before it counts; the models learn from the first
    model          icm; features: the agents' own features in place of an encoder; counts: 1/√N of the account's
                   state (`counts.py`), which no network has to learn
    batch_rows     most rows of one step of the models; more cost more than they teach
    replay_every   draws of a replay for one step of the models. A replay gives most rows many times, and the models
                   are wider than small agents: learning from every draw took most of a step's time
    rollout_rows   of a rollout for one step of the models: where rewards are rare and states must be found, as few as
                   512, since what was visited often must soon be predicted
    reward_every   rows of a draw for one intrinsic reward, which then counts as many times: the same on average. Its
                   noise is small beside the market's, and the models predict for a fourth of the rows
    hidden         width of the models' hidden layers; 256 (others: 128) where null
    learning_rate  1e-4 by AdamW (others: 1e-3 by Adam) where null
    """

    share: float = 0.1
    eta: float = 1.0
    beta: float = 0.2
    warmup_steps: int = 1_000
    model: Literal["icm", "features", "counts"] = "icm"
    hidden: int | None = None
    learning_rate: float | None = None
    batch_rows: int = 512
    replay_every: int = 8
    reward_every: int = 4
    rollout_rows: int = ROLLOUT_ROWS
    weight_decay: float = 1e-5
    max_grad_norm: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.share < 1:
            raise ConfigError(f"agent.extras.curiosity.share={self.share} must be 0 or more and below 1")
        check_range(0, 1, owner="agent.extras.curiosity", beta=self.beta)
        check_range(0, owner="agent.extras.curiosity", eta=self.eta, warmup_steps=self.warmup_steps)
        is_icm = self.model == "icm"
        if self.hidden is None:
            object.__setattr__(self, "hidden", 256 if is_icm else 128)
        if self.learning_rate is None:
            object.__setattr__(self, "learning_rate", 1e-4 if is_icm else 1e-3)
        check_range(1, owner="agent.extras.curiosity", hidden=self.hidden, batch_rows=self.batch_rows)
        rows = {name: vars(self)[name] for name in ("replay_every", "reward_every", "rollout_rows")}
        check_range(1, owner="agent.extras.curiosity", **rows)


@dataclass(frozen=True)
class CuriosityGates:
    """Mean losses of the first and of the last updates, deviation / mean of the latest errors, and gradient norm."""

    forward: tuple[float, float]
    inverse: tuple[float, float]
    variation: float
    gradient: float = 0.0

    @property
    def passed(self) -> bool:
        """Whether both losses fell, errors differ enough to say where to look, and gradients stay small."""
        has_fallen = all(last < first for first, last in (self.forward, self.inverse))
        return has_fallen and self.variation > LEAST_VARIATION and self.gradient < LARGEST_GRADIENT

    def __str__(self) -> str:
        losses = {"forward": self.forward, "inverse": self.inverse}
        parts = [f"{name} loss {first:.3g} → {last:.3g}" for name, (first, last) in losses.items()]
        verdict = "passed" if self.passed else "failed"
        limits = f"variation {self.variation:.2f} (above {LEAST_VARIATION}), gradient {self.gradient:.2g} (below 10)"
        return f"curiosity: {', '.join(parts)}, {limits}: {verdict}"


class MovingErrors(nn.Module):
    """Exponential moving mean and variance of errors; the first updates count equally."""

    count: torch.Tensor
    mean: torch.Tensor
    square: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        for name in ("count", "mean", "square"):
            self.register_buffer(name, torch.zeros((), dtype=torch.float64))

    def observe(self, errors: torch.Tensor) -> None:
        """Take (row,) errors in as one update."""
        self.count.add_(1)
        # The plain mean at first: with the small rate alone the start at 0 would bias a hundred updates.
        rate = torch.clamp(1 / self.count, min=RATE)
        self.mean.lerp_(errors.mean(), rate)
        self.square.lerp_(errors.square().mean(), rate)

    def observe_rollout(self, errors: torch.Tensor) -> None:
        """Take the (row,) errors of a rollout in, as an update for every 512 of them."""
        for part in torch.split(errors, UPDATE_ROWS):
            self.observe(part)

    def standardise(self, errors: torch.Tensor) -> torch.Tensor:
        """(row,) errors in deviations, cut to ±5; 0 during the first updates, which know no deviation."""
        # E[x²] − E[x]² may round below 0; the second bound keeps equal errors from being divided by 0.
        deviation = (self.square - self.mean.square()).clamp(min=0).sqrt().clamp(min=1e-8)
        scaled = ((errors - self.mean) / deviation).clamp(-LARGEST, LARGEST)
        return torch.where(self.count >= FIRST_UPDATES, scaled, 0.0)


class UpdateLog:
    """(2,) losses of the first and of the latest updates."""

    def __init__(self) -> None:
        self.first: list[torch.Tensor] = []
        self.last: list[torch.Tensor] = []

    def __len__(self) -> int:
        return len(self.first)

    def add(self, losses: torch.Tensor) -> None:
        """Keep the losses of one update."""
        if len(self.first) < ENDS:
            self.first.append(losses)
        self.last = [*self.last[1 - ENDS :], losses]

    def state_dict(self) -> dict[str, Any]:
        """Both ends, (update, 2)."""
        return {name: torch.stack(rows) if rows else None for name, rows in vars(self).items()}

    def load_state_dict(self, stored: Mapping[str, Any]) -> None:
        """Continue from what `state_dict` gave."""
        for name in ("first", "last"):
            setattr(self, name, [] if stored[name] is None else list(stored[name]))


class Curiosity(Extra):
    """The three models over states (row, width); actions are discrete (row,), or (row, size) when `actions` is None."""

    declared = ("optimiser", "log", "shown")

    def __init__(self, width: int, actions: int | None, config: CuriosityConfig, size: int = 1) -> None:
        self.actions, self.config, self.rollout_rows = actions, config, config.rollout_rows
        hidden, outputs = config.hidden or 256, actions or size
        self.encoder = nn.Sequential(
            nn.Linear(width, hidden),
            nn.LayerNorm(hidden),
            nn.ReLU(),
            nn.Linear(hidden, FEATURES),
            nn.LayerNorm(FEATURES),
        )
        self.forward_model = _layers(FEATURES + outputs, hidden, hidden, FEATURES)
        self.inverse_model = _layers(2 * FEATURES, hidden, outputs)
        self.errors = MovingErrors()
        networks = {"forward_model": self.forward_model, "inverse_model": self.inverse_model}
        self.own = nn.ModuleDict({"encoder": self.encoder, **networks, "errors": self.errors})
        self.optimiser: torch.optim.Optimizer = torch.optim.AdamW(
            self.own.parameters(), config.learning_rate or 1e-4, weight_decay=config.weight_decay
        )
        self.log = UpdateLog()
        self.variation = torch.tensor(torch.nan)
        self.shown: dict[str, torch.Tensor] = {}

    # ---- as an extra ----------------------------------------------------------------------------------------------

    def reward(self, batch: Transitions, features: torch.Tensor, following: torch.Tensor, steps: int) -> torch.Tensor:
        """The market's rewards with the intrinsic ones; during the warm-up the market's alone."""
        assert batch.rewards is not None
        intrinsic = self.intrinsic(features, batch.actions, following)
        return self._mix_rewards(batch.rewards, self._mask_ends(batch, intrinsic), steps)

    def reward_rollout(
        self, batch: Transitions, features: torch.Tensor, following: torch.Tensor, steps: int
    ) -> torch.Tensor:
        """The same for the rows of a rollout, whose features are (step, env, width).

        The state after a step is the one before the next, and is encoded once for both.
        """
        assert batch.rewards is not None
        encoded = self._encode_states(torch.cat([features, following.view_as(features)[-1:]]))
        before, after = (part.flatten(0, 1) for part in (encoded[:-1], encoded[1:]))
        intrinsic = self._surprise(before, batch.actions, after, self.errors.observe_rollout)
        return self._mix_rewards(batch.rewards, self._mask_ends(batch, intrinsic), steps)

    def reward_drawn(
        self, batch: Transitions, features: torch.Tensor, following: torch.Tensor, steps: int
    ) -> torch.Tensor:
        """The same for rows of a replay: one in `reward_every` has its intrinsic reward, times as many."""
        assert batch.rewards is not None
        # Rows of a symbol are side by side, drawn at random: every n-th is a random part of each symbol's.
        rows, count = slice(None, None, self.config.reward_every), self.config.reward_every
        intrinsic = torch.zeros_like(batch.rewards)
        intrinsic[rows] = count * self.intrinsic(features[rows], batch.actions[rows], following[rows])
        return self._mix_rewards(batch.rewards, intrinsic, steps)

    def _mask_ends(self, batch: Transitions, intrinsic: torch.Tensor) -> torch.Tensor:
        """Rewards but behind the end of an episode: there stands the first bar of another, which no action led to."""
        return intrinsic if batch.follows is None else torch.where(batch.follows, intrinsic, 0.0)

    def _mix_rewards(self, rewards: torch.Tensor, intrinsic: torch.Tensor, steps: int) -> torch.Tensor:
        """The mix of both, and a note of the intrinsic part for the log."""
        market, own = ((part * weight).abs().mean() for part, weight in self._parts(rewards, intrinsic))
        self.shown |= {
            "icm/intrinsic_reward_mean": intrinsic.mean(),
            "icm/share": own / (own + market).clamp(min=1e-12),
        }
        return self.mix(rewards, intrinsic, steps)

    def learn(self, batch: Transitions, features: torch.Tensor, following: torch.Tensor) -> None:
        """One step of all models on rows spread evenly over a batch."""
        # Not the first ones: a replay gives the rows of a symbol side by side, and the last symbols would be left out.
        rows = slice(None, None, math.ceil(len(features) / self.config.batch_rows))
        self.fit(features[rows], batch.actions[rows], following[rows])

    def learns_from_draw(self) -> bool:
        """Whether the models learn from the rows drawn last; errors were counted once for each draw."""
        return int(self.errors.count) % self.config.replay_every == 0

    def figures_to_log(self) -> Mapping[str, torch.Tensor]:
        """What the latest update and the latest rewards came to, under their fixed names."""
        return self.shown

    # ---- its models -----------------------------------------------------------------------------------------------

    def mix(self, rewards: torch.Tensor, intrinsic: torch.Tensor, steps: int) -> torch.Tensor:
        """(1 − share)·reward + share·intrinsic from `warmup_steps` on."""
        if steps < self.config.warmup_steps:
            return rewards
        (market, weight), (own, share) = self._parts(rewards, intrinsic)
        return weight * market + share * own

    def _parts(self, rewards: torch.Tensor, intrinsic: torch.Tensor) -> tuple[tuple[torch.Tensor, float], ...]:
        return (rewards, 1 - self.config.share), (intrinsic, self.config.share)

    @torch.no_grad()
    def intrinsic(self, states: torch.Tensor, actions: torch.Tensor, following: torch.Tensor) -> torch.Tensor:
        """(row,) forward errors in deviations of the latest ones, cut to ±5, then times η."""
        return self._surprise(self._encode_states(states), actions, self._encode_states(following), self.errors.observe)

    @torch.no_grad()
    def _encode_states(self, states: torch.Tensor) -> torch.Tensor:
        # Without dropout: its noise would be paid as if it were novelty.
        self.own.eval()
        features: torch.Tensor = self.encoder(states)
        return features

    @torch.no_grad()
    def _surprise(
        self,
        before: torch.Tensor,
        actions: torch.Tensor,
        after: torch.Tensor,
        observe: Callable[[torch.Tensor], None],
    ) -> torch.Tensor:
        """`intrinsic` of encoded states (row, feature)."""
        errors = self.prediction_errors(before, actions, after)
        # Counted before they are standardised: an outlier is measured by a deviation that knows it.
        observe(errors.double())
        # Errors that are all alike say nothing of where to look: a gate asks for some variation.
        self.variation = errors.std() / errors.mean()
        return (self.config.eta * self.errors.standardise(errors)).to(before.dtype)

    @torch.enable_grad()
    def fit(self, states: torch.Tensor, actions: torch.Tensor, following: torch.Tensor) -> None:
        """One step of all models on (row, width) states, which are taken as given."""
        self.own.train()
        # Detached: curiosity must not shape the agents' encoder, which would make its own reward easy or hard.
        forward, inverse = self.model_losses(states.detach(), actions, following.detach())
        self.optimiser.zero_grad()
        ((1 - self.config.beta) * inverse + self.config.beta * forward).backward()  # type: ignore[no-untyped-call]
        norm = nn.utils.clip_grad_norm_(self.own.parameters(), self.config.max_grad_norm)
        self.optimiser.step()
        self.log.add(torch.stack([forward, inverse]).detach())
        losses = {"icm/forward_loss": forward.detach(), "icm/inverse_loss": inverse.detach()}
        self.shown |= losses | {"icm/gradient_norm": norm.detach()}

    def model_losses(
        self, states: torch.Tensor, actions: torch.Tensor, following: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Forward and inverse loss; the forward one takes features as given, so that only the inverse shapes them."""
        before, after = self.encoder(states), self.encoder(following)
        predicted = self.inverse_model(torch.cat([before, after], dim=-1))
        wanted = actions.long() if self.actions else actions.to(predicted.dtype).view_as(predicted)
        inverse = F.cross_entropy(predicted, wanted) if self.actions else F.mse_loss(predicted, wanted)
        # Without detach the encoder could make the forward model right by mapping every state to one point.
        return self.prediction_errors(before.detach(), actions, after.detach()).mean(), inverse

    def prediction_errors(self, before: torch.Tensor, actions: torch.Tensor, after: torch.Tensor) -> torch.Tensor:
        """(row,) half the mean squared error of the forward model on features (row, 128)."""
        if self.actions:
            chosen = F.one_hot(actions.long(), self.actions).to(before.dtype)
        else:
            chosen = actions.to(before.dtype).view(len(before), -1)
        predicted: torch.Tensor = self.forward_model(torch.cat([before, chosen], dim=-1))
        # ½·‖φ̂ − φ‖² (Pathak et al. 2017, eq. 5), as a mean over features so that it does not grow with their number.
        return 0.5 * (predicted - after).square().mean(-1)

    def gates(self) -> CuriosityGates:
        """The gates so far; refuses before any update."""
        if not len(self.log):
            raise ConfigError("curiosity is not trained yet; ask for its gates after a round")
        first, last = (torch.stack(rows).mean(0).tolist() for rows in (self.log.first, self.log.last))
        gradient = float(self.shown.get("icm/gradient_norm", torch.tensor(0.0)))
        return CuriosityGates((first[0], last[0]), (first[1], last[1]), float(self.variation), gradient)


def make_curiosity(around: Surroundings, config: CuriosityConfig) -> object:
    """Curiosity by the model that the options name."""
    if config.model == "features":
        from pacesetter.learning.extras.feature_curiosity import FeatureCuriosity

        return FeatureCuriosity(around.width, around.actions, config)
    if config.model == "counts":
        from pacesetter.learning.extras.counts import Counts

        return Counts(around, config)
    return Curiosity(around.width, around.actions, config, around.size)


def _layers(inputs: int, *widths: int) -> nn.Sequential:
    """Linear layers with rectifiers and dropout between them."""
    sizes = (inputs, *widths)
    parts: list[nn.Module] = [nn.Linear(sizes[0], sizes[1])]
    for before, after in pairwise(sizes[1:]):
        parts += [nn.ReLU(), nn.Dropout(DROPOUT), nn.Linear(before, after)]
    return nn.Sequential(*parts)
