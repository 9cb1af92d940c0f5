"""Two levels: a controller sets reward weights, resolution or the range of windows, and the lower agent plays in it.

The setting in force at a bar follows from the bar alone: it is what the rule says at the first of the `every` bars that
the bar is one of. Episodes, validation and backtests therefore agree, and there is nothing to remember. The lower agent
is shown which setting is in force. One setting that changes nothing is the plain lookback environment, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike

from pacesetter.arrays import Array
from pacesetter.envs.lookback.actions import Windows
from pacesetter.envs.lookback.batch import LookbackBatch, LookbackConfig, LookbackStep
from pacesetter.envs.lookback.curriculum import OWN_RESOLUTION, EpisodeSampler, common_labels
from pacesetter.envs.lookback.market import LookbackMarket
from pacesetter.errors import ConfigError, check_range, did_you_mean
from pacesetter.features.regime import REGIMES
from pacesetter.panel import Panel
from pacesetter.rewards.reward import RewardConfig
from pacesetter.rewards.schedule import Schedule

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Controller", "LevelSetting", "TwoLevelBatch", "TwoLevelConfig"]

WHERE = "task.controller"


@dataclass(frozen=True)
class LevelSetting:
    """What the controller sets; what is not given stays as configured."""

    weights: Annotated[dict[str, float], "of reward components, by name"] = field(default_factory=dict)
    resolution: Annotated[
        str,
        'bars of the decisions: "1W" …, or "" for the panel\'s own; in episodes, not in backtests',
    ] = OWN_RESOLUTION
    shortest: Annotated[int | None, "window, in bars"] = None
    longest: Annotated[int | None, "window, in bars"] = None


@dataclass(frozen=True)
class Controller:
    """Which setting is in force."""

    every: Annotated[int, "bars from one decision of the controller to its next"] = 20
    rule: Annotated[
        Literal["constant", "cycle", "regime"],
        "constant: the first setting; cycle: one after another; regime: by that of most symbols",
    ] = "constant"
    settings: Annotated[tuple[LevelSetting, ...], "to choose from"] = (LevelSetting(),)
    regimes: Annotated[
        dict[str, int],
        "regime -> place of its setting, from 0, for rule=regime",
    ] = field(default_factory=lambda: dict.fromkeys(REGIMES, 0))

    def __post_init__(self) -> None:
        check_range(1, owner=WHERE, every=self.every)
        if not self.settings:
            raise ConfigError(f"{WHERE}.settings is empty; give one or more, e.g. [{{longest: 60}}]")
        for name, place in self.regimes.items():
            if name not in REGIMES:
                raise ConfigError(f"{WHERE}.regimes has no regime '{name}'{did_you_mean(name, REGIMES)}")
            if not 0 <= place < len(self.settings):
                last = len(self.settings) - 1
                raise ConfigError(f"{WHERE}.regimes.{name}={place} is not the place of a setting, 0 to {last}")
        if (self.rule == "regime") != any(self.regimes.values()):
            raise ConfigError(
                f"{WHERE}.rule=regime needs a regime with another setting than the first, e.g. {WHERE}.regimes.bear=1, "
                "and other rules need none"
            )

    @property
    def resolutions(self) -> set[str]:
        return {setting.resolution for setting in self.settings}

    def places(self, bars: Array, labels: Callable[[], Array]) -> Array:
        """(env,) places of the settings at the panel's own `bars`; `labels` gives the regime of each bar of it."""
        begun = bars - bars % self.every
        if self.rule == "constant":
            return np.zeros(len(bars), dtype=np.int64)
        if self.rule == "cycle":
            return np.asarray(begun // self.every % len(self.settings))
        # A last place for −1, the label of bars that have no regime yet.
        by_label = np.array([*(self.regimes.get(name, 0) for name in REGIMES), 0])
        return np.asarray(by_label[labels()[begun]])

    def check(self, windows: Windows, reward: RewardConfig) -> None:
        """Refuse settings outside the windows, or with weights of components that there are not."""
        for place, setting in enumerate(self.settings):
            where = f"{WHERE}.settings[{place}]"
            low, high = setting.shortest or windows.shortest, setting.longest or windows.longest
            if not windows.shortest <= low < high <= windows.longest:
                raise ConfigError(
                    f"{where} has windows of {low} to {high} bars; stay within {windows.shortest} to {windows.longest}"
                )
            for name in setting.weights:
                if name not in reward.components:
                    known = did_you_mean(name, reward.components)
                    raise ConfigError(f"{where}.weights names '{name}', not a component of task.reward{known}")
        is_scheduled = any(isinstance(term.weight, Schedule) for term in reward.components.values())
        if is_scheduled and any(setting.weights for setting in self.settings):
            raise ConfigError("a reward weight has a schedule and a controller; leave one of them out")


@dataclass(frozen=True)
class TwoLevelConfig(LookbackConfig):
    """A lookback environment under a controller; without options it is the environment of `task=lookback`."""

    problem = "two_level"

    controller: Controller = field(default_factory=Controller)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.controller.check(self.windows, self.reward)
        has_others = len(self.episodes.resolutions) > 1 or self.episodes.synthetic_share > 0
        if has_others and self.controller.resolutions != {OWN_RESOLUTION}:
            raise ConfigError(
                f"{WHERE} sets resolutions of the panel; leave out task.episodes.resolutions and synthetic_share"
            )

    def make_batch(self, panel: Panel, env_count: int = 1, dealer: EpisodeSampler | None = None) -> LookbackBatch:
        return TwoLevelBatch(panel, self, env_count, dealer)


class TwoLevelBatch(LookbackBatch):
    """Lookback environments whose rows each have a `setting` in force, told by its place; bounds were dealt before."""

    is_steered = True

    def __init__(
        self, panel: Panel, config: TwoLevelConfig, env_count: int = 1, dealer: EpisodeSampler | None = None
    ) -> None:
        self.controller = config.controller
        self.setting, self.dealt_low, self.dealt_high = np.zeros((3, env_count), dtype=np.int64)
        self._labels: WeakKeyDictionary[LookbackMarket, Array] = WeakKeyDictionary()
        self._own_bars: dict[str, Array] = {}
        self._keeps_market = False
        super().__init__(panel, config, env_count, dealer)
        self._decided_in, self._decided_groups = list(self.markets), list[tuple[LookbackMarket, Any]]()
        settings = self.controller.settings
        own = dict(zip(self.reward.names, self.reward.weights.tolist(), strict=True))
        self._weights = np.array([list((own | setting.weights).values()) for setting in settings])
        self._weighs = any(setting.weights for setting in settings)
        self._lows = np.array([setting.shortest or 0 for setting in settings])
        self._highs = np.array([setting.longest or config.windows.longest for setting in settings])

    # ---- where a setting takes force ------------------------------------------------------------------------------

    @property
    def stored_rows(self) -> dict[str, Array]:
        own = {"dealt_low": self.dealt_low, "dealt_high": self.dealt_high, "setting": self.setting}
        return super().stored_rows | own

    def place(self, market: LookbackMarket, bars: ArrayLike, lookbacks: ArrayLike) -> None:
        """As for one level; the market stays the one given, whatever resolution a setting has."""
        self._keeps_market = True
        super().place(market, bars, lookbacks)

    def restart(self, rows: Array) -> None:
        self._keeps_market = False
        super().restart(rows)

    def move(self, asked: Array) -> LookbackStep:
        self._decided_in, self._decided_groups = list(self.markets), self.groups
        step = super().move(asked)
        self._part_from_handed_out()
        self._steer()
        return step

    def _place(self, rows: Any, start: ArrayLike, stop: int, low: int, high: int) -> None:
        super()._place(rows, start, stop, low, high)
        self.dealt_low[rows], self.dealt_high[rows] = low, high

    def _group(self, fresh: Array) -> None:
        super()._group(fresh)
        self._steer()

    def _steer(self) -> None:
        """Put the setting of each row in force: first its market, then its range and its weights."""
        for market, rows in list(self.groups):
            labels = partial(self._labels_of, market)
            self.setting[rows] = self.controller.places(self._panel_bars(market)[self.t[rows]], labels)
        if not self._keeps_market and self.controller.resolutions != {OWN_RESOLUTION}:
            self._change_markets()
        self.high = np.minimum(self.dealt_high, self._highs[self.setting])
        self.low = np.minimum(np.maximum(self.dealt_low, self._lows[self.setting]), self.high)
        if self._weighs:
            self.reward.use_weights(self._weights[self.setting].T)

    # ---- resolutions ----------------------------------------------------------------------------------------------

    def _change_markets(self) -> None:
        """Move rows to the bars of their setting's resolution, at the same moment; not where no decision is left."""
        moved = []
        for row, setting in enumerate(self.setting.tolist()):
            old, name = self.markets[row], self.controller.settings[setting].resolution
            if old.resolution == name or self.t[row] > self.stop[row]:
                continue
            new = self.dealer.market(name)
            now, stop = (_bar_at(new, old.panel.index[bar]) for bar in (self.t[row], self.stop[row]))
            if new.first <= now <= min(stop, new.last):
                self.markets[row], self.t[row], self.stop[row] = new, now, min(stop, new.last)
                self.lookback[row] = min(self.lookback[row], now)
                moved.append(row)
        if moved:
            super()._group(np.array(moved))

    def _panel_bars(self, market: LookbackMarket) -> Array:
        """(time,) bars of the panel that were the last ones at each bar of a market."""
        if market.resolution == OWN_RESOLUTION:
            return np.arange(len(market.panel) + 1)
        if market.resolution not in self._own_bars:
            known = self.dealer.panel.index.searchsorted(market.panel.index, side="right") - 1
            self._own_bars[market.resolution] = np.append(known, known[-1])
        return self._own_bars[market.resolution]

    def _labels_of(self, market: LookbackMarket) -> Array:
        if market not in self._labels:
            is_own = market.resolution == OWN_RESOLUTION
            self._labels[market] = common_labels(market.panel if is_own else self.dealer.panel)
        return self._labels[market]

    @property
    def decided_in(self) -> list[LookbackMarket]:
        return self._decided_in

    def universe_changes(self, bars: Array) -> tuple[Array, Array]:
        # In the markets of the decisions: a new setting may have moved rows to other bars since.
        now, self.groups = self.groups, self._decided_groups
        try:
            return super().universe_changes(bars)
        finally:
            self.groups = now

    # ---- what is shown --------------------------------------------------------------------------------------------

    def entries(self) -> dict[str, int]:
        """Those of one level, and `setting`, one-hot, where there are several."""
        count = len(self.controller.settings)
        return super().entries() | ({"setting": count} if count > 1 else {})

    def observe(self) -> dict[str, Array]:
        shown, count = super().observe(), len(self.controller.settings)
        return shown | ({"setting": np.eye(count, dtype=np.float32)[self.setting]} if count > 1 else {})


def _bar_at(market: LookbackMarket, moment: pd.Timestamp) -> int:
    """The last bar of a market that is known at a moment."""
    return int(market.panel.index.searchsorted(moment, side="right")) - 1
