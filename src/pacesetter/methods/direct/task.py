"""`agent=direct` on a task: whatever the task, it trades targets of all symbols in one account.

A `DirectTask` takes the place of the configured one, with the same options; windows are as long as the policy reads
them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pacesetter.agents.agent import Agent
from pacesetter.arrays import Array
from pacesetter.build.environments import (
    Parts,
    Stretch,
    build_supervised,
    build_table,
    feature_split,
    fitted_until,
    without_leadlag,
)
from pacesetter.build.plan import Plan
from pacesetter.build.tasks.task import Stored, Task
from pacesetter.data.splits import Fold
from pacesetter.envs.batch.bank import Bank
from pacesetter.errors import ConfigError
from pacesetter.learning.methods import AgentOptions, read_options
from pacesetter.market.covariance import RiskTables, make_tables
from pacesetter.market.risk import RiskOptions
from pacesetter.methods.direct.options import Direct, WholeMarket
from pacesetter.panel import Panel

if TYPE_CHECKING:
    import pandas as pd

    from pacesetter.envs.batch.batch import Batch
    from pacesetter.learning.learner import Learner
    from pacesetter.policies.agent import AgentPolicy
    from pacesetter.policies.modules import Exported

__all__ = ["DirectTask", "adapt_to_account"]

PORTFOLIOS = 8  # side by side, to be observed for an export


def adapt_to_account(task: Task, agent: AgentOptions) -> Task:
    """One account for all symbols, whatever the task."""
    return DirectTask(task, read_options(agent, task.learned_as))


class DirectTask(Task):
    """The account of a direct policy under the name and with the options of another task."""

    learns = "one policy for all symbols in one account"
    observe = "pacesetter.methods.direct.observers:observe"
    page = "pacesetter.methods.direct.page:run_sections"
    summary = "pacesetter.methods.direct.page:run_sentence"
    allocates = True
    is_rewarded = False

    def __init__(self, task: Task, direct: Direct) -> None:
        self.name, self.config, self.learned_as = task.name, task.config, task.learned_as
        self.history_bars, self.direct = direct.history_bars, direct
        # A policy without the group `windows` sees no lead–lag features, and neither does its table have them.
        self.reads_table = self.reads_context = direct.reads_windows
        if direct.network.startswith("team"):
            self.page = "pacesetter.methods.direct.team_page:run_sections"

    def check_bars(self, config: Plan, panel: Panel, bars: int) -> None:
        self.direct.check_bars(bars)

    def parts(self, config: Plan, panel: Panel) -> Parts[WholeMarket, Stretch]:
        split, task = feature_split(self._as_read(config), panel), config.trading
        known = self.whole_market(config, split.known, **split.features(split.known))
        # Features are of all symbols, since the others may lead; only the named ones are traded.
        traded = split.known.select(task.symbols) if task.symbols else split.known
        # The first decision needs a whole window before it, also where validation starts early.
        first = max(split.start, task.window_bars - 1)
        validation = Stretch(traded, known.bank, first, known.market, task.window_bars, config.risk)
        return Parts(self.whole_market(config, split.learned, **split.features(split.learned)), validation)

    def fold_parts(self, config: Plan, panel: Panel, fold: Fold) -> Parts[WholeMarket, WholeMarket]:
        """Refuses a fold that has a test between its training bars."""
        first, last = int(fold.train[0]), int(fold.train[-1])
        # Fewer bars than the span means a hole, and an account cannot step across it.
        if len(fold.train) <= last - first:
            raise ConfigError(
                "agent=direct learns from one unbroken period; evaluate it by --folds without --combinatorial"
            )
        market = self.whole_market(config, panel.rows(first, last + 1))
        # Folds validate nothing: the agent is taken as it is after the last step.
        return Parts(market, market)

    def whole_market(self, config: Plan, panel: Panel, **known: Any) -> WholeMarket:
        """All bars of the panel as one market.

        Refuses a task that has an account for each of several symbols, and a network of several on one symbol.
        """
        task = config.trading
        symbols = task.symbols or panel.symbols
        # A master above a drawdown limit has its part to do with one symbol too.
        is_shared = self.direct.network != "linear_cross" and self.direct.objective != "cushion"
        if len(symbols) == 1 and is_shared:
            raise ConfigError(
                f"agent.network={self.direct.network} is shared by symbols, and {symbols[0]} is alone; give more "
                "symbols, or agent.network=linear_cross"
            )
        if self.name == "trading" and len(symbols) > 1:
            raise ConfigError(
                f"agent=direct trades the {len(symbols)} symbols in one account: take task=fleet or task=portfolio, or "
                "name one symbol by task.symbols"
            )
        table, odds = known.get("table"), known.get("supervised")
        if table is None:
            table, odds = build_table(self._as_read(config), panel), build_supervised(config, panel)
        bank = Bank.from_panels(panel, table, odds, symbols=symbols, is_whole=True)
        return WholeMarket(bank, replace(task.market, bars_per_year=panel.bars_per_year), _risk(config, panel, symbols))

    def _as_read(self, config: Plan) -> Plan:
        """The configuration with the features that the policy sees."""
        return config if self.reads_context else without_leadlag(config)

    def policy(self, stored: Stored) -> AgentPolicy:
        import torch

        from pacesetter.methods.direct.learner import load_direct

        torch.set_num_threads(stored.config.train.threads or torch.get_num_threads())
        return self._policy(load_direct(stored.checkpoint), fitted_until(stored.config, stored.panel))

    def learned_policy(self, learner: Learner, config: Plan, until: pd.Timestamp) -> AgentPolicy:
        agent = learner.agent
        assert isinstance(agent, Agent)
        return self._policy(agent, until)

    def _policy(self, agent: Agent, until: pd.Timestamp) -> AgentPolicy:
        from pacesetter.policies.agent import AgentPolicy

        return AgentPolicy(agent, "direct", "target", is_whole=True, fitted_until=until, has_encoder=False)

    def export(self, stored: Stored, count: int) -> Exported:
        from pacesetter.envs.batch.batch import Batch
        from pacesetter.methods.direct.learner import load_direct
        from pacesetter.methods.direct.policy import serve_direct
        from pacesetter.policies.modules import Exported

        task, policy = stored.config.trading, load_direct(stored.checkpoint)
        table = build_table(self._as_read(stored.config), stored.panel) if stored.table is None else stored.table
        # In the policy's order of symbols, which its weights are written in.
        bank = Bank.from_panels(stored.panel, table, symbols=policy.symbols, is_whole=True)
        batch = Batch(bank, PORTFOLIOS, action="target", window_bars=task.window_bars, market=task.market)
        module, spec = serve_direct(policy, batch.builder.shapes, bank.names)
        return Exported(module, spec, policy.symbols, _sample_observations(batch, tuple(spec.inputs), count))

    def check_symbols(self, run: object, own: Sequence[str], label: str, there: Sequence[str]) -> None:
        """Every weight is one of a pair of symbols."""
        if list(own) != list(there):
            raise ConfigError(
                f"the policy of {run} has weights for its own {len(own)} symbols, and '{label}' has others; train one "
                "there, or a task=trading agent, which is asked for any symbol"
            )


def _risk(config: Plan, panel: Panel, symbols: Sequence[str]) -> tuple[RiskOptions, RiskTables] | None:
    """How the account is sized, with the tables of the bars; None where it is not."""
    risk = config.risk
    if not risk.is_on:
        return None
    traded = panel.select(symbols) if tuple(symbols) != panel.symbols else panel
    return risk, make_tables(traded, risk.base, risk.half_life_days)


def _sample_observations(batch: Batch, entries: tuple[str, ...], count: int) -> Iterator[dict[str, Array]]:
    """What portfolios show while random shares are wanted in them."""
    generator, observation = np.random.default_rng(0), batch.reset()
    for _ in range(0, count, batch.env_count):
        yield {name: np.array(observation[name], dtype=np.float32) for name in entries}
        # Random portfolios, so that positions of all sizes are among the compared observations.
        wanted = generator.dirichlet(np.ones(observation["position"].shape[1]), batch.env_count)
        observation = batch.step(wanted).observation
