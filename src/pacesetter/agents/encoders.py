"""Encoders: an observation of named arrays → (batch, width) features. Transformer, MLP, LSTM and GRU, one interface.

Vectors and assets make a context that is added to the window's tokens, so that attention and recurrence see it. Without
a window the context alone is the answer. NETWORKS holds a frozen configuration by name; `network("mlp", width=64)`
changes some of its fields.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import nn

from pacesetter.agents.agent import METHOD_NETWORKS
from pacesetter.agents.attention import AssetAttention, AttentionStack, check_heads, sinusoids
from pacesetter.agents.initialise import initialise_encoder
from pacesetter.agents.layout import Layout, Shapes, Tensors
from pacesetter.agents.normaliser import ObservationNormaliser
from pacesetter.errors import ConfigError, check_range
from pacesetter.registry import Registry, configure

__all__ = [
    "NETWORKS",
    "EncodedClasses",
    "Encoder",
    "Mlp",
    "MlpEncoder",
    "Network",
    "Recurrent",
    "RecurrentEncoder",
    "Transformer",
    "TransformerEncoder",
    "network",
]


@dataclass(frozen=True)
class Network:
    """Options of every network: its width, which entries are the window and the assets, and how assets attend.

    unseen   numbers of the observation that it never sees, as entry.place, e.g. position.3; it reads 0 instead
    is_normalised   whether running means and deviations scale what it sees; false leaves numbers as they are
    """

    encoder: ClassVar[type[Encoder]]
    width: int = 256
    layers: int = 1
    window: str = "window"
    assets: tuple[str, ...] = ("assets",)
    universe_mask: str = "universe_mask"
    asset_layers: int = 2
    asset_heads: int = 4
    unseen: tuple[str, ...] = ()
    is_normalised: bool = True

    def __post_init__(self) -> None:
        sizes = {name: value for name, value in vars(self).items() if type(value) is int}
        # Every whole number here is a size.
        check_range(1, owner="network", **sizes)
        check_heads(self.width, sizes.get("heads", 1))

    @property
    def memory_bars(self) -> int | None:
        """Bars that an answer depends on, where the network itself decides it; None: the window it is given."""
        return None

    def build(self, shapes: Shapes) -> Encoder:
        """A freshly initialised encoder for entries of these shapes, without the batch axis."""
        encoder = self.encoder(self, shapes)
        initialise_encoder(encoder)
        return encoder


class Encoder(nn.Module, ABC):
    """Observation → (batch, width): normalise, join vectors and assets into a context, summarise the window with it."""

    def __init__(self, config: Any, shapes: Shapes) -> None:
        super().__init__()
        self.config, self.width = config, config.width
        self.layout = Layout.of(shapes, config.window, config.assets, config.universe_mask)
        self.normaliser = ObservationNormaliser(self.layout, config.unseen, config.is_normalised)
        self.start = nn.Parameter(torch.zeros(self.width))  # the context of an observation that has only a window
        self.vectors = _vector_encoder(sum(self.layout.vectors.values()), self.width)
        self.assets = _asset_encoder(sum(self.layout.assets.values()), config)
        for features in self.layout.window.values():
            self._build_window(shapes[config.window][0], features)
        # Heads are initialised for inputs of unit variance, whichever encoder comes before.
        self.norm = nn.LayerNorm(self.width)

    def forward(self, observation: Tensors) -> torch.Tensor:
        entries = self.normaliser(observation)
        # The context first, because it is added to every token of the window.
        summary = self._context(entries, observation)
        if self.layout.window:
            summary = self._summarise(entries[self.config.window], summary)
        return self.norm(summary)  # type: ignore[no-any-return]

    @abstractmethod
    def _build_window(self, bars: int, features: int) -> None:
        """Make the modules that `_summarise` uses."""

    @abstractmethod
    def _summarise(self, window: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
        """(batch, width) of a (batch, bar, feature) window and a (batch, width) or (width,) context."""

    def _context(self, entries: Tensors, observation: Tensors) -> torch.Tensor:
        context: torch.Tensor = self.start
        if self.vectors is not None:
            context = context + self.vectors(torch.cat([entries[name] for name in self.layout.vectors], dim=-1))
        if self.assets is not None:
            assets, present = self._universe(entries, observation)
            context = context + self.assets.pool(self.assets(assets, present), present)
        return context

    def _universe(self, entries: Tensors, observation: Tensors) -> tuple[torch.Tensor, torch.Tensor]:
        """(batch, asset, feature) of all entries per asset, and (batch, asset) who is present."""
        return torch.cat([entries[name] for name in self.layout.assets], dim=-1), self.layout.present(observation)

    @torch.no_grad()
    def asset_weights(self, observation: Tensors) -> torch.Tensor:
        """(batch, layer, head, asset, asset) shares that each asset gives each other; refuses one without assets."""
        if self.assets is None:
            raise ConfigError("this network has no assets that attend to each other; name them in network.assets")
        return self.assets.weights(*self._universe(self.normaliser(observation), observation))


class EncodedClasses(nn.Module):
    """A network that maps an observation to logits (batch, class) by an encoder, for others to read.

    shapes   of the entries that it takes        classes   how many there are
    """

    encoder: Encoder
    shapes: Shapes
    classes: int


def _vector_encoder(features: int, width: int) -> nn.Sequential | None:
    if features == 0:
        return None
    return nn.Sequential(nn.Linear(features, width), nn.GELU(), nn.Linear(width, width))


def _asset_encoder(features: int, config: Network) -> AssetAttention | None:
    if features == 0:
        return None
    return AssetAttention(features, config.width, config.asset_heads, config.asset_layers)


class TransformerEncoder(Encoder):
    """Bars attend to each other; the newest bar's token is the answer."""

    positions: torch.Tensor

    def _build_window(self, bars: int, features: int) -> None:
        self.embed = nn.Linear(features, self.width)
        # A buffer, not a parameter: fixed, but saved, exported and moved with the network.
        self.register_buffer("positions", sinusoids(bars, self.width))
        self.stack = AttentionStack(self.config.layers, self.width, self.config.heads, self.config.expansion)

    def _summarise(self, window: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
        # No causal mask: the window ends at the bar of the decision, so every bar in it is past.
        return self.stack.forward_last(self._tokens(window, context))

    def _tokens(self, window: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
        """(batch, bar, width), in bfloat16 where layers compute in it: what blocks add to stays as narrow."""
        embedded: torch.Tensor = self.embed(window)
        return embedded + self.positions.to(embedded.dtype) + context.unsqueeze(-2).to(embedded.dtype)

    @torch.no_grad()
    def attention_weights(self, observation: Tensors) -> torch.Tensor:
        """(batch, layer, head, bar, bar) shares that each bar gives each other; refuses an observation without bars."""
        if not self.layout.window:
            raise ConfigError("this network has no window whose bars attend to each other; read asset_weights instead")
        entries = self.normaliser(observation)
        return self.stack.weights(self._tokens(entries[self.config.window], self._context(entries, observation)))


class RecurrentEncoder(Encoder):
    """An LSTM or GRU reads the bars in order; its last state is the answer."""

    def _build_window(self, bars: int, features: int) -> None:
        self.embed = nn.Linear(features, self.width)
        cell = {"lstm": nn.LSTM, "gru": nn.GRU}[self.config.cell]
        self.memory = cell(self.width, self.width, num_layers=self.config.layers, batch_first=True)

    def _summarise(self, window: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
        states, _ = self.memory(self.embed(window) + context.unsqueeze(-2))
        return states[:, -1]  # type: ignore[no-any-return]


class MlpEncoder(Encoder):
    """The flattened window through layers of GELU."""

    def _build_window(self, bars: int, features: int) -> None:
        self.embed = nn.Linear(bars * features, self.width)
        layers = [nn.Sequential(nn.GELU(), nn.Linear(self.width, self.width)) for _ in range(self.config.layers)]
        self.hidden = nn.Sequential(*layers)

    def _summarise(self, window: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
        return self.hidden(self.embed(window.flatten(1)) + context)  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Transformer(Network):
    """Sizes of a transformer; the feed-forward is `expansion` times as wide."""

    encoder: ClassVar[type[Encoder]] = TransformerEncoder
    layers: int = 4
    heads: int = 8
    expansion: int = 4


@dataclass(frozen=True)
class Recurrent(Network):
    """Sizes of an LSTM or GRU."""

    encoder: ClassVar[type[Encoder]] = RecurrentEncoder
    cell: Literal["lstm", "gru"] = "lstm"


@dataclass(frozen=True)
class Mlp(Network):
    """Sizes of a multi-layer perceptron."""

    encoder: ClassVar[type[Encoder]] = MlpEncoder
    layers: int = 2


NETWORKS: Registry[Network] = Registry("network")
NETWORKS.add("transformer", Transformer())
NETWORKS.add("transformer_medium", Transformer(width=128, layers=3, heads=4))
NETWORKS.add("transformer_small", Transformer(width=64, layers=2, heads=4))
NETWORKS.add("mlp", Mlp())
NETWORKS.add("mlp_small", Mlp(width=64, layers=1))
NETWORKS.add("mlp_tiny", Mlp(width=32, layers=1))
NETWORKS.add("lstm", Recurrent(cell="lstm"))
NETWORKS.add("gru", Recurrent(cell="gru"))


def network(name: str, **options: object) -> Network:
    """The registered configuration with some fields changed; refuses unknown names and fields, and wrong types."""
    if name in METHOD_NETWORKS:
        raise ConfigError(f"network={name} is one of agent=direct; take that, or agent.network=cross here")
    default = NETWORKS[name]
    return configure(type(default), dataclasses.asdict(default) | options, "network")


from pacesetter.agents import cross as _cross  # noqa: E402, F401  (registers its networks, by the classes above)
from pacesetter.agents.stream import encoder as _stream  # noqa: E402, F401
