"""The fleet of a configuration: its markets, and the stored one to act again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pacesetter.build.plan import Plan, read_plan
from pacesetter.errors import RunError, needs
from pacesetter.panel import Panel
from pacesetter.runs import Run

if TYPE_CHECKING:
    from pacesetter.agents.fleet import Fleet, FleetAgent
    from pacesetter.learning.experience.market import FleetMarket

__all__ = ["best_fleet", "build_market", "load_fleet_agent"]


def build_market(config: Plan, panel: Panel | list[Panel], envs_each: int, **options: Any) -> FleetMarket:
    """A market of the task's symbols on all of the panel; `options` beside those of the task, e.g. its table."""
    from pacesetter.build.environments import build_supervised, build_table, learned_risk
    from pacesetter.envs.batch.bank import Bank

    task = config.trading
    with needs("a fleet", "rl"):
        from pacesetter.learning.experience.market import FleetMarket
    # A table that is known already is passed in: features take most of the time of a start.
    if "table" not in options:
        assert isinstance(panel, Panel)
        options |= {"table": build_table(config, panel), "supervised": build_supervised(config, panel)}
    # Features of the whole panel; only the task's symbols become blocks.
    bank = Bank.from_panels(panel, options.pop("table"), options.pop("supervised"), symbols=task.symbols or None)
    prior = options.pop("prior", None)
    bank = bank if prior is None else bank.with_prior(prior)
    settings: dict[str, Any] = {
        "action": task.action,
        "reach": config.agent.targets.prior_reach,
        "window_bars": config.learned_window_bars,
        "market": replace(task.market, bars_per_year=(panel[0] if isinstance(panel, list) else panel).bars_per_year),
        "reward": task.reward,
        "risk": learned_risk(config),
    }
    return FleetMarket(bank, envs_each, config.train.device, **settings | options)


def load_fleet_agent(folder: str | Path, panel: Panel) -> FleetAgent:
    """The best fleet of a run, to act for the symbols of `panel`; refuses a symbol that it has no agent for."""
    from pacesetter.agents.fleet import FleetAgent

    return FleetAgent(best_fleet(folder), panel.symbols)


def best_fleet(folder: str | Path) -> Fleet:
    """The best fleet of a run; sets this process to the run's number of threads."""
    import torch

    from pacesetter.learning.fleet.storage import load_fleet

    config = read_plan(Run.open(folder))
    problem = config.task.problem
    if problem != "fleet":
        raise RunError(f"{folder} is a run of task={problem}, which has no fleet; use one of task=fleet")
    torch.set_num_threads(config.train.threads or torch.get_num_threads())
    best = Path(folder) / "checkpoints" / "best"
    if not best.is_dir():
        raise RunError(f"{folder} ended before its first validation; finish it with pacesetter train --resume {folder}")
    return load_fleet(best)
