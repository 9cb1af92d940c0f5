"""`train.log_episodes=true`: every episode of a fleet's training under `episodes/` of its run."""

from __future__ import annotations

from typing import Any

from pacesetter.build import build_panel
from pacesetter.errors import ConfigError
from pacesetter.jobs.run.callbacks import Callback, Session
from pacesetter.learning.experience.replay_log import ReplayLog
from pacesetter.learning.fleet.trainer import Trainer
from pacesetter.methods.offline.manifest import dataset_manifest

__all__ = ["EpisodeLog"]

FOLDER = "episodes"


class EpisodeLog(Callback[Any]):
    """Hands the learner a replay log and writes it when it is long enough, and at the end."""

    def __init__(self, session: Session[Any]) -> None:
        super().__init__(session)
        if not isinstance(session.learner, Trainer) or session.config.task.problem != "fleet":
            raise ConfigError("train.log_episodes keeps the episodes of task=fleet agent=ppo or sac; leave it out")
        self.learner, self.config = session.learner, session.config

    def between_rounds(self) -> None:
        log = self._log()
        if self.session.stop:
            # A stop ends the run before `end`: what was played until now is written all the same.
            self.end()
        elif log.is_long:
            log.flush(self.learner.step, policy=self.learner.weights_hash())

    def end(self) -> None:
        """Write everything, also the episodes that go on, and say what is not as in the market."""
        log = self._log()
        log.flush(self.learner.step, is_last=True, policy=self.learner.weights_hash())
        self.state["left_out"] = self.state.get("left_out", 0) + log.left_out
        sentences = []
        if log.cut:
            sentences.append(f"{log.cut:,} episodes were cut off at the end, and are stored as truncated")
        if self.state["left_out"]:
            sentences.append(f"{self.state['left_out']:,} rows that follow an earlier stop are not stored")
        if sentences:
            self.session.console.print(f"{'; '.join(sentences)} → {log.folder}", soft_wrap=True, highlight=False)
        log.cut = log.left_out = 0

    def _log(self) -> ReplayLog:
        """The learner's log, made where it has none."""
        if self.learner.replay_log is None:
            self.learner.replay_log = self._make_log()
        log: ReplayLog = self.learner.replay_log
        return log

    def _make_log(self) -> ReplayLog:
        """A log of its own market; files behind the step of a resumed run are written again."""
        folder, step = self.session.run.folder / FOLDER, self.learner.step
        for path in folder.glob("*.h5"):
            # A killed run may have written further than its last checkpoint: those episodes are played again.
            if int(path.stem) > step:
                path.unlink()
        config, market = self.config, self.learner.market
        panel, name = build_panel(config), self.session.run.folder.name
        manifest = dataset_manifest(config, panel, market, name, "", ["training"], config.seed)
        return ReplayLog(folder, manifest, market, is_inside=step > 0)
