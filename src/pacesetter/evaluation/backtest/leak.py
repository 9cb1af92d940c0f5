"""Whether a policy looks ahead: bars after t are altered, and no order up to t may change by a single bit."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pacesetter.arrays import Array
from pacesetter.envs.batch.bank import Bank
from pacesetter.errors import DataError
from pacesetter.evaluation.backtest.backtest import backtest
from pacesetter.features.causality import SIDES, altered_after
from pacesetter.market.parameters import MarketParameters
from pacesetter.panel import Panel
from pacesetter.policies.market_rows import market_bank
from pacesetter.policies.policy import Policy

__all__ = ["check_policy"]


def check_policy(
    make: Callable[[Panel], Policy],
    panel: Panel,
    t: int,
    *,
    first: int,
    bank_of: Callable[[Panel], Bank] = market_bank,
    market: MarketParameters | None = None,
    draws: int = 2,
    seed: int = 0,
) -> None:
    """Play the policy that `make` gives for a panel up to bar t, also on panels altered after t; refuse any difference.

    `bank_of` gives the features of a panel, so that they are held to the same. `draws` panels are altered up- and
    downwards each. Raises the first symbol and bar whose order differs. A look one bar ahead shows at bar t alone, so
    give a bar at which the policy acts, e.g. `first` plus a multiple of its `every_bars`.
    """

    def orders_on(market_panel: Panel) -> tuple[str, Array]:
        policy, bank = make(market_panel), bank_of(market_panel)
        return policy.name, backtest(policy, market_panel, first=first, last=t + 1, market=market, bank=bank).orders

    name, orders = orders_on(panel)
    for side in SIDES:
        for draw in range(draws):
            _, others = orders_on(altered_after(panel, t, seed + draw, side))
            _check_same(name, orders, others, panel, t, first)


def _check_same(name: str, orders: Array, others: Array, panel: Panel, t: int, first: int) -> None:
    # Bit for bit: a tolerance would hide a small weight on the future.
    differs = np.argwhere((orders != others) & ~(np.isnan(orders) & np.isnan(others)))
    if len(differs):
        step, symbol = differs[0]
        raise DataError(
            f"policy '{name}' looks ahead: when bars after {panel.index[t]:%Y-%m-%d %H:%M} change, its order for "
            f"'{panel.symbols[symbol]}' at {panel.index[first + step]:%Y-%m-%d %H:%M} changes from "
            f"{orders[step, symbol]:g} to {others[step, symbol]:g}; let it use only its panel and observation"
        )
