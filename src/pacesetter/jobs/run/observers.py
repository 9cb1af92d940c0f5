"""What meters and validates a run while it learns, by the kind that its task names.

A plugin adds a kind by the entry point `pacesetter.observers`: a function of the session.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pacesetter.registry import Registry

if TYPE_CHECKING:
    from pacesetter.jobs.run.callbacks import Session, Validator

__all__ = ["OBSERVERS", "Observers"]

Observers = Callable[["Session[Any]"], tuple[Any, "Validator[Any]"]]  # the meter and the validator of a session
OBSERVERS: Registry[Observers] = Registry("observers")


@OBSERVERS.register("single")
def observe_single(session: Session[Any]) -> tuple[Any, Validator[Any]]:
    """One agent in vector environments."""
    from pacesetter.jobs.run.callbacks import Meter, Validator

    return Meter(session), Validator(session)


@OBSERVERS.register("fleet")
def fleet(session: Session[Any]) -> tuple[Any, Validator[Any]]:
    """Agents of many symbols."""
    from pacesetter.jobs.run.fleet import FleetMeter, FleetValidator

    return FleetMeter(session), FleetValidator(session)


@OBSERVERS.register("options")
def options(session: Session[Any]) -> tuple[Any, Validator[Any]]:
    """A fleet with options, or one agent with options of every symbol."""
    from pacesetter.methods.options.observers import OptionMeter, OptionValidator

    return OptionMeter(session), OptionValidator(session)


@OBSERVERS.register("objectives")
def objectives(session: Session[Any]) -> tuple[Any, Validator[Any]]:
    """A fleet with many objectives."""
    from pacesetter.jobs.run.fleet import FleetMeter
    from pacesetter.methods.objectives.validator import ObjectivesValidator

    return FleetMeter(session), ObjectivesValidator(session)


@OBSERVERS.register("offline")
def offline(session: Session[Any]) -> tuple[Any, Validator[Any]]:
    """A fleet that learns from stored episodes."""
    from pacesetter.methods.offline.observers import OfflineMeter, OfflineValidator

    return OfflineMeter(session), OfflineValidator(session)


@OBSERVERS.register("offline_windows")
def offline_windows(session: Session[Any]) -> tuple[Any, Validator[Any]]:
    """An agent that learns windows from stored episodes."""
    from pacesetter.jobs.run.callbacks import Meter
    from pacesetter.methods.offline.window_observers import OfflineWindowsValidator

    return Meter(session), OfflineWindowsValidator(session)


@OBSERVERS.register("direct")
def direct(session: Session[Any]) -> tuple[Any, Validator[Any]]:
    """One account of all symbols."""
    from pacesetter.methods.direct.observers import DirectMeter, DirectValidator

    return DirectMeter(session), DirectValidator(session)


@OBSERVERS.register("master")
def master(session: Session[Any]) -> tuple[Any, Validator[Any]]:
    """A master over the agents of a fleet."""
    from pacesetter.methods.master.observers import MasterMeter, MasterValidator

    return MasterMeter(session), MasterValidator(session)
