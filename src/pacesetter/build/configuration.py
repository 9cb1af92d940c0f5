"""The frozen configuration of a job: what goes in, what is learned and how; wrong values are refused."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, Literal

from pacesetter.build.tasks.task import TASKS, Task
from pacesetter.data.loading import source_and_loading
from pacesetter.errors import ConfigError, RunError, check_range, did_you_mean
from pacesetter.leadlag.estimators.estimator import ESTIMATORS
from pacesetter.leadlag.lookback.policy import ConstantLookback
from pacesetter.leadlag.shrinkage import DEFAULT_SHRINKAGE
from pacesetter.leadlag.study import Study, configure_study
from pacesetter.leadlag.windows import is_span
from pacesetter.learning.conditions import Conditions, conditions_of
from pacesetter.learning.methods import METHODS, TaskSupport, load
from pacesetter.old_names import RENAMED_VALUES, translate_config
from pacesetter.panel import Panel
from pacesetter.registry import configure
from pacesetter.rewards.schedule import Schedule
from pacesetter.runs import Run, config_hash

__all__ = [
    "Config",
    "Evaluation",
    "FailSafe",
    "Features",
    "Gates",
    "LeadLagFeatures",
    "MainJob",
    "Programme",
    "Track",
    "Train",
    "build_study",
    "build_task",
    "check_shares",
    "one_account_options",
    "parse_config",
    "read_config",
    "stored_hash",
    "task_of",
]

CROSS = "cross"  # a network that needs more of the observation than others, by its first word
CROSS_TASKS = ("fleet", "trading", "master")  # a master's own network is another one; its advisers' may be this
LEADER_LOOKBACK = 250  # increments in the window of the lead–lag matrix where none is given, as in a study
LARGEST_SEED = 2**32 - 1  # that NumPy's global generator takes, which Stable-Baselines3 seeds


@dataclass(frozen=True)
class LeadLagFeatures:
    """Lead–lag features of the table, see `leadlag.signals`; without a lookback there are none.

    lookback        increments in the window, or the run folder of a lookback agent, which then chooses them at each bar
    method          estimator of the matrix
    gap_bars        to the matrix that instability is measured against
    expected_lags   bars between a move and what it lets expect, at most
    expected_lookback   increments in the window of `leadlag_expected`; None for that of the others
    shrinkage       of the correlations behind `leadlag_expected`: soft, garrote or hard, see `leadlag.shrinkage`
    leaders         of each symbol that are shown with their moves of the last `leader_lags` bars; agent.network=cross
                    sets both by its own options
    """

    lookback: int | str | None = None
    method: str = "ccf_auc"
    gap_bars: int = 20
    expected_lags: int = 5
    expected_lookback: int | None = None
    shrinkage: Literal["soft", "garrote", "hard"] = DEFAULT_SHRINKAGE
    leaders: int = 0
    leader_lags: int = 5

    @property
    def options(self) -> dict[str, Any]:
        """Options of `leadlag_features` beside the method and the policy."""
        named = ("gap_bars", "expected_lags", "expected_lookback", "shrinkage", "leaders", "leader_lags")
        return {name: getattr(self, name) for name in named}

    def __post_init__(self) -> None:
        if self.method not in ESTIMATORS:
            raise ConfigError(
                f"features.leadlag.method='{self.method}' is unknown{did_you_mean(self.method, ESTIMATORS)}"
            )
        check_range(1, owner="features.leadlag", gap_bars=self.gap_bars, expected_lags=self.expected_lags)
        check_range(0, owner="features.leadlag", leaders=self.leaders)
        check_range(1, owner="features.leadlag", leader_lags=self.leader_lags)
        if isinstance(self.lookback, int):
            # A path is checked when the panel is there, since the agent must have been trained on earlier bars.
            ConstantLookback(self.lookback)  # refuses a window without a lead and a lag
        if self.expected_lookback is not None:
            ConstantLookback(self.expected_lookback)
        if self.leaders and self.lookback is not None:
            self._check_leaders()

    def _check_leaders(self) -> None:
        """Refuse delays that no window of theirs holds; a lookback agent's windows are checked where they are known."""
        own = self.lookback if self.expected_lookback is None else self.expected_lookback
        if isinstance(own, int) and self.leader_lags >= own:
            raise ConfigError(
                f"the last {self.leader_lags} moves of the leaders do not fit into a window of {own} bars; give "
                "agent.network_options={lags:5}, or a longer features.leadlag.lookback"
            )


@dataclass(frozen=True)
class Features:
    """Which features the table holds; none named means every registered one the panel can carry.

    supervised   folder of a direction classifier, as `pacesetter baseline sl` stores it, whose probabilities agents see
    normaliser   of an agent's features: running counts them while it learns; zscore, minmax and robust are fitted once
                 to the training set
    """

    names: tuple[str, ...] = ()
    leadlag: LeadLagFeatures = field(default_factory=LeadLagFeatures)
    supervised: str | None = None
    normaliser: Literal["running", "zscore", "minmax", "robust"] = "running"


def check_shares(owner: str, shares: tuple[float, float]) -> None:
    """Refuse shares of the bars that leave no test set."""
    first, second = shares
    if not (first > 0 and second >= 0 and first + second < 1):
        raise ConfigError(
            f"{owner}.shares={list(shares)} must leave a test set: training above 0, validation 0 or more, and "
            "both together below 1"
        )


@dataclass(frozen=True)
class Gates:
    """Limits of the collapse monitor, as shares.

    max_share      most that one discrete action, or one of sell, hold and buy, may take of all
    min_trades     least share of steps with a trade, and with one that the agent asked for
    min_coverage   least share of a continuous action's 20 bins that are used
    min_histogram  least entropy of those 20 bins, as a share of the entropy of equal use
    min_spread     least share of the actions that the stochastic policy's entropy amounts to

    Not measured where null; the preset `recovery` sets them all:

    min_entropy      least entropy in nats of a continuous action's 20 bins; of orders `min_histogram` of the most
    min_distinct     least share of different actions in a sliding 20
    min_round_trips  least number of positions closed in full, per 1,000 steps
    min_states       least share of the states (position × unrealised return × regime) that are visited
    temperature      of one more stochastic play, beside the deterministic one; `episodes` of it at least
    constant         whether the policy must beat the best constant action after costs
    oracle           whether the oracle's values are measured beside, where the market's truth is known
    """

    max_share: float = 0.6
    min_trades: float = 0.05
    min_coverage: float = 0.5
    min_histogram: float = 0.5
    min_spread: float = 0.02
    min_entropy: float | None = None
    min_distinct: float | None = None
    min_round_trips: float | None = None
    min_states: float | None = None
    temperature: float | None = None
    episodes: int = 10
    constant: bool = False
    oracle: bool = False

    def __post_init__(self) -> None:
        shares = (
            "max_share",
            "min_trades",
            "min_coverage",
            "min_histogram",
            "min_spread",
            "min_distinct",
            "min_states",
        )
        for name in shares:
            value = getattr(self, name)
            if value is not None and not 0 <= value <= 1:
                raise ConfigError(f"train.gates.{name}={value} must be a share, from 0 to 1")
        for name in ("min_entropy", "min_round_trips", "temperature"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ConfigError(f"train.gates.{name}={value} must be above 0, or null to leave it out")
        check_range(1, owner="train.gates", episodes=self.episodes)

    @property
    def is_traced(self) -> bool:
        """Whether anything is measured beyond what every validation measures."""
        limits = (self.min_entropy, self.min_distinct, self.min_round_trips, self.min_states, self.temperature)
        return self.constant or any(limit is not None for limit in limits)


@dataclass(frozen=True)
class FailSafe:
    """When a run stops itself with a dump of diagnostics; NaN in weights, losses or rewards always stops it.

    max_loss    a loss above it is divergence
    max_weight  and so is a weight above it
    collapse    what failed gates of the stochastic policy do: warn, or stop after `patience` validations in a row
    """

    max_loss: float = 1e8
    max_weight: float = 1e4
    collapse: Literal["warn", "stop"] = "warn"
    patience: int = 3


@dataclass(frozen=True)
class Track:
    """Where metrics go beside metrics.jsonl.

    mlflow   auto: the embedded store beside the runs where MLflow is installed; off; or the URI of a server
    wandb    off, offline or online
    """

    progress: bool = True
    tensorboard: Literal["auto", "on", "off"] = "auto"
    mlflow: str = "auto"
    wandb: Literal["off", "offline", "online"] = "off"


@dataclass(frozen=True)
class Train:
    """How an agent is trained; steps are environment steps, all environments together.

    seeds              runs, with seeds from `seed` on
    threads            of torch, None its own choice; results repeat for an equal number
    shares             of the bars for training and validation; the rest is the test set, which training never sees
    purge_bars         left out before each boundary
    folds, fold        expanding walk-forward: of `folds` equal stretches the run sees those up to number `fold`, from 0
    validate_every     steps between validations; 0 is never
    checkpoint_every   steps between checkpoints; 0 is at the end only
    patience           validations without a better score after which the run stops; None never does
    best_by            what the best agent is chosen by: the task's score, or the annualised Sharpe ratio
    schedules          hyperparameter -> schedule over steps, e.g. learning_rate
    init_from          run folder whose best weights are taken where they fit, or a stored direction classifier
    freeze             parts of the policy that stay as they are: encoder, or a module of it
    log_episodes       keep every training episode of a fleet under `episodes/`, as a dataset to learn from
    """

    steps: int = 100_000
    envs: int = 16
    seeds: int = 1
    threads: int | None = 1
    device: str = "cpu"
    shares: tuple[float, float] = (0.6, 0.2)
    purge_bars: int = 0
    folds: int = 1
    fold: int = 0
    log_every: int = 1_000
    validate_every: int = 10_000
    checkpoint_every: int = 10_000
    patience: int | None = None
    best_by: Literal["score", "sharpe"] = "score"
    schedules: dict[str, Schedule] | None = None
    gates: Gates = field(default_factory=Gates)
    fail_safe: FailSafe = field(default_factory=FailSafe)
    init_from: str | None = None
    freeze: tuple[str, ...] = ()
    log_episodes: bool = False

    def __post_init__(self) -> None:
        counts = {name: getattr(self, name) for name in ("steps", "envs", "seeds", "log_every")}
        check_range(1, owner="train", **counts)
        check_range(0, owner="train", validate_every=self.validate_every, checkpoint_every=self.checkpoint_every)
        check_range(0, owner="train", purge_bars=self.purge_bars, threads=self.threads or 0)
        check_shares("train", self.shares)
        # Fold k sees stretches 0 … k, so the last fold is the whole panel.
        if not 0 <= self.fold < self.folds:
            raise ConfigError(f"train.fold={self.fold} must be below train.folds={self.folds}, counted from 0")
        if self.patience is not None and (self.patience < 1 or not self.validate_every):
            raise ConfigError("train.patience counts validations; give 1 or more, and train.validate_every above 0")


@dataclass(frozen=True)
class MainJob:
    """How long the main job trains.

    lookback         run folder of a lookback agent that is trained already; None trains one
    lookback_steps   environment steps of the agent that chooses the window
    direct_steps     bars of accounts in which a direct policy, the default, learns its shape
    fleet_steps      of each trading agent of another method, e.g. agent=ppo
    master_steps     of all portfolios in which the master learns
    draws            of the bootstrap behind every interval
    memory_mb        budget of the whole job, by which tables are sized; None: none. Less than the bars take is refused
    fast             leave out stressed markets, other limits and explanations; the verdict and its gates stay whole
    """

    lookback: str | None = None
    lookback_steps: int = 20_000
    direct_steps: int = 61_440
    fleet_steps: int = 10_000
    master_steps: int = 10_000
    draws: int = 2_000
    memory_mb: int | None = None
    fast: bool = False

    def __post_init__(self) -> None:
        counts = ("lookback_steps", "direct_steps", "fleet_steps", "master_steps", "draws")
        check_range(1, owner="job", memory_mb=self.memory_mb or 1, **{name: getattr(self, name) for name in counts})


@dataclass(frozen=True)
class Programme:
    """How `pacesetter programme` goes through its phases.

    symbols        of the prototype; where the data lacks one of them, as many of its first symbols stand in
    trials         of the search on the prototype; 0 leaves tuning out
    search         keys to search with their values, e.g. ["agent.gamma=0.9,0.99"]; empty: the method's usual ones
    top            best trials that are retrained on all symbols
    gain           share by which one of them must be above the default to be taken
    folds          of the walk-forward validation; 0 leaves it out, and its gate is then not measured
    most_symbols   of the fleet after a prototype that is CONDITIONAL
    networks       direction classifiers that are trained beside ridge and lasso: mlp, lstm, gru
    """

    symbols: tuple[str, ...] = ("SPY", "QQQ", "AAPL", "MSFT", "NVDA", "AMZN", "META", "TSLA", "JPM", "XOM")
    trials: int = 20
    search: tuple[str, ...] = ()
    top: int = 3
    gain: float = 0.1
    folds: int = 3
    most_symbols: int = 50
    networks: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.symbols:
            raise ConfigError("programme.symbols is empty; name the symbols of the prototype")
        check_range(0, owner="programme", trials=self.trials, gain=self.gain, folds=self.folds)
        check_range(1, owner="programme", top=self.top, most_symbols=self.most_symbols)
        if self.folds == 1:
            raise ConfigError("programme.folds=1 is not a walk-forward; give 2 or more, or 0 to leave it out")


@dataclass(frozen=True)
class Evaluation:
    """How a run is judged on the test set.

    index        symbol of the data that alpha, beta and the return above the index are measured against, e.g. SPY; it
                 need not be traded. None: all symbols in equal parts
    acceptance   set of gates of the verdict and its memo: a name of `conf/gates`, or a YAML file
    """

    index: str | None = None
    acceptance: str = "acceptance"


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
    """

    name: str = "run"
    runs: str = "runs"
    seed: int = 0
    data: dict[str, Any] = field(default_factory=lambda: {"source": "sample"})
    features: Features = field(default_factory=Features)
    lag: dict[str, Any] = field(default_factory=dict)
    task: dict[str, Any] = field(default_factory=lambda: {"problem": "trading"})
    agent: dict[str, Any] = field(default_factory=lambda: {"algorithm": "ppo"})
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
        if _reads_leaders(self.agent):
            object.__setattr__(self, "features", _with_leaders(self))
        build_study(self)
        build_task(self)
        source_and_loading(self.data["source"], self.data_options)  # a wrong option fails before a folder is made

    @property
    def data_options(self) -> dict[str, Any]:
        """The source's options without `source`, those that are not set left out."""
        return {key: value for key, value in self.data.items() if value is not None and key != "source"}

    def to_dict(self) -> dict[str, Any]:
        """Plain nested dictionary, as it is stored and hashed."""
        return dataclasses.asdict(self)


def _reads_leaders(agent: dict[str, Any]) -> bool:
    return str(agent.get("network")).partition("_")[0] == CROSS


def _with_leaders(config: Config) -> Features:
    """The features with the leaders that a cross network attends to; refuses a task whose agents see no symbol's own.

    They are written into the configuration, so that evaluation, bundles and servers show what training did.
    """
    from pacesetter.agents.encoders import network

    problem = _problem(config)
    if problem not in CROSS_TASKS:
        raise ConfigError(
            f"agent.network={config.agent['network']} attends to the leaders of one symbol; take task=fleet or "
            f"task=trading, or another network for task={problem}"
        )
    sizes: Any = network(config.agent["network"], **(config.agent.get("network_options") or {}))
    asked = config.features.leadlag
    lookback = LEADER_LOOKBACK if asked.lookback is None else asked.lookback
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
        plain = yaml.safe_load((run.folder / "config.yaml").read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as problem:
        why = " ".join(str(problem).split())  # YAML says it in several lines
        raise RunError(f"{run.folder}/config.yaml cannot be read ({why}); the run is damaged") from problem
    if not isinstance(plain, dict):
        raise RunError(f"{run.folder}/config.yaml is not a mapping; the run is damaged")
    return plain


def parse_config(stored: Mapping[str, Any], what: str = "the stored configuration") -> Config:
    """A configuration as this or an earlier version stored it; `what` names it in a refusal."""
    if not isinstance(stored, Mapping):
        raise RunError(f"{what} is not a mapping; it is damaged")
    # Old names first become new ones; an unknown key is then an error.
    return configure(Config, translate_config(stored, what), "config")


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
    """The configured problem; refuses an unknown one."""
    problem = _problem(config)
    if any(support.one_account for support in _supports(config)):
        from pacesetter.build.direct import DirectTask

        return DirectTask(TASKS[problem])
    if any(support.from_dataset and problem in support.tasks for support in _supports(config)):
        from pacesetter.build.offline import OfflineTask

        return OfflineTask()
    stands = [support.stand_in for support in _supports(config) if support.stand_in and problem in support.tasks]
    if stands:
        return load(stands[0])()  # type: ignore[no-any-return]
    asked = _conditions(config, TASKS[problem].learned_as)
    return TASKS[problem] if asked is None else TASKS[problem].conditioned(asked)


def _conditions(config: Config, task: str) -> Conditions | None:
    """What a policy of the agent is asked for beside the market; None where nothing is."""
    return conditions_of(config.agent, task) if _supports(config) else None


def _supports(config: Config) -> tuple[TaskSupport, ...]:
    """How the agent learns its tasks; nothing of an unknown one, which is refused where the learner is built."""
    name = str(config.agent.get("algorithm", ""))
    return METHODS[name].supports if name in METHODS else ()


def _one_account(config: Config) -> TaskSupport | None:
    """How the agent learns where it trades all symbols in one account whatever the task; None for other agents."""
    return next((support for support in _supports(config) if support.one_account), None)


def _reading_back(config: Config) -> TaskSupport | None:
    """How the agent learns where its options say how many bars windows must reach; None for other agents."""
    return next((support for support in _supports(config) if support.one_account or support.stand_in), None)


def build_task(config: Config) -> Any:
    """The options of the configured problem; refuses an unknown problem or option."""
    options = {name: value for name, value in config.task.items() if name != "problem"}
    # Stored configurations are translated before; this is for names typed today.
    if options.get("action") in RENAMED_VALUES["task.action"]:
        old, new = options["action"], RENAMED_VALUES["task.action"][options["action"]]
        raise ConfigError(f"task.action={old} was renamed to {new}; give task.action={new}")
    task = configure(TASKS[_problem(config)].config, options, "task")
    support = _reading_back(config)
    if support is not None:
        return _with_history(task, config.agent, support)
    asked = _conditions(config, TASKS[_problem(config)].learned_as)
    return _with_memory(task if asked is None else asked.task(task), config.agent)


def _with_memory(task: Any, agent: dict[str, Any]) -> Any:
    """The task with windows as long as the network's answers depend on, where the network says so."""
    # Without torch, as where only baselines are played, no network is ever built.
    if not (agent.get("network") and hasattr(task, "window_bars") and find_spec("torch")):
        return task
    from pacesetter.agents.encoders import network

    bars = network(agent["network"], **(agent.get("network_options") or {})).memory_bars
    return task if bars is None else dataclasses.replace(task, window_bars=bars)


def _with_history(task: Any, agent: dict[str, Any], support: TaskSupport) -> Any:
    """The task with windows as long as the agent's options need; other agents read what `window_bars` says."""
    if not hasattr(task, "window_bars"):
        raise ConfigError(
            f"agent={agent['algorithm']} trades; take task=fleet or task=portfolio, or another agent for this task"
        )
    needed = _options(agent, support).history_bars
    return dataclasses.replace(task, window_bars=max(task.window_bars, needed))


def one_account_options(config: Config) -> Any:
    """The options of an agent that trades all symbols in one account, a direct policy; None for other agents."""
    support = _one_account(config)
    return None if support is None else _options(config.agent, support)


def _options(agent: Mapping[str, Any], support: TaskSupport) -> Any:
    beside = {"algorithm", *support.defaults}  # the network has options of its own
    return configure(
        load(support.options), {name: value for name, value in agent.items() if name not in beside}, "agent"
    )
