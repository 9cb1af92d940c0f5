"""The symbol agent: an encoder, an actor and a critic that trade one symbol."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from pacesetter.agents.agent import ACTION_MASK, Agent, Observation
from pacesetter.agents.encoders import Encoder, Network
from pacesetter.agents.heads import Critic, DiscreteActor, Distribution, Head, MaskedCategorical, make_actor
from pacesetter.agents.layout import Shapes, Tensors
from pacesetter.arrays import Array

__all__ = ["SymbolAgent"]


class SymbolAgent(nn.Module, Agent):
    """Policy and value of one observation; with `actions` discrete under the entry `action_mask`, else continuous.

    actions  how many discrete actions there are, or None for one order in [-1, 1]
    hidden   width of the hidden layer of each head
    has_state_value   false where its critic did not learn
    """

    has_state_value: bool = True

    def __init__(self, config: Network, shapes: Shapes, actions: int | None = 7, hidden: int = 128) -> None:
        super().__init__()
        self.shapes = {name: tuple(shape) for name, shape in shapes.items()}
        self.encoder: Encoder = config.build(shapes)
        self.actor: Head = make_actor(config.width, actions, hidden)
        self.critic: Head = Critic(config.width, hidden)

    @property
    def choices(self) -> int:
        """How many discrete actions it chooses from; 0 for continuous ones."""
        return self.actor.layers[-1].out_features if isinstance(self.actor, DiscreteActor) else 0  # type: ignore[return-value]

    def forward(self, observation: Tensors) -> tuple[torch.Tensor, torch.Tensor]:
        """Probabilities (batch, action), or the deterministic order (batch, 1); and values (batch,). For export."""
        policy, value = self.evaluate(observation)
        return policy.probabilities if isinstance(policy, MaskedCategorical) else policy.mode(), value

    def evaluate(self, observation: Tensors) -> tuple[Distribution, torch.Tensor]:
        """The distribution of actions and the values (batch,), for learning."""
        features = self.encoder(observation)
        return self.actor(features, observation.get(ACTION_MASK)), self.critic(features)

    @torch.no_grad()
    def act(self, observation: Observation, deterministic: bool = True) -> Array:
        """Actions of one observation or a batch: int64 (…,), or float32 (…, 1)."""
        first = next(iter(self.shapes))
        # One observation has no batch axis; the declared shape tells which it is.
        single = np.ndim(observation[first]) == len(self.shapes[first])
        device = self.encoder.start.device
        tensors = {name: torch.as_tensor(entry, device=device) for name, entry in observation.items()}
        policy, _ = self.evaluate({name: entry[None] for name, entry in tensors.items()} if single else tensors)
        actions = (policy.mode() if deterministic else policy.sample()).cpu().numpy()
        return np.asarray(actions[0] if single else actions)
