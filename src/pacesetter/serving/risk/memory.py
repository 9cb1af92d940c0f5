"""What the guard remembers, and how it is stored: a restart gives the same guard."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from pacesetter.runs import SCHEMA, check_schema
from pacesetter.serving.risk.limits import GuardLimits
from pacesetter.serving.risk.order import STOP, Order, State

__all__ = ["GuardMemory", "Recent", "copy_key", "recent_windows", "side_key"]


class Recent:
    """How often each key came up in the latest `seconds`; what is older is forgotten."""

    def __init__(self, seconds: float, stored: Iterable[tuple[float, Iterable[object]]] = ()) -> None:
        self._seconds, self._entries = seconds, deque((at, tuple(key)) for at, key in stored)
        self._counts = Counter(key for _, key in self._entries)

    def add(self, key: tuple[object, ...], now: float) -> None:
        self._entries.append((now, key))
        self._counts[key] += 1

    def count(self, key: tuple[object, ...], now: float) -> int:
        while self._entries and self._entries[0][0] <= now - self._seconds:
            _, old = self._entries.popleft()
            self._counts[old] -= 1
            if not self._counts[old]:
                del self._counts[old]
        return self._counts.get(key, 0)

    def to_list(self) -> list[tuple[float, tuple[object, ...]]]:
        return list(self._entries)


@dataclass
class GuardMemory:
    """State, losses and counts; client ids are those of the latest day so far and of the day before.

    forgiven_equity   highest equity that a person resumed below: a fall from it has been acted on
    latest_day        which a clock that is set back does not change: no id is forgotten for it
    """

    recent: dict[str, Recent]
    state: State = State.ACTIVE
    reason: str = ""
    denials: Counter[str] = field(default_factory=Counter)
    clock: float = -math.inf
    day: int = -1
    latest_day: int = -1
    day_equity: float = math.nan
    last_equity: float = math.nan
    peak_equity: float = 0.0
    forgiven_equity: float = 0.0
    bar: int = 0
    paused_until: int = 0
    stops: list[int] = field(default_factory=list)
    bar_orders: Counter[str] = field(default_factory=Counter)
    day_orders: Counter[str] = field(default_factory=Counter)
    disabled: set[str] = field(default_factory=set)
    ids: tuple[set[str], set[str]] = field(default_factory=lambda: (set(), set()))
    in_flight: dict[str, Order] = field(default_factory=dict)

    def to_dict(self, limits: GuardLimits) -> dict[str, object]:
        """All that is remembered, and the limits in force, as JSON can hold it."""
        return {
            "schema": SCHEMA,
            "state": self.state.value,
            "reason": self.reason,
            "limits": asdict(limits),
            "denials": dict(self.denials),
            "clock": self.clock if math.isfinite(self.clock) else None,
            "day": self.day,
            "latest_day": self.latest_day,
            "day_equity": _number(self.day_equity),
            "last_equity": _number(self.last_equity),
            "peak_equity": self.peak_equity,
            "forgiven_equity": self.forgiven_equity,
            "bar": self.bar,
            "paused_until": self.paused_until,
            "stops": list(self.stops),
            "bar_orders": dict(self.bar_orders),
            "day_orders": dict(self.day_orders),
            "disabled": sorted(self.disabled),
            "ids_today": sorted(self.ids[0]),
            "ids_before": sorted(self.ids[1]),
            "in_flight": [order.to_dict() for order in self.in_flight.values()],
            "recent": {name: recent.to_list() for name, recent in self.recent.items()},
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any], limits: GuardLimits) -> GuardMemory:
        """What `to_dict` described, under the given limits."""
        check_schema(stored, "the guard's state")
        return cls(
            # Under today's limits: stored counts are kept, their windows may be of another length now.
            recent=recent_windows(limits, stored["recent"]),
            state=State(stored["state"]),
            reason=stored["reason"],
            denials=Counter(stored["denials"]),
            clock=-math.inf if stored["clock"] is None else stored["clock"],
            day=stored["day"],
            latest_day=stored.get("latest_day", stored["day"]),
            day_equity=_equity(stored["day_equity"]),
            last_equity=_equity(stored["last_equity"]),
            peak_equity=stored["peak_equity"],
            forgiven_equity=stored.get("forgiven_equity", 0.0),  # absent where an earlier version wrote
            bar=stored["bar"],
            paused_until=stored["paused_until"],
            stops=list(stored["stops"]),
            bar_orders=Counter(stored["bar_orders"]),
            day_orders=Counter(stored["day_orders"]),
            disabled=set(stored["disabled"]),
            ids=(set(stored["ids_today"]), set(stored["ids_before"])),
            in_flight={order["client_id"]: Order(**order) for order in stored["in_flight"]},
        )

    def note(self, order: Order, now: float) -> None:
        """Remember an order that was allowed; rates count what was decided, not the stops of what is held."""
        self.ids[0].add(order.client_id)
        self.in_flight[order.client_id] = order
        if order.kind == STOP:
            return
        self.bar_orders[order.symbol] += 1
        self.day_orders[order.symbol] += 1
        self.recent["all"].add((), now)
        self.recent["copies"].add(copy_key(order), now)
        self.recent["sides"].add(side_key(order), now)


def recent_windows(
    limits: GuardLimits, stored: Mapping[str, Iterable[tuple[float, Iterable[object]]]] | None = None
) -> dict[str, Recent]:
    """What came up lately: all orders in a second, those of a symbol and side, and those that are alike."""
    seconds = {"all": 1.0, "sides": limits.repeat_seconds, "copies": limits.copy_seconds}
    return {name: Recent(length, (stored or {}).get(name, ())) for name, length in seconds.items()}


def side_key(order: Order) -> tuple[str, str]:
    """Orders of one symbol in one direction."""
    return "buy" if order.quantity > 0.0 else "sell", order.symbol


def copy_key(order: Order) -> tuple[str, float, float]:
    """Orders that are alike in all but their id."""
    return order.symbol, order.quantity, order.price


def _number(value: float) -> float | None:
    """JSON has no NaN."""
    return None if math.isnan(value) else value


def _equity(stored: float | None) -> float:
    return math.nan if stored is None else stored
