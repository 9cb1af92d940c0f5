"""Potential-based shaping (Ng, Harada, Russell 1999): F = γ·w'·Φ'(s') − w·Φ(s), which changes no optimal policy.

Φ is learned, as a value of returns to go, or named: made of features that a trader would call promising. Φ and its
weight change over time; then the invariance needs potentials by time (Devlin, Kudenko 2012): what a step adds for s' is
what the next step takes away for it. So w·Φ of the latest observation is kept from step to step, and stored by row.
Φ of a terminal state is 0, and a truncated episode keeps γ·w'·Φ'(s'), unless Φ is what is earned and paid by then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  (torch's own custom)

from pacesetter.agents.layout import Tensors
from pacesetter.envs.batch.account_entries import PortfolioEntry, PositionEntry
from pacesetter.envs.batch.bank import Bank
from pacesetter.envs.batch.batch import Batch
from pacesetter.errors import ConfigError, check_range, did_you_mean
from pacesetter.learning.equations import shaping
from pacesetter.learning.experience.transitions import Transitions
from pacesetter.learning.extras.extra import ROLLOUT_ROWS, Extra, Surroundings

__all__ = ["NAMED", "Potential", "PotentialConfig"]

LEARNED, EARNED = "learned", "earned"
MONEY = ("pnl", "mean_variance")  # reward components in log growth
HEADS = ("profit", "risk", "timing")  # of the learned potential, for the log
STEP = 0.01  # by which the weight moves in a round
LOW_ENTROPY, HIGH_SHARPE = 0.3, 1.0
DROPOUT = 0.1
RUINED = 1e-3  # least equity ratio, as the reward pnl has it


@dataclass(frozen=True)
class PotentialConfig:
    """Options of the potential.

    kind           learned, or a named one: support, resistance, trend, holding, unrealised, earned
    weight         w at the start; below 0 it turns Φ around: what it calls promising is to be left
    adaptive       w rises by 0.01 a round, up to 1, while the action entropy is below 0.3, and falls by 0.01, down to
                   0, while the Sharpe ratio is above 1; of each symbol
    warmup_steps   environment steps of each symbol before it adapts
    rollout_rows   of a rollout for one step of the learned Φ
    """

    kind: str = LEARNED
    weight: float = 0.1
    adaptive: bool = True
    warmup_steps: int = 5_000
    learning_rate: float = 1e-4
    max_grad_norm: float = 1.0
    rollout_rows: int = ROLLOUT_ROWS

    def __post_init__(self) -> None:
        if self.kind not in (LEARNED, *NAMED):
            known = did_you_mean(self.kind, [LEARNED, *NAMED])
            raise ConfigError(f"agent.extras.potential.kind='{self.kind}' is unknown{known}")
        check_range(-1, 1, owner="agent.extras.potential", weight=self.weight)
        if self.adaptive and self.weight < 0:
            raise ConfigError(
                f"agent.extras.potential.weight={self.weight} cannot adapt, which is from 0 to 1; give "
                "adaptive=false, or a weight of 0 or more"
            )
        check_range(0, owner="agent.extras.potential", warmup_steps=self.warmup_steps)
        check_range(1, owner="agent.extras.potential", rollout_rows=self.rollout_rows)


# ---- named potentials -----------------------------------------------------------------------------------------------


def support(bars: Tensors, account: Tensors) -> torch.Tensor:
    """Near the lowest of recent bars, where a fall often ends: 1 at the lower Bollinger edge, 0 above the middle."""
    return (-bars["bollinger_position"]).clamp(0, 1)


def resistance(bars: Tensors, account: Tensors) -> torch.Tensor:
    """The same at the upper edge, where a rise often ends: −1 there, 0 below it."""
    return -bars["bollinger_position"].clamp(0, 1)


def trend(bars: Tensors, account: Tensors) -> torch.Tensor:
    """Trend times side: positive where the position goes with the move."""
    return bars["regime_trend_fit"] * account["position"][:, PositionEntry.WEIGHT].sign()


def holding(bars: Tensors, account: Tensors) -> torch.Tensor:
    """−log(1 + bars held)."""
    return -torch.log1p(account["position"][:, PositionEntry.BARS_HELD])


def unrealised(bars: Tensors, account: Tensors) -> torch.Tensor:
    """Return of the open position, in per cent."""
    # As a share it would be a hundredth of the other potentials, and one weight serves all.
    return 100 * account["position"][:, PositionEntry.UNREALISED_RETURN]


def earned(bars: Tensors, account: Tensors) -> torch.Tensor:
    """Log growth of equity since the episode began, to be weighed as the reward weighs it: what the end will pay."""
    return account["portfolio"][:, PortfolioEntry.EQUITY_RATIO].clamp(min=RUINED).log()


# (newest values of the features that it reads, full observation) -> (row,)
Named = Callable[[Tensors, Tensors], torch.Tensor]
NAMED: dict[str, tuple[Named, tuple[str, ...]]] = {  # name -> function of (row, …), and the features that it reads
    "support": (support, ("bollinger_position",)),
    "resistance": (resistance, ("bollinger_position",)),
    "trend": (trend, ("regime_trend_fit",)),
    "holding": (holding, ()),
    "unrealised": (unrealised, ()),
    EARNED: (earned, ()),
}


def money_weight(batch: Batch | None) -> float:
    """The weight of log growth in the reward; refuses one without it, or whose weight is scheduled."""
    terms = {} if batch is None else batch.reward.components
    weights = [terms[name].weight for name in MONEY if name in terms]
    is_paid_late = batch is not None and batch.reward.paid == "episode"
    if not is_paid_late or len(weights) != 1 or not isinstance(weights[0], int | float):
        raise ConfigError(
            "agent.extras.potential.kind=earned is of money that the end of an episode pays; give "
            "task.reward.paid=episode with a number as the weight of pnl, or take another kind"
        )
    return float(weights[0])


class LearnedPotential(nn.Module):
    """(row, width) features → (row, 3) profit, risk and timing, whose sum is Φ."""

    def __init__(self, width: int) -> None:
        super().__init__()
        first = (nn.Linear(width, 256), nn.LayerNorm(256), nn.ReLU(), nn.Dropout(DROPOUT))
        self.layers = nn.Sequential(
            *first, nn.Linear(256, 128), nn.LayerNorm(128), nn.ReLU(), nn.Linear(128, len(HEADS))
        )

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return self.layers(features)  # type: ignore[no-any-return]


class Potential(Extra):
    """The shaping of one method's rewards."""

    belongs_to_collection = True
    declared = ("optimiser", "weight", "kept", "shown")

    def __init__(self, around: Surroundings, config: PotentialConfig) -> None:
        self.around, self.config, self.rollout_rows = around, config, config.rollout_rows
        self.own, self.optimiser = nn.ModuleDict(), NoOptimiser()
        if config.kind == LEARNED:
            # The random stream of the method is the same with shaping and without.
            with torch.random.fork_rng(devices=[]):
                self.own["potential"] = LearnedPotential(around.width)
            self.own.to(around.device)
            self.optimiser = torch.optim.AdamW(self.own.parameters(), config.learning_rate)
        else:
            self._check_features(NAMED[config.kind][1])
        self.is_in_money = config.kind == EARNED
        self.scale = money_weight(around.batch) if self.is_in_money else 1.0
        self.weight = torch.full((around.symbols,), float(config.weight), device=around.device)
        # (env,) w·Φ of the latest observations, as the last step added it; NaN where an episode begins
        self.kept = torch.full((around.env_count,), torch.nan, device=around.device)
        self.shown: dict[str, torch.Tensor] = {}

    optimiser: Any

    def _check_features(self, needed: tuple[str, ...]) -> None:
        names = _names(self.around.batch.bank) if self.around.batch is not None else {}
        lacking = [name for name in needed if name not in names]
        if self.around.batch is None or lacking:
            what = f"the feature {lacking[0]}, which the table lacks" if lacking else "a task that trades"
            raise ConfigError(f"agent.extras.potential.kind={self.config.kind} needs {what}; add it to features.names")

    # ---- Φ --------------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def potentials(self, observation: Tensors, features: torch.Tensor) -> torch.Tensor:
        """(row,) Φ of compact observations, whose features these are."""
        if self.config.kind == LEARNED:
            self.own.eval()
            parts: torch.Tensor = self.own["potential"](features)
            self.shown |= {f"potential/{head}": part.mean() for head, part in zip(HEADS, parts.T, strict=True)}
            return parts.sum(1)
        function, needed = NAMED[self.config.kind]
        full = self.around.complete(observation)
        bars = {name: _newest_value(full, *self._place(name)) for name in needed}
        account = {name: full[name].float() for name in ("position", "portfolio") if name in full}
        return self.scale * function(bars, account)

    def _place(self, name: str) -> tuple[str, int]:
        assert self.around.batch is not None
        return _names(self.around.batch.bank)[name]

    # ---- as an extra ----------------------------------------------------------------------------------------------

    @torch.no_grad()
    def shape_rewards(self, batch: Transitions, features: torch.Tensor, following: torch.Tensor) -> torch.Tensor:
        """(row,) F of one or more steps of all environments, rows in the order of time.

        What the step before added for a state is what the next one takes away for it, though w and Φ have changed.
        """
        assert batch.following is not None
        assert batch.terminated is not None
        # Weights are by agent of the fleet, rows by symbol of the market, which may be some of them.
        weight = self.weight[batch.symbol if self.around.places is None else self.around.places[batch.symbol]]
        # (step, env): rows come in the order of time, all environments of a step side by side.
        before = (weight * self.potentials(batch.observation, features)).view(-1, self.around.env_count)
        after = (weight * self.potentials(batch.following, following)).view_as(before)
        has_ended = torch.zeros_like(before, dtype=torch.bool) if batch.follows is None else ~batch.follows
        has_ended = has_ended.view_as(before)
        if self.is_in_money:
            # What was earned is paid at the end, whatever ends the episode, and nothing is owed behind it.
            after = torch.where(has_ended, 0.0, after)
        # The first row takes what the last call added for the same state, though w and Φ have moved since: the sum of F
        # over an episode telescopes only if the same number is taken away (Devlin, Kudenko 2012).
        before = torch.cat([torch.where(torch.isnan(self.kept), before[0], self.kept)[None], before[1:]])
        added = shaping(before, after, batch.terminated.view_as(before), self.around.gamma)
        # NaN marks a fresh episode: there is nothing earlier to be taken away.
        self.kept = torch.where(has_ended[-1], torch.nan, after[-1])
        self.shown |= {"potential/shaping_mean": added.mean(), "potential/weight": self.weight.mean()}
        return added.flatten()

    def reward(self, batch: Transitions, features: torch.Tensor, following: torch.Tensor, steps: int) -> torch.Tensor:
        """The batch's rewards with F, which rows of a replay hold since they were collected."""
        assert batch.rewards is not None
        added = self.shape_rewards(batch, features, following) if batch.shaping is None else batch.shaping
        return batch.rewards + added

    def learn(self, batch: Transitions, features: torch.Tensor, following: torch.Tensor) -> None:
        """One step of the learned Φ: to returns to go where they are known, else to r + γ·Φ(s')."""
        if self.config.kind != LEARNED or batch.rewards is None:
            return
        wanted = batch.targets
        if wanted is None:
            ends = torch.zeros_like(batch.rewards, dtype=torch.bool) if batch.terminated is None else batch.terminated
            # A replay holds no returns to go: one step of TD(0) with Φ itself.
            after = self.potentials({}, following)
            wanted = batch.rewards + self.around.gamma * torch.where(ends, 0.0, after)
        self.fit(features, wanted)

    @torch.enable_grad()
    def fit(self, features: torch.Tensor, returns: torch.Tensor) -> None:
        """One step of Φ towards (row,) returns to go of (row, width) features, which are taken as given."""
        self.own.train()
        predicted = self.own["potential"](features.detach()).sum(1)
        loss = F.mse_loss(predicted, returns.detach().to(predicted.dtype))
        self.optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self.own.parameters(), self.config.max_grad_norm)
        self.optimiser.step()
        self.shown["potential/loss"] = loss.detach()

    # ---- the weight -----------------------------------------------------------------------------------------------

    def round_ended(self, figures: Mapping[str, torch.Tensor], steps: int) -> None:
        """Let the weight follow what the round came to: `action_mix` (symbol, action) and `sharpe` (symbol,)."""
        if not self.config.adaptive or steps < self.config.warmup_steps:
            return
        # 0·log 0 is 0 in the limit and NaN in floating point.
        mix = figures["action_mix"].clamp(min=1e-12)
        entropy = -(mix * mix.log()).sum(1)
        places = slice(None) if self.around.places is None else self.around.places
        self.weight[places] = adapt(self.weight[places], entropy, figures["sharpe"])

    def figures_to_log(self) -> Mapping[str, torch.Tensor]:
        """Loss, weight and heads."""
        return self.shown


def adapt(weight: torch.Tensor, entropy: torch.Tensor, sharpe: torch.Tensor) -> torch.Tensor:
    """(symbol,) the weight of the next round: up where orders are too alike, down where it earns already."""
    rise, fall = STEP * (entropy < LOW_ENTROPY), STEP * (sharpe > HIGH_SHARPE)
    return (weight + rise - fall).clamp(0.0, 1.0)


class NoOptimiser:
    """In place of one where there is nothing to optimise; the trainer then leaves the extra to itself."""

    def state_dict(self) -> dict[str, Any]:
        """Nothing."""
        return {}

    def load_state_dict(self, stored: Mapping[str, object]) -> None:
        """Nothing."""


def _names(bank: Bank) -> dict[str, tuple[str, int]]:
    """Feature -> the observation's entry that holds it, and its place there."""
    return {name: (entry, place) for entry, names in bank.names.items() for place, name in enumerate(names)}


def _newest_value(full: Tensors, entry: str, place: int) -> torch.Tensor:
    values = full[entry]
    return values[:, -1, place] if entry == "window" else values[:, place]
