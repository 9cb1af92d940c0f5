"""`task=two_level`: windows as in `task=lookback`, under a controller that sets rewards, resolution or range."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from pacesetter.build.environments import Parts
from pacesetter.build.plan import Plan
from pacesetter.build.tasks.lookback import LookbackTask
from pacesetter.envs.lookback.two_level import TwoLevelBatch, TwoLevelConfig
from pacesetter.panel import Panel
from pacesetter.runs import CONTROLLER

if TYPE_CHECKING:
    import pandas as pd

    from pacesetter.envs.vector import Environments
    from pacesetter.leadlag.lookback.policy import LookbackPolicy
    from pacesetter.learning.learner import Learner

__all__ = ["TwoLevelTask", "learning_batch"]


class TwoLevelTask(LookbackTask):
    """The lower agent of two levels; agents of one level learn it."""

    name = "two_level"
    learns = "which lead–lag window to use under a controller, bar by bar,"
    learned_as = "lookback"
    config = TwoLevelConfig
    observe = "pacesetter.jobs.run.two_level:observe"
    refusals: ClassVar[Mapping[str, str]] = {
        **LookbackTask.refusals,
        "bundle": "{run} chooses windows under a controller, which a bundle does not hold; bundle one of task=lookback",
    }

    def parts(self, config: Plan, panel: Panel) -> Parts[Environments, object]:
        """As of one level; validation plays what the controller of training has learned, and does not explore."""
        parts = super().parts(config, panel)
        train, validation = learning_batch(parts.train), learning_batch(parts.validation)
        validation.learner, validation.explores = train.learner, False
        return parts

    def as_stored(self, config: Plan, run: Path) -> Plan:
        """With the settings that the controller of a run has learned, where it did."""
        task = config.lookback
        assert isinstance(task, TwoLevelConfig)
        if task.controller.rule != "learned" or not (run / CONTROLLER).is_file():
            return config
        best = json.loads((run / CONTROLLER).read_text(encoding="utf-8"))["best"]
        return replace(config, task=replace(task, controller=task.controller.as_learned(best)))

    def learned_policy(self, learner: Learner, config: Plan, until: pd.Timestamp) -> LookbackPolicy:
        task = config.lookback
        assert isinstance(task, TwoLevelConfig)
        if task.controller.rule == "learned":
            from pacesetter.learning.sb3.learner import SB3Learner

            assert isinstance(learner, SB3Learner)
            best = learning_batch(learner.algorithm.env).learner.best()
            config = replace(config, task=replace(task, controller=task.controller.as_learned(best.tolist())))
        return super().learned_policy(learner, config, until)


def learning_batch(environments: object) -> TwoLevelBatch:
    """The batch of two levels behind vector environments."""
    batch = getattr(getattr(environments, "unwrapped", environments), "batch", None)
    assert isinstance(batch, TwoLevelBatch)
    return batch


TASK = TwoLevelTask()
