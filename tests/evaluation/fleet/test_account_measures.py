"""Whether an account has collapsed to cash, or into one symbol."""

from __future__ import annotations

import pytest

from pacesetter.evaluation.fleet.account_measures import allocation_gates


@pytest.mark.parametrize(
    ("cash", "positions", "passed"),
    [(0.5, 3.0, [True, True]), (0.99, 3.0, [False, True]), (0.5, 1.2, [True, False])],
)
def test_an_account_in_cash_or_in_one_symbol_has_collapsed(cash: float, positions: float, passed: list[bool]) -> None:
    assert [gate.passed for gate in allocation_gates({"cash": cash, "positions": positions})] == passed
