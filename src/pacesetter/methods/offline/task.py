"""`agent=bc`, `cql` and `iql`: what learns from a stored dataset is never handed a market.

An `OfflineTask` takes the place of the fleet's, and an `OfflineWindowsTask` that of the lookback task. They train on
stored rows; markets are built when a run is judged, and only then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, NoReturn

from pacesetter.build.environments import Parts, feature_split
from pacesetter.build.fleet import build_market
from pacesetter.build.plan import Plan
from pacesetter.build.tasks.fleet import FleetTask
from pacesetter.build.tasks.lookback import LookbackTask
from pacesetter.build.tasks.task import NO_WINDOWS, Task
from pacesetter.errors import ConfigError, needs
from pacesetter.learning.methods import AgentOptions
from pacesetter.methods.offline.manifest import build_recording_market, check_dataset
from pacesetter.panel import Panel

if TYPE_CHECKING:
    from pacesetter.learning.experience.market import FleetMarket
    from pacesetter.learning.experience.window_market import WindowMarket
    from pacesetter.methods.offline.rows import StoredRows
    from pacesetter.methods.offline.window_rows import StoredWindows

__all__ = ["JudgedMarkets", "JudgedWindows", "OfflineTask", "OfflineWindowsTask", "adapt_to_dataset", "stored_rows"]


def adapt_to_dataset(task: Task, agent: AgentOptions) -> Task:
    """The task with stored episodes in place of its market; refuses one of which none are recorded."""
    kinds: dict[str, type[Task]] = {"fleet": OfflineTask, "lookback": OfflineWindowsTask}
    if task.name not in kinds:
        raise ConfigError(f"agent={agent.algorithm} does not support task={task.name}, only {' and '.join(kinds)}")
    return kinds[task.name]()


@dataclass(frozen=True, eq=False)
class JudgedMarkets:
    """The markets that an offline policy is judged in after it has learned."""

    config: Plan
    panel: Panel

    @cached_property
    def validation(self) -> FleetMarket:
        """The validation set, one environment of each symbol from its first bar on."""
        split = feature_split(self.config, self.panel)
        return build_market(
            self.config, split.known, 1, **split.features(split.known), starts="fixed", first_bar=split.start
        )

    def recorded_market(self, envs: int, episode_bars: int) -> FleetMarket:
        """The training set with random starts, as the episodes were recorded."""
        from pacesetter.learning.experience.market import FleetMarket

        market = build_recording_market(self.config, self.panel, envs, episode_bars)
        assert isinstance(market, FleetMarket)
        return market


def stored_rows(config: Plan, panel: Panel) -> StoredRows:
    """The dataset that an agent learns from; refuses none, one of another market, and a choice by market results."""
    name, path = config.agent.algorithm, config.agent.options.get("dataset")
    if not path:
        raise ConfigError(f"agent={name} learns from a dataset; give agent.dataset=FILE, see pacesetter data export")
    if config.train.best_by == "sharpe":
        raise ConfigError(f"agent={name} is validated on stored episodes, by a loss; set train.best_by=score")
    with needs("offline learning", "rl"):
        from pacesetter.learning.experience.dataset import read_manifest
        from pacesetter.methods.offline.rows import StoredRows
    # The manifest first: a dataset of another market is refused before its rows are loaded.
    check_dataset(path, read_manifest(path), config, panel)
    return StoredRows.read(
        path,
        tuple(config.agent.options.get("regimes", ())),
        held_out=config.agent.options.get("held_out", 0.2),
        gamma=config.agent.options.get("gamma", 0.9),
        seed=config.seed,
        device=config.train.device,
    )


class OfflineTask(FleetTask):
    """The fleet's task with a dataset in place of the training market."""

    learns = "an agent for each symbol, from stored episodes,"
    observe = "pacesetter.methods.offline.observers:observe"
    refusals: ClassVar[Mapping[str, str]] = NO_WINDOWS | {
        "folds": "{run} learned from a stored dataset, which has no folds; leave --folds out"
    }

    def parts(self, config: Plan, panel: Panel) -> Parts[StoredRows, JudgedMarkets]:
        return Parts(stored_rows(config, panel), JudgedMarkets(config, panel))

    def fold_parts(self, config: Plan, panel: Panel, fold: object) -> NoReturn:
        raise ConfigError("an offline agent learns from a stored dataset, which has no folds; leave --folds out")


# ---- windows ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class JudgedWindows:
    """The market that windows learned offline are judged in, after they were learned."""

    config: Plan
    panel: Panel

    def recorded_market(self, envs: int, episode_bars: int) -> WindowMarket:
        """The training set with random starts, as the episodes were recorded."""
        from pacesetter.learning.experience.window_market import WindowMarket

        market = build_recording_market(self.config, self.panel, envs, episode_bars)
        assert isinstance(market, WindowMarket)
        return market


class OfflineWindowsTask(LookbackTask):
    """The lookback task with a dataset in place of the training environments."""

    learns = "which lead–lag window to use, from stored episodes,"
    observe = "pacesetter.methods.offline.window_observers:observe"
    refusals: ClassVar[Mapping[str, str]] = {
        **LookbackTask.refusals,
        "folds": "{run} learned from a stored dataset, which has no folds; leave --folds out",
    }

    def parts(self, config: Plan, panel: Panel) -> Parts[StoredWindows, JudgedWindows]:
        rows = stored_rows(config, panel)
        # After the rows: where torch is missing, reading them has said so.
        from pacesetter.methods.offline.window_rows import StoredWindows

        return Parts(StoredWindows(rows), JudgedWindows(config, panel))

    def fold_parts(self, config: Plan, panel: Panel, fold: object) -> NoReturn:
        raise ConfigError("an offline agent learns from a stored dataset, which has no folds; leave --folds out")
