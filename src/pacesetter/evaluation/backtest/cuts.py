"""What the limits of an account took from the weights that were asked for, in words."""

from __future__ import annotations

from collections import Counter

import numpy as np

from pacesetter.evaluation.backtest.backtest import Backtest
from pacesetter.market.ledger import Column, Fill
from pacesetter.market.parameters import MarketParameters
from pacesetter.market.risk import RiskColumn, RiskOptions, name_bounds
from pacesetter.market.targets import within_account

__all__ = ["describe_cuts", "describe_limits"]

LEAST = 0.0005  # of equity on average; less is rounding


def describe_cuts(result: Backtest, market: MarketParameters) -> str:
    """How much of the weights asked for each limit took on average, by its key; empty where none did.

    The band and the smallest trade are limits too: what they leave as it is, is said.
    """
    if result.wanted is None:
        return ""
    asked = np.nan_to_num(result.wanted[np.isfinite(result.wanted).any(axis=1)])
    limits = market.limits
    low, cap = (-limits.position_cap_fraction if limits.shorting else 0.0), limits.position_cap_fraction
    most = limits.gross_leverage - limits.reserve_cash_fraction
    allowed = asked if limits.shorting else np.maximum(asked, 0.0)
    capped = np.clip(allowed, low, cap)
    steps = [np.abs(weights).sum(axis=1) for weights in (asked, allowed, capped)]
    steps.append(np.minimum(steps[-1], most))
    gross = [float(step.mean()) if len(step) else 0.0 for step in steps]
    largest = float(np.abs(asked).max(initial=0.0))
    remedies = (
        ("shorting=false", "shorting=true"),
        (f"position_cap={cap:g}", f"position_cap={_round_up(largest)}"),
        (_leverage_key(market), f"leverage={_round_up(float(steps[2].max(initial=0.0)))}"),
    )
    said = [
        f"{key} took {before - after:.1%} (allow it by {remedy})"
        for (key, remedy), before, after in zip(remedies, gross[:-1], gross[1:], strict=True)
        if before - after > LEAST
    ]
    sentences = []
    if said:
        left = f"{gross[0]:.0%} of equity was asked on average, and the limits left {gross[-1]:.0%}"
        sentences.append(f"{left}: {'; '.join(said)}")
    sentences += [
        f"{key} left orders of {share:.1%} of equity a bar unsent (send them by {key.partition('=')[0]}=0)"
        for key, share in _measure_unsent(result, market).items()
        if share > LEAST
    ]
    return f"{result.name}: {'. '.join(sentences)}" if sentences else ""


def _measure_unsent(result: Backtest, market: MarketParameters) -> dict[str, float]:
    """Average distance to the weights asked for, where the band or the smallest trade left positions as they were."""
    if result.wanted is None or result.held is None or result.risk is not None:
        return {}  # the risk step has a band of its own, which is stated
    before = np.vstack([np.zeros(result.held.shape[1]), result.held[:-1]])
    asked = np.array([within_account(np.nan_to_num(row), market) for row in result.wanted])
    distance = np.abs(asked - before)
    # Without a price nothing can be sent, however large.
    is_left = np.isfinite(result.wanted) & (result.fills[:, :, Fill.ORDERED] == 0) & (result.closes > 0)
    equity = result.ledger[:, [Column.EQUITY_BEFORE]]
    is_near = is_left & (distance < market.band)
    is_small = is_left & ~is_near & (distance * equity < market.orders.minimum_trade)
    keys = (f"band={market.band:g}", is_near), (f"minimum_notional={market.orders.minimum_trade:g}", is_small)
    return {key: float(np.where(where, distance, 0.0).sum(axis=1).mean()) for key, where in keys}


def describe_limits(result: Backtest, risk: RiskOptions) -> str:
    """How often each limit acted in the risk step; empty without it, or where none did."""
    if result.risk is None:
        return ""
    bits = result.risk[:, RiskColumn.LIMITS].astype(int)
    acted = Counter(name for each in bits for name in name_bounds(int(each), risk))
    said = [f"{name} at {count / len(bits):.1%} of the bars" for name, count in acted.most_common()]
    return f"Limits that acted: {', '.join(said)}." if said else ""


def _leverage_key(market: MarketParameters) -> str:
    reserve = market.limits.reserve_cash_fraction
    return f"leverage={market.limits.gross_leverage:g}" + (f" less reserve_cash={reserve:g}" if reserve else "")


def _round_up(weight: float) -> str:
    """A round number that is not below the weight."""
    return f"{np.ceil(weight * 100 - 1e-9) / 100:g}"
