"""What an agent with a context keeps of its latest bars, and the transitions that are read from it.

A bar is kept as the market's numbers there, the position's weight, the order that was given, and a 1. Everything is
part of an observation or of the agent's own answer, so that training, backtest, paper trading and API keep the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from pacesetter.agents.agent import ACTION_MASK
from pacesetter.agents.layout import Shapes, Tensors
from pacesetter.envs.batch.account_entries import PositionEntry
from pacesetter.market.orders import DISCRETE_AS_CONTINUOUS

__all__ = ["CONTEXT", "NOISE", "BarMemory", "order_numbers"]

CONTEXT, NOISE = "context", "context_noise"  # entries of an observation: what is kept, and the draw of a latent task
WINDOW, POSITION = "window", "position"
ACCOUNT = (POSITION, "portfolio", ACTION_MASK, CONTEXT, NOISE)  # what is not the market's
OWN = 3  # numbers of a kept bar behind the market's: weight, order, 1


@dataclass(frozen=True)
class BarMemory:
    """The latest `bars` bars of an episode, the newest last; bars before its first are 0.

    entries   vectors of the market, in order -> how many numbers         features   of a bar of the window
    column    of the window that holds the return of a bar                cap        of a position, a share of equity
    """

    bars: int
    features: int
    entries: Mapping[str, int]
    column: int
    cap: float

    @classmethod
    def of(cls, shapes: Shapes, bars: int, column: int, cap: float) -> BarMemory:
        """For observations of these shapes."""
        entries = {name: shape[0] for name, shape in shapes.items() if name not in (WINDOW, *ACCOUNT)}
        return cls(bars, shapes[WINDOW][1], entries, column, cap)

    @property
    def shape(self) -> tuple[int, int]:
        """Of what is kept."""
        return self.bars, self.features + sum(self.entries.values()) + OWN

    @property
    def token_size(self) -> int:
        """Numbers of a transition: those of the market, order, reward, and the return that followed."""
        return self.shape[1] - OWN + 3

    def now(self, observation: Tensors) -> torch.Tensor:
        """(row, ·) this bar as it will be kept, without the order."""
        parts = [observation[WINDOW][:, -1], *(observation[name] for name in self.entries)]
        return torch.cat([*parts, observation[POSITION][:, PositionEntry.WEIGHT, None]], dim=-1)

    @staticmethod
    def push(memory: torch.Tensor, now: torch.Tensor, orders: torch.Tensor) -> torch.Tensor:
        """(row, bar, ·) what is kept after `orders` (row,) were given at this bar."""
        newest = torch.cat([now, orders[:, None], torch.ones_like(orders[:, None])], dim=-1)
        return torch.cat([memory[:, 1:], newest[:, None]], dim=1)

    def tokens(
        self, memory: torch.Tensor, observation: Tensors, normaliser: object
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Transitions (row, bar, token_size) from what was kept to this observation, and (row, bar) which were made.

        The reward of a transition is the position held through its bar, as a share of the cap, times the bar's return
        in deviations: what the ledger's reward is before costs, and all that an observation tells of it.
        """
        market, weight, orders, valid = torch.split(memory, [self.shape[1] - OWN, 1, 1, 1], dim=-1)
        now = self.now(observation)
        following = torch.cat([market[:, 1:], now[:, None, :-1]], dim=1)
        held = torch.cat([weight[:, 1:], now[:, None, -1:]], dim=1) / self.cap
        returns = self._scale_market(following, normaliser)[..., self.column, None]
        tokens = torch.cat([self._scale_market(market, normaliser), orders, held * returns, returns], dim=-1)
        return tokens * valid, valid.squeeze(-1)

    def _scale_market(self, market: torch.Tensor, normaliser: Any) -> torch.Tensor:
        """The market's numbers of kept bars, as the encoder's normaliser scales them."""
        parts = torch.split(market, [self.features, *self.entries.values()], dim=-1)
        names = (WINDOW, *self.entries)
        return torch.cat([normaliser.scale_entry(name, part) for name, part in zip(names, parts, strict=True)], dim=-1)


def order_numbers(actions: torch.Tensor, are_discrete: bool) -> torch.Tensor:
    """(row,) orders in [-1, 1] that actions stand for: discrete ones by their number, others as they are."""
    if not are_discrete:
        return actions.flatten().float()
    sizes = torch.tensor(DISCRETE_AS_CONTINUOUS, dtype=torch.float32, device=actions.device)
    return sizes[actions.long()]
