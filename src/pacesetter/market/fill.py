"""One fill: the price moved against the trader, its costs, and the books after it. Plain Python that numba compiles."""

from __future__ import annotations

from math import inf, sqrt

from pacesetter.arrays import Floats
from pacesetter.market.bars import Bar, has_events, is_trading
from pacesetter.market.jit import jitable
from pacesetter.market.ledger import Column, Fill, Flag
from pacesetter.market.parameters import Slot
from pacesetter.market.state import Account, Position
from pacesetter.market.whole_lots import to_lots, to_tick

__all__ = ["adverse_move", "book", "fill_order", "raise_flag", "trade", "within_volume"]


@jitable
def fill_order(
    account: Floats,
    positions: Floats,
    ledger: Floats,
    fills: Floats,
    k: int,
    quantity: float,
    bar: Floats,
    parameters: Floats,
) -> None:
    """Trade an order's `quantity` at the open and write its leg of the fill row; 0 means no fill."""
    if quantity != 0.0:
        price, commission = trade(account, positions, ledger, fills, k, quantity, bar[k, Bar.OPEN], bar, parameters)
        fills[k, Fill.QUANTITY] = quantity
        fills[k, Fill.PRICE] = price
        fills[k, Fill.COMMISSION] = commission


@jitable
def within_volume(quantity: float, fills: Floats, k: int, bar: Floats, parameters: Floats) -> float:
    """`quantity`, cut to what the bar's volume cap leaves after the fills so far; 0 in a bar without trading.

    A cut that leaves less than the minimum trade leaves nothing.
    """
    if not is_trading(bar, k):
        return 0.0
    if parameters[Slot.VOLUME_CAP] == inf:
        return quantity
    most: float = parameters[Slot.VOLUME_CAP] * bar[k, Bar.VOLUME]
    taken: float = abs(fills[k, Fill.QUANTITY])
    if abs(quantity) <= most - taken:
        return quantity
    # Compared before it is subtracted: a fused multiply–add would find a speck of room in a cap that is used up.
    if taken >= most or (most - taken) * bar[k, Bar.OPEN] < parameters[Slot.MINIMUM_TRADE]:
        return 0.0
    room = most - taken if quantity > 0.0 else taken - most
    return to_lots(room, bar[k, Bar.LOT]) if has_events(bar) else room


@jitable
def adverse_move(quantity: float, volume: float, own_cost: float, left: float, parameters: Floats) -> float:
    """Fraction by which spread, the symbol's own cost, slippage and impact move the price against the trader.

    left   `Position.IMPACT`, what earlier fills still move the price by
    """
    fixed: float = parameters[Slot.HALF_SPREAD] + own_cost + parameters[Slot.SLIPPAGE]
    return fixed + whole_impact(quantity, volume, left, parameters)


@jitable
def whole_impact(quantity: float, volume: float, left: float, parameters: Floats) -> float:
    """A fill's own impact, and what is `left` of earlier ones on its side.

    The other side gains nothing from it: with a square root, many small purchases before one large sale would pay.
    """
    own = impact(quantity, volume, parameters)
    return own + abs(left) if left * quantity > 0.0 else own


@jitable
def impact(quantity: float, volume: float, parameters: Floats) -> float:
    """Impact as a fraction of the price; its parameters demand a volume cap, so the volume is not 0.

    Square root: η·√(q/V) (Tóth et al. 2011). Linear: η·(q/V). Almgren–Chriss: ½·γ·(q/V) + η·(q/V)^β, half of the
    permanent impact and all of the temporary one, with β = 0.6 as measured by Almgren, Thum, Hauptmann, Li (2005).
    """
    if parameters[Slot.IMPACT] == 0.0 and parameters[Slot.PERMANENT_IMPACT] == 0.0:
        return 0.0
    share: float = abs(quantity) / volume
    at_whole_volume: float = parameters[Slot.IMPACT]
    if parameters[Slot.IMPACT_EXPONENT] == 0.5:
        return at_whole_volume * sqrt(share)
    # Half: the order's own price rises from nothing to the whole of its permanent impact while it is filled.
    permanent: float = 0.5 * parameters[Slot.PERMANENT_IMPACT] * share
    temporary: float = at_whole_volume * share ** parameters[Slot.IMPACT_EXPONENT]
    return permanent + temporary


@jitable
def trade(
    account: Floats,
    positions: Floats,
    ledger: Floats,
    fills: Floats,
    k: int,
    quantity: float,
    level: float,
    bar: Floats,
    parameters: Floats,
) -> tuple[float, float]:
    """Fill a signed quantity at `level` moved against the trader, with its costs; gives (fill price, commission)."""
    volume, value = bar[k, Bar.VOLUME], abs(quantity) * level
    own_cost = bar[k, Bar.COST]
    left = positions[k, Position.IMPACT]
    move = adverse_move(quantity, volume, own_cost, left, parameters)
    price = level * (1.0 + move) if quantity > 0.0 else level * (1.0 - move)
    if has_events(bar):
        exact, price = price, to_tick(price, quantity, bar[k, Bar.TICK])
        ledger[Column.SPREAD] += abs(quantity) * abs(price - exact)
    # Commission is on the price paid, the other costs on the level: each is then what the ledger calls it, and together
    # they are exactly the cash that left the account.
    commission = max(parameters[Slot.MINIMUM_COMMISSION], parameters[Slot.COMMISSION] * abs(quantity) * price)
    ledger[Column.COMMISSION] += commission
    ledger[Column.SPREAD] += value * (parameters[Slot.HALF_SPREAD] + own_cost)
    ledger[Column.SLIPPAGE] += value * parameters[Slot.SLIPPAGE]
    ledger[Column.IMPACT] += value * whole_impact(quantity, volume, left, parameters)
    if parameters[Slot.IMPACT_LEFT] > 0.0:
        moved = impact(quantity, volume, parameters)
        positions[k, Position.IMPACT] += moved if quantity > 0.0 else -moved
    book(account, positions, ledger, fills, k, quantity, level, price, commission, bar[k, Bar.CLOSE])
    return price, commission


@jitable
def book(
    account: Floats,
    positions: Floats,
    ledger: Floats,
    fills: Floats,
    k: int,
    quantity: float,
    level: float,
    price: float,
    commission: float,
    close: float,
) -> None:
    """Move money and quantity: `level` is the price before costs, `price` the one paid, `close` where it is marked."""
    held, entry = positions[k, Position.QUANTITY], positions[k, Position.ENTRY_PRICE]
    after = held + quantity
    account[Account.CASH] -= quantity * price + commission
    # `carry` booked the bar for the old quantity; the new one gains only from the fill's level on.
    ledger[Column.GROSS_PNL] += quantity * (close - level)
    ledger[Column.TURNOVER] += abs(quantity) * level
    ledger[Column.REALISED] -= commission
    positions[k, Position.QUANTITY] = after
    if held * quantity < 0.0:
        ledger[Column.REALISED] -= quantity * (price - entry)  # the entry price of what is left does not change
        raise_flag(fills, k, Flag.REDUCED if after != 0.0 else Flag.CLOSED)
    elif held != 0.0:
        positions[k, Position.ENTRY_PRICE] = (held * entry + quantity * price) / after
        raise_flag(fills, k, Flag.ADDED)
    else:
        positions[k, Position.ENTRY_PRICE] = price
        positions[k, Position.BEST_PRICE] = price
        raise_flag(fills, k, Flag.OPENED)
    if after == 0.0:
        positions[k, Position.ENTRY_PRICE] = 0.0
        positions[k, Position.BEST_PRICE] = 0.0
        positions[k, Position.BARS_HELD] = 0.0


@jitable
def raise_flag(fills: Floats, k: int, flag: int) -> None:
    """Join one `Flag` bit into position k's row."""
    fills[k, Fill.FLAGS] = float(int(fills[k, Fill.FLAGS]) | flag)
