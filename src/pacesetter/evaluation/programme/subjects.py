"""What a set of gates is about: a run without its subject is not held against it."""

from __future__ import annotations

from collections.abc import Callable

from pacesetter.build import Plan
from pacesetter.build.trading import Trading

__all__ = ["SUBJECTS", "has_subject"]


def _extra(name: str) -> Callable[[Plan], bool]:
    return lambda config: (config.agent.options.get("extras") or {}).get(name) is not None


def _algorithm(*names: str) -> Callable[[Plan], bool]:
    return lambda config: config.agent.algorithm in names


SUBJECTS: dict[str, Callable[[Plan], bool]] = {
    "curiosity": _extra("curiosity"),
    "options": _algorithm("options"),
    "hindsight": lambda config: config.agent.options.get("hindsight") is not None,
    "shaping": _extra("potential"),
    "objectives": _algorithm("mosac"),
    "asynchronous": _algorithm("impala"),
    "evolution": _algorithm("es", "hybrid"),
    "auxiliary": _extra("auxiliary"),
    "bfloat16": lambda config: config.agent.options.get("precision") == "bfloat16",
    "curriculum": lambda config: isinstance(config.task, Trading) and config.task.curriculum != "none",
}


def has_subject(config: Plan, name: str) -> bool:
    """Whether a run was trained with it."""
    return SUBJECTS[name](config)
