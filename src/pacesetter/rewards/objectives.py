"""Five objectives of a trader as reward components, and a sixth that is optional. NumPy, torch and numba alike.

Each is a formula over ledger columns, so that a reward vector comes from the same ledger as a reward. Values are about
1 at most in size but those of `risk`, which grows with a drawdown. Weights are first ones: see `methods.objectives`.
"""

from __future__ import annotations

from collections.abc import Sequence

from pacesetter.arrays import Floats
from pacesetter.market.jit import jitable
from pacesetter.market.ledger import Flag
from pacesetter.rewards.codes import Remembered, register_formula
from pacesetter.rewards.elementwise import exp, has, maximum, minimum, sqrt, where
from pacesetter.rewards.trading import share

__all__ = ["OBJECTIVES"]

OBJECTIVES = {"profit": 0.40, "risk": 0.25, "activity": 0.15, "timing": 0.10, "exploration": 0.10}
LEAST_HELD = 0.01  # share of equity: what is earned on less is not told apart from what is earned on it
LARGEST_FALL = 0.5  # of the drawdown beyond its limit: e^5 is enough to be afraid of
ORDERS, PROFITS, BINS = 20, 10, 16
EARLIER_ORDERS, EARLIER_PROFITS = ORDERS - 1, PROFITS - 1  # numba takes a slice of a tuple by names of constants only
ROUNDING = 1e-9  # orders of a grid deviate by exactly a limit, where the last digit of a GPU is another
NORMAL_95 = 1.645  # quantile of the normal distribution
NEVER = 3.0  # bars since the last trade of an account that has not traded: the first is not hasty


@jitable
def _position_value(equity_before: float, exposure: float, exposure_before: float) -> float:
    """Money in positions during the bar, at least 1 % of equity."""
    return maximum(where(exposure > exposure_before, exposure, exposure_before), LEAST_HELD) * equity_before


@jitable
def _clip_to_one(values: float) -> float:
    return minimum(maximum(values, -1.0), 1.0)


@jitable
def four(values: Floats, first: int) -> tuple[float, float, float, float]:
    """Four of them as a tuple: what numba can join to longer ones, which it cannot make in a loop."""
    return (values[first], values[first + 1], values[first + 2], values[first + 3])


@jitable
def _deviation(latest: float, others: Sequence[float], count: float) -> float:
    """Standard deviation of `count` values: the latest, and before it others, which are 0 where there are none yet."""
    total, squares = latest, latest * latest
    for value in others:
        total, squares = total + value, squares + value * value
    mean = total / count
    return sqrt(maximum(squares / count - mean * mean, 0.0))


@jitable
def _visit(counts: Sequence[float], here: float, first: int) -> tuple[float, float, float, float]:
    """Four counts from the `first` on, one more where the state is `here`."""
    return (
        counts[first] + where(here == first, 1.0, 0.0),
        counts[first + 1] + where(here == first + 1, 1.0, 0.0),
        counts[first + 2] + where(here == first + 2, 1.0, 0.0),
        counts[first + 3] + where(here == first + 3, 1.0, 0.0),
    )


@register_formula()
def profit(
    equity_before: float,
    realised: float,
    unrealised: float,
    unrealised_before: float,
    exposure: float,
    exposure_before: float,
    order: float,
    open_share: float = 0.3,
    loss: float = 1.5,
) -> float:
    """What the bar earned over what was held: realised · clip(1 + 2·ROI, 0.5, 3) + 0.3 · change of unrealised profit.

    Realised profit of a decided order (|order| > 0.5) counts 1.2 times, and a loss 1.5 times. The *change* of what is
    unrealised: its level would pay again in every bar for the same winner.
    """
    worth = _position_value(equity_before, exposure, exposure_before)
    factor = minimum(maximum(1.0 + 2.0 * share(realised, worth), 0.5), 3.0) * where(abs(order) > 0.5, 1.2, 1.0)
    value = share(realised * factor + open_share * (unrealised - unrealised_before), worth)
    return where(value < 0.0, loss * value, value)


@register_formula(0.0, 0.0)
def risk(
    equity_before: float,
    equity_change: float,
    drawdown: float,
    exposure: float,
    state: tuple[float, ...],
    rate: float = 0.1,
) -> Remembered:
    """−(e^{10·excess} − 1) of drawdown above 5 %, −50 · VaR95 above 2 %, −10 · exposure above 95 %, −0.5 · volatility.

    Volatility and VaR are of the returns of late bars, by moving moments with this rate; VaR95 = 1.645·σ − μ.
    """
    mean, square = state
    r = share(equity_change, equity_before)
    mean, square = mean + rate * (r - mean), square + rate * (r * r - square)
    deviation = sqrt(maximum(square - mean * mean, 0.0))
    fall = minimum(maximum(drawdown - 0.05, 0.0), LARGEST_FALL)
    value_at_risk = NORMAL_95 * deviation - mean
    value = -(exp(10.0 * fall) - 1.0) - 50.0 * maximum(value_at_risk - 0.02, 0.0)
    return value - 10.0 * maximum(exposure - 0.95, 0.0) - 0.5 * deviation, (mean, square)


@register_formula(*(0.0,) * (ORDERS + 1), NEVER)
def activity(order: float, turnover: float, state: tuple[float, ...]) -> Remembered:
    """+0.2 where the last 20 orders deviate by more than 0.3, +0.1 above 0.2; −0.1 after 50 bars without a trade.

    −0.05 for a trade within 3 bars of the last. The state: the orders, how many there are, bars since the last trade.
    """
    before, count, idle = state[:EARLIER_ORDERS], minimum(state[ORDERS] + 1.0, float(ORDERS)), state[ORDERS + 1]
    deviation = _deviation(order, before, count)
    variety = where(deviation > 0.3 + ROUNDING, 0.2, where(deviation > 0.2 + ROUNDING, 0.1, 0.0))
    has_traded = turnover > 0.0
    hasty = where(has_traded & (idle < 3.0), 0.05, 0.0)
    idle = where(has_traded, 0.0, idle + 1.0)
    return variety - hasty - where(idle > 50.0, 0.1, 0.0), (order, *before, count, idle)


@register_formula(0.0)
def timing(
    equity_before: float,
    gross_pnl: float,
    realised: float,
    exposure: float,
    exposure_before: float,
    flags: float,
    state: tuple[float, ...],
    scale: float = 0.01,
    rate: float = 0.1,
) -> Remembered:
    """½ entry + ½ exit + 0.3 momentum, each within ±1 and in units of `scale`.

    entry: return of what is held in a bar that opened or added; exit: realised return in one that sold; momentum: the
    moving mean of the returns of what is held, which is above 0 where the position goes with the trend.
    """
    (momentum,) = state
    worth = _position_value(equity_before, exposure, exposure_before)
    move = share(gross_pnl, worth)
    has_entered = has(flags, Flag.OPENED) | has(flags, Flag.ADDED)
    has_left = has(flags, Flag.REDUCED) | has(flags, Flag.CLOSED)
    momentum = momentum + rate * (move - momentum)
    entry = where(has_entered, _clip_to_one(move / scale), 0.0)
    leave = where(has_left, _clip_to_one(share(realised, worth) / scale), 0.0)
    return 0.5 * entry + 0.5 * leave + 0.3 * _clip_to_one(momentum / scale), (momentum,)


@register_formula(*(0.0,) * BINS)
def exploration(equity_before: float, unrealised: float, exposure: float, state: tuple[float, ...]) -> Remembered:
    """0.1/(1 + visits) · 0.999^(states seen) below 10 visits of the account's state in this episode, then 0.

    A state is one of 16: exposure below 0.1 %, 5 %, 10 % or above, times a loss or profit below or above 0.1 %.
    """
    gain = share(unrealised, equity_before)
    size = (exposure >= 0.001) * 1.0 + (exposure >= 0.05) * 1.0 + (exposure >= 0.10) * 1.0
    side = (gain >= -0.001) * 1.0 + (gain >= 0.0) * 1.0 + (gain >= 0.001) * 1.0
    here = 4.0 * size + side
    visits, visited = 0.0 * here, 0.0 * here
    for place in range(BINS):
        visits = visits + where(here == place, state[place], 0.0)
        visited = visited + where(state[place] > 0.0, 1.0, 0.0)
    value = where(visits < 10.0, 0.1 / (1.0 + visits), 0.0) * 0.999**visited
    return value, _visit(state, here, 0) + _visit(state, here, 4) + _visit(state, here, 8) + _visit(state, here, 12)


@register_formula(*(0.0,) * (PROFITS + 1))
def consistency(equity_before: float, equity_change: float, state: tuple[float, ...]) -> Remembered:
    """+0.2 where the returns of the last 10 bars deviate by less than 0.02, else −0.1 · their deviation."""
    before, count = state[:EARLIER_PROFITS], minimum(state[PROFITS] + 1.0, float(PROFITS))
    r = share(equity_change, equity_before)
    deviation = _deviation(r, before, count)
    return where(deviation < 0.02, 0.2, -0.1 * deviation), (r, *before, count)
