"""What earlier versions stored, in today's words: one table of renamed keys and values, read by every reader.

`schema` stands in stored configurations, manifests, bundles, guard states, searches and presets; without it a file is
of schema 0. Files are translated when they are read and never rewritten, so that a run keeps its hash and its name.
On the command line an old name is refused by its new one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from pacesetter.errors import RunError

__all__ = [
    "RENAMED_KEYS",
    "RENAMED_VALUES",
    "SCHEMA",
    "RenamedKey",
    "read_schema",
    "renamed_sentence",
    "translate_callbacks",
    "translate_config",
    "translate_guard",
    "translate_learner",
    "translate_overrides",
    "translate_preset",
]

SCHEMA = 1  # of everything that is stored from now on


@dataclass(frozen=True)
class RenamedKey:
    """A key of the configuration that schema 1 gave another name; `agents` had it, () is all of them."""

    old: str
    new: str
    agents: tuple[str, ...] = ()

    def rename(self, key: str) -> str | None:
        """The new name of this key, or of one below it; None for any other key."""
        is_it = key == self.old or key.startswith(f"{self.old}.")
        return self.new + key.removeprefix(self.old) if is_it else None


PPO, SAC = ("fleet_ppo", "master_ppo"), ("fleet_sac",)
RENAMED_KEYS = (
    RenamedKey("agent.discount", "agent.gamma", (*PPO, *SAC)),
    RenamedKey("agent.max_gradient_norm", "agent.max_grad_norm", (*PPO, *SAC)),
    RenamedKey("agent.curiosity", "agent.extras.curiosity", (*PPO, *SAC)),
    RenamedKey("agent.rollout_steps", "agent.n_steps", PPO),
    RenamedKey("agent.epochs", "agent.n_epochs", PPO),
    RenamedKey("agent.entropy_weight", "agent.ent_coef", PPO),
    RenamedKey("agent.value_weight", "agent.vf_coef", PPO),
    RenamedKey("agent.rollout_steps", "agent.train_freq", SAC),
    RenamedKey("agent.updates", "agent.gradient_steps", SAC),
    RenamedKey("agent.replay_steps", "agent.buffer_size", SAC),
    RenamedKey("agent.warmup_steps", "agent.learning_starts", SAC),
    RenamedKey("agent.target_rate", "agent.tau", SAC),
    RenamedKey("agent.first_temperature", "agent.initial_ent_coef", SAC),
    RenamedKey("task.tune_steps", "task.joint_steps"),
)
RENAMED_VALUES = {
    "agent.algorithm": {"fleet_ppo": "ppo", "fleet_sac": "sac", "master_ppo": "ppo"},
    "task.action": {"weights": "target"},
}
# key -> what was the rule before schema 1 had the key; it is filled in where the part of the key before it is stored
FORMER_RULES = {
    "features.leadlag.shrinkage": "hard",
    "agent.extras.curiosity.model": "features",
    "task.action": "discrete",
    "task.trades": "orders",
    "task.own_account": False,
    "task.cross_fit": False,
    "task.account": (
        *("weight", "unrealised_return", "from_best", "bars_held", "signal", "room", "is_trading", "cash", "exposure"),
        *("net_exposure", "drawdown", "equity_ratio", "open_share", "is_liquidating"),
    ),
}
TASKS_WITH = {
    "task.action": ("trading", "fleet"),
    "task.trades": ("fleet",),
    "task.own_account": ("trading", "fleet"),
    "task.cross_fit": ("master",),
    "task.account": ("trading", "portfolio", "fleet", "master"),
}
DROPPED_KEYS = ("lag.links",)  # of the study alone, whose links come from its one method now; no agent reads it
GROUPS = {"agent": "agent.algorithm"}  # group on the command line -> the key that it chooses
LEARNERS = {"FleetPPO": "fleet_ppo", "FleetSAC": "fleet_sac", "MasterPPO": "master_ppo"}  # as checkpoints name them
AGENTS = {"fleet": "fleet_ppo", "master": "master_ppo"}  # of schema 0, where a task was named and no agent
NULL_MEANS_NONE = ("agent.curiosity",)  # null said that there is none; now the key is absent
CALLBACKS = {"Guard": "FailSafeGuard"}  # classes by whose names a checkpoint keeps what callbacks remember
GUARD_PLACES = {  # key of schema 0, a list -> names of its places
    "equities": ("day_equity", "last_equity"),
    "bars": ("bar", "paused_until", "stops"),
    "ids": ("ids_today", "ids_before"),
}
OVERRIDE = re.compile(r"(?P<sign>\+{0,2})(?P<key>[\w./@:-]+)=(?P<value>.*)", re.DOTALL)


def read_schema(stored: Mapping[str, Any], what: str = "the file") -> int:
    """The schema of something stored; refuses one that a later version wrote."""
    schema = stored.get("schema", 0)
    if not isinstance(schema, int) or isinstance(schema, bool) or not 0 <= schema <= SCHEMA:
        raise RunError(f"{what} has schema {schema}, this version reads 0 to {SCHEMA}; install a newer pacesetter")
    return schema


# ---- configurations -------------------------------------------------------------------------------------------------


def translate_config(stored: Mapping[str, Any], what: str = "the stored configuration") -> dict[str, Any]:
    """A stored configuration in today's words, without its `schema`."""
    plain = {key: deepcopy(value) for key, value in stored.items() if key != "schema"}
    if read_schema(stored, what) == SCHEMA:
        return plain
    agent = _get(plain, "agent.algorithm")
    for renamed in _rows(str(agent)):
        _move(plain, renamed)
    for key in DROPPED_KEYS:
        owner, _, name = key.rpartition(".")
        if isinstance(group := _get(plain, owner), dict):
            group.pop(name, None)
    for key, values in RENAMED_VALUES.items():
        value = _get(plain, key)
        if isinstance(value, str) and value in values:
            _put(plain, key, values[value])
    _fill_former_rules(plain)
    return plain


def _fill_former_rules(plain: dict[str, Any]) -> None:
    """Say what an old configuration could not say, so that a default of today does not change it."""
    problem = _get(plain, "task.problem")
    for key, value in FORMER_RULES.items():
        owner = _get(plain, key.rpartition(".")[0])
        if isinstance(owner, dict) and (key not in TASKS_WITH or problem in TASKS_WITH[key]):
            owner.setdefault(key.rpartition(".")[2], list(value) if isinstance(value, tuple) else value)


def _rows(agent: str) -> list[RenamedKey]:
    """What is renamed for an agent of schema 0."""
    return [row for row in RENAMED_KEYS if not row.agents or agent in row.agents]


def _move(tree: dict[str, Any], row: RenamedKey) -> None:
    *path, last = row.old.split(".")
    owner = _get(tree, ".".join(path))
    if not isinstance(owner, dict) or last not in owner:
        return
    value = owner.pop(last)
    if value is not None or row.old not in NULL_MEANS_NONE:
        _put(tree, row.new, value)


def _get(tree: Any, key: str) -> Any:
    for name in key.split("."):
        if not isinstance(tree, Mapping):
            return None
        tree = tree.get(name)
    return tree


def _put(tree: dict[str, Any], key: str, value: Any) -> None:
    *path, last = key.split(".")
    for name in path:
        tree = tree.setdefault(name, {})
    tree[last] = value


def translate_learner(header: Mapping[str, Any]) -> dict[str, Any]:
    """What the header of a fleet's or master's checkpoint says of its learner, the options in today's words."""
    described = deepcopy(dict(header["learner"]))
    if read_schema(header, "the checkpoint") == SCHEMA:
        return described
    wrapped = {"agent": described["config"] | {"algorithm": LEARNERS.get(described["algorithm"], "")}}
    options = translate_config(wrapped)["agent"]
    return described | {"config": {key: value for key, value in options.items() if key != "algorithm"}}


def translate_callbacks(stored: Mapping[str, Any]) -> dict[str, Any]:
    """What callbacks remembered in a checkpoint, by the names that their classes have today."""
    return {CALLBACKS.get(name, name): state for name, state in stored.items()}


# ---- searches and presets -------------------------------------------------------------------------------------------


def translate_overrides(overrides: Iterable[str], schema: int) -> list[str]:
    """Stored overrides, those with several values among them, in today's words."""
    texts = list(overrides)
    if schema == SCHEMA:
        return texts
    agents = _agents(texts)
    translated = [_translate_override(text, agents) for text in texts]
    return [text for text in translated if text is not None]


def _agents(overrides: Iterable[str]) -> list[str]:
    """The agents of schema 0 that overrides choose among."""
    matches = [match for text in overrides if (match := OVERRIDE.fullmatch(text))]
    chosen = {str(match["key"]): str(match["value"]) for match in matches}
    names = chosen.get("agent") or AGENTS.get(chosen.get("task", ""), "")
    return [name.strip() for name in names.split(",")]


def _translate_override(text: str, agents: list[str]) -> str | None:
    match = OVERRIDE.fullmatch(text)
    if match is None:
        return text
    sign, key, value = match.group("sign", "key", "value")
    if key in NULL_MEANS_NONE and value in ("null", "None"):
        return None
    new = {_new_key(key, agent) for agent in agents}
    if len(new) > 1:
        raise RunError(f"{text} was renamed to another key for each of {', '.join(agents)}; start a new search")
    values = RENAMED_VALUES.get(GROUPS.get(key, key), {})
    renamed = ",".join(values.get(each.strip(), each) for each in value.split(",")) if values else value
    return f"{sign}{new.pop()}={renamed}"


def _new_key(key: str, agent: str) -> str:
    return next((new for row in _rows(agent) if (new := row.rename(key))), key)


def translate_preset(stored: Mapping[str, Any], what: str = "the preset") -> dict[str, Any]:
    """A preset as Hydra reads it, its list of `defaults` included, in today's words."""
    plain = translate_config(stored, what)
    if read_schema(stored, what) < SCHEMA and isinstance(plain.get("defaults"), list):
        plain["defaults"] = [_translate_choice(choice) for choice in plain["defaults"]]
    return plain


def _translate_choice(choice: Any) -> Any:
    """One member of a defaults list, e.g. {override /agent: fleet_ppo}."""
    if not isinstance(choice, Mapping):
        return choice
    values = {group: RENAMED_VALUES[key] for group, key in GROUPS.items()}
    return {
        group: values.get(str(group).rpartition("/")[2], {}).get(name, name) if isinstance(name, str) else name
        for group, name in choice.items()
    }


# ---- guard states ---------------------------------------------------------------------------------------------------


def translate_guard(stored: Mapping[str, Any]) -> dict[str, Any]:
    """A guard's stored state by key; schema 0 kept some of it by place in a list."""
    plain = dict(stored)
    if read_schema(stored, "the guard's state") == SCHEMA:
        return plain
    for key, names in GUARD_PLACES.items():
        if key in plain:  # the guard itself refuses a state that lacks something
            values = list(plain.pop(key))
            plain |= dict(zip(names, [*values[:2], values[2:]] if key == "bars" else values, strict=True))
    return plain


# ---- the command line -----------------------------------------------------------------------------------------------


def renamed_sentence(key: str, value: str = "", agent: str = "") -> str | None:
    """Why an override is refused that names a key or a value of schema 0; None for any other.

    `agent` is today's name of the method, which decides where a key became one of several.
    """
    group = GROUPS.get(key, key)
    if new_value := RENAMED_VALUES.get(group, {}).get(value):
        if group == GROUPS["agent"]:
            task = value.partition("_")[0]
            return f"agent={value} was renamed to agent={new_value} (task={task} decides what it trains)"
        return f"{key}={value} was renamed to {key}={new_value}"
    methods = RENAMED_VALUES["agent.algorithm"]
    rows = [row for row in RENAMED_KEYS if row.rename(key)]
    fitting = [row for row in rows if not row.agents or agent in {methods[old] for old in row.agents}] or rows
    names = list(dict.fromkeys(str(row.rename(key)) for row in fitting))
    return f"{key} was renamed to {' or '.join(names)}" if names else None
