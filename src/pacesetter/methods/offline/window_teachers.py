"""Whose windows are stored: those of a run, of cross-validation, or of the exact optimum."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from pacesetter.build import Plan, load_agent
from pacesetter.envs.lookback.market import LookbackMarket
from pacesetter.envs.lookback.oracle import lookback_oracle
from pacesetter.errors import ConfigError
from pacesetter.leadlag.lookback.baselines import CrossValidatedLookback, WindowScores
from pacesetter.leadlag.lookback.policy import LookbackPolicy
from pacesetter.learning.experience.recording import Teach, order_teacher
from pacesetter.learning.state import tensors_hash
from pacesetter.methods.offline.window_agents import PolicyAgents
from pacesetter.panel import Panel

if TYPE_CHECKING:
    from pacesetter.learning.experience.window_market import WindowMarket

__all__ = ["windows_expert", "windows_oracle", "windows_run"]

Rows = dict[str, torch.Tensor]


def windows_run(folder: str | Path, config: Plan, market: WindowMarket) -> tuple[Teach, str]:
    """The best agent of a run, and the hash of its weights; refuses a recurrent or continuous one."""
    policy = load_agent(folder, market.env).algorithm.policy
    agents = PolicyAgents(policy)
    return lambda observation: agents.evaluate(observation)[0], tensors_hash(dict(policy.state_dict()))


def windows_expert(config: Plan, panel: Panel, market: WindowMarket) -> Teach:
    """Rolling cross-validation, which knows the past alone."""
    task = market.env.batch.config
    scores = WindowScores(task.windows.grid, task.view.method, task.view.horizon_bars, dict(task.view.options))
    return order_teacher(_choose_places(CrossValidatedLookback(scores), market), market.actions)


def windows_oracle(config: Plan, panel: Panel, market: WindowMarket) -> Teach:
    """The optimum by dynamic programming, which knows every later bar of the training set."""
    batch = market.env.batch
    task, learned = batch.config, batch.dealer.panel
    look = LookbackMarket(learned, task.windows, task.view)
    first = max(look.first, task.windows.longest, task.windows.seen[-1])
    optimum = lookback_oracle(learned, task, first, look.last)
    return order_teacher(_choose_places(optimum, market, first), market.actions)


def _choose_places(policy: LookbackPolicy, market: WindowMarket, first: int = 0) -> Callable[[Rows], torch.Tensor]:
    """A policy of windows as places in the grid; the window in force stays before the bar `first`."""
    batch: Any = market.env.batch
    windows, episodes = batch.config.windows, batch.config.episodes
    if windows.action != "absolute" or episodes.synthetic_share > 0 or len(episodes.resolutions) > 1:
        raise ConfigError(
            "a rule is recorded where choices are windows of the panel's own bars; set task.windows.action=absolute, "
            "task.episodes.synthetic_share=0 and one of task.episodes.resolutions, or export random"
        )
    grid, panel = torch.tensor(windows.grid), batch.dealer.panel

    def choose_windows(observation: Rows) -> torch.Tensor:
        # The environments stand where they showed the observation: nothing has been chosen since.
        pairs = zip(batch.t.tolist(), batch.lookback.tolist(), strict=True)
        asked = [policy.choose(panel, t, held) if t >= first else held for t, held in pairs]
        return (torch.tensor(asked)[:, None] - grid).abs().argmin(dim=1)

    return choose_windows
