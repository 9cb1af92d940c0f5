"""The master: what the symbol agents propose, all symbols at once → shares of equity that add up to 1 with the cash.

To a learner it is a fleet with one agent, whose one "symbol" is the portfolio. Symbols and cash attend to each other,
so that any number of symbols in any order will do, and they may come and go: those that are absent get no share.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from pacesetter.agents.agent import CONFIDENCE, PROPOSALS, UNIVERSE, Agent, Observation
from pacesetter.agents.attention import AssetAttention
from pacesetter.agents.heads import ACTOR_GAIN, HALF_LOG_2_PI, Distribution, head_layers
from pacesetter.agents.initialise import initialise_encoder
from pacesetter.agents.layout import Layout, Shapes, Tensors
from pacesetter.agents.normaliser import ObservationNormaliser
from pacesetter.arrays import Array
from pacesetter.errors import ConfigError, check_above, did_you_mean

__all__ = ["Master", "MasterNetwork", "SimplexGaussian", "shares"]

PER_SYMBOL = (PROPOSALS, CONFIDENCE, "leadlag", "regime", "supervised", "position")
PORTFOLIO = "portfolio"
ABSENT = -1e9  # the score of a share of 0; finite, or 0 · −∞ were NaN in a gradient


class SimplexGaussian(Distribution):
    """Scores u ~ N(mean, deviation²) of (batch, symbol + cash), whose softmax are the shares; the action is u itself.

    present  (batch, symbol + cash) false where a symbol is absent: it has no part in shares and probabilities
    """

    def __init__(self, mean: torch.Tensor, log_deviation: torch.Tensor, present: torch.Tensor) -> None:
        self.mean, self.log_deviation, self.present = mean, log_deviation, present

    def sample(self) -> torch.Tensor:
        drawn = self.mean + self.log_deviation.exp() * torch.randn_like(self.mean)
        return drawn.masked_fill(~self.present, ABSENT)

    def mode(self) -> torch.Tensor:
        return self.mean.masked_fill(~self.present, ABSENT)

    def log_prob(self, action: torch.Tensor) -> torch.Tensor:
        # An absent symbol's score is ABSENT, which has no density: its difference is dropped before it is squared.
        z = torch.where(self.present, action - self.mean, 0.0) * torch.exp(-self.log_deviation)
        return self._sum(-0.5 * z**2 - self.log_deviation - HALF_LOG_2_PI)

    def entropy(self) -> torch.Tensor:
        return self._sum((0.5 + HALF_LOG_2_PI + self.log_deviation).expand_as(self.mean))

    def _sum(self, terms: torch.Tensor) -> torch.Tensor:
        return torch.where(self.present, terms, 0.0).sum(-1)


def shares(action: torch.Tensor) -> torch.Tensor:
    """(batch, symbol) shares of equity of an action (batch, symbol + cash); what is missing to 1 stays in cash."""
    # The last entry is cash, which is what remains and needs no order.
    return action.softmax(-1)[..., :-1]


@dataclass(frozen=True)
class MasterNetwork:
    """Sizes of the master, what it sees, and where it begins.

    entries    of each symbol that it sees, where the market has them
    follow     what a proposal of 1 adds to a symbol's score at first: an untrained master follows its agents
    deviation  of the scores when it explores, at first
    """

    width: int = 64
    heads: int = 4
    layers: int = 2
    hidden: int = 64
    follow: float = 3.0
    deviation: float = 1.0
    entries: tuple[str, ...] = PER_SYMBOL

    def __post_init__(self) -> None:
        for name in self.entries:
            if name not in PER_SYMBOL:
                raise ConfigError(f"a master has no entry '{name}'{did_you_mean(name, PER_SYMBOL)}")
        if PROPOSALS not in self.entries:
            raise ConfigError("a master needs its agents' proposals; keep proposals among its entries")
        sizes = {"width": self.width, "heads": self.heads, "layers": self.layers, "hidden": self.hidden}
        check_above(0, owner="master", **sizes, deviation=self.deviation)


class AllocationEncoder(nn.Module):
    """Observation → (batch, symbol + 2): the scores of all symbols and of cash, and the value.

    Cash attends as one more asset, which sees no more of the market than the others show it.
    """

    def __init__(self, config: MasterNetwork, shapes: Shapes) -> None:
        super().__init__()
        self.layout = Layout.of(shapes, "", config.entries, UNIVERSE)
        self.normaliser = ObservationNormaliser(self.layout)
        features = sum(self.layout.assets.values())
        self.start = nn.Parameter(torch.zeros(features))  # what cash shows in place of a symbol's features
        self.follow = nn.Parameter(torch.tensor(config.follow))
        account = sum(self.layout.vectors.values())
        self.attention = AssetAttention(features + account, config.width, config.heads, config.layers)
        self.norm = nn.LayerNorm(config.width)
        initialise_encoder(self.attention)
        self.scores, self.value = (head_layers(config.width, config.hidden, 1, gain) for gain in (ACTOR_GAIN, 1.0))

    def forward(self, observation: Tensors) -> torch.Tensor:
        present = self.layout.present(observation)
        encoded = self.norm(self._attend(self.normaliser(observation), present))
        scores = self.scores(encoded).squeeze(-1)
        # Each symbol begins as likely as another, and cash as all of them together, however many there are.
        evenly = present.sum(1, keepdim=True).clamp(min=1).log()
        # Raw proposals, not normalised ones: a proposal of 0 must add nothing.
        offsets = torch.cat([self.follow * observation[PROPOSALS], evenly], dim=1)
        return torch.cat([scores + offsets, self.value(encoded[:, -1])], dim=1)

    def _attend(self, entries: Tensors, present: torch.Tensor) -> torch.Tensor:
        """(batch, symbol + cash, width)."""
        assets = torch.cat([entries[name] for name in self.layout.assets], dim=-1)
        cash = self.start.expand(assets.shape[0], 1, -1)  # len() would fix the number of rows in an exported graph
        account = torch.cat([entries[name] for name in self.layout.vectors], dim=-1)
        items = torch.cat([assets, cash], dim=1)
        # Every symbol sees the account; it is one vector for all of them.
        items = torch.cat([items, account[:, None].expand(-1, items.shape[1], -1)], dim=-1)
        return self.attention(items, with_cash(present))  # type: ignore[no-any-return]


def with_cash(present: torch.Tensor) -> torch.Tensor:
    """(batch, symbol + cash): cash is always there."""
    return torch.cat([present, present.new_ones(present.shape[0], 1)], dim=1)


class Master(nn.Module, Agent):
    """Policy and value of a whole portfolio from observations of these shapes, without the batch.

    An observation has `proposals`, `confidence` and `universe_mask` (symbol,), `position` and what else there is of
    leadlag, regime and supervised (symbol, ·), and `portfolio`. As a fleet it has one agent, "portfolio".
    """

    frozen: torch.Tensor
    has_state_value: bool = True
    symbols = (PORTFOLIO,)
    actions = None

    def __init__(self, config: MasterNetwork, shapes: Shapes) -> None:
        super().__init__()
        kept = (*config.entries, UNIVERSE, PORTFOLIO)
        self.config = config
        self.shapes = {name: tuple(shape) for name, shape in shapes.items() if name in kept}
        self.encoder = AllocationEncoder(config, self.shapes)
        # One deviation for all symbols: it must not depend on how many there are.
        self.log_deviation = nn.Parameter(torch.tensor([math.log(config.deviation)]))
        self.register_buffer("frozen", torch.zeros(1, dtype=torch.bool))

    def evaluate(self, observation: Tensors) -> tuple[SimplexGaussian, torch.Tensor]:
        """The distribution of shares and the values (batch,)."""
        return self.decide(self.encoder(observation), observation[UNIVERSE] > 0.5)

    def decide(
        self, features: torch.Tensor, mask: torch.Tensor | None = None, rows: torch.Tensor | None = None
    ) -> tuple[SimplexGaussian, torch.Tensor]:
        """The same from the encoder's output and the mask (batch, symbol) of those present."""
        present = torch.ones_like(features[:, :-2], dtype=torch.bool) if mask is None else mask
        return SimplexGaussian(features[:, :-1], self.log_deviation, with_cash(present)), self.value(features, rows)

    def value(self, features: torch.Tensor, rows: torch.Tensor | None = None) -> torch.Tensor:
        """(batch,) values alone."""
        return features[:, -1]

    def places(self, symbols: Iterable[str]) -> list[int]:
        """Where the one agent stands, as a learner asks of a fleet."""
        return [self.symbols.index(symbol) for symbol in symbols]

    @torch.no_grad()
    def act(self, observation: Observation, deterministic: bool = True) -> Array:
        """Shares of equity (symbol,), of a batch (batch, symbol)."""
        single = np.ndim(observation[PROPOSALS]) == 1
        tensors = {name: torch.as_tensor(observation[name], device=self.frozen.device) for name in self.shapes}
        policy, _ = self.evaluate({name: entry[None] for name, entry in tensors.items()} if single else tensors)
        weights = shares(policy.mode() if deterministic else policy.sample()).cpu().numpy()
        return np.asarray(weights[0] if single else weights)
