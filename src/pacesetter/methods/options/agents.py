"""Agents with options: a fleet whose heads select options, value them and, of learned ones, give orders and end them.

The actor's outputs are those of `OptionSet.outputs`, the critic's the values Q(s, o) of beginning each option. What is
kept from bar to bar is the entry `MEMORY` of an observation; without it an agent answers as at its first bar.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import nn

from pacesetter.agents.encoders import Network
from pacesetter.agents.fleet import PRIOR, Fleet
from pacesetter.agents.heads import ACTOR_GAIN, Distribution, Head, head_layers, silence_head
from pacesetter.agents.layout import Shapes, Tensors
from pacesetter.agents.symbol_agent import SymbolAgent
from pacesetter.methods.options.answer import MEMORY, OptionAnswer, OptionSet
from pacesetter.methods.options.rule_options import read_market

__all__ = ["ANY", "OptionAgent", "OptionFleet"]

WINDOW, POSITION = "window", "position"
ANY = "any"  # the one agent that serves every symbol
FIRST_ENDING = -2.0  # logit: a fresh option ends at one bar in eight


class OptionHead(Head):
    """Layers whose last has `outputs`; those that end options begin with options that last.

    Beside a prior all options begin at it: their orders are residuals, and 0 at first.
    """

    def __init__(self, width: int, hidden: int, options: OptionSet, beside_prior: bool = False) -> None:
        super().__init__()
        self.layers = head_layers(width, hidden, options.outputs, ACTOR_GAIN)
        if beside_prior:
            silence_head(self.layers)
        if options.is_learned:
            last: Any = self.layers[-1]
            with torch.no_grad():
                # Options that end at every bar would be one-step actions: the critic would never see what lasting is
                # worth.
                last.bias[-len(options) :] = FIRST_ENDING


class ValueHead(Head):
    """Layers that value each option."""

    def __init__(self, width: int, hidden: int, options: int) -> None:
        super().__init__()
        self.layers = head_layers(width, hidden, options, 1.0)


class OptionFleet(Fleet):
    """A fleet with options, or with the one symbol `ANY` an agent of every symbol.

    column   of the window that holds log returns            options   as `FleetOptions.describe` gives them
    """

    kind: ClassVar[str] = "pacesetter.methods.options.agents:OptionFleet"

    def __init__(
        self,
        config: Network,
        shapes: Shapes,
        symbols: Sequence[str],
        actions: int | None = None,
        hidden: int = 128,
        *,
        column: int = 0,
        options: Mapping[str, object],
    ) -> None:
        self.options, self.column, self._description = OptionSet.from_description(options), column, dict(options)
        super().__init__(config, _shown_shapes(shapes, self.options), symbols, actions, hidden)
        self.shapes = {name: tuple(shape) for name, shape in shapes.items()}
        # Here, not at each call: all who ask the encoder hand over whole windows.
        self.encoder.register_forward_pre_hook(_keep_newest(self.options.seen_bars))

    @property
    def own(self) -> dict[str, object]:
        """What it is made of beside a plain fleet, as JSON holds it."""
        return {"column": self.column, "options": self._description}

    @property
    def memory(self) -> dict[str, tuple[int, ...]]:
        return {MEMORY: (self.options.memory_size,)}

    def memory_after(self, policy: Distribution) -> dict[str, torch.Tensor]:
        assert isinstance(policy, OptionAnswer)
        return {MEMORY: policy.played.memory}

    def notes(self, policy: Distribution) -> dict[str, list[str]]:
        """The name of the option in force in each row."""
        assert isinstance(policy, OptionAnswer)
        return {"option": [self.options.names[place] for place in policy.played.option.tolist()]}

    @property
    def option_names(self) -> tuple[str, ...]:
        return self.options.names

    def option_bar(self, policy: Distribution) -> dict[str, torch.Tensor]:
        assert isinstance(policy, OptionAnswer)
        return {"option": policy.played.option, "began": policy.played.began}

    def _new_actor(self) -> OptionHead:
        return OptionHead(self.config.width, self.hidden, self.options, PRIOR in self.shapes)

    def _new_critic(self) -> ValueHead:
        return ValueHead(self.config.width, self.hidden, len(self.options))

    def places(self, symbols: Iterable[str]) -> list[int]:
        """Where these symbols stand; the one agent of all serves any."""
        return [0 for _ in symbols] if self.symbols == (ANY,) else super().places(symbols)

    # ---- thinking -------------------------------------------------------------------------------------------------

    def evaluate(self, observation: Tensors, rows: torch.Tensor | None = None) -> tuple[OptionAnswer, torch.Tensor]:
        """What it does at these observations, which may hold `MEMORY`, and the values of the options in force."""
        features = self.encoder(observation)
        signals = read_market(observation[WINDOW][..., self.column])
        answer = self.answer(features, signals, observation[POSITION], observation.get(MEMORY), rows)
        return answer, answer.value

    def answer(
        self,
        features: torch.Tensor,
        signals: torch.Tensor,
        position: torch.Tensor,
        memory: torch.Tensor | None = None,
        rows: torch.Tensor | None = None,
    ) -> OptionAnswer:
        """The same from features, signals of the market, positions and what was kept."""
        if memory is None:
            memory = features.new_zeros(len(features), self.options.memory_size)
        outputs, values = self.actor(features, rows), self.critic(features, rows)
        return OptionAnswer(self.options, outputs, values, signals, position, memory)

    def value(self, features: torch.Tensor, rows: torch.Tensor | None = None) -> torch.Tensor:
        """(symbol · n,) value of the best option, whether or not it may begin."""
        best: torch.Tensor = self.critic(features, rows).amax(-1)
        return best

    def take(self, symbol: str) -> OptionAgent:
        """A copy of one agent that answers as it does here; random numbers are left as they were."""
        (row,) = self.places([symbol])
        # The weights drawn here are overwritten below: looking at an agent must not move the stream of training.
        with torch.random.fork_rng(devices=[]):
            agent = OptionAgent(self.config, self.shapes, self.hidden, self.column, self.options)
        agent.to(self.frozen.device)
        agent.has_state_value = self.has_state_value
        agent.encoder.load_state_dict(self.encoder.state_dict())
        self.actor.read(row, agent.actor.layers)
        self.critic.read(row, agent.critic.layers)
        return agent


class OptionAgent(SymbolAgent):
    """One agent with options; as a module it gives what the selector prefers, which attributions explain."""

    def __init__(self, config: Network, shapes: Shapes, hidden: int, column: int, options: OptionSet) -> None:
        nn.Module.__init__(self)
        self.shapes = {name: tuple(shape) for name, shape in shapes.items()}
        self.options, self.column = options, column
        self.encoder = config.build(_shown_shapes(shapes, options))
        self.encoder.register_forward_pre_hook(_keep_newest(options.seen_bars))
        self.actor = OptionHead(config.width, hidden, options, PRIOR in shapes)
        self.critic = ValueHead(config.width, hidden, len(options))

    @property
    def choices(self) -> int:
        return len(self.options)

    def forward(self, observation: Tensors) -> tuple[torch.Tensor, torch.Tensor]:
        """Probabilities (batch, option) as if all might begin, and the value of the one in force (batch,).

        Where an option may begin is a step: with it, no gradient along a path could account for the whole change.
        """
        answer, value = self.evaluate(observation)
        return answer.logits.softmax(-1), value

    def evaluate(self, observation: Tensors) -> tuple[OptionAnswer, torch.Tensor]:
        features = self.encoder(observation)
        memory = observation.get(MEMORY)
        if memory is None:
            memory = features.new_zeros(len(features), self.options.memory_size)
        signals = read_market(observation[WINDOW][..., self.column])
        outputs, values = self.actor.layers(features), self.critic.layers(features)
        answer = OptionAnswer(self.options, outputs, values, signals, observation[POSITION], memory)
        return answer, answer.value


def _shown_shapes(shapes: Shapes, options: OptionSet) -> dict[str, tuple[int, ...]]:
    """Shapes with the bars that the network is shown."""
    bars, features = shapes[WINDOW]
    return {**shapes, WINDOW: (min(options.seen_bars or bars, bars), features)}


def _keep_newest(bars: int | None) -> Any:
    """A hook that leaves an encoder the newest bars of its window."""

    def cut(module: nn.Module, given: tuple[Any, ...]) -> tuple[Any, ...] | None:
        observation = given[0]
        if bars is None or WINDOW not in observation:
            return None
        return ({**observation, WINDOW: observation[WINDOW][:, -bars:]}, *given[1:])

    return cut
