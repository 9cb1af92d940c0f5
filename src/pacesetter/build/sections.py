"""The sections of a configuration: features, training, tracking, programme and evaluation."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pacesetter.errors import ConfigError, check_range, did_you_mean
from pacesetter.leadlag.estimators.estimator import ESTIMATORS
from pacesetter.leadlag.lookback.policy import ConstantLookback
from pacesetter.leadlag.shrinkage import DEFAULT_SHRINKAGE
from pacesetter.leadlag.signals import FIRST_BARS
from pacesetter.rewards.schedule import Schedule

__all__ = [
    "AUTO",
    "Evaluation",
    "FailSafe",
    "Features",
    "Gates",
    "LeadLagFeatures",
    "Programme",
    "Track",
    "Train",
    "check_shares",
]

AUTO = "auto"


@dataclass(frozen=True)
class LeadLagFeatures:
    """Lead–lag features of the table, see `leadlag.signals`; without a lookback there are none."""

    lookback: Annotated[
        int | str | None,
        "increments in the window; the run folder of a lookback agent, which then chooses them at each bar; or "
        "auto, which training replaces by 250 where its set is long enough, see `with_lookback`",
    ] = AUTO
    method: Annotated[str, "estimator of the matrix"] = "ccf_auc"
    gap_bars: Annotated[int, "to the matrix that instability is measured against"] = 20
    expected_lags: Annotated[int, "bars between a move and what it lets expect, at most"] = 5
    expected_lookback: Annotated[
        int | None,
        "increments in the window of `leadlag_expected`; None for that of the others",
    ] = None
    shrinkage: Annotated[
        Literal["soft", "garrote", "hard"],
        "of the correlations behind `leadlag_expected`: soft, garrote or hard, see `leadlag.shrinkage`",
    ] = DEFAULT_SHRINKAGE
    leaders: Annotated[
        int,
        "of each symbol that are shown with their moves of the last `leader_lags` bars; agent.network=cross sets "
        "both by its own options",
    ] = 0
    leader_lags: int = 5
    is_scaled: Annotated[
        bool,
        "returns among them in deviations of the symbol's own returns, so that markets of other volatility look "
        "alike: `leadlag_expected_scaled`, `leadlag_follow_through_scaled`",
    ] = False
    standardise_bars: Annotated[
        int | None,
        "all four less their mean, in deviations, over the symbol's own last so many bars, so that markets whose "
        "symbols lead or are predicted more than others look alike: `leadlag_expected_standard` …",
    ] = None

    @property
    def agent(self) -> str | None:
        """The run folder of the lookback agent that chooses the windows; None where there is none."""
        return self.lookback if isinstance(self.lookback, str) and self.lookback != AUTO else None

    @property
    def is_on(self) -> bool:
        """Whether there are such features; `auto` is none until training has decided."""
        return self.lookback not in (None, AUTO)

    @property
    def options(self) -> dict[str, Any]:
        """Options of `leadlag_features` beside the method and the policy."""
        others = ("lookback", "method")
        return {name: value for name, value in vars(self).items() if name not in others}

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
        if self.standardise_bars is not None:
            check_range(FIRST_BARS, owner="features.leadlag", standardise_bars=self.standardise_bars)
        if self.leaders and self.is_on:
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
    """Which features the table holds; none named means every registered one the panel can carry."""

    names: tuple[str, ...] = ()
    leadlag: LeadLagFeatures = field(default_factory=LeadLagFeatures)
    supervised: Annotated[
        str | tuple[str, ...] | None,
        "folder of a direction classifier, as `pacesetter baseline sl` stores it, whose probabilities agents see; "
        "of several, [A,B], side by side",
    ] = None
    normaliser: Annotated[
        Literal["running", "zscore", "minmax", "robust"],
        "of an agent's features: running counts them while it learns; zscore, minmax and robust are fitted once to "
        "the training set",
    ] = "running"

    @property
    def classifiers(self) -> tuple[str, ...]:
        """The folders of `supervised`."""
        return (self.supervised,) if isinstance(self.supervised, str) else self.supervised or ()


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

    Not measured where null; the preset `recovery` sets them all:
    """

    max_share: Annotated[float, "most that one discrete action, or one of sell, hold and buy, may take of all"] = 0.6
    min_trades: Annotated[float, "least share of steps with a trade, and with one that the agent asked for"] = 0.05
    min_coverage: Annotated[float, "least share of a continuous action's 20 bins that are used"] = 0.5
    min_histogram: Annotated[float, "least entropy of those 20 bins, as a share of the entropy of equal use"] = 0.5
    min_spread: Annotated[float, "least share of the actions that the stochastic policy's entropy amounts to"] = 0.02
    min_entropy: Annotated[
        float | None,
        "least entropy in nats of a continuous action's 20 bins; of orders `min_histogram` of the most",
    ] = None
    min_distinct: Annotated[float | None, "least share of different actions in a sliding 20"] = None
    min_round_trips: Annotated[float | None, "least number of positions closed in full, per 1,000 steps"] = None
    min_states: Annotated[
        float | None,
        "least share of the states (position × unrealised return × regime) that are visited",
    ] = None
    temperature: Annotated[
        float | None,
        "of one more stochastic play, beside the deterministic one; `episodes` of it at least",
    ] = None
    episodes: int = 10
    constant: Annotated[bool, "whether the policy must beat the best constant action after costs"] = False
    oracle: Annotated[
        bool,
        "whether the oracle's values are measured beside, where the market's truth is known",
    ] = False

    def __post_init__(self) -> None:
        shares = {
            "max_share": self.max_share,
            "min_trades": self.min_trades,
            "min_coverage": self.min_coverage,
            "min_histogram": self.min_histogram,
            "min_spread": self.min_spread,
            "min_distinct": self.min_distinct,
            "min_states": self.min_states,
        }
        for name, value in shares.items():
            if value is not None and not 0 <= value <= 1:
                raise ConfigError(f"train.gates.{name}={value} must be a share, from 0 to 1")
        amounts = {"min_entropy": self.min_entropy, "min_round_trips": self.min_round_trips}
        for name, value in {**amounts, "temperature": self.temperature}.items():
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
    """When a run stops itself with a dump of diagnostics; NaN in weights, losses or rewards always stops it."""

    max_loss: Annotated[float, "a loss above it is divergence"] = 1e8
    max_weight: Annotated[float, "a weight above it is divergence"] = 1e4
    collapse: Annotated[
        Literal["warn", "stop"],
        "what failed gates of the stochastic policy do: warn, or stop after `patience` validations in a row",
    ] = "warn"
    patience: int = 3


@dataclass(frozen=True)
class Track:
    """Where metrics go beside metrics.jsonl."""

    progress: bool = True
    tensorboard: Literal["auto", "on", "off"] = "auto"
    mlflow: Annotated[
        str,
        "auto: the embedded store beside the runs where MLflow is installed; off; or the URI of a server",
    ] = "auto"
    wandb: Annotated[Literal["off", "offline", "online"], "off, offline or online"] = "off"


@dataclass(frozen=True)
class Train:
    """How an agent is trained; steps are environment steps, all environments together."""

    steps: int = 100_000
    envs: int = 16
    seeds: Annotated[int, "runs, with seeds from `seed` on"] = 1
    threads: Annotated[int | None, "of torch, None its own choice; results repeat for an equal number"] = 1
    device: str = "cpu"
    shares: Annotated[
        tuple[float, float],
        "of the bars for training and validation; the rest is the test set, which training never sees",
    ] = (0.6, 0.2)
    purge_bars: Annotated[int, "left out before each boundary"] = 0
    folds: Annotated[int, "expanding walk-forward: the stretches that the bars are cut into"] = 1
    fold: Annotated[int, "the run sees the stretches up to this one, from 0"] = 0
    log_every: int = 1_000
    validate_every: Annotated[int, "steps between validations; 0 is never"] = 10_000
    checkpoint_every: Annotated[int, "steps between checkpoints; 0 is at the end only"] = 10_000
    patience: Annotated[
        int | None,
        "validations without a better score after which the run stops; None never does",
    ] = None
    best_by: Annotated[
        Literal["score", "sharpe"],
        "what the best agent is chosen by: the task's score, or the annualised Sharpe ratio",
    ] = "score"
    schedules: Annotated[dict[str, Schedule] | None, "hyperparameter -> schedule over steps, e.g. learning_rate"] = None
    gates: Gates = field(default_factory=Gates)
    fail_safe: FailSafe = field(default_factory=FailSafe)
    init_from: Annotated[
        str | None,
        "run folder whose best weights are taken where they fit, or a stored direction classifier",
    ] = None
    freeze: Annotated[tuple[str, ...], "parts of the policy that stay as they are: encoder, or a module of it"] = ()
    log_episodes: Annotated[
        bool,
        "keep every training episode of a fleet under `episodes/`, as a dataset to learn from",
    ] = False

    def __post_init__(self) -> None:
        check_range(1, owner="train", steps=self.steps, envs=self.envs, seeds=self.seeds, log_every=self.log_every)
        check_range(0, owner="train", validate_every=self.validate_every, checkpoint_every=self.checkpoint_every)
        check_range(0, owner="train", purge_bars=self.purge_bars, threads=self.threads or 0)
        check_shares("train", self.shares)
        # Fold k sees stretches 0 … k, so the last fold is the whole panel.
        if not 0 <= self.fold < self.folds:
            raise ConfigError(f"train.fold={self.fold} must be below train.folds={self.folds}, counted from 0")
        if self.patience is not None and (self.patience < 1 or not self.validate_every):
            raise ConfigError("train.patience counts validations; give 1 or more, and train.validate_every above 0")


@dataclass(frozen=True)
class Programme:
    """How `pacesetter lab programme` goes through its phases."""

    symbols: Annotated[
        tuple[str, ...],
        "of the prototype; where the data lacks one of them, as many of its first symbols stand in",
    ] = ("SPY", "QQQ", "AAPL", "MSFT", "NVDA", "AMZN", "META", "TSLA", "JPM", "XOM")
    trials: Annotated[int, "of the search on the prototype; 0 leaves tuning out"] = 20
    search: Annotated[
        tuple[str, ...],
        'keys to search with their values, e.g. ["agent.gamma=0.9,0.99"]; empty: the method\'s usual ones',
    ] = ()
    top: Annotated[int, "best trials that are retrained on all symbols"] = 3
    gain: Annotated[float, "share by which a variant must be above the default to be taken"] = 0.1
    folds: Annotated[int, "of the walk-forward validation; 0 leaves it out, and its gate is then not measured"] = 3
    most_symbols: Annotated[int, "of the fleet after a prototype that is CONDITIONAL"] = 50
    networks: Annotated[
        tuple[str, ...],
        "direction classifiers that are trained beside ridge and lasso: mlp, lstm, gru",
    ] = ()

    def __post_init__(self) -> None:
        if not self.symbols:
            raise ConfigError("programme.symbols is empty; name the symbols of the prototype")
        check_range(0, owner="programme", trials=self.trials, gain=self.gain, folds=self.folds)
        check_range(1, owner="programme", top=self.top, most_symbols=self.most_symbols)
        if self.folds == 1:
            raise ConfigError("programme.folds=1 is not a walk-forward; give 2 or more, or 0 to leave it out")


@dataclass(frozen=True)
class Evaluation:
    """How a run is judged on the test set."""

    index: Annotated[
        str | None,
        "symbol of the data that alpha, beta and the return above the index are measured against, e.g. SPY; it "
        "need not be traded. None: all symbols in equal parts",
    ] = None
    acceptance: Annotated[
        str,
        "set of gates of the verdict and its memo: a name of `conf/gates`, or a YAML file",
    ] = "acceptance"
