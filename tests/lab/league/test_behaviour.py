"""What a backtest says of a policy's orders, by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from pacesetter.evaluation.backtest.backtest import Backtest
from pacesetter.lab.league.behaviour import behaviour, gates_of
from pacesetter.market.ledger import Column, Fill

BARS = 40


def played(orders: Any, quantities: Any) -> Backtest:
    """A backtest of one symbol at a price of 1 and an equity of 100."""
    ledger, fills = np.zeros((BARS, len(Column))), np.zeros((BARS, 1, len(Fill)))
    ledger[:, Column.EQUITY_BEFORE] = ledger[:, Column.EQUITY] = 100.0
    fills[:, 0, Fill.ORDERED] = fills[:, 0, Fill.QUANTITY] = quantities
    times = pd.date_range("2020-01-01", periods=BARS, tz="UTC")
    return Backtest("hand", ("A",), times, ledger, fills, np.reshape(orders, (BARS, 1)), np.ones((BARS, 1)), 252.0)


def test_a_policy_that_buys_and_sells_in_turn():
    orders, quantities = np.tile([3.0, 5.0, 0.0, 0.0], 10), np.tile([10.0, -10.0, 0.0, 0.0], 10)
    found = behaviour(played(orders, quantities))
    assert (found.buys, found.holds, found.sells) == (0.25, 0.5, 0.25)
    assert found.traded == 500.0
    assert found.entropy == pytest.approx(-(0.5 * np.log(0.25) + 0.5 * np.log(0.5)))
    assert found.least_entropy == pytest.approx(0.5 * np.log(7))
    assert found.coverage == pytest.approx(3 / 7)
    assert found.variety == pytest.approx(3 / 7)
    assert found.round_trips == pytest.approx(1e3 * 10 / 39)
    assert found.exposure == pytest.approx(0.1 * 0.25)
    failed = [name for name, gate in gates_of(found).items() if not gate.passed]
    assert failed == ["coverage"]


def test_targets_that_are_left_alone_are_a_kind_of_their_own():
    orders = np.full(BARS, np.nan)
    orders[0], orders[20] = 0.15, 0.0
    found = behaviour(played(orders, np.zeros(BARS)))
    assert found.least_entropy == 0.6
    assert found.entropy == pytest.approx(-(0.95 * np.log(0.95) + 0.05 * np.log(0.025)))
    assert found.holds == 1.0
    assert not gates_of(found)["most used side"].passed
    assert gates_of(replace(found, holds=0.5, buys=0.5))["most used side"].passed
