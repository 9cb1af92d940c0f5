"""The trading components: each formula once, for arrays and for the compiler.

A formula here is element-wise. NumPy and torch run it on (env,) columns; numba compiles the very same function for one
account, for the CPU and for a GPU (`rows.py`).

Values are in natural units (log equity, shares of equity, −1 for a bar); weights bring them to about [-1, 1].

The professional set judges how a profit is made. A multiplier m on profit enters as what it adds, (m − 1)·r, so that
with weight 1 beside `pnl` it multiplies, and with weight 0 it is gone. Gains and losses are multiplied alike and m is
fixed by what was decided before the bar, so that noise of mean zero still pays zero. In an account of several
positions the flags are joined, and a rule about "the position" is about the account.
"""

from __future__ import annotations

from pacesetter.market.jit import jitable
from pacesetter.market.ledger import Flag
from pacesetter.rewards.codes import Remembered, register_formula
from pacesetter.rewards.elementwise import has, log1p, maximum, minimum, sqrt, where

__all__ = ["PROFESSIONAL", "TRADING", "pnl"]

WORST_RETURN = -0.999  # a lost account gives log(0.001), not minus infinity
SMALLEST_VARIANCE = 1e-12  # of returns; below it a Sharpe ratio means nothing

# Starting weights: a move of 2 % of equity counts as 1, and no shaping outweighs an ordinary profit.
TRADING = {
    "pnl": 50.0,
    "cost": 10.0,
    "time": 0.01,
    "differential_sharpe": 0.05,
    "drawdown": 0.1,
    "sizing": 0.01,
    "hold": 0.005,
}
PROFESSIONAL = {
    "pnl": 50.0,
    "size_multiplier": 50.0,
    "staged_exit": 50.0,
    "pyramiding": 50.0,
    "context_hold": 1.0,
    "repetition": 1.0,
}


@jitable
def share(amount: float, equity: float) -> float:
    """`amount` as a share of equity; 0 for an account that has none."""
    # Both sides of `where` are evaluated, so the divisor is made safe, not only the result.
    return where(equity > 0.0, amount, 0.0) / where(equity > 0.0, equity, 1.0)


# ---- profit and risk ----------------------------------------------------------------------------------------------


@register_formula()
def pnl(equity_before: float, equity_change: float) -> float:
    """r_t = log(equity / equity before), at least log(0.001)."""
    return log1p(maximum(share(equity_change, equity_before), WORST_RETURN))


@register_formula()
def mean_variance(equity_before: float, equity_change: float, aversion: float = 1.0) -> float:
    """u_t = r_t − aversion / 2 · r²_t: mean less aversion / 2 · variance, since a bar's mean is small."""
    r = pnl(equity_before, equity_change)
    return r - 0.5 * aversion * r * r


@register_formula()
def variance(equity_before: float, equity_change: float) -> float:
    """−r²_t, r as in `pnl`: risk alone, to be weighed against money."""
    r = pnl(equity_before, equity_change)
    return -r * r


@register_formula()
def realised_pnl(equity_before: float, realised: float) -> float:
    """Realised profit / equity before: what open positions gain counts when they close."""
    return share(realised, equity_before)


@register_formula()
def cost(equity_before: float, cost: float) -> float:
    """−cost / equity before. `pnl` is net already: beside it, this makes a cost weigh more than the money it took."""
    return -share(cost, equity_before)


@register_formula()
def time(holding_bars: float, horizon_bars: float = 100.0) -> float:
    """−min(bars held / horizon, 1): the longer the position is open, the more a bar of it costs."""
    return -minimum(holding_bars / horizon_bars, 1.0)


@register_formula(0.0, 0.0)
def differential_sharpe(
    equity_before: float, equity_change: float, state: tuple[float, ...], rate: float = 0.01, bound: float = 3.0
) -> Remembered:
    """Differential Sharpe ratio of r_t (Moody and Saffell 2001, equation 8), within ±bound.

    D_t = (B_{t−1}·ΔA_t − ½·A_{t−1}·ΔB_t) / (B_{t−1} − A²_{t−1})^{3/2},  ΔA_t = r_t − A_{t−1},  ΔB_t = r²_t − B_{t−1},
    A_t = A_{t−1} + rate·ΔA_t and B_t likewise, from 0. 0 while the variance B − A² is below 1e-12.
    """
    mean, square = state
    r = pnl(equity_before, equity_change)
    mean_change, square_change = r - mean, r * r - square
    variance = square - mean * mean
    is_known = variance > SMALLEST_VARIANCE
    # The first steps after a reset have no variance yet, and (·)^{3/2} of rounding would explode.
    safe = where(is_known, variance, 1.0)
    # A and B from before the bar: D_t is the derivative of the Sharpe ratio with respect to the decay rate.
    ratio = (square * mean_change - 0.5 * mean * square_change) / (safe * sqrt(safe))
    bounded = minimum(maximum(where(is_known, ratio, 0.0), -bound), bound)
    return bounded, (mean + rate * mean_change, square + rate * square_change)


@register_formula()
def drawdown(drawdown: float) -> float:
    """−(1 − equity / highest equity so far)."""
    return -drawdown


# ---- conduct ------------------------------------------------------------------------------------------------------


@register_formula()
def sizing(exposure: float, target_exposure: float = 0.1) -> float:
    """1 − |exposure / target − 1|, at least −1: 1 at the target, 0 when flat and at twice the target."""
    return maximum(1.0 - abs(exposure / target_exposure - 1.0), -1.0)


@register_formula()
def hold(turnover: float) -> float:
    """−1 in a bar without a trade, else 0: the price of doing nothing."""
    return where(turnover > 0.0, 0.0, -1.0)


# ---- the professional set -----------------------------------------------------------------------------------------


@register_formula()
def size_multiplier(
    equity_before: float,
    equity_change: float,
    exposure_before: float,
    small: float = 1.2,
    large: float = 0.8,
    full_exposure: float = 0.15,
) -> float:
    """(m − 1)·r_t, m falling in a line from `small` at no exposure to `large` at `full_exposure` and beyond."""
    size = minimum(exposure_before / full_exposure, 1.0)
    return (small + (large - small) * size - 1.0) * pnl(equity_before, equity_change)


@register_formula(0.0)
def staged_exit(
    equity_before: float,
    realised: float,
    flags: float,
    state: tuple[float, ...],
    partial: float = 0.8,
    staged: float = 1.1,
) -> Remembered:
    """(m − 1)·realised / equity before.

    m = `partial` at the first partial exit of a position, `staged` at each exit after it, 1 where it is closed at once.
    The state counts the partial exits since the last full one.
    """
    (stages,) = state
    is_part, is_full = has(flags, Flag.REDUCED), has(flags, Flag.CLOSED)
    first = where(is_part, partial, 1.0)
    later = where(is_part | is_full, staged, 1.0)
    # `stages` before this bar decides, so that the first partial exit is not judged as a later one.
    multiplier = where(stages > 0.0, later, first)
    after = where(is_full, 0.0, stages + where(is_part, 1.0, 0.0))
    return (multiplier - 1.0) * share(realised, equity_before), (after,)


@register_formula(0.0)
def pyramiding(
    equity_before: float,
    equity_change: float,
    unrealised_before: float,
    flags: float,
    state: tuple[float, ...],
    multiplier: float = 1.3,
) -> Remembered:
    """(m − 1)·r_t with m = `multiplier` from the bar that added to a winner until the position is closed, else 1.

    A winner has a profit at the close on which the order was decided. The state is 1 from the addition on.
    """
    (added,) = state
    added = where(has(flags, Flag.ADDED) & (unrealised_before > 0.0), 1.0, added)
    # Counted with the bar that closes the position too; the state is cleared after it.
    value = added * (multiplier - 1.0) * pnl(equity_before, equity_change)
    return value, (where(has(flags, Flag.CLOSED), 0.0, added),)


@register_formula()
def context_hold(turnover: float, unrealised_before: float, winner: float = 0.01, loser: float = 0.005) -> float:
    """−winner or −loser in a bar without a trade while the position has a profit or a loss; 0 when flat."""
    waiting = where(unrealised_before > 0.0, winner, where(unrealised_before < 0.0, loser, 0.0))
    return -where(turnover > 0.0, 0.0, waiting)


@register_formula(0.0, 0.0)
def repetition(
    fill_quantity: float, state: tuple[float, ...], limit_bars: float = 5.0, penalty: float = 0.01
) -> Remembered:
    """−penalty for every bar that trades on the same side as the bars before it, beyond `limit_bars` in a row.

    A bar without a fill ends the row. The state is the side of the last fill, −1, 0 or 1, and the length of the row.
    """
    last_side, row = state
    side = where(fill_quantity > 0.0, 1.0, where(fill_quantity < 0.0, -1.0, 0.0))
    row = where(side == 0.0, 0.0, where(side == last_side, row + 1.0, 1.0))
    return where(row > limit_bars, -penalty, 0.0), (side, row)
