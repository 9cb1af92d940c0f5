"""The ledger: what the kernel writes about one account and one bar, column by column.

A step decides at the close of bar `t`, fills in bar `t+1` and is marked at the close of `t+1`; "before" means the
close of `t`. Money is in the account's currency. `ledger` is (env, column) with the sums over all positions; `fills`
is (env, position, column) with what each position traded, from which trades are rebuilt exactly.
"""

from __future__ import annotations

from enum import IntEnum

__all__ = ["FILL_COLUMNS", "LEDGER_COLUMNS", "Column", "Fill", "Flag"]


class Column(IntEnum):
    """Columns of a ledger row.

    equity_change = net_pnl + interest + funding + dividend + covered, and net_pnl = gross_pnl − cost.
    """

    EQUITY_BEFORE = 0  # cash plus positions at the close of t
    EQUITY = 1  # the same at the close of t+1
    EQUITY_CHANGE = 2  # EQUITY − EQUITY_BEFORE
    GROSS_PNL = 3  # Σ position · Δprice, at prices before any cost
    NET_PNL = 4  # GROSS_PNL − COST
    COST = 5  # commission, spread, slippage, impact, borrow and liquidation together, never negative
    COMMISSION = 6
    SPREAD = 7  # half the spread on each fill
    SLIPPAGE = 8
    IMPACT = 9  # square-root impact by share of the bar's volume
    BORROW = 10  # for positions held short over the bar
    INTEREST = 11  # on cash; negative where the account borrows it
    REALISED = 12  # closed quantity · (fill price − entry price) − commission, of this bar
    UNREALISED = 13  # Σ quantity · (close − entry price) at the close of t+1
    UNREALISED_BEFORE = 14  # the same at the close of t: did the agent decide on a winner or a loser?
    DRAWDOWN = 15  # 1 − equity / highest equity so far, in [0, …)
    EXPOSURE = 16  # Σ |position value| / equity
    NET_EXPOSURE = 17  # Σ position value / equity
    EXPOSURE_BEFORE = 18  # EXPOSURE at the close of t
    TURNOVER = 19  # value traded / EQUITY_BEFORE
    HOLDING_BARS = 20  # bars since the position was opened; the mean over open positions
    OPEN_POSITIONS = 21  # how many are open at the close of t+1
    CASH = 22  # at the close of t+1
    ORDER = 23  # the order acted on, after smoothing, in [-1, 1]; the mean over positions
    ORDER_SIZE = 24  # |order| in the same way
    FILL_QUANTITY = 25  # signed; the order's own fill, before any stop of the same bar
    FILL_PRICE = 26  # its price with spread, slippage and impact, weighted by quantity; 0 without a fill
    EXIT_QUANTITY = 27  # signed; closed by a stop, a take-profit, a liquidation or a delisting
    EXIT_PRICE = 28  # its price; 0 without one
    FLAGS = 29  # bits of `Flag`, joined over positions
    FUNDING = 30  # received from the other side of perpetuals; negative where it was paid
    DIVIDEND = 31  # received by longs; negative where shorts paid it
    LIQUIDATION = 32  # the venue's fee for closing positions without enough margin
    COVERED = 33  # loss beyond the margin, which the venue bears


class Fill(IntEnum):
    """Columns of one position's row in `fills`."""

    ORDERED = 0  # signed quantity fixed at the close of t
    QUANTITY = 1  # signed quantity filled in bar t+1
    PRICE = 2  # with spread, slippage and impact; 0 without a fill
    COMMISSION = 3
    EXIT_QUANTITY = 4  # signed; stop, take-profit, liquidation or delisting, after the order's own fill
    EXIT_PRICE = 5
    EXIT_COMMISSION = 6
    FLAGS = 7  # bits of `Flag`
    SPLIT = 8  # new for one old at the open of t+1, before the fills; 0 without a split


class Flag(IntEnum):
    """Bits that say what happened in the bar; powers of two, to be joined by `|`."""

    NONE = 0
    OPENED = 1  # a position was opened from flat
    ADDED = 2  # an open position grew
    REDUCED = 4  # a position was closed in part
    CLOSED = 8  # a position was closed in full
    STOP_LOSS = 16
    TRAILING_STOP = 32
    TAKE_PROFIT = 64
    POSITION_LIMIT = 128  # a position beyond its loss limit was sent to be closed
    PORTFOLIO_LIMIT = 256  # the account is beyond its loss limit and closes everything
    CUT = 512  # a fill was smaller than its order: cash, leverage or volume
    HALTED = 1024  # an order met a bar without trading and was cancelled
    DELISTED = 2048
    RUINED = 4096
    TERMINATED = 8192  # ruin, the portfolio limit once flat, or the delisting of the only symbol
    LIQUIDATED = 16384  # closed by the venue for lack of margin


LEDGER_COLUMNS = tuple(column.name.lower() for column in Column)
FILL_COLUMNS = tuple(column.name.lower() for column in Fill)
