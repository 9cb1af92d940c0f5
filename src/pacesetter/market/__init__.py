"""The market: one kernel that turns orders into fills, costs, equity and limits, without reinforcement learning."""

from __future__ import annotations

from pacesetter.market.bars import Bar, MarketBars, Status
from pacesetter.market.batch import Accounts
from pacesetter.market.ledger import FILL_COLUMNS, LEDGER_COLUMNS, Column, Fill, Flag
from pacesetter.market.orders import DISCRETE_AS_CONTINUOUS, Discrete, OrderKind, as_continuous
from pacesetter.market.parameters import Costs, Exits, Limits, MarketParameters, Orders, Slot
from pacesetter.market.state import Account, Position
from pacesetter.market.trades import Trade, trades

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
    "trades",
]
