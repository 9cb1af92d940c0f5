"""Hydra at the edge: overrides such as `data=synthetic data.symbols=50` → a frozen Config, or "did you mean"."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from typing import Any

from hydra import initialize_config_module
from hydra.errors import HydraException
from omegaconf import MISSING, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from pacesetter.build import Config
from pacesetter.build.configuration import parse_config, plain_task
from pacesetter.build.learner import check_agent
from pacesetter.build.sections import Evaluation, MainJob, Programme, Track, Train
from pacesetter.build.tasks.task import TASKS, Task
from pacesetter.data import SOURCES, Loading
from pacesetter.errors import ConfigError, did_you_mean
from pacesetter.jobs.hydra.overrides import expand_market_keys, find_presets, name_source, parse_override
from pacesetter.jobs.hydra.store import compose_groups, store_entry
from pacesetter.leadlag.study import study_defaults
from pacesetter.learning.methods import METHODS, default_options, find_support
from pacesetter.market.parameters import SHORT_KEYS
from pacesetter.market.risk import RiskOptions

__all__ = ["compose", "source_defaults", "task_defaults"]

PLAIN_GROUPS = {
    "risk": RiskOptions,
    "train": Train,
    "track": Track,
    "job": MainJob,
    "evaluation": Evaluation,
    "programme": Programme,
}
MARKET_KEYS = [f"market.{name}" for name in SHORT_KEYS]  # that `expand_market_keys` reads
CHOICE = re.compile(r"\+?(data|task|agent|preset)=")


def compose(overrides: Sequence[str] = ()) -> Config:
    """The validated configuration; refuses unknown keys, groups, presets and values in one sentence."""
    _register_groups()
    overrides = expand_market_keys(name_source(overrides))
    # Before Hydra: an added key (+agent.NAME) under an old name would be accepted there.
    _refuse_renamed_preset(overrides)
    with initialize_config_module("pacesetter.conf", version_base="1.3"):
        try:
            problem = _task_of(overrides)
            _refuse_pair(overrides, problem)
            # After the task is known: options of `agent=ppo` differ between one agent and a fleet.
            _register_agents(TASKS[problem].learned_as if problem in TASKS else problem)
            resolved = _resolve(find_presets(overrides))
            if _replaces_data(overrides, resolved):
                # A preset's symbols, dates and bar length are of its own source: they are not options of another.
                own = [text for text in overrides if re.match(r"data[.=]|seed=", text)]
                resolved["data"] = _resolve(own)["data"]
        except HydraException as problem:
            raise ConfigError(_explain(overrides, problem)) from problem
        except OmegaConfBaseException as problem:
            raise ConfigError(f"the configuration does not resolve: {str(problem).splitlines()[0]}") from problem
    resolved.pop("schema", None)
    # Hydra leaves ??? where a source needs an option, e.g. a path.
    missing = [key for key, value in _flatten(resolved) if value == MISSING]
    if missing:
        raise ConfigError(f"{missing[0]} is not set: give {missing[0]}=…")
    task = TASKS[resolved["task"]["problem"]]
    _refuse_inherited(overrides, task)
    config = parse_config(resolved)
    check_agent(config)
    _check_gates(config)
    return task.completed(config)


def _resolve(overrides: Sequence[str]) -> dict[str, Any]:
    """The composed groups as plain mappings and lists."""
    resolved = OmegaConf.to_container(compose_groups(overrides), resolve=True)
    assert isinstance(resolved, dict)
    return {str(key): value for key, value in resolved.items()}


def _replaces_data(overrides: Sequence[str], resolved: Mapping[str, Any]) -> bool:
    """Whether the bars asked for are of another source than the preset's."""
    presets = [text for text in overrides if text.startswith("+preset=")]
    if not presets or not any(text.startswith("data=") for text in overrides):
        return False
    return bool(_defaults(find_presets(presets))["data"]["source"] != resolved["data"]["source"])


def _check_gates(config: Config) -> None:
    """Refuse an unknown or wrong set of gates before anything runs."""
    if config.evaluation.acceptance != Evaluation().acceptance:
        from pacesetter.evaluation.programme.gate_sets import read_gate_set  # imports what evaluates

        read_gate_set(config.evaluation.acceptance)


RENAMED_PRESETS = {"equities_hourly": ("synthetic_hourly", r"data\.(bars|groups|strength|regimes|symbols=\d)")}


def _refuse_renamed_preset(overrides: Sequence[str]) -> None:
    """Refuse what only the former market of a preset's name understands, by the name that it has now."""
    for old, (new, only_there) in RENAMED_PRESETS.items():
        meant = next((text for text in overrides if re.match(only_there, text)), None)
        if meant is not None and f"+preset={old}" in overrides:
            raise ConfigError(
                f"+preset={old} has real bars now and no {meant.split('=')[0]} of that kind; the synthetic market was "
                f"renamed to +preset={new}"
            )


def _refuse_pair(overrides: Sequence[str], problem: str) -> None:
    """Refuse a method that does not learn the task by that, before its options are refused as unknown."""
    named = [text.removeprefix("agent=") for text in overrides if text.startswith("agent=")]
    if named and named[-1] in METHODS and problem in TASKS:
        find_support(named[-1], TASKS[problem].learned_as)


def _task_of(overrides: Sequence[str]) -> str:
    """The problem that the overrides choose, themselves or by a preset."""
    named = [text.removeprefix("task=") for text in overrides if text.startswith("task=")]
    presets = tuple(text for text in overrides if text.startswith("+preset="))
    if named or not presets:
        return named[-1] if named else "trading"
    is_shipped = all(text.removeprefix("+preset=") in _names("preset") for text in presets)
    return _task_of_shipped(presets) if is_shipped else _task_of_presets(overrides)


@cache
def _task_of_shipped(presets: tuple[str, ...]) -> str:
    return _task_of_presets(presets)


def _task_of_presets(overrides: Sequence[str]) -> str:
    _register_agents("trading")  # Hydra resolves presets only as a whole, and any agent will do for that
    return str(_defaults(find_presets(overrides))["task"]["problem"])


def _refuse_inherited(overrides: Sequence[str], task: Task) -> None:
    """Refuse overrides, right or wrong, of what the task takes from another run."""
    for text in overrides:
        if task.inherited and re.match(task.inherited, text):
            raise ConfigError(f"{text}: a {task.name} has that of its fleet; leave it out, or train the fleet with it")


def source_defaults(name: str) -> dict[str, Any]:
    """A source's options with their defaults, as the group `data=<name>` holds them."""
    options: dict[str, Any] = {"source": name}
    for kind in (Loading, SOURCES[name]):
        for field in dataclasses.fields(kind):  # type: ignore[arg-type]
            if field.init:
                options[field.name] = _default(field)
    if "seed" in options:
        # Data follow the run's seed unless they are given their own.
        options["seed"] = "${seed}"
    return options


def task_defaults(name: str) -> dict[str, Any]:
    """A problem's options with their defaults, as the group `task=<name>` holds them."""
    return plain_task(TASKS[name].config())


def _plain(settings: Any) -> dict[str, Any]:
    """A dataclass as the nested lists and dictionaries that YAML knows."""
    plain: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(settings)))
    return plain


def _register_groups() -> None:
    for name in SOURCES:
        store_entry("data", name, source_defaults(name))
    for name in TASKS:
        store_entry("task", name, task_defaults(name))
    store_entry("lag", "study", study_defaults())
    for name, kind in PLAIN_GROUPS.items():
        store_entry(name, "default", _plain(kind()))


def _register_agents(task: str) -> None:
    """The group `agent`: the options of every method for this task, since a fleet's are not those of one agent."""
    learned_as = TASKS[task].learned_as if task in TASKS else task  # an unknown one is refused when Hydra looks for it
    for name in METHODS:
        store_entry("agent", name, _agent_node(name, learned_as))


def _agent_node(name: str, learned_as: str) -> dict[str, Any]:
    """A method's options; its name alone where it does not learn this task, or where torch is needed and not there.

    Options of other tasks would be imported with their code, and torch takes seconds.
    """
    if learned_as not in METHODS[name].tasks:
        return {"algorithm": name}
    try:
        return default_options(name, learned_as)
    except ModuleNotFoundError as missing:  # commands that train nothing must work without the extra `rl`
        if missing.name != "torch":
            raise
        return {"algorithm": name}


def _default(field: dataclasses.Field[Any]) -> Any:
    value = field.default
    if field.default_factory is not dataclasses.MISSING:
        value = field.default_factory()
    if value is dataclasses.MISSING:
        return MISSING
    return dataclasses.asdict(value) if dataclasses.is_dataclass(value) and not isinstance(value, type) else value


# ---- what went wrong, in the user's words -----------------------------------------------------------------------


def _explain(overrides: Sequence[str], problem: HydraException) -> str:
    for text in overrides:
        if text.startswith("preset="):
            return f"{text}: a preset is added to the configuration; write +{text}"
        override = parse_override(text)
        if override.is_sweep_override():
            return f"{text} has several values, which `pacesetter train --launch sweep` and `tune` take; give one"
        key, value = override.key_or_group, str(override.value())
        sentence = _explain_key(key, value, [o for o in overrides if o != text])
        if sentence:
            return sentence
    said = re.sub(r"\s+", " ", str(problem).splitlines()[0])
    if match := re.fullmatch(r"Could not override '(.+)'\.", said):  # a mapping, by a name that it has not
        return "{0} has other keys: set one with {0}.NAME=…, add one with +{0}.NAME=…".format(match[1])
    return said


def _explain_key(key: str, value: str, others: list[str]) -> str | None:
    groups = {
        "data": [*SOURCES, *_names("data")],
        "task": list(TASKS),
        "agent": [*METHODS, *_names("agent")],
        "preset": _names("preset"),
    }
    if key in groups:
        known = sorted(set(groups[key]))
        is_file = key == "preset" and value.endswith(".yaml")
        return None if is_file or value in known else f"unknown {key} '{value}'{did_you_mean(value, known)}"
    known = [name for name, _ in _flatten(_defaults(others))]
    if key in known or any(name.startswith(f"{key}.") for name in known):
        return None
    return f"unknown key '{key}'{_key_hint(key, [*MARKET_KEYS, *known, *groups], others)}"


def _key_hint(key: str, known: list[str], others: list[str]) -> str:
    """Where an unknown key may have been meant: spelt otherwise in its group, elsewhere, or of another agent."""
    group, _, rest = key.partition(".")
    leaf = key.rpartition(".")[2]
    leaf = SHORT_KEYS.get(leaf, leaf)
    # Without the group's name, which all its keys share and which would make any of them look close.
    parts = (name.split(".") for name in known if "." in key and name.startswith(f"{group}."))
    inside = {".".join(part[1:end]): ".".join(part[:end]) for part in parts for end in range(2, len(part) + 1)}
    if close := get_close_matches(rest, inside, n=1, cutoff=0.8):
        return f"; did you mean '{inside[close[0]]}'?"
    ends = (".".join(parts[:end]) for parts in (name.split(".") for name in known) for end in range(1, len(parts) + 1))
    if elsewhere := [name for name in dict.fromkeys(ends) if name.rpartition(".")[2] == leaf]:
        return "; did you mean " + " or ".join(f"'{name}'" for name in elsewhere[:3]) + "?"
    if group == "agent":
        task = _task_of(others)
        methods, where = _methods_with(rest, task), ""
        if not methods:
            owners = {name: _methods_with(rest, name) for name in TASKS if name != task}
            where, methods = next(((f" task={name}", held) for name, held in owners.items() if held), ("", []))
        if methods:
            named = " and ".join(f"agent={name}" for name in methods[:3])
            return f"; only {named}{' of' + where if where else ''} {'has' if len(methods) == 1 else 'have'} it"
    if not inside:
        return did_you_mean(key, known)
    if close := get_close_matches(rest, inside, n=1, cutoff=0.6):
        return f"; did you mean '{inside[close[0]]}'?"
    return did_you_mean("", inside.values())  # what the group has


def _methods_with(option: str, task: str) -> list[str]:
    """The methods of this task that have an option of this name."""
    learned_as = TASKS[task].learned_as if task in TASKS else task
    nodes = {name: _agent_node(name, learned_as) for name in METHODS}
    return [name for name, node in nodes.items() if option in dict(_flatten(node))]


def _defaults(others: list[str]) -> Mapping[str, Any]:
    """The configuration with the group choices among `others` only."""
    # Group choices decide which keys exist; values of single keys do not, and may be what is wrong.
    choices = [text for text in others if CHOICE.match(text) or text.startswith("hydra.searchpath=")]
    try:
        plain = OmegaConf.to_container(compose_groups(choices))
    except HydraException:
        plain = OmegaConf.to_container(compose_groups([]))
    assert isinstance(plain, dict)
    return {str(key): value for key, value in plain.items()}


def _names(group: str) -> list[str]:
    folder = files("pacesetter.conf") / group
    return [entry.name.removesuffix(".yaml") for entry in folder.iterdir() if entry.name.endswith(".yaml")]


def _flatten(tree: Mapping[Any, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, Mapping) and value:
            yield from _flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
