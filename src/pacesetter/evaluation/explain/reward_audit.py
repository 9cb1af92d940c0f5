"""The reward audit: whether components are balanced, say something, and pay for what the account really earns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from pacesetter.arrays import Array
from pacesetter.errors import DataError
from pacesetter.evaluation.report.page import number
from pacesetter.leadlag.observed import ratio
from pacesetter.market.ledger import Column, Flag
from pacesetter.rewards.reward import Reward, RewardConfig

if TYPE_CHECKING:
    from pacesetter.evaluation.backtest.backtest import Backtest

__all__ = ["RewardAudit", "audit", "audit_ledger", "reward_frame"]

STRETCHES = 20  # equal parts of the steps, in which reward and equity are compared
DOMINANT, ALIKE, WEAK, OFTEN, IDLE = 0.9, 0.95, 0.1, 0.5, 0.2  # limits of the signs below
PREFIX = "reward_"


@dataclass(frozen=True, eq=False)
class RewardAudit:
    """What the components of a reward did over some steps.

    table          a row for each component: `balance`, its share of the absolute sum; `signal_to_noise`, |mean| over
                   deviation; `equity`, its correlation with the equity's change. NaN where it never changes
    correlation    of the components with each other
    with_equity    correlation of the whole reward with the equity's change
    opposed        share of twenty stretches of time in which the reward adds up above zero while equity falls
    idle           share of all positive reward that is paid while nothing is held or traded
    signs          of trouble, a sentence each; empty where none was found
    """

    table: pd.DataFrame
    correlation: pd.DataFrame
    with_equity: float
    opposed: float
    idle: float
    signs: tuple[str, ...]

    @property
    def hacks(self) -> int:
        """How many ways there are to be paid without earning: equity not followed, falling, or nothing done for it."""
        return sum((not self.with_equity > WEAK, self.opposed > OFTEN, self.idle > IDLE))


def audit(components: pd.DataFrame, reward: ArrayLike, equity_change: ArrayLike, active: ArrayLike) -> RewardAudit:
    """The audit of components (step, component) as they enter the reward, i.e. weighted.

    reward (step,) is their scalar; equity_change (step,) what the account earned; active (step,) is True where
    something was held or traded. Refuses series of different lengths, fewer than two steps, and holes.
    """
    total, earned = np.asarray(reward, dtype=np.float64), np.asarray(equity_change, dtype=np.float64)
    acts, names, values = np.asarray(active, dtype=bool), components.columns, components.to_numpy(dtype=np.float64)
    _check(values, total, earned, acts)
    # Reward and equity as two more columns, so that one matrix holds every correlation.
    size, correlation = np.abs(values).sum(axis=0), _correlation(np.column_stack([values, total, earned]))
    table = pd.DataFrame(
        {
            "balance": ratio(size, size.sum()),
            "signal_to_noise": ratio(np.abs(values.mean(axis=0)), values.std(axis=0) * _varying_columns(values)),
            "equity": correlation[:-2, -1],
        },
        index=names,
    )
    alike = pd.DataFrame(correlation[:-2, :-2], names, names)
    # Only what is paid: a penalty for doing nothing does not reward it.
    gains = np.maximum(total, 0.0)
    idle = float(ratio(gains[~acts].sum(), gains.sum()))
    figures = float(correlation[-2, -1]), _opposed_share(total, earned), idle
    return RewardAudit(table, alike, *figures, tuple(_signs(table, correlation[:-2, :-2], *figures)))


def reward_frame(result: Backtest, config: RewardConfig, steps: int = 0) -> pd.DataFrame:
    """What a reward pays a backtest's account: `reward` and, as `reward_…`, its raw components, a row for each bar.

    Scheduled weights are those after `steps` steps; an account that has ended is paid nothing.
    """
    reward = Reward(config, 1)
    # Scheduled weights depend on the step: those of the end are what the final policy was trained by.
    reward.steps = steps
    has_ended = (result.ledger[:, Column.FLAGS].astype(np.int64) & Flag.TERMINATED) != 0
    # Up to and including the bar in which the account ended.
    alive = int(has_ended.argmax()) + 1 if has_ended.any() else len(result)
    paid = np.zeros((len(result), 1 + len(reward.names)))
    for row, ledger in zip(paid, result.ledger[:alive], strict=False):
        values = reward(ledger[None])
        row[0], row[1:] = values.total[0], values.raw[0]
    return pd.DataFrame(paid, result.times, ["reward", *(f"{PREFIX}{name}" for name in reward.names)])


def audit_ledger(ledger: pd.DataFrame, weights: Mapping[str, float]) -> RewardAudit:
    """The audit of a ledger that has `reward` and its raw components `reward_…`; `weights` are those of the reward."""
    named = [str(name) for name in ledger.columns if str(name).startswith(PREFIX)]
    if not named:
        raise DataError("the ledger has no reward components; evaluated runs and recording environments store them")
    components = pd.DataFrame({name.removeprefix(PREFIX): ledger[name] for name in named})
    weighted = components * [weights.get(str(name), 1.0) for name in components]
    # Before the bar or by a trade in it: the reward of an exit belongs to an active bar.
    active = (ledger["exposure_before"] > 0) | (ledger["turnover"] > 0)
    return audit(weighted, ledger["reward"], ledger["equity_change"], active)


def _check(components: Array, *series: Array) -> None:
    lengths = {len(components), *map(len, series)}
    if len(lengths) > 1 or len(components) < 2:
        raise DataError(f"an audit needs two or more steps of equal length, not {', '.join(map(str, sorted(lengths)))}")
    if not all(np.isfinite(values).all() for values in (components, *series)):
        raise DataError("rewards and equity changes must be finite; leave out steps that have none")


def _correlation(columns: Array) -> Array:
    """(k, k) Pearson's, of columns (step, k); NaN where one never changes."""
    spread = columns - columns.mean(axis=0)
    size = np.sqrt(np.square(spread).sum(axis=0)) * _varying_columns(columns)
    return ratio(spread.T @ spread, np.outer(size, size))


def _varying_columns(columns: Array) -> Array:
    """(k,) False where a column never changes, whatever rounding its mean leaves."""
    return np.asarray(np.ptp(columns, axis=0) > 0)


def _opposed_share(reward: Array, earned: Array) -> float:
    # By stretches, not bar by bar: single bars are mostly noise, in which reward and equity often disagree.
    stretches = [np.array_split(values, min(STRETCHES, len(reward))) for values in (reward, earned)]
    return float(np.mean([part.sum() > 0 > gain.sum() for part, gain in zip(*stretches, strict=True)]))


def _signs(table: pd.DataFrame, alike: Array, with_equity: float, opposed: float, idle: float) -> Iterator[str]:
    names = [str(name) for name in table.index]
    for name, share, noise in zip(names, table["balance"], table["signal_to_noise"], strict=True):
        if share > DOMINANT and len(names) > 1:
            yield f"{name} makes up {share:.0%} of the reward; the other components hardly count."
        if np.isnan(noise):
            yield f"{name} never changes and gives no learning signal."
    for i, j in np.argwhere(np.triu(np.abs(alike) > ALIKE, 1)):
        yield f"{names[i]} and {names[j]} are redundant (correlation {alike[i, j]:+.2f}); keep one."
    # Written so that NaN, a reward that never changes, counts as weak.
    if not with_equity > WEAK:
        known = number(with_equity, "+.2f")
        yield f"The reward hardly follows the equity (correlation {known}); maximising it may earn nothing."
    if opposed > OFTEN:
        yield f"The reward is positive while equity falls in {opposed:.0%} of the time; losing money is rewarded."
    if idle > IDLE:
        yield f"{idle:.0%} of the positive reward is paid while nothing is held or traded; doing nothing is rewarded."
