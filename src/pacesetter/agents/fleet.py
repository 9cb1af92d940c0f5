"""The fleet: one symbol agent for each symbol, with one encoder for all and their heads stacked.

`Fleet` is what a trainer works on, with the rows of a symbol side by side; `FleetAgent` acts in a whole market; `take`
gives one symbol's agent as an ordinary `SymbolAgent` that answers alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import nn

from pacesetter.agents.agent import ACTION_MASK, Agent, Observation
from pacesetter.agents.card import count_parameters
from pacesetter.agents.encoders import Encoder, Network
from pacesetter.agents.heads import Critic, Distribution, Head, make_actor, silence_head
from pacesetter.agents.layout import Shapes, Tensors
from pacesetter.agents.stacked import StackedHead
from pacesetter.agents.stream.encoder import STREAM, follower_of
from pacesetter.agents.symbol_agent import SymbolAgent
from pacesetter.arrays import Array
from pacesetter.errors import ConfigError, did_you_mean

WINDOW, PRIOR = "window", "prior"  # an agent that sees a prior begins at it: its actions are residuals
__all__ = ["Fleet", "FleetAgent", "FleetCard", "fleet_card"]


class Fleet(nn.Module):
    """Policies and values of many symbols; actions as those of `SymbolAgent`.

    symbols  whose agents these are, in the order of the stacked heads
    frozen   (symbol,) true where a trainer leaves the heads as they are
    has_state_value   false where the critics did not learn: values are not to be shown or served then
    kind     "module:class" by which a stored one is made again       own   what that class takes beside, for JSON
    around   how actions are read beside a prior that the agents see, see `Around`; None without one
    memory   entry -> shape of what its policy keeps from bar to bar: `evaluate` takes it among the observation, and
             `memory_after` gives it after the policy acted; most keep nothing
    """

    frozen: torch.Tensor
    has_state_value: bool = True
    around: tuple[float, float, float] | None = None
    kind: ClassVar[str] = "pacesetter.agents.fleet:Fleet"

    def __init__(
        self, config: Network, shapes: Shapes, symbols: Sequence[str], actions: int | None = 7, hidden: int = 128
    ) -> None:
        super().__init__()
        self.config, self.actions, self.hidden = config, actions, hidden
        self.shapes = {name: tuple(shape) for name, shape in shapes.items()}
        self.symbols = _check_symbols((), symbols)
        self.encoder: Encoder = config.build(shapes)
        # Drawn as ordinary heads and then stacked, so that each starts as that of a `SymbolAgent` would.
        self.actor = StackedHead([self._new_actor().layers for _ in self.symbols])
        self.critic = StackedHead([self._new_critic().layers for _ in self.symbols])
        self.policy = self._new_actor()  # only what makes a distribution of the stacked head's outputs
        self.policy.layers = nn.Identity()  # type: ignore[assignment]
        self.register_buffer("frozen", torch.zeros(len(self.symbols), dtype=torch.bool))

    def _new_actor(self) -> Head:
        actor = make_actor(self.config.width, self.actions, self.hidden)
        if PRIOR in self.shapes:
            silence_head(actor.layers)
        return actor

    def _new_critic(self) -> Head:
        return Critic(self.config.width, self.hidden)

    @property
    def own(self) -> dict[str, object]:
        return {}

    @property
    def memory(self) -> dict[str, tuple[int, ...]]:
        return {}

    def no_memory(self, rows: int) -> dict[str, torch.Tensor]:
        """What is kept before the first bar: zeros (row, …)."""
        return {name: torch.zeros(rows, *shape, device=self.frozen.device) for name, shape in self.memory.items()}

    def memory_after(self, policy: Distribution) -> dict[str, torch.Tensor]:
        """What is kept after `policy`, an answer of this fleet, has acted."""
        return {}

    def notes(self, policy: Distribution) -> dict[str, list[str]]:
        """What is worth noting beside the orders of `policy`, after it has acted: name -> a text for each row."""
        return {}

    @property
    def option_names(self) -> tuple[str, ...]:
        """Of a fleet with options."""
        return ()

    def option_bar(self, policy: Distribution) -> dict[str, torch.Tensor]:
        """Of a fleet with options, after `policy` has acted: the `option` in force, and whether it `began` here."""
        return {}

    # ---- thinking -------------------------------------------------------------------------------------------------

    def evaluate(self, observation: Tensors, rows: torch.Tensor | None = None) -> tuple[Distribution, torch.Tensor]:
        """The distribution of actions and the values (symbol · n,) of observations in the same order.

        They are of all symbols, each with as many observations side by side, or of those at the places `rows`.
        """
        return self.decide(self.encoder(observation), observation.get(ACTION_MASK), rows)

    def decide(
        self, features: torch.Tensor, mask: torch.Tensor | None = None, rows: torch.Tensor | None = None
    ) -> tuple[Distribution, torch.Tensor]:
        """The same from the encoder's features (symbol · n, width)."""
        return self.policy(self.actor(features, rows), mask), self.value(features, rows)

    def value(self, features: torch.Tensor, rows: torch.Tensor | None = None) -> torch.Tensor:
        """(symbol · n,) values alone."""
        return self.critic(features, rows).squeeze(-1)  # type: ignore[no-any-return]

    def places(self, symbols: Iterable[str]) -> list[int]:
        """Where these symbols stand; refuses one without an agent."""
        where = {symbol: place for place, symbol in enumerate(self.symbols)}
        for symbol in (symbols := list(symbols)):
            if symbol not in where:
                raise ConfigError(f"the fleet has no agent for '{symbol}'{did_you_mean(symbol, where)}")
        return [where[symbol] for symbol in symbols]

    # ---- changing -------------------------------------------------------------------------------------------------

    def take(self, symbol: str) -> SymbolAgent:
        """A copy of one agent that answers as it does here; random numbers are left as they were."""
        (row,) = self.places([symbol])
        # Making an agent draws first weights, which are overwritten; training must not feel it.
        with torch.random.fork_rng(devices=[]):
            agent = SymbolAgent(self.config, self.shapes, self.actions, self.hidden)
        agent.to(self.frozen.device)
        agent.has_state_value = self.has_state_value
        agent.encoder.load_state_dict(self.encoder.state_dict())
        self.actor.read(row, agent.actor.layers)
        self.critic.read(row, agent.critic.layers)
        return agent

    def add(self, symbols: Sequence[str]) -> None:
        """Fresh heads for new symbols, after the others; trainers must be created again."""
        self.symbols = _check_symbols(self.symbols, symbols)
        self.actor.extend([self._new_actor().layers for _ in symbols])
        self.critic.extend([self._new_critic().layers for _ in symbols])
        # After the others: the places of the existing symbols stay valid.
        self.frozen = torch.cat([self.frozen, self.frozen.new_zeros(len(symbols))])

    def reinitialise(self, symbols: Iterable[str]) -> None:
        """Fresh heads in place of those of the named symbols."""
        for row in self.places(symbols):
            self.actor.write(row, self._new_actor().layers)
            self.critic.write(row, self._new_critic().layers)

    def freeze(self, symbols: Iterable[str], frozen: bool = True) -> None:
        """Keep the heads of the named symbols as they are, or with `frozen=False` let them learn again."""
        self.frozen[self.places(symbols)] = frozen

    def freeze_encoder(self, frozen: bool = True) -> None:
        """Keep the encoder and its normaliser as they are, or let them learn again."""
        self.encoder.requires_grad_(not frozen)

    def use_encoder(self, encoder: Encoder) -> None:
        """Begin with the weights and normaliser of another encoder, e.g. a supervised one; refuses other sizes."""
        own, given = self.encoder.state_dict(), encoder.state_dict()
        wrong = [name for name in own.keys() | given.keys() if name not in own or name not in given]
        # Checked by name and shape beforehand: a load that fails half-way would leave a mixture.
        wrong += [name for name in own.keys() & given.keys() if own[name].shape != given[name].shape]
        if wrong:
            raise ConfigError(
                f"the encoder does not fit the fleet's: {min(wrong)} differs; build both from one network and features"
            )
        self.encoder.load_state_dict(given)


def _check_symbols(symbols: tuple[str, ...], more: Sequence[str]) -> tuple[str, ...]:
    """All symbols; refuses none at all, and one twice."""
    joined = (*symbols, *more)
    if not more or len(set(joined)) < len(joined):
        raise ConfigError(f"a fleet needs at least one symbol, each once, not {', '.join(joined) or 'none'}")
    return joined


class FleetAgent(Agent):
    """A fleet in a whole market: observations (symbol, …) to orders (symbol,).

    symbols  the market's, in its order; all of the fleet's when None
    """

    def __init__(self, fleet: Fleet, symbols: Sequence[str] | None = None) -> None:
        self.fleet = fleet
        places = fleet.places(fleet.symbols if symbols is None else symbols)
        self.rows = torch.tensor(places, device=fleet.frozen.device)
        self.follow = follower_of(fleet.encoder, fleet.shapes.get(WINDOW, (0,))[0])
        self.reset()

    def reset(self) -> None:
        """Forget the bars before, where the fleet remembers any; `notes` says what the last decision was made by."""
        self.memory = self.fleet.no_memory(len(self.rows))
        self.notes: dict[str, list[str]] = {}

    def take(self, symbol: str) -> SymbolAgent:
        """The agent of one symbol."""
        return self.fleet.take(symbol)

    @torch.no_grad()
    def act(self, observation: Observation, deterministic: bool = True) -> Array:
        """Orders (symbol,), int64 or float32; an entry without an axis of symbols, as `portfolio`, is shown to all."""
        wanted = {name: shape for name, shape in self.fleet.shapes.items() if name in observation}
        inputs = {name: self._for_each(observation[name], shape) for name, shape in wanted.items()}
        if self.follow is not None:
            inputs[STREAM] = self.follow(observation[WINDOW])
        if ACTION_MASK in observation:
            inputs[ACTION_MASK] = self._for_each(observation[ACTION_MASK], (self.fleet.actions or 0,))
        policy, _ = self.fleet.evaluate(inputs | self.memory, self.rows)
        actions = (policy.mode() if deterministic else policy.sample()).cpu().numpy()
        self.memory = self.fleet.memory_after(policy)
        self.notes = self.fleet.notes(policy)
        return np.asarray(actions.reshape(len(self.rows)))

    def _for_each(self, entry: object, shape: tuple[int, ...]) -> torch.Tensor:
        tensor = torch.as_tensor(entry, device=self.rows.device)
        return tensor.expand(len(self.rows), *shape)


@dataclass(frozen=True)
class FleetCard:
    """Trainable parameters of a fleet, and of as many agents with an encoder each; printed as one line."""

    symbols: int
    encoder: int
    heads: int  # of all symbols together

    @property
    def fleet(self) -> int:
        return self.encoder + self.heads

    @property
    def separate(self) -> int:
        return self.symbols * self.encoder + self.heads

    @property
    def saved(self) -> float:
        """Share of the parameters that one encoder for all saves."""
        return 1 - self.fleet / self.separate

    def __str__(self) -> str:
        return (
            f"{self.symbols} agents with one encoder: {self.fleet:,} parameters; "
            f"with an encoder each: {self.separate:,}; {self.saved:.1%} fewer"
        )


def fleet_card(fleet: Fleet) -> FleetCard:
    """How many parameters the fleet has; a frozen encoder counts too."""
    # All of them: `count_parameters` would leave out a frozen encoder.
    encoder = sum(parameter.numel() for parameter in fleet.encoder.parameters())
    return FleetCard(len(fleet.symbols), encoder, count_parameters(fleet.actor) + count_parameters(fleet.critic))
