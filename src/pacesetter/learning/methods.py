"""METHODS: every way to learn by its name, with the tasks and actions it supports, its options and its maker.

`agent=NAME` looks a method up here; the task decides whether it trains one agent, a fleet or a master. Each is declared
by a file `conf/method/NAME.yaml`. A package from outside adds one by an entry point in the group `pacesetter.method`:

```python
reinforce = MethodSpec("REINFORCE", (TaskSupport(("fleet",), ("discrete",), Options, make),))
```
Classes and makers may be named as "module:attribute": they are imported when they are needed, torch with them.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cached_property
from importlib.resources import files
from typing import Annotated, Any

from pacesetter.errors import ConfigError, check_range
from pacesetter.late import load
from pacesetter.learning.learner import Learner
from pacesetter.registry import Registry, configure, is_installed

__all__ = [
    "METHODS",
    "AgentOptions",
    "MethodSpec",
    "NetworkOptions",
    "Setup",
    "TargetOptions",
    "TaskSupport",
    "check_method",
    "default_options",
    "find_support",
    "read_options",
    "sets_targets",
]


TARGET_TASKS = ("trading", "portfolio", "fleet", "master")


@dataclass(frozen=True)
class Setup:
    """What a learner is made of.

    name               of the method, as registered      task   problem of the configuration, e.g. fleet
    train, validation  environments or markets of the training and the validation set
    options            those of `agent`, without the method's name
    network            options of a network that takes windows, as the task decides them
    """

    name: str
    task: str
    train: object
    validation: object
    options: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    device: str = "cpu"
    network: Mapping[str, Any] = field(default_factory=dict)


# What a method makes of a task, by the keys of `agent`: the same one, one whose policy is asked for more, or another.
Adapt = Callable[[Any, "AgentOptions"], Any]


@dataclass(frozen=True)
class TaskSupport:
    """How a method learns some tasks.

    tasks      problems, e.g. ("fleet",)
    actions    kinds of `task.action` it can learn
    options    frozen dataclass whose fields are keys of `agent`
    make       from a `Setup` to a learner
    algorithm  a `learning.sb3.algorithms.Algorithm`, of a method that learns as one of Stable-Baselines3 does
    defaults   keys of `agent` beside or instead of those of the dataclass, e.g. the network
    adapt      from a task and the keys of `agent` to the task that is learned, see `Adapt`; None: the task as it is
    targets    whether agents that set targets have the `TargetOptions`
    """

    tasks: tuple[str, ...]
    actions: tuple[str, ...]
    options: type[Any] | str
    make: Callable[[Setup], Learner] | str
    defaults: dict[str, object] = field(default_factory=dict)
    algorithm: Any = None
    adapt: Adapt | str | None = None
    targets: bool = True


@dataclass(frozen=True)
class TargetOptions:
    """Options of every agent that may set targets, whatever its method."""

    members: Annotated[int, "seeds that are trained and act as one policy, which holds the mean of their positions"] = 1
    prior: Annotated[
        str,
        "what is known before: direct, a direct policy of the training bars; expected, the rule on "
        "leadlag_expected; the folder of a run of agent=direct; or none. Agents see its wanted position, "
        "out-of-fold on the bars they learn from, and begin at it: what they do is added to it",
    ] = "none"
    prior_reach: Annotated[float, "largest change that they make to it, in halves of the range of positions"] = 1.0
    prior_bars: Annotated[int, "that the prior reads, as training has set it"] = 0

    def __post_init__(self) -> None:
        check_range(1, owner="agent", members=self.members)
        check_range(0, 2, owner="agent", prior_reach=self.prior_reach)


@dataclass(frozen=True)
class AgentOptions:
    """The section `agent`: a method by its name, and the keys of its options as they were given.

    The method reads its own by `read_options`; what any agent may have is read here.
    """

    algorithm: str = "ppo"
    options: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def configure(cls, keys: Mapping[str, Any]) -> AgentOptions:
        """From the flat keys of the group `agent`; refuses wrong ones among those that any agent may have."""
        own = {key: value for key, value in keys.items() if key != "algorithm"}
        if not isinstance(own.get("network_options") or {}, dict):
            stated = own["network_options"]
            raise ConfigError(f"agent.network_options={stated} must be a mapping, e.g. {{width: 64}}")
        agent = cls(str(keys.get("algorithm", cls.algorithm)), own)
        agent.targets  # noqa: B018  (refuses what it cannot read)
        return agent

    @property
    def network(self) -> str | None:
        """The encoder's architecture by its name; None where the method has a network of its own."""
        return self.options.get("network")

    @property
    def network_options(self) -> dict[str, Any]:
        """Fields of the architecture that differ."""
        return dict(self.options.get("network_options") or {})

    @cached_property
    def targets(self) -> TargetOptions:
        """What every agent that sets targets may have; the defaults for others."""
        given = {each.name: self.options.get(each.name) for each in dataclasses.fields(TargetOptions)}
        return configure(TargetOptions, {key: value for key, value in given.items() if value is not None}, "agent")

    def with_options(self, **options: object) -> AgentOptions:
        """The same method with other values of some keys."""
        return AgentOptions.configure(self.to_dict() | options)

    def to_dict(self) -> dict[str, Any]:
        """All keys with their values, as they are stored."""
        return {"algorithm": self.algorithm} | deepcopy(self.options)

    def __hash__(self) -> int:
        return hash(repr(self))


@dataclass(frozen=True)
class NetworkOptions:
    """The network of one agent, among the options of each method that has one.

    Any other argument of the algorithm may be added by `+agent.NAME=VALUE`, and is checked.
    """

    network: Annotated[str, "name in NETWORKS"] = "transformer_small"
    network_options: Annotated[dict[str, Any] | None, "fields of it to change"] = None
    heads: Annotated[tuple[int, ...], "widths of the hidden layers of actor and critic"] = (128,)
    extras: Annotated[
        dict[str, Any],
        "name -> options of what is added to rewards, e.g. curiosity; null leaves it out",
    ] = field(default_factory=dict)


@dataclass(frozen=True)
class MethodSpec:
    """A way to learn: what it is, in a few words, and how it learns the tasks it supports."""

    about: str
    supports: tuple[TaskSupport, ...]

    @property
    def tasks(self) -> tuple[str, ...]:
        """All tasks that it supports."""
        return tuple(task for support in self.supports for task in support.tasks)


def _read_declarations() -> dict[str, MethodSpec]:
    """The methods that files in `conf/method` declare, by name."""
    import yaml  # here: a machine that only runs a method, e.g. one with a GPU, need not have it

    declared = {}
    # Sorted: folders list files in any order, and tables of methods must not change with the machine.
    for file in sorted((files("pacesetter.conf") / "method").iterdir(), key=lambda file: file.name):
        stated = yaml.load(file.read_text(encoding="utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        supports = tuple(
            configure(TaskSupport, support, "supports")
            for support in map(_without_deleted, stated["supports"])
            if all(_is_here(support[name]) for name in ("options", "make"))
        )
        if supports:  # a family whose folder was deleted has none left
            declared[file.name.removesuffix(".yaml")] = MethodSpec(stated["about"], supports)
    return declared


def _without_deleted(support: dict[str, Any]) -> dict[str, Any]:
    """The declaration without what a deleted family makes of tasks, e.g. goals of SAC."""
    return {key: value for key, value in support.items() if key != "adapt" or _is_here(value)}


def _is_here(target: str) -> bool:
    return is_installed(target.partition(":")[0])


METHODS: Registry[MethodSpec] = Registry("method", declared=_read_declarations)


# ---- looking up -----------------------------------------------------------------------------------------------------


def find_support(name: str, task: str) -> TaskSupport:
    """How a method learns a task; refuses a pair that was not declared."""
    for support in METHODS[name].supports:
        if task in support.tasks:
            return support
    others = " or ".join(other for other in METHODS if task in METHODS[other].tasks)
    known = ", ".join(METHODS[name].tasks)
    raise ConfigError(f"agent={name} does not support task={task}, only {known}; use agent={others}")


def check_method(name: str, task: str, action: str, key: str = "task.action") -> None:
    """Refuse a method that cannot learn such actions of such a task; `key` is where they were chosen."""
    actions = find_support(name, task).actions
    if action not in actions:
        others = [
            other
            for other in METHODS
            if any(task in support.tasks and action in support.actions for support in METHODS[other].supports)
        ]
        instead = f"{key}={actions[0]}" + (f", or agent={' or '.join(others)}" if others else "")
        raise ConfigError(f"agent={name} does not support {key}={action}; use {instead}")


def sets_targets(support: TaskSupport, task: str) -> bool:
    """Whether agents of a task that it supports have the `TargetOptions`."""
    return support.targets and "target" in support.actions and task in TARGET_TASKS


def default_options(name: str, task: str) -> dict[str, object]:
    """The keys of `agent` for a method and a task with their defaults, as YAML knows them.

    For a task that it does not support they are those of the first one that it does: `find_support` says why not.
    """
    method = METHODS[name]
    support = next((each for each in method.supports if task in each.tasks), method.supports[0])
    kind = load(support.options)
    own = {key: value for key, value in dataclasses.asdict(kind()).items() if key != "seed"}  # the configuration's own
    if "extras" in own:
        from pacesetter.learning.extras.extra import EXTRAS

        # Every extra by name and switched off, so that agent.extras.NAME can be set without a `+`.
        own["extras"] = dict.fromkeys(EXTRAS)
    if sets_targets(support, task):
        own |= dataclasses.asdict(TargetOptions())
    options = {"algorithm": name} | dict(support.defaults) | {k: v for k, v in own.items() if k not in support.defaults}
    # Through JSON: tuples become lists, as in a stored configuration, so that both have one hash.
    return dict(json.loads(json.dumps(options)))


def read_options(agent: AgentOptions, task: str) -> Any:
    """The method's own options among the keys of `agent`, as its dataclass; refuses unknown ones."""
    support = find_support(agent.algorithm, task)
    beside = {*support.defaults}  # the network has options of its own
    if sets_targets(support, task):
        beside |= {each.name for each in dataclasses.fields(TargetOptions)}
    own = {key: each for key, each in agent.options.items() if key not in beside}
    return configure(load(support.options), own, "agent")
