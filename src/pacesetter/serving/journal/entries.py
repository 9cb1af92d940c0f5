"""A bar as the journal keeps it: rows of decisions, orders, fills, positions and equity."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from pacesetter.arrays import Array
from pacesetter.market.bars import Bar
from pacesetter.market.state import Account, Position
from pacesetter.serving.journal.journal import Page, Row
from pacesetter.serving.monitor.alerts import Alert
from pacesetter.serving.monitor.watch import Vitals
from pacesetter.serving.risk.order import Decision
from pacesetter.serving.trader.broker import OrderStatus, Settlement
from pacesetter.serving.trader.desk import Desk, Ticket

__all__ = ["make_page"]


def make_page(
    desk: Desk,
    at: pd.Timestamp,
    bar: Array,
    settlement: Settlement,
    ticket: Ticket,
    vitals: Vitals,
    alerts: Sequence[Alert],
    state: Row,
    why: Sequence[str] = (),
    followed: Sequence[str] = (),
) -> Page:
    """The page of the bar (K, Bar) known at `at`, with the `state` to resume from.

    why   sentences on its orders       followed   on which policy decides, where that changes
    """
    orders = [_order_row(decision) for decision in ticket.decisions]
    fills: list[Row] = [
        {"fill_id": f"{at:%Y%m%dT%H%M%S}-{count:04d}", **fill._asdict()}
        for count, fill in enumerate(settlement.executions)
    ]
    return Page(
        # Databases keep microseconds.
        time=at.floor("us").to_pydatetime(),
        state=state,
        content={"orders": orders, "fills": fills, "state": desk.guard.state.value},
        equity=_equity_row(desk, bar, vitals),
        decisions=_decision_rows(desk, ticket),
        orders=orders,
        fills=fills,
        positions=_position_rows(desk, bar),
        events=[
            *({"kind": "policy", "message": sentence} for sentence in followed),
            *({"kind": "alert", "message": f"{alert.level}: {alert.message}"} for alert in alerts),
            *({"kind": "why", "message": sentence} for sentence in why),
        ],
        statuses=settlement.closed,
    )


def _equity_row(desk: Desk, bar: Array, vitals: Vitals) -> Row:
    account, values = desk.broker.account, desk.broker.positions[:, Position.QUANTITY] * bar[:, Bar.CLOSE]
    return {
        "equity": float(account[Account.EQUITY]),
        "cash": float(account[Account.CASH]),
        "exposure": float(np.abs(values).sum() / account[Account.EQUITY]),
        "drawdown": vitals.drawdown,
        "state": desk.guard.state.value,
        # JSON has no NaN; what is not known yet is left out.
        "vitals": {name: value for name, value in vitals._asdict().items() if math.isfinite(value)},
    }


def _order_row(decision: Decision) -> Row:
    status = OrderStatus.PENDING if decision.allowed else OrderStatus.DENIED
    return {**decision.order.to_dict(), "status": status.value, "reason": decision.reason or ""}


def _position_rows(desk: Desk, bar: Array) -> list[Row]:
    """The open positions."""
    rows = zip(desk.symbols, desk.broker.positions, bar[:, Bar.CLOSE], strict=True)
    return [
        {
            "symbol": symbol,
            "quantity": float(position[Position.QUANTITY]),
            "entry_price": float(position[Position.ENTRY_PRICE]),
            "price": float(price),
        }
        for symbol, position, price in rows
        if position[Position.QUANTITY]
    ]


def _decision_rows(desk: Desk, ticket: Ticket) -> list[Row]:
    """What was decided for each symbol; a policy with options or curiosity says so in `notes`.

    A list in `notes` has an entry for each symbol; anything else is of all of them.
    """
    notes = desk.policy.notes

    def read_note(name: str, place: int) -> object:
        given = notes.get(name)
        return given[place] if isinstance(given, list) else given

    return [
        {
            "symbol": symbol,
            "action_space": desk.policy.action,
            "raw_action": None if math.isnan(action) else action,
            "smoothed_action": signal,
            "curiosity_reward": read_note("curiosity_reward", place),
            "option": read_note("option", place),
        }
        for place, (symbol, action, signal) in enumerate(
            zip(desk.symbols, ticket.actions.tolist(), ticket.signals.tolist(), strict=True)
        )
    ]
