"""From a configuration to bars, features and the environments that an agent learns and is validated in."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import numpy as np
import pandas as pd

from pacesetter.arrays import Array
from pacesetter.build.plan import LEADER_LOOKBACK, Plan
from pacesetter.build.sections import AUTO, LeadLagFeatures
from pacesetter.build.stored import check_unseen, load_lookback
from pacesetter.data.splits import Fold, chronological
from pacesetter.envs.batch.bank import Bank
from pacesetter.errors import ConfigError
from pacesetter.features import Feature, FeatureTable, feature_table
from pacesetter.leadlag.lookback.policy import ConstantLookback, LookbackPolicy
from pacesetter.leadlag.signals import leadlag_features
from pacesetter.market.holdings import check_named_symbols
from pacesetter.market.parameters import MarketParameters
from pacesetter.market.risk import RiskOptions
from pacesetter.panel import Panel

if TYPE_CHECKING:
    from pacesetter.envs.vector import Environments
    from pacesetter.methods.prior.prior import Prior

__all__ = [
    "FeatureSplit",
    "Parts",
    "Split",
    "Stretch",
    "build_environment",
    "build_fold",
    "build_parts",
    "build_supervised",
    "build_table",
    "feature_split",
    "fitted_until",
    "learned_risk",
    "split_panel",
    "with_lookback",
    "without_leadlag",
]

LEAST_WINDOWS = 4  # of lead–lag features in a training set: with fewer, most of it goes into the first window


def build_fold(config: Plan, panel: Panel) -> Fold:
    """The bars of the training, validation and test set; a run sees those of the first two."""
    # Expanding: each fold begins at the first bar and ends a stretch later.
    known = panel.rows(0, len(panel) * (config.train.fold + 1) // config.train.folds)
    first, second = config.train.shares
    # Rounded: in binary 1 − 0.7 − 0.1 is 0.20000000000000004.
    (fold,) = chronological(known, first, second, round(1 - first - second, 9), config.train.purge_bars).folds
    return fold


def fitted_until(config: Plan, panel: Panel) -> pd.Timestamp:
    """The last moment that an agent trained with this configuration on the panel has seen or was chosen by."""
    return panel.index[_last_seen(build_fold(config, panel))]


def _last_seen(fold: Fold) -> int:
    # Validation bars count as seen: the best checkpoint was chosen on them.
    return int(fold.validation[-1] if len(fold.validation) else fold.train[-1])


# ---- features -------------------------------------------------------------------------------------------------------


def build_table(config: Plan, panel: Panel) -> FeatureTable:
    """The feature table of the panel, with lead–lag features where a lookback is given for them."""
    return feature_table(panel, config.features.names or None, _leadlag_features(config, panel))


def with_lookback(config: Plan, panel: Panel) -> Plan:
    """The configuration with features.leadlag.lookback=auto decided by the panel, as it is stored with a run.

    Agents that see one symbol or a portfolio get the features where there is a symbol to follow, and four windows to
    learn from. Others get none: a direct policy reads the returns of all symbols itself.
    """
    if config.features.leadlag.lookback != AUTO:
        return config
    bars = len(build_fold(config, panel).train)
    is_long = len(panel.symbols) > 1 and bars >= LEAST_WINDOWS * LEADER_LOOKBACK
    is_whole = set(config.task.symbols or panel.symbols) == set(panel.symbols)  # or others would be needed too
    is_on = config.problem.reads_table and is_long and is_whole
    leadlag = replace(config.features.leadlag, lookback=LEADER_LOOKBACK if is_on else None)
    return replace(config, features=replace(config.features, leadlag=leadlag))


def without_leadlag(config: Plan) -> Plan:
    """The configuration without lead–lag features, for a policy that does not see them."""
    return replace(config, features=replace(config.features, leadlag=replace(config.features.leadlag, lookback=None)))


def _leadlag_features(config: Plan, panel: Panel) -> tuple[Feature, ...]:
    asked = config.features.leadlag
    if not asked.is_on:
        return ()
    if asked.leaders:
        _check_leaders(asked, panel)
    if isinstance(asked.lookback, int):
        return _signals(asked, ConstantLookback(asked.lookback))
    folder = Path(str(asked.agent))
    checkpoints = [(path.parent.name, path.stat().st_mtime_ns) for path in folder.glob("checkpoints/*/state.json")]
    key = (asked, folder.resolve(), panel.symbols, *sorted(checkpoints))  # a run that went on has another agent
    if key not in _agents:
        features = leadlag_features(asked.method, load_lookback(folder, panel), **asked.options)
        # One agent at a time: its tables are as large as the panel.
        _agents.clear()
        _agents[key] = features
    return _agents[key]


def leadlag_extra(config: Plan, symbols: tuple[str, ...]) -> tuple[Feature, ...]:
    """Lead–lag features of bars that are not in memory: those of one fixed window; an agent's are refused."""
    asked = config.features.leadlag
    if not asked.is_on:
        return ()
    if not isinstance(asked.lookback, int):
        raise ConfigError("windows of a lookback agent need all bars at once; give features.leadlag.lookback=60")
    if len(symbols) < 2:
        raise ConfigError(f"lead–lag features need other symbols, and there is only {symbols[0]}; give several")
    return _signals(asked, ConstantLookback(asked.lookback))


def _check_leaders(asked: LeadLagFeatures, panel: Panel) -> None:
    """Refuse a market without others to attend to, and one with fewer bars than their moves need."""
    if len(panel.symbols) < 2:
        raise ConfigError(
            f"agent.network=cross attends to other symbols, and there is only {panel.symbols[0]}; give data of several "
            "symbols, or take agent.network=mlp_small"
        )
    needed = asked.leader_lags + 2  # an increment takes two bars, and a decision a bar after the last of them
    if len(panel) < needed:
        raise ConfigError(
            f"agent.network=cross reads the last {asked.leader_lags} moves of the leaders, and there are {len(panel)} "
            f"bars; give {needed} or more, or fewer lags by agent.network_options={{lags:1}}"
        )


_agents: dict[
    tuple[object, ...], tuple[Feature, ...]
] = {}  # the latest: stages and stressed markets share what it holds


@lru_cache(maxsize=2)
def _signals(asked: LeadLagFeatures, policy: LookbackPolicy) -> tuple[Feature, ...]:
    """The features by this policy; kept, because markets that begin alike are measured from where they differ."""
    return leadlag_features(asked.method, policy, **asked.options)


def build_supervised(config: Plan, panel: Panel) -> Array | None:
    """(symbol, time, class) what the stored classifiers said of the panel's bars, out-of-fold; None without one."""
    if not config.features.classifiers:
        return None
    from pacesetter.methods.supervised.forecasts import Forecasts

    return np.concatenate([Forecasts.load(folder).on(panel) for folder in config.features.classifiers], axis=2)


# ---- environments ---------------------------------------------------------------------------------------------------


class Split(NamedTuple):
    """The bars that training may see: `learned` are those of the training set, `known` these and the validation set.

    start   first bar of the validation set in `known`
    """

    learned: Panel
    known: Panel
    start: int


def split_panel(config: Plan, panel: Panel) -> Split:
    """The bars of the training and validation set, from the panel's first on; those of the test set are left out."""
    fold = build_fold(config, panel)
    # `known` includes purged bars between the sets: they are history for features, but start no episode.
    learned, known = panel.rows(0, int(fold.train[-1]) + 1), panel.rows(0, _last_seen(fold) + 1)
    return Split(learned, known, int(fold.validation[0]) if len(fold.validation) else 0)


@dataclass(frozen=True, eq=False)
class FeatureSplit:
    """A `Split` with its features, computed once: they are causal, so the training bars' are the first of all.

    table        of the bars that are seen
    supervised   (symbol, time, class) of the same bars, or None
    prior        (symbol, time, 2) ends of what a prior wants there; None without one
    """

    learned: Panel
    known: Panel
    start: int
    table: FeatureTable
    supervised: Array | None
    prior: Array | None = None

    def features(self, panel: Panel) -> dict[str, Any]:
        """`table` and `supervised` of the panel, whose bars are the first of those that are seen."""
        table = replace(self.table, index=panel.index, values=self.table.values[:, : len(panel)])
        features = {"table": table, "supervised": None if self.supervised is None else self.supervised[:, : len(panel)]}
        return features if self.prior is None else features | {"prior": self.prior[:, : len(panel)]}


def feature_split(config: Plan, panel: Panel, table: FeatureTable | None = None) -> FeatureSplit:
    """The bars that training may see with their features; `table` is the panel's, where it is known already.

    Refuses a lookback agent that has seen bars of this run's test set.
    """
    split = split_panel(config, panel)
    if config.features.leadlag.agent is not None:
        # Its choices are features here: a lookback agent that knows the test bars would leak them.
        check_unseen("the lookback agent of", config.features.leadlag.agent, split.known.index[-1])
    known = build_table(config, split.known) if table is None else table
    # A row of a causal table does not depend on later bars, so cutting it equals computing it on fewer.
    values = known.values[:, : len(split.known)]
    return FeatureSplit(
        *split, replace(known, index=split.known.index, values=values), build_supervised(config, split.known)
    )


def build_environment(config: Plan, panel: Panel, envs: int = 1, **options: object) -> Environments:
    """A vector environment of the configured problem on all of the panel; `options` beside those of the task.

    Refuses a task that learns in a market of its own, a fleet or a master.
    """
    return config.problem.environment(config, panel, envs, **options)


def learned_risk(config: Plan) -> RiskOptions | None:
    """The risk that accounts are sized to while agents learn; None where orders are not targets, and where it is off.

    Of the other orders `risk.target_volatility` sets the reward alone.
    """
    is_sized = config.trading.action == "target" and config.risk.is_on
    return config.risk if is_sized else None


TrainT_co = TypeVar("TrainT_co", covariant=True)
ValidationT_co = TypeVar("ValidationT_co", covariant=True)


class Parts(NamedTuple, Generic[TrainT_co, ValidationT_co]):
    """Environments of the training and of the validation set, of the kinds that the task says.

    prior   what the agents begin at, to be stored with them; None for most

    A validation episode starts at the first bar of its set and plays to the end, one environment per symbol that is
    traded alone. Trading observations hold places in the validation environment's tables, with which the training
    environment's begin.
    """

    train: TrainT_co
    validation: ValidationT_co
    prior: Prior | None = None


class Stretch(NamedTuple):
    """Bars over which a portfolio is played once, from bar `first` to the last: the options of `backtest`."""

    panel: Panel
    bank: Bank
    first: int
    market: MarketParameters
    window_bars: int
    risk: RiskOptions | None = None


def build_parts(config: Plan, panel: Panel) -> Parts[object, object]:
    """The environments that an agent learns and is validated in; bars of the test set are in neither."""
    check_named_symbols(config.market, panel.symbols)
    return config.problem.parts(config, panel)
