"""Orders: what an action asks for. Four kinds — continuous, seven discrete, target, quantity — and one rule for each.

A continuous order s lies in [-1, 1]: |s| below the hold zone holds; s against the position closes |s| of it; otherwise
it spends |s| · buy_fraction of the free cash, up to the position cap. A discrete order is one of seven such numbers, so
that the kinds compare on the same bars; a hybrid agent names the kind with each action. A target is the share of equity
to hold: the position moves there within its cap, unless it lies within the no-trade band around it. A quantity was
sized before, at the same close: brokers fill it as it is.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from pacesetter.arrays import Array, Floats
from pacesetter.errors import ConfigError
from pacesetter.market.jit import jitable
from pacesetter.market.parameters import MarketParameters, Slot

__all__ = [
    "DISCRETE_AS_CONTINUOUS",
    "LARGEST_QUANTITY",
    "Around",
    "Discrete",
    "OrderKind",
    "around_prior",
    "as_continuous",
    "as_numbers",
    "as_targets",
    "check_actions",
    "target_range",
]


class OrderKind(IntEnum):
    """How the kernel reads an action."""

    CONTINUOUS = 0
    DISCRETE = 1
    TARGET = 2
    QUANTITY = 3


class Discrete(IntEnum):
    """The seven discrete orders."""

    HOLD = 0
    BUY_SMALL = 1
    BUY_MEDIUM = 2
    BUY_LARGE = 3
    SELL_PART = 4
    SELL_ALL = 5
    ADD_TO_WINNER = 6


LARGEST_QUANTITY = 1e300  # whose value in money is still a number
SPECK = 1e-9  # of equity: a smaller order is rounding, and would still pay a minimum commission
DISCRETE_AS_CONTINUOUS = (0.0, 1 / 3, 2 / 3, 1.0, -0.5, -1.0, 0.5)


def as_continuous(actions: ArrayLike) -> Floats:
    """The continuous orders that seven-way actions stand for, in their shape; adding to a winner asks for 0.5."""
    indices = np.asarray(actions)
    check_actions(indices, OrderKind.DISCRETE)
    return np.array(DISCRETE_AS_CONTINUOUS)[indices.astype(np.int64)]


def target_range(market: MarketParameters) -> tuple[float, float]:
    """The lowest and the highest target that differ from their neighbours: 0 or minus the position cap, and the cap."""
    cap = min(market.limits.position_cap_fraction, 1.0)
    return (-cap if market.limits.shorting else 0.0), cap


def as_targets(actions: Any, market: MarketParameters) -> Any:
    """The targets that a policy's numbers in [-1, 1] stand for, of an array or a tensor: -1 the lowest, 1 the highest.

    Spread over [0, 1] nearly all of them would ask for more than the position cap, and mean the same.
    """
    low, high = target_range(market)
    return low + (actions + 1) * ((high - low) / 2)


def as_numbers(targets: Any, market: MarketParameters) -> Any:
    """The numbers in [-1, 1] that stand for targets within the range, of an array or a tensor."""
    low, high = target_range(market)
    return (targets - low) * (2 / (high - low)) - 1


class Around(NamedTuple):
    """How far actions beside a prior reach, in halves of the range of targets, and that range."""

    reach: float
    lowest: float
    highest: float

    @classmethod
    def of(cls, reach: float, market: MarketParameters) -> Around:
        return cls(reach, *target_range(market))


def around_prior(residuals: Any, prior: Any, held: Any, around: Around) -> Any:
    """The numbers in [-1, 1] that an agent's residuals (…,) in [-1, 1] stand for beside a prior; arrays or tensors.

    A prior leaves a position between its two ends (…, 2) as it is, and moves another to the nearer end. The residual is
    added to that, `reach` times; with residuals of 0 the agent is the prior. `held` (…,) are shares of equity.
    """
    place = (held - around.lowest) * (2 / (around.highest - around.lowest)) - 1
    base = place.clip(prior[..., 0], prior[..., 1])
    return (base + around.reach * residuals).clip(-1.0, 1.0)


def check_actions(actions: Array, kind: OrderKind, shorting: bool = True, most: float = 1.0) -> None:
    """Refuse an action that is NaN or outside its box, naming the first one; `most` is the largest target."""
    high = float(len(Discrete) - 1) if kind == OrderKind.DISCRETE else most if kind == OrderKind.TARGET else 1.0
    low = -high if kind == OrderKind.CONTINUOUS or (kind == OrderKind.TARGET and shorting) else 0.0
    if kind == OrderKind.QUANTITY:
        low, high = -LARGEST_QUANTITY, LARGEST_QUANTITY
    fits = (actions >= low) & (actions <= high)
    if kind == OrderKind.DISCRETE:
        fits &= actions % 1 == 0
    if not fits.all():
        where = tuple(int(place) for place in np.argwhere(~np.array(fits.tolist()))[0])
        whole = "a whole number " if kind == OrderKind.DISCRETE else "a number "
        raise ConfigError(
            f"action {actions[where]} at {where} is not a {kind.name.lower()} order; "
            f"give {whole}from {low:g} to {high:g}"
        )


@jitable
def signal(action: float, kind: int, previous: float, winner: float, parameters: Floats) -> float:
    """The order s acted on: smoothed when continuous, looked up when discrete, the target or quantity itself."""
    if kind == OrderKind.CONTINUOUS:
        smoothed: float = previous + parameters[Slot.SMOOTHING] * (action - previous)
        return smoothed
    if kind == OrderKind.DISCRETE:
        side = winner if int(action) == Discrete.ADD_TO_WINNER else 1.0
        return side * DISCRETE_AS_CONTINUOUS[int(action)]
    return action


@jitable
def winning_side(held: float, entry: float, price: float) -> float:
    """1 for a long in profit, −1 for a short in profit, 0 without a winner to add to."""
    side = 1.0 if held > 0.0 else -1.0
    return side if held * (price - entry) > 0.0 else 0.0


@jitable
def order_quantity(
    order: float, kind: int, held: float, price: float, equity: float, free_cash: float, parameters: Floats
) -> float:
    """Signed quantity to trade, fixed at `price`, the close of t. It never carries a position through zero."""
    if kind == OrderKind.TARGET:
        quantity = quantity_to_target(order, held, price, equity, parameters)
    elif kind == OrderKind.QUANTITY:
        quantity = quantity_to_send(order, held, parameters)
    elif abs(order) < parameters[Slot.HOLD_ZONE]:
        quantity = 0.0
    elif order * held < 0.0:
        quantity = -abs(order) * held
    else:
        quantity = quantity_to_open(order, held, price, equity, free_cash, parameters)
    return worth_sending(quantity, held, price, smallest_order(equity, parameters))


@jitable
def quantity_to_send(order: float, held: float, parameters: Floats) -> float:
    """A quantity that was sized before: closed at zero, and no short where none is allowed."""
    if order * held < 0.0:
        return order if abs(order) <= abs(held) else -held
    if order < 0.0 and parameters[Slot.SHORTING] == 0.0:
        return 0.0
    return order


@jitable
def quantity_to_open(
    order: float, held: float, price: float, equity: float, free_cash: float, parameters: Floats
) -> float:
    """Signed quantity that |order| · buy_fraction of the free cash pays for, within the position cap.

    0 where that is less than the minimum trade: known here already, before a division that takes its time.
    """
    if order < 0.0 and parameters[Slot.SHORTING] == 0.0:
        return 0.0
    room = parameters[Slot.POSITION_CAP] * equity - abs(held) * price
    money: float = min(abs(order) * parameters[Slot.BUY_FRACTION] * free_cash, room)
    if money < parameters[Slot.MINIMUM_TRADE]:
        return 0.0
    return money / price if order > 0.0 else -money / price


@jitable
def quantity_to_target(weight: float, held: float, price: float, equity: float, parameters: Floats) -> float:
    """Signed quantity from `held` to a share `weight` of equity, within the position cap; a flip closes first.

    0 where the position is less than the band away from its target; a target of 0 closes it in any case.
    """
    cap = parameters[Slot.POSITION_CAP]
    lowest = -cap if parameters[Slot.SHORTING] != 0.0 else 0.0
    target: float = max(equity, 0.0) * min(max(weight, lowest), cap) / price
    if held * target < 0.0:
        return -held
    change = target - held
    if target != 0.0 and abs(change) * price < parameters[Slot.BAND] * equity:
        return 0.0
    return change


@jitable
def smallest_order(equity: float, parameters: Floats) -> float:
    """Money of the smallest order that is sent: the minimum trade, and never less than a speck of equity."""
    smallest: float = max(parameters[Slot.MINIMUM_TRADE], SPECK * equity)
    return smallest


@jitable
def worth_sending(quantity: float, held: float, price: float, minimum_trade: float) -> float:
    """`quantity`; all of the position where less than the minimum would be left; 0 where the order is too small."""
    if quantity * held < 0.0 and (abs(held) - abs(quantity)) * price < minimum_trade:
        return -held
    if abs(quantity) * price < minimum_trade:
        return 0.0
    return quantity
