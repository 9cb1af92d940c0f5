"""Whether a policy looks ahead: bars after t are altered, and no order up to t may change by a single bit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pacesetter.envs.batch.bank import Bank
from pacesetter.errors import DataError
from pacesetter.evaluation.backtest.backtest import backtest
from pacesetter.market.parameters import MarketParameters
from pacesetter.panel import Panel
from pacesetter.policies.market_rows import market_bank
from pacesetter.policies.policy import Policy

__all__ = ["altered_after", "check_causal"]

Array = NDArray[Any]
MOVE = 0.1  # standard deviation of the altered bars' log prices
UNSEEN_SHARE = 0.2  # of the altered bars


def altered_after(panel: Panel, t: int, seed: int = 0, side: float = 1.0) -> Panel:
    """The panel with other prices and volumes after bar t, and with some of these bars not observed.

    All prices of a bar move by one factor; with `side` −1 by its inverse, so that of two such panels one shows a rise
    where the other shows a fall.
    """
    generator = np.random.default_rng(seed)
    blocks, mask = panel.blocks.copy(), panel.mask.copy()
    rest = mask[t + 1 :]
    # One factor for all prices of a bar keeps low ≤ open, close ≤ high; volume moves too.
    blocks[:, t + 1 :] *= np.exp(side * MOVE * generator.standard_normal(rest.shape))
    # A policy may look ahead at whether a bar exists, too.
    rest &= generator.random(rest.shape) > UNSEEN_SHARE
    # As a panel has it: prices of an unobserved bar are unknown, not stale.
    blocks[:, ~mask] = np.nan
    return replace(panel, blocks=blocks, mask=mask, truth=None)


def check_causal(
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
    # Both directions: a threshold on a future return may be crossed by only one of them.
    for side in (1.0, -1.0):
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
