"""`agent=meta`: PPO whose policy reads a context of its own recent transitions, on tasks of a family of markets.

RL² (Duan et al. 2016; Wang et al. 2016) with the latest `context_bars` transitions instead of a state that is carried
through an episode: rows can then be drawn one by one, and what is kept is the same in training and in service. With
`context=pearl` the context is a latent task with a posterior (Rakelly et al. 2019), drawn once an episode while it
learns, and its mean when it is used. Only the encoder is PEARL's: the policy learns by PPO, from its own episodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

import torch

from pacesetter.agents.encoders import network
from pacesetter.errors import ConfigError, check_range
from pacesetter.learning.experience.conditioned import SymbolMarket
from pacesetter.learning.experience.market import FleetMarket
from pacesetter.learning.experience.rollout import Rollout
from pacesetter.learning.experience.transitions import Transitions
from pacesetter.learning.fleet.expected import ExpectedPPO
from pacesetter.learning.fleet.making import hidden_width, make_learner, own_options, return_place
from pacesetter.learning.fleet.method import Acting, Losses
from pacesetter.learning.fleet.ppo import PPO, FleetPPO
from pacesetter.learning.fleet.trainer import FleetTrainer
from pacesetter.learning.methods import Setup
from pacesetter.methods.meta.agents import ContextFleet
from pacesetter.methods.meta.context import kl_to_prior
from pacesetter.methods.meta.market import ContextMarket
from pacesetter.registry import configure

__all__ = ["ContextPPO", "ExpectedContextPPO", "FleetMeta", "make_meta"]

OWN_REGIMES = "own"  # the family of a market whose regimes are its own


@dataclass(frozen=True)
class FleetMeta(FleetPPO):
    """Options of meta-learning, beside those of PPO."""

    context: Annotated[
        Literal["gru", "attention", "pearl", "sums", "off"],
        "gru, attention, pearl, sums, or off: PPO on the same tasks",
    ] = "gru"
    context_bars: Annotated[int, "transitions that it reads"] = 16
    context_width: Annotated[int, "of its answer"] = 32
    latent: Annotated[int, "numbers of a latent task, of pearl"] = 8
    kl_coef: Annotated[float, "weight of its divergence from the prior"] = 1e-3
    warmup_steps: Annotated[int, "over which the context comes in, from not at all to wholly"] = 4_096
    family: Annotated[
        str,
        "of markets beside the training bars, see `methods.meta.families`; own: the training bars alone",
    ] = OWN_REGIMES
    tasks: Annotated[int, "how many markets of the family"] = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(1, owner="agent", context_bars=self.context_bars, context_width=self.context_width)
        check_range(1, owner="agent", latent=self.latent)
        check_range(0, owner="agent", kl_coef=self.kl_coef, warmup_steps=self.warmup_steps)
        if self.family != OWN_REGIMES and self.tasks < 2:
            raise ConfigError(
                f"agent.tasks={self.tasks}: one task has nothing to tell apart; give 2 or more, or agent.family="
                f"{OWN_REGIMES}, whose tasks are the market's own regimes"
            )


class ContextPPO(PPO[ContextFleet, SymbolMarket]):
    """PPO in a `ContextMarket`, whose observations hold what the agent has kept."""

    config: FleetMeta
    is_recordable = False

    def collect(self, acting: Acting) -> Rollout:
        if self.config.warmup_steps:
            self.fleet.encoder.gate.fill_(min(acting.steps / self.config.warmup_steps, 1.0))
        return super().collect(acting)

    def losses(self, batch: Transitions, features: torch.Tensor, acting: Acting) -> Losses:
        losses = super().losses(batch, features, acting)
        if self.config.context != "pearl":
            return losses
        encoder = self.fleet.encoder
        posterior = encoder.context.posterior(*encoder.tokens(self.market.tables(batch.observation)))
        divergence = self.per_symbol(kl_to_prior(*posterior)).mean(1)
        terms = {**losses.terms, "latent": self.config.kl_coef * divergence}
        return losses._replace(terms=terms, metrics={**losses.metrics, "latent": divergence.detach()})

    @torch.no_grad()
    def describe(self, experience: Rollout, metrics: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Figures of PPO, the length of contexts at the round's last bar, and of pearl the latent's divergence."""
        last = {name: entry[-1] for name, entry in experience.observation.items()}
        norms = self.fleet.encoder.contexts(self.market.tables(last)).norm(dim=-1)
        figures = super().describe(experience, metrics) | {"meta/context_norm": self.per_symbol(norms).mean(1)}
        return figures | ({"meta/latent_divergence": metrics["latent"].mean(0)} if "latent" in metrics else {})


class ExpectedContextPPO(ContextPPO, ExpectedPPO[ContextFleet]):
    """The same with advantages of every discrete order: what would be kept after each of them is known too."""


def make_meta(setup: Setup) -> FleetTrainer:
    """The trainer of a fleet with a context in the training market; refuses a context longer than an episode."""
    config = configure(FleetMeta, own_options(setup), "agent")
    is_expected = config.advantages == "expected"
    if config.context == "off":
        return make_learner(ExpectedPPO if is_expected else PPO, FleetMeta, setup)
    market = setup.train
    assert isinstance(market, FleetMarket)
    episode_bars = market.batch.episode_bars
    if episode_bars is not None and config.context_bars >= episode_bars:
        raise ConfigError(
            f"agent.context_bars={config.context_bars} is never filled in episodes of task.episode_bars="
            f"{episode_bars}; give a shorter context or longer episodes"
        )
    fleet = _make_fleet(setup, market, config)
    noise_size = int(fleet.encoder.context.noise_size)
    method = ExpectedContextPPO if is_expected else ContextPPO
    return FleetTrainer(method(fleet, ContextMarket(market, fleet.bar_memory, noise_size), config))


def _make_fleet(setup: Setup, market: FleetMarket, config: FleetMeta) -> ContextFleet:
    """The untrained fleet of the options `network`, `network_options` and `heads`."""
    options = setup.options
    sizes = dict(setup.network) | dict(options.get("network_options") or {})
    encoder, hidden = network(options.get("network", "mlp"), **sizes), hidden_width(options.get("heads", (128,)))
    torch.manual_seed(setup.seed)
    return ContextFleet(
        encoder,
        market.shapes,
        market.symbols,
        market.actions,
        hidden,
        context=config.context,  # type: ignore[arg-type]
        bars=config.context_bars,
        width=config.context_width,
        latent=config.latent,
        column=return_place(market, setup.name),
        cap=float(market.batch.market.limits.position_cap_fraction),
    )
