"""The market kernel: one account over one bar, in plain Python that numba compiles for the CPU and for NVIDIA GPUs.

Read `step_account` first; everything below it is one of its lines, and a single fill is in `fill.py`. An account is
cash and K positions. What is decided at the close of bar t (`now`) fills in bar t+1 (`bar`) and is marked at its close:

1. carry      cash earns interest and shorts pay their borrow for the time since the last close
2. decide     each action becomes a quantity, fixed at the close of t; loss limits override it
   settle     funding, dividends, splits, and the liquidation of what lacks margin at the open, where bars say so
3. reduce     orders that make a position smaller fill first, at the open (closes-only: at the close)
4. open       orders that make one larger fill next; when cash is short all of them shrink by one factor
5. exit       stops, then take-profits, inside the bar; a delisting pays out the last price; liquidations
6. mark       equity, drawdown, flags; ruin ends the account

Rows, by the enums that name their columns: account (Account), positions (K, Position), ledger (Column),
fills (K, Fill), now and bar (K, Bar), actions (K,), parameters (Slot). Every function writes only into these rows.
"""

from __future__ import annotations

from math import inf

from pacesetter.arrays import Floats
from pacesetter.market.bars import DELISTED, Bar, has_events, is_delisted, is_trading
from pacesetter.market.events import settle_events
from pacesetter.market.fill import adverse_move, book, fill_order, raise_flag, trade, within_volume
from pacesetter.market.jit import jitable, seldom
from pacesetter.market.ledger import Column, Fill, Flag
from pacesetter.market.margin import (
    has_margin,
    has_own_margin,
    liquidate_alone,
    liquidate_at_close,
    liquidate_at_open,
    liquidation_price,
)
from pacesetter.market.orders import order_quantity, signal, smallest_order, winning_side
from pacesetter.market.parameters import Slot
from pacesetter.market.state import Account, Position
from pacesetter.market.whole_lots import round_orders, to_lots

__all__ = [
    "follow_best_price",
    "gross_value",
    "is_beyond_limit",
    "is_liquidating",
    "open_account",
    "step_account",
]

FILL_SIZE = len(Fill)


@jitable
def open_account(account: Floats, positions: Floats, parameters: Floats) -> None:
    """Start over with the initial cash and no position."""
    account[:] = 0.0
    positions[:] = 0.0
    account[Account.CASH] = parameters[Slot.INITIAL_CASH]
    account[Account.EQUITY] = parameters[Slot.INITIAL_CASH]
    account[Account.PEAK_EQUITY] = parameters[Slot.INITIAL_CASH]


@jitable
def step_account(
    account: Floats,
    positions: Floats,
    ledger: Floats,
    fills: Floats,
    now: Floats,
    bar: Floats,
    actions: Floats,
    kind: int,
    parameters: Floats,
) -> int:
    """Advance one account by one bar, write its ledger and fills, and give the joined `Flag` bits."""
    # The order of these lines is the order of events in a bar; moved, one would use cash or prices not known yet.
    clear(ledger, fills)
    gross = carry(account, positions, ledger, now, bar, parameters)
    decide(account, positions, ledger, fills, now, gross, actions, kind, parameters)
    if has_events(bar):
        settle_events(account, positions, ledger, fills, now, bar)
        if has_margin(parameters):
            liquidate_at_open(account, positions, ledger, fills, now, bar, parameters)
    reduce_positions(account, positions, ledger, fills, bar, parameters)
    open_positions(account, positions, ledger, fills, bar, parameters)
    exit_positions(account, positions, ledger, fills, bar, parameters)
    if has_events(bar) and has_margin(parameters):
        liquidate_at_close(account, positions, ledger, fills, bar, parameters)
    return mark(account, positions, ledger, fills, bar, parameters)


@jitable
def clear(ledger: Floats, fills: Floats) -> None:
    """Empty the columns that fills add to, the others being written in every step, and the rows of fills."""
    ledger[Column.COMMISSION] = 0.0
    ledger[Column.SPREAD] = 0.0
    ledger[Column.SLIPPAGE] = 0.0
    ledger[Column.IMPACT] = 0.0
    ledger[Column.REALISED] = 0.0
    ledger[Column.TURNOVER] = 0.0
    ledger[Column.FUNDING] = 0.0
    ledger[Column.DIVIDEND] = 0.0
    ledger[Column.LIQUIDATION] = 0.0
    ledger[Column.COVERED] = 0.0
    for k in range(fills.shape[0]):
        for column in range(FILL_SIZE):  # of known length, which saves the compiler a call
            fills[k, column] = 0.0


# ---- 1. carry -----------------------------------------------------------------------------------------------------


@jitable
def carry(account: Floats, positions: Floats, ledger: Floats, now: Floats, bar: Floats, parameters: Floats) -> float:
    """Book what the holdings of the close of t earn and cost until the close of t+1, had nothing been traded.

    Gives their gross value at the close of t.
    """
    # P&L is booked here as if nothing traded, and each fill corrects it for its own part of the bar (`book`): the sum
    # then holds exactly, whatever fills, stops and delistings follow.
    gross_pnl, unrealised, gross, short_value = 0.0, 0.0, 0.0, 0.0
    for k in range(positions.shape[0]):
        held, price = positions[k, Position.QUANTITY], now[k, Bar.CLOSE]
        gross_pnl += held * (bar[k, Bar.CLOSE] - price)
        unrealised += held * (price - positions[k, Position.ENTRY_PRICE])
        gross += abs(held) * price
        short_value += (-held if held < 0.0 else 0.0) * price
        positions[k, Position.IMPACT] *= parameters[Slot.IMPACT_LEFT]  # of earlier bars' fills
    ledger[Column.EQUITY_BEFORE] = account[Account.EQUITY]
    ledger[Column.EXPOSURE_BEFORE] = share(gross, account[Account.EQUITY])
    ledger[Column.GROSS_PNL] = gross_pnl
    ledger[Column.UNREALISED_BEFORE] = unrealised
    # The proceeds of a short sale are its collateral: they earn nothing.
    own_cash = account[Account.CASH] - short_value
    rate = parameters[Slot.INTEREST_PER_BAR] if own_cash > 0.0 else parameters[Slot.LOAN_PER_BAR]
    ledger[Column.INTEREST] = own_cash * rate
    ledger[Column.BORROW] = short_value * parameters[Slot.BORROW_PER_BAR]
    account[Account.CASH] += ledger[Column.INTEREST] - ledger[Column.BORROW]
    return gross


# ---- 2. decide ----------------------------------------------------------------------------------------------------


@jitable
def decide(
    account: Floats,
    positions: Floats,
    ledger: Floats,
    fills: Floats,
    now: Floats,
    gross: float,
    actions: Floats,
    kind: int,
    parameters: Floats,
) -> None:
    """Fix each position's order at the close of t; nothing here knows bar t+1."""
    equity = account[Account.EQUITY]
    if is_liquidating(account, parameters):
        account[Account.LIQUIDATING] = 1.0
    # Free cash is measured at the close of t and is the same for every position: the result cannot depend on the order
    # of symbols. What they overspend together, `affordable_share` takes back at the open.
    most = (parameters[Slot.GROSS_LEVERAGE] - parameters[Slot.RESERVE_CASH]) * equity
    free_cash = most - gross
    count, sum_of_orders, sum_of_sizes = positions.shape[0], 0.0, 0.0
    for k in range(count):
        held, entry, price = positions[k, Position.QUANTITY], positions[k, Position.ENTRY_PRICE], now[k, Bar.CLOSE]
        winner = winning_side(held, entry, price)
        order = signal(actions[k], kind, positions[k, Position.SIGNAL], winner, parameters)
        positions[k, Position.SIGNAL] = order
        sum_of_orders += order
        sum_of_sizes += abs(order)
        # The signal above is updated even under a limit, so that the agent's smoothed order does not freeze there.
        if account[Account.LIQUIDATING] != 0.0:
            fills[k, Fill.ORDERED] = -held
            raise_flag(fills, k, Flag.PORTFOLIO_LIMIT)
        elif is_beyond_limit(held, entry, price, parameters):
            fills[k, Fill.ORDERED] = -held
            raise_flag(fills, k, Flag.POSITION_LIMIT)
        elif price > 0.0:
            quantity = order_quantity(order, kind, held, price, equity, free_cash, parameters)
            # A price that is not fresh may be left, never entered on.
            if is_trading(now, k) or quantity * held < 0.0:
                fills[k, Fill.ORDERED] = quantity
    if has_events(now):
        round_orders(account, positions, fills, now, kind, parameters)
    ledger[Column.ORDER] = sum_of_orders / count
    ledger[Column.ORDER_SIZE] = sum_of_sizes / count


@jitable
def is_liquidating(account: Floats, parameters: Floats) -> bool:
    """Whether the account met the portfolio's loss limit, at this close or before: all it does is to close."""
    # A limit that is off is infinite, so its floor is −infinity and never met: no branch is needed.
    floor = (1.0 - parameters[Slot.PORTFOLIO_LOSS_LIMIT]) * account[Account.PEAK_EQUITY]
    is_met: bool = account[Account.LIQUIDATING] != 0.0 or account[Account.EQUITY] <= floor
    return is_met


@jitable
def is_beyond_limit(held: float, entry: float, price: float, parameters: Floats) -> bool:
    """Whether a position has lost so much of its entry price that it is closed whatever the order."""
    limit = parameters[Slot.POSITION_LOSS_LIMIT]
    # Multiplied by |held| · entry instead of divided: no division by an entry price of 0, and one line for both sides.
    is_beyond: bool = held != 0.0 and held * (price - entry) <= -limit * abs(held) * entry
    return is_beyond


# ---- 3. reduce ----------------------------------------------------------------------------------------------------


@jitable
def reduce_positions(
    account: Floats, positions: Floats, ledger: Floats, fills: Floats, bar: Floats, parameters: Floats
) -> None:
    """Fill the orders that make a position smaller, so that their cash is there for the others."""
    for k in range(positions.shape[0]):
        ordered = fills[k, Fill.ORDERED]
        if ordered * positions[k, Position.QUANTITY] < 0.0:
            quantity = within_volume(ordered, fills, k, bar, parameters)
            fill_order(account, positions, ledger, fills, k, quantity, bar, parameters)


# ---- 4. open ------------------------------------------------------------------------------------------------------


@jitable
def open_positions(
    account: Floats, positions: Floats, ledger: Floats, fills: Floats, bar: Floats, parameters: Floats
) -> None:
    """Fill the orders that open a position or add to it; a cut that leaves less than the minimum trade cancels."""
    factor = affordable_share(account, positions, fills, bar, parameters)
    smallest = smallest_order(account[Account.EQUITY], parameters)
    for k in range(positions.shape[0]):
        wanted = quantity_to_add(positions, fills, k, bar, parameters)
        if wanted != 0.0:
            quantity = factor * wanted
            if has_events(bar) and factor < 1.0:
                quantity = to_lots(quantity, bar[k, Bar.LOT])
            # Only a cut order is held to the minimum here: a whole one was checked at the close of t, at that price.
            is_cut = abs(quantity) < abs(fills[k, Fill.ORDERED])
            if not (is_cut and abs(quantity) * bar[k, Bar.OPEN] < smallest):
                fill_order(account, positions, ledger, fills, k, quantity, bar, parameters)


@jitable
def affordable_share(account: Floats, positions: Floats, fills: Floats, bar: Floats, parameters: Floats) -> float:
    """The share ≤ 1 of all openings that keeps gross value ≤ (leverage − reserve) · equity after their costs.

    For a long-only account without leverage that is: cash stays at or above its reserve. Commission is taken as
    minimum + rate · value, which is never less than what will be charged.
    """
    leverage = parameters[Slot.GROSS_LEVERAGE] - parameters[Slot.RESERVE_CASH]
    equity, needed, minimum = account[Account.CASH], 0.0, 0.0
    for k in range(positions.shape[0]):
        price = bar[k, Bar.OPEN]
        equity += positions[k, Position.QUANTITY] * price
        quantity = quantity_to_add(positions, fills, k, bar, parameters)
        if quantity != 0.0:
            left = positions[k, Position.IMPACT]
            move = adverse_move(quantity, bar[k, Bar.VOLUME], bar[k, Bar.COST], left, parameters)
            if has_events(bar):
                move += bar[k, Bar.TICK] / price
            # A fill adds its value to the gross side and takes its cost off equity, which leverage multiplies.
            cost = move + parameters[Slot.COMMISSION] * (1.0 + move)
            needed += abs(quantity) * price * (1.0 + leverage * cost)
            minimum += leverage * parameters[Slot.MINIMUM_COMMISSION]
    if needed == 0.0:
        return 1.0
    budget: float = leverage * equity - gross_value(positions, bar, Bar.OPEN) - minimum
    if needed <= budget:  # never above 1: spare cash does not enlarge an order
        return 1.0
    return max(budget, 0.0) / needed


@jitable
def quantity_to_add(positions: Floats, fills: Floats, k: int, bar: Floats, parameters: Floats) -> float:
    """What the order of position k opens or adds within the bar's volume; 0 where it was a reduction."""
    ordered = fills[k, Fill.ORDERED]
    # A reduction that closed the position leaves it at 0, which looks like an opening: its fill tells them apart.
    if fills[k, Fill.QUANTITY] != 0.0 or ordered * positions[k, Position.QUANTITY] < 0.0:
        return 0.0
    return within_volume(ordered, fills, k, bar, parameters)


# ---- 5. exit ------------------------------------------------------------------------------------------------------


@jitable
def exit_positions(
    account: Floats, positions: Floats, ledger: Floats, fills: Floats, bar: Floats, parameters: Floats
) -> None:
    """Close what a stop, a take-profit, a liquidation or a delisting ends inside the bar."""
    may_liquidate = has_events(bar) and has_own_margin(positions, parameters)
    for k in range(positions.shape[0]):
        held = positions[k, Position.QUANTITY]
        if held != 0.0 and is_delisted(bar, k):
            # A delisted position has no counterparty: it is paid out at the last price, without costs.
            last = bar[k, Bar.CLOSE]
            paid = last * (1.0 + parameters[Slot.DELISTING_RETURN]) if bar[k, Bar.STATUS] == DELISTED else last
            book(account, positions, ledger, fills, k, -held, paid, paid, 0.0, last)
            record_exit(fills, k, -held, paid, 0.0, Flag.DELISTED)
        elif held != 0.0 and may_liquidate:
            exit_with_margin(account, positions, ledger, fills, k, bar, parameters)
        elif held != 0.0 and has_exits(parameters):
            level, reason = exit_level(positions, k, bar, parameters)
            exit_position(account, positions, ledger, fills, k, level, reason, bar, parameters)


@jitable
def exit_position(
    account: Floats,
    positions: Floats,
    ledger: Floats,
    fills: Floats,
    k: int,
    level: float,
    reason: int,
    bar: Floats,
    parameters: Floats,
) -> None:
    """Sell or buy back position k at the level of its exit, within the bar's volume; a level of 0 is none."""
    quantity = within_volume(-positions[k, Position.QUANTITY], fills, k, bar, parameters)
    if level > 0.0 and quantity != 0.0:
        price, commission = trade(account, positions, ledger, fills, k, quantity, level, bar, parameters)
        record_exit(fills, k, quantity, price, commission, reason)


@seldom
def exit_with_margin(
    account: Floats, positions: Floats, ledger: Floats, fills: Floats, k: int, bar: Floats, parameters: Floats
) -> None:
    """The exit of position k, or its liquidation where the bar reaches that price first."""
    side = 1.0 if positions[k, Position.QUANTITY] > 0.0 else -1.0
    last, first = liquidation_price(account, positions, k, bar, parameters), bar[k, Bar.OPEN]
    worst = bar[k, Bar.LOW] if side > 0.0 else bar[k, Bar.HIGH]
    level, reason = exit_level(positions, k, bar, parameters)
    # A stop that is nearer is met before; a take-profit never is, which is the pessimistic reading.
    is_stopped = level > 0.0 and reason != Flag.TAKE_PROFIT and side * level > side * last
    if last > 0.0 and side * worst <= side * last and not is_stopped:
        level = last if side * first > side * last else first
        liquidate_alone(account, positions, ledger, fills, k, level, bar, parameters)
    else:
        exit_position(account, positions, ledger, fills, k, level, reason, bar, parameters)


@jitable
def has_exits(parameters: Floats) -> bool:
    """Whether a stop, a take-profit or a trailing stop is set."""
    stop, target, trailing = parameters[Slot.STOP_LOSS], parameters[Slot.TAKE_PROFIT], parameters[Slot.TRAILING_STOP]
    is_set: bool = stop < inf or target < inf or trailing < inf
    return is_set


@jitable
def exit_level(positions: Floats, k: int, bar: Floats, parameters: Floats) -> tuple[float, int]:
    """Price and reason of the exit that the bar triggers, (0, NONE) without one; the stop goes before the take-profit.

    An exit fills at its level, or at the open where the bar gaps through it. With side = −1 for a short every
    comparison turns round, so one set of lines serves both.
    """
    side = 1.0 if positions[k, Position.QUANTITY] > 0.0 else -1.0
    entry, best, first = positions[k, Position.ENTRY_PRICE], positions[k, Position.BEST_PRICE], bar[k, Bar.OPEN]
    worst_of_bar = bar[k, Bar.LOW] if side > 0.0 else bar[k, Bar.HIGH]
    best_of_bar = bar[k, Bar.HIGH] if side > 0.0 else bar[k, Bar.LOW]
    stop = entry * (1.0 - side * parameters[Slot.STOP_LOSS])
    trailing = best * (1.0 - side * parameters[Slot.TRAILING_STOP])
    reason = Flag.STOP_LOSS
    # The nearer of the two stops is the one that the price meets first.
    if side * trailing > side * stop:
        stop, reason = trailing, Flag.TRAILING_STOP
    # A bar does not tell whether its high or its low came first; the stop first is the pessimistic reading.
    if side * worst_of_bar <= side * stop:
        return (stop if side * first > side * stop else first), reason
    target = entry * (1.0 + side * parameters[Slot.TAKE_PROFIT])
    if side * best_of_bar >= side * target:
        return (target if side * first < side * target else first), Flag.TAKE_PROFIT
    return 0.0, Flag.NONE


@jitable
def record_exit(fills: Floats, k: int, quantity: float, price: float, commission: float, reason: int) -> None:
    """Write the exit's leg of the fill row."""
    fills[k, Fill.EXIT_QUANTITY] = quantity
    fills[k, Fill.EXIT_PRICE] = price
    fills[k, Fill.EXIT_COMMISSION] = commission
    raise_flag(fills, k, reason)


# ---- 6. mark ------------------------------------------------------------------------------------------------------


@jitable
def mark(account: Floats, positions: Floats, ledger: Floats, fills: Floats, bar: Floats, parameters: Floats) -> int:
    """Value the account at the close, complete the ledger row, and say how the bar ended."""
    net_value, gross, unrealised, holding_bars, open_count = 0.0, 0.0, 0.0, 0.0, 0
    for k in range(positions.shape[0]):
        held, close = positions[k, Position.QUANTITY], bar[k, Bar.CLOSE]
        net_value += held * close
        gross += abs(held) * close
        if held != 0.0:
            open_count += 1
            positions[k, Position.BARS_HELD] += 1.0
            holding_bars += positions[k, Position.BARS_HELD]
            unrealised += held * (close - positions[k, Position.ENTRY_PRICE])
            follow_best_price(positions, k, bar)  # after the exits: a bar's own high must not raise its own stop
    equity = account[Account.CASH] + net_value
    account[Account.EQUITY] = equity
    account[Account.PEAK_EQUITY] = max(account[Account.PEAK_EQUITY], equity)
    write_result(account, ledger, equity)
    ledger[Column.EXPOSURE] = share(gross, equity)
    ledger[Column.NET_EXPOSURE] = share(net_value, equity)
    ledger[Column.UNREALISED] = unrealised
    ledger[Column.OPEN_POSITIONS] = open_count
    ledger[Column.HOLDING_BARS] = share(holding_bars, open_count)
    flags = sum_fills(ledger, fills, bar) | ending(account, positions, bar, open_count, parameters)
    ledger[Column.FLAGS] = flags
    return flags


@jitable
def follow_best_price(positions: Floats, k: int, bar: Floats) -> None:
    """Let the trailing stop's reference follow the bar, after the bar's own exits were decided."""
    if positions[k, Position.QUANTITY] > 0.0:
        positions[k, Position.BEST_PRICE] = max(positions[k, Position.BEST_PRICE], bar[k, Bar.HIGH])
    else:
        positions[k, Position.BEST_PRICE] = min(positions[k, Position.BEST_PRICE], bar[k, Bar.LOW])


@jitable
def write_result(account: Floats, ledger: Floats, equity: float) -> None:
    """The money columns: equity_change = gross_pnl − cost + interest + funding + dividend + covered."""
    ledger[Column.EQUITY] = equity
    ledger[Column.EQUITY_CHANGE] = equity - ledger[Column.EQUITY_BEFORE]
    ledger[Column.COST] = (
        ledger[Column.COMMISSION]
        + ledger[Column.SPREAD]
        + ledger[Column.SLIPPAGE]
        + ledger[Column.IMPACT]
        + ledger[Column.BORROW]
        + ledger[Column.LIQUIDATION]
    )
    ledger[Column.NET_PNL] = ledger[Column.GROSS_PNL] - ledger[Column.COST]
    ledger[Column.DRAWDOWN] = 1.0 - equity / account[Account.PEAK_EQUITY]
    ledger[Column.TURNOVER] = share(ledger[Column.TURNOVER], ledger[Column.EQUITY_BEFORE])
    ledger[Column.CASH] = account[Account.CASH]


@jitable
def sum_fills(ledger: Floats, fills: Floats, bar: Floats) -> int:
    """Add the positions' fills into the ledger row, prices weighted by quantity; gives their joined flags."""
    flags, bought, exited = 0, 0.0, 0.0
    size, exit_size, value, exit_value = 0.0, 0.0, 0.0, 0.0
    for k in range(fills.shape[0]):
        quantity, exit_quantity = fills[k, Fill.QUANTITY], fills[k, Fill.EXIT_QUANTITY]
        if abs(quantity) < abs(fills[k, Fill.ORDERED]):
            raise_flag(fills, k, Flag.CUT if is_trading(bar, k) else Flag.HALTED)
        flags |= int(fills[k, Fill.FLAGS])
        bought += quantity
        exited += exit_quantity
        size += abs(quantity)
        exit_size += abs(exit_quantity)
        value += abs(quantity) * fills[k, Fill.PRICE]
        exit_value += abs(exit_quantity) * fills[k, Fill.EXIT_PRICE]
    ledger[Column.FILL_QUANTITY] = bought
    ledger[Column.EXIT_QUANTITY] = exited
    ledger[Column.FILL_PRICE] = share(value, size)
    ledger[Column.EXIT_PRICE] = share(exit_value, exit_size)
    return flags


@jitable
def ending(account: Floats, positions: Floats, bar: Floats, open_count: int, parameters: Floats) -> int:
    """Flags of an account that ends here: ruin, liquidation complete, or its only symbol delisted; else 0."""
    # Ruin is tested first: an account that is ruined while it liquidates counts as ruined.
    if account[Account.EQUITY] <= parameters[Slot.RUIN_EQUITY]:
        return Flag.RUINED | Flag.TERMINATED
    if account[Account.LIQUIDATING] != 0.0 and open_count == 0:
        return Flag.PORTFOLIO_LIMIT | Flag.TERMINATED
    # With several symbols the others can still be traded, so a delisting ends only an account of one.
    if positions.shape[0] == 1 and is_delisted(bar, 0):
        return Flag.DELISTED | Flag.TERMINATED
    return 0


# ---- small sums ---------------------------------------------------------------------------------------------------


@jitable
def gross_value(positions: Floats, bars: Floats, column: int) -> float:
    """Σ |position value| at one price column of the bars."""
    value = 0.0
    for k in range(positions.shape[0]):
        value += abs(positions[k, Position.QUANTITY]) * bars[k, column]
    return value


@jitable
def share(part: float, whole: float) -> float:
    """part / whole; 0 where the whole is not above 0."""
    return part / whole if whole > 0.0 else 0.0
