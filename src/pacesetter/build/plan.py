"""The frozen plan of a job, read from a run or typed today, and the task that it asks for."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar

from pacesetter.agents.agent import METHOD_NETWORKS
from pacesetter.build.sections import Evaluation, Features, Programme, Track, Train
from pacesetter.build.study import StudyPlan, as_mapping, read_sections
from pacesetter.build.tasks.task import TASKS, Task
from pacesetter.build.trading import Trading
from pacesetter.envs.task_options import TaskOptions
from pacesetter.errors import ConfigError, RunError, did_you_mean
from pacesetter.late import load
from pacesetter.learning.methods import METHODS, AgentOptions
from pacesetter.market.parameters import MarketParameters
from pacesetter.market.risk import RiskOptions
from pacesetter.registry import configure
from pacesetter.runs import Run, check_schema, config_hash, read_yaml

if TYPE_CHECKING:
    from pacesetter.envs.lookback.batch import LookbackConfig

__all__ = [
    "Plan",
    "has_prior",
    "parse_plan",
    "plain_task",
    "read_plan",
    "stored_hash",
]

Options = TypeVar("Options", bound=TaskOptions)

LEADER_TASKS = ("fleet", "trading", "master")  # whose networks may attend to leaders; of a master, its advisers'
LEADER_LOOKBACK = 250  # increments in the window of the lead–lag matrix where none is given, as in a study


@dataclass(frozen=True)
class Plan(StudyPlan):
    """A whole job, as it is run: everything after `resolve` reads it."""

    features: Features = field(default_factory=Features)
    task: Annotated[
        TaskOptions,
        "options of the problem (lookback, two_level, trading, portfolio, fleet, master) as the agent learns it",
    ] = field(default_factory=Trading)
    agent: Annotated[AgentOptions, "the method that learns, with its options"] = field(default_factory=AgentOptions)
    risk: Annotated[
        RiskOptions,
        "how much risk the account takes, and around which base; off by default",
    ] = field(default_factory=RiskOptions)
    train: Train = field(default_factory=Train)
    track: Track = field(default_factory=Track)
    evaluation: Evaluation = field(default_factory=Evaluation)
    programme: Programme = field(default_factory=Programme)

    def __post_init__(self) -> None:
        super().__post_init__()
        sizes = _network_sizes(self.agent)
        if sizes.leaders:
            # Before the task is adapted, which reads the features.
            object.__setattr__(self, "features", _with_leaders(self, sizes))
        # What is written is what is used: windows as long as the agent reads them, the reward it is trained by.
        object.__setattr__(self, "task", _adapt_task(self))

    __hash__ = StudyPlan.__hash__  # a dataclass of its own would hash field by field

    @cached_property
    def problem(self) -> Task:
        """The task as the agent's method learns it: what training, evaluation and bundles do with it."""
        task, name = TASKS[self.task.problem], self.agent.algorithm
        supports = METHODS[name].supports if name in METHODS else ()
        # A method that does not learn the task is refused where the learner is built.
        adapt = next((each.adapt for each in supports if task.learned_as in each.tasks), None)
        adapted: Task = task if adapt is None else load(adapt)(task, self.agent)
        return adapted

    @property
    def symbols(self) -> tuple[str, ...]:
        return tuple(self.task.symbols)

    @property
    def trading(self) -> Trading:
        """Options of a task that trades, as its policy is played; refuses windows."""
        return self.task_as(Trading)

    @property
    def learned_window_bars(self) -> int:
        """Bars of the window that the agent itself sees, without those that only its prior reads."""
        assert isinstance(self.task, Trading)
        return self.task.window_bars

    @property
    def lookback(self) -> LookbackConfig:
        """Options of a task that chooses windows; refuses one that trades."""
        from pacesetter.envs.lookback.batch import LookbackConfig  # here: few plans choose windows

        return self.task_as(LookbackConfig)

    @property
    def market(self) -> MarketParameters:
        """Rules of the account; the usual ones of a task that has none."""
        return self.task.market if isinstance(self.task, Trading) else MarketParameters()

    def task_as(self, kind: type[Options]) -> Options:
        """The task's options as its policy is played, known to be of a kind; refuses another.

        With a prior, windows are as long as that reads them; see `learned_window_bars`.
        """
        if not isinstance(self.task, kind):
            raise ConfigError(f"task={self.task.problem} has no options of task={kind.problem}; use a run of that task")
        task: Any = self.task
        bars = self.agent.targets.prior_bars
        played: Options = dataclasses.replace(task, window_bars=max(task.window_bars, bars)) if bars else task
        return played

    def to_dict(self) -> dict[str, Any]:
        """Plain nested dictionary, as it is stored and hashed."""
        return super().to_dict() | {"task": plain_task(self.task), "agent": self.agent.to_dict()}


def plain_task(task: TaskOptions) -> dict[str, Any]:
    """The options of a task as the group `task` holds them."""
    options = dataclasses.asdict(task)  # type: ignore[call-overload]
    options.get("market", {}).pop("bars_per_year", None)  # the panel's own
    # Through JSON: tuples become lists, as YAML knows them.
    return {"problem": task.problem} | dict(json.loads(json.dumps(options)))


# Networks whose sizes need no check, with the bars that they remember where they decide it. Their registry knows the
# same, but torch takes two seconds to import.
PLAIN_NETWORKS: dict[str, int | None] = {
    **dict.fromkeys(("mlp", "mlp_small", "mlp_tiny", "transformer", "transformer_medium", "transformer_small")),
    "stream": 93,
    "stream_small": 47,
}


class NetworkSizes(NamedTuple):
    """What a network asks of its windows and features: bars that it remembers, leaders, and their last moves."""

    memory_bars: int | None = None
    leaders: int = 0
    lags: int = 0


def _network_sizes(agent: AgentOptions) -> NetworkSizes:
    """Of the agent's network with its options; nothing where none is named, or one of the method's own."""
    name, options = agent.network, agent.network_options
    if name in PLAIN_NETWORKS and not options:
        return NetworkSizes(PLAIN_NETWORKS[name])
    # A method's own network has no encoder. Without torch, where only baselines are played, none is ever built.
    if not name or name in METHOD_NETWORKS or not find_spec("torch"):
        return NetworkSizes()
    from pacesetter.agents.cross import Cross
    from pacesetter.agents.encoders import network

    sizes = network(name, **options)
    if isinstance(sizes, Cross):
        return NetworkSizes(sizes.memory_bars, sizes.leaders, sizes.lags)
    return NetworkSizes(sizes.memory_bars)


def _with_leaders(config: Plan, sizes: NetworkSizes) -> Features:
    """The features with the leaders that the network attends to; refuses a task whose agents see no symbol's own.

    They are written into the configuration, so that evaluation, bundles and servers show what training did.
    """
    problem = config.task.problem
    if problem not in LEADER_TASKS:
        raise ConfigError(
            f"agent.network={config.agent.network} attends to the leaders of one symbol; take task=fleet or "
            f"task=trading, or another network for task={problem}"
        )
    asked = config.features.leadlag
    lookback = asked.lookback if asked.is_on else LEADER_LOOKBACK
    leadlag = dataclasses.replace(asked, lookback=lookback, leaders=sizes.leaders, leader_lags=sizes.lags)
    return dataclasses.replace(config.features, leadlag=leadlag)


def read_plan(run: Run) -> Plan:
    """The configuration that a run was made with; refuses a folder without a readable one."""
    return _parse_text(_read_text(run), f"{run.folder}/config.yaml")


@lru_cache(maxsize=8)
def _parse_text(text: str, what: str) -> Plan:
    """Kept by the text itself: each stage of a pipeline asks for the plans of those before it."""
    return parse_plan(_read_mapping(text, what), what)


def stored_hash(run: Run) -> str:
    """The hash of a run's configuration as it was stored: the one in the run's name, whatever it is read as today."""
    # Of the stored text, not of today's translation: old runs keep the name that they were given.
    return config_hash({key: value for key, value in _read_stored(run).items() if key != "schema"})


def _read_stored(run: Run) -> dict[str, object]:
    return _read_mapping(_read_text(run), f"{run.folder}/config.yaml")


def _read_text(run: Run) -> str:
    try:
        return (run.folder / "config.yaml").read_text(encoding="utf-8")
    except OSError as problem:
        raise _unreadable(f"{run.folder}/config.yaml", problem) from problem


def _read_mapping(text: str, what: str) -> dict[str, object]:
    import yaml

    try:
        plain = read_yaml(text)
    except yaml.YAMLError as problem:
        raise _unreadable(what, problem) from problem
    if not isinstance(plain, dict):
        raise RunError(f"{what} is not a mapping; the run is damaged")
    return plain


def _unreadable(what: str, problem: Exception) -> RunError:
    why = " ".join(str(problem).split())  # YAML says it in several lines
    return RunError(f"{what} cannot be read ({why}); the run is damaged")


def parse_plan(stored: Mapping[str, Any], what: str = "the stored configuration") -> Plan:
    """A configuration from plain keys, as it is stored or composed; `what` names it in a refusal."""
    if not isinstance(stored, Mapping):
        raise RunError(f"{what} is not a mapping; it is damaged")
    check_schema(stored, what)
    plain = read_sections({key: deepcopy(value) for key, value in stored.items() if key != "schema"})
    if "agent" in plain:
        plain["agent"] = AgentOptions.configure(as_mapping(plain["agent"], "agent"))
    if "task" in plain:
        plain["task"] = _read_task(plain["task"])
    return configure(Plan, plain, "config")


def _read_task(plain: Mapping[str, object]) -> TaskOptions:
    if not isinstance(plain, Mapping):
        raise ConfigError(f"task={plain!r} must be a mapping, e.g. {{problem: fleet}}")
    problem = str(plain.get("problem", ""))
    if problem not in TASKS:
        raise ConfigError(f"task.problem='{problem}' is unknown{did_you_mean(problem, TASKS)}")
    kind: type[TaskOptions] = TASKS[problem].config
    if kind.problem != problem:
        raise ConfigError(f"options of task={problem} are of another; write problem = '{problem}' in {kind.__name__}")
    return configure(kind, {key: value for key, value in plain.items() if key != "problem"}, "task")


def has_prior(config: Plan) -> bool:
    """Whether the agent begins at a prior."""
    return config.agent.targets.prior != "none"


def _adapt_task(config: Plan) -> TaskOptions:
    """The task as the agent learns it: what it is asked for, and windows as long as it reads them."""
    task, asked = config.problem, config.task
    # Conditions first: they may replace the reward, and windows are set on what they give.
    if task.conditions is not None:
        asked = task.conditions.task(asked)
    if not isinstance(asked, Trading):
        return asked
    if task.history_bars:
        return dataclasses.replace(asked, window_bars=max(asked.window_bars, task.history_bars))
    bars = _network_sizes(config.agent).memory_bars
    return asked if bars is None else dataclasses.replace(asked, window_bars=bars)
