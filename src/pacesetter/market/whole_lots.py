"""Quantities in whole lots and prices in whole ticks; targets rounded by largest remainders."""

from __future__ import annotations

from math import floor

from pacesetter.arrays import Floats
from pacesetter.market.bars import Bar
from pacesetter.market.jit import jitable, seldom
from pacesetter.market.ledger import Fill
from pacesetter.market.orders import OrderKind, smallest_order
from pacesetter.market.state import Account, Position

__all__ = ["round_orders", "to_lots", "to_tick"]

SPECK = 1e-9  # of a step: rounding of what was whole
BISECTIONS = 6
MOST_SINGLES = 4  # lots at a bar that are granted one by one; what they leave is a few cheap lots, and tried again


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


@seldom
def round_orders(account: Floats, positions: Floats, fills: Floats, now: Floats, kind: int, parameters: Floats) -> None:
    """Round the orders decided at the close of t to whole lots; an order that closes a position is left whole.

    Each order is cut towards zero. Where they are targets, the money that this leaves buys single lots in the order of
    the largest remainders, as long as it lasts: together the account then comes as close to its targets as it can.
    """
    money = 0.0
    for k in range(positions.shape[0]):
        held, ordered, lot = positions[k, Position.QUANTITY], fills[k, Fill.ORDERED], now[k, Bar.LOT]
        if lot > 0.0 and ordered != 0.0 and ordered != -held:
            whole = to_lots(ordered, lot)
            side = 1.0 if held + ordered > 0.0 else -1.0
            fills[k, Fill.ORDERED] = whole
            # The remainder in lots, above 0 where the position should be larger, and the position's side: these columns
            # are free until the fill.
            fills[k, Fill.PRICE] = side * (ordered - whole) / lot
            fills[k, Fill.COMMISSION] = side
            money += side * (ordered - whole) * now[k, Bar.CLOSE]
    if kind == OrderKind.TARGET:
        grant_remainders(fills, now, money * (1.0 + SPECK))
    smallest = smallest_order(account[Account.EQUITY], parameters)
    for k in range(positions.shape[0]):
        fills[k, Fill.PRICE] = 0.0
        fills[k, Fill.COMMISSION] = 0.0
        ordered = fills[k, Fill.ORDERED]
        is_close = ordered == -positions[k, Position.QUANTITY]
        if now[k, Bar.LOT] > 0.0 and not is_close and abs(ordered) * now[k, Bar.CLOSE] < smallest:
            fills[k, Fill.ORDERED] = 0.0


@jitable
def grant_remainders(fills: Floats, now: Floats, money: float) -> None:
    """One lot more for the largest remainders (PRICE, with their side in COMMISSION) while the money lasts."""
    # All above a threshold that the money pays for are granted at once; the few around it one by one.
    low, high = SPECK, 1.0
    if price_above(fills, now, low) <= money:
        high = low
    else:
        for _ in range(BISECTIONS):
            middle = 0.5 * (low + high)
            if price_above(fills, now, middle) <= money:
                high = middle
            else:
                low = middle
    for k in range(fills.shape[0]):
        if fills[k, Fill.PRICE] > high:
            money -= grant_lot(fills, now, k)
    for _ in range(MOST_SINGLES if high > low else 0):
        best, most = -1, SPECK
        for k in range(fills.shape[0]):
            if fills[k, Fill.PRICE] > most and now[k, Bar.LOT] * now[k, Bar.CLOSE] <= money:
                best, most = k, fills[k, Fill.PRICE]
        if best < 0:
            return
        money -= grant_lot(fills, now, best)


@jitable
def price_above(fills: Floats, now: Floats, threshold: float) -> float:
    """Money for a lot of each remainder above the threshold."""
    price = 0.0
    for k in range(fills.shape[0]):
        # A product, not a branch, which would be guessed wrong half of the time.
        price += now[k, Bar.LOT] * now[k, Bar.CLOSE] * (1.0 if fills[k, Fill.PRICE] > threshold else 0.0)
    return price


@jitable
def grant_lot(fills: Floats, now: Floats, k: int) -> float:
    """One lot more for position k; gives its price."""
    fills[k, Fill.ORDERED] += fills[k, Fill.COMMISSION] * now[k, Bar.LOT]
    fills[k, Fill.PRICE] = 0.0
    price: float = now[k, Bar.LOT] * now[k, Bar.CLOSE]
    return price
