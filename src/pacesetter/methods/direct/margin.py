"""Liquidation as a part of the differentiable account: `market.margin` in shares of equity, with gradients.

Where an account is far from its margin, or was liquidated, its result is smooth and autograd's gradient is exact.
Between the two there is a step: the fee, and what the price does after the venue has sold. There the forward pass is
the kernel's and the backward pass that of a sigmoid over `WIDTH` of equity, so that a learner is told to keep away
before it was ever liquidated (a straight-through gradient).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch

from pacesetter.market.parameters import BPS, MarketParameters

__all__ = ["MarginAccount", "MarginRules", "Marks"]

WIDTH = 0.02  # of equity


class Marks(NamedTuple):
    """Prices (…, symbol) over the close of t by which a venue judges; a mark of 0 is the price itself.

    low, high   of t+1          before, after   mark prices at the closes of t and t+1
    """

    low: torch.Tensor
    high: torch.Tensor
    before: torch.Tensor
    after: torch.Tensor


class MarginAccount(NamedTuple):
    """An account inside a bar, in shares of its equity at the close of t.

    cash   (…,)
    held   (…, symbol) positions at the price of that close
    paid   (…, symbol) what they were bought for, negative of a short: margins of their own are a part of it
    """

    cash: torch.Tensor
    held: torch.Tensor
    paid: torch.Tensor


@dataclass(frozen=True)
class MarginRules:
    """The rules by which a venue liquidates, as `market.margin` has them."""

    is_isolated: bool
    initial: float
    maintenance: float
    fee: float
    is_smooth: bool

    @classmethod
    def of(cls, market: MarketParameters, is_smooth: bool) -> MarginRules | None:
        """None without a margin."""
        margin = market.margin
        if margin.mode == "none":
            return None
        initial, maintenance = margin.shares(market.limits.gross_leverage)
        return cls(margin.mode == "isolated", initial, maintenance, margin.liquidation_fee_bps * BPS, is_smooth)

    def judge(
        self, account: MarginAccount, marks: torch.Tensor, prices: torch.Tensor
    ) -> tuple[MarginAccount, torch.Tensor]:
        """The account after what lacks margin at the marks is closed at the prices; what is kept, (…, symbol or 1)."""
        marks = torch.where(marks > 0, marks, prices)
        worth, needed = account.held * marks, self.maintenance * account.held.abs() * marks
        if self.is_isolated:
            spare, is_open = self._own_margin(account) + worth - needed, account.held != 0
        else:
            spare = (account.cash + (worth - needed).sum(-1))[..., None]
            is_open = (account.held != 0).any(-1, keepdim=True)
        kept = self._gate(spare, is_open)
        return self._close(account, kept, prices), kept

    def judge_inside(self, account: MarginAccount, marks: Marks, to_open: torch.Tensor) -> MarginAccount:
        """The account after the worst price of the bar, for positions that have their margin to themselves."""
        is_open, side = account.held != 0, torch.where(account.held > 0, 1.0, -1.0)
        collateral = self._own_margin(account) if self.is_isolated else account.cash[..., None]
        # collateral + h · p = maintenance · |h| · p
        limit = -collateral / torch.where(is_open, account.held - self.maintenance * account.held.abs(), 1.0)
        alone = is_open & (limit > 0) & (marks.after <= 0)
        if not self.is_isolated:
            alone = alone & (is_open.sum(-1, keepdim=True) == 1)
        worst = torch.where(account.held > 0, marks.low, marks.high)
        kept = self._gate(account.held.abs() * side * (worst - limit), alone)
        # A bar that opens beyond the limit fills there.
        level = torch.where(side * to_open > side * limit, limit, to_open)
        level = torch.where(alone, level, to_open)
        return self._close(account, kept if self.is_isolated else kept.prod(-1, keepdim=True), level)

    def _own_margin(self, account: MarginAccount) -> torch.Tensor:
        """Margin of each position less what it cost."""
        return self.initial * account.paid.abs() - account.paid

    def _gate(self, spare: torch.Tensor, can_be_hit: torch.Tensor) -> torch.Tensor:
        """1 where `spare`, as a share of equity, is above 0, or nothing can be hit; else 0."""
        kept = ((spare > 0) | ~can_be_hit).to(spare.dtype)
        if not self.is_smooth:
            return kept
        soft = torch.sigmoid(spare / WIDTH)
        return kept + torch.where(can_be_hit, soft - soft.detach(), 0.0)

    def _close(self, account: MarginAccount, kept: torch.Tensor, prices: torch.Tensor) -> MarginAccount:
        """Close what is not kept, for a fee; a loss beyond the margin is the venue's."""
        value = account.held * prices
        left = value - self.fee * value.abs()
        if self.is_isolated:
            margin = self._own_margin(account) + left
            paid_in = (1 - kept) * (left + (-margin).clamp_min(0.0))
            cash = account.cash + paid_in.sum(-1)
        else:
            is_kept = kept[..., 0]
            cash = is_kept * account.cash + (1 - is_kept) * (account.cash + left.sum(-1)).clamp_min(0.0)
        return MarginAccount(cash, kept * account.held, kept * account.paid)
