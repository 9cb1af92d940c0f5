"""What meters and validates a run while it learns, by the kind that its task names.

A plugin adds a kind by the entry point `pacesetter.observers`: a function of the session.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pacesetter.registry import Registry

if TYPE_CHECKING:
    from pacesetter.training.run.callbacks import Session, Validator

__all__ = ["OBSERVERS", "Observers"]

Observers = Callable[["Session[Any]"], tuple[Any, "Validator[Any]"]]  # the meter and the validator of a session
OBSERVERS: Registry[Observers] = Registry("observers")


@OBSERVERS.register("single")
def single(session: Session[Any]) -> tuple[Any, Validator[Any]]:
    """One agent in vector environments."""
    from pacesetter.training.run.callbacks import Meter, Validator

    return Meter(session), Validator(session)


@OBSERVERS.register("fleet")
def fleet(session: Session[Any]) -> tuple[Any, Validator[Any]]:
    """Agents of many symbols."""
    from pacesetter.training.run.fleet import FleetMeter, FleetValidator

    return FleetMeter(session), FleetValidator(session)


@OBSERVERS.register("options")
def options(session: Session[Any]) -> tuple[Any, Validator[Any]]:
    """A fleet with options, or one agent with options of every symbol."""
    from pacesetter.training.options.observers import OptionMeter, OptionValidator

    return OptionMeter(session), OptionValidator(session)


@OBSERVERS.register("objectives")
def objectives(session: Session[Any]) -> tuple[Any, Validator[Any]]:
    """A fleet with many objectives."""
    from pacesetter.training.objectives.validator import ObjectivesValidator
    from pacesetter.training.run.fleet import FleetMeter

    return FleetMeter(session), ObjectivesValidator(session)


@OBSERVERS.register("offline")
def offline(session: Session[Any]) -> tuple[Any, Validator[Any]]:
    """A fleet that learns from stored episodes."""
    from pacesetter.training.offline.observers import OfflineMeter, OfflineValidator

    return OfflineMeter(session), OfflineValidator(session)


@OBSERVERS.register("offline_windows")
def offline_windows(session: Session[Any]) -> tuple[Any, Validator[Any]]:
    """An agent that learns windows from stored episodes."""
    from pacesetter.training.offline.window_observers import OfflineWindowsValidator
    from pacesetter.training.run.callbacks import Meter

    return Meter(session), OfflineWindowsValidator(session)


@OBSERVERS.register("direct")
def direct(session: Session[Any]) -> tuple[Any, Validator[Any]]:
    """One account of all symbols."""
    from pacesetter.training.run.direct import DirectMeter, DirectValidator

    return DirectMeter(session), DirectValidator(session)


@OBSERVERS.register("master")
def master(session: Session[Any]) -> tuple[Any, Validator[Any]]:
    """A master over the agents of a fleet."""
    from pacesetter.training.run.master import MasterMeter, MasterValidator

    return MasterMeter(session), MasterValidator(session)
