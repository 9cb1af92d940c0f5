"""METHODS: every way to learn by its name, with the tasks and actions it supports, its options and its maker.

`agent=NAME` looks a method up here; the task decides whether it trains one agent, a fleet or a master. A package from
outside adds one by an entry point in the group `pacesetter.method`:

```python
reinforce = MethodSpec("REINFORCE", (TaskSupport(("fleet",), ("discrete",), Options, make),))
```
Classes and makers may be named as "module:attribute": they are imported when they are needed, torch with them.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pacesetter.errors import ConfigError
from pacesetter.learning.learner import Learner
from pacesetter.registry import Registry
from pacesetter.schema import renamed_sentence

__all__ = [
    "METHODS",
    "MethodSpec",
    "Setup",
    "TaskSupport",
    "check_method",
    "default_options",
    "find_support",
]

SINGLE = ("trading", "portfolio", "lookback")
ANY, BOX = ("discrete", "continuous", "hybrid", "target"), ("continuous", "hybrid", "target")


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
    train: Any
    validation: Any
    options: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    device: str = "cpu"
    network: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class TaskSupport:
    """How a method learns some tasks.

    tasks      problems, e.g. ("fleet",)
    actions    kinds of `task.action` it can learn
    options    frozen dataclass whose fields are keys of `agent`
    make       from a `Setup` to a learner
    defaults   keys of `agent` beside or instead of those of the dataclass, e.g. the network
    """

    tasks: tuple[str, ...]
    actions: tuple[str, ...]
    options: type[Any] | str
    make: Callable[[Setup], Learner] | str
    defaults: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class MethodSpec:
    """A way to learn: what it is, in a few words, and how it learns the tasks it supports."""

    about: str
    supports: tuple[TaskSupport, ...]

    @property
    def tasks(self) -> tuple[str, ...]:
        """All tasks that it supports."""
        return tuple(task for support in self.supports for task in support.tasks)


METHODS: Registry[MethodSpec] = Registry("method")


def _single(name: str, about: str, options: str, actions: tuple[str, ...], *more: TaskSupport) -> None:
    """Register a Stable-Baselines3 algorithm, with what learns other tasks under the same name."""
    where = f"pacesetter.learning.sb3.options:{options}"
    single = TaskSupport(SINGLE, actions, where, "pacesetter.learning.sb3.making:make_learner")
    METHODS.add(name, MethodSpec(about, (single, *more)))


_NETWORK = {"network": "mlp_small", "network_options": None, "heads": [64]}  # one encoder for all symbols of a fleet
_MASTER = {
    "network_options": {
        "width": 32,
        "heads": 2,
        "layers": 1,
        "hidden": 32,
        "follow": 3.0,
        "deviation": 1.0,
        "entries": ["proposals", "confidence", "leadlag", "regime", "supervised", "position"],
    },
    "n_steps": 16,  # portfolios are few and their episodes alike: short rounds
}
_single(
    "ppo",
    "proximal policy optimisation",
    "PPOOptions",
    ANY,
    TaskSupport(
        ("fleet",),
        ("discrete", "continuous", "target"),
        "pacesetter.learning.fleet.ppo:FleetPPO",
        "pacesetter.learning.fleet.making:make_ppo",
        _NETWORK,
    ),
    TaskSupport(
        ("master",),
        ("target",),
        "pacesetter.learning.fleet.master:MasterPPO",
        "pacesetter.learning.fleet.making:make_master",
        _MASTER,
    ),
)
_single("a2c", "advantage actor–critic", "A2COptions", ANY)
_single(
    "sac",
    "soft actor–critic",
    "SACOptions",
    BOX,
    TaskSupport(
        ("fleet",),
        ("continuous", "target"),
        "pacesetter.learning.fleet.sac:FleetSAC",
        "pacesetter.learning.fleet.making:make_sac",
        _NETWORK,
    ),
)
_single("td3", "twin delayed deep deterministic policy gradient", "TD3Options", BOX)
_single("maskable_ppo", "PPO that never sends an order the market would not take", "PPOOptions", ("discrete",))
_single("recurrent_ppo", "PPO with an LSTM between encoder and heads", "PPOOptions", ANY)
METHODS.add(
    "direct",
    MethodSpec(
        "direct reinforcement through a differentiable ledger (Moody and Saffell 2001)",
        (
            TaskSupport(
                ("fleet", "portfolio", "trading"),
                ANY,  # whatever the task's orders are, it names targets of one account
                "pacesetter.learning.direct.options:Direct",
                "pacesetter.learning.direct.learner:make_direct",
            ),
        ),
    ),
)


# ---- looking up -----------------------------------------------------------------------------------------------------


def find_method(name: str) -> MethodSpec:
    """The method of that name; refuses an unknown one, and one that was renamed by its new name."""
    if sentence := renamed_sentence("agent", name):
        raise ConfigError(sentence)
    return METHODS[name]


def find_support(name: str, task: str) -> TaskSupport:
    """How a method learns a task; refuses a pair that was not declared."""
    for support in find_method(name).supports:
        if task in support.tasks:
            return support
    others = " or ".join(other for other in METHODS if task in METHODS[other].tasks)
    known = ", ".join(METHODS[name].tasks)
    raise ConfigError(f"agent={name} does not support task={task}, only {known}; use agent={others}")


def check_method(name: str, task: str, action: str, key: str = "task.action") -> None:
    """Refuse a method that cannot learn such actions of such a task; `key` is where they were chosen."""
    actions = find_support(name, task).actions
    if action not in actions:
        others = [other for other in METHODS if _can_learn(METHODS[other], task, action)]
        instead = f"{key}={actions[0]}" + (f", or agent={' or '.join(others)}" if others else "")
        raise ConfigError(f"agent={name} does not support {key}={action}; use {instead}")


def _can_learn(method: MethodSpec, task: str, action: str) -> bool:
    return any(task in support.tasks and action in support.actions for support in method.supports)


def default_options(name: str, task: str) -> dict[str, Any]:
    """The keys of `agent` for a method and a task with their defaults, as YAML knows them.

    For a task that it does not support they are those of the first one that it does: `find_support` says why not.
    """
    method = find_method(name)
    support = next((each for each in method.supports if task in each.tasks), method.supports[0])
    kind = load(support.options)
    own = {key: value for key, value in dataclasses.asdict(kind()).items() if key != "seed"}  # the configuration's own
    if "extras" in own:
        from pacesetter.learning.extras.extra import EXTRAS

        own["extras"] = dict.fromkeys(EXTRAS)
    told = {"algorithm": name} | dict(support.defaults) | {k: v for k, v in own.items() if k not in support.defaults}
    return dict(json.loads(json.dumps(told)))


def load(target: Any) -> Any:
    """An object as it is, or the one at "module:attribute"."""
    if not isinstance(target, str):
        return target
    module, _, attribute = target.partition(":")
    return getattr(importlib.import_module(module), attribute)
