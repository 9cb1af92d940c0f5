"""Parameters are refused by their key, and packed in the units the kernel reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import FrozenInstanceError
from math import inf, nan
from typing import Any

import pytest

from pacesetter.errors import ConfigError
from pacesetter.market import Costs, Exits, Limits, MarketParameters, Orders, Slot
from pacesetter.registry import configure


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Costs(commission_bps=-1), "costs.commission_bps=-1 must be 0 or more"),
        (lambda: Costs(slippage_bps=nan), "costs.slippage_bps=nan"),
        (lambda: Costs(spread_bps=inf), "costs.spread_bps=inf"),
        (lambda: Costs(slippage_bps=12_000), "12002 bps would make the price of a sale 0 or less"),
        (lambda: Limits(reserve_cash_fraction=1.5), "market.reserve_cash=1.5 must be in 0 … 1"),
        (lambda: Limits(gross_leverage=0.5), "market.leverage=0.5"),
        (
            lambda: Limits(position_loss_limit_fraction=0.0),
            "limits.position_loss_limit_fraction=0 would act immediately",
        ),
        (lambda: Exits(stop_loss_fraction=2), "exits.stop_loss_fraction=2"),
        (lambda: Orders(smoothing_bars=0), "orders.smoothing_bars=0"),
        (lambda: Orders(minimum_trade="25"), "orders.minimum_trade='25'"),
        (lambda: MarketParameters(initial_cash=0), "market.initial_cash=0"),
        (lambda: MarketParameters(Costs(impact_bps=1)), "needs limits.volume_cap_fraction"),
        (lambda: MarketParameters(exits=Exits(stop_loss_fraction=0.0004)), "within what a fill costs"),
        (lambda: MarketParameters(exits=Exits(trailing_stop_fraction=0.0004)), "exits.trailing_stop_fraction=0.0004"),
        (lambda: Limits(position_cap_fraction=0), "market.position_cap=0 allows no position"),
        (lambda: Limits(shorting="no"), "market.shorting='no' must be True or False"),
    ],
)
def test_refused_by_key(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make()


def test_packed_in_fractions_and_per_bar() -> None:
    packed = MarketParameters(Costs(borrow_bps_per_year=252), bars_per_year=252.0).to_vector()
    assert len(packed) == len(Slot)
    assert packed[Slot.COMMISSION] == pytest.approx(5e-4)
    assert packed[Slot.HALF_SPREAD] == pytest.approx(2e-4)
    assert packed[Slot.BORROW_PER_BAR] == pytest.approx(1e-4)
    assert packed[Slot.SMOOTHING] == 0.5
    assert packed[Slot.STOP_LOSS] == inf
    assert packed[Slot.INITIAL_CASH] == 100_000


def test_configured_from_plain_options() -> None:
    rules = configure(MarketParameters, {"limits": {"shorting": True}, "costs": {"commission_bps": 1}}, "market")
    assert rules.limits.shorting
    with pytest.raises(ConfigError, match=r"market.costs.comission_bps.*did you mean 'commission_bps'"):
        configure(MarketParameters, {"costs": {"comission_bps": 1}}, "market")


def test_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        Costs().commission_bps = 1.0  # type: ignore[misc]
