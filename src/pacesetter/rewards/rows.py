"""Compiled components: the formulas of `trading.py` and `objectives.py` for one account, and for all on the CPU."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

from pacesetter.arrays import Floats, Integers
from pacesetter.market.jit import SOURCE_DIGEST, compile_for_cpu, jitable, source_digest
from pacesetter.market.ledger import Column
from pacesetter.rewards.codes import Code
from pacesetter.rewards.component import INTERPRETED
from pacesetter.rewards.objectives import activity, consistency, exploration, four, profit, risk, timing
from pacesetter.rewards.trading import (
    context_hold,
    cost,
    differential_sharpe,
    drawdown,
    hold,
    mean_variance,
    pnl,
    pyramiding,
    realised_pnl,
    repetition,
    size_multiplier,
    sizing,
    staged_exit,
    time,
    variance,
)

__all__ = ["evaluate", "fill"]

INLINED = ("trading.py", "objectives.py", "codes.py", "elementwise.py")


@jitable
def evaluate_row(code: int, row: Floats, state: Floats, options: Floats) -> float:
    """The value of one component for one account, from its ledger row (column,).

    Its state (k,) is updated in place.
    """
    before, change = row[Column.EQUITY_BEFORE], row[Column.EQUITY_CHANGE]
    value = 0.0
    if code == Code.PNL:
        value = pnl(before, change)
    elif code == Code.MEAN_VARIANCE:
        value = mean_variance(before, change, options[0])
    elif code == Code.VARIANCE:
        value = variance(before, change)
    elif code == Code.REALISED_PNL:
        value = realised_pnl(before, row[Column.REALISED])
    elif code == Code.COST:
        value = cost(before, row[Column.COST])
    elif code == Code.TIME:
        value = time(row[Column.HOLDING_BARS], options[0])
    elif code == Code.DIFFERENTIAL_SHARPE:
        value, after = differential_sharpe(before, change, (state[0], state[1]), options[0], options[1])
        state[0], state[1] = after
    elif code == Code.DRAWDOWN:
        value = drawdown(row[Column.DRAWDOWN])
    elif code == Code.SIZING:
        value = sizing(row[Column.EXPOSURE], options[0])
    elif code == Code.HOLD:
        value = hold(row[Column.TURNOVER])
    elif code == Code.SIZE_MULTIPLIER:
        value = size_multiplier(before, change, row[Column.EXPOSURE_BEFORE], options[0], options[1], options[2])
    elif code == Code.STAGED_EXIT:
        realised, flags = row[Column.REALISED], row[Column.FLAGS]
        value, (state[0],) = staged_exit(before, realised, flags, (state[0],), options[0], options[1])
    elif code == Code.PYRAMIDING:
        unrealised, flags = row[Column.UNREALISED_BEFORE], row[Column.FLAGS]
        value, (state[0],) = pyramiding(before, change, unrealised, flags, (state[0],), options[0])
    elif code == Code.CONTEXT_HOLD:
        value = context_hold(row[Column.TURNOVER], row[Column.UNREALISED_BEFORE], options[0], options[1])
    elif code == Code.REPETITION:
        value, after = repetition(row[Column.FILL_QUANTITY], (state[0], state[1]), options[0], options[1])
        state[0], state[1] = after
    elif Code.PROFIT <= code <= Code.CONSISTENCY:
        value = evaluate_objective(code, row, state, options)
    return value


@jitable
def evaluate_objective(code: int, row: Floats, state: Floats, options: Floats) -> float:
    """As `evaluate_row`, of the components in `objectives.py`."""
    before, change, realised = row[Column.EQUITY_BEFORE], row[Column.EQUITY_CHANGE], row[Column.REALISED]
    held, held_before = row[Column.EXPOSURE], row[Column.EXPOSURE_BEFORE]
    value = 0.0
    if code == Code.PROFIT:
        unrealised, unrealised_before = row[Column.UNREALISED], row[Column.UNREALISED_BEFORE]
        order = row[Column.ORDER]
        value = profit(
            before, realised, unrealised, unrealised_before, held, held_before, order, options[0], options[1]
        )
    elif code == Code.RISK:
        value, after = risk(before, change, row[Column.DRAWDOWN], held, (state[0], state[1]), options[0])
        state[0], state[1] = after
    elif code == Code.ACTIVITY:
        orders = four(state, 0) + four(state, 4) + four(state, 8) + four(state, 12) + four(state, 16)
        value, remembered = activity(row[Column.ORDER], row[Column.TURNOVER], (*orders, state[20], state[21]))
        write(state, remembered)
    elif code == Code.TIMING:
        gross, flags = row[Column.GROSS_PNL], row[Column.FLAGS]
        value, (state[0],) = timing(
            before, gross, realised, held, held_before, flags, (state[0],), options[0], options[1]
        )
    elif code == Code.EXPLORATION:
        visits = four(state, 0) + four(state, 4) + four(state, 8) + four(state, 12)
        value, counts = exploration(before, row[Column.UNREALISED], held, visits)
        write(state, counts)
    elif code == Code.CONSISTENCY:
        returns = four(state, 0) + four(state, 4)
        value, latest = consistency(before, change, (*returns, state[8], state[9], state[10]))
        write(state, latest)
    return value


@jitable
def write(state: Floats, values: tuple[float, ...]) -> None:
    """Write a tuple into the state (k,)."""
    for place in range(len(values)):
        state[place] = values[place]


@jitable
def fill(
    c: int, e: int, ledger: Floats, codes: Integers, offsets: Integers, options: Floats, state: Floats, values: Floats
) -> None:
    """Write the value of component c for account e, if it is a compiled one; what it remembers is updated."""
    # A component that is interpreted may have a ledger without the market's columns.
    if codes[c] != INTERPRETED:
        values[c, e] = evaluate_row(codes[c], ledger[e], state[e, offsets[c] :], options[c])


def _compile_loop(digest: int) -> Callable[..., int]:
    """The loop over all accounts; `digest` is there to be part of the cache key."""

    def evaluate(
        ledger: Floats,
        watched: Integers,
        codes: Integers,
        offsets: Integers,
        options: Floats,
        state: Floats,
        values: Floats,
    ) -> int:
        """Fill the rows of `values` (component, env) that have a code, and update `state` (env, k).

        Gives −1; or, before anything is written, an environment with a hole in one of the `watched` columns of
        `ledger`. `offsets` says where each component's state begins, `options` (component, option) is its packed
        options.
        """
        # All holes are found before anything is written: a refused step leaves states untouched.
        for place in watched:
            for e in range(ledger.shape[0]):
                if not math.isfinite(ledger[e, place]):
                    return e
        for c in range(codes.shape[0]):
            for e in range(ledger.shape[0]):
                fill(c, e, ledger, codes, offsets, options, state, values)
        return min(-1, digest)

    return compile_for_cpu(evaluate)


# numba's cache knows the age of one file only; the digest makes a change in any inlined file a new entry.
evaluate = _compile_loop(SOURCE_DIGEST ^ source_digest(*(Path(__file__).parent / name for name in INLINED)))
