"""One row of many accounts, opened or stepped: what the loop on the CPU and the thread on the GPU both call."""

from __future__ import annotations

from pacesetter.arrays import Booleans, Floats, Integers
from pacesetter.market.jit import jitable
from pacesetter.market.kernel import open_account, step_account

__all__ = ["open_row", "step_row"]


@jitable
def open_row(
    e: int,
    accounts: Floats,
    positions: Floats,
    ledger: Floats,
    fills: Floats,
    times: Integers,
    parameters: Floats,
    chosen: Booleans,
    at: Integers,
) -> None:
    """Start account `e` over at the close of bar `at[e]`, if it is `chosen`."""
    if chosen[e]:
        open_account(accounts[e], positions[e], parameters[e] if parameters.shape[0] > 1 else parameters[0])
        ledger[e] = 0.0
        fills[e] = 0.0
        times[e] = at[e]


@jitable
def step_row(
    e: int,
    accounts: Floats,
    positions: Floats,
    ledger: Floats,
    fills: Floats,
    bars: Floats,
    times: Integers,
    columns: Integers,
    actions: Floats,
    kinds: Integers,
    parameters: Floats,
) -> int:
    """Step account `e`, which holds the symbols from `columns[e]` on, from bar `times[e]` to the next; gives its flags.

    `parameters` has one row for all accounts, or one for each.
    """
    t, first, last = times[e], columns[e], columns[e] + positions.shape[1]
    return step_account(
        accounts[e],
        positions[e],
        ledger[e],
        fills[e],
        bars[t, first:last],
        bars[t + 1, first:last],
        actions[e],
        kinds[e],
        parameters[e] if parameters.shape[0] > 1 else parameters[0],
    )
