"""`task=trading`: one symbol an episode, by one agent that is applied to every symbol."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from pacesetter.agents.agent import Agent
from pacesetter.arrays import Array
from pacesetter.build.environments import (
    FeatureSplit,
    Parts,
    build_supervised,
    build_table,
    feature_split,
    fitted_until,
    learned_risk,
)
from pacesetter.build.plan import Plan, has_prior
from pacesetter.build.prior import beside_prior, fit_prior, market_rows, refuse_folds
from pacesetter.build.stored import load_agent
from pacesetter.build.tasks.task import Stored, Task
from pacesetter.build.trading import Trading
from pacesetter.data.splits import Fold
from pacesetter.envs.batch.bank import Bank
from pacesetter.envs.batch.batch import Batch, batch_of
from pacesetter.envs.batch.starts import Start, Starts
from pacesetter.envs.programme import copies_of
from pacesetter.errors import ConfigError, DataError
from pacesetter.features import FeatureTable
from pacesetter.panel import Panel

if TYPE_CHECKING:
    import pandas as pd

    from pacesetter.envs.vector import Environments
    from pacesetter.learning.learner import Learner
    from pacesetter.learning.sb3.own import AnyAlgorithm
    from pacesetter.policies.agent import AgentPolicy
    from pacesetter.policies.modules import Exported
    from pacesetter.policies.policy import Policy
    from pacesetter.policies.spec import PolicySpec

__all__ = ["MarketCopies", "SingleAgentTask", "TradingTask", "market_copies", "starts_within"]


class SingleAgentTask(Task):
    """What trading and portfolio share: vector environments, one agent, its policy and its graph.

    is_whole   an episode trades all symbols in one account
    """

    is_whole: ClassVar[bool] = False
    reads_table = True

    def environment(self, config: Plan, panel: Panel | list[Panel], envs: int = 1, **options: Any) -> Environments:
        """A vector environment on all of the panel; `options` beside those of the task, e.g. a table that is known."""
        from pacesetter.envs.portfolio import PortfolioVectorEnv
        from pacesetter.envs.residual import ResidualVectorEnv
        from pacesetter.envs.trading import TradingVectorEnv

        task, kind = config.trading, PortfolioVectorEnv if self.is_whole else TradingVectorEnv
        if "table" not in options:
            assert isinstance(panel, Panel)  # copies of a market come with their tables
            options |= {"table": build_table(config, panel), "supervised": build_supervised(config, panel)}
        own = {
            "action": task.action,
            "window_bars": config.learned_window_bars,
            "market": replace(
                task.market, bars_per_year=(panel[0] if isinstance(panel, list) else panel).bars_per_year
            ),
            "reward": task.reward,
            "risk": learned_risk(config),
        }
        if not has_prior(config):
            env = kind(panel, envs, task.symbols or None, **own | options)
            return env if self.conditions is None else self.conditions.environment(env)
        # Without its ends, as where an agent is only loaded, the prior's place is kept.
        assert isinstance(panel, Panel)  # a prior knows the bars as they are
        none = np.zeros((len(task.symbols or panel.symbols), len(panel), 2))
        env = kind(panel, envs, task.symbols or None, **own | {"prior": none} | options)
        return ResidualVectorEnv(env, config.agent.targets.prior_reach)

    def parts(self, config: Plan, panel: Panel) -> Parts[Environments, Environments]:
        split = feature_split(config, panel)
        if not has_prior(config):
            return self._parts(config, split)
        prior, ends = fit_prior(config, split)
        return self._parts(config, replace(split, prior=ends))._replace(prior=prior)

    def _parts(self, config: Plan, split: FeatureSplit) -> Parts[Environments, Environments]:
        task, learned, visible = config.trading, split.learned, split.known
        # Bars per year of all seen bars for both sets, so that rates and Sharpe ratios do not differ between them.
        common = {"has_windows": False, "market": replace(task.market, bars_per_year=visible.bars_per_year)}
        episodes = {"episode_bars": task.episode_bars, "continued": task.continued, "starts": task.starts} | common
        if task.repetition_limit is not None:
            episodes["repetition_limit"] = task.repetition_limit
        if task.switch != "action":
            episodes["switch"] = task.switch
        # Behind the real bars in both sets, so that a place in the training tables is the same place in validation's.
        copies = market_copies(config, split)
        known = [
            copies.append_copies(panel, split.features(panel)) for panel in (learned, visible)
        ]  # in the same order in both
        (learned_too, first), (seen_too, second) = known
        train = self._with_curriculum(
            task, self.environment(config, learned_too, config.train.envs, **first, **episodes)
        )
        blocks = 1 if self.is_whole else len(task.symbols or visible.symbols)
        validation = self.environment(config, seen_too, blocks, **second, starts="fixed", **common)
        window_bars = config.learned_window_bars
        batch = _batch(validation)
        batch.use_starts(_starts_from(split.start, batch.bank, window_bars, blocks))
        return Parts(train, validation)

    def _with_curriculum(self, task: Trading, env: Environments) -> Environments:
        """The training environment with its curriculum."""
        from pacesetter.envs.curriculum import FIVE_STAGES, CurriculumVectorEnv, adaptive_stages
        from pacesetter.envs.programme import make_course

        if task.curriculum == "none":
            return env
        if not copies_of(task.curriculum):
            return CurriculumVectorEnv(env, FIVE_STAGES if task.curriculum == "five_stages" else adaptive_stages())
        batch = _batch(env)
        blocks = len(batch.bank.lasts)
        # Blocks are the real symbols, then those of each copy in the same order.
        each = blocks // (1 + len(copies_of(task.curriculum)))
        return CurriculumVectorEnv(
            env, course=make_course(task.curriculum, batch, (np.arange(blocks) // each).tolist())
        )

    def fold_parts(self, config: Plan, panel: Panel, fold: Fold) -> Parts[Environments, Environments]:
        refuse_folds(config)
        task, known = config.trading, panel.rows(0, int(fold.train[-1]) + 1)
        env = self.environment(config, known, config.train.envs, episode_bars=task.episode_bars, starts=task.starts)
        # Starts alone are not enough: an episode must also end before a gap in the training bars.
        batch = _batch(env)
        batch.use_starts(starts_within(batch.starts, fold.train))
        return Parts(env, env)

    def policy(self, stored: Stored) -> Policy:
        config, panel = stored.config, stored.panel
        known: dict[str, Any] = {}
        if stored.table is not None:
            known = {"table": stored.table, "supervised": build_supervised(config, panel)}
        agent = load_agent(stored.folder, self.environment(config, panel, **known))
        policy = self._policy(agent, config, fitted_until(config, panel))
        if has_prior(config):
            from pacesetter.methods.prior.policy import PriorPolicy

            return PriorPolicy(policy, beside_prior(stored))
        return self.ask_policy(policy, config, stored.folder)

    def learned_policy(self, learner: Learner, config: Plan, until: pd.Timestamp) -> Policy:
        agent = learner.agent
        assert isinstance(agent, Agent)
        return self.ask_policy(self._policy(agent, config, until), config)

    def _policy(self, agent: Agent, config: Plan, until: pd.Timestamp) -> AgentPolicy:
        from pacesetter.policies.agent import AgentPolicy

        name, task = config.agent.algorithm, config.trading
        return AgentPolicy(agent, name, task.action, self.is_whole, until, own_account=task.own_account)

    def export(self, stored: Stored, count: int) -> Exported:
        from pacesetter.build.learner import build_learner
        from pacesetter.learning.sb3.algorithms import load_weights
        from pacesetter.learning.sb3.learner import SB3Learner
        from pacesetter.learning.state import read_state
        from pacesetter.policies.modules import Exported, serve_algorithm

        config = stored.config
        parts = self._parts(config, feature_split(config, stored.panel, stored.table))
        # The same modules are built and the weights filled in: nothing is unpickled.
        learner = build_learner(config, parts)
        assert isinstance(learner, SB3Learner)
        algorithm = learner.algorithm
        load_weights(algorithm, read_state(stored.checkpoint))
        bank = _batch(parts.validation).bank
        names = self.entry_names(bank.names)
        module, spec = serve_algorithm(algorithm, names, config.trading.action, bank.symbols[0])
        if has_prior(config):
            from pacesetter.methods.prior.policy import serve_prior

            served = serve_prior(module, spec, beside_prior(stored), names, "orders")
            whole = Bank.from_panels(stored.panel, stored.table, symbols=config.trading.symbols or None)
            return Exported(*served, served[1].symbols, market_rows(whole, config.trading, count))
        spec = self.with_defaults(spec, stored.folder)
        symbols = tuple(name for block in bank.symbols for name in block)
        return Exported(module, spec, symbols, _sample_observations(algorithm, parts.train, spec, count))


class TradingTask(SingleAgentTask):
    """One symbol an episode."""

    name = "trading"
    learns = "one agent that trades any symbol"
    learned_as = "trading"
    config = Trading


TASK = TradingTask()


@dataclass(frozen=True, eq=False)
class MarketCopies:
    """Copies of the training bars that a curriculum or a family of tasks plays on, with features; mostly none."""

    panels: list[Panel]
    tables: list[FeatureTable]

    def append_copies(self, panel: Panel, features: dict[str, object]) -> tuple[Panel | list[Panel], dict[str, object]]:
        """A panel and its features with the copies behind it."""
        if not self.panels:
            return panel, features
        return [panel, *self.panels], {"table": [features["table"], *self.tables], "supervised": None}


def market_copies(config: Plan, split: FeatureSplit) -> MarketCopies:
    """The copies that `task.curriculum` asks for; refuses them beside a classifier that knows nothing of such bars."""
    from pacesetter.envs.difficulty import alter_returns

    task = config.trading
    copies = copies_of(task.curriculum, task.noise)
    if copies and split.supervised is not None:
        raise ConfigError(f"task.curriculum={task.curriculum} does not go with features.supervised; leave one out")
    panels = [
        alter_returns(split.learned, copy.noise, copy.volatility, copy.factor, seed=config.seed + number)
        for number, copy in enumerate(copies)
    ]
    return MarketCopies(panels, [build_table(config, panel) for panel in panels])


def _starts_from(start: int, bank: Bank, window_bars: int, own: int) -> Starts:
    """The first usable bar from bar `start` on of each of the `own` first blocks; others are copies."""
    usable = bank.usable(window_bars, 1)
    usable[:, :start] = False
    # Validation is played on the real bars alone.
    usable[own:] = False
    blocks = np.flatnonzero(usable.any(axis=1))
    if len(blocks) == 0:
        raise DataError(f"no symbol trades in the validation set, from bar {start} on; change train.shares")
    pool = np.stack([blocks, usable[blocks].argmax(axis=1), bank.lasts[blocks]], axis=1)
    return Starts(pool, np.arange(len(blocks) + 1), is_fixed=True)


def starts_within(starts: Starts, train: Array) -> Starts:
    """The starts in the training bars; an episode ends where its unbroken run of them does."""
    # −1 outside the training bars: `last` is then before the start, and the start is dropped.
    ends = np.full(max(int(train[-1]), int(starts.pool[:, Start.TIME].max())) + 1, -1)
    # Unbroken runs of training bars: a gap is a step of more than one bar.
    for run in np.split(train, np.flatnonzero(np.diff(train) > 1) + 1):
        ends[run] = run[-1]
    last = np.minimum(starts.pool[:, Start.LAST], ends[starts.pool[:, Start.TIME]])
    is_kept = last > starts.pool[:, Start.TIME]
    pool = starts.pool.copy()
    # The kernel ends an episode at LAST, so it never steps from one training run into the next.
    pool[:, Start.LAST] = last
    return replace(starts, pool=pool).keep_starts(is_kept)


def _batch(env: Environments) -> Batch:
    """The batch of environments that trade."""
    batch = batch_of(env)
    assert batch is not None
    return batch


def _sample_observations(
    algorithm: AnyAlgorithm, env: Environments, spec: PolicySpec, count: int
) -> Iterator[dict[str, Array]]:
    """What training environments show while random actions are played in them."""
    import torch

    from pacesetter.agents.agent import ACTION_MASK
    from pacesetter.learning.sb3.algorithms import EncoderExtractor

    extractor = next(module for module in algorithm.policy.modules() if isinstance(module, EncoderExtractor))
    observation, _ = env.reset(seed=0)
    generator = np.random.default_rng(0)
    # The compared observations are the same each time a run is bundled.
    env.action_space.seed(0)
    for _ in range(0, count, env.num_envs):
        compact = {name: torch.as_tensor(np.asarray(entry)) for name, entry in observation.items()}
        full = compact if extractor.tables is None else extractor.tables(compact)
        batch = {name: entry.numpy() for name, entry in full.items()}
        if ACTION_MASK in spec.inputs:
            batch[ACTION_MASK] = _batch(env).action_masks().astype(np.float32)
        for name in spec.remembered:  # units of an LSTM or GRU lie in −1 … 1
            batch[name] = generator.uniform(-1, 1, (env.num_envs, *spec.inputs[name])).astype(np.float32)
        yield batch
        observation, *_ = env.step(env.action_space.sample())
