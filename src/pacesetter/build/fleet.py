"""The fleet of a configuration: its markets, its learner untrained, and the stored one to act again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pacesetter.build.configuration import Config, build_task, read_config
from pacesetter.errors import ConfigError, RunError, did_you_mean, needs
from pacesetter.panel import Panel
from pacesetter.registry import configure
from pacesetter.runs import Run

if TYPE_CHECKING:
    from pacesetter.agents.fleet import Fleet, FleetAgent
    from pacesetter.build.environments import Parts
    from pacesetter.learning.experience.market import FleetMarket
    from pacesetter.learning.fleet.trainer import FleetLearner

__all__ = ["best_fleet", "build_fleet_learner", "build_market", "check_algorithm", "load_fleet"]

ALGORITHMS = ("fleet_ppo", "fleet_sac")


def build_market(config: Config, panel: Panel, envs_each: int, **options: Any) -> FleetMarket:
    """A market of the task's symbols on all of the panel; `options` beside those of the task, e.g. its table."""
    from pacesetter.build.environments import build_supervised, build_table
    from pacesetter.envs.batch.bank import Bank

    task = build_task(config)
    with needs("a fleet", "rl"):
        from pacesetter.learning.experience.market import FleetMarket
    if "table" not in options:
        options |= {"table": build_table(config, panel), "supervised": build_supervised(config, panel)}
    bank = Bank.from_panels(panel, options.pop("table"), options.pop("supervised"), symbols=task.symbols or None)
    told = {
        "action": task.action,
        "window_bars": task.window_bars,
        "market": replace(task.market, bars_per_year=panel.bars_per_year),
        "reward": task.reward,
    }
    return FleetMarket(bank, envs_each, config.train.device, **told | options)


def build_fleet_learner(config: Config, parts: Parts) -> FleetLearner[Fleet, FleetMarket]:
    """The configured fleet and its algorithm on the training set; refuses an algorithm that is for single agents.

    It sets the number of threads of this process, which the first weights depend on already.
    """
    import torch

    from pacesetter.agents.encoders import network
    from pacesetter.agents.fleet import Fleet
    from pacesetter.learning.fleet.ppo import FleetPPO, FleetPPOLearner
    from pacesetter.learning.fleet.sac import FleetSAC, FleetSACLearner

    torch.set_num_threads(config.train.threads or torch.get_num_threads())
    check_algorithm(config)
    options: dict[str, Any] = dict(config.agent)
    name = options.pop("algorithm")
    shown = {"unseen": build_task(config).unseen}
    encoder = network(options.pop("network", "mlp"), **shown | dict(options.pop("network_options", None) or {}))
    hidden = _hidden(options.pop("heads", (128,)))
    torch.manual_seed(config.seed)
    market = parts.train
    fleet = Fleet(encoder, market.shapes, market.symbols, market.actions, hidden)
    told = options | {"seed": config.seed}
    if name == "fleet_ppo":
        return FleetPPOLearner(fleet, market, configure(FleetPPO, told, "agent"))
    return FleetSACLearner(fleet, market, configure(FleetSAC, told, "agent"))


def check_algorithm(config: Config) -> None:
    """Refuse an algorithm that is for single agents."""
    name = str(config.agent.get("algorithm", ""))
    if name not in ALGORITHMS:
        raise ConfigError(f"agent={name} does not support task=fleet{did_you_mean(name, ALGORITHMS)}")


def _hidden(heads: Any) -> int:
    """The width of the one hidden layer that the heads of a fleet have; refuses more of them."""
    match heads:
        case int(width) | [int(width)] if width > 0:
            return width
    raise ConfigError(f"agent.heads={heads}: heads of a fleet have one hidden layer; give its width, e.g. [64]")


def load_fleet(folder: str | Path, panel: Panel) -> FleetAgent:
    """The best fleet of a run, to act for the symbols of `panel`; refuses a symbol that it has no agent for."""
    from pacesetter.agents.fleet import FleetAgent

    return FleetAgent(best_fleet(folder), panel.symbols)


def best_fleet(folder: str | Path) -> Fleet:
    """The best fleet of a run; sets this process to the run's number of threads."""
    import torch

    from pacesetter.learning.fleet.storage import load_fleet as read_fleet

    config = read_config(Run.open(folder))
    problem = config.task["problem"]
    if problem != "fleet":
        raise RunError(f"{folder} is a run of task={problem}, which has no fleet; use one of task=fleet")
    torch.set_num_threads(config.train.threads or torch.get_num_threads())
    return read_fleet(Path(folder) / "checkpoints" / "best")
