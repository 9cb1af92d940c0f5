"""Targets of one account from what agents propose: computed by hand."""

from __future__ import annotations

import numpy as np
import pytest

from pacesetter.market import Limits, MarketParameters
from pacesetter.market.orders import as_targets, target_range
from pacesetter.market.targets import joint_targets, within_account

RULES = MarketParameters()  # a cap of 15 %, a hold zone of 0.1
SHORT = MarketParameters(limits=Limits(shorting=True))


@pytest.mark.parametrize(
    ("proposal", "held", "expected"),
    [
        (1.0, 0.0, 0.15),
        (0.5, 0.0, 0.075),
        (0.5, 0.1, 0.1),  # an order for more never sells
        (0.05, 0.1, 0.1),  # within the hold zone the position stays
        (0.05, 0.0, 0.0),
        (-0.5, 0.1, 0.05),  # closes half of it
        (-1.0, 0.1, 0.0),
        (-1.0, 0.0, 0.0),  # nothing to sell
    ],
)
def test_orders_become_targets(proposal: float, held: float, expected: float) -> None:
    found = joint_targets(np.array([proposal]), np.array([held]), RULES)
    assert found == pytest.approx([expected])


def test_shorts_mirror_longs() -> None:
    found = joint_targets(np.array([-1.0, 0.5, -0.5]), np.array([0.0, -0.1, -0.1]), SHORT)
    assert found == pytest.approx([-0.15, -0.05, -0.1])


def test_numbers_of_a_policy_are_spread_over_what_a_target_can_be() -> None:
    assert target_range(RULES) == (0.0, 0.15)
    assert as_targets(np.array([-1.0, 0.0, 1.0]), RULES) == pytest.approx([0.0, 0.075, 0.15])
    assert as_targets(np.array([-1.0, 0.0, 1.0]), SHORT) == pytest.approx([-0.15, 0.0, 0.15])
    found = joint_targets(np.array([-1.0, 0.0, 1.0]), np.array([0.1, 0.1, 0.1]), RULES, are_targets=True)
    assert found == pytest.approx([0.0, 0.075, 0.15])


def test_what_is_oversubscribed_is_scaled_by_one_factor() -> None:
    found = joint_targets(np.array([1.0] * 8 + [0.5] * 4), np.zeros(12), RULES)  # 8 · 15 % + 4 · 7.5 % = 150 %
    assert found == pytest.approx([0.1] * 8 + [0.05] * 4)
    kept = MarketParameters(limits=Limits(reserve_cash_fraction=0.25))
    assert within_account(np.full(10, 0.15), kept) == pytest.approx([0.075] * 10)
