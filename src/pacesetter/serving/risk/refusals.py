"""What an order is refused for: one short function a control, in the order in which the guard asks them.

True refuses. A comparison with NaN is False, so each is written to refuse then.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from pacesetter.serving.risk.exposure import ROUNDING, Exposure
from pacesetter.serving.risk.limits import GuardLimits
from pacesetter.serving.risk.memory import GuardMemory, copy_key
from pacesetter.serving.risk.order import Order, State

__all__ = ["CONTROLS", "EXIT_CONTROLS", "STOP_CONTROLS"]


def _is_malformed(memory: GuardMemory, limits: GuardLimits, order: Order, book: Exposure, now: float) -> bool:
    is_order = 0.0 < abs(order.quantity) < math.inf and 0.0 < order.price < math.inf
    return not (is_order and book.is_sound and order.client_id and order.symbol)


def _is_halted(memory: GuardMemory, limits: GuardLimits, order: Order, book: Exposure, now: float) -> bool:
    return memory.state is State.HALTED


def _duplicate_id(memory: GuardMemory, limits: GuardLimits, order: Order, book: Exposure, now: float) -> bool:
    today, before = memory.ids
    return order.client_id in today or order.client_id in before or order.client_id in memory.in_flight


def _no_price(memory: GuardMemory, limits: GuardLimits, order: Order, book: Exposure, now: float) -> bool:
    """No price to value the order, or what is held and ordered, by."""
    return not (book.has_prices and book.has_price(order.symbol))


def _collar(memory: GuardMemory, limits: GuardLimits, order: Order, book: Exposure, now: float) -> bool:
    last = book.account.quotes[order.symbol].price
    return not abs(order.price / last - 1.0) <= limits.collar_fraction * ROUNDING


def _bar_rate(memory: GuardMemory, limits: GuardLimits, order: Order, book: Exposure, now: float) -> bool:
    return memory.bar_orders.get(order.symbol, 0) >= limits.bar_count


def _day_rate(memory: GuardMemory, limits: GuardLimits, order: Order, book: Exposure, now: float) -> bool:
    return memory.day_orders.get(order.symbol, 0) >= limits.day_count


def _second_rate(memory: GuardMemory, limits: GuardLimits, order: Order, book: Exposure, now: float) -> bool:
    return memory.recent["all"].count((), now) >= limits.second_count


def _is_repeated(memory: GuardMemory, limits: GuardLimits, order: Order, book: Exposure, now: float) -> bool:
    return order.symbol in memory.disabled


def _is_identical(memory: GuardMemory, limits: GuardLimits, order: Order, book: Exposure, now: float) -> bool:
    return memory.recent["copies"].count(copy_key(order), now) >= limits.copy_count


def _shorting(memory: GuardMemory, limits: GuardLimits, order: Order, book: Exposure, now: float) -> bool:
    """A sale that, with those in flight, may take a position below zero where that is not allowed."""
    if book.account.shorting or order.quantity > 0.0:
        return False
    return not book.lowest(order.symbol, order.quantity) >= -(ROUNDING - 1.0) * abs(order.quantity)


def _is_reducing(memory: GuardMemory, limits: GuardLimits, order: Order, book: Exposure, now: float) -> bool:
    return memory.state is State.REDUCING


def _is_paused(memory: GuardMemory, limits: GuardLimits, order: Order, book: Exposure, now: float) -> bool:
    return memory.bar < memory.paused_until


def _is_stale(memory: GuardMemory, limits: GuardLimits, order: Order, book: Exposure, now: float) -> bool:
    return not book.account.quotes[order.symbol].age_bars <= limits.stale_bars


def _order_value(memory: GuardMemory, limits: GuardLimits, order: Order, book: Exposure, now: float) -> bool:
    # At the higher of the two prices, so that an order cannot be made small by a low one.
    price = max(order.price, book.account.quotes[order.symbol].price)
    return not abs(order.quantity) * price <= limits.order_fraction * book.account.equity * ROUNDING


def _symbol_exposure(memory: GuardMemory, limits: GuardLimits, order: Order, book: Exposure, now: float) -> bool:
    value = book.value(order.symbol, order.quantity)
    return not value <= limits.symbol_fraction * book.account.equity * ROUNDING


def _cluster_exposure(memory: GuardMemory, limits: GuardLimits, order: Order, book: Exposure, now: float) -> bool:
    if order.symbol not in book.account.clusters or not limits.has_clusters:
        return False
    value = book.cluster(order.symbol, order.quantity)
    return not value <= limits.cluster_fraction * book.account.equity * ROUNDING


def _gross_exposure(memory: GuardMemory, limits: GuardLimits, order: Order, book: Exposure, now: float) -> bool:
    # A broker that cuts all openings by one factor follows the rule of training; refusing the last ones would not.
    if limits.gross_fraction >= book.account.gross_cut:
        return False
    value = book.gross(order.symbol, order.quantity)
    return not value <= limits.gross_fraction * book.account.equity * ROUNDING


def _notional_cap(memory: GuardMemory, limits: GuardLimits, order: Order, book: Exposure, now: float) -> bool:
    cap = book.account.notional_cap
    return cap < math.inf and not book.gross(order.symbol, order.quantity) <= cap * ROUNDING


Control = Callable[[GuardMemory, GuardLimits, Order, Exposure, float], bool]
# Exits skip what limits exposure, since they lower it; what guards against runaway orders holds for them too.
EXIT_CONTROLS: Mapping[str, Control] = {
    "malformed": _is_malformed,
    "halted": _is_halted,
    "duplicate_id": _duplicate_id,
    "no_price": _no_price,
    "price_collar": _collar,
    "bar_rate": _bar_rate,
    "day_rate": _day_rate,
    "second_rate": _second_rate,
    "repeated_execution": _is_repeated,
    "identical": _is_identical,
}
# A stop that only closes is put back at every bar without being decided, and its level may be far from the price.
STOP_CONTROLS = {name: EXIT_CONTROLS[name] for name in ("malformed", "halted", "duplicate_id", "no_price")}
CONTROLS: Mapping[str, Control] = {
    **EXIT_CONTROLS,
    "shorting": _shorting,
    "reducing": _is_reducing,
    "paused": _is_paused,
    "stale": _is_stale,
    "order_value": _order_value,
    "symbol_exposure": _symbol_exposure,
    "cluster_exposure": _cluster_exposure,
    "gross_exposure": _gross_exposure,
    "notional_cap": _notional_cap,
}
