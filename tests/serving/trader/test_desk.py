"""The desk's books across restarts: stored by symbol and name, and read from earlier versions' positions."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from trading import FIRST, Rule, small_market, small_panel

from pacesetter.panel import Panel
from pacesetter.policies.policy import Seen
from pacesetter.serving.risk.guard import Guard
from pacesetter.serving.trader.desk import Desk, Ticket, last_bars

BARS = 12


def play(desk: Desk, panel: Panel, first: int, last: int) -> list[Ticket]:
    """The tickets of the bars from `first` to `last`."""
    tickets = []
    for t in range(first, last):
        so_far = panel.rows(0, t + 1)
        bars, now = last_bars(so_far), so_far.index[-1].timestamp()
        desk.settle(so_far, bars, now)
        blank = {"position": np.zeros(0), "portfolio": np.zeros(0)}
        tickets.append(desk.decide(Seen(so_far, t, blank, None, FIRST), bars, now))
    return tickets


def fresh(panel: Panel) -> Desk:
    return Desk(Rule("continuous"), Guard(), panel.symbols, small_market(panel))


def positional(state: dict[str, Any], symbols: tuple[str, ...]) -> dict[str, Any]:
    """The state as an earlier version wrote it: rows of numbers in the order of symbols and columns."""
    rows = {name: [list(state[name][symbol].values()) for symbol in symbols] for name in ("positions", "bar")}
    signals = [state["signals"][symbol] for symbol in symbols]
    account = list(state["account"].values())
    return state | rows | {"signals": signals, "account": account, "weights": [0.0] * len(symbols)}


def shuffled(state: dict[str, Any], symbols: tuple[str, ...]) -> dict[str, Any]:
    """The same state with every key in another place."""
    return json.loads(json.dumps(state, sort_keys=True))


@pytest.mark.parametrize("written", [shuffled, positional])
def test_a_restored_desk_goes_on_to_the_bit(written: Any) -> None:
    panel = small_panel()
    whole = fresh(panel)
    expected = play(whole, panel, FIRST, FIRST + 2 * BARS)[BARS:]
    before = fresh(panel)
    play(before, panel, FIRST, FIRST + BARS)
    state = json.loads(json.dumps(before.to_dict()))
    assert state["positions"].keys() == state["signals"].keys() == state["bar"].keys() == set(panel.symbols)
    assert state["account"].keys() == {"cash", "equity", "peak_equity", "liquidating"}
    after = fresh(panel)
    after.restore(written(state, panel.symbols))
    found = play(after, panel, FIRST + BARS, FIRST + 2 * BARS)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one.quantities, other.quantities)
        assert one.decisions == other.decisions
    assert after.to_dict() == whole.to_dict()
    assert any(ticket.quantities.any() for ticket in expected)


def test_an_order_that_was_never_taken_leaves_its_symbol_as_it_is() -> None:
    panel = small_panel()
    desk, t = fresh(panel), FIRST
    while not (ticket := play(desk, panel, t, t + 1)[0]).orders:
        t += 1
    held = desk.broker.positions.copy()
    for order in ticket.orders:
        desk.drop(order.client_id)
    so_far = panel.rows(0, t + 2)
    desk.settle(so_far, last_bars(so_far), so_far.index[-1].timestamp())
    np.testing.assert_array_equal(desk.broker.positions[:, 0], held[:, 0])
