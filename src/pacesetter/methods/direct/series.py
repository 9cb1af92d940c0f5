"""A market's bars and observations as tensors over time: what a direct learner rolls its segments over."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pacesetter.envs.batch.bank import Bank
from pacesetter.errors import ConfigError
from pacesetter.market.bars import Bar, Status
from pacesetter.methods.direct.ledger import Fills
from pacesetter.methods.direct.policy import RETURN, DirectPolicy

__all__ = ["MarketSeries", "return_column"]

Array = NDArray[Any]
CHUNK_BARS = 512  # windows that are read at a time: all at once would take a hundred times the memory of the bars


def return_column(bank: Bank) -> int:
    """Which feature of the window is the return of a bar; refuses a table without it."""
    names = bank.names["window"]
    if RETURN not in names:
        raise ConfigError(f"agent=direct reads the feature {RETURN}; add it to features.names={list(names)}")
    return names.index(RETURN)


@dataclass(frozen=True)
class MarketSeries:
    """One market over time; bar 0 of every tensor is bar `first` of the bank, where the first window is complete.

    z            (bar, symbol, lag) moves in units of volatility     volatility   (bar, symbol)
    to_open, to_close, trading, depth   (bar, symbol) `Fills` of an order decided at this bar; the last has none
    earned       (bar, symbol) return from the fill of an order decided here to that of the next; the last two have none
    """

    first: int
    z: torch.Tensor
    volatility: torch.Tensor
    to_open: torch.Tensor
    to_close: torch.Tensor
    trading: torch.Tensor
    depth: torch.Tensor | None
    earned: torch.Tensor

    @classmethod
    def of(cls, bank: Bank, policy: DirectPolicy, needs_depth: bool = False) -> MarketSeries:
        """The bank's one market as the policy reads it, in the policy's precision."""
        # The first bar with a whole window behind it: earlier ones have no signal.
        bars, first = bank.bars[0], policy.history_bars - 1
        z, volatility = _read(bank.windows[0, :, :, policy.column], policy)
        to_open, to_close, trading = _fills(bars)
        depth = bars[:-1, :, Bar.CLOSE] * bars[1:, :, Bar.VOLUME] if needs_depth else None

        def cut(values: Array) -> torch.Tensor:
            return torch.from_numpy(np.ascontiguousarray(values[first:]))

        return cls(
            first,
            z,
            volatility,
            cut(to_open),
            cut(to_close),
            cut(trading),
            None if depth is None else cut(depth),
            cut(_earned(bars)),
        )

    def __len__(self) -> int:
        return len(self.z)

    def to(self, device: torch.device) -> MarketSeries:
        """The same on another device."""
        parts: dict[str, Any] = {each.name: getattr(self, each.name) for each in fields(self)}
        moved = {name: part.to(device) for name, part in parts.items() if isinstance(part, torch.Tensor)}
        return MarketSeries(**parts | moved)

    def fills(self, bars: torch.Tensor) -> Fills:
        """What orders decided at these bars (…,) are paid."""
        depth = None if self.depth is None else self.depth[bars]
        return Fills(self.to_open[bars], self.to_close[bars], self.trading[bars], depth)


@torch.no_grad()
def _read(returns: Array, policy: DirectPolicy) -> tuple[torch.Tensor, torch.Tensor]:
    """Moves and volatility of every window of returns (symbol, bar), as the policy itself reads them."""
    known = torch.from_numpy(np.array(returns)).to(policy.decay.dtype)
    # A view; the policy's own function then reads it, so that learning and serving cannot differ.
    windows = known.unfold(1, policy.history_bars, 1).transpose(0, 1)
    read = [policy.moves(chunk) for chunk in torch.split(windows, CHUNK_BARS)]
    z, volatility = (torch.cat(part) for part in zip(*read, strict=True))
    return z, volatility


def _fills(bars: Array) -> tuple[Array, Array, Array]:
    now, opened, closed = bars[:-1, :, Bar.CLOSE], bars[1:, :, Bar.OPEN], bars[1:, :, Bar.CLOSE]
    is_known = now > 0
    # An order needs a fresh price to be decided on and a bar that trades to be filled in.
    trading = is_known & (bars[1:, :, Bar.STATUS] == Status.TRADING) & (bars[:-1, :, Bar.STATUS] == Status.TRADING)
    # A ratio of 1 where there is no price: nothing is held there, and 0 · NaN would reach the account.
    to_open, to_close = (np.divide(price, now, out=np.ones_like(now), where=is_known) for price in (opened, closed))
    return to_open, to_close, trading.astype(float)


def _earned(bars: Array) -> Array:
    """Open of t+1 → open of t+2, closes likewise on closes-only data; 0 where no order fills."""
    paid, left = bars[1:-1, :, Bar.OPEN], bars[2:, :, Bar.OPEN]
    is_filled = (paid > 0) & (bars[1:-1, :, Bar.STATUS] == Status.TRADING)
    return np.divide(left, paid, out=np.ones_like(paid), where=is_filled) - 1.0
