"""Sets of gates by name: `conf/gates/NAME.yaml`, or a file of one's own. Unknown metrics and limits are refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path

import yaml

from pacesetter.errors import ConfigError, did_you_mean
from pacesetter.evaluation.programme.measured import find_metric, metric_names
from pacesetter.evaluation.programme.subjects import SUBJECTS
from pacesetter.evaluation.statistics.gates import Limit
from pacesetter.registry import configure

__all__ = ["GateSet", "gate_set_names", "parse_gate_set", "read_gate_set"]


@dataclass(frozen=True)
class GateSet:
    """Limits that decide together.

    gates         all must hold for GO
    conditional   those that must hold for CONDITIONAL where the first do not; none: there is no such decision
    then          what a CONDITIONAL asks for
    stretch       shown beside the others, without a say
    subjects      a run is held against the set only where it was trained with one of these; none: any run is
    synthetic     whether bars that were made up may earn a GO
    index         baseline that stands for the market where `evaluation.index` names no symbol
    """

    name: str
    about: str
    gates: tuple[Limit, ...]
    conditional: tuple[Limit, ...] = ()
    then: str = ""
    stretch: tuple[Limit, ...] = ()
    subjects: tuple[str, ...] = ()
    synthetic: bool = True
    index: str = "hold"

    def __post_init__(self) -> None:
        if not self.gates:
            raise ConfigError(f"the gates '{self.name}' are empty; name at least one metric with its limit")
        for limit in (*self.gates, *self.conditional, *self.stretch):
            _check(limit)
        for subject in (*self.subjects, *(limit.subject for limit in self.gates if limit.subject)):
            if subject not in SUBJECTS:
                raise ConfigError(
                    f"gates name the subject '{subject}', which is unknown{did_you_mean(subject, SUBJECTS)}"
                )
        _check_together(self.gates)
        _check_together(self.conditional)
        _check_baseline(self.index)


def _check(limit: Limit) -> None:
    """Refuse an unknown metric, and a limit that every value passes or none can."""
    known = find_metric(limit.metric)
    if known is None:
        hint = did_you_mean(limit.metric, metric_names())
        raise ConfigError(f"gates name the metric '{limit.metric}', which is unknown{hint}")
    low, high = known.lowest, known.highest
    if not low <= limit.limit <= high:
        raise ConfigError(
            f"the gate '{limit.metric} {limit.sense} {limit.limit:g}' can never say anything: the metric lies between "
            f"{low:g} and {high:g}"
        )
    is_never = (limit.sense, limit.limit) in ((">", high), ("<", low))
    if is_never or (limit.sense, limit.limit) in ((">=", low), ("<=", high)):
        raise ConfigError(
            f"the gate '{limit.metric} {limit.sense} {limit.limit:g}' can never {'be passed' if is_never else 'fail'}: "
            f"the metric lies between {low:g} and {high:g}"
        )


def _check_together(limits: tuple[Limit, ...]) -> None:
    """Refuse two limits of one metric that no value passes together."""
    for first in limits:
        for other in limits:
            is_pair = first.metric == other.metric and first.sense in (">", ">=") and other.sense in ("<", "<=")
            # At equal limits ≥ and ≤ still share one value; with a strict sense they share none.
            is_open = first.sense == ">" or other.sense == "<"
            if is_pair and (first.limit > other.limit or (is_open and first.limit == other.limit)):
                raise ConfigError(
                    f"no value passes both '{first.metric} {first.sense} {first.limit:g}' and "
                    f"'{other.metric} {other.sense} {other.limit:g}'; change one limit"
                )


def _check_baseline(name: str) -> None:
    from pacesetter.evaluation.baselines.baseline import BASELINES

    if name not in BASELINES:
        raise ConfigError(f"gates.index={name} is not a baseline{did_you_mean(name, BASELINES)}")


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


def parse_gate_set(name: str, content: object) -> GateSet:
    """A set from a mapping; refuses unknown keys, metrics and limits."""
    if not isinstance(content, Mapping):
        raise ConfigError(f"the gates '{name}' are not a mapping; write about: … and gates: […]")
    return _in_words(configure(GateSet, {"name": name, **content}, "gates"))


def _in_words(gates: GateSet) -> GateSet:
    """With the words of each metric where a limit has none of its own."""

    def name_limits(limits: tuple[Limit, ...]) -> tuple[Limit, ...]:
        return tuple(replace(limit, about=limit.about or _words(limit.metric)) for limit in limits)

    return replace(
        gates,
        gates=name_limits(gates.gates),
        conditional=name_limits(gates.conditional),
        stretch=name_limits(gates.stretch),
    )


def _words(metric: str) -> str:
    known = find_metric(metric)
    return known.about if known else metric


def _content(path: Path) -> object:
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as problem:
        reason = str(problem).splitlines()[0]
        raise ConfigError(f"gates={path} cannot be read ({reason}); give a YAML file with gates: […]") from problem
