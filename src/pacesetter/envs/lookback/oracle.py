"""The exact optimum over the switching cost, by dynamic programming on the table of rewards.

With r(t, b, c) the reward at bar t of choosing window c while b is in force, and b' what then is in force:

    V(t, b) = max_c r(t, b, c) + V(t+1, b'(t, b, c)),        V(T, ·) = 0

No sequence of windows of the grid scores higher (Bellman 1957). It knows every later bar: an upper bound, and a teacher
on bars of the training set, never a competitor.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pacesetter.arrays import Array
from pacesetter.envs.lookback.batch import LookbackConfig
from pacesetter.envs.lookback.market import LookbackMarket
from pacesetter.envs.lookback.table import RewardTable, reward_table
from pacesetter.errors import DataError
from pacesetter.leadlag.lookback.policy import LookbackPolicy
from pacesetter.panel import Panel

__all__ = ["LookbackOracle", "lookback_oracle", "optimal_values"]


def optimal_values(table: RewardTable) -> tuple[Array, Array]:
    """V (time + 1, before), the best sum of rewards from a bar on, and the choices (time, before) that reach it."""
    bars, count = table.total.shape[:2]
    values, choices = np.zeros((bars + 1, count)), np.zeros((bars, count), dtype=np.int64)
    for t in range(bars - 1, -1, -1):
        # By what comes into force, not by what was chosen: a rejected window leaves the one before.
        worth = table.total[t] + values[t + 1][table.in_force[t]]
        choices[t] = worth.argmax(axis=1)
        values[t] = worth.max(axis=1)
    return values, choices


@dataclass(frozen=True, eq=False)
class LookbackOracle(LookbackPolicy):
    """The optimal windows as a `LookbackPolicy`: it looks ahead, and no policy of the grid can pass it."""

    table: RewardTable
    choices: Array
    values: Array

    @property
    def longest(self) -> int:
        return int(self.table.lookbacks.max())

    @property
    def best(self) -> float:
        """Mean reward per bar of the optimum, the first window being free."""
        return float(self.values[0].max() / len(self.table.bars))

    def choose(self, panel: Panel, t: int, previous: int) -> int:
        row = t - int(self.table.bars[0])
        if not 0 <= row < len(self.table.bars):
            raise DataError(f"the optimum is known for bars {self.table.bars[0]} … {self.table.bars[-1]}, not for {t}")
        # Without a window before, the best starting one is taken: none pays for its first choice.
        before = int(self.values[row].argmax()) if previous <= 0 else self.table.place(t, previous)
        if previous <= 0:  # the window that the first decision starts from is free
            return int(self.table.lookbacks[row, before])
        return int(self.table.lookbacks[row, self.choices[row, before]])


def lookback_oracle(
    panel: Panel, config: LookbackConfig, first: int, last: int | None = None, market: LookbackMarket | None = None
) -> LookbackOracle:
    """The optimum over the bars first … last of a panel, by default to the last whose outcome is known."""
    market = market or LookbackMarket(panel, config.windows, config.view)
    table = reward_table(market, config, first, market.last if last is None else last)
    values, choices = optimal_values(table)
    return LookbackOracle(table, choices, values)
