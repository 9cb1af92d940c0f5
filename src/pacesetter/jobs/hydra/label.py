"""What a run is called: its data, its agent, and what differs from the defaults, e.g. `us143 · direct · cap 1`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pacesetter.build.study import StudyPlan
from pacesetter.errors import PacesetterError
from pacesetter.jobs.hydra.groups import source_defaults
from pacesetter.jobs.hydra.resolve import resolve, resolve_study

__all__ = ["label_of"]

UNNAMED = "run"  # the name of a configuration that was given none
READING = ("date_format", "decimal", "cache")  # how a file is read, not which bars it gives
SECTIONS = ("features", "lag", "task", "agent", "risk", "train", "seed")
MOST = 3  # differences that are named
LONGEST = 24  # letters of a value
SHORT = {
    "position_cap_fraction": "cap",
    "gross_leverage": "leverage",
    "reserve_cash_fraction": "reserve",
    "target_volatility": "volatility",
}


def label_of(config: StudyPlan, has_agent: bool = True, standard: Sequence[str] = ()) -> str:
    """Data, agent and differences; a configuration with a name of its own, as of a preset, has that instead of them.

    standard   overrides of a command that has defaults of its own; what they set is not named
    """
    given = config.to_dict()
    about = [config.data.name, *([str(given["agent"]["algorithm"])] if has_agent else [])]
    if config.name != UNNAMED:
        return " · ".join([config.name, *about])
    changed = list(_differences(config, standard))
    if standard and len(plain := list(_differences(config, ()))) < len(changed):
        changed = plain  # the command was told otherwise
    more = [f"{len(changed) - MOST} more"] if len(changed) > MOST else []
    return " · ".join([*about, *changed[:MOST], *more])


def _differences(config: StudyPlan, standard: Sequence[str]) -> Iterator[str]:
    given, source = config.to_dict(), source_defaults(config.data.source)
    yield from _changed_keys(given["data"], source, skip=("source", "path", "seed", *READING))  # the seed is named once
    try:
        usual = _usual(given, standard)
    except PacesetterError:  # a plugin's agent that the command line does not know
        return
    for section in (section for section in SECTIONS if section in given):
        yield from _changed_keys({section: given[section]}, {section: usual[section]})


def _usual(given: Mapping[str, Any], standard: Sequence[str]) -> dict[str, Any]:
    """The same task and agent, or a study, with every key as it is by default."""
    if "task" not in given:
        return resolve_study().to_dict()
    choices = [f"task={given['task']['problem']}", f"agent={given['agent']['algorithm']}"]
    # The strategies of a study cost what the account does, which is named as its own.
    return resolve([*choices, *standard, f"lag.cost_bps={given['lag']['cost_bps']}"]).to_dict()


def _changed_keys(
    given: Mapping[str, object], usual: Mapping[str, object], skip: tuple[str, ...] = ()
) -> Iterator[str]:
    for key, value in given.items():
        if key in skip:
            continue
        before = usual.get(key)
        if isinstance(value, Mapping) and isinstance(before, Mapping):
            yield from _changed_keys(value, before)
        elif _plain(value) != _plain(before):
            yield _describe_value(str(key), value)


def _plain(value: object) -> Any:
    """A value by which lists and tuples, whole numbers and floats are alike, and nothing is like empty."""
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value] or None
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()} or None
    return value


def _describe_value(key: str, value: object) -> str:
    name = SHORT.get(key) or key.removesuffix("_fraction").replace("_", " ")
    if isinstance(value, bool):
        return name if value else f"no {name}"
    if isinstance(value, (list, tuple)):
        return f"{name} {', '.join(map(str, value))}" if len(value) <= MOST else f"{len(value)} {name}"
    if isinstance(value, Mapping):
        return name
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return f"{name} {text[:LONGEST]}"
