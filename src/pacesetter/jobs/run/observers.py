"""What meters and validates a run while it learns, by the kind that its task names.

A plugin adds a kind by the entry point `pacesetter.observers`: a function of the session.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from pacesetter.registry import Registry

if TYPE_CHECKING:
    from pacesetter.jobs.run.callbacks import LiveFigures, Session, Validator
    from pacesetter.learning.learner import Learner

__all__ = ["OBSERVERS", "Observers"]

# the meter and the validator of a session
Observers: TypeAlias = Callable[["Session[Learner]"], tuple["LiveFigures[Learner]", "Validator[Learner]"]]
OBSERVERS: Registry[Observers] = Registry("observers")


@OBSERVERS.register("single")
def observe_single(session: Session[Learner]) -> tuple[LiveFigures[Learner], Validator[Learner]]:
    """One agent in vector environments."""
    from pacesetter.jobs.run.callbacks import Meter, Validator

    return Meter(session), Validator(session)


@OBSERVERS.register("fleet")
def fleet(session: Session[Learner]) -> tuple[LiveFigures[Learner], Validator[Learner]]:
    """Agents of many symbols."""
    from pacesetter.jobs.run.callbacks import learns_by
    from pacesetter.jobs.run.fleet import FleetMeter, FleetValidator
    from pacesetter.learning.fleet.trainer import FleetTrainer

    assert learns_by(session, FleetTrainer)
    return FleetMeter(session), FleetValidator(session)


@OBSERVERS.register("options")
def options(session: Session[Learner]) -> tuple[LiveFigures[Learner], Validator[Learner]]:
    """A fleet with options, or one agent with options of every symbol."""
    from pacesetter.jobs.run.callbacks import learns_by
    from pacesetter.learning.fleet.trainer import FleetTrainer
    from pacesetter.methods.options.observers import OptionMeter, OptionValidator

    assert learns_by(session, FleetTrainer)
    return OptionMeter(session), OptionValidator(session)


@OBSERVERS.register("objectives")
def objectives(session: Session[Learner]) -> tuple[LiveFigures[Learner], Validator[Learner]]:
    """A fleet with many objectives."""
    from pacesetter.jobs.run.callbacks import learns_by
    from pacesetter.jobs.run.fleet import FleetMeter
    from pacesetter.learning.fleet.trainer import FleetTrainer
    from pacesetter.methods.objectives.validator import ObjectivesValidator

    assert learns_by(session, FleetTrainer)
    return FleetMeter(session), ObjectivesValidator(session)


@OBSERVERS.register("offline")
def offline(session: Session[Learner]) -> tuple[LiveFigures[Learner], Validator[Learner]]:
    """A fleet that learns from stored episodes."""
    from pacesetter.jobs.run.callbacks import learns_by
    from pacesetter.learning.fleet.trainer import FleetTrainer
    from pacesetter.methods.offline.observers import OfflineMeter, OfflineValidator

    assert learns_by(session, FleetTrainer)
    return OfflineMeter(session), OfflineValidator(session)


@OBSERVERS.register("offline_windows")
def offline_windows(session: Session[Learner]) -> tuple[LiveFigures[Learner], Validator[Learner]]:
    """An agent that learns windows from stored episodes."""
    from pacesetter.jobs.run.callbacks import Meter, learns_by
    from pacesetter.learning.sb3.learner import SB3Learner
    from pacesetter.methods.offline.window_observers import OfflineWindowsValidator

    assert learns_by(session, SB3Learner)
    return Meter(session), OfflineWindowsValidator(session)


@OBSERVERS.register("direct")
def direct(session: Session[Learner]) -> tuple[LiveFigures[Learner], Validator[Learner]]:
    """One account of all symbols."""
    from pacesetter.jobs.run.callbacks import learns_by
    from pacesetter.methods.direct.learner import DirectLearner
    from pacesetter.methods.direct.observers import DirectMeter, DirectValidator

    assert learns_by(session, DirectLearner)
    return DirectMeter(session), DirectValidator(session)


@OBSERVERS.register("master")
def master(session: Session[Learner]) -> tuple[LiveFigures[Learner], Validator[Learner]]:
    """A master over the agents of a fleet."""
    from pacesetter.jobs.run.callbacks import learns_by
    from pacesetter.methods.master.learner import MasterTrainer
    from pacesetter.methods.master.observers import MasterMeter, MasterValidator

    assert learns_by(session, MasterTrainer)
    return MasterMeter(session), MasterValidator(session)
