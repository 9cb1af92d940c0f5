"""Margin: when the venue closes a position, at which price, and what the account still owes then.

Judged at the open, before the orders fill, at the worst price of the bar where only one position shares the margin, and
at the close. Extremes of several symbols are not of one moment, so that positions with a common margin are judged at
opens and closes alone. With a mark price the venue judges by that, at closes.

cross      equity ≤ maintenance · Σ |quantity| · price                        all positions are closed
isolated   initial · |q| · entry + q · (price − entry) ≤ maintenance · |q| · price    this one is closed

A liquidation fills at its level, or at the open where the bar gaps through it, and pays its fee. What is lost beyond
the margin then is the venue's: COVERED.
"""

from __future__ import annotations

from pacesetter.arrays import Floats
from pacesetter.market.bars import Bar
from pacesetter.market.fill import book, raise_flag
from pacesetter.market.jit import jitable, seldom
from pacesetter.market.ledger import Column, Fill, Flag
from pacesetter.market.parameters import MARGIN_MODES, Slot
from pacesetter.market.state import Account, Position

__all__ = [
    "has_margin",
    "has_own_margin",
    "liquidate_alone",
    "liquidate_at_close",
    "liquidate_at_open",
    "liquidation_price",
]

ISOLATED = float(MARGIN_MODES.index("isolated"))


@jitable
def has_margin(parameters: Floats) -> bool:
    """Whether a venue liquidates."""
    is_on: bool = parameters[Slot.MARGIN] != 0.0
    return is_on


@jitable
def has_own_margin(positions: Floats, parameters: Floats) -> bool:
    """Whether each position has its margin to itself: they are isolated, or there is only one."""
    count = 0
    for k in range(positions.shape[0]):
        count += 1 if positions[k, Position.QUANTITY] != 0.0 else 0
    is_own: bool = parameters[Slot.MARGIN] == ISOLATED or (parameters[Slot.MARGIN] != 0.0 and count == 1)
    return is_own


@seldom
def liquidate_at_open(
    account: Floats, positions: Floats, ledger: Floats, fills: Floats, now: Floats, bar: Floats, parameters: Floats
) -> None:
    """Close at the open what has too little margin there, or at the mark of the close before; cancel its order."""
    liquidate(account, positions, ledger, fills, now, bar, Bar.OPEN, parameters)


@seldom
def liquidate_at_close(
    account: Floats, positions: Floats, ledger: Floats, fills: Floats, bar: Floats, parameters: Floats
) -> None:
    """Close at the close what has too little margin there, by the mark price where there is one."""
    liquidate(account, positions, ledger, fills, bar, bar, Bar.CLOSE, parameters)


@jitable
def liquidate(
    account: Floats,
    positions: Floats,
    ledger: Floats,
    fills: Floats,
    marked: Floats,
    bar: Floats,
    column: int,
    parameters: Floats,
) -> None:
    """Judge by the marks of `marked`, else by the price `column` of the bar; fill at the latter."""
    is_isolated = parameters[Slot.MARGIN] == ISOLATED
    equity, needed = account[Account.CASH], 0.0
    for k in range(positions.shape[0]):
        held = positions[k, Position.QUANTITY]
        if held != 0.0:
            price = marked[k, Bar.MARK] if marked[k, Bar.MARK] > 0.0 else bar[k, column]
            maintenance = parameters[Slot.MAINTENANCE_MARGIN] * abs(held) * price
            equity += held * price
            needed += maintenance
            if is_isolated and own_margin(positions, k, parameters) + held * price <= maintenance:
                fills[k, Fill.ORDERED] = 0.0 if column == Bar.OPEN else fills[k, Fill.ORDERED]
                liquidate_position(account, positions, ledger, fills, k, bar[k, column], bar, parameters)
    if not is_isolated and needed > 0.0 and equity <= needed:
        for k in range(positions.shape[0]):
            fills[k, Fill.ORDERED] = 0.0 if column == Bar.OPEN else fills[k, Fill.ORDERED]
            if positions[k, Position.QUANTITY] != 0.0:
                liquidate_position(account, positions, ledger, fills, k, bar[k, column], bar, parameters)
        cover(account, ledger, -account[Account.CASH])


@jitable
def own_margin(positions: Floats, k: int, parameters: Floats) -> float:
    """Margin of position k less what it cost: with its value, what it is worth to the venue."""
    held, entry = positions[k, Position.QUANTITY], positions[k, Position.ENTRY_PRICE]
    worth: float = parameters[Slot.INITIAL_MARGIN] * abs(held) * entry - held * entry
    return worth


@jitable
def liquidation_price(account: Floats, positions: Floats, k: int, bar: Floats, parameters: Floats) -> float:
    """The price inside the bar at which position k, alone with its margin, uses it up; 0 where a mark price decides.

    collateral + q · p = maintenance · |q| · p, with the account's cash as collateral, or the position's own.
    """
    held = positions[k, Position.QUANTITY]
    if bar[k, Bar.MARK] > 0.0:
        return 0.0
    collateral = account[Account.CASH]
    if parameters[Slot.MARGIN] == ISOLATED:
        collateral = own_margin(positions, k, parameters)
    price: float = -collateral / (held - parameters[Slot.MAINTENANCE_MARGIN] * abs(held))
    return max(price, 0.0)


@jitable
def liquidate_alone(
    account: Floats,
    positions: Floats,
    ledger: Floats,
    fills: Floats,
    k: int,
    level: float,
    bar: Floats,
    parameters: Floats,
) -> None:
    """Liquidate the one position that its margin is for, inside the bar."""
    liquidate_position(account, positions, ledger, fills, k, level, bar, parameters)
    if parameters[Slot.MARGIN] != ISOLATED:
        cover(account, ledger, -account[Account.CASH])


@jitable
def liquidate_position(
    account: Floats,
    positions: Floats,
    ledger: Floats,
    fills: Floats,
    k: int,
    level: float,
    bar: Floats,
    parameters: Floats,
) -> None:
    """The venue takes position k over at `level` for its fee; with margins of their own the loss ends there."""
    held = positions[k, Position.QUANTITY]
    fee = parameters[Slot.LIQUIDATION_FEE] * abs(held) * level
    left = own_margin(positions, k, parameters) + held * level - fee
    ledger[Column.LIQUIDATION] += fee
    book(account, positions, ledger, fills, k, -held, level, level, fee, bar[k, Bar.CLOSE])
    # After a stop that the bar's volume cut short there is an exit already.
    earlier = fills[k, Fill.EXIT_QUANTITY]
    fills[k, Fill.EXIT_PRICE] = (earlier * fills[k, Fill.EXIT_PRICE] - held * level) / (earlier - held)
    fills[k, Fill.EXIT_QUANTITY] = earlier - held
    fills[k, Fill.EXIT_COMMISSION] += fee
    raise_flag(fills, k, Flag.LIQUIDATED)
    if parameters[Slot.MARGIN] == ISOLATED:
        cover(account, ledger, -left)


@jitable
def cover(account: Floats, ledger: Floats, loss: float) -> None:
    """Let the venue bear a loss beyond the margin, if there is one."""
    if loss > 0.0:
        account[Account.CASH] += loss
        ledger[Column.COVERED] += loss
