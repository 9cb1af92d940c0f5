"""Members of a fleet as one batch: stacked parameters through `torch.func`, one call for all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from pacesetter.agents.agent import ACTION_MASK
from pacesetter.agents.encoders import RecurrentEncoder
from pacesetter.agents.fleet import Fleet
from pacesetter.agents.heads import Distribution
from pacesetter.agents.layout import Tensors
from pacesetter.errors import ConfigError
from pacesetter.learning.experience.gather import INDEX
from pacesetter.learning.fleet.encoding import autocast, compile_function

__all__ = ["ENCODER", "Members", "Population"]

ENCODER, ACTOR = "encoder.", "actor."
Members = dict[str, torch.Tensor]  # name of a parameter -> (member, …), or (pair, …) for noise


class Population:
    """`size` mirrored members around a fleet's encoder and actors; its critics take no part.

    rows    places of the market's symbols in the fleet, or None where they are all of it
    tables  compact observations to full ones
    """

    def __init__(
        self, fleet: Fleet, size: int, rows: torch.Tensor | None, tables: Callable[[Tensors], Tensors], config: Any
    ) -> None:
        if isinstance(fleet.encoder, RecurrentEncoder):
            raise ConfigError("agent=es cannot batch a recurrent network over members; take agent.network=mlp_small")
        self.fleet, self.size, self.rows, self.tables, self.config = fleet, size, rows, tables, config
        self._batched: dict[bool, Callable[..., torch.Tensor]] = {}

    @property
    def parameters(self) -> dict[str, nn.Parameter]:
        """What is varied: all that acts and is not frozen."""
        named = self.fleet.named_parameters()
        return {name: one for name, one in named if one.requires_grad and name.startswith((ENCODER, ACTOR))}

    def draw(self) -> Members:
        """Noise ε (pair, …) of every parameter, from torch's generator."""
        # For all agents of the fleet: the stream of numbers does not depend on which symbols a market has.
        half = self.size // 2
        return {name: torch.randn(half, *one.shape, device=one.device) for name, one in self.parameters.items()}

    @torch.no_grad()
    def members(self, noise: Members, sigma: float) -> Members:
        """θ + σε in the first half, θ − σε in the second."""
        named = self.parameters
        return {name: torch.cat([named[name] + sigma * one, named[name] - sigma * one]) for name, one in noise.items()}

    def decide(self, members: Members, observation: Tensors) -> Distribution:
        """The distribution of actions of each environment, (env, …), by the member that plays it.

        Environments are (symbol, member, env) flattened, as are the rows of the compact observation.
        """
        # The mask stays in the order of environments: it is applied to the outputs, which are put back into that order.
        inputs = {name: self._by_member(entry) for name, entry in observation.items() if name != ACTION_MASK}
        index = inputs.pop(INDEX)
        # All members play the same bars unless one was ruined, so that windows are mostly gathered and scaled once.
        is_shared = bool((index == index[:1]).all())
        bars = self.tables({INDEX: index[0] if is_shared else index.flatten(0, 1)})
        if not is_shared:
            bars = {name: torch.unflatten(entry, 0, index.shape[:2]) for name, entry in bars.items()}
        outputs = self._outputs(is_shared)(members, bars, inputs)  # (member, symbol · env, output)
        in_order = torch.unflatten(outputs, 1, (self.symbols, -1)).transpose(0, 1).flatten(0, 2)
        policy: Distribution = self.fleet.policy(in_order.float(), observation.get(ACTION_MASK))
        return policy

    def _outputs(self, is_shared: bool) -> Callable[..., torch.Tensor]:
        """`_member_outputs` of all members at once, their bars in common or not."""
        if is_shared not in self._batched:
            batched = torch.vmap(self._member_outputs, (0, None if is_shared else 0, 0))
            self._batched[is_shared] = compile_function(batched, self.config.compile)
        return self._batched[is_shared]

    @property
    def symbols(self) -> int:
        """Of the market."""
        return len(self.fleet.symbols) if self.rows is None else len(self.rows)

    def _by_member(self, entry: torch.Tensor) -> torch.Tensor:
        """(symbol · member · env, …) as (member, symbol · env, …)."""
        return entry.view(self.symbols, self.size, -1, *entry.shape[1:]).transpose(0, 1).flatten(1, 2)

    def _member_outputs(self, member: Members, bars: Tensors, account: Tensors) -> torch.Tensor:
        """(symbol · env, output) of one member; `vmap` runs it for all."""
        own: dict[str, Members] = {ENCODER: {}, ACTOR: {}}
        for name, one in member.items():
            prefix = name[: name.index(".") + 1]
            own[prefix][name.removeprefix(prefix)] = one
        with autocast(self.fleet.frozen.device, self.config):
            features = torch.func.functional_call(self.fleet.encoder, own[ENCODER], ({**bars, **account},)).float()
        outputs: torch.Tensor = torch.func.functional_call(self.fleet.actor, own[ACTOR], (features, self.rows))
        return outputs
