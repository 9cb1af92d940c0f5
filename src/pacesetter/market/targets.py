"""What the agents of many symbols want as targets of one account: proportional, capped, pro rata if oversubscribed."""

from __future__ import annotations

import numpy as np

from pacesetter.arrays import Array
from pacesetter.market.orders import as_targets, target_range
from pacesetter.market.parameters import MarketParameters

__all__ = ["joint_targets", "within_account"]


def joint_targets(proposals: Array, held: Array, market: MarketParameters, *, are_targets: bool = False) -> Array:
    """(symbol,) shares of equity to hold, from what each agent proposes in [-1, 1] and the shares held now.

    Where proposals are targets, -1 stands for the lowest and 1 for the highest there is. Otherwise they are orders: one
    beyond the hold zone asks for its share of the position cap, one against the position closes that share of it,
    and within the zone the position stays. An order for more never sells.
    """
    if are_targets:
        return within_account(as_targets(proposals, market), market)
    low, cap = target_range(market)
    wanted = np.clip(cap * proposals, low, cap)
    grown = np.where(np.abs(wanted) > np.abs(held), wanted, held)
    targets = np.where(proposals * held < 0, held * (1 - np.abs(proposals)), grown)
    return within_account(np.where(np.abs(proposals) < market.orders.hold_zone, held, targets), market)


def within_account(targets: Array, market: MarketParameters) -> Array:
    """The targets within the position cap, and all scaled by one factor where together they ask for too much."""
    low, cap = target_range(market)
    capped = np.clip(targets, low, cap)
    gross, most = np.abs(capped).sum(), market.limits.gross_leverage - market.limits.reserve_cash_fraction
    return capped * (most / gross) if gross > most else capped
