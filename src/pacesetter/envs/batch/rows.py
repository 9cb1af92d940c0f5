"""One environment, one row: step, end, restart and observe in plain scalar Python that numba compiles into one loop.

Read `step_row` first. The arrays it works on:

inputs       (env, action) float64, the actions             settings   (Setting,) float64, alike for all
bars         (block, time, K, Bar) of the bank              parameters (2, env, Slot): in force, and from the next
accounts     (env, Account)                                            episode on
positions    (env, K, Position)                             cursor     (env, Cursor) int64
ledger       (env, Column)                                  fills      (env, K, Fill)
outcome      (Outcome, env)                                 vectors    (2, env, size) float32: the account as it is
pool         (start, 3) int64 and offsets of `Starts`                  seen, and as it was seen at an episode's end
windows_from (block, K, time · feature), context_from (block, time, K, number): what `windows` (env, K, bar · feature)
and `context` (env, K, number) are gathered from; without rows they are left alone and the cursor says where to look
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from pacesetter.arrays import Floats, Integers, Singles
from pacesetter.envs.batch.account_entries import write_account
from pacesetter.envs.batch.starts import Start, draw_below, draw_start, next_stream
from pacesetter.market.jit import jitable
from pacesetter.market.kernel import open_account, step_account
from pacesetter.market.ledger import Column, Flag
from pacesetter.market.orders import Discrete, OrderKind
from pacesetter.rewards.trading import pnl

__all__ = [
    "HYBRID",
    "Cursor",
    "Outcome",
    "Setting",
    "first_refused",
    "gather_row",
    "locate",
    "restart_row",
    "see_row",
    "step_row",
    "try_row",
]

HYBRID = len(OrderKind)  # the kind of an action that names its own kind
DISCRETE_COUNT = len(Discrete)
FINENESS = 1_000_000  # equal parts in which a share is drawn


class Cursor(IntEnum):
    """Columns of `cursor`: where an environment stands, and where its last episode ended."""

    BLOCK = 0  # of the bank
    TIME = 1  # bar last closed
    FINAL_BLOCK = 2
    FINAL_TIME = 3
    END = 4  # bar at which time is up
    STREAM = 5  # state of the row's own random numbers
    ORDER = 6  # 1 + the discrete order that was given last, or the mode of a hybrid episode; 0 before the first
    REPEATS = 7  # how often it was given in a row; both are kept where repetition is limited


class Setting(IntEnum):
    """Places in `settings`."""

    KIND = 0  # OrderKind, or HYBRID
    LOWEST = 1  # number in an action
    HIGHEST = 2
    EPISODE_BARS = 3
    IS_FIXED = 4  # starts
    WEIGHT = 5  # of the P&L in the reward
    CLIP = 6  # the reward stays within ±clip
    RESTARTS = 7  # 1 where an episode that ends restarts in the same step
    CONTINUED = 8  # share of episodes that continue for as many bars again, drawn when they start
    REPETITION_LIMIT = 9  # equal discrete orders in a row, after which another is masked; 0 for no limit
    SWITCHES_ONCE = 10  # 1 where a hybrid action's switch holds for the episode


class Outcome(IntEnum):
    """Columns of `outcome`: the result of a step."""

    REWARD = 0
    GROWTH = 1  # log(equity / equity before), the raw P&L component
    TERMINATED = 2
    TRUNCATED = 3


@jitable
def step_row(
    e: int,
    inputs: Floats,
    settings: Floats,
    bars: Floats,
    parameters: Floats,
    accounts: Floats,
    positions: Floats,
    cursor: Integers,
    ledger: Floats,
    fills: Floats,
    outcome: Floats,
    vectors: Singles,
    pool: Integers,
    offsets: Integers,
    windows_from: Singles,
    context_from: Singles,
    windows: Singles,
    context: Singles,
) -> tuple[bool, bool]:
    """Step environment e by one bar; where that ends the episode and `settings` say so, begin the next one.

    Gives whether it terminated and whether it was truncated.
    """
    block, t = locate(e, cursor)
    if settings[Setting.SWITCHES_ONCE] > 0.0:
        keep_mode(e, inputs[e], cursor)
    kind = read_order(inputs[e], settings)
    if settings[Setting.REPETITION_LIMIT] > 0.0:
        count_order(e, inputs[e, 0], cursor)
    now, bar, rules = bars[block, t], bars[block, t + 1], parameters[0, e]
    # Decided on `now`, the close of t, and filled in `bar`, t + 1: nothing of t + 1 is known to the action.
    flags = step_account(accounts[e], positions[e], ledger[e], fills[e], now, bar, inputs[e], kind, rules)
    cursor[e, Cursor.TIME] = t + 1
    is_terminated, is_time_up = (flags & Flag.TERMINATED) != 0, t + 1 >= cursor[e, Cursor.END]
    write_outcome(e, outcome, ledger[e], is_terminated, is_time_up, settings)
    write_account(vectors[0, e], accounts[e], positions[e], bar, rules)
    # The last observation is copied before the restart: a learner bootstraps from it where the episode was truncated.
    if (is_terminated or is_time_up) and settings[Setting.RESTARTS] != 0.0:
        for place in range(vectors.shape[2]):
            vectors[1, e, place] = vectors[0, e, place]
        cursor[e, Cursor.FINAL_BLOCK] = block
        cursor[e, Cursor.FINAL_TIME] = t + 1
        restart_row(e, settings, parameters, accounts, positions, cursor, pool, offsets)
        see_row(e, bars, parameters, accounts, positions, cursor, vectors)
    if windows.shape[0] > 0:
        gather_row(e, cursor, windows_from, context_from, windows, context)
    return is_terminated, is_time_up and not is_terminated


@jitable
def count_order(e: int, order: float, cursor: Integers) -> None:
    """Count how often environment e has given this discrete order in a row."""
    code = 1 + int(order)
    cursor[e, Cursor.REPEATS] = cursor[e, Cursor.REPEATS] + 1 if cursor[e, Cursor.ORDER] == code else 1
    cursor[e, Cursor.ORDER] = code


@jitable
def keep_mode(e: int, order: Floats, cursor: Integers) -> None:
    """Let the first switch of an episode decide for all of it whether a hybrid action is discrete or continuous."""
    if cursor[e, Cursor.ORDER] == 0:
        cursor[e, Cursor.ORDER] = 1 if order[0] < 0.0 else 2
    order[0] = -1.0 if cursor[e, Cursor.ORDER] == 1 else 1.0


@jitable
def try_row(
    r: int,
    inputs: Floats,
    settings: Floats,
    bars: Floats,
    parameters: Floats,
    accounts: Floats,
    positions: Floats,
    cursor: Integers,
    tried_accounts: Floats,
    tried_positions: Floats,
    ledger: Floats,
    fills: Floats,
    outcome: Floats,
    vectors: Singles,
) -> None:
    """Step a copy of an account by one of the discrete orders: row r is order r % 7 of environment r // 7.

    inputs, tried_accounts, tried_positions, ledger, fills and vectors have a row for each such pair; nothing of the
    environment itself changes, and no episode restarts.
    """
    e = r // DISCRETE_COUNT
    block, t = locate(e, cursor)
    for place in range(accounts.shape[1]):
        tried_accounts[r, place] = accounts[e, place]
    for k in range(positions.shape[1]):
        for place in range(positions.shape[2]):
            tried_positions[r, k, place] = positions[e, k, place]
        inputs[r, k] = r % DISCRETE_COUNT
    now, bar, rules = bars[block, t], bars[block, t + 1], parameters[0, e]
    account, held = tried_accounts[r], tried_positions[r]
    flags = step_account(account, held, ledger[r], fills[r], now, bar, inputs[r], OrderKind.DISCRETE, rules)
    is_time_up = t + 1 >= cursor[e, Cursor.END]
    write_outcome(r, outcome, ledger[r], (flags & Flag.TERMINATED) != 0, is_time_up, settings)
    write_account(vectors[r], account, held, bar, rules)


@jitable
def locate(e: int, cursor: Integers) -> tuple[int, int]:
    """Block and bar of environment e. `max` tells the compiler that they are not negative: no wrap-around check."""
    return max(cursor[e, Cursor.BLOCK], 0), max(cursor[e, Cursor.TIME], 0)


@jitable
def write_outcome(
    e: int, outcome: Floats, ledger: Floats, is_terminated: bool, is_time_up: bool, settings: Floats
) -> None:
    """The P&L reward, and how the episode ended if it did: an account that is terminated is not truncated too."""
    growth, clip = pnl(ledger[Column.EQUITY_BEFORE], ledger[Column.EQUITY_CHANGE]), settings[Setting.CLIP]
    outcome[Outcome.REWARD, e] = min(max(settings[Setting.WEIGHT] * growth, -clip), clip)
    outcome[Outcome.GROWTH, e] = growth
    outcome[Outcome.TERMINATED, e] = 1.0 if is_terminated else 0.0
    outcome[Outcome.TRUNCATED, e] = 1.0 if is_time_up and not is_terminated else 0.0


@jitable
def restart_row(
    e: int,
    settings: Floats,
    parameters: Floats,
    accounts: Floats,
    positions: Floats,
    cursor: Integers,
    pool: Integers,
    offsets: Integers,
) -> None:
    """Begin an episode of environment e: the parameters that wait for it, a fresh account, a drawn start."""
    # A curriculum writes to row 1 at any time; copying it here alone keeps a running episode's rules as they were.
    for slot in range(parameters.shape[2]):
        parameters[0, e, slot] = parameters[1, e, slot]
    open_account(accounts[e], positions[e], parameters[0, e])
    place, stream = draw_start(e, cursor[e, Cursor.STREAM], offsets, settings[Setting.IS_FIXED] != 0.0)
    t, last = pool[place, Start.TIME], pool[place, Start.LAST]
    # Drawn at the start, so that the length of an episode does not depend on how it goes.
    end = min(t + int(settings[Setting.EPISODE_BARS]), last)
    if settings[Setting.CONTINUED] > 0.0:
        stream = next_stream(stream)
        # A geometric number of extensions, drawn now like the start itself.
        while end < last and draw_below(stream, FINENESS) < settings[Setting.CONTINUED] * FINENESS:
            end = min(end + int(settings[Setting.EPISODE_BARS]), last)
            stream = next_stream(stream)
    cursor[e, Cursor.BLOCK] = pool[place, Start.BLOCK]
    cursor[e, Cursor.TIME] = t
    cursor[e, Cursor.END] = end
    cursor[e, Cursor.STREAM] = stream
    cursor[e, Cursor.ORDER] = 0
    cursor[e, Cursor.REPEATS] = 0


@jitable
def see_row(
    e: int, bars: Floats, parameters: Floats, accounts: Floats, positions: Floats, cursor: Integers, vectors: Singles
) -> None:
    """Write what environment e sees of its account."""
    block, t = locate(e, cursor)
    write_account(vectors[0, e], accounts[e], positions[e], bars[block, t], parameters[0, e])


@jitable
def gather_row(
    e: int, cursor: Integers, windows_from: Singles, context_from: Singles, windows: Singles, context: Singles
) -> None:
    """Copy the window and the context that environment e sees."""
    block, t = locate(e, cursor)
    features = windows_from.shape[2] // context_from.shape[1]
    start = (t + 1) * features - windows.shape[2]  # bars lie side by side, so a window is one run that ends with bar t
    for k in range(windows.shape[1]):
        for place in range(windows.shape[2]):
            windows[e, k, place] = windows_from[block, k, start + place]
        for place in range(context.shape[2]):
            context[e, k, place] = context_from[block, t, k, place]


@jitable
def first_refused(inputs: Floats, settings: Floats) -> int:
    """The first row of actions with NaN, a number outside the box or no whole discrete order; −1 without one."""
    numbers, fitting = inputs.reshape(inputs.size), 0
    for place in range(numbers.size):  # no early exit: the compiler can then vectorise the loop
        fitting += is_in_box(numbers[place], settings)
    if fitting == numbers.size:
        return -1
    for place in range(numbers.size):
        if not is_in_box(numbers[place], settings):
            return int(place // inputs.shape[1])
    return -1


@jitable
def is_in_box(number: float, settings: Floats) -> bool:
    """Whether an action may hold this number."""
    is_within: bool = (number >= settings[Setting.LOWEST]) & (number <= settings[Setting.HIGHEST])
    is_kind: bool = (int(settings[Setting.KIND]) != OrderKind.DISCRETE) | (number == np.floor(number))
    return is_within & is_kind


@jitable
def read_order(order: Floats, settings: Floats) -> int:
    """The kind of an order; a hybrid (switch, value) is rewritten to a discrete one below 0, else to continuous."""
    kind = int(settings[Setting.KIND])
    if kind != HYBRID:
        return kind
    if order[0] >= 0.0:
        order[0] = order[1]
        return OrderKind.CONTINUOUS
    # [-1, 1] in equal bins; the value 1 itself would fall into a bin of its own, hence the bound.
    order[0] = min(int((order[1] + 1.0) / 2.0 * DISCRETE_COUNT), DISCRETE_COUNT - 1)
    return OrderKind.DISCRETE
