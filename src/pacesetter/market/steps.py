"""The steps in which a broker takes quantities and quotes prices: lots and ticks."""

from __future__ import annotations

from math import floor

from pacesetter.market.jit import jitable

__all__ = ["SPECK", "to_lots", "to_tick"]

SPECK = 1e-9  # of a step: rounding of what was whole


@jitable
def to_lots(quantity: float, lot: float) -> float:
    """`quantity` in whole lots, towards zero; as it is where the lot is 0."""
    if lot <= 0.0:
        return quantity
    count: float = floor(abs(quantity) / lot + SPECK)
    return count * lot if quantity > 0.0 else -count * lot


@jitable
def to_tick(price: float, quantity: float, tick: float) -> float:
    """`price` at a whole tick against the trader: up for a buyer, down for a seller, who gets at least one tick."""
    if tick <= 0.0:
        return price
    if quantity > 0.0:
        return -floor(-price / tick + SPECK) * tick
    return max(floor(price / tick + SPECK), 1.0) * tick
