"""What a run of two levels leaves of a controller that learns: the settings it came to, as of the best agent."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pacesetter.build.tasks.two_level import learning_batch
from pacesetter.features.regime import REGIMES
from pacesetter.jobs.run.callbacks import Meter, Session, Validator
from pacesetter.learning.learner import Learner
from pacesetter.runs import CONTROLLER

__all__ = ["TwoLevelValidator", "observe"]


class TwoLevelValidator(Validator[Learner]):
    """Validation by what the controller has learned, which is stored with the best agent."""

    def keep(self, folder: Path, facts: Mapping[str, object]) -> None:
        super().keep(folder, facts)
        self._store()

    def finish(self) -> None:
        super().finish()
        if not self.session.run.path(CONTROLLER).is_file():  # nothing was validated: the agent is the last one
            self._store()

    def _store(self) -> None:
        batch = learning_batch(self.session.parts.train)
        if batch.controller.rule == "learned":
            learner = batch.learner
            facts = {"regimes": list(REGIMES), "best": learner.best().tolist(), "gains": learner.means().tolist()}
            self.session.run.write_json(CONTROLLER, facts | {"bars": learner.counts[0].tolist()})


def observe(session: Session[Learner]) -> tuple[Meter, TwoLevelValidator]:
    """What meters and validates an agent under a controller."""
    return Meter(session), TwoLevelValidator(session)
