"""A second, plain implementation of guard, broker and journal: all that happened is kept, all answers counted anew.

It shares no code with the first but the names of orders, limits and states. It is slow, and meant to be read.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from pacesetter.serving.risk.limits import GuardLimits
from pacesetter.serving.risk.order import AccountView, Order

__all__ = ["DAY", "PlainBroker", "PlainGuard", "PlainJournal"]

DAY = 86_400
SLACK = 1 + 1e-9  # what lies on a limit is within it; a loss of just a limit acts


class Allowed(NamedTuple):
    """An order that passed, and when."""

    order: Order
    now: float
    bar: int


class PlainGuard:
    """Every mark of equity, every order that passed and every stop-out, looked through from the start each time."""

    def __init__(self, limits: GuardLimits) -> None:
        self.limits = limits
        self.marks: list[tuple[float, float]] = []  # (time, equity) since a person resumed
        self.told_peaks: list[float] = []  # of the account, since then
        self.resumed_from = 0.0  # highest equity that somebody resumed below
        self.allowed: list[Allowed] = []
        self.open: dict[str, Order] = {}
        self.denials: dict[str, int] = {}
        self.bar, self.state, self.since_resume = 0, "active", 0
        self.disabled: set[str] = set()
        self.left: list[Order] = []  # exits of the decision under way

    def begin_bar(self, equity: float, now: float) -> None:
        self.bar += 1
        self.mark(equity, now)

    def mark(self, equity: float, now: float, told_peak: float = 0.0) -> None:
        if self.marks and now < self.marks[-1][0]:
            self.state = "halted"
            return
        if self.state == "reducing" and now // DAY > self.marks[-1][0] // DAY:
            self.state = "active"
        self.marks.append((now, equity))
        if told_peak > self.resumed_from:
            self.told_peaks.append(told_peak)
        before = [money for time, money in self.marks if time // DAY < now // DAY]
        first = before[-1] if before else self.marks[0][1]
        fall, loss = SLACK * (1 - equity / self.peak()), SLACK * (1 - equity / first)
        if fall >= self.limits.drawdown_fraction or loss >= self.limits.halt_fraction:
            self.state = "halted"
        elif loss >= self.limits.reduce_fraction and self.state == "active":
            self.state = "reducing"

    def peak(self) -> float:
        return max([money for _, money in self.marks] + self.told_peaks, default=0.0)

    def halt(self) -> None:
        self.state = "halted"

    def resume(self) -> None:
        self.resumed_from = max(self.resumed_from, self.peak())
        self.marks, self.told_peaks, self.state = [], [], "active"
        self.disabled, self.since_resume = set(), len(self.allowed)

    def check(self, orders: list[Order], view: AccountView, now: float) -> dict[str, str | None]:
        """Place -> why the order was refused, or None; exits are looked at first."""
        self.mark(view.equity, now, view.peak_equity)
        answers: dict[str, str | None] = {}
        self.left = []
        exits = [self.is_exit(order, view) for order in orders]
        for wanted in (True, False):
            for place, order in enumerate(orders):
                if exits[place] is wanted:
                    answers[str(place)] = self.answer(order, view, now)
        return answers

    def answer(self, order: Order, view: AccountView, now: float) -> str | None:
        why, leaves = self.refusal(order, view, now), self.is_exit(order, view)
        if why is not None:
            self.denials[why] = self.denials.get(why, 0) + 1
            return why
        self.allowed.append(Allowed(order, now, self.bar))
        self.open[order.client_id] = order
        self.left += [order] if leaves else []
        lately = [each for each in self.recent(self.limits.repeat_seconds, now) if self.is_alike(each.order, order)]
        if len(lately) >= self.limits.repeat_count:
            self.disabled.add(order.symbol)
        return None

    def is_exit(self, order: Order, view: AccountView) -> bool:
        held = view.quantities[order.symbol]
        leaving = sum(each.quantity for each in self.flight(order.symbol) if each.quantity * held < 0)
        return order.quantity * held < 0 and abs(leaving + order.quantity) <= abs(held)

    def refusal(self, order: Order, view: AccountView, now: float) -> str | None:
        limits, equity = self.limits, view.equity
        price = view.quotes[order.symbol].price
        same = [each for each in self.allowed if each.order.symbol == order.symbol]
        today = [each for each in same if each.now // DAY == now // DAY]
        copies = [
            each
            for each in self.recent(limits.copy_seconds, now)
            if (each.order.symbol, each.order.quantity, each.order.price) == (order.symbol, order.quantity, order.price)
        ]
        known = {each.order.client_id for each in self.allowed if each.now // DAY >= now // DAY - 1}
        controls = {
            "malformed": order.quantity == 0 or order.price <= 0,
            "halted": self.state == "halted",
            "duplicate_id": order.client_id in known or order.client_id in self.open,
            "price_collar": abs(order.price / price - 1) > limits.collar_fraction * SLACK,
            "bar_rate": len([each for each in same if each.bar == self.bar]) >= limits.bar_count,
            "day_rate": len(today) >= limits.day_count,
            "second_rate": len(self.recent(1.0, now)) >= limits.second_count,
            "repeated_execution": order.symbol in self.disabled,
            "identical": len(copies) >= limits.copy_count,
        }
        if not self.is_exit(order, view):
            controls |= {
                "reducing": self.state == "reducing",
                "stale": view.quotes[order.symbol].age_bars > limits.stale_bars,
                "order_value": abs(order.quantity) * max(price, order.price) > limits.order_fraction * equity * SLACK,
                "symbol_exposure": self.exposure(order, [order.symbol], view) > limits.symbol_fraction * equity * SLACK,
                "cluster_exposure": self.exposure(order, self.moving_with(order.symbol, view), view)
                > limits.cluster_fraction * equity * SLACK,
                "gross_exposure": self.exposure(order, list(view.quotes), view)
                > limits.gross_fraction * equity * SLACK,
            }
        return next((name for name, is_broken in controls.items() if is_broken), None)

    def exposure(self, new: Order, symbols: list[str], view: AccountView) -> float:
        """The most that the symbols can come to be worth if this decision's exits and any of their orders fill."""
        total = 0.0
        for symbol in symbols:
            orders = [each.quantity for each in (*self.open.values(), new) if each.symbol == symbol]
            held = view.quantities[symbol]
            up = held + sum(quantity for quantity in orders if quantity > 0)
            down = held + sum(quantity for quantity in orders if quantity < 0)
            left = [each.quantity for each in self.left if each.symbol == symbol]
            up += sum(quantity for quantity in left if quantity < 0)
            down += sum(quantity for quantity in left if quantity > 0)
            total += max(up, -down) * view.quotes[symbol].price
        return total

    @staticmethod
    def moving_with(symbol: str, view: AccountView) -> list[str]:
        """The symbol's cluster; itself where it stands alone."""
        cluster = view.clusters.get(symbol)
        return [each for each in view.quotes if view.clusters.get(each) == cluster is not None] or [symbol]

    def flight(self, symbol: str) -> list[Order]:
        return [each for each in self.open.values() if each.symbol == symbol]

    def recent(self, seconds: float, now: float) -> list[Allowed]:
        return [each for each in self.allowed[self.since_resume :] if each.now > now - seconds]

    @staticmethod
    def is_alike(one: Order, other: Order) -> bool:
        return one.symbol == other.symbol and one.quantity * other.quantity > 0


class PlainBroker:
    """Cash and quantities in an account without costs: an order fills at the next open, and never turns a side."""

    def __init__(self, symbols: tuple[str, ...], cash: float) -> None:
        self.cash, self.held = cash, dict.fromkeys(symbols, 0.0)

    def fill(self, order: Order, price: float) -> float:
        """Book an order; gives the quantity that was traded."""
        held = self.held[order.symbol]
        quantity = -held if held * (held + order.quantity) < 0 else order.quantity
        self.held[order.symbol] = held + quantity
        self.cash -= quantity * price
        return quantity

    def equity(self, closes: dict[str, float]) -> float:
        return self.cash + sum(quantity * closes[symbol] for symbol, quantity in self.held.items())


class PlainJournal:
    """Lists of what should be in the tables."""

    def __init__(self) -> None:
        self.orders: dict[str, str] = {}  # client id -> status
        self.fills: list[tuple[str, float, float]] = []
        self.equities: list[float] = []
        self.events: list[str] = []

    def state(self) -> dict[str, Any]:
        return {"orders": self.orders, "fills": len(self.fills), "bars": len(self.equities), "events": self.events}
