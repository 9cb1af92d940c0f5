"""`train.log_episodes=true`: every episode of a fleet's training under `episodes/` of its run."""

from __future__ import annotations

from typing import Any

from pacesetter.build import build_panel
from pacesetter.build.dataset import dataset_manifest
from pacesetter.errors import ConfigError
from pacesetter.learning.experience.replay_log import ReplayLog
from pacesetter.training.run.callbacks import Callback, Session

__all__ = ["EpisodeLog"]

FLUSH_ROWS = 200_000
FOLDER = "episodes"


class EpisodeLog(Callback[Any]):
    """Hands the learner a replay log and writes it when it is long enough, and at the end."""

    def __init__(self, session: Session[Any]) -> None:
        super().__init__(session)
        if not hasattr(session.learner, "replay_log") or session.config.task.get("problem") != "fleet":
            raise ConfigError("train.log_episodes keeps the episodes of task=fleet agent=ppo or sac; leave it out")
        self.learner, self.config = session.learner, session.config

    def between(self) -> None:
        if self.learner.replay_log is None:
            self.learner.replay_log = self._made()
        if len(self.learner.replay_log) >= FLUSH_ROWS:
            self.end()

    def end(self) -> None:
        if self.learner.replay_log is not None:
            self.learner.replay_log.flush(self.learner.step, policy=self.learner.weights_hash())

    def _made(self) -> ReplayLog:
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
