"""From a configuration to bars, features and the environments that an agent learns and is validated in."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pacesetter.build.configuration import Config, FleetTrading, MasterTrading, Portfolio, Trading, build_task
from pacesetter.build.stored import check_unseen, load_lookback
from pacesetter.data import check, load
from pacesetter.data.quality import Readiness
from pacesetter.data.splits import Fold, chronological
from pacesetter.envs.batch.bank import Bank
from pacesetter.envs.batch.starts import Starts
from pacesetter.envs.lookback.batch import LookbackConfig
from pacesetter.envs.lookback.curriculum import Curriculum
from pacesetter.errors import DataError
from pacesetter.features import Feature, FeatureTable, feature_table
from pacesetter.leadlag.lookback.policy import ConstantLookback, LookbackPolicy
from pacesetter.leadlag.signals import leadlag_features
from pacesetter.panel import Panel

__all__ = [
    "Parts",
    "build_environment",
    "build_fold",
    "build_panel",
    "build_parts",
    "build_readiness",
    "build_supervised",
    "build_table",
    "fitted_until",
]


def build_panel(config: Config) -> Panel:
    """The checked panel the configuration asks for."""
    return load(config.data["source"], **config.data_options)


def build_readiness(config: Config) -> Readiness:
    """What is right and wrong with the configured data, without refusing it."""
    return check(config.data["source"], **config.data_options)


def build_fold(config: Config, panel: Panel) -> Fold:
    """The bars of the training, validation and test set; a run sees those of the first two."""
    seen = panel.rows(0, len(panel) * (config.train.fold + 1) // config.train.folds)
    first, second = config.train.shares
    (fold,) = chronological(seen, first, second, round(1 - first - second, 9), config.train.purge_bars).folds
    return fold


def fitted_until(config: Config, panel: Panel) -> pd.Timestamp:
    """The last moment that an agent trained with this configuration on the panel has seen or was chosen by."""
    return panel.index[_last_seen(build_fold(config, panel))]


def _last_seen(fold: Fold) -> int:
    return int(fold.validation[-1] if len(fold.validation) else fold.train[-1])


# ---- features -------------------------------------------------------------------------------------------------------


def build_table(config: Config, panel: Panel) -> FeatureTable:
    """The feature table of the panel, with lead–lag features where a lookback is given for them."""
    return feature_table(panel, config.features.names or None, _leadlag_features(config, panel))


def _leadlag_features(config: Config, panel: Panel) -> tuple[Feature, ...]:
    asked = config.features.leadlag
    if asked.lookback is None:
        return ()
    policy: LookbackPolicy = (
        load_lookback(asked.lookback, panel) if isinstance(asked.lookback, str) else ConstantLookback(asked.lookback)
    )
    return leadlag_features(asked.method, policy, gap_bars=asked.gap_bars, expected_lags=asked.expected_lags)


def build_supervised(config: Config, panel: Panel) -> NDArray[Any] | None:
    """(symbol, time, class) what the stored classifier said of the panel's bars, out-of-fold; None without one."""
    if config.features.supervised is None:
        return None
    from pacesetter.learning.supervised.forecasts import Forecasts

    return Forecasts.load(config.features.supervised).on(panel)


# ---- environments ---------------------------------------------------------------------------------------------------


def build_environment(config: Config, panel: Panel, envs: int = 1, **options: Any) -> Any:
    """A vector environment of the configured problem on all of the panel; `options` beside those of the task."""
    from pacesetter.envs.lookback.vector import LookbackVectorEnv
    from pacesetter.envs.portfolio import PortfolioVectorEnv
    from pacesetter.envs.trading import TradingVectorEnv

    task = build_task(config)
    if isinstance(task, LookbackConfig):
        return LookbackVectorEnv(panel, envs, task)
    kind: Any = PortfolioVectorEnv if isinstance(task, Portfolio) else TradingVectorEnv
    told = {
        "table": build_table(config, panel),
        "supervised": build_supervised(config, panel),
        "action": task.action,
        "window_bars": task.window_bars,
        "market": replace(task.market, bars_per_year=panel.bars_per_year),
        "reward": task.reward,
    }
    return kind(panel, envs, task.symbols or None, **told | options)


class Parts(NamedTuple):
    """Vector environments of the training and of the validation set.

    A validation episode starts at the first bar of its part and plays to the end, one environment per symbol that is
    traded alone. Trading observations hold places in the validation environment's tables, with which the training
    environment's begin.
    """

    train: Any
    validation: Any


def build_parts(config: Config, panel: Panel) -> Parts:
    """The environments that an agent learns and is validated in; bars of the test set are in neither."""
    task, fold = build_task(config), build_fold(config, panel)
    learned, seen = panel.rows(0, int(fold.train[-1]) + 1), panel.rows(0, _last_seen(fold) + 1)
    start = int(fold.validation[0]) if len(fold.validation) else 0
    if isinstance(task, LookbackConfig):
        return _lookback_parts(config, task, learned, seen, start)
    _check_lookback_agent(config, seen)
    if isinstance(task, FleetTrading):
        return _fleet_parts(config, task, learned, seen, start)
    if isinstance(task, MasterTrading):
        from pacesetter.build.master import build_master_parts

        return build_master_parts(config, task, learned, seen, start)
    return _trading_parts(config, task, learned, seen, start)


def _check_lookback_agent(config: Config, seen: Panel) -> None:
    """Refuse a lookback agent that has seen bars of this run's test set."""
    if isinstance(config.features.leadlag.lookback, str):
        check_unseen("the lookback agent of", config.features.leadlag.lookback, seen.index[-1])


def _lookback_parts(config: Config, task: LookbackConfig, learned: Panel, seen: Panel, start: int) -> Parts:
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
    from pacesetter.envs.lookback.vector import LookbackVectorEnv

    validation = LookbackVectorEnv(seen, 1, replace(task, episodes=steady))
    return Parts(build_environment(config, learned, config.train.envs), validation)


def _trading_parts(config: Config, task: Trading, learned: Panel, seen: Panel, start: int) -> Parts:
    from pacesetter.envs.curriculum import FIVE_STAGES, CurriculumVectorEnv, adaptive_stages

    common = {"has_windows": False, "market": replace(task.market, bars_per_year=seen.bars_per_year)}
    train = build_environment(
        config,
        learned,
        config.train.envs,
        episode_bars=task.episode_bars,
        continued=task.continued,
        starts=task.starts,
        **common,
    )
    if task.curriculum != "none":
        train = CurriculumVectorEnv(train, FIVE_STAGES if task.curriculum == "five_stages" else adaptive_stages())
    blocks = 1 if isinstance(task, Portfolio) else len(task.symbols or seen.symbols)
    validation = build_environment(config, seen, blocks, starts="fixed", **common)
    validation.batch.use_starts(_starts_from(start, validation.batch.bank, task.window_bars))
    return Parts(train, validation)


def _fleet_parts(config: Config, task: FleetTrading, learned: Panel, seen: Panel, start: int) -> Parts:
    """`FleetMarket`s in place of vector environments: many environments a symbol, and one to be validated in."""
    from pacesetter.build.fleet import build_market

    options = {"episode_bars": task.episode_bars, "continued": task.continued, "starts": task.starts}
    validation = build_market(config, seen, 1, starts="fixed", first_bar=start)
    return Parts(build_market(config, learned, config.train.envs, **options), validation)


def _starts_from(start: int, bank: Bank, window_bars: int) -> Starts:
    """The first usable bar of each block from bar `start` on."""
    usable = bank.usable(window_bars, 1)
    usable[:, :start] = False
    blocks = np.flatnonzero(usable.any(axis=1))
    if len(blocks) == 0:
        raise DataError(f"no symbol trades in the validation set, from bar {start} on; change train.shares")
    pool = np.stack([blocks, usable[blocks].argmax(axis=1), bank.lasts[blocks]], axis=1)
    return Starts(pool, np.arange(len(blocks) + 1), is_fixed=True)
