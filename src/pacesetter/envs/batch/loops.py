"""The rows of `rows.py` and `masks.py` as compiled loops over all environments of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pacesetter.arrays import Array, Booleans, Floats, Integers, Singles
from pacesetter.compiled import prange
from pacesetter.envs.batch.account_entries import PortfolioEntry, PositionEntry, write_account
from pacesetter.envs.batch.masks import limit_row, mask_row
from pacesetter.envs.batch.rows import (
    Cursor,
    first_refused,
    gather_row,
    locate,
    restart_row,
    see_row,
    step_row,
    try_row,
)
from pacesetter.market.bars import PLAIN
from pacesetter.market.jit import SOURCE_DIGEST, compile_for_cpu, jitable, prefetch, source_digest
from pacesetter.market.ledger import Column, Fill
from pacesetter.market.parameters import Slot
from pacesetter.market.state import Account, Position

__all__ = [
    "STEPS",
    "account_rows",
    "compile_loop",
    "has_known_widths",
    "limit_rows",
    "mask_rows",
    "observe_rows",
    "restart_rows",
    "try_rows",
]

REWARDS = ("../../rewards/trading.py", "../../rewards/elementwise.py")
INLINED = ("rows.py", "account_entries.py", "starts.py", "masks.py", *REWARDS)
AHEAD = 8  # environments between asking for a bar and reading it
BARS, CURSOR = 2, 6  # places in the arguments of `step_row` after e
WIDTHS = (
    *(len(Slot), int(PLAIN)),
    *map(len, (Account, Position, Cursor, Column, Fill)),
    len(PositionEntry) + len(PortfolioEntry),
)


@jitable
def locate_row(e: int, cursor: Integers, index: Integers) -> None:
    """Write the block and the bar that environment e sees."""
    index[e, 0] = cursor[e, Cursor.BLOCK]
    index[e, 1] = cursor[e, Cursor.TIME]


@jitable
def list_ended(ends: Booleans, rows: Integers) -> int:
    """Write the environments whose episode ended into the first of `rows` (env,); gives how many there are."""
    count = 0
    for e in range(ends.shape[1]):
        if ends[0, e] | ends[1, e]:
            rows[count] = e
            count += 1
    return count


@jitable
def fetch_bar(e: int, bars: Floats, cursor: Integers) -> None:
    """Have the bar that environment e fills in brought near: each stands at its own place in a table of many MB."""
    if e < cursor.shape[0]:
        block, t = locate(e, cursor)
        prefetch(bars[block, t + 2])  # where that bar ends; where it begins was fetched as the end of the one before


@jitable
def has_known_widths(arrays: Sequence[Array]) -> bool:
    """Whether these are the arrays of accounts of one position and actions of one number."""
    inputs, _, bars, parameters, accounts, positions, cursor, ledger, fills, _, vectors = arrays[:11]
    slots, of_bar, of_account, of_position, of_cursor, columns, of_fill, entries = WIDTHS
    is_known: bool = (
        inputs.shape[1] == 1
        and parameters.shape[2] == slots
        and bars.shape[2:] == (1, of_bar)
        and accounts.shape[1] == of_account
        and positions.shape[1:] == (1, of_position)
        and cursor.shape[1] == of_cursor
        and ledger.shape[1] == columns
        and fills.shape[1:] == (1, of_fill)
        and vectors.shape[2] == entries
    )
    return is_known


def _compiled_step(digest: int, parallel: bool, has_one: bool) -> Any:
    """The loop over rows, which gives the first row whose action is refused, or −1 − the number of episodes that ended.

    `digest` is there to be part of the cache key, which knows nothing of `parallel`.

    `has_one`: only for arrays that have known widths, whose step takes a tenth less time without loops over positions.
    """

    def step_rows(ended: Integers, index: Integers, ends: Booleans, arrays: Any) -> int:
        # Before the loop: no account moves unless all can.
        refused = first_refused(arrays[0], arrays[1])
        if refused >= 0:
            return refused
        for e in prange(arrays[0].shape[0]):
            # Always true, and inside the loop: this is where the compiler learns the widths.
            if not has_one or has_known_widths(arrays):
                fetch_bar(e + AHEAD, arrays[BARS], arrays[CURSOR])
                ends[0, e], ends[1, e] = step_row(e, *arrays)
                locate_row(e, arrays[CURSOR], index)
        return min(-1, digest) - list_ended(ends, ended)

    return compile_for_cpu(step_rows, parallel=parallel)


def compile_loop(row: Any, digest: int) -> Any:
    """A loop of `row` over all environments, as many as the first array has rows."""

    def rows(*arrays: Any) -> int:
        for e in range(arrays[0].shape[0]):
            row(e, *arrays)
        return digest

    return compile_for_cpu(rows)


@jitable
def restart_where(
    e: int,
    is_chosen: Booleans,
    settings: Floats,
    bars: Floats,
    parameters: Floats,
    accounts: Floats,
    positions: Floats,
    cursor: Integers,
    vectors: Singles,
    pool: Integers,
    offsets: Integers,
) -> None:
    """Begin an episode of environment e where it is chosen; write what it sees in any case."""
    if is_chosen[e]:
        restart_row(e, settings, parameters, accounts, positions, cursor, pool, offsets)
    see_row(e, bars, parameters, accounts, positions, cursor, vectors)


@jitable
def observe_row(
    e: int,
    cursor: Integers,
    windows_from: Singles,
    context_from: Singles,
    index: Integers,
    windows: Singles,
    context: Singles,
) -> None:
    """Write what environment e sees of the tables, or where to look."""
    locate_row(e, cursor, index)
    if windows.shape[0] > 0:
        gather_row(e, cursor, windows_from, context_from, windows, context)


@jitable
def account_row(
    e: int, vectors: Singles, accounts: Floats, positions: Floats, bars: Floats, parameters: Floats
) -> None:
    """Write what is seen of account e at the close of its own bar; every array has a row for each account."""
    write_account(vectors[e], accounts[e], positions[e], bars[e], parameters[e])


# numba's cache knows the age of one file only; the digest makes a change in any inlined file a new entry.
DIGEST = SOURCE_DIGEST ^ source_digest(*(Path(__file__).parent / name for name in INLINED))
restart_rows, observe_rows = compile_loop(restart_where, DIGEST), compile_loop(observe_row, DIGEST + 1)
mask_rows, account_rows = compile_loop(mask_row, DIGEST + 2), compile_loop(account_row, DIGEST + 7)
limit_rows = compile_loop(limit_row, DIGEST + 8)
try_rows = compile_loop(try_row, DIGEST + 9)
# (is parallel, has known widths) -> the compiled step
STEPS = {
    (parallel, has_one): _compiled_step(DIGEST + 3 + 2 * parallel + has_one, parallel, has_one)
    for parallel in (False, True)
    for has_one in (False, True)
}
