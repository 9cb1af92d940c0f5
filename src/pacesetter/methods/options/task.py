"""`agent=options` on a task: a fleet with options, or with task=trading one agent with options for every symbol.

They take the place of the configured task; options and windows are the task's own, windows as long as the
rules read them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from pacesetter.arrays import Array
from pacesetter.build.environments import Parts, fitted_until
from pacesetter.build.plan import Plan, has_prior
from pacesetter.build.prior import beside_prior
from pacesetter.build.tasks.fleet import FleetTask, known_table
from pacesetter.build.tasks.task import Stored, Task
from pacesetter.build.trading import FleetTrading, Trading
from pacesetter.data.splits import Fold
from pacesetter.envs.batch.bank import Bank
from pacesetter.errors import ConfigError
from pacesetter.learning.methods import AgentOptions, read_options
from pacesetter.panel import Panel

if TYPE_CHECKING:
    import pandas as pd

    from pacesetter.agents.fleet import Fleet
    from pacesetter.learning.experience.market import FleetMarket
    from pacesetter.learning.fleet.method import MarketOfSymbols
    from pacesetter.methods.options.policy import OptionPolicy, ServedOptions
    from pacesetter.policies.modules import Exported

__all__ = ["OptionFleetTask", "OptionTradingTask", "adapt_to_options"]


def adapt_to_options(task: Task, agent: AgentOptions) -> Task:
    """The fleet or the one agent with options, windows as long as the rules read them.

    Targets, and with them a prior to begin at, are for learned options: the rules give the kernel's orders.
    """
    is_written = agent.options.get("kind", "written") == "written"
    if is_written and (agent.targets.prior != "none" or agent.targets.members > 1):
        raise ConfigError(
            "agent.prior and agent.members are for options that are learned, since the written ones give orders; take "
            "agent=option_critic task.action=target"
        )
    kind = OptionTradingTask if task.learned_as == "trading" else OptionFleetTask
    return kind(read_options(agent, task.learned_as).history_bars)


class OptionFleetTask(FleetTask):
    """A fleet whose agents have options."""

    learns = "an agent for each symbol, with options that last several bars,"
    observe = "pacesetter.methods.options.observers:observe"

    def __init__(self, history_bars: int) -> None:
        self.history_bars = history_bars

    def policy(self, stored: Stored) -> OptionPolicy:
        import torch

        from pacesetter.learning.fleet.storage import load_fleet

        torch.set_num_threads(stored.config.train.threads or torch.get_num_threads())
        fleet = load_fleet(stored.checkpoint)
        policy = self._policy(fleet, stored.config, fitted_until(stored.config, stored.panel))
        policy.beside = beside_prior(stored) if has_prior(stored.config) else None
        return policy

    def _policy(self, fleet: Fleet, config: Plan, until: pd.Timestamp) -> OptionPolicy:
        from pacesetter.methods.options.agents import OptionFleet
        from pacesetter.methods.options.policy import OptionPolicy

        assert isinstance(fleet, OptionFleet)
        task = config.trading
        return OptionPolicy(
            fleet,
            task.market,
            task.trades if isinstance(task, FleetTrading) else "orders",
            until,
            task.own_account,
            sets_targets=task.action == "target",
        )

    def export(self, stored: Stored, count: int) -> Exported:
        from pacesetter.learning.experience.market import FleetMarket
        from pacesetter.learning.fleet.storage import load_fleet
        from pacesetter.methods.options.agents import OptionFleet
        from pacesetter.methods.options.policy import serve_options
        from pacesetter.policies.modules import Exported

        task, table = stored.config.trading, known_table(stored)
        if task.action == "target":
            raise ConfigError(
                f"{stored.folder} holds targets by options, which a bundle does not serve; bundle one of "
                "task.action=continuous, or of agent=ppo"
            )
        bank = Bank.from_panels(stored.panel, table, symbols=task.symbols or None)
        fleet = load_fleet(stored.checkpoint)
        assert isinstance(fleet, OptionFleet)
        module, spec = serve_options(fleet, bank.names, task.trades if isinstance(task, FleetTrading) else "orders")
        market = FleetMarket(bank, 1, action=task.action, window_bars=task.window_bars, market=task.market)
        return Exported(module, spec, market.symbols, _sample_observations(module, market, count))


class OptionTradingTask(OptionFleetTask):
    """One agent with options that is applied to every symbol: a fleet of one that learns from all of them."""

    name = "trading"
    learns = "one agent that trades any symbol, with options that last several bars,"
    learned_as = "trading"
    config = Trading

    def parts(self, config: Plan, panel: Panel) -> Parts[MarketOfSymbols, object]:
        task = config.trading
        if task.curriculum != "none" or task.starts == "stratified":
            raise ConfigError(
                f"agent=options with task=trading learns without a curriculum from random or fixed starts, not with "
                f"task.curriculum={task.curriculum} task.starts={task.starts}; take task=fleet, or other starts"
            )
        train, validation, _ = super().parts(config, panel)
        return Parts(_one_agent(train), validation)

    def fold_parts(self, config: Plan, panel: Panel, fold: Fold) -> Parts[MarketOfSymbols, object]:
        market = _one_agent(super().fold_parts(config, panel, fold).train)
        return Parts(market, market)


def _one_agent(market: object) -> FleetMarket:
    """As many environments in all, each of which begins its episodes with any of the symbols."""
    from pacesetter.learning.experience.market import FleetMarket
    from pacesetter.methods.options.agents import ANY

    assert isinstance(market, FleetMarket)
    bank = market.batch.bank
    # All blocks under one name are one symbol to a market: one head then learns from every symbol's episodes.
    return FleetMarket(replace(bank, symbols=((ANY,),) * len(bank.symbols)), market.envs_each, **market._made_with)


def _sample_observations(module: ServedOptions, market: FleetMarket, count: int) -> Iterator[dict[str, Array]]:
    """What the market shows while the policy itself plays, with a tenth of the orders drawn at random."""
    import torch

    from pacesetter.methods.options.answer import MEMORY

    generator, observation = torch.Generator().manual_seed(0), market.reset()
    kept = module.fleet.no_memory(market.env_count)[MEMORY]
    for _ in range(0, count, market.env_count):
        shown = market.tables(observation) | {MEMORY: kept}
        yield {name: np.array(entry.numpy()) for name, entry in shown.items()}
        with torch.no_grad():
            orders, *_, kept = module(shown)
        drawn, is_drawn = (torch.rand(len(orders), 1, generator=generator) for _ in range(2))
        # Mostly the policy's own orders, so that options last; some random ones, so that accounts differ.
        step = market.step(torch.where(is_drawn < 0.1, 2 * drawn - 1, orders))
        kept = torch.where((step.terminated | step.truncated)[:, None], 0.0, kept)
        observation = step.observation
