"""`task=two_level`: windows as in `task=lookback`, under a controller that sets rewards, resolution or range."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from pacesetter.build.tasks.lookback import LookbackTask
from pacesetter.envs.lookback.two_level import TwoLevelConfig

__all__ = ["TwoLevelTask"]


class TwoLevelTask(LookbackTask):
    """The lower agent of two levels; agents of one level learn it."""

    name = "two_level"
    learns = "which lead–lag window to use under a controller, bar by bar,"
    learned_as = "lookback"
    config = TwoLevelConfig
    refusals: ClassVar[Mapping[str, str]] = {
        **LookbackTask.refusals,
        "bundle": "{run} chooses windows under a controller, which a bundle does not hold; bundle one of task=lookback",
    }


TASK = TwoLevelTask()
