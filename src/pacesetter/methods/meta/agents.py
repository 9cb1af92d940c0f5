"""A fleet whose policy is conditioned by a context: features of the observation, scaled and shifted by it (FiLM).

The context enters as f·(1 + γ(c)) + β(c) (Perez et al. 2018), with γ and β linear without a bias and 0 at first: an
untrained context, and one without transitions, leaves the policy as it is without.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar

import torch
from torch import nn

from pacesetter.agents.agent import ACTION_MASK
from pacesetter.agents.encoders import Encoder, Network
from pacesetter.agents.fleet import Fleet
from pacesetter.agents.heads import Distribution, MaskedCategorical, TanhGaussian
from pacesetter.agents.layout import Shapes, Tensors
from pacesetter.agents.symbol_agent import SymbolAgent
from pacesetter.methods.meta.context import ContextKind, make_context
from pacesetter.methods.meta.memory import CONTEXT, NOISE, BarMemory, order_numbers

__all__ = ["ContextAgent", "ContextEncoder", "ContextFleet", "Remembering"]


class ContextEncoder(nn.Module):
    """An encoder of observations that also hold `CONTEXT`; without the entry the context is empty.

    gate   share of the context that reaches the features: a warm-up raises it from 0 to 1
    """

    gate: torch.Tensor

    def __init__(self, base: Encoder, memory: BarMemory, kind: ContextKind, width: int, latent: int) -> None:
        super().__init__()
        self.base, self.memory = base, memory
        self.context = make_context(kind, memory.token_size, memory.bars, width, latent)
        self.condition = nn.Linear(width, 2 * base.width, bias=False)
        nn.init.zeros_(self.condition.weight)
        self.register_buffer("gate", torch.ones(()))

    @property
    def config(self) -> Any:
        return self.base.config

    @property
    def width(self) -> int:
        return int(self.base.width)

    @property
    def start(self) -> torch.Tensor:
        """Learns while the encoder does."""
        return self.base.start

    @property
    def normaliser(self) -> object:
        return self.base.normaliser

    @property
    def layout(self) -> Any:
        return self.base.layout

    def forward(self, observation: Tensors) -> torch.Tensor:
        features = self.base(observation)
        scale, shift = (self.gate * self.condition(self.contexts(observation))).chunk(2, dim=-1)
        return features * (1 + scale) + shift  # type: ignore[no-any-return]

    def contexts(self, observation: Tensors) -> torch.Tensor:
        """(row, width) what the transitions before this bar come to."""
        return self.context(*self.tokens(observation), observation.get(NOISE))  # type: ignore[no-any-return]

    def tokens(self, observation: Tensors) -> tuple[torch.Tensor, torch.Tensor]:
        """The transitions, and which of them were made; see `BarMemory`."""
        kept = observation.get(CONTEXT)
        if kept is None:
            some = observation["position"]
            kept = some.new_zeros(some.shape[0], *self.memory.shape)
        return self.memory.tokens(kept, observation, self.normaliser)


class Remembering(Distribution):
    """A distribution that knows the order it gave, and what is kept after it; see `remember_actions`."""

    plain: Distribution
    push: Callable[[torch.Tensor], torch.Tensor]
    actions: torch.Tensor | None

    def sample(self) -> torch.Tensor:
        self.actions = self.plain.sample()
        return self.actions

    def mode(self) -> torch.Tensor:
        self.actions = self.plain.mode()
        return self.actions

    def with_temperature(self, temperature: float) -> Distribution:
        """The same, spread wider or narrower."""
        return remember_actions(self.plain.with_temperature(temperature), self.push)

    @property
    def kept(self) -> torch.Tensor:
        """(row, bar, ·) what is kept after the last action; after none, after the likeliest."""
        actions = self.plain.mode() if self.actions is None else self.actions
        return self.push(order_numbers(actions, isinstance(self.plain, MaskedCategorical)))


class RememberingCategorical(Remembering, MaskedCategorical):
    """One of n actions."""


class RememberingGaussian(Remembering, TanhGaussian):
    """A squashed Gaussian."""


def remember_actions(plain: Distribution, push: Callable[[torch.Tensor], torch.Tensor]) -> Remembering:
    """The distribution, which also keeps what it did; `push` gives what is kept after (row,) orders."""
    kind: type[Remembering] = RememberingCategorical if isinstance(plain, MaskedCategorical) else RememberingGaussian
    answer = kind.__new__(kind)
    vars(answer).update(vars(plain))
    answer.plain, answer.push, answer.actions = plain, push, None
    return answer


class ContextFleet(Fleet):
    """A fleet with one context encoder beside its encoder; what each agent keeps is its `memory`.

    bars, width, latent   of the context       column   of the window that holds returns      cap   of a position
    """

    kind: ClassVar[str] = "pacesetter.methods.meta.agents:ContextFleet"
    encoder: Any  # a `ContextEncoder`, which has an encoder inside and is asked as one

    def __init__(
        self,
        config: Network,
        shapes: Shapes,
        symbols: Sequence[str],
        actions: int | None = None,
        hidden: int = 128,
        *,
        context: ContextKind = "gru",
        bars: int = 16,
        width: int = 32,
        latent: int = 8,
        column: int = 0,
        cap: float = 1.0,
    ) -> None:
        shown = {name: shape for name, shape in shapes.items() if name not in (CONTEXT, NOISE)}
        super().__init__(config, shown, symbols, actions, hidden)
        self._own = {"context": context, "bars": bars, "width": width, "latent": latent, "column": column, "cap": cap}
        self.bar_memory = BarMemory.of(shown, bars, column, cap)
        self.encoder = ContextEncoder(self.encoder, self.bar_memory, context, width, latent)

    @property
    def own(self) -> dict[str, object]:
        return dict(self._own)

    @property
    def memory(self) -> dict[str, tuple[int, ...]]:
        return {CONTEXT: self.bar_memory.shape}

    def evaluate(self, observation: Tensors, rows: torch.Tensor | None = None) -> tuple[Remembering, torch.Tensor]:
        """Policies that keep what they do, and values; `CONTEXT` of the observation is what was kept before."""
        plain, values = super().evaluate(observation, rows)
        return remember_actions(plain, self._push(observation)), values

    def memory_after(self, policy: Distribution) -> dict[str, torch.Tensor]:
        assert isinstance(policy, Remembering)
        return {CONTEXT: policy.kept}

    def _push(self, observation: Tensors) -> Callable[[torch.Tensor], torch.Tensor]:
        before = observation.get(CONTEXT)
        if before is None:
            before = self.no_memory(len(observation["position"]))[CONTEXT]
        return partial(self.bar_memory.push, before, self.bar_memory.now(observation))

    def take(self, symbol: str) -> ContextAgent:
        """A copy of one agent that answers as it does here; random numbers are left as they were."""
        (row,) = self.places([symbol])
        with torch.random.fork_rng(devices=[]):
            agent = ContextAgent(self.config, self.shapes, self.actions, self.hidden, self._own)
        agent.to(self.frozen.device)
        agent.has_state_value = self.has_state_value
        agent.encoder.load_state_dict(self.encoder.state_dict())
        self.actor.read(row, agent.actor.layers)
        self.critic.read(row, agent.critic.layers)
        return agent


class ContextAgent(SymbolAgent):
    """One agent with a context."""

    encoder: Any  # a `ContextEncoder`, which has an encoder inside and is asked as one

    def __init__(self, config: Network, shapes: Shapes, actions: int | None, hidden: int, own: dict[str, Any]) -> None:
        super().__init__(config, shapes, actions, hidden)
        memory = BarMemory.of(self.shapes, own["bars"], own["column"], own["cap"])
        self.encoder = ContextEncoder(self.encoder, memory, own["context"], own["width"], own["latent"])

    def evaluate(self, observation: Tensors) -> tuple[Distribution, torch.Tensor]:
        features = self.encoder(observation)
        return self.actor(features, observation.get(ACTION_MASK)), self.critic(features)
