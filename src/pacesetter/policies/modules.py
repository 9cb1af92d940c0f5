"""A trained policy as one plain module with its `PolicySpec`: what a bundle exports.

Normaliser, order of features and action mask are inside: a server hands over raw observations. A module of another
make is exported alike, if its forward maps an observation (row, …) to the outputs that its `PolicySpec` names.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from gymnasium import spaces
from torch import nn

from pacesetter.agents.agent import ACTION_MASK
from pacesetter.agents.encoders import Encoder
from pacesetter.agents.fleet import Fleet
from pacesetter.agents.heads import DiscreteActor, MaskedCategorical, TanhGaussian
from pacesetter.agents.layout import Tensors, with_entries
from pacesetter.agents.stream.encoder import StreamEncoder
from pacesetter.agents.symbol_agent import SymbolAgent
from pacesetter.arrays import Array
from pacesetter.market.orders import Discrete, as_targets
from pacesetter.market.parameters import MarketParameters
from pacesetter.policies.spec import PolicySpec, Trades

if TYPE_CHECKING:
    from stable_baselines3.common.policies import BasePolicy

    from pacesetter.learning.sb3.own import AnyAlgorithm

__all__ = [
    "Exported",
    "ServedAgent",
    "ServedPolicy",
    "serve_agent",
    "serve_algorithm",
]

HIDDEN, CELL = "memory_hidden", "memory_cell"  # what a recurrent policy hands from one bar to the next


class Exported(NamedTuple):
    """What a task exports of a run: a policy by its spec; `real` are batches of observations (row, …) of its market."""

    module: nn.Module
    spec: PolicySpec
    symbols: tuple[str, ...]
    real: Iterator[dict[str, Array]]


class ChoiceHead(nn.Module):
    """(row, width) features → probabilities (row, [symbol,] order) under the mask, and that of the likeliest."""

    def __init__(self, logits: nn.Module, choices: int, is_whole: bool) -> None:
        super().__init__()
        self.logits, self.choices, self.is_whole = logits, choices, is_whole

    def forward(self, features: torch.Tensor, mask: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
        logits = self.logits(features)
        if self.is_whole:
            # A whole market's choices come as one flat row, symbol by symbol.
            logits = logits.reshape(logits.shape[0], -1, self.choices)
            mask = mask if mask is None else mask.reshape(logits.shape)
        probabilities = MaskedCategorical(logits, mask).probabilities
        return probabilities, probabilities.amax(-1)


class BoxHead(nn.Module):
    """(row, width) features → orders in their box, and how likely a drawn order lies on the same side of its middle.

    A policy acts in [-1, 1], which is stretched over the box: by tanh(u), or u cut to it; without a deviation it is
    certain.
    """

    low: torch.Tensor
    high: torch.Tensor

    def __init__(self, mean: nn.Module, deviation: nn.Module | None, box: spaces.Box, is_squashed: bool) -> None:
        super().__init__()
        self.mean, self.deviation, self.is_squashed = mean, deviation, is_squashed
        self.register_buffer("low", torch.as_tensor(box.low))
        self.register_buffer("high", torch.as_tensor(box.high))

    def forward(self, features: torch.Tensor, mask: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
        u = self.mean(features)
        unit = torch.tanh(u) if self.is_squashed else u.clamp(-1.0, 1.0)
        orders = self.low + (unit + 1) * ((self.high - self.low) / 2)
        if self.deviation is None:
            # TD3's actor is deterministic.
            return orders, torch.ones_like(orders)
        # The middle of the box is u = 0.
        return orders, _same_side_probability(u, self.deviation(features))


class Constant(nn.Module):
    """A parameter that does not look at its input: the log deviation of an on-policy Gaussian."""

    def __init__(self, value: torch.Tensor) -> None:
        super().__init__()
        self.value = nn.Parameter(value.detach().clone())

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return self.value


class ServedPolicy(nn.Module):
    """Encoder, actor and, where there is one, critic: an observation (row, …) to the outputs of a `PolicySpec`.

    passed   entries that the heads read behind the encoder's features
    """

    def __init__(
        self, encoder: Encoder, actor: ChoiceHead | BoxHead, critic: nn.Module | None, passed: tuple[str, ...] = ()
    ) -> None:
        super().__init__()
        self.encoder, self.actor, self.critic, self.passed = encoder, actor, critic, passed

    def forward(self, observation: Tensors) -> tuple[torch.Tensor, ...]:
        # (row, symbol, bar, feature) windows of a whole market: the encoder takes each symbol's bars as its features.
        flat = {name: entry.flatten(2) if entry.ndim == 4 else entry for name, entry in observation.items()}
        features = with_entries(self.encoder(flat), flat, self.passed)
        answer = self.actor(features, observation.get(ACTION_MASK))
        return answer if self.critic is None else (*answer, self.critic(features).squeeze(-1))


class RecurrentCell(nn.Module):
    """One step of an LSTM or GRU, written as arithmetic: (row, width), hidden and cell (row, layer, unit) → the same.

    A GRU has no cell; its own is handed on as it came.
    """

    def __init__(self, memory: nn.Module) -> None:
        super().__init__()
        inner: Any = memory if isinstance(memory, nn.RNNBase) else memory.gru
        self.is_gru, self.layers = isinstance(inner, nn.GRU), int(inner.num_layers)
        self.inputs = nn.ModuleList(_linear(inner, "ih", layer) for layer in range(self.layers))
        self.hiddens = nn.ModuleList(_linear(inner, "hh", layer) for layer in range(self.layers))

    def forward(
        self, x: torch.Tensor, hidden: torch.Tensor, cell: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        hiddens, cells = [], []
        for layer, (to_input, to_hidden) in enumerate(zip(self.inputs, self.hiddens, strict=True)):
            step = self._gru if self.is_gru else self._lstm
            x, memory = step(to_input(x), to_hidden(hidden[:, layer]), hidden[:, layer], cell[:, layer])
            hiddens.append(x)
            cells.append(memory)
        return x, torch.stack(hiddens, 1), torch.stack(cells, 1)

    @staticmethod
    def _lstm(a: torch.Tensor, b: torch.Tensor, h: torch.Tensor, c: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        # torch's order of gates: input, forget, cell, output.
        take, forget, new, show = (a + b).chunk(4, -1)
        memory = torch.sigmoid(forget) * c + torch.sigmoid(take) * torch.tanh(new)
        return torch.sigmoid(show) * torch.tanh(memory), memory

    @staticmethod
    def _gru(a: torch.Tensor, b: torch.Tensor, h: torch.Tensor, c: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        # torch's order of gates: reset, update, new; the reset acts on W_hn·h + b_hn, as in cuDNN, not on h.
        (reset_a, keep_a, new_a), (reset_b, keep_b, new_b) = a.chunk(3, -1), b.chunk(3, -1)
        keep = torch.sigmoid(keep_a + keep_b)
        fresh = torch.tanh(new_a + torch.sigmoid(reset_a + reset_b) * new_b)
        return (1 - keep) * fresh + keep * h, c


def _linear(memory: object, kind: str, layer: int) -> nn.Linear:
    """The weights of one layer of a recurrent module as a linear map."""
    weight, bias = getattr(memory, f"weight_{kind}_l{layer}"), getattr(memory, f"bias_{kind}_l{layer}")
    linear = nn.Linear(weight.shape[1], weight.shape[0])
    linear.weight, linear.bias = weight, bias
    return linear


class ServedRecurrent(nn.Module):
    """Encoder, memory and actor: an observation (row, …) with the memory before to an answer and the memory after."""

    def __init__(self, encoder: Encoder, memory: nn.Module, actor: ChoiceHead | BoxHead) -> None:
        super().__init__()
        self.encoder, self.memory, self.actor = encoder, RecurrentCell(memory), actor

    def forward(self, observation: Tensors) -> tuple[torch.Tensor, ...]:
        own = {name: entry for name, entry in observation.items() if name not in (HIDDEN, CELL)}
        flat = {name: entry.flatten(2) if entry.ndim == 4 else entry for name, entry in own.items()}
        latent, hidden, cell = self.memory(self.encoder(flat), observation[HIDDEN], observation[CELL])
        return (*self.actor(latent, observation.get(ACTION_MASK)), hidden, cell)


def serve_algorithm(
    algorithm: AnyAlgorithm, names: Mapping[str, Iterable[str]], action: str, symbols: tuple[str, ...] = ()
) -> tuple[ServedPolicy | ServedRecurrent, PolicySpec]:
    """A Stable-Baselines3 algorithm's policy as a module, with its spec.

    `names` gives the features of each entry, `action` how the environment reads orders, `symbols` those of a market. A
    lookback agent's entries have no names of their own. A recurrent policy becomes a module of one step, whose memory
    goes in and comes out beside the answer.
    """
    from sb3_contrib.common.recurrent.policies import RecurrentActorCriticPolicy

    from pacesetter.learning.sb3.algorithms import ALGORITHMS, ActorCritic, EncoderExtractor

    policy = algorithm.policy
    # The first is the one that the actor reads.
    extractor = next(module for module in policy.modules() if isinstance(module, EncoderExtractor))
    is_whole = len(extractor.shapes.get("position", ())) > 1
    actor, critic = _heads(policy, _box(algorithm), is_whole)
    inputs = dict(extractor.shapes)
    if ALGORITHMS[algorithm.recipe.algorithm].masked:  # type: ignore[union-attr]
        assert isinstance(policy, ActorCritic)
        assert isinstance(policy.action_net, nn.Linear)
        inputs[ACTION_MASK] = (int(policy.action_net.out_features),)  # it is a number of NumPy
    spec = PolicySpec(
        inputs=inputs,
        names={entry: tuple(names.get(entry, ())) for entry in extractor.shapes},
        action="discrete" if isinstance(actor, ChoiceHead) else action,  # type: ignore[arg-type]
        rows="market" if is_whole else "symbol",
        symbols=symbols if is_whole else (),
        outputs=_outputs(actor, critic),
    )
    if isinstance(policy, RecurrentActorCriticPolicy):
        return _export_recurrent(extractor.encoder, policy.lstm_actor, actor, spec)
    return ServedPolicy(extractor.encoder, actor, critic, extractor.passed).eval(), spec


def _export_recurrent(
    encoder: Encoder, memory: nn.LSTM, actor: ChoiceHead | BoxHead, spec: PolicySpec
) -> tuple[ServedRecurrent, PolicySpec]:
    """The module with a memory, and the spec with it; its critic has a memory of its own and is left out."""
    shape = (int(memory.num_layers), int(memory.hidden_size))
    outputs = (*_outputs(actor, None), f"{HIDDEN}_after", f"{CELL}_after")
    own = replace(spec, inputs=spec.inputs | {HIDDEN: shape, CELL: shape}, outputs=outputs)
    return ServedRecurrent(encoder, memory, actor).eval(), own


class ServedAgent(nn.Module):
    """One of our own agents, single or a fleet, with the same outputs; a critic that did not learn is left out.

    market   where its continuous actions are targets; None where they are orders
    """

    def __init__(self, agent: SymbolAgent | Fleet, market: MarketParameters | None = None) -> None:
        super().__init__()
        self.agent, self.market = agent, market

    def forward(self, observation: Tensors) -> tuple[torch.Tensor, ...]:
        return self.outputs(*self.agent.evaluate(observation))

    def outputs(self, policy: object, value: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """What the spec names of a distribution of actions and the values."""
        values = (value,) if self.agent.has_state_value else ()
        if isinstance(policy, MaskedCategorical):
            return policy.probabilities, policy.probabilities.amax(-1), *values
        assert isinstance(policy, TanhGaussian)
        orders = policy.mode() if self.market is None else as_targets(policy.mode(), self.market)
        return orders, _same_side_probability(policy.mean, policy.log_deviation), *values


def serve_agent(
    agent: SymbolAgent | Fleet,
    names: Mapping[str, Iterable[str]],
    market: MarketParameters | None = None,
    trades: Trades = "orders",
) -> tuple[ServedAgent, PolicySpec]:
    """A symbol agent, or a fleet with a row for each of its symbols, as a module with its spec.

    With a `market` its continuous actions are targets there; `trades` says how a fleet trades one account.
    """
    symbols = agent.symbols if isinstance(agent, Fleet) else ()
    inputs = {name: shape for name, shape in agent.shapes.items() if name != ACTION_MASK}
    head = agent.policy if isinstance(agent, Fleet) else agent.actor
    is_discrete = isinstance(head, DiscreteActor)
    if is_discrete:
        inputs[ACTION_MASK] = (len(Discrete),)
    memory = _memory(agent.encoder, inputs)
    spec = PolicySpec(
        inputs=inputs,
        names={entry: tuple(names[entry]) for entry in inputs if entry != ACTION_MASK},
        action="discrete" if is_discrete else "continuous" if market is None else "target",
        rows="fleet" if symbols else "symbol",
        symbols=symbols,
        outputs=(
            *("probabilities" if is_discrete else "orders", "confidence"),
            *(("value",) if agent.has_state_value else ()),
        ),
        trades=trades,
        memory=memory,
        is_apart=bool(memory),
    )
    return ServedAgent(agent, market).eval(), spec


def _memory(encoder: Encoder, inputs: Mapping[str, tuple[int, ...]]) -> tuple[int, ...]:
    """What a stream encoder keeps of earlier bars; () for others, and where windows hold less than it remembers."""
    if not isinstance(encoder, StreamEncoder) or inputs[encoder.config.window][0] < encoder.config.memory_bars:
        return ()
    return encoder.memory_shape


def _same_side_probability(distance: torch.Tensor, log_deviation: torch.Tensor) -> torch.Tensor:
    """Φ(|distance| / deviation): how likely a draw lies on the same side of the middle as its mean."""
    return 0.5 * (1 + torch.erf(distance.abs() / log_deviation.exp() / math.sqrt(2)))


def _outputs(actor: nn.Module, critic: nn.Module | None) -> tuple[str, ...]:
    answer = "probabilities" if isinstance(actor, ChoiceHead) else "orders"
    return (answer, "confidence", *(() if critic is None else ("value",)))


def _box(algorithm: AnyAlgorithm) -> spaces.Space[Any]:
    """The actions of the environment that the algorithm learned in."""
    from pacesetter.learning.sb3.adapter import VectorAdapter

    return algorithm.env.box if isinstance(algorithm.env, VectorAdapter) else algorithm.action_space


def _heads(
    policy: BasePolicy, space: spaces.Space[Any], is_whole: bool
) -> tuple[ChoiceHead | BoxHead, nn.Module | None]:
    """Actor and critic of an on-policy network; of an off-policy one the actor, whose critics judge pairs."""
    from stable_baselines3.sac.policies import SACPolicy
    from stable_baselines3.td3.policies import TD3Policy

    from pacesetter.learning.sb3.algorithms import ActorCritic

    if isinstance(policy, SACPolicy):
        assert isinstance(space, spaces.Box)
        actor: Any = policy.actor
        mean, deviation = (nn.Sequential(actor.latent_pi, layer) for layer in (actor.mu, actor.log_std))
        # SB3's SAC clamps log_std to [−20, 2]; a clamp as a module is exported with the graph.
        return BoxHead(mean, nn.Sequential(deviation, nn.Hardtanh(-20.0, 2.0)), space, True), None
    if isinstance(policy, TD3Policy):
        assert isinstance(space, spaces.Box)
        assert isinstance(policy.actor.mu, nn.Sequential)
        return BoxHead(policy.actor.mu[:-1], None, space, True), None  # its last layer is the tanh
    assert isinstance(policy, ActorCritic)
    critic = nn.Sequential(policy.mlp_extractor.value_net, policy.value_net)
    layers = nn.Sequential(policy.mlp_extractor.policy_net, policy.action_net)
    if isinstance(space, spaces.Box):
        assert isinstance(policy.log_std, torch.Tensor)
        return BoxHead(layers, Constant(policy.log_std), space, False), critic
    assert isinstance(space, (spaces.MultiDiscrete, spaces.Discrete))
    choices = int(space.nvec[0]) if isinstance(space, spaces.MultiDiscrete) else int(space.n)
    return ChoiceHead(layers, choices, is_whole), critic
