"""The groups of a configuration by their choices, and presets over them, as one plain tree.

`conf/config.yaml` names the groups and their defaults. A choice is a file `conf/GROUP/NAME.yaml`, or the options of a
registered source, task or method, which come from their dataclasses. The rules are Hydra's: a file's `defaults` come
before its own values, `override /GROUP: NAME` chooses, the outer file wins, and lists are replaced.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from pacesetter.build.study import StudyPlan
from pacesetter.data import SOURCES, Loading
from pacesetter.errors import ConfigError, did_you_mean
from pacesetter.late import load
from pacesetter.leadlag.study import study_defaults
from pacesetter.market.parameters import Costs
from pacesetter.registry import Registry
from pacesetter.runs import read_yaml

__all__ = [
    "PLAIN_GROUPS",
    "UNSET",
    "Chosen",
    "agent_defaults",
    "build_tree",
    "choose_groups",
    "flatten_keys",
    "group_names",
    "known_choices",
    "source_defaults",
    "task_defaults",
]

Tree = dict[str, Any]
UNSET = "???"  # of an option that must be given, e.g. a path
PRESET = "preset"
# The dataclass of a group, and the registry of a group's entries, imported when the plan has that group.
PLAIN_GROUPS = {
    "risk": "pacesetter.market.risk:RiskOptions",
    "train": "pacesetter.build.sections:Train",
    "track": "pacesetter.build.sections:Track",
    "job": "pacesetter.build.study:MainJob",
    "evaluation": "pacesetter.build.sections:Evaluation",
    "programme": "pacesetter.build.sections:Programme",
}
REGISTRIES = {
    "data": "pacesetter.data:SOURCES",
    "task": "pacesetter.build.tasks.task:TASKS",
    "agent": "pacesetter.learning.methods:METHODS",
}
STUDY = tuple(field.name for field in dataclasses.fields(StudyPlan))  # sections of a plan that trains nothing


class Chosen(NamedTuple):
    """Which entry of each group is taken, and the presets that are merged over them, in order.

    of_presets   what the presets choose, where something else was asked for
    is_study     whether the plan has the sections of a study only
    """

    groups: dict[str, str]
    presets: list[str]
    of_presets: dict[str, str]
    is_study: bool = False


class File(NamedTuple):
    """A YAML file: names of entries of its own group that come before it, choices of groups, and its own values."""

    before: list[str]
    choices: dict[str, str]
    values: Tree


# ---- choices --------------------------------------------------------------------------------------------------------


def group_names() -> list[str]:
    """The groups of which one entry is chosen."""
    return list(_read_base().choices)


def choose_groups(asked: Mapping[str, str], presets: Sequence[str], is_study: bool = False) -> Chosen:
    """What is chosen of each group: as asked, else by a preset, else the default; refuses an unknown choice.

    An agent that is asked for without a task learns the first one that its method declares. A study has no agent.
    """
    of_presets: dict[str, str] = {}
    for name in presets:
        for file in _preset_files(name):
            of_presets = file.choices | of_presets  # the first wins: outer files come before those that they name
    groups = _read_base().choices | of_presets | dict(asked)
    if "agent" in asked and "task" not in {**of_presets, **asked}:
        groups["task"] = _first_task(asked["agent"])
    if is_study:
        groups = {group: name for group, name in groups.items() if group in STUDY}
    for group, name in groups.items():
        known = known_choices(group)
        if name not in known:
            raise ConfigError(f"unknown {group} '{name}'{did_you_mean(name, known)}")
    return Chosen(groups, list(presets), of_presets, is_study)


def _first_task(agent: str) -> str:
    """The task of a method that was named alone: the first that it declares; the default of an unknown one."""
    names = [agent, *(_read_shipped("agent", agent).before if agent in _file_names("agent") else ())]
    methods = load(REGISTRIES["agent"])
    method = next((name for name in names if name in methods), None)
    return str(_read_base().choices["task"] if method is None else methods[method].tasks[0])


def known_choices(group: str) -> list[str]:
    """Names of all entries of a group, files among them."""
    if group in REGISTRIES:
        registry: Registry[object] = load(REGISTRIES[group])
        return sorted({*registry, *_file_names(group)})
    own = {"lag": ["study"]}.get(group, ["default"] if group in PLAIN_GROUPS else [])
    return sorted({*own, *_file_names(group)})


def _preset_files(name: str) -> Iterator[File]:
    """A preset and, after it, those that it begins with."""
    file = _read_preset(name)
    yield file
    for before in file.before:
        yield from _preset_files(str(Path(name).with_name(f"{before}.yaml")) if name.endswith(".yaml") else before)


def _read_preset(name: str) -> File:
    if not name.endswith(".yaml"):
        known = sorted(_file_names(PRESET))
        if name not in known:
            raise ConfigError(f"unknown preset '{name}'{did_you_mean(name, known)}")
        return _read_shipped(PRESET, name)
    path = Path(name)
    if not path.is_file() or path.parent.name != PRESET:
        raise ConfigError(
            f"+preset={name}: no such file in a folder named 'preset'; give a name or …/conf/preset/<name>.yaml"
        )
    return _parse_file(path.read_text(encoding="utf-8"), name)


# ---- the tree -------------------------------------------------------------------------------------------------------


def build_tree(chosen: Chosen) -> Tree:
    """All keys with their values: the chosen entries, the base's own keys, then the presets'.

    Of a task a study has the costs alone, which its strategies pay too.
    """
    task = chosen.groups.get("task", "")
    tree: Tree = {group: _entry(group, name, task) for group, name in chosen.groups.items()}
    if chosen.is_study:
        tree["task"] = {"market": {"costs": _plain(Costs())}}
    tree |= deepcopy(_read_base().values)
    for name in chosen.presets:
        for file in reversed(list(_preset_files(name))):
            values = file.values
            if _has_other_bars(chosen, tree):
                # A preset's symbols, dates and bar length are of its own source: they are not options of another.
                values = {key: value for key, value in values.items() if key != "data"}
            _merge(tree, values)
    if chosen.is_study:
        costs = tree["task"]["market"]["costs"]
        tree = {key: value for key, value in tree.items() if key in STUDY} | {"task": {"market": {"costs": costs}}}
    return tree


def _has_other_bars(chosen: Chosen, tree: Tree) -> bool:
    """Whether the bars asked for are of another source than the presets'."""
    named = chosen.of_presets.get("data", chosen.groups["data"])
    return bool(_entry("data", named, "")["source"] != tree["data"]["source"])


def _entry(group: str, name: str, task: str) -> Tree:
    """The keys of a group's entry; those of an agent are as the task needs them."""
    if name not in _file_names(group):
        return _registered_entry(group, name, task)
    file = _read_shipped(group, name)
    tree: Tree = {}
    for before in file.before:
        _merge(tree, _entry(group, before, task))
    _merge(tree, file.values)
    return tree


def _registered_entry(group: str, name: str, task: str) -> Tree:
    if group in PLAIN_GROUPS:
        return _plain(load(PLAIN_GROUPS[group])())
    makers: dict[str, Callable[[str], Tree]] = {
        "data": source_defaults,
        "task": task_defaults,
        "agent": lambda method: agent_defaults(method, task),
        "lag": lambda _: deepcopy(study_defaults()),
    }
    return makers[group](name)


def source_defaults(name: str) -> Tree:
    """A source's options with their defaults, as the group `data=<name>` holds them."""
    options: Tree = {"source": name}
    for kind in (Loading, SOURCES[name]):
        for field in dataclasses.fields(kind):  # type: ignore[arg-type]
            if field.init:
                options[field.name] = _default(field)
    if "seed" in options:
        # Data follow the run's seed unless they are given their own.
        options["seed"] = "${seed}"
    return options


def task_defaults(name: str) -> Tree:
    """A problem's options with their defaults, as the group `task=<name>` holds them."""
    from pacesetter.build.plan import plain_task  # here: a study has no task

    return plain_task(load(REGISTRIES["task"])[name].config())


def agent_defaults(name: str, task: str) -> Tree:
    """A method's options for a task; its name alone where it does not learn it, or where torch is needed and not there.

    Options of other tasks would be imported with their code, and torch takes seconds.
    """
    from pacesetter.build.tasks.task import TASKS  # here: a study has no agent
    from pacesetter.learning.methods import METHODS, default_options

    learned_as = TASKS[task].learned_as
    if learned_as not in METHODS[name].tasks:
        return {"algorithm": name}
    try:
        return default_options(name, learned_as)
    except ModuleNotFoundError as missing:  # commands that train nothing must work without the extra `rl`
        if missing.name != "torch":
            raise
        return {"algorithm": name}


def flatten_keys(tree: Mapping[Any, object], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every key by its whole name with its value."""
    for key, value in tree.items():
        if isinstance(value, Mapping) and value:
            yield from flatten_keys(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _merge(tree: Tree, values: Mapping[str, object]) -> None:
    """Write values into a tree: mappings key by key, everything else as a whole."""
    for key, value in values.items():
        if isinstance(value, Mapping) and isinstance(tree.get(key), dict):
            _merge(tree[key], value)
        else:
            tree[key] = deepcopy(value)


def _default(field: dataclasses.Field[Any]) -> Any:
    value = field.default
    if field.default_factory is not dataclasses.MISSING:
        value = field.default_factory()
    if value is dataclasses.MISSING:
        return UNSET
    value = dataclasses.asdict(value) if dataclasses.is_dataclass(value) and not isinstance(value, type) else value
    return list(value) if isinstance(value, tuple) else value


def _plain(settings: Any) -> Tree:
    """A dataclass as the nested lists and dictionaries that YAML knows."""
    plain: Tree = json.loads(json.dumps(dataclasses.asdict(settings)))
    return plain


# ---- files ----------------------------------------------------------------------------------------------------------


@cache
def _file_names(group: str) -> frozenset[str]:
    folder = files("pacesetter.conf") / group
    if not folder.is_dir():
        return frozenset()
    return frozenset(file.name.removesuffix(".yaml") for file in folder.iterdir() if file.name.endswith(".yaml"))


@cache
def _read_base() -> File:
    return _parse_file((files("pacesetter.conf") / "config.yaml").read_text(encoding="utf-8"), "config.yaml")


@cache
def _read_shipped(group: str, name: str) -> File:
    file = files("pacesetter.conf") / group / f"{name}.yaml"
    return _parse_file(file.read_text(encoding="utf-8"), f"{group}/{name}.yaml")


def _parse_file(text: str, name: str) -> File:
    try:
        values = read_yaml(text) or {}
        defaults = values.pop("defaults", [])
    except (yaml.YAMLError, AttributeError) as problem:
        raise ConfigError(f"{name} is not a preset in YAML: {' '.join(str(problem).split())}") from problem
    before: list[str] = []
    choices: dict[str, str] = {}
    for entry in defaults:
        if isinstance(entry, dict):
            ((group, choice),) = entry.items()
            choices[str(group).removeprefix("override ").removeprefix("/")] = str(choice)
        elif entry != "_self_":
            before.append(str(entry))
    return File(before, choices, values)
