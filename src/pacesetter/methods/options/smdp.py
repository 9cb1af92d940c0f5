"""Learning to select written options: values of options as semi-Markov decisions, and a selector that follows them.

An option that began in s, earned R = Σ γ^i·r_i in d bars and left in s' is one row:

    Q(s, o) → R + γ^d·max_o' Q'(s', o')          over the options that may begin in s', Q' the target values
    selector  ascends Σ_o π(o|s)·Q(s, o) + ent_coef · entropy, over those that may begin in s

Rows stay valid under any selector, since rules do not change: they are drawn from a replay.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import ClassVar

import torch

from pacesetter.agents.agent import ACTION_MASK
from pacesetter.agents.heads import MaskedCategorical
from pacesetter.learning.equations import soft_update
from pacesetter.learning.experience.market import FleetMarket
from pacesetter.learning.experience.transitions import Transitions
from pacesetter.learning.fleet.method import Acting, Losses
from pacesetter.methods.options.agents import OptionFleet
from pacesetter.methods.options.config import FleetOptions
from pacesetter.methods.options.equations import smdp_targets
from pacesetter.methods.options.method import OptionMethod, OptionStep, ending_or
from pacesetter.methods.options.replay import OptionReplay
from pacesetter.methods.options.rule_options import Situation, initiation

__all__ = ["WrittenOptions"]

START, FOLLOWING = "start.", "following."  # entries of the replay where an option began and where it left


class WrittenOptions(OptionMethod):
    """The selector of written options for all symbols of a market at once.

    running   (env, …) of the option in force: where it began, what it earned, how it is discounted now
    """

    declared: ClassVar[tuple[str, ...]] = ("memory", "equity", "running", "replay")

    def __init__(self, fleet: OptionFleet, market: FleetMarket, config: FleetOptions) -> None:
        super().__init__(fleet, market, config)
        self.epsilon = config.epsilon
        self.targets = copy.deepcopy(fleet.critic).requires_grad_(False)
        self.own["targets"] = self.targets
        self.running: dict[str, torch.Tensor] = {}
        self.replay = OptionReplay(config.buffer_size, self.symbols, self.device)

    # ---- experience -----------------------------------------------------------------------------------------------

    def collect(self, acting: Acting) -> list[OptionStep]:
        """Steps of all environments; options that are completed meanwhile go into the replay."""
        return [self.follow(self.step(acting)) for _ in range(self.config.n_steps)]

    @torch.no_grad()
    def follow(self, each: OptionStep) -> OptionStep:
        """Add up what the options in force earn, and keep those that left."""
        played, step, before = each.played, each.step, each.answer.before
        if self.running:  # at the first step of all nothing is running
            # The option before left in the state in which this one begins: stored first, then overwritten by `_begin`.
            left = played.began & (before.option >= 0)
            self._keep(left, each.observation, each.answer.open, self.running["discounts"])
        self._begin(each)
        # R = Σ γ^i·r_i: the reward of bar i is added with γ^i, then the discount moves on to γ^(i+1).
        self.running["rewards"] = self.running["rewards"] + self.running["discounts"] * step.rewards
        self.running["discounts"] = self.running["discounts"] * self.config.gamma
        if bool(each.ended.any()):
            final = ending_or(step)
            account = Situation.of(self.signals_at(final), final["position"])
            is_open = initiation(self.fleet.options.names, account, self.fleet.options.rules)
            # An episode cuts its option short; after a truncation its value continues from the final observation.
            self._keep(each.ended, final, is_open, torch.where(step.terminated, 0.0, self.running["discounts"]))
        return each

    def _begin(self, each: OptionStep) -> None:
        """Take down where options began."""
        began, played = each.played.began, each.played
        fresh = {START + name: entry for name, entry in each.observation.items()}
        fresh |= {"option": played.option, "open": each.answer.open}
        fresh |= {"rewards": torch.zeros_like(self.equity), "discounts": torch.ones_like(self.equity)}
        for name, entry in fresh.items():
            old = self.running.get(name, entry)
            self.running[name] = torch.where(began.view(-1, *[1] * (entry.ndim - 1)), entry, old)

    def _keep(
        self,
        is_over: torch.Tensor,
        following: Mapping[str, torch.Tensor],
        is_open: torch.Tensor,
        discounts: torch.Tensor,
    ) -> None:
        """Put the options that are over into the replay, with where they left and how that is discounted."""
        rest = {FOLLOWING + name: entry for name, entry in following.items()}
        self.replay.add(is_over, self.running | rest | {"discounts": discounts, "open_after": is_open})

    def batches(self, experience: list[OptionStep], acting: Acting) -> Iterator[Transitions]:
        """As many draws of completed options as there are gradient steps, none before learning starts."""
        if len(self.replay) >= self.config.learning_starts:
            for _ in range(self.config.gradient_steps):
                yield self.transitions(self.replay.sample(self.config.batch_size), acting)

    @torch.no_grad()
    def transitions(self, drawn: Mapping[str, torch.Tensor], acting: Acting) -> Transitions:
        """(symbol · n) completed options with their targets; the mask is of those that could begin."""
        rewards = self.scale(self.per_symbol(drawn["rewards"])).flatten()
        values = self.targets(acting.features(_part(drawn, FOLLOWING)), self.rows)  # (row, option) of s'
        targets = smdp_targets(rewards, drawn["discounts"], values, drawn["open_after"])
        before = _part(drawn, START) | {ACTION_MASK: drawn["open"]}
        return Transitions(self.by_row(len(rewards)), before, drawn["option"], rewards=rewards, targets=targets)

    # ---- learning -------------------------------------------------------------------------------------------------

    def losses(self, batch: Transitions, features: torch.Tensor, acting: Acting) -> Losses:
        """Values to their targets, and the selector up the values of what may begin."""
        assert batch.targets is not None
        values = self.fleet.critic(features, self.rows)
        selector = MaskedCategorical(self.fleet.actor(features, self.rows), batch.observation[ACTION_MASK])
        chosen = values.gather(-1, batch.actions[:, None]).squeeze(-1)
        value_loss = self.per_symbol((chosen - batch.targets).square()).mean(1)
        # Values held fixed: the selector follows them, and must not raise itself by raising them.
        gained = self.per_symbol((selector.probabilities * values.detach()).sum(-1)).mean(1)
        entropy = self.per_symbol(selector.entropy()).mean(1)
        terms = {"value": value_loss, "selector": -gained, "entropy": -self.config.ent_coef * entropy}
        metrics = {"value_loss": value_loss, "policy_loss": -gained}
        return Losses(terms, {name: part.detach() for name, part in metrics.items()})

    def after_step(self) -> None:
        """Let the target values follow."""
        soft_update(self.targets, self.fleet.critic, self.config.tau)

    def round_observations(self, experience: list[OptionStep], acting: Acting) -> Mapping[str, torch.Tensor]:
        return acting.observation


def _part(entries: Mapping[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    """The observation among the entries of a replay."""
    return {name.removeprefix(prefix): entry for name, entry in entries.items() if name.startswith(prefix)}
