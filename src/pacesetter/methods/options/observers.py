"""What a run does while options are learned: as a fleet's, with the gates of options on the validation set."""

from __future__ import annotations

from pathlib import Path

from pacesetter.evaluation.recovery.page import store_gates
from pacesetter.evaluation.recovery.trace import play_trace
from pacesetter.jobs.run.callbacks import Session
from pacesetter.jobs.run.fleet import FleetMeter, FleetValidator
from pacesetter.jobs.run.recovery import fleet_act
from pacesetter.learning.fleet.storage import load_fleet, save_fleet
from pacesetter.learning.fleet.trainer import FleetTrainer
from pacesetter.learning.randomness import keep_randomness
from pacesetter.methods.options.agents import ANY
from pacesetter.methods.options.gates import option_gates

__all__ = ["OptionMeter", "OptionValidator", "observe"]


class OptionMeter(FleetMeter):
    """The statistics of a fleet; the progress line says how long options last."""

    def figures(self) -> list[str]:
        if not self.shown:
            return []
        return [*super().figures(), f"options of {self.shown['options/average_duration']:.1f} bars"]


class OptionValidator(FleetValidator):
    """Validates each symbol; at the end the gates of options are measured with the best agents, whatever was asked."""

    def __init__(self, session: Session[FleetTrainer]) -> None:
        super().__init__(session)
        self.is_one = self.learner.fleet.symbols == (ANY,)

    def finish(self) -> None:
        """As a fleet's; one agent of all symbols is stored as it was best, and none learns again."""
        best = Path(self.session.run.path("checkpoints/best"))
        if not self.is_one:
            super().finish()
        elif not self.state["scores"]:
            save_fleet(self.learner.fleet, best)
        if self.state["scores"]:
            self.learner.fleet.load_state_dict(load_fleet(best).state_dict())
        self._measure()

    def _measure(self) -> None:
        """Leave the gates of options in `gates.json` where they were not asked for by `train.gates`."""
        with keep_randomness():
            trace = play_trace(self.market.batch, fleet_act(self.learner.fleet, self.market))
        gates = option_gates(trace)
        self.gates["options"] = gates
        if self.recovery is None:
            store_gates(self.session.run, {"deterministic": gates}, {"deterministic": trace})


def observe(session: Session[FleetTrainer]) -> tuple[OptionMeter, OptionValidator]:
    """What meters and validates agents with options."""
    return OptionMeter(session), OptionValidator(session)
