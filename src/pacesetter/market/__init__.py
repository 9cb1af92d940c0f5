"""The market: one kernel that turns orders into fills, costs, equity and limits, without reinforcement learning."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pacesetter.late import names_on_use

if TYPE_CHECKING:
    from pacesetter.market.bars import Bar, MarketBars, Status
    from pacesetter.market.batch import Accounts
    from pacesetter.market.ledger import FILL_COLUMNS, LEDGER_COLUMNS, Column, Fill, Flag
    from pacesetter.market.orders import DISCRETE_AS_CONTINUOUS, Discrete, OrderKind, as_continuous
    from pacesetter.market.parameters import Costs, Exits, Limits, MarketParameters, Orders, Slot
    from pacesetter.market.state import Account, Position
    from pacesetter.market.trades import Trade

_HOMES = {
    "Account": "pacesetter.market.state",
    "Accounts": "pacesetter.market.batch",
    "Bar": "pacesetter.market.bars",
    "Column": "pacesetter.market.ledger",
    "Costs": "pacesetter.market.parameters",
    "DISCRETE_AS_CONTINUOUS": "pacesetter.market.orders",
    "Discrete": "pacesetter.market.orders",
    "Exits": "pacesetter.market.parameters",
    "FILL_COLUMNS": "pacesetter.market.ledger",
    "Fill": "pacesetter.market.ledger",
    "Flag": "pacesetter.market.ledger",
    "LEDGER_COLUMNS": "pacesetter.market.ledger",
    "Limits": "pacesetter.market.parameters",
    "MarketBars": "pacesetter.market.bars",
    "MarketParameters": "pacesetter.market.parameters",
    "OrderKind": "pacesetter.market.orders",
    "Orders": "pacesetter.market.parameters",
    "Position": "pacesetter.market.state",
    "Slot": "pacesetter.market.parameters",
    "Status": "pacesetter.market.bars",
    "Trade": "pacesetter.market.trades",
    "as_continuous": "pacesetter.market.orders",
}
__all__ = [
    "DISCRETE_AS_CONTINUOUS",
    "FILL_COLUMNS",
    "LEDGER_COLUMNS",
    "Account",
    "Accounts",
    "Bar",
    "Column",
    "Costs",
    "Discrete",
    "Exits",
    "Fill",
    "Flag",
    "Limits",
    "MarketBars",
    "MarketParameters",
    "OrderKind",
    "Orders",
    "Position",
    "Slot",
    "Status",
    "Trade",
    "as_continuous",
]

__getattr__ = names_on_use(__name__, _HOMES)
