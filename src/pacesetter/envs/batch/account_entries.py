"""What an agent sees of its account, number by number, and the compiled function that writes it.

`PositionEntry` and `PortfolioEntry` name the places; an agent of one symbol is shown an account of its own.
"""

from __future__ import annotations

from enum import IntEnum

from pacesetter.arrays import Array, Floats, Singles, Values
from pacesetter.market.bars import Bar, is_trading
from pacesetter.market.jit import jitable
from pacesetter.market.kernel import is_liquidating
from pacesetter.market.orders import Discrete
from pacesetter.market.parameters import Slot
from pacesetter.market.state import Account, Position

__all__ = [
    "ACCOUNT_ENTRIES",
    "BUYS",
    "SELLS",
    "PortfolioEntry",
    "PositionEntry",
    "account_entries",
    "write_account",
    "write_own_accounts",
    "write_own_masks",
]


class PositionEntry(IntEnum):
    """What is seen of one position at the close of t."""

    WEIGHT = 0  # value / equity, negative for a short
    UNREALISED_RETURN = 1  # of the entry price, above 0 for a profit
    FROM_BEST = 2  # the same of the best price since entry: what a trailing stop looks at
    BARS_HELD = 3
    SIGNAL = 4  # the smoothed order s
    ROOM = 5  # what the position cap leaves, as a share of equity
    IS_TRADING = 6  # 0 while the symbol is halted, not listed yet or delisted


class PortfolioEntry(IntEnum):
    """What is seen of the account at the close of t."""

    CASH = 0  # share of equity
    EXPOSURE = 1  # Σ |value| / equity
    NET_EXPOSURE = 2  # Σ value / equity
    DRAWDOWN = 3  # 1 − equity / highest equity so far
    EQUITY_RATIO = 4  # equity / initial cash
    OPEN_SHARE = 5  # open positions / positions
    IS_LIQUIDATING = 6  # 1 from the moment the portfolio's loss limit was met


POSITION_SIZE = len(PositionEntry)
BUYS = (Discrete.BUY_SMALL, Discrete.BUY_MEDIUM, Discrete.BUY_LARGE)
SELLS = (Discrete.SELL_PART, Discrete.SELL_ALL)
# name of an account entry -> where an observation holds it
ACCOUNT_ENTRIES = {entry.name.lower(): f"position.{entry.value}" for entry in PositionEntry} | {
    entry.name.lower(): f"portfolio.{entry.value}" for entry in PortfolioEntry
}


@jitable
def write_account(vector: Singles, account: Floats, positions: Floats, bar: Floats, parameters: Floats) -> None:
    """Fill `vector` (K · PositionEntry + PortfolioEntry,) from an account's rows and its bar (K, Bar) at the close."""
    count, equity = positions.shape[0], account[Account.EQUITY]
    # A ruined account shows zeros, not infinities.
    per_equity = 1.0 / equity if equity > 0.0 else 0.0
    gross, net, held_count = 0.0, 0.0, 0
    for k in range(count):
        held, close = positions[k, Position.QUANTITY], bar[k, Bar.CLOSE]
        weight = held * close * per_equity
        start = k * POSITION_SIZE
        vector[start + PositionEntry.WEIGHT] = weight
        vector[start + PositionEntry.UNREALISED_RETURN] = 0.0
        vector[start + PositionEntry.FROM_BEST] = 0.0
        vector[start + PositionEntry.BARS_HELD] = positions[k, Position.BARS_HELD]
        vector[start + PositionEntry.SIGNAL] = positions[k, Position.SIGNAL]
        # A position that grew beyond its cap has no room, not negative room.
        vector[start + PositionEntry.ROOM] = max(parameters[Slot.POSITION_CAP] - abs(weight), 0.0)
        vector[start + PositionEntry.IS_TRADING] = 1.0 if is_trading(bar, k) else 0.0
        if held != 0.0:
            side = 1.0 if held > 0.0 else -1.0
            vector[start + PositionEntry.UNREALISED_RETURN] = side * (close / positions[k, Position.ENTRY_PRICE] - 1.0)
            vector[start + PositionEntry.FROM_BEST] = side * (close / positions[k, Position.BEST_PRICE] - 1.0)
            gross += abs(weight)
            net += weight
            held_count += 1
    start = count * POSITION_SIZE
    vector[start + PortfolioEntry.CASH] = account[Account.CASH] * per_equity
    vector[start + PortfolioEntry.EXPOSURE] = gross
    vector[start + PortfolioEntry.NET_EXPOSURE] = net
    vector[start + PortfolioEntry.DRAWDOWN] = 1.0 - equity / account[Account.PEAK_EQUITY]
    vector[start + PortfolioEntry.EQUITY_RATIO] = equity / parameters[Slot.INITIAL_CASH]
    vector[start + PortfolioEntry.OPEN_SHARE] = held_count / count
    vector[start + PortfolioEntry.IS_LIQUIDATING] = 1.0 if is_liquidating(account, parameters) else 0.0


def account_entries(vector: Array) -> dict[str, Array]:
    """`position` (symbol, PositionEntry) and `portfolio` (PortfolioEntry,) of a market's account vector (size,)."""
    end = len(vector) - len(PortfolioEntry)
    return {"position": vector[:end].reshape(-1, POSITION_SIZE), "portfolio": vector[end:]}


def write_own_accounts(accounts: Values, position: Values) -> Values:
    """Fill zeros (…, symbol, PortfolioEntry) with accounts that hold one of the positions (…, symbol, ·) each.

    An agent that trades one symbol learned in an account of its own. In a joint account, under a master, in a backtest,
    behind a server or on paper, it is shown this one: what the others hold does not change what it decides. What one
    position does not show is as at the start of an episode: no drawdown, an equity ratio of 1. NumPy and torch alike.
    """
    weight = position[..., PositionEntry.WEIGHT]
    # Equity is cash plus the position, so as shares of equity they add up to 1.
    accounts[..., PortfolioEntry.CASH] = 1 - weight
    accounts[..., PortfolioEntry.EXPOSURE] = abs(weight)
    accounts[..., PortfolioEntry.NET_EXPOSURE] = weight
    accounts[..., PortfolioEntry.EQUITY_RATIO] = 1.0
    accounts[..., PortfolioEntry.OPEN_SHARE] = weight != 0
    return accounts


def write_own_masks(masks: Values, position: Values) -> Values:
    """Fill (…, symbol, 7) booleans, all False, with the discrete orders that such accounts would send, and give them.

    Those are buys where the position cap leaves room, and sales of what is held.
    """
    trades, is_held = position[..., PositionEntry.IS_TRADING] > 0.5, position[..., PositionEntry.WEIGHT] > 0
    may_buy = trades & (position[..., PositionEntry.ROOM] > 0)
    masks[..., Discrete.HOLD] = True
    for order in BUYS:
        masks[..., order] = may_buy
    for order in SELLS:
        masks[..., order] = is_held
    masks[..., Discrete.ADD_TO_WINNER] = may_buy & is_held & (position[..., PositionEntry.UNREALISED_RETURN] > 0)
    return masks
