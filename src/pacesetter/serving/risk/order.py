"""What passes between policy, guard and broker: an order, the account it is held against, and the answer."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

__all__ = ["LIMIT", "MARKET", "STOP", "AccountView", "Decision", "Order", "Quote", "State"]


MARKET, LIMIT, STOP = "market", "limit", "stop"


class State(StrEnum):
    """What the guard lets through: everything within limits, exits only, nothing."""

    ACTIVE = "active"
    REDUCING = "reducing"
    HALTED = "halted"


class Quote(NamedTuple):
    """The last price of a symbol and how many bars ago it was seen."""

    price: float
    age_bars: float = 0.0


@dataclass(frozen=True, slots=True)
class Order:
    """A signed quantity of a symbol, to be sent at `price`, under a client id that is used once.

    kind   market; limit: filled at `price` or better, or not at all; stop: a market order once `price` is reached
    """

    client_id: str
    symbol: str
    quantity: float
    price: float
    kind: str = MARKET

    def of_kind(self, kind: str) -> Order:
        """The same order as one of another kind."""
        return Order(self.client_id, self.symbol, self.quantity, self.price, kind)

    def to_dict(self) -> dict[str, object]:
        """Its fields by name; `asdict` copies each of them in ten times the time."""
        return {
            "client_id": self.client_id,
            "symbol": self.symbol,
            "quantity": self.quantity,
            "price": self.price,
            "kind": self.kind,
        }


@dataclass(frozen=True, slots=True)
class AccountView:
    """What the guard knows of an account; symbols in no cluster stand alone, a highest equity of 0 means unknown.

    shorting   whether a position may be below zero
    gross_cut  share of equity that the broker itself keeps all positions within, cutting openings by one factor
    notional_cap  most that all positions and orders together may be worth, in money; of an account of real money
    """

    equity: float
    quantities: Mapping[str, float]
    quotes: Mapping[str, Quote]
    clusters: Mapping[str, int] = field(default_factory=dict)
    peak_equity: float = 0.0
    shorting: bool = True
    gross_cut: float = math.inf
    notional_cap: float = math.inf


class Decision(NamedTuple):
    """Whether an order may be sent; `reason` names the control that refused it."""

    order: Order
    allowed: bool
    reason: str | None
    state: State
