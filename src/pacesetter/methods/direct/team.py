"""A team in one account: symbol agents on one encoder with heads of their own, and a master that sets what risk costs.

    f_j(t)     = encoder(x_j): the symbol's own last moves, its signal and volatility; with `cross` also Σ_i A_ij · f_i,
                 A the links that the sparse weights found. It depends on bars alone: once a bar for all accounts
    d_j(t)     = (H + H_j) · (f_j, position, plain target): the shared head and the symbol's own
    signal, gain, enter, leave   · exp(d_j₁ … d_j₄)        speed   1 + d_j₅, at most 1
    master     see `allocator`

Heads and master begin at 0: an untrained team is the direct policy, bit for bit. With the objective `cushion` the
master begins at the published rule instead, see `allocator`.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import nn

from pacesetter.methods.direct.allocator import Allocator, cushion_left

__all__ = ["Change", "Team", "TeamState"]

CHANGES, ACCOUNT = 5, 4  # what a head moves; its inputs that belong to the account, and 1
MOST_CHANGE = 1.5  # of a factor's logarithm
LEAST_SPEED, MOST_INPUT, SIGNAL_UNIT = 0.05, 3.0, 5.0
BAR_INPUTS = 5  # beside the lags: signal, its size, log volatility, recent volatility, the market's move


class TeamState(NamedTuple):
    """What a team sees beside signal, volatility and position.

    features   (row, symbol, width) of the encoder        drawdown   (row,) of the account from its highest equity
    """

    features: torch.Tensor
    drawdown: torch.Tensor


class Change(NamedTuple):
    """What a team adds to the plain policy.

    signal, gain, enter, leave, speed   (row, symbol) factors
    price, aversion                     (row, 1) factors that all symbols share
    """

    signal: torch.Tensor
    gain: torch.Tensor
    enter: torch.Tensor
    leave: torch.Tensor
    speed: torch.Tensor
    price: torch.Tensor
    aversion: torch.Tensor


class Team(nn.Module):
    """The agents of `count` symbols with their master.

    width   of the encoder        cross   whether an agent reads its leaders' features
    limit   drawdown at which the account ends: its distance is what the master sees
    """

    leads: torch.Tensor

    def __init__(self, count: int, lags: int, width: int, *, cross: bool = False, limit: float = 0.2) -> None:
        super().__init__()
        self.cross, self.limit = cross, limit
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.encoder = nn.Sequential(
                nn.Linear(lags + BAR_INPUTS, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh()
            )
            self.mix = nn.Linear(2 * width, width) if cross else None
        self.head = nn.Parameter(torch.zeros(width + ACCOUNT, CHANGES))
        self.own = nn.Parameter(torch.zeros(count, width + ACCOUNT, CHANGES))  # what a symbol's head adds to it
        self.allocator = Allocator()
        self.register_buffer("leads", torch.zeros(count, count))  # (leader, follower), columns sum to 1 or are 0

    def agents(self) -> list[nn.Parameter]:
        """Encoder and heads, without the master."""
        return [part for name, part in self.named_parameters() if not name.startswith("allocator")]

    @torch.no_grad()
    def link(self, weights: torch.Tensor) -> None:
        """Take |weights| (lag, leader, follower) of the lags as who reads whom."""
        strength = weights.abs().sum(0).to(self.leads)
        self.leads.copy_(strength / strength.sum(0, keepdim=True).clamp_min(1e-12))

    def bar_inputs(
        self, moves: torch.Tensor, signal: torch.Tensor, level: torch.Tensor, recent: torch.Tensor, market: torch.Tensor
    ) -> torch.Tensor:
        """(row, symbol, input) of own moves (row, symbol, lag), and of the rest (row, symbol)."""
        bars = (signal * SIGNAL_UNIT, signal.abs() * SIGNAL_UNIT, level, recent, market)
        return torch.cat([moves, torch.stack(bars, -1)], -1).clamp(-MOST_INPUT, MOST_INPUT).to(self.head.dtype)

    def encode(self, inputs: torch.Tensor) -> torch.Tensor:
        """(…, symbol, width) features of `bar_inputs`."""
        features: torch.Tensor = self.encoder(inputs)
        if self.mix is None:
            return features
        read = (features.transpose(-1, -2) @ self.leads).transpose(-1, -2)
        mixed: torch.Tensor = torch.tanh(self.mix(torch.cat([features, read], -1)))
        return mixed

    def forward(
        self, state: TeamState, signal: torch.Tensor, level: torch.Tensor, held: torch.Tensor, plain: torch.Tensor
    ) -> Change:
        """What it adds; positions, as held and as the plain policy wants them, in units of the cap (row, symbol)."""
        kind, features = signal.dtype, state.features
        signal, level, held, plain = (each.to(features.dtype) for each in (signal, level, held, plain))
        account = torch.stack([held, held - plain, plain, torch.ones_like(held)], -1).clamp(-MOST_INPUT, MOST_INPUT)
        inputs = torch.cat([features, account], -1)
        moved = torch.tanh((inputs.unsqueeze(-2) @ (self.head + self.own)).squeeze(-2)).to(kind)
        left = cushion_left(state.drawdown, self.limit).to(features.dtype)
        shared = self.allocator(signal, level, held, plain, left).to(kind)
        factors = (MOST_CHANGE * moved).exp()
        return Change(
            signal=factors[..., 0],
            gain=factors[..., 1],
            enter=factors[..., 2],
            leave=factors[..., 3],
            speed=(1.0 + moved[..., 4]).clamp(LEAST_SPEED, 1.0),
            price=shared[..., :1].exp(),
            aversion=(-shared[..., 1:]).exp(),
        )
