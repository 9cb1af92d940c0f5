"""Sets of gates by name: `conf/gates/NAME.yaml`, or a file of one's own. Unknown metrics and limits are refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import yaml

from pacesetter.errors import ConfigError, did_you_mean
from pacesetter.evaluation.programme.measured import METRICS
from pacesetter.registry import configure

__all__ = ["GateSet", "Limit", "gate_set_names", "read_gate_set"]


@dataclass(frozen=True)
class Limit:
    """One metric beside its limit.

    metric   key of METRICS, or `recovery.NAME` of a gate that training measured
    about    the metric in words; that of METRICS when left out
    """

    metric: str
    sense: Literal["<=", ">=", ">"]
    limit: float
    about: str = ""

    def __post_init__(self) -> None:
        known = METRICS.get(self.metric)
        if known is None and not self.metric.startswith("recovery."):
            hint = did_you_mean(self.metric, METRICS)
            raise ConfigError(f"gates name the metric '{self.metric}', which is unknown{hint}")
        if known is not None and not known.lowest <= self.limit <= known.highest:
            raise ConfigError(
                f"the gate '{self.metric} {self.sense} {self.limit:g}' can never say anything: the metric lies between "
                f"{known.lowest:g} and {known.highest:g}"
            )

    @property
    def name(self) -> str:
        """In words."""
        known = METRICS.get(self.metric)
        return self.about or (self.metric.removeprefix("recovery.") if known is None else known.about)


@dataclass(frozen=True)
class GateSet:
    """Limits that decide together.

    gates         all must hold for GO
    conditional   those that must hold for CONDITIONAL where the first do not; none: there is no such decision
    then          what a CONDITIONAL asks for
    synthetic     whether bars that were made up may earn a GO
    index         baseline that stands for the market
    """

    name: str
    about: str
    gates: tuple[Limit, ...]
    conditional: tuple[Limit, ...] = ()
    then: str = ""
    synthetic: bool = True
    index: str = "hold"

    def __post_init__(self) -> None:
        if not self.gates:
            raise ConfigError(f"the gates '{self.name}' are empty; name at least one metric with its limit")


def gate_set_names() -> list[str]:
    """The sets that come with the package."""
    return sorted(file.name.removesuffix(".yaml") for file in (files("pacesetter.conf") / "gates").iterdir())


def read_gate_set(name: str) -> GateSet:
    """A set by its name or by the path of a YAML file."""
    if name.endswith((".yaml", ".yml")):
        return parse_gate_set(Path(name).stem, _content(Path(name)))
    known = gate_set_names()
    if name not in known:
        raise ConfigError(f"gates={name} is unknown{did_you_mean(name, known)}; or give a YAML file of your own")
    text = (files("pacesetter.conf") / "gates" / f"{name}.yaml").read_text(encoding="utf-8")
    return parse_gate_set(name, yaml.safe_load(text))


def parse_gate_set(name: str, content: Any) -> GateSet:
    """A set from a mapping; refuses unknown keys, metrics and limits."""
    if not isinstance(content, Mapping):
        raise ConfigError(f"the gates '{name}' are not a mapping; write about: … and gates: […]")
    return configure(GateSet, {"name": name, **content}, "gates")


def _content(path: Path) -> Any:
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as problem:
        reason = str(problem).splitlines()[0]
        raise ConfigError(f"gates={path} cannot be read ({reason}); give a YAML file with gates: […]") from problem
