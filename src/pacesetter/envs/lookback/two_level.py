"""Two levels: a controller sets reward weights, resolution or the range of windows, and the lower agent plays in it.

The setting in force at a bar follows from the bar alone: it is what the rule says at the first of the `every` bars that
the bar is one of. Episodes, validation and backtests therefore agree, and there is nothing to remember. The lower agent
is shown which setting is in force. One setting that changes nothing is the plain lookback environment, bit for bit.

A controller that learns (`rule=learned`, see `controller`) draws settings in training, each environment its own. What
it has learned is a table of regimes, so that everything else plays it as `rule=regime`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike

from pacesetter.arrays import Array
from pacesetter.envs.lookback.actions import Windows
from pacesetter.envs.lookback.batch import LookbackBatch, LookbackConfig, LookbackStep
from pacesetter.envs.lookback.controller import ControllerLearner
from pacesetter.envs.lookback.curriculum import OWN_RESOLUTION, EpisodeSampler, common_labels
from pacesetter.envs.lookback.market import LookbackMarket
from pacesetter.envs.lookback.table import check_tabular, reward_table
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
        Literal["constant", "cycle", "regime", "learned"],
        "constant: the first setting; cycle: one after another; regime: by that of most symbols; learned: by regime "
        "too, as the lower agent fared best in training",
    ] = "constant"
    settings: Annotated[tuple[LevelSetting, ...], "to choose from"] = (LevelSetting(),)
    regimes: Annotated[
        dict[str, int],
        "regime -> place of its setting, from 0, for rule=regime",
    ] = field(default_factory=lambda: dict.fromkeys(REGIMES, 0))
    memory: Annotated[int, "bars of training after which what rule=learned has seen counts a third"] = 10_000

    def __post_init__(self) -> None:
        check_range(1, owner=WHERE, every=self.every, memory=self.memory)
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
        if self.rule == "learned" and len(self.settings) < 2:
            raise ConfigError(f"{WHERE}.rule=learned has one setting and nothing to learn; give two or more settings")

    def as_learned(self, best: Sequence[int]) -> Controller:
        """The same with the setting that was best in each regime, as a rule that is written down."""
        places = dict(zip(REGIMES, map(int, best), strict=True))
        if not any(places.values()):
            return replace(self, rule="constant")
        return replace(self, rule="regime", regimes=places)

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
        if self.rule == "learned":
            check_tabular(reward)  # its settings are compared with what any window earns at the same bars


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
    """Lookback environments whose rows each have a `setting` in force, told by its place; bounds were dealt before.

    learner      what rule=learned has learned      explores   whether it draws settings, as training does
    interval     (env,) first bar of the interval that the setting is in force for; −1: none yet
    regime       (env,) at that bar; −1: none is known yet
    """

    is_steered = True

    def __init__(
        self, panel: Panel, config: TwoLevelConfig, env_count: int = 1, dealer: EpisodeSampler | None = None
    ) -> None:
        self.controller = config.controller
        self.setting, self.dealt_low, self.dealt_high = np.zeros((3, env_count), dtype=np.int64)
        self.interval, self.regime = np.full((2, env_count), -1)
        rule = self.controller
        self.learner = ControllerLearner(len(rule.settings), rule.every, rule.memory)
        self.explores = rule.rule == "learned"
        self._labels: WeakKeyDictionary[LookbackMarket, Array] = WeakKeyDictionary()
        self._usual: WeakKeyDictionary[LookbackMarket, Array] = WeakKeyDictionary()
        self._own_bars: dict[str, Array] = {}
        self._keeps_market = False
        super().__init__(panel, config, env_count, dealer)
        self._decided_in, self._decided_groups = list(self.markets), list[tuple[LookbackMarket, Any]]()
        settings = self.controller.settings
        own = dict(zip(self.reward.names, self.reward.weights.tolist(), strict=True))
        self._weights_own = np.array(list(own.values()))
        self._weights = np.array([list((own | setting.weights).values()) for setting in settings])
        self._weighs = any(setting.weights for setting in settings)
        self._lows = np.array([setting.shortest or 0 for setting in settings])
        self._highs = np.array([setting.longest or config.windows.longest for setting in settings])

    # ---- where a setting takes force ------------------------------------------------------------------------------

    @property
    def stored_rows(self) -> dict[str, Array]:
        own = {"dealt_low": self.dealt_low, "dealt_high": self.dealt_high, "setting": self.setting}
        if self.controller.rule == "learned":
            own |= {"interval": self.interval, "regime": self.regime, "learned": self.learned}
        return super().stored_rows | own

    @property
    def learned(self) -> Array:
        """What the controller has learned so far; environments that share a learner read the same."""
        return self.learner.counts

    @learned.setter
    def learned(self, counts: Array) -> None:
        self.learner.counts = counts

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
        if self.explores:
            self._learn(step)
        self._copy_what_was_given()
        self._steer()
        return step

    def _learn(self, step: LookbackStep) -> None:
        """Tell the learner what each row's bar gained by the configured weights, over the usual at its interval."""
        gains = step.reward.shaped @ self._weights_own
        for market, rows in self._decided_groups:
            usual = self._usual_of(market)
            gains[rows] -= usual[self._panel_bars(market)[step.bars[rows]] // self.controller.every]
        known = self.regime >= 0
        self.learner.observe(self.regime[known], self.setting[known], gains[known])

    def _usual_of(self, market: LookbackMarket) -> Array:
        """(interval,) mean reward of a bar under a window of the grid drawn at random and kept, on the panel's bars."""
        if market not in self._usual:
            is_own = market.resolution == OWN_RESOLUTION
            base = market if is_own else self.dealer.market(OWN_RESOLUTION)
            table = reward_table(base, self.config, base.first, base.last)
            kept = np.einsum("tkk->tk", table.total).mean(axis=1)
            intervals = table.bars // self.controller.every
            counts = np.bincount(intervals, minlength=len(base.panel) // self.controller.every + 1)
            sums = np.bincount(intervals, weights=kept, minlength=len(counts))
            self._usual[market] = sums / np.maximum(counts, 1)
        return self._usual[market]

    def _place(self, rows: Any, start: ArrayLike, stop: int, low: int, high: int) -> None:
        super()._place(rows, start, stop, low, high)
        self.dealt_low[rows], self.dealt_high[rows], self.interval[rows] = low, high, -1

    def _group(self, fresh: Array) -> None:
        super()._group(fresh)
        self._steer()

    def _steer(self) -> None:
        """Put the setting of each row in force: first its market, then its range and its weights."""
        for market, rows in list(self.groups):
            labels, bars = partial(self._labels_of, market), self._panel_bars(market)[self.t[rows]]
            if self.controller.rule == "learned":
                self._choose(rows, bars, labels)
            else:
                self.setting[rows] = self.controller.places(bars, labels)
        if not self._keeps_market and self.controller.resolutions != {OWN_RESOLUTION}:
            self._change_markets()
        self.high = np.minimum(self.dealt_high, self._highs[self.setting])
        self.low = np.minimum(np.maximum(self.dealt_low, self._lows[self.setting]), self.high)
        if self._weighs:
            self.reward.use_weights(self._weights[self.setting].T)

    def _choose(self, rows: Any, bars: Array, labels: Callable[[], Array]) -> None:
        """Let the learner choose for the rows that have come to another interval."""
        begun = bars - bars % self.controller.every
        is_new = begun != self.interval[rows]
        if not is_new.any():
            return
        fresh, begun = np.arange(self.env_count)[rows][is_new], begun[is_new]
        regimes = labels()[begun]
        if self.explores and not self._keeps_market:
            # One that is not known yet draws as the first does, and teaches nothing.
            chosen = self.learner.draw(np.maximum(regimes, 0), [self.generators[row] for row in fresh])
        else:
            chosen = np.where(regimes >= 0, self.learner.best()[regimes], 0)
        self.interval[fresh], self.regime[fresh], self.setting[fresh] = begun, regimes, chosen

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
