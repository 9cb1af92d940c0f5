"""What a policy played through fixed starts, bar by bar and symbol by symbol: what the gates are measured on.

`play_trace(batch, act)` steps a batch of environments on the CPU; agents, oracles and constants all go through it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from pacesetter.arrays import Array
from pacesetter.envs.batch.account_entries import PositionEntry
from pacesetter.envs.batch.batch import Batch
from pacesetter.envs.batch.rows import Cursor
from pacesetter.market.ledger import Column, Fill, Flag
from pacesetter.market.orders import Discrete, target_range

__all__ = ["Act", "Trace", "constant_actions", "play_trace"]

LIMITS = int(Flag.POSITION_LIMIT | Flag.PORTFOLIO_LIMIT)
STEADY = (-1.0, -0.5, 0.0, 0.5, 1.0)  # constant continuous orders that a policy is held against


class Act:
    """How a policy acts: compact observations and masks → actions (env, …).

    options   of a policy that has some, their names       noted   `option` and `began` (env,) of its last call
    """

    options: tuple[str, ...] = ()
    noted: Mapping[str, Array] = MappingProxyType({})

    def __init__(self, choose: Callable[[Mapping[str, Array], Array | None], Array]) -> None:
        self.choose = choose

    def reset(self) -> None:
        """Forget what was kept; most keep nothing."""

    def __call__(self, observation: Mapping[str, Array], masks: Array | None) -> Array:
        return self.choose(observation, masks)


@dataclass(frozen=True, eq=False)
class Trace:
    """Episodes side by side, (time, column) each: a column for each symbol of each environment.

    is_played    False after the column's first episode has ended; other entries mean nothing there
    actions      as the policy names them: an order's number, or a number in [-1, 1]
    filled       True where its order was filled        closed      True where a position was closed in full
    left         the same by its own order, and not by a limit, a stop or the venue
    weight       share of equity held at the decision   unrealised  return of that position since its entry
    regime       place in `REGIMES`, −1 unknown         returns     of the account's equity
    kinds        how many discrete actions there are; None for continuous ones
    hold_zone    half the width around 0 in which an action holds; None where actions are targets
    option       place in `options` of the option in force; None, as `began`, where the policy has none
    began        True where that option began
    """

    is_played: Array
    actions: Array
    filled: Array
    closed: Array
    left: Array
    weight: Array
    unrealised: Array
    regime: Array
    returns: Array
    kinds: int | None
    cap: float
    hold_zone: float | None
    bars_per_year: float
    option: Array | None = None
    began: Array | None = None
    options: tuple[str, ...] = ()

    def column(self, place: int) -> Trace:
        """One of the columns."""
        return replace(self, **{name: value[:, place : place + 1] for name, value in self.arrays().items()})

    def arrays(self) -> dict[str, Any]:
        """The (time, column) arrays by name; those of options only where there are some."""
        return {name: value for name, value in vars(self).items() if isinstance(value, np.ndarray)}

    @property
    def columns(self) -> int:
        return int(self.actions.shape[1])


def play_trace(batch: Batch, act: Act) -> Trace:
    """Every environment from its start to its first end."""
    act.reset()
    observation, rows = batch.reset(), list[dict[str, Array]]()
    alive, shape = np.ones(batch.env_count, dtype=bool), (batch.env_count, batch.bank.positions_each)
    is_discrete, rules = batch.action == "discrete", batch.market
    while alive.any():
        # Copied before the step, which moves the cursor: the regime is that of the decision.
        block, time = batch.cursor[:, Cursor.BLOCK].copy(), batch.cursor[:, Cursor.TIME].copy()
        chosen = np.asarray(act(observation, batch.action_masks() if is_discrete else None))
        step = batch.step(chosen)
        # What was held when the order was decided, not after it was filled.
        held = observation["position"].reshape(*shape, -1).astype(np.float64)
        growth = step.ledger[:, Column.EQUITY_CHANGE] / step.ledger[:, Column.EQUITY_BEFORE]
        flags = batch.fills[..., Fill.FLAGS].astype(np.int64)
        closed = (flags & int(Flag.CLOSED)) != 0
        is_forced = ((flags & LIMITS) != 0) | (batch.fills[..., Fill.EXIT_QUANTITY] != 0.0)
        numbers = chosen.reshape(batch.env_count, -1)[:, -shape[1] :].astype(np.float64)  # of a hybrid one the value
        rows.append(
            {
                "is_played": np.broadcast_to(alive[:, None], shape),
                "actions": target_number(numbers, batch) if batch.action == "target" else numbers,
                "filled": batch.fills[..., Fill.QUANTITY] != 0.0,
                "closed": closed,
                "left": closed & ~is_forced,
                "weight": held[..., PositionEntry.WEIGHT],
                "unrealised": held[..., PositionEntry.UNREALISED_RETURN],
                "regime": batch.bank.labels[block, :, time].astype(np.int64),
                "returns": np.broadcast_to(growth[:, None], shape),
                **{name: np.broadcast_to(each[:, None], shape) for name, each in act.noted.items()},
            }
        )
        alive = alive & ~(step.terminated | step.truncated)
        observation = step.observation
    joined = {name: np.stack([row[name].reshape(-1) for row in rows]) for name in rows[0]}
    return Trace(
        **joined,
        kinds=len(Discrete) if is_discrete else None,
        cap=float(min(rules.limits.position_cap_fraction, 1.0)),
        hold_zone=None if batch.action == "target" else float(rules.orders.hold_zone),
        bars_per_year=rules.bars_per_year,
        options=act.options,
    )


def constant_actions(batch: Batch) -> list[Act]:
    """Policies that always do the same: each discrete order, or five numbers between the ends of the range."""
    if batch.action == "discrete":
        numbers = [float(order) for order in Discrete]
    elif batch.action == "target":
        numbers = [float(number) for number in np.linspace(*target_range(batch.market), 5)]
    else:
        numbers = list(STEADY)

    def constant(number: float) -> Act:
        return Act(lambda observation, masks: np.full(batch.inputs.shape, number))

    return [constant(number) for number in numbers]


def target_number(targets: Array, batch: Batch) -> Array:
    """The number in [-1, 1] that stands for a target share of equity, as an agent of a fleet names it."""
    low, high = target_range(batch.market)
    return np.clip(2 * (targets - low) / (high - low) - 1, -1.0, 1.0)
