"""`task=lookback`: an agent that chooses the lead–lag window; it trades nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from pacesetter.build.configuration import Config, build_task
from pacesetter.build.environments import Parts, split_panel
from pacesetter.build.tasks.task import TASKS, Stored, Task
from pacesetter.envs.lookback.batch import LookbackConfig
from pacesetter.envs.lookback.curriculum import Curriculum
from pacesetter.panel import Panel

if TYPE_CHECKING:
    from pacesetter.policies.modules import Exported
    from pacesetter.policies.policy import Policy

__all__ = ["LookbackTask"]


class LookbackTask(Task):
    """Windows instead of orders: what asks for a trading policy is refused."""

    name = "lookback"
    learned_as = "lookback"
    config = LookbackConfig
    refusals: ClassVar[Mapping[str, str]] = {
        "evaluate": "{run} chooses windows and does not trade; `pacesetter run` prints its table of policies",
        "baseline": "the baselines of task=lookback do not trade; `pacesetter run` prints their table",
        "folds": "a run of task=lookback does not trade, so folds cannot test it; give a trading run",
        "bundle": "{run} is a lookback agent; bundle the agent, fleet or master that trades on them",
        "cluster": (
            "a cluster trains groups of symbols, and task=lookback uses all of them together; its seeds and folds "
            "are for `pacesetter sweep`"
        ),
        "job": "the main job trains traders; task=lookback is for `pacesetter train`",
    }

    def environment(self, config: Config, panel: Panel, envs: int = 1) -> Any:
        """A vector environment on all of the panel."""
        from pacesetter.envs.lookback.vector import LookbackVectorEnv

        return LookbackVectorEnv(panel, envs, build_task(config))

    def parts(self, config: Config, panel: Panel) -> Parts:
        from pacesetter.envs.lookback.vector import LookbackVectorEnv

        task, split = build_task(config), split_panel(config, panel)
        # Validation is one long episode on the real bars, without curriculum and synthetic markets: scores of different
        # steps then compare.
        steady = replace(
            task.episodes,
            bars=None,
            starts="fixed",
            warmup_bars=split.start,
            resolutions=task.episodes.resolutions[:1],
            resolution_from=(),
            synthetic_share=0.0,
            curriculum=Curriculum(),
        )
        validation = LookbackVectorEnv(split.seen, 1, replace(task, episodes=steady))
        return Parts(self.environment(config, split.learned, config.train.envs), validation)

    def policy(self, stored: Stored) -> Policy:
        self._refuse("evaluate", stored)

    def export(self, stored: Stored, count: int) -> Exported:
        self._refuse("bundle", stored)

    def _refuse(self, ability: str, stored: Stored) -> NoReturn:
        # Raises, because the task declares this refusal.
        self.check(ability, stored.folder)
        raise AssertionError(ability)


TASKS.add("lookback", LookbackTask())
