"""What a task is: everything that training, evaluation, bundles and serving must know of a problem, in one place.

A task is a file in this folder, or a plugin by the entry point `pacesetter.task`; nothing else asks which one it is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pacesetter.errors import ConfigError
from pacesetter.registry import Registry

if TYPE_CHECKING:
    import pandas as pd

    from pacesetter.build.configuration import Config
    from pacesetter.build.environments import Parts
    from pacesetter.data.splits import Fold
    from pacesetter.features import FeatureTable
    from pacesetter.panel import Panel
    from pacesetter.policies.modules import Exported

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
    config: Config
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
    learned_as  task whose methods learn it, see METHODS; those of a built-in task are declared under its own name
    observers   key of `training.run.observers.OBSERVERS`: what meters and validates a run of it
    judged_as   key of `evaluation.opened.RUNS`: an account that trades, or windows that are chosen
    refusals    what cannot be done with it (evaluate, baseline, folds, bundle, cluster, job, lookback) -> the
                sentence that says so; `{run}` becomes the run's folder
    inherited   pattern of the overrides that it takes from another run, and that are refused beside it; "" is none
    """

    name: ClassVar[str]
    config: ClassVar[type[Any]]
    learned_as: ClassVar[str]
    observers: ClassVar[str] = "single"
    judged_as: ClassVar[str] = "account"
    refusals: ClassVar[Mapping[str, str]] = NO_WINDOWS
    inherited: ClassVar[str] = ""

    def check(self, ability: str, run: object = "") -> None:
        """Refuse what the task declares that it cannot do."""
        if ability in self.refusals:
            raise ConfigError(self.refusals[ability].format(run=run, task=self.name))

    def completed(self, config: Config) -> Config:
        """The configuration with what the task takes from another run."""
        return config

    @abstractmethod
    def parts(self, config: Config, panel: Panel) -> Parts:
        """The environments that an agent learns and is validated in; bars of the test set are in neither."""

    def fold_parts(self, config: Config, panel: Panel, fold: Fold) -> Parts:
        """The environments to train in on the training bars of a fold alone; `folds` is refused without them."""
        raise NotImplementedError

    @abstractmethod
    def policy(self, stored: Stored) -> Any:
        """The best policy of a run, which evaluate, explain and inspect ask: a `Policy`, or one of windows."""

    def learned_policy(self, learner: Any, config: Config, until: pd.Timestamp) -> Any:
        """The policy of a learner as it is now, fitted on bars up to `until`; `folds` is refused without it."""
        raise NotImplementedError

    @abstractmethod
    def export(self, stored: Stored, count: int) -> Exported:
        """What a bundle holds of a run, with `count` observations of its own market to compare the graph on."""

    def check_symbols(self, run: object, own: Sequence[str], label: str, there: Sequence[str]) -> None:
        """Refuse a market, by its label, with symbols that the policy of a run cannot trade."""
        return None


TASKS: Registry[Task] = Registry("task", members="pacesetter.build.tasks")
