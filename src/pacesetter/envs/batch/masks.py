"""Action masks: a discrete order is allowed where the kernel would send it, by its own rules for quantities."""

from __future__ import annotations

from pacesetter.arrays import Booleans, Floats, Integers
from pacesetter.envs.batch.rows import DISCRETE_COUNT, Cursor, Setting
from pacesetter.market.bars import Bar, has_events, is_trading
from pacesetter.market.jit import jitable
from pacesetter.market.kernel import gross_value, is_beyond_limit, is_liquidating
from pacesetter.market.orders import Discrete, OrderKind, order_quantity, signal, smallest_order, winning_side
from pacesetter.market.parameters import Slot
from pacesetter.market.state import Account, Position
from pacesetter.market.whole_lots import to_lots

__all__ = ["limit_row", "mask_row"]


@jitable
def mask_row(
    e: int, masks: Booleans, bars: Floats, parameters: Floats, accounts: Floats, positions: Floats, cursor: Integers
) -> None:
    """Fill `masks[e]` (K · Discrete,): True where the order would be sent at this close; hold always is."""
    bar, rules = bars[cursor[e, Cursor.BLOCK], cursor[e, Cursor.TIME]], parameters[0, e]
    equity = accounts[e, Account.EQUITY]
    # What the account may hold in all; what it holds already is taken off.
    most = (rules[Slot.GROSS_LEVERAGE] - rules[Slot.RESERVE_CASH]) * equity
    free_cash = most - gross_value(positions[e], bar, Bar.CLOSE)
    is_open = not is_liquidating(accounts[e], rules)
    for k in range(positions.shape[1]):
        held, entry = positions[e, k, Position.QUANTITY], positions[e, k, Position.ENTRY_PRICE]
        price = bar[k, Bar.CLOSE]
        winner = winning_side(held, entry, price)
        is_free = is_open and price > 0.0 and not is_beyond_limit(held, entry, price, rules)
        for order in range(DISCRETE_COUNT):
            quantity = 0.0
            if is_free:
                wanted = signal(order, OrderKind.DISCRETE, 0.0, winner, rules)
                quantity = order_quantity(wanted, OrderKind.DISCRETE, held, price, equity, free_cash, rules)
            if has_events(bar) and quantity != -held:
                quantity = to_lots(quantity, bar[k, Bar.LOT])
                quantity = quantity if abs(quantity) * price >= smallest_order(equity, rules) else 0.0
            # As in the kernel: on a price that is not fresh a position may be left, never entered.
            may_trade = is_trading(bar, k) or quantity * held < 0.0
            masks[e, k * DISCRETE_COUNT + order] = order == Discrete.HOLD or (quantity != 0.0 and may_trade)


@jitable
def limit_row(e: int, masks: Booleans, settings: Floats, cursor: Integers) -> None:
    """Forbid in `masks[e]` (Discrete,) the order that was repeated too often; one that alone is allowed stays."""
    if settings[Setting.REPETITION_LIMIT] <= 0.0 or cursor[e, Cursor.REPEATS] < settings[Setting.REPETITION_LIMIT]:
        return
    allowed = 0
    for order in range(DISCRETE_COUNT):
        if masks[e, order]:
            allowed += 1
    if allowed > 1:
        masks[e, cursor[e, Cursor.ORDER] - 1] = False
