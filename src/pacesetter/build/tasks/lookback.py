"""`task=lookback`: an agent that chooses the lead–lag window; it trades nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import count
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from pacesetter.build.environments import Parts, split_panel
from pacesetter.build.plan import Plan
from pacesetter.build.stored import load_agent, stored_plan
from pacesetter.build.tasks.task import Stored, Task
from pacesetter.data.splits import Fold
from pacesetter.envs.lookback.batch import LookbackConfig
from pacesetter.envs.lookback.curriculum import Curriculum
from pacesetter.errors import ConfigError
from pacesetter.leadlag.lookback.policy import LookbackPolicy
from pacesetter.panel import Panel

if TYPE_CHECKING:
    import pandas as pd

    from pacesetter.agents.agent import Observation
    from pacesetter.arrays import Array
    from pacesetter.envs.lookback.vector import LookbackVectorEnv
    from pacesetter.envs.vector import Environments
    from pacesetter.learning.experience.window_market import WindowMarket
    from pacesetter.learning.learner import Learner
    from pacesetter.learning.sb3.algorithms import AlgorithmAgent
    from pacesetter.policies.modules import Exported
    from pacesetter.policies.spec import PolicySpec

__all__ = ["LookbackTask", "learned_universe"]

ROWS = 500  # observations of a batch
STRETCH_BARS = 512  # of the validation set that one environment plays


class LookbackTask(Task):
    """Windows instead of orders."""

    name = "lookback"
    learns = "which lead–lag window to use, bar by bar,"
    learned_as = "lookback"
    config = LookbackConfig
    judged_as = "windows"
    refusals: ClassVar[Mapping[str, str]] = {
        "baseline": "the baselines of task={task} do not trade; `pacesetter evaluate RUN` shows them beside an agent",
        "cluster": (
            "a cluster trains groups of symbols, and task={task} uses all of them together; its seeds and folds "
            "are for `pacesetter train --launch sweep`"
        ),
        "job": "the pipeline trains traders; task={task} is for `pacesetter train`",
    }

    def environment(
        self, config: Plan, panel: Panel | list[Panel], envs: int = 1, **options: object
    ) -> LookbackVectorEnv:
        """A vector environment on all of the panel."""
        from pacesetter.envs.lookback.vector import LookbackVectorEnv

        assert isinstance(panel, Panel)
        return LookbackVectorEnv(panel, envs, config.lookback, **options)

    def parts(self, config: Plan, panel: Panel) -> Parts[Environments, object]:
        from pacesetter.envs.lookback.vector import LookbackVectorEnv

        task, split = config.lookback, split_panel(config, learned_universe(config, panel))
        # Validation is all later bars, real ones, without curriculum and synthetic markets: scores of different steps
        # then compare. They are played in stretches side by side, since one after another takes ten times as long.
        stretches = max(-(-(len(split.known) - split.start - 1 - task.view.horizon_bars) // STRETCH_BARS), 1)
        steady = replace(
            task.episodes,
            bars=STRETCH_BARS,
            starts="consecutive",
            warmup_bars=split.start,
            # The first resolution alone; the others stay named, since the observation says which one it is.
            resolution_from=(0, *[sys.maxsize] * (len(task.episodes.resolutions) - 1)),
            synthetic_share=0.0,
            curriculum=Curriculum(),
        )
        validation = LookbackVectorEnv(split.known, stretches, replace(task, episodes=steady))
        return Parts(self.environment(config, split.learned, config.train.envs), validation)

    def fold_parts(self, config: Plan, panel: Panel, fold: Fold) -> Parts[LookbackVectorEnv, LookbackVectorEnv]:
        known = learned_universe(config, panel).rows(0, int(fold.train[-1]) + 1)
        env = self.environment(config, known, config.train.envs)
        # The panel begins at bar 0 for the windows' history; episodes stay in the fold's own bars.
        env.batch.dealer.keep_within(fold.train)
        return Parts(env, env)

    def recording_market(self, config: Plan, panel: Panel, envs: int, episode_bars: int | None) -> WindowMarket:
        from pacesetter.envs.lookback.vector import LookbackVectorEnv
        from pacesetter.learning.experience.window_market import WindowMarket

        task: LookbackConfig = config.lookback
        bars = task.episodes.bars if episode_bars is None else episode_bars
        if bars is None:
            raise ConfigError("task.episodes.bars=null has no end; give --bars")
        learned = split_panel(config, learned_universe(config, panel)).learned
        return WindowMarket(LookbackVectorEnv(learned, envs, replace(task, episodes=replace(task.episodes, bars=bars))))

    def recorded_facts(self, config: Plan, panel: Panel, market: object) -> dict[str, object]:
        from pacesetter.learning.experience.window_market import WindowMarket
        from pacesetter.methods.offline.manifest import content_hash

        assert isinstance(market, WindowMarket)
        task: LookbackConfig = config.lookback
        return {
            "data": split_panel(config, learned_universe(config, panel)).learned.fingerprint,
            "symbols": list(market.symbols),
            "names": {},
            "window_bars": 1,
            "action": task.windows.space,
            "reward": content_hash(asdict(task.reward)),
            "windows": content_hash(asdict(task.windows) | {"liquidity": asdict(task.liquidity)}),
            "view": content_hash(asdict(task.view)),
            "components": list(market.env.batch.reward.names),
            "episode_bars": market.env.batch.config.episodes.bars,
            "bars_per_year": panel.bars_per_year,
            "hold_zone": 0.0,
        }

    def policy(self, stored: Stored) -> LookbackPolicy:
        return self.windows_policy(stored)

    def windows_policy(self, stored: Stored, is_stochastic: bool = False) -> LookbackPolicy:
        """What the best agent of a run chooses; where it is stochastic, draws follow from the run's seed alone."""
        agent = load_agent(stored.folder, self.environment(stored.config, stored.panel))
        return _as_policy(agent, stored.config, is_stochastic)

    def learned_policy(self, learner: Learner, config: Plan, until: pd.Timestamp) -> LookbackPolicy:
        from pacesetter.learning.sb3.learner import SB3Learner

        assert isinstance(learner, SB3Learner)
        return _as_policy(learner.agent, config)

    def export(self, stored: Stored, count: int) -> Exported:
        from pacesetter.policies.modules import Exported, serve_algorithm

        agent = load_agent(stored.folder, self.environment(stored.config, stored.panel))
        module, spec = serve_algorithm(agent.algorithm, {}, "continuous")
        return Exported(module, spec, stored.panel.symbols, _sample_observations(stored, spec, count))

    def check_symbols(self, run: object, own: Sequence[str], label: str, there: Sequence[str]) -> None:
        most = stored_plan(str(run)).lookback.view.max_assets
        if len(there) > (most or len(own)) or (most is None and len(there) != len(own)):
            raise ConfigError(
                f"{run} chooses windows for {most or len(own)} symbols, but {label} has {len(there)}; train it with "
                "task.view.max_assets for universes that differ"
            )


def learned_universe(config: Plan, panel: Panel) -> Panel:
    """The symbols that the agent learns from, `task.symbols`; all of them where none are named."""
    symbols = config.lookback.symbols
    return panel.select(list(symbols)) if symbols else panel


def _sample_observations(stored: Stored, spec: PolicySpec, wanted: int) -> Iterator[dict[str, Array]]:
    """What the environment shows at random bars with random windows in force, every action allowed."""
    from pacesetter.policies.windows import allow_all_actions

    task: LookbackConfig = stored.config.lookback
    generator, batch = np.random.default_rng(0), task.make_batch(stored.panel, ROWS)
    market = batch.markets[0]
    for _ in range(0, wanted, ROWS):
        bars = generator.integers(market.first, len(stored.panel), ROWS)
        batch.place(market, bars, generator.integers(task.windows.shortest, task.windows.longest + 1, ROWS))
        yield allow_all_actions(batch.observe(), spec)


def _as_policy(agent: AlgorithmAgent, config: Plan, is_stochastic: bool = False) -> LookbackPolicy:
    """An agent that has learned as a policy of a panel."""
    from pacesetter.envs.lookback.evaluation import BLOCK_BARS, AgentLookback

    act = _draw_actions(agent, config.seed) if is_stochastic else agent.act
    memory = agent if agent.has_memory else None
    return AgentLookback(act, config.lookback, block_bars=1 if agent.has_memory else BLOCK_BARS, memory=memory)


def _draw_actions(agent: AlgorithmAgent, seed: int) -> Callable[[Observation], Array]:
    """The agent's stochastic actions, whose random numbers are its own."""
    from pacesetter.learning.randomness import use_seed

    calls = count()

    def act(observation: Observation) -> Array:
        # A large prime apart: the draws of two runs with neighbouring seeds do not overlap within a million calls.
        with use_seed(seed * 1_000_003 + next(calls)):
            return agent.act(observation, deterministic=False)

    return act


TASK = LookbackTask()
