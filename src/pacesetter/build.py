"""The frozen configuration of a job, and what it builds: panel, table, environments, agent. Knows no Hydra.

torch and Stable-Baselines3 are imported when an agent is built, and not before.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from pacesetter.data import check, load
from pacesetter.data.loading import source_and_loading
from pacesetter.data.quality import Readiness
from pacesetter.data.splits import chronological
from pacesetter.envs.bank import Bank
from pacesetter.envs.lookback_batch import LookbackConfig
from pacesetter.envs.lookback_curriculum import Curriculum
from pacesetter.envs.starts import Starts
from pacesetter.errors import ConfigError, DataError, did_you_mean
from pacesetter.features import FeatureTable, feature_table
from pacesetter.leadlag.study import Study, configure_study
from pacesetter.market.parameters import MarketParameters
from pacesetter.panel import Panel
from pacesetter.registry import configure
from pacesetter.rewards.reward import RewardConfig
from pacesetter.rewards.schedule import Schedule

if TYPE_CHECKING:
    from pacesetter.learning.learner import Learner

__all__ = [
    "TASKS",
    "Config",
    "FailSafe",
    "Features",
    "Gates",
    "Parts",
    "Portfolio",
    "Track",
    "Trading",
    "Train",
    "build_learner",
    "build_panel",
    "build_parts",
    "build_readiness",
    "build_study",
    "build_table",
    "build_task",
]

LOOKBACK_ENTRIES = ("short", "middle", "long", "chosen")
PORTFOLIO_ENTRIES = ("window", "regime", "leadlag", "supervised", "position", "proposals")


# ---- the configuration ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Features:
    """Which features the table holds; none named means every registered one the panel can carry."""

    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Trading:
    """Trade one symbol per episode; see `envs.batch.Batch` for the options. No symbols named means all of them.

    curriculum   of the training episodes: five_stages, or adaptive, which also goes back
    """

    action: Literal["discrete", "continuous", "hybrid", "weights"] = "discrete"
    window_bars: int = 24
    episode_bars: int | None = 250
    starts: Literal["random", "stratified", "fixed"] = "random"
    symbols: tuple[str, ...] = ()
    curriculum: Literal["none", "five_stages", "adaptive"] = "none"
    market: MarketParameters = field(default_factory=MarketParameters)
    reward: RewardConfig = field(default_factory=RewardConfig)


@dataclass(frozen=True)
class Portfolio(Trading):
    """Trade all symbols in one account."""

    action: Literal["discrete", "continuous", "hybrid", "weights"] = "weights"


TASKS: dict[str, type[Any]] = {"lookback": LookbackConfig, "trading": Trading, "portfolio": Portfolio}


@dataclass(frozen=True)
class Gates:
    """Limits of the collapse monitor, as shares.

    max_share      most that one discrete action, or one of sell, hold and buy, may take of all
    min_trades     least share of steps with a trade, and with one that the agent asked for
    min_coverage   least share of a continuous action's 20 bins that are used
    min_histogram  least entropy of those 20 bins, as a share of the entropy of equal use
    min_spread     least share of the actions that the stochastic policy's entropy amounts to
    """

    max_share: float = 0.6
    min_trades: float = 0.05
    min_coverage: float = 0.5
    min_histogram: float = 0.5
    min_spread: float = 0.02


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
    shares             of the bars for training and validation; the rest is the test part, which training never sees
    purge_bars         left out before each boundary
    folds, fold        expanding walk-forward: of `folds` equal stretches the run sees those up to number `fold`, from 0
    validate_every     steps between validations; 0 is never
    checkpoint_every   steps between checkpoints; 0 is at the end only
    patience           validations without a better score after which the run stops; None never does
    schedules          hyperparameter -> schedule over steps, e.g. learning_rate
    init_from          run folder whose best weights are taken where they fit
    freeze             parts of the policy that stay as they are: encoder, or a module of it
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
    schedules: dict[str, Schedule] | None = None
    gates: Gates = field(default_factory=Gates)
    fail_safe: FailSafe = field(default_factory=FailSafe)
    init_from: str | None = None
    freeze: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("steps", "envs", "seeds", "log_every"):
            if getattr(self, name) < 1:
                raise ConfigError(f"train.{name}={getattr(self, name)} must be 1 or more")
        for name in ("validate_every", "checkpoint_every", "purge_bars"):
            if getattr(self, name) < 0:
                raise ConfigError(f"train.{name}={getattr(self, name)} must be 0 or more")
        if not 0 <= self.fold < self.folds:
            raise ConfigError(f"train.fold={self.fold} is none of train.folds={self.folds}; they count from 0")
        if self.patience is not None and (self.patience < 1 or not self.validate_every):
            raise ConfigError("train.patience counts validations: give 1 or more, and train.validate_every above 0")


@dataclass(frozen=True)
class Config:
    """A whole job.

    name    names the run
    runs    folder that run folders go to
    seed    of everything random; sources with a seed take this one unless they are given another
    data    `source` and its options
    lag     the lead–lag study: its own keys, and those of the engine and its estimator
    task    `problem` (lookback, trading, portfolio) and its options
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

    def __post_init__(self) -> None:
        if not self.name or not all(letter.isalnum() or letter in "_-." for letter in self.name):
            raise ConfigError(f"name='{self.name}' names a folder: letters, digits, '-', '_' and '.' only")
        if "source" not in self.data:
            raise ConfigError("data needs a source: data=sample, data=synthetic, data=csv …")
        build_study(self)
        build_task(self)
        source_and_loading(
            self.data["source"], {k: v for k, v in _flat(self).items() if k != "source"}
        )  # a wrong option fails here, before a run folder is made

    def to_dict(self) -> dict[str, Any]:
        """Plain nested dictionary, as it is stored and hashed."""
        return dataclasses.asdict(self)


# ---- bars, features, lead–lag ---------------------------------------------------------------------------------------


def build_panel(config: Config) -> Panel:
    """The checked panel the configuration asks for."""
    return load(**_flat(config))


def build_readiness(config: Config) -> Readiness:
    """What is right and wrong with the configured data, without refusing it."""
    return check(**_flat(config))


def _flat(config: Config) -> dict[str, Any]:
    """`source` and its options as keywords, those that are not set left out."""
    return {key: value for key, value in config.data.items() if value is not None}


def build_table(config: Config, panel: Panel) -> FeatureTable:
    """The feature table of the panel."""
    return feature_table(panel, features=config.features.names or None)


def build_study(config: Config) -> Study:
    """The lead–lag study the configuration asks for."""
    return configure_study(config.lag, config.seed)


# ---- environments ---------------------------------------------------------------------------------------------------


class Parts(NamedTuple):
    """Vector environments of the training and of the validation part.

    A validation episode starts at the first bar of its part and plays to the end, one environment per symbol that is
    traded alone. Trading observations hold places in the validation environment's tables, with which the training
    environment's begin.
    """

    train: Any
    validation: Any


def build_task(config: Config) -> Any:
    """The options of the configured problem; refuses an unknown problem or option."""
    options = dict(config.task)
    problem = str(options.pop("problem", ""))
    if problem not in TASKS:
        raise ConfigError(f"task.problem='{problem}' is unknown{did_you_mean(problem, TASKS)}")
    return configure(TASKS[problem], options, "task")


def build_parts(config: Config, panel: Panel) -> Parts:
    """The environments that an agent learns and is validated in; bars of the test part are in neither."""
    task, (first, second) = build_task(config), config.train.shares
    panel = panel.rows(0, len(panel) * (config.train.fold + 1) // config.train.folds)
    rest = round(1 - first - second, 9)
    (fold,) = chronological(panel, first, second, rest, config.train.purge_bars).folds
    learned = panel.rows(0, int(fold.train[-1]) + 1)
    seen = panel.rows(0, int(fold.validation[-1]) + 1) if len(fold.validation) else learned
    start = int(fold.validation[0]) if len(fold.validation) else 0
    if isinstance(task, LookbackConfig):
        return _lookback_parts(config, task, learned, seen, start)
    return _trading_parts(config, task, learned, seen, start)


def _lookback_parts(config: Config, task: LookbackConfig, learned: Panel, seen: Panel, start: int) -> Parts:
    from pacesetter.envs.lookback_vector import LookbackVectorEnv

    steady = replace(
        task.episodes,
        bars=None,
        starts="fixed",
        warmup_bars=start,
        resolutions=task.episodes.resolutions[:1],
        resolution_from=(),
        synthetic_share=0.0,
        curriculum=Curriculum(),
    )
    validation = LookbackVectorEnv(seen, 1, replace(task, episodes=steady))
    return Parts(LookbackVectorEnv(learned, config.train.envs, task), validation)


def _trading_parts(config: Config, task: Trading, learned: Panel, seen: Panel, start: int) -> Parts:
    from pacesetter.envs.curriculum import FIVE_STAGES, CurriculumVectorEnv, adaptive_stages
    from pacesetter.envs.portfolio import PortfolioVectorEnv
    from pacesetter.envs.trading import TradingVectorEnv

    kind: Any = PortfolioVectorEnv if isinstance(task, Portfolio) else TradingVectorEnv
    options = {
        "action": task.action,
        "window_bars": task.window_bars,
        "market": replace(task.market, bars_per_year=seen.bars_per_year),
        "reward": task.reward,
        "has_windows": False,
    }
    symbols = task.symbols or None
    train = kind(
        learned,
        config.train.envs,
        symbols,
        table=build_table(config, learned),
        episode_bars=task.episode_bars,
        starts=task.starts,
        **options,
    )
    if task.curriculum != "none":
        train = CurriculumVectorEnv(train, FIVE_STAGES if task.curriculum == "five_stages" else adaptive_stages())
    blocks = 1 if isinstance(task, Portfolio) else len(symbols or seen.symbols)
    validation = kind(seen, blocks, symbols, table=build_table(config, seen), starts="fixed", **options)
    validation.batch.use_starts(_starts_from(start, validation.batch.bank, task.window_bars))
    return Parts(train, validation)


def _starts_from(start: int, bank: Bank, window_bars: int) -> Starts:
    """The first usable bar of each block from bar `start` on."""
    usable = bank.usable(window_bars, 1)
    usable[:, :start] = False
    blocks = np.flatnonzero(usable.any(axis=1))
    if len(blocks) == 0:
        raise DataError(f"no symbol trades in the validation part, from bar {start} on; change train.shares")
    pool = np.stack([blocks, usable[blocks].argmax(axis=1), bank.lasts[blocks]], axis=1)
    return Starts(pool, np.arange(len(blocks) + 1), is_fixed=True)


# ---- agent ----------------------------------------------------------------------------------------------------------


def build_learner(config: Config, parts: Parts) -> Learner:
    """The configured algorithm on the training part; refuses a combination that cannot learn, and a missing torch.

    It sets the number of threads of this process, which the first weights depend on already.
    """
    try:
        import torch

        from pacesetter.learning.gather import Tables
        from pacesetter.learning.learner import Learner
        from pacesetter.learning.sb3 import make_algorithm
    except ModuleNotFoundError as problem:
        raise ConfigError(f"training needs {problem.name}: pip install 'pacesetter[rl]'") from problem
    torch.set_num_threads(config.train.threads or torch.get_num_threads())  # said aloud, or numba's number becomes it
    options: dict[str, Any] = dict(config.agent)
    name = options.pop("algorithm", "ppo")
    network_options = _entries(config, parts) | dict(options.pop("network_options", None) or {})
    batch = parts.validation.batch
    if config.task["problem"] != "lookback":
        bank = batch.bank
        options["tables"] = Tables(bank.windows, bank.context, bank.places, batch.window_bars, bank.is_whole)
    options |= {"network_options": network_options, "seed": config.seed, "device": config.train.device}
    return Learner(make_algorithm(name, parts.train, **options))


def _entries(config: Config, parts: Parts) -> dict[str, Any]:
    """Which entries of the observation are assets that attend to each other, and whether there is one window."""
    if config.task["problem"] == "portfolio":
        return {"window": "", "assets": PORTFOLIO_ENTRIES}
    shapes = {name: entry.shape for name, entry in parts.train.single_observation_space.items()}
    if "universe_mask" in shapes and all(shapes[name] == shapes["universe_mask"] for name in LOOKBACK_ENTRIES):
        return {"assets": LOOKBACK_ENTRIES}
    return {}
