"""The reward of every candidate window at every bar: full information, since no window moves the market.

The reward of a decision depends on the bar, on the window that it brings into force and on the one in force before:
switching, stability and turnover compare the two. A `RewardTable` holds all of it, (bar, before, choice).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pacesetter.arrays import Array
from pacesetter.compiled import njit
from pacesetter.envs.lookback.batch import LookbackConfig
from pacesetter.envs.lookback.market import LookbackMarket
from pacesetter.errors import ConfigError
from pacesetter.leadlag.prediction import Measure, leader_information, measure_windows
from pacesetter.leadlag.strategy import follower_weights
from pacesetter.rewards.component import REWARDS
from pacesetter.rewards.lookback import LOOKBACK_COLUMNS, LookbackColumn
from pacesetter.rewards.reward import Reward, RewardConfig
from pacesetter.rewards.schedule import Schedule

__all__ = ["RewardTable", "check_tabular", "reward_table"]

BLOCK_BARS = 512
TRADED = {"equity_change", "cost"}  # columns of the strategy that follows the leaders


@dataclass(frozen=True, eq=False)
class RewardTable:
    """Rewards of all candidate windows over consecutive bars.

    bars        (time,) positions in the panel        components   names, as in the reward
    lookbacks   (time, window) bars of each candidate, cut to the history before the bar
    total       (time, before, choice)                raw          (time, before, choice, component) before weights
    in_force    (time, before, choice) the place of the window that comes into force; a thin one is rejected
    measured    (time, window) False where nothing could be compared
    places      (window,) of the grid on the logarithmic scale, 0 the shortest and 1 the longest
    """

    bars: Array
    components: tuple[str, ...]
    lookbacks: Array
    total: Array
    raw: Array
    in_force: Array
    measured: Array
    places: Array

    def rewards_of(self, worth: Array, stay: float = 0.0) -> Array:
        """(time,) rewards of choosing at every bar the window k of highest worth[t, k] − stay·|place_k − place_now|."""
        rewards = np.empty(len(self.total))
        _choose(np.asarray(worth, dtype=np.float64), stay * self.places, self.total, self.in_force, rewards)
        return rewards

    def place(self, bar: int, lookback: int) -> int:
        """The candidate at `bar` that is nearest to a window on the logarithmic scale."""
        row = self.lookbacks[bar - int(self.bars[0])]
        return int(np.abs(np.log(row / max(lookback, 1))).argmin())


@njit(cache=True)
def _choose(worth: Array, places: Array, total: Array, in_force: Array, rewards: Array) -> None:
    """Fill `rewards` (time,); the first window is free, and of equal ones the one in force stays."""
    held = int(np.argmax(worth[0]))
    for t in range(worth.shape[0]):
        chosen = held
        for k in range(worth.shape[1]):
            if worth[t, k] - abs(places[k] - places[held]) > worth[t, chosen] - abs(places[chosen] - places[held]):
                chosen = k
        rewards[t] = total[t, held, chosen]
        held = in_force[t, held, chosen]


def check_tabular(reward: RewardConfig) -> None:
    """Refuse a reward that depends on more than the windows of two decisions in a row."""
    for name, term in reward.components.items():
        path = "reward.components"
        # A table needs r(t, before, choice); anything that remembers more of the path is not a function of these three.
        if term.normalise != "none" or term.smoothing_steps > 1:
            raise ConfigError(
                f"{path}.{name} is normalised or smoothed along the path, so the reward of a window is not a table; "
                f"set {path}.{name}.normalise=none and smoothing_steps=1"
            )
        if isinstance(term.weight, Schedule):
            raise ConfigError(
                f"{path}.{name}.weight changes with the steps, so the reward is not a table; give a number"
            )
        if len(REWARDS[name].initial):
            raise ConfigError(f"{path}.{name} remembers the path, so the reward of a window is not a table; drop it")


def reward_table(market: LookbackMarket, config: LookbackConfig, first: int, last: int) -> RewardTable:
    """The rewards of the windows of `config.windows.grid` at the bars first … last of a market.

    Equal to those of a `LookbackBatch` that is placed at `first`, step by step. Refuses what `check_tabular` refuses.
    """
    check_tabular(config.reward)
    parts = [
        _block(market, config, np.arange(start, min(start + BLOCK_BARS, last + 1)), start > first)
        for start in range(first, last + 1, BLOCK_BARS)
    ]
    components = tuple(config.reward.components)
    names = ("bars", "lookbacks", "total", "raw", "in_force", "measured")
    bars, lookbacks, total, raw, in_force, measured = (np.concatenate([part[name] for part in parts]) for name in names)
    places = config.windows.places(config.windows.grid)
    return RewardTable(bars, components, lookbacks, total, raw, in_force, measured, places)


@dataclass(frozen=True, eq=False)
class _Windows:
    """What is known of each candidate at each bar: (time, window, …)."""

    lookbacks: Array
    ledger: Array
    scores: Array
    weights: Array
    measured: Array
    thin: Array

    def rows(self, which: slice | Array) -> _Windows:
        """The same of some of the bars."""
        return _Windows(
            self.lookbacks[which],
            self.ledger[which],
            self.scores[which],
            self.weights[which],
            self.measured[which],
            self.thin[which],
        )


def _block(market: LookbackMarket, config: LookbackConfig, bars: Array, has_before: bool) -> dict[str, Array]:
    """The table of a block of bars; with a bar before it, that is measured once more, for what pairs compare."""
    # Pairs compare a bar with the one before, so a block needs the last bar of the block before it.
    known = _measure(market, config, np.append(bars[0] - 1, bars) if has_before else bars)
    own = known.rows(slice(1, None)) if has_before else known
    held = known.rows(slice(0, -1)) if has_before else _initial_windows(own)
    count = len(config.windows.grid)
    rejects = config.liquidity.is_on and config.liquidity.thin == "reject"
    thin = own.thin if rejects else np.zeros_like(own.thin)
    places = np.arange(count)
    is_rejected = np.broadcast_to(thin[:, None, :], (len(bars), count, count))
    # A thin window is rejected, and the one before stays in force.
    in_force = np.where(is_rejected, places[:, None], places)
    ledger = _pairs(config, held, own, in_force, is_rejected)
    # Every (bar, before, choice) as an environment of its own: one call computes the table by the environment's own
    # reward.
    values = Reward(config.reward, in_force.size, LOOKBACK_COLUMNS)(ledger.reshape(-1, len(LookbackColumn)))
    return {
        "bars": bars,
        "lookbacks": own.lookbacks,
        "total": values.total.reshape(in_force.shape),
        "raw": values.raw.reshape(*in_force.shape, -1),
        "in_force": in_force,
        "measured": own.measured,
    }


def _read_columns(config: LookbackConfig) -> set[str]:
    """Columns of the ledger that the reward reads."""
    return {column for name in config.reward.components for column in REWARDS[name].columns}


def _measure(market: LookbackMarket, config: LookbackConfig, bars: Array) -> _Windows:
    """Ledger entries that depend on a window alone, its leader scores, and the weights of its strategy."""
    grid, symbols = config.windows.grid, len(market.panel.symbols)
    read = _read_columns(config)
    # Cut as `LookbackBatch` cuts them, or the table would not equal its rewards.
    lookbacks = np.minimum(np.array(grid), bars[:, None])
    ledger = np.zeros((len(bars), len(grid), len(LookbackColumn)))
    scores = np.full((len(bars), len(grid), symbols), np.nan)
    weights = np.zeros((len(bars), len(grid), symbols))
    measured = np.zeros((len(bars), len(grid)), dtype=bool)
    for place in range(len(grid)):
        own, fresh = lookbacks[:, place], np.full((len(bars), symbols), np.nan)
        matrices = market.matrices(bars, own)
        measures = measure_windows(matrices, bars, market.prediction, fresh)
        scores[:, place] = fresh
        measured[:, place] = measures[:, Measure.IS_MEASURED] > 0
        ledger[:, place, : Measure.IS_MEASURED] = measures[:, : Measure.IS_MEASURED]
        if "information" in read:
            information = np.empty(len(bars))
            leader_information(market.engine.series_.x, bars, own, fresh, information)
            ledger[:, place, LookbackColumn.INFORMATION] = information
        if read & TRADED:
            weights[:, place] = follower_weights(matrices, market.moves[bars], config.quantile)
    liquidity = config.liquidity
    thin = np.zeros(lookbacks.shape, dtype=bool)
    if liquidity.is_on:
        thin = liquidity.is_thin(market.liquidity, bars[:, None], lookbacks)
    ledger[..., LookbackColumn.PLACE] = config.windows.places(lookbacks)
    ledger[..., LookbackColumn.EQUITY_BEFORE] = 1.0
    ledger[..., LookbackColumn.EQUITY_CHANGE] = np.nansum(weights * market.fills[bars][:, None], axis=2)
    return _Windows(lookbacks, ledger, scores, weights, measured, thin)


def _initial_windows(own: _Windows) -> _Windows:
    """What was in force before each bar; before the first decision a window, but neither scores nor weights."""
    shifted = own.rows(np.maximum(np.arange(len(own.thin)) - 1, 0))
    # As at an episode's start: nothing to agree with, and all in cash.
    shifted.scores[0], shifted.weights[0] = np.nan, 0.0
    return shifted


def _pairs(config: LookbackConfig, held: _Windows, own: _Windows, in_force: Array, is_rejected: Array) -> Array:
    """(time, before, choice, column) ledgers of each pair of windows."""
    rows = np.arange(len(in_force))[:, None, None]
    ledger = own.ledger[rows, in_force]
    ledger[..., LookbackColumn.PLACE_BEFORE] = config.windows.places(held.lookbacks)[:, :, None]
    read = _read_columns(config)
    # Arrays of pairs × symbols: only what a component reads is worth them.
    if "rank_agreement" in read:
        ledger[..., LookbackColumn.RANK_AGREEMENT] = _agreement(own.scores[rows, in_force], held.scores[:, :, None])
    if read & TRADED:
        turnover = np.abs(own.weights[rows, in_force] - held.weights[:, :, None]).sum(axis=-1)
        ledger[..., LookbackColumn.COST] = config.cost_of_turnover * turnover
        ledger[..., LookbackColumn.EQUITY_CHANGE] -= ledger[..., LookbackColumn.COST]
    if config.liquidity.is_on:
        ledger[..., LookbackColumn.THIN] = is_rejected | own.thin[rows, in_force]
    return ledger


def _agreement(scores: Array, before: Array) -> Array:
    """Cosine of leader scores (…, symbol) with those before, over the assets that both know; 1 without any."""
    both = np.isfinite(scores) & np.isfinite(before)
    first, second = np.where(both, scores, 0.0), np.where(both, before, 0.0)
    squares = (first**2).sum(axis=-1) * (second**2).sum(axis=-1)
    together = (first * second).sum(axis=-1)
    return np.where(squares > 0, together / np.sqrt(np.where(squares > 0, squares, 1.0)), 1.0)
