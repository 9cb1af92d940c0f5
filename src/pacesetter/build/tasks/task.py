"""What a task is: everything that training, evaluation, bundles and serving must know of a problem, in one place.

A task is a module in this folder with its `TASK`, or a plugin by the entry point `pacesetter.task`; nothing else asks
which one it is.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from pacesetter.errors import ConfigError
from pacesetter.learning.conditions import Conditions
from pacesetter.registry import Registry, is_installed

if TYPE_CHECKING:
    import pandas as pd

    from pacesetter.build.environments import Parts
    from pacesetter.build.plan import Plan
    from pacesetter.data.splits import Fold
    from pacesetter.envs.task_options import TaskOptions
    from pacesetter.envs.vector import Environments
    from pacesetter.features import FeatureTable
    from pacesetter.leadlag.lookback.policy import LookbackPolicy
    from pacesetter.learning.experience.conditioned import SymbolMarket
    from pacesetter.learning.experience.market import FleetMarket
    from pacesetter.learning.experience.window_market import WindowMarket
    from pacesetter.learning.learner import Learner
    from pacesetter.panel import Panel
    from pacesetter.policies.modules import Exported
    from pacesetter.policies.policy import Policy
    from pacesetter.policies.spec import PolicySpec

__all__ = ["NO_WINDOWS", "TASKS", "Stored", "Task", "best_checkpoint"]

NO_WINDOWS = {"lookback": "{run} is a run of task={task}, which chooses no window; use one of task=lookback"}


@dataclass(frozen=True)
class Stored:
    """A trained run as its task reads it.

    folder   of the run        checkpoint   folder of its best weights
    config   of the run        panel        the symbols that its policy is applied to
    table    features of the panel, where they are known already
    """

    folder: Path
    config: Plan
    panel: Panel
    table: FeatureTable | None = None

    @property
    def checkpoint(self) -> Path:
        return best_checkpoint(self.folder)


def best_checkpoint(run: Path) -> Path:
    """The folder of a run's best weights; that of its last ones where none were chosen."""
    best = run / "checkpoints" / "best"
    return best if best.is_dir() else best.with_name("last")


class Task(ABC):
    """One problem.

    name        as in `task=<name>`
    config      dataclass of its options
    learns      what, in a few words, as in "agent=ppo learns …"
    learned_as  task whose methods learn it, see METHODS; those of a built-in task are declared under its own name
    observe     "module:function" from a `Session` to the meter and the validator of a run
    page        "module:function" from a run's folder and its panel to what a report says of its training; "": nothing
    summary     the same to one sentence, where the pipeline trains it; "": the one of a fleet's agents
    judged_as   key of `jobs.evaluate.RUNS`: an account that trades, or windows that are chosen
    refusals    what cannot be done with it (evaluate, baseline, folds, bundle, cluster, job, lookback) -> the
                sentence that says so; `{run}` becomes the run's folder
    inherited   pattern of the overrides that it takes from another run, and that are refused beside it; "" is none
    conditions  what its policies are asked for beside the market, e.g. a goal; None: nothing. A task that agents with
                conditions support passes its environments and policies through `with_entries` and `ask_policy`
    history_bars   that its policy reads whatever its network remembers; windows are at least as long
    allocates   its policy divides one account among all symbols itself
    is_rewarded   bar by bar, by `task.reward`; false where a method has an objective of its own
    reads_table   its agents see the features of a table, lead–lag ones among them where they are decided by the data
    reads_context   its policies see more of a table than windows, e.g. lead–lag features. Where they do not, neither
                training nor stressed markets nor a server spend time and memory on these

    A method may make another of it: see `learning.methods.Adapt`.
    """

    name: str
    config: type[TaskOptions]
    learned_as: str
    learns: str
    observe: str = "pacesetter.jobs.run.callbacks:observe"
    page: str = ""
    summary: str = ""
    judged_as: str = "account"
    refusals: ClassVar[Mapping[str, str]] = NO_WINDOWS
    inherited: ClassVar[str] = ""
    conditions: Conditions | None = None
    history_bars: int = 0
    allocates: ClassVar[bool] = False
    is_rewarded: ClassVar[bool] = True
    reads_table: bool = False
    reads_context: bool = True

    def check(self, ability: str, run: object = "") -> None:
        """Refuse what the task declares that it cannot do."""
        if ability in self.refusals:
            raise ConfigError(self.refusals[ability].format(run=run, task=self.name))

    # ---- what is asked for ----------------------------------------------------------------------------------------

    def with_conditions(self, conditions: Conditions) -> Task:
        """The same task for an agent that is asked for something."""
        # A copy: the registered task is shared by every configuration of the process.
        task = copy.copy(self)
        task.conditions = conditions
        task.observe, task.page = conditions.observe or self.observe, conditions.page or self.page
        return task

    def with_entries(self, *markets: FleetMarket) -> Sequence[SymbolMarket]:
        """Markets of a fleet that also show what is asked for."""
        return markets if self.conditions is None else self.conditions.markets(markets)

    def ask_policy(self, policy: Policy, config: Plan, run: Path | None = None) -> Policy:
        """A policy that is asked for what the agent of the `run` is by default."""
        if self.conditions is None:
            return policy
        from pacesetter.policies.conditions import ConditionedPolicy

        return ConditionedPolicy(policy, self.conditions.default_request(run), config.trading.episode_bars)

    def entry_names(self, names: Mapping[str, Sequence[str]]) -> dict[str, Sequence[str]]:
        """Names of an observation's numbers, by entry, with those of what is asked for."""
        return dict(names) if self.conditions is None else {**names, **self.conditions.names()}

    def with_defaults(self, spec: PolicySpec, run: Path) -> PolicySpec:
        """The spec of an exported policy with what it is asked for where a request does not say it."""
        if self.conditions is None:
            return spec
        return replace(spec, conditions=self.conditions.default_request(run), limits=self.conditions.limits())

    # ---- what a task does -----------------------------------------------------------------------------------------

    def complete(self, config: Plan) -> Plan:
        """The configuration with what the task takes from another run."""
        return config

    def as_stored(self, config: Plan, run: Path) -> Plan:
        """The configuration of a stored run with what training has decided of the task."""
        return config

    def check_bars(self, config: Plan, panel: Panel, bars: int) -> None:
        """Refuse a panel whose first `bars` are too few to learn from, before anything is trained."""
        return None

    @abstractmethod
    def parts(self, config: Plan, panel: Panel) -> Parts[object, object]:
        """The environments that an agent learns and is validated in; bars of the test set are in neither."""

    def environment(self, config: Plan, panel: Panel | list[Panel], envs: int = 1, **options: object) -> Environments:
        """A vector environment on all of the panel; refused by a task that learns in a market of its own."""
        raise ConfigError(f"task={self.name} has no vector environment; its markets are those of build_parts")

    def fold_parts(self, config: Plan, panel: Panel, fold: Fold) -> Parts[object, object]:
        """The environments to train in on the training bars of a fold alone; `folds` is refused without them."""
        raise NotImplementedError

    @abstractmethod
    def policy(self, stored: Stored) -> Policy | LookbackPolicy:
        """The best policy of a run, which evaluate, explain and inspect ask: a `Policy`, or one of windows."""

    def learned_policy(self, learner: Learner, config: Plan, until: pd.Timestamp) -> Policy | LookbackPolicy:
        """The policy of a learner as it is now, fitted on bars up to `until`; `folds` is refused without it."""
        raise NotImplementedError

    @abstractmethod
    def export(self, stored: Stored, count: int) -> Exported:
        """What a bundle holds of a run, with `count` observations of its own market to compare the graph on."""

    def recording_market(
        self, config: Plan, panel: Panel, envs: int, episode_bars: int | None
    ) -> FleetMarket | WindowMarket:
        """The training set with random starts, in which episodes of one length are recorded; refused by default."""
        raise self._not_recorded()

    def recorded_facts(self, config: Plan, panel: Panel, market: object) -> dict[str, object]:
        """What a dataset of that market says of it; refused by default."""
        raise self._not_recorded()

    def _not_recorded(self) -> ConfigError:
        return ConfigError(
            f"task={self.name} cannot be recorded: trajectories are those of task=lookback and of task=fleet, also of "
            "one symbol by task.symbols=[NAME]"
        )

    def check_symbols(self, run: object, own: Sequence[str], label: str, there: Sequence[str]) -> None:
        """Refuse a market, by its label, with symbols that the policy of a run cannot trade."""
        return None


_HOMES = {
    **{name: f"pacesetter.build.tasks.{name}" for name in ("trading", "fleet", "portfolio", "lookback", "two_level")},
    "master": "pacesetter.methods.master.task",
}
# One is imported when it is asked for, with the environments that it plays in.
TASKS: Registry[Task] = Registry(
    "task", entries={name: f"{home}:TASK" for name, home in _HOMES.items() if is_installed(home)}
)
