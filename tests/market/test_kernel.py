"""Properties of the kernel over generated prices, actions and rules; the uncompiled function is the reference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pacesetter.market import (
    Accounts,
    Bar,
    Column,
    Costs,
    Exits,
    Fill,
    Flag,
    Limits,
    MarketParameters,
    OrderKind,
    Orders,
    Slot,
)
from pacesetter.market.fill import fill_order
from pacesetter.market.kernel import carry, mark
from pacesetter.market.rows import step_row
from pacesetter.market.trades import trades

STEPS = 28


def between(low: float, high: float) -> st.SearchStrategy[float]:
    return st.floats(low, high, allow_subnormal=False)


def share_or_none(low: float) -> st.SearchStrategy[float | None]:
    return st.none() | between(low, 0.3)


COSTS = st.builds(
    Costs,
    commission_bps=between(0, 50),
    minimum_commission=between(0, 10),
    spread_bps=between(0, 60),
    slippage_bps=between(0, 30),
    impact_bps=between(0, 100),
    borrow_bps_per_year=between(0, 2_000),
    interest_bps_per_year=between(0, 1_000),
    loan_bps_per_year=between(0, 2_000),
)
LIMITS = st.builds(
    Limits,
    position_cap_fraction=between(0.05, 3),
    reserve_cash_fraction=between(0, 0.5),
    gross_leverage=st.just(1.0) | between(1, 3),
    volume_cap_fraction=between(0.01, 1),
    position_loss_limit_fraction=share_or_none(0.01),
    portfolio_loss_limit_fraction=share_or_none(0.05),
    shorting=st.booleans(),
)
EXITS = st.builds(
    Exits,
    stop_loss_fraction=share_or_none(0.02),
    take_profit_fraction=share_or_none(0.02),
    trailing_stop_fraction=share_or_none(0.02),
)
ORDERS = st.builds(
    Orders,
    hold_zone=between(0, 0.3),
    buy_fraction=between(0.05, 1),
    smoothing_bars=st.integers(1, 5),
    minimum_trade=between(0, 100),
)
PARAMETERS = st.builds(
    MarketParameters, costs=COSTS, limits=LIMITS, exits=EXITS, orders=ORDERS, band=st.just(0.0) | between(0, 0.3)
)
EPISODES = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 10_000),
        "symbols": st.sampled_from([1, 3]),
        "kind": st.sampled_from(list(OrderKind)),
        "parameters": PARAMETERS,
    }
)


def actions_of(seed: int, symbols: int, kind: OrderKind, parameters: MarketParameters) -> np.ndarray:
    rng = np.random.default_rng(seed + 1)
    if kind == OrderKind.DISCRETE:
        return rng.integers(0, 7, (STEPS, symbols)).astype(float)
    lowest = 0.0 if kind == OrderKind.TARGET and not parameters.limits.shorting else -1.0
    return rng.uniform(lowest, 1, (STEPS, symbols))


@pytest.fixture(name="run", scope="module")
def _run(play: Callable[..., Any], random_bars: Callable[..., Any]) -> Callable[..., Any]:
    """Play one generated episode."""

    def run(case: dict[str, Any], step: Any = None) -> Any:
        bars = random_bars(case["seed"], STEPS + 2, case["symbols"])
        return play(bars, actions_of(**case), case["parameters"], case["kind"], step)

    return run


def uncompiled(accounts: Accounts, actions: np.ndarray) -> None:
    for e in range(len(accounts)):
        step_row(e, *accounts.arrays(actions))
    accounts.times += 1


@settings(max_examples=60, deadline=None, derandomize=True)
@given(case=EPISODES)
def test_money_is_conserved(case: dict[str, Any], run: Callable[..., Any]) -> None:
    played = run(case)
    tolerance = 1e-9 * 100_000
    explained = played[Column.GROSS_PNL] - played[Column.COST] + played[Column.INTEREST]
    assert np.abs(played[Column.EQUITY_CHANGE] - explained).max() < tolerance
    carried = played[Column.INTEREST] - played[Column.BORROW]
    booked = np.cumsum(played[Column.REALISED] + carried) + played[Column.UNREALISED]
    assert np.abs(played[Column.EQUITY] - 100_000 - booked).max() < tolerance
    assert np.array_equal(played[Column.EQUITY_BEFORE][1:], played[Column.EQUITY][:-1])


@settings(max_examples=12, deadline=None, derandomize=True)
@given(case=EPISODES)
def test_compiled_equals_uncompiled_bit_for_bit(case: dict[str, Any], run: Callable[..., Any]) -> None:
    compiled, reference = run(case), run(case, uncompiled)
    assert compiled.ledger.tobytes() == reference.ledger.tobytes()
    assert compiled.fills.tobytes() == reference.fills.tobytes()


@settings(max_examples=60, deadline=None, derandomize=True)
@given(case=EPISODES)
def test_limits_hold(case: dict[str, Any], run: Callable[..., Any]) -> None:
    played, limits = run(case), case["parameters"].limits
    for cost in (Column.COMMISSION, Column.SPREAD, Column.SLIPPAGE, Column.IMPACT, Column.BORROW):
        assert (played[cost] >= 0).all()
    if not limits.shorting:
        assert (played.quantity >= 0).all()
        if limits.gross_leverage == 1:
            assert (played[Column.CASH] > -1e-6).all()
    before = np.vstack([np.zeros_like(played.quantity[:1]), played.quantity[:-1]])
    ordered = before + played.fills[:, :, Fill.QUANTITY]
    assert (before * ordered >= 0).all(), "an order carried a position through zero"
    assert (np.abs(played.fills[:, :, Fill.QUANTITY]) <= np.abs(played.fills[:, :, Fill.ORDERED]) * (1 + 1e-12)).all()


@settings(max_examples=60, deadline=None, derandomize=True)
@given(case=EPISODES)
def test_trades_realise_what_the_ledger_says(case: dict[str, Any], run: Callable[..., Any]) -> None:
    played = run(case)
    found = trades(played.fills)
    assert sum(trade.pnl for trade in found) == pytest.approx(played[Column.REALISED].sum(), abs=1e-7)
    assert sum(trade.commission for trade in found) == pytest.approx(played[Column.COMMISSION].sum(), abs=1e-7)
    assert sum(trade.exit_bar is None for trade in found) == played[Column.OPEN_POSITIONS][-1]


def replay(accounts: Accounts, quantities: np.ndarray) -> float:
    """Final equity when exactly these fills are done again under the account's own costs."""
    arrays = (accounts.accounts[0], accounts.positions[0], accounts.ledger[0], accounts.fills[0])
    account, positions, ledger, fills = arrays
    for t, filled in enumerate(quantities):
        ledger[:], fills[:] = 0.0, 0.0
        now, bar = accounts.bars[t], accounts.bars[t + 1]
        carry(account, positions, ledger, now, bar, accounts.parameters[0])
        for k, quantity in enumerate(filled):
            fill_order(account, positions, ledger, fills, k, quantity, bar, accounts.parameters[0])
        mark(account, positions, ledger, fills, bar, accounts.parameters[0])
    return float(ledger[Column.EQUITY])


@settings(max_examples=30, deadline=None, derandomize=True)
@given(case=EPISODES)
def test_costs_never_make_anyone_richer(case: dict[str, Any], run: Callable[..., Any], random_bars: Any) -> None:
    """With the same fills: no costs ≥ costs ≥ doubled costs, and strictly so where something was traded."""
    case["parameters"] = MarketParameters(case["parameters"].costs, case["parameters"].limits)
    quantities = run(case).fills[:, :, Fill.QUANTITY]
    bars = random_bars(case["seed"], STEPS + 2, case["symbols"])
    equity = []
    for factor in (0.0, 1.0, 2.0):
        accounts = Accounts(bars, case["parameters"])
        accounts.parameters[:, : Slot.BORROW_PER_BAR + 1] *= factor
        equity.append(replay(accounts, quantities))
    assert equity[0] >= equity[1] - 1e-7
    assert equity[1] >= equity[2] - 1e-7
    if case["parameters"].costs.commission_bps > 1 and quantities.any():
        assert equity[0] > equity[1] > equity[2]


@settings(max_examples=20, deadline=None, derandomize=True)
@given(case=EPISODES, cut=st.integers(1, STEPS - 1))
def test_later_bars_change_nothing_before(
    case: dict[str, Any], cut: int, play: Callable[..., Any], random_bars: Callable[..., Any]
) -> None:
    bars = random_bars(case["seed"], STEPS + 2, case["symbols"])
    actions = actions_of(**case)[:cut]
    first = play(bars, actions, case["parameters"], case["kind"])
    bars.values[cut + 1 :, :, : Bar.STATUS] *= 1.7
    second = play(bars, actions, case["parameters"], case["kind"])
    assert first.ledger.tobytes() == second.ledger.tobytes()


def test_fills_are_at_the_open_moved_against_the_trader(play: Callable[..., Any], random_bars: Any) -> None:
    bars = random_bars(5, STEPS + 2)
    played = play(bars, actions_of(5, 1, OrderKind.CONTINUOUS, MarketParameters()), MarketParameters(), 0)
    filled = played.fills[:, 0, Fill.QUANTITY]
    done = filled != 0
    opens = bars.values[1 : STEPS + 1, 0, Bar.OPEN][done]
    expected = opens * (1 + np.sign(filled[done]) * 5e-4)
    assert done.sum() > 5
    assert played.fills[done, 0, Fill.PRICE] == pytest.approx(expected, rel=1e-14)


def test_an_entry_needs_a_fresh_price_and_an_exit_does_not(play: Callable[..., Any], random_bars: Any) -> None:
    bars = random_bars(1, 6)
    bars.values[:, :, Bar.STATUS] = 1.0
    bars.values[[0, 3], 0, Bar.STATUS] = 0.0
    played = play(bars, [0.4, 0.4, 0.4, -1.0], MarketParameters(orders=Orders(smoothing_bars=1)), 0)
    assert played.fills[0, 0, Fill.ORDERED] == 0, "bar 0 is halted: no price to enter on"
    assert played.fills[1, 0, Fill.QUANTITY] > 0
    assert played.flags[2] & Flag.HALTED
    assert played.quantity[3, 0] == 0, "decided on the stale price of bar 3, sold in bar 4"
