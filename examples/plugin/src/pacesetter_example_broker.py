"""A broker from outside: orders go into a file for a person to place, and the market kernel books them as filled.

A broker keeps the contract of `pacesetter.serving.trader.broker`. One that trades by requests of its own is a `Venue`
(`pacesetter.serving.trader.venue`): it needs little more than `place`, `find_order`, `cancel` and `read_account`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pacesetter.market.parameters import MarketParameters
from pacesetter.serving.risk.order import Order
from pacesetter.serving.trader.broker import Broker, BrokerOptions, OrderStatus
from pacesetter.serving.trader.paper_broker import PaperBroker

__all__ = ["TicketBroker", "TicketOptions"]


@dataclass(frozen=True)
class TicketOptions(BrokerOptions):
    """`broker=tickets broker.path=orders.csv`: where the orders are written."""

    path: str = "orders.csv"

    @property
    def is_local(self) -> bool:
        return True

    def open(self, symbols: Sequence[str], market: MarketParameters) -> Broker:
        return TicketBroker(symbols, market, Path(self.path))


class TicketBroker(PaperBroker):
    """The paper broker, which also writes a line for each order; the same client id is written once."""

    name = "tickets"

    def __init__(self, symbols: Sequence[str], market: MarketParameters, path: Path) -> None:
        super().__init__(symbols, market)
        self.path = path

    def submit(self, order: Order) -> OrderStatus:
        status = super().submit(order)
        lines = self.path.read_text(encoding="utf-8").splitlines() if self.path.exists() else ["id,symbol,quantity"]
        if not any(line.startswith(f"{order.client_id},") for line in lines):
            line = f"{order.client_id},{order.symbol},{order.quantity:.8g}"
            self.path.write_text("\n".join([*lines, line]) + "\n", encoding="utf-8")
        return status
