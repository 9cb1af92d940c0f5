"""Players of one unseen market, all from the same starts: fleets with and without a context, and yardsticks.

| yardstick | holds as much as it may |
|---|---|
| hold | always |
| trend rule | while the returns of the episode's latest bars, as many as the context reads, sum to more than 0 |
| oracle | where the market's drift is above 0, which no other player is told; of families with a known drift |

Who is not in the market has cash, which earns 0 here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch

from pacesetter.agents.fleet import Fleet
from pacesetter.arrays import Array
from pacesetter.build.environments import build_table
from pacesetter.build.fleet import build_market
from pacesetter.envs.batch.account_entries import PositionEntry
from pacesetter.evaluation.stored_run import StoredRun
from pacesetter.learning.fleet.making import return_place
from pacesetter.market.orders import Discrete, target_range
from pacesetter.methods.meta.agents import ContextFleet
from pacesetter.methods.meta.families import MarketTask, family_tasks

if TYPE_CHECKING:
    from pacesetter.learning.experience.market import FleetMarket

__all__ = [
    "HOLD",
    "ORACLE",
    "TREND",
    "WITH",
    "WITHOUT",
    "AdaptationEpisodes",
    "Opponent",
    "play_alone",
    "play_task",
    "play_yardsticks",
    "unseen_tasks",
]

WITH, WITHOUT = "with context", "without context"
HOLD, TREND, ORACLE = "hold", "trend rule", "oracle"
Observation = Mapping[str, torch.Tensor]
Answer = Callable[[Observation], tuple[torch.Tensor, dict[str, Array]]]


@dataclass(frozen=True, eq=False)
class AdaptationEpisodes:
    """One episode of every environment of a task.

    returns     (bar, env) of equity after costs; NaN after an episode's end      completed   share that time ended
    contexts    (env, width) at the last bar      attention   (transition,) mean share, the newest last; or nothing
    """

    family: str
    label: str
    player: str
    returns: Array
    completed: float
    contexts: Array = field(default_factory=lambda: np.zeros((0, 0)))
    attention: Array = field(default_factory=lambda: np.zeros(0))


class Opponent(NamedTuple):
    """A plain fleet, and the run whose observations it reads."""

    run: StoredRun
    fleet: Fleet


def unseen_tasks(run: StoredRun, family: str, count: int, seed: int) -> list[MarketTask]:
    """Markets of a family for a run's test set; those with bars in another order are of the test set alone."""
    is_moved = family in ("slices", "blends")
    panel = run.panel.rows(run.first, len(run.panel)) if is_moved else run.panel
    return family_tasks(family, panel, count, seed)


def play_task(
    run: StoredRun,
    family: str,
    task: MarketTask,
    fleet: ContextFleet,
    others: Mapping[str, Opponent],
    each: int,
    seed: int,
) -> list[AdaptationEpisodes]:
    """All players on `each` episodes of every symbol of a task; the same starts for all."""
    market = _market(run, task, each)
    played = [
        _episodes(family, task, name, market, _player(fleet, market, name == WITH), seed) for name in (WITH, WITHOUT)
    ]
    played += [play_alone(other, family, task, name, each, seed) for name, other in others.items()]
    return played + play_yardsticks(run, family, task, fleet.bar_memory.bars, each, seed)


def play_alone(player: Opponent, family: str, task: MarketTask, name: str, each: int, seed: int) -> AdaptationEpisodes:
    """One fleet in a market as its own run observes it, with its context where it has one."""
    market = _market(player.run, task, each)
    return _episodes(family, task, name, market, _player(player.fleet, market), seed)


def play_yardsticks(
    run: StoredRun, family: str, task: MarketTask, trend_bars: int, each: int, seed: int
) -> list[AdaptationEpisodes]:
    """Hold, the trend rule over so many bars, and the oracle where the drift is known."""
    market = _market(run, task, each)
    answers = _yardsticks(market, task, return_place(market, "adapt"), trend_bars)
    return [_episodes(family, task, name, market, answer, seed) for name, answer in answers.items()]


def _episodes(
    family: str, task: MarketTask, name: str, market: FleetMarket, answer: Answer, seed: int
) -> AdaptationEpisodes:
    torch.manual_seed(seed)  # starts are torch's own draws
    returns, completed, extra = _play(market, answer)
    return AdaptationEpisodes(family, task.label, name, returns, completed, **extra)


def _market(run: StoredRun, task: MarketTask, each: int) -> FleetMarket:
    """The task's market as a run observes it; bars before its test set are history for features alone."""
    first = 0 if len(task.panel) < len(run.panel) else run.first
    table = {"table": build_table(run.config, task.panel), "supervised": None}
    options = {"episode_bars": run.task.episode_bars, "starts": "random", "first_bar": first}
    return build_market(run.config, task.panel, each, **table, **options)


def _player(fleet: Fleet, market: FleetMarket, keeps: bool = True) -> Answer:
    """Deterministic orders of a fleet; with a context also what it came to at this bar."""
    rows = torch.tensor(fleet.places(market.symbols), device=market.device)
    kept = fleet.no_memory(market.env_count)

    def answer(observation: Observation) -> tuple[torch.Tensor, dict[str, Array]]:
        nonlocal kept
        full = {**market.tables(observation), **kept}
        policy, _ = fleet.evaluate(full, rows)
        actions = policy.mode()
        extra: dict[str, Array] = {}
        if keeps and isinstance(fleet, ContextFleet):
            kept = fleet.memory_after(policy)
            extra["contexts"] = fleet.encoder.contexts(full).cpu().numpy()
            shares = fleet.encoder.context.weights(*fleet.encoder.tokens(full))
            if shares is not None:
                extra["attention"] = shares.mean(0).cpu().numpy()
        return actions, extra

    return answer


# ---- yardsticks -----------------------------------------------------------------------------------------------------


def _yardsticks(market: FleetMarket, task: MarketTask, column: int, bars: int) -> dict[str, Answer]:
    """Those that the task allows; `column` of a window has the returns, and the trend rule reads `bars` of them."""
    everywhere = torch.ones(market.env_count, dtype=torch.bool, device=market.device)
    answers: dict[str, Answer] = {
        HOLD: lambda observation: (_orders(market, observation, everywhere), {}),
        TREND: _trend_rule(market, column, bars),
    }
    if task.drift is not None:
        rises = everywhere & (task.drift > 0)
        answers[ORACLE] = lambda observation: (_orders(market, observation, rises), {})
    return answers


def _trend_rule(market: FleetMarket, column: int, bars: int) -> Answer:
    returns: list[torch.Tensor] = []

    def answer(observation: Observation) -> tuple[torch.Tensor, dict[str, Array]]:
        returns.append(market.tables(observation)["window"][:, -1, column].nan_to_num())
        return _orders(market, observation, torch.stack(returns[-bars:]).sum(0) > 0), {}

    return answer


def _orders(market: FleetMarket, observation: Observation, wanted: torch.Tensor) -> torch.Tensor:
    """Orders that hold as much as they may where `wanted` (env,), and nothing elsewhere."""
    if market.actions is not None:
        return torch.where(wanted, int(Discrete.BUY_LARGE), int(Discrete.SELL_ALL))
    if market.batch.action == "target":
        low, high = target_range(market.batch.market)
        out = torch.full_like(wanted, -(high + low) / (high - low), dtype=torch.float32)  # stands for a target of 0
    else:
        # An order of −1 sells what is held, and with nothing held could go short.
        out = -(observation["position"][:, PositionEntry.WEIGHT] > 0).float()
    return torch.where(wanted, 1.0, out)[:, None]


@torch.no_grad()
def _play(market: FleetMarket, answer: Answer) -> tuple[Array, float, dict[str, Array]]:
    """(bar, env) returns of every environment's first episode, the share that was completed, and the last extra."""
    observation = market.reset()
    over = torch.zeros(market.env_count, dtype=torch.bool, device=market.device)
    ruined, rows, extra = over.clone(), [], dict[str, Array]()
    while not bool(over.all()):
        actions, latest = answer(observation)
        step = market.step(actions)
        rows.append(torch.where(over, torch.nan, step.returns).cpu().numpy())
        extra = latest if not bool((step.terminated | step.truncated | over).any()) else extra
        ruined |= step.terminated & ~over
        over |= step.terminated | step.truncated
        observation = step.observation
    return np.stack(rows), 1.0 - float(ruined.float().mean()), extra
