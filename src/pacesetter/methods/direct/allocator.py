"""The master of a team: one layer that sets, by the state of the account, what risk costs all agents.

    ν_t        = price · exp(m₁) · Σ_j max(s_j − ν_t, 0)     price of market risk, see `policy.market_price`
    gain_t     = gain · exp(−m₂)                             m₂ > 0: all hold less, in proportion

m is a small network of numbers that belong to the whole account. Its last layer begins at 0, so that an untrained
master leaves both prices as they are. A master that sees the distance from a drawdown limit can hold in proportion to
it, as Grossman and Zhou (1993) do; one price for all symbols could not.
"""

from __future__ import annotations

import torch
from torch import nn

__all__ = ["Allocator", "cushion_left"]

STATES, HIDDEN = 6, 8
MOST_PRICE, MOST_AVERSION = 1.5, 3.0  # logarithms: near a limit next to nothing is to be held
MOST_STATE, SIGNAL_UNIT = 3.0, 5.0  # signals are some 0.2
LEAST_CUSHION = 0.02  # share of the whole cushion: its logarithm is shown


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
        moved: torch.Tensor = torch.tanh(self.layers(shown))
        return moved * torch.tensor([MOST_PRICE, MOST_AVERSION]).to(moved)


def cushion_left(drawdown: torch.Tensor, limit: float) -> torch.Tensor:
    """(row,) share that is left of the cushion: W − (1 − limit) · M over W, against what it is at W = M."""
    return (1.0 - (1.0 - limit) / (1.0 - drawdown).clamp_min(1e-6)) / limit
