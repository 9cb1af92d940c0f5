"""Overrides such as `data=synthetic data.symbols=50`, in Hydra's grammar → a frozen plan, or "did you mean"."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pacesetter.build.study import StudyPlan, parse_study
from pacesetter.errors import KEYS, ConfigError, did_you_mean
from pacesetter.jobs.hydra.groups import (
    STUDY,
    UNSET,
    Chosen,
    agent_defaults,
    build_tree,
    choose_groups,
    flatten_keys,
    group_names,
)
from pacesetter.jobs.hydra.overrides import expand_market_keys, name_source, parse_override
from pacesetter.leadlag.strategy import COST_BPS
from pacesetter.market.parameters import SHORT_KEYS, SHORT_ORDERS, Costs
from pacesetter.registry import configure
from pacesetter.runs import SCHEMA, write_atomic

if TYPE_CHECKING:
    from hydra.core.override_parser.types import Override

    from pacesetter.build import Plan
    from pacesetter.build.tasks.task import Task

__all__ = ["Composed", "resolve", "resolve_study", "resolve_tree", "write_preset"]

Tree = dict[str, Any]
# that `expand_market_keys` reads
MARKET_KEYS = [f"market.{name}" for name in (*SHORT_KEYS, *SHORT_ORDERS, "costs", "initial_cash", "currency")]
COSTS = "task.market.costs"
OWN_KEYS = ("name", "runs", "seed")  # of a run, not of a way to train
MOST_NAMED = 3  # of the methods that have a key


class Composed:
    """Overrides read once: what they choose, and the tree of all keys with the values that they set.

    chosen   entry of each group     tree   keys with values, interpolations such as ${seed} as they are
    """

    def __init__(self, overrides: Sequence[str], is_study: bool = False) -> None:
        self.texts = expand_market_keys(name_source(overrides))
        # Before values: an added key (+agent.NAME) under an old name would be accepted there.
        _refuse_renamed_preset(self.texts)
        asked = {text: parse_override(text) for text in self.texts}
        if is_study:
            _refuse_unread(asked)
        groups = group_names()
        choices: dict[str, str] = {}
        presets: list[str] = []
        values: list[tuple[str, Override]] = []
        for text, override in asked.items():
            key = override.key_or_group
            if override.is_sweep_override():
                raise ConfigError(
                    f"{text} has several values, which `pacesetter train --launch sweep` and `tune` take; give one"
                )
            if override.package is not None:
                raise ConfigError(f"{text}: a group has one place; write {key}=NAME")
            if key == "preset":
                if not override.is_add():
                    raise ConfigError(f"{text}: a preset is added to the configuration; write +{text}")
                named = override.value()
                presets += [str(name) for name in (named if isinstance(named, list) else [named])]
            elif key in groups and not override.is_delete() and isinstance(override.value(), str):
                choices[key] = str(override.value())
            else:
                values.append((text, override))
        self.chosen = choose_groups(choices, presets, is_study)
        if "agent" in choices and not is_study:
            _check_support(choices["agent"], self.chosen.groups["task"])
        self.tree = build_tree(self.chosen)
        known = [name for name, _ in flatten_keys(self.tree)]
        for text, override in values:
            self._set(text, override, known)

    def resolve(self) -> Tree:
        """The tree with interpolations resolved; refuses an option that must be given and is not."""
        tree = self.tree
        if any(isinstance(value, str) and "${" in value for _, value in flatten_keys(tree)):
            tree = _interpolate(tree)
        missing = [key for key, value in flatten_keys(tree) if value == UNSET]
        if missing:
            raise ConfigError(f"{missing[0]} is not set: give {missing[0]}=…")
        return tree

    def _set(self, text: str, override: Override, known: list[str]) -> None:
        """Set, add or delete one key by Hydra's rules; refuses one that is not there and was not added."""
        key = override.key_or_group
        *path, last = key.split(".")
        place: Any = self.tree
        is_added = override.is_add() or override.is_force_add()
        for part in path:
            if is_added and isinstance(place, dict) and not isinstance(place.get(part), dict | list):
                place[part] = {}
            place = _below(place, part)
        if not is_added and not (isinstance(place, dict) and last in place) and not _is_place(place, last):
            raise ConfigError(f"unknown key '{key}'{_key_hint(key, [*MARKET_KEYS, *known], self.chosen)}")
        if override.is_delete():
            del place[last]
            return
        value, before = override.value(), _below(place, last)
        if override.is_add() and before is not None and not isinstance(value, dict | list):
            raise ConfigError(f"{text} is there already, as {before!r}; write {key}={value}")
        if not (isinstance(value, dict) and isinstance(before, dict)):
            place[int(last) if isinstance(place, list) else last] = value
            return
        # An empty mapping, e.g. of symbols to currencies, is open to any name.
        if not is_added and before and any(name not in before for name in value):
            raise ConfigError(f"{key} has other keys: set one with {key}.NAME=…, add one with +{key}.NAME=…")
        before |= value


def resolve(overrides: Sequence[str] = ()) -> Plan:
    """The validated configuration; refuses unknown keys, groups, presets and values in one sentence."""
    from pacesetter.build.learner import check_agent  # here, and below: a study has neither task nor agent
    from pacesetter.build.plan import parse_plan
    from pacesetter.build.tasks.task import TASKS

    composed = Composed(overrides)
    tree, task = composed.resolve(), TASKS[composed.chosen.groups["task"]]
    _refuse_inherited(composed.texts, task)
    _set_study_costs(tree)
    config = parse_plan(tree)
    check_agent(config)
    _check_gates(config)
    return task.complete(config)


def resolve_study(overrides: Sequence[str] = ()) -> StudyPlan:
    """The validated plan of what trains nothing; also refuses keys that only training and trading read."""
    tree = Composed(overrides, is_study=True).resolve()
    _set_study_costs(tree)
    return parse_study({key: value for key, value in tree.items() if key in STUDY})


def _set_study_costs(tree: Tree) -> None:
    """Let the strategies of a study pay what the account pays, unless they were given costs of their own."""
    market = tree["task"].get("market")
    if isinstance(market, dict) and tree["lag"].get("cost_bps", COST_BPS) == COST_BPS:
        tree["lag"]["cost_bps"] = configure(Costs, market["costs"], COSTS).side_bps


def resolve_tree(overrides: Sequence[str] = ()) -> Tree:
    """All keys with their values, interpolations resolved, before they are checked."""
    return Composed(overrides).resolve()


def write_preset(path: Path, overrides: Sequence[str], about: str) -> Path:
    """Write what the overrides configure as a preset, without the name, folder and seed of a run: `+preset=PATH`."""
    import yaml

    resolve(overrides)  # refuses what cannot be
    composed = Composed(overrides)
    groups = [{f"override /{group}": choice} for group, choice in composed.chosen.groups.items()]
    # Unresolved: interpolations such as ${seed} must follow the run that uses the preset.
    kept = {key: value for key, value in composed.tree.items() if key not in OWN_KEYS}
    text = yaml.safe_dump({"defaults": groups, "schema": SCHEMA} | kept, sort_keys=False, allow_unicode=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    return write_atomic(path, f"# @package _global_\n# {about}\n{text}")


def _check_support(method: str, task: str) -> None:
    """Refuse a method that does not learn the task, before its options are refused as unknown."""
    from pacesetter.build.tasks.task import TASKS
    from pacesetter.learning.methods import METHODS, find_support

    if method in METHODS:
        find_support(method, TASKS[task].learned_as)


def _interpolate(tree: Tree) -> Tree:
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    try:
        resolved = OmegaConf.to_container(OmegaConf.create(tree), resolve=True)
    except OmegaConfBaseException as problem:
        raise ConfigError(f"the configuration does not resolve: {str(problem).splitlines()[0]}") from problem
    assert isinstance(resolved, dict)
    return {str(key): value for key, value in resolved.items()}


def _below(place: Any, part: str) -> object:
    if isinstance(place, dict):
        return place.get(part)
    return place[int(part)] if _is_place(place, part) else None


def _is_place(place: object, part: str) -> bool:
    return isinstance(place, list) and part.isdigit() and int(part) < len(place)


def _check_gates(config: Plan) -> None:
    """Refuse an unknown or wrong set of gates before anything runs."""
    from pacesetter.build.sections import Evaluation

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


def _refuse_unread(overrides: Mapping[str, Override]) -> None:
    """Refuse overrides of sections that are there, and that a study does not read."""
    others = {*group_names(), "features"} - {*STUDY}
    for text, override in overrides.items():
        if override.key_or_group.partition(".")[0] in others and not override.key_or_group.startswith(COSTS):
            raise ConfigError(
                f"{text} is of a plan that trains; a study reads {', '.join(STUDY)} and market.costs; leave it out"
            )


def _refuse_inherited(overrides: Sequence[str], task: Task) -> None:
    """Refuse overrides, right or wrong, of what the task takes from another run."""
    for text in overrides:
        if task.inherited and re.match(task.inherited, text):
            raise ConfigError(f"{text}: a {task.name} has that of its fleet; leave it out, or train the fleet with it")


# ---- what went wrong, in the user's words -----------------------------------------------------------------------


def _key_hint(key: str, known: list[str], chosen: Chosen) -> str:
    """Where an unknown key may have been meant: spelt otherwise in its group, elsewhere, or of another agent."""
    group, _, rest = key.partition(".")
    leaf = key.rpartition(".")[2]
    if key == leaf or group in ("market", "risk") or key.startswith("task.market."):
        short = {full: name for name, full in (SHORT_KEYS | SHORT_ORDERS).items()}
        meant = KEYS.get(leaf.lower(), short.get(leaf, leaf))
        if keys := [name for name in (f"market.{meant}", f"risk.{meant}") if name in known]:
            return f"; did you mean '{keys[0]}'?"
    # Without the group's name, which all its keys share and which would make any of them look close.
    parts = (name.split(".") for name in known if "." in key and name.startswith(f"{group}."))
    inside = {".".join(part[1:end]): ".".join(part[:end]) for part in parts for end in range(2, len(part) + 1)}
    if close := get_close_matches(rest, inside, n=1, cutoff=0.8):
        return f"; did you mean '{inside[close[0]]}'?"
    ends = (".".join(parts[:end]) for parts in (name.split(".") for name in known) for end in range(1, len(parts) + 1))
    if elsewhere := [name for name in dict.fromkeys(ends) if name.rpartition(".")[2] == leaf]:
        return "; did you mean " + " or ".join(f"'{name}'" for name in elsewhere[:3]) + "?"
    if group == "agent" and (owners := _agents_with(rest, chosen.groups["task"])):
        return owners
    if group == "guard":
        return "; breakers are set where an account is played: pacesetter paper BUNDLE guard.halt_fraction=0.05"
    if not inside:
        known = [*known, *group_names(), "preset"]
        is_close = get_close_matches(key, known, n=1)
        return did_you_mean(key, known if is_close else {name.partition(".")[0] for name in known})
    if close := get_close_matches(rest, inside, n=1, cutoff=0.6):
        return f"; did you mean '{inside[close[0]]}'?"
    return did_you_mean("", inside.values())  # what the group has


def _agents_with(option: str, chosen: str) -> str:
    """Which agents have an option: of the chosen task, else of another; empty where none has."""
    from pacesetter.build.tasks.task import TASKS
    from pacesetter.learning.methods import METHODS

    for task in (chosen, *(name for name in TASKS if name != chosen)):
        if methods := [name for name in METHODS if option in dict(flatten_keys(agent_defaults(name, task)))]:
            where = "" if task == chosen else f" of task={task}"
            shown = [f"agent={name}" for name in methods[:MOST_NAMED]]
            others = len(methods) - len(shown)
            said = f"{', '.join(shown)} and {others} more" if others else f"only {' and '.join(shown)}"
            return f"; {said}{where} {'has' if len(methods) == 1 else 'have'} it"
    return ""
