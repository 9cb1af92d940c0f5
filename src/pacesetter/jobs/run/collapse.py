"""Playing a policy through an environment once, and the gates that tell whether it has collapsed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces

from pacesetter.agents.agent import ACTION_MASK, Agent
from pacesetter.arrays import Array
from pacesetter.build.sections import Gates
from pacesetter.cells import Table
from pacesetter.envs.journal import EpisodeJournal
from pacesetter.evaluation.recovery.measures import (
    COVERAGE,
    FILLS,
    HISTOGRAM,
    LARGEST,
    SPREAD,
    VOLUNTARY,
    training_gates,
)
from pacesetter.evaluation.statistics.gates import Gate
from pacesetter.evaluation.statistics.metrics import sharpe
from pacesetter.market.ledger import Column, Flag
from pacesetter.policies.variety import evenness

__all__ = [
    "Activity",
    "Played",
    "action_sizes",
    "collapse_gates",
    "gate_table",
    "histogram",
    "play_episodes",
    "spread",
]

BINS = 20
FORCED = int(Flag.POSITION_LIMIT | Flag.PORTFOLIO_LIMIT)


@dataclass(frozen=True, eq=False)
class Activity:
    """What the environments did in one step, (env,) each; all None where nothing is traded.

    growth     return on equity          trades     True where anything was filled
    voluntary  True where the agent's own order was
    """

    growth: Array | None = None
    trades: Array | None = None
    voluntary: Array | None = None

    @classmethod
    def of(cls, infos: Mapping[str, Any]) -> Activity:
        """Read it from the ledger in an environment's infos."""
        ledger = infos.get("ledger")
        if ledger is None:
            return cls()
        filled = ledger[:, Column.FILL_PRICE] != 0.0
        # A stop that the risk limits sent is not a sign of a policy that trades.
        is_forced = (ledger[:, Column.FLAGS].astype(np.int64) & FORCED) != 0
        growth = ledger[:, Column.EQUITY_CHANGE] / ledger[:, Column.EQUITY_BEFORE]
        return cls(growth, filled | (ledger[:, Column.EXIT_PRICE] != 0.0), filled & ~is_forced)


@dataclass(frozen=True, eq=False)
class Played:
    """One episode of each environment, those steps that were played: `actions` (step, number), the rest (step,).

    growth is the mean over the environments that still played, (time,); rewards take its place where nothing is traded
    paid   the mean reward over them, (time,)
    """

    actions: Array
    rewards: Array
    growth: Array
    paid: Array
    trades: Array | None
    voluntary: Array | None

    @property
    def score(self) -> float:
        """Mean reward per step."""
        return float(self.rewards.mean())

    def sharpe(self, bars_per_year: float) -> float:
        """Annualised ratio of mean to deviation of log growth; 0 where it never moves."""
        return float(sharpe(self.growth, bars_per_year))


def play_episodes(
    agent: Agent,
    env: Any,
    deterministic: bool,
    seed: int = 0,
    journal: EpisodeJournal | None = None,
    each_step: Callable[[], object] = lambda: None,
) -> Played:
    """Every environment from its start to its first end, with the agent's masks where it takes them.

    A `journal` is written of the first environment's episode. `each_step` is called before every step, and may raise.
    """
    agent.reset()
    observation, start = env.reset(seed=seed)
    if journal is not None:
        journal.begin(int(start["block"][0]), int(start["bar"][0]))
    alive = np.ones(env.num_envs, dtype=bool)
    actions, rewards, growth, paid, trades, voluntary = [], [], [], [], [], []
    while alive.any():
        each_step()
        masks = {ACTION_MASK: env.action_masks()} if agent.masked else {}
        chosen = agent.act(observation | masks, deterministic=deterministic)
        observation, reward, terminated, truncated, infos = env.step(chosen)
        activity = Activity.of(infos)
        if journal is not None and alive[0]:
            parts = {name: float(values[0]) for name, values in infos["reward"].items()}
            journal.add(infos["ledger"][0], env.batch.fills[0], float(reward[0]), parts)
        actions.append(np.reshape(chosen, (env.num_envs, -1))[alive])
        rewards.append(reward[alive])
        paid.append(float(np.mean(reward[alive])))
        growth.append(float(np.mean((reward if activity.growth is None else activity.growth)[alive])))
        if activity.trades is not None and activity.voluntary is not None:
            trades.append(activity.trades[alive])
            voluntary.append(activity.voluntary[alive])
        # After the step is counted: the bar that ends an episode belongs to it.
        alive &= ~(terminated | truncated)
    joined = [np.concatenate(part) if part else None for part in (trades, voluntary)]
    return Played(np.concatenate(actions), np.concatenate(rewards), np.array(growth), np.array(paid), *joined)


# ---- gates ----------------------------------------------------------------------------------------------------------


def collapse_gates(
    played: Played, space: spaces.Space[Any], limits: Gates, entropy: float | None = None, hold_zone: float = 0.1
) -> list[Gate]:
    """The gates that apply to such actions; `entropy` is that of the policy in nats, for the stochastic one.

    A continuous action below `hold_zone` in size, the market's, holds.
    """
    values = {} if entropy is None else {SPREAD: spread(entropy, space)}
    if isinstance(space, spaces.Box):
        counts = histogram(played.actions, space)
        values |= {COVERAGE: float((counts > 0).mean()), HISTOGRAM: evenness(counts)}
        orders = _order_types(played.actions, hold_zone) if space.low.min() < 0 else None
    else:
        orders = np.bincount(played.actions.astype(np.int64).ravel())
    if orders is not None:
        values[LARGEST] = float(orders.max() / orders.sum())
    for name, happened in ((FILLS, played.trades), (VOLUNTARY, played.voluntary)):
        if happened is not None:
            values[name] = float(happened.mean())
    return training_gates(values, limits)


def histogram(actions: Array, space: spaces.Box) -> Array:
    """(20,) counts of continuous actions over equal bins of the space's range."""
    low, high = float(space.low.min()), float(space.high.max())
    return np.histogram(actions, bins=BINS, range=(low, high))[0]


def spread(entropy: float, space: spaces.Space[Any]) -> float:
    """How much of the actions a policy of this entropy in nats uses: 0 is one action, 1 is all alike.

    exp(entropy) is the number of actions in effect use, or the width of a continuous one, which is cut to its box.
    """
    if isinstance(space, spaces.Box):
        # Differential entropy: exp is a width. A Gaussian may be wider than the box that it is cut to.
        return min(float(np.exp(entropy / space.shape[0]) / (space.high - space.low).mean()), 1.0)
    sizes = action_sizes(space)
    # Effective number of choices less one, as a share of those there are: 0 for one action, 1 for all alike.
    return float((np.exp(entropy / len(sizes)) - 1) / max(sizes.mean() - 1, 1))


def action_sizes(space: Any) -> Array:
    """(number,) how many choices each discrete action has."""
    return np.atleast_1d(space.nvec if isinstance(space, spaces.MultiDiscrete) else space.n)


def _order_types(actions: Array, hold_zone: float) -> Array:
    """(3,) how often actions sell, hold and buy."""
    return np.bincount(np.digitize(actions.ravel(), [-hold_zone, hold_zone]), minlength=3)


def gate_table(columns: Mapping[str, Sequence[Gate]]) -> Table:
    """The gates as a table, with a column for each way of acting."""
    has_oracle = any(gate.oracle is not None for gates in columns.values() for gate in gates)
    beside = ("oracle",) if has_oracle else ()
    rows: dict[str, list[Gate | None]] = {}
    for place, gates in enumerate(columns.values()):
        for gate in gates:
            rows.setdefault(gate.name, [None] * len(columns))[place] = gate
    cells = []
    for name, row in rows.items():
        first = next(gate for gate in row if gate is not None)
        values = ["–" if gate is None else f"{gate.value:.3f} {gate.verdict}" for gate in row]
        known = ["–" if first.oracle is None else f"{first.oracle:.3f}"] if has_oracle else []
        cells.append((name, f"{first.sense} {first.limit:g}", *values, *known))
    return Table(("gate", "limit", *columns, *beside), cells, "Collapse gates")
