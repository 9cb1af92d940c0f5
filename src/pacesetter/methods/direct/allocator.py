"""The master of a team: one layer that sets, by the state of the account, what risk costs all agents.

    ν_t        = price · exp(m₁) · Σ_j max(s_j − ν_t, 0)     price of market risk, see `policy.market_price`
    gain_t     = gain · left^k · exp(−m₂)                    left: of the cushion above a drawdown limit, 1 at the top

m is a small network of numbers that belong to the whole account. Its last layer begins at 0, so that an untrained
master leaves both prices as they are; so does k = 0. With k = 1 the account holds in proportion to its cushion, as
Grossman and Zhou (1993) do; one price for all bars could not.
"""

from __future__ import annotations

import torch
from torch import nn

__all__ = ["Allocator", "cushion_left"]

STATES, HIDDEN = 6, 8
MOST_PRICE, MOST_AVERSION = 1.5, 3.0  # logarithms: near a limit next to nothing is to be held
MOST_STATE, SIGNAL_UNIT = 4.0, 5.0  # signals are some 0.2
LEAST_CUSHION, NO_CUSHION = 0.02, 1e-9  # share of the whole cushion, as it is shown and as it is held by: logarithms


class Allocator(nn.Module):
    """State of accounts (row,) → logarithms of the factors of price and of risk aversion, (row, 2)."""

    def __init__(self) -> None:
        super().__init__()
        # Drawn by a seed of its own, so that a run repeats and leaves torch's global stream to the others.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(1)
            first, last = nn.Linear(STATES, HIDDEN), nn.Linear(HIDDEN, 2)
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)
        self.layers = nn.Sequential(first, nn.Tanh(), last)
        self.level = nn.Parameter(torch.zeros(2))  # of both logarithms, whatever the state
        self.power = nn.Parameter(torch.tensor(0.0))  # k

    def few(self) -> list[nn.Parameter]:
        """The numbers that act in every state, which can learn as fast as the shape."""
        return [self.level, self.power]

    def forward(
        self, signal: torch.Tensor, level: torch.Tensor, held: torch.Tensor, plain: torch.Tensor, left: torch.Tensor
    ) -> torch.Tensor:
        """Of signals, log volatilities, and positions as held and as the plain shape wants them, in units of the
        cap (row, symbol).

        left   (row,) of the cushion above the drawdown limit, 1 at the highest equity
        """
        state = (
            *(signal.mean(-1) * SIGNAL_UNIT, signal.abs().mean(-1) * SIGNAL_UNIT, level.mean(-1)),
            *(held.mean(-1), plain.mean(-1), left.clamp_min(LEAST_CUSHION).log()),
        )
        shown = torch.stack(state, -1).clamp(-MOST_STATE, MOST_STATE)
        moved: torch.Tensor = torch.tanh(self.layers(shown) + self.level)
        # The logarithm of the cushion that is left is below 0: less of it is more aversion, down to holding nothing.
        power = torch.stack([torch.zeros_like(self.power), -self.power])
        cushion = left.clamp_min(NO_CUSHION).log()[..., None]
        return moved * torch.tensor([MOST_PRICE, MOST_AVERSION]).to(moved) + cushion * power


def cushion_left(drawdown: torch.Tensor, limit: float) -> torch.Tensor:
    """(row,) share that is left of the cushion: W − (1 − limit) · M over W, against what it is at W = M."""
    return (1.0 - (1.0 - limit) / (1.0 - drawdown).clamp_min(1e-6)) / limit
