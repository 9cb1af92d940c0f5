"""The frozen configuration of a job, read from a run or typed today, and the study and the task that it asks for."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cached_property
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

from pacesetter.build.sections import Evaluation, Features, MainJob, Programme, Track, Train
from pacesetter.build.tasks.task import TASKS, Task
from pacesetter.data.loading import source_and_loading
from pacesetter.errors import ConfigError, RunError, check_range, did_you_mean
from pacesetter.leadlag.study import Study, configure_study
from pacesetter.leadlag.windows import is_span
from pacesetter.learning.methods import METHODS, load
from pacesetter.market.risk import RiskOptions
from pacesetter.panel import Panel
from pacesetter.registry import configure
from pacesetter.runs import Run, check_schema, config_hash

__all__ = [
    "Config",
    "build_study",
    "build_task",
    "has_prior",
    "learned_window_bars",
    "parse_config",
    "read_config",
    "stored_hash",
    "task_of",
]

LEADER_TASKS = ("fleet", "trading", "master")  # whose networks may attend to leaders; of a master, its advisers'
LEADER_LOOKBACK = 250  # increments in the window of the lead–lag matrix where none is given, as in a study
LARGEST_SEED = 2**32 - 1  # that NumPy's global generator takes, which Stable-Baselines3 seeds


@dataclass(frozen=True)
class Config:
    """A whole job.

    name    names the run
    runs    folder that run folders go to
    seed    of everything random; sources with a seed take this one unless they are given another
    data    `source` and its options
    lag     the lead–lag study: its own keys, and those of the engine and its estimator
    task    `problem` (lookback, two_level, trading, portfolio, fleet, master) and its options
    agent   `algorithm`, `network`, `network_options`, `heads`, and the algorithm's hyperparameters
    risk    how much risk the account takes, and around which base; off by default
    """

    name: str = "run"
    runs: str = "runs"
    seed: int = 0
    data: dict[str, Any] = field(default_factory=lambda: {"source": "sample"})
    features: Features = field(default_factory=Features)
    lag: dict[str, Any] = field(default_factory=dict)
    task: dict[str, Any] = field(default_factory=lambda: {"problem": "trading"})
    agent: dict[str, Any] = field(default_factory=lambda: {"algorithm": "ppo"})
    risk: RiskOptions = field(default_factory=RiskOptions)
    train: Train = field(default_factory=Train)
    track: Track = field(default_factory=Track)
    job: MainJob = field(default_factory=MainJob)
    evaluation: Evaluation = field(default_factory=Evaluation)
    programme: Programme = field(default_factory=Programme)

    def __post_init__(self) -> None:
        if not self.name or not all(letter.isalnum() or letter in "_-." for letter in self.name):
            raise ConfigError(f"name='{self.name}' names a folder: letters, digits, '-', '_' and '.' only")
        check_range(0, LARGEST_SEED, seed=self.seed)
        # Everything below is built once here, so that a wrong option fails before data is loaded or a folder made.
        if "source" not in self.data:
            raise ConfigError("data needs a source: data=sample, data=synthetic, data=csv …")
        if not isinstance(self.agent.get("network_options") or {}, dict):
            network_options = self.agent["network_options"]
            raise ConfigError(f"agent.network_options={network_options} must be a mapping, e.g. {{width: 64}}")
        sizes = _network(self.agent)
        if hasattr(sizes, "leaders"):
            # Before the study and the task are built, which read the features.
            object.__setattr__(self, "features", _with_leaders(self, sizes))
        build_study(self)
        build_task(self)
        source_and_loading(self.data["source"], self.data_options)  # a wrong option fails before a folder is made

    @property
    def data_options(self) -> dict[str, Any]:
        """The source's options without `source`, those that are not set left out."""
        return {key: value for key, value in self.data.items() if value is not None and key != "source"}

    @cached_property
    def problem(self) -> Task:
        """The configured task as the agent's method learns it."""
        task, name = TASKS[_problem(self)], str(self.agent.get("algorithm", ""))
        supports = METHODS[name].supports if name in METHODS else ()
        # A method that does not learn the task is refused where the learner is built.
        adapt = next((each.adapt for each in supports if task.learned_as in each.tasks), None)
        adapted: Task = task if adapt is None else load(adapt)(task, self.agent)
        return adapted

    def to_dict(self) -> dict[str, Any]:
        """Plain nested dictionary, as it is stored and hashed."""
        return dataclasses.asdict(self)


# Networks whose sizes need no check, with the bars that they remember where they decide it. Their registry knows the
# same, but torch takes two seconds to import.
PLAIN_NETWORKS: dict[str, int | None] = {
    **dict.fromkeys(("mlp", "mlp_small", "mlp_tiny", "transformer", "transformer_medium", "transformer_small")),
    "stream": 93,
    "stream_small": 47,
}


def _network(agent: dict[str, Any]) -> Any:
    """The agent's network with its options, not built yet; None where none is named, or one of the method's own."""
    if agent.get("network") in PLAIN_NETWORKS and not agent.get("network_options"):
        return SimpleNamespace(memory_bars=PLAIN_NETWORKS[agent["network"]])
    # Without torch, as where only baselines are played, no network is ever built.
    if not (agent.get("network") and find_spec("torch")):
        return None
    from pacesetter.agents.encoders import OF_DIRECT, network

    if agent["network"] in OF_DIRECT:  # not an encoder: its method solves it, and refuses it where it does not
        return None
    return network(agent["network"], **(agent.get("network_options") or {}))


def _with_leaders(config: Config, sizes: Any) -> Features:
    """The features with the leaders that the network attends to; refuses a task whose agents see no symbol's own.

    They are written into the configuration, so that evaluation, bundles and servers show what training did.
    """
    problem = _problem(config)
    if problem not in LEADER_TASKS:
        raise ConfigError(
            f"agent.network={config.agent['network']} attends to the leaders of one symbol; take task=fleet or "
            f"task=trading, or another network for task={problem}"
        )
    asked = config.features.leadlag
    lookback = asked.lookback if asked.is_on else LEADER_LOOKBACK
    leadlag = dataclasses.replace(asked, lookback=lookback, leaders=sizes.leaders, leader_lags=sizes.lags)
    return dataclasses.replace(config.features, leadlag=leadlag)


def read_config(run: Run) -> Config:
    """The configuration that a run was made with; refuses a folder without a readable one."""
    return parse_config(_read_stored(run), f"{run.folder}/config.yaml")


def stored_hash(run: Run) -> str:
    """The hash of a run's configuration as it was stored: the one in the run's name, whatever it is read as today."""
    # Of the stored text, not of today's translation: old runs keep the name that they were given.
    return config_hash({key: value for key, value in _read_stored(run).items() if key != "schema"})


def _read_stored(run: Run) -> dict[str, Any]:
    import yaml

    try:
        text = (run.folder / "config.yaml").read_text(encoding="utf-8")
        plain = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (OSError, yaml.YAMLError) as problem:
        why = " ".join(str(problem).split())  # YAML says it in several lines
        raise RunError(f"{run.folder}/config.yaml cannot be read ({why}); the run is damaged") from problem
    if not isinstance(plain, dict):
        raise RunError(f"{run.folder}/config.yaml is not a mapping; the run is damaged")
    return plain


def parse_config(stored: Mapping[str, Any], what: str = "the stored configuration") -> Config:
    """A configuration as it was stored; `what` names it in a refusal."""
    if not isinstance(stored, Mapping):
        raise RunError(f"{what} is not a mapping; it is damaged")
    check_schema(stored, what)
    return configure(Config, deepcopy({key: value for key, value in stored.items() if key != "schema"}), "config")


def build_study(config: Config, panel: Panel | None = None) -> Study:
    """The lead–lag study the configuration asks for.

    Where `lag.lookback` is the folder of a lookback agent, and not a length of time such as 30D, its window is the one
    that the agent has in force at the study's last bar of the panel; without a panel it stays the default.
    """
    lag = dict(config.lag)
    if isinstance(lag.get("lookback"), str) and not is_span(lag["lookback"]):
        folder = lag.pop("lookback")
        if panel is not None:
            from pacesetter.build.stored import window_at_end

            lag["lookback"] = window_at_end(folder, panel.between(end=lag.get("end")))
    return configure_study(lag, config.seed)


def _problem(config: Config) -> str:
    problem = str(config.task.get("problem", ""))
    if problem not in TASKS:
        raise ConfigError(f"task.problem='{problem}' is unknown{did_you_mean(problem, TASKS)}")
    return problem


def task_of(config: Config) -> Task:
    """The configured problem as the agent's method learns it; refuses an unknown one."""
    return config.problem


def has_prior(config: Config) -> bool:
    """Whether the agent begins at a prior."""
    return config.agent.get("prior", "none") not in ("none", None)


def build_task(config: Config) -> Any:
    """The options of the configured problem; refuses an unknown problem or option.

    With a prior, windows are as long as that reads them; see `learned_window_bars`.
    """
    task = _own_task(config)
    bars = int(config.agent.get("prior_bars") or 0)
    return dataclasses.replace(task, window_bars=max(task.window_bars, bars)) if bars else task


def learned_window_bars(config: Config) -> int:
    """Bars of the window that the agent itself sees, without those that only its prior reads."""
    return int(_own_task(config).window_bars)


def _own_task(config: Config) -> Any:
    options = {name: value for name, value in config.task.items() if name != "problem"}
    task = config.problem
    given = configure(task.config, options, "task")
    # Conditions first: they may replace the reward, and windows are set on what they give.
    asked = given if task.conditions is None else task.conditions.task(given)
    if task.history_bars:
        return dataclasses.replace(asked, window_bars=max(asked.window_bars, task.history_bars))
    return _with_memory(asked, config.agent)


def _with_memory(task: Any, agent: dict[str, Any]) -> Any:
    """The task with windows as long as the network's answers depend on, where the network says so."""
    sizes = _network(agent) if hasattr(task, "window_bars") else None
    bars = None if sizes is None else sizes.memory_bars
    return task if bars is None else dataclasses.replace(task, window_bars=bars)
