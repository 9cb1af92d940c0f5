"""`agent=meta` on task=fleet: a fleet with a context, trained on a family of markets beside its own.

It takes the place of the configured task. With agent.context=off it is a plain fleet on the same family.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pacesetter.build.environments import FeatureSplit, build_table
from pacesetter.build.plan import Plan
from pacesetter.build.tasks.fleet import FleetTask
from pacesetter.build.tasks.task import Task
from pacesetter.build.tasks.trading import MarketCopies
from pacesetter.build.trading import FleetTrading
from pacesetter.errors import ConfigError
from pacesetter.learning.methods import AgentOptions, read_options

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd

    from pacesetter.agents.fleet import Fleet
    from pacesetter.learning.experience.conditioned import SymbolMarket
    from pacesetter.market.parameters import MarketParameters
    from pacesetter.policies.modules import ServedAgent
    from pacesetter.policies.policy import Policy
    from pacesetter.policies.spec import PolicySpec, Trades

__all__ = ["MetaFleetTask", "adapt_to_context"]


def adapt_to_context(task: Task, agent: AgentOptions) -> Task:
    """The fleet with a context."""
    read_options(agent, task.learned_as)  # refuses a wrong one before data is loaded
    return MetaFleetTask()


class MetaFleetTask(FleetTask):
    """A fleet whose agents read a context of their own transitions."""

    learns = "an agent for each symbol, with a context of what it has just seen,"
    history_bars = 1  # of a window: what is older, the context keeps

    def copies(self, config: Plan, split: FeatureSplit) -> MarketCopies:
        """The markets of agent.family; refuses them beside a curriculum or a classifier, which know nothing of them."""
        from pacesetter.methods.meta.families import family_tasks
        from pacesetter.methods.meta.meta import OWN_REGIMES

        family = str(config.agent.options["family"])
        if family == OWN_REGIMES:
            return super().copies(config, split)
        if split.supervised is not None or config.trading.curriculum != "none":
            raise ConfigError(
                f"agent.family={family} makes other markets, which features.supervised and task.curriculum know "
                "nothing of; leave them out"
            )
        tasks = family_tasks(family, split.learned, int(config.agent.options["tasks"]), config.seed)
        return MarketCopies([task.panel for task in tasks], [build_table(config, task.panel) for task in tasks])

    def _policy(self, fleet: Fleet, config: Plan, until: pd.Timestamp) -> Policy:
        from pacesetter.methods.meta.agents import ContextFleet
        from pacesetter.methods.meta.policy import ContextAdvice
        from pacesetter.policies.fleet import FleetTargets

        task = config.task_as(FleetTrading)
        if not isinstance(fleet, ContextFleet) or task.trades != "targets":
            return super()._policy(fleet, config, until)
        advice: Any = ContextAdvice(fleet)  # it keeps what it saw, and is asked as an `Advice`
        return FleetTargets(advice, task.market, task.action == "target", until)

    def make_served(
        self, fleet: Fleet, names: Mapping[str, Sequence[str]], targets_in: MarketParameters | None, trades: Trades
    ) -> tuple[ServedAgent, PolicySpec]:
        from pacesetter.methods.meta.agents import ContextFleet
        from pacesetter.methods.meta.policy import serve_context

        if isinstance(fleet, ContextFleet):
            return serve_context(fleet, names, targets_in, trades)
        return super().make_served(fleet, names, targets_in, trades)

    def observe_as(self, market: SymbolMarket, fleet: Fleet) -> SymbolMarket:
        from pacesetter.learning.experience.market import FleetMarket
        from pacesetter.methods.meta.agents import ContextFleet
        from pacesetter.methods.meta.market import ContextMarket

        if not isinstance(fleet, ContextFleet):
            return market
        assert isinstance(market, FleetMarket)
        return ContextMarket(market, fleet.bar_memory)
