"""The cross encoder: a symbol's agent reads the last moves of the symbols that lead it.

Attention over leaders m and delays l of one symbol (Vaswani et al. 2017), by head:

    logit[m, l] = q·k(moves of m)/√d + score · S_m + link · |C_l,m| + delay_l        share = exp(logit) / (1 + Σ exp)

S is the lead–lag matrix of the chosen window and C_l,m the correlation with that leader at that delay, both additive
biases with a learned scale: the delay of each pair is its own. The 1 is for none of them: nothing is read then.
Who the leaders are is in the entry `leaders`, see `leadlag.leaders`; their order does not matter to the sum.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import nn

from pacesetter.agents.encoders import NETWORKS, Encoder, MlpEncoder, Network
from pacesetter.agents.layout import Shapes, Tensors
from pacesetter.errors import ConfigError

__all__ = ["LEADERS", "Cross", "CrossEncoder", "LeaderAttention"]

LEADERS = "leaders"  # entry (leader · column,): place, score, and a link and a move for each delay
PLACE, SCORE, LINKS = 0, 1, 2  # columns of a leader; a place below 0 stands for none
NEVER = -1e9  # logit of a leader that there is not; finite, so that a gradient through it is 0
FIRST_LINK = 20.0  # scale of |C|: a correlation of 0.2 begins with e⁴ times the share of one that is noise
FIRST_DELAY = -4.0  # logit of a pair without a link: forty of them begin with 0.7 of what "no leader" has
LINKED = 10.0  # a move times its link is so small that the network would not see it


class LeaderAttention(nn.Module):
    """(batch, leader · column) of one symbol with a (batch, width) query to (batch, width) of what its leaders did."""

    def __init__(self, config: Cross) -> None:
        super().__init__()
        width, self.heads, self.lags, self.leaders = config.width, config.heads, config.lags, config.leaders
        if width % self.heads:
            raise ConfigError(f"a width of {width} does not split into {self.heads} heads; choose a multiple")
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(self.lags, width)
        self.value = nn.Linear(2, width)  # of a move, and of the move times its link
        self.output = nn.Linear(width, width)
        self.score = nn.Parameter(torch.ones(self.heads))
        self.link = nn.Parameter(torch.full((self.heads,), FIRST_LINK))
        self.delay = nn.Parameter(torch.full((self.heads, self.lags), FIRST_DELAY))

    def forward(self, query: torch.Tensor, entry: torch.Tensor) -> torch.Tensor:
        rows = self._rows(entry)
        links, moves = self._links(rows), self._moves(rows)
        values = self.value(torch.stack([moves, LINKED * moves * links], dim=-1))  # (batch, leader, lag, width)
        values = values.flatten(1, 2).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        mixed = self.shares(query, entry).flatten(2).unsqueeze(2) @ values  # (batch, head, 1, width of a head)
        return self.output(mixed.flatten(1))  # type: ignore[no-any-return]

    def shares(self, query: torch.Tensor, entry: torch.Tensor) -> torch.Tensor:
        """(batch, head, leader, lag) shares of the attention; what is missing to 1 goes to no leader."""
        rows = self._rows(entry)
        asked = self.query(query).unflatten(-1, (self.heads, 1, -1))
        keys = self.key(self._moves(rows)).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        logits = (asked * keys).sum(-1) / math.sqrt(keys.shape[-1])  # (batch, head, leader)
        logits = logits + self.score[:, None] * rows[:, None, :, SCORE]
        biased = logits[..., None] + self.link[:, None, None] * self._links(rows).abs()[:, None]
        biased = biased + self.delay[:, None, :]
        is_there = rows[:, None, :, PLACE, None] >= 0
        flat = torch.where(is_there, biased, NEVER).flatten(2)
        no_leader = torch.zeros_like(flat[..., :1])
        shares = torch.cat([flat, no_leader], dim=-1).softmax(-1)[..., :-1]
        return torch.unflatten(shares, -1, (self.leaders, self.lags))

    def _rows(self, entry: torch.Tensor) -> torch.Tensor:
        return torch.unflatten(torch.nan_to_num(entry), -1, (self.leaders, -1))

    def _links(self, rows: torch.Tensor) -> torch.Tensor:
        return rows[..., LINKS : LINKS + self.lags]

    def _moves(self, rows: torch.Tensor) -> torch.Tensor:
        return rows[..., LINKS + self.lags :]


class CrossEncoder(MlpEncoder):
    """An MLP on the symbol's own observation, and attention to its leaders; the account joins after it.

    The query is the symbol's own window, so that shares depend on bars alone: they are the same for every account.
    """

    def __init__(self, config: Any, shapes: Shapes) -> None:
        # Not normalised with the rest: moves are in deviations already, and a place is not a quantity.
        super().__init__(config, {name: shape for name, shape in shapes.items() if name != LEADERS})
        self.across: LeaderAttention | None = None
        if LEADERS in shapes:
            self.across = LeaderAttention(config)
            expected = config.leaders * (2 * config.lags + LINKS)
            if tuple(shapes[LEADERS]) != (expected,):
                raise ConfigError(
                    f"network=cross reads {config.leaders} leaders with {config.lags} lags, {expected} numbers, and "
                    f"the observation has {shapes[LEADERS]}; give features.leadlag.leaders and leader_lags the same"
                )
            bars = math.prod(shapes[config.window]) if self.layout.window else 1
            self.ask = nn.Linear(bars, self.width)

    def _context(self, entries: Tensors, observation: Tensors) -> torch.Tensor:
        context = super()._context(entries, observation)
        if self.across is None:
            return context
        return context + self.across(self._query(entries, observation), observation[LEADERS])  # type: ignore[no-any-return]

    def _query(self, entries: Tensors, observation: Tensors) -> torch.Tensor:
        """(batch, width) what the symbol asks for."""
        if self.layout.window:
            return self.ask(entries[self.config.window].flatten(1))  # type: ignore[no-any-return]
        return self.ask(torch.zeros_like(observation[LEADERS][:, :1]))  # type: ignore[no-any-return]

    @torch.no_grad()
    def leader_shares(self, observation: Tensors) -> torch.Tensor:
        """(batch, leader, lag) shares of the attention, mean over heads; needs no account in the observation."""
        if self.across is None:
            raise ConfigError("this network was made without leaders; give agent.network=cross for several symbols")
        window = self.config.window
        inputs = {window: self.normaliser.scale_entry(window, observation[window])} if self.layout.window else {}
        shares: torch.Tensor = self.across.shares(self._query(inputs, observation), observation[LEADERS])
        return shares.mean(1)


@dataclass(frozen=True)
class Cross(Network):
    """Sizes of a cross encoder.

    leaders   of each symbol that it may attend to, the strongest by the lead–lag of the window; more than there are
              symbols is all of them
    lags      last moves of each leader, which is the longest delay
    """

    encoder: ClassVar[type[Encoder]] = CrossEncoder
    width: int = 64
    heads: int = 4
    leaders: int = 8
    lags: int = 5


NETWORKS.add("cross", Cross())
NETWORKS.add("cross_small", Cross(width=32, heads=2))
