"""A policy that is asked for something: a goal, or weights of its objectives, beside what the market shows.

An entry that is asked for has numbers of its own, or none where the account says them: the return since the period
began. Periods are as long as training episodes, so that a goal of 2 % means the same in training and in a backtest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from pacesetter.arrays import Array
from pacesetter.envs.batch.account_entries import PortfolioEntry
from pacesetter.policies.policy import Policy, Snapshot
from pacesetter.rewards.scalarise import ACCRUED, PREFERENCE

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["PARAMETERS", "PREFERENCE", "ConditionedPolicy", "condition_entries"]

# entry of an observation -> the name under which a request gives it
# entries of an observation, goals named as in Gymnasium-Robotics -> parameters of a request
PARAMETERS = {"desired_goal": "goal", "achieved_goal": "achieved", PREFERENCE: "preference", ACCRUED: "accrued"}


def condition_entries(asked: Mapping[str, Sequence[float]], achieved: float, symbols: int | None) -> dict[str, Array]:
    """Entries (size,) of what is asked for, or (symbol, size) where there is a row for each of some symbols.

    `achieved` is the account's return; it stands where an entry has no numbers.
    """
    rows = {name: np.array(numbers if len(numbers) else (achieved,), np.float32) for name, numbers in asked.items()}
    return rows if symbols is None else {name: np.tile(row, (symbols, 1)) for name, row in rows.items()}


@dataclass(frozen=True, eq=False)
class ConditionedPolicy(Policy):
    """A policy with what it is asked for; everything else is its own.

    asked         entry -> numbers, or () where the account says them
    period_bars   after which returns are counted from 0 again; None: never
    """

    policy: Policy
    asked: Mapping[str, Sequence[float]]
    period_bars: int | None = None
    _began: dict[int, float] = field(default_factory=dict, init=False, repr=False)  # equity ratio by account

    @property
    def name(self) -> str:
        return self.policy.name

    @property
    def action(self) -> str:
        return self.policy.action

    @property
    def fitted_until(self) -> pd.Timestamp | None:
        return self.policy.fitted_until

    @property
    def own_account(self) -> bool:
        return self.policy.own_account

    @property
    def is_whole(self) -> bool:
        return self.policy.is_whole

    @property
    def asks_many(self) -> bool:
        return self.policy.asks_many

    @property
    def confidence(self) -> Array | None:
        return self.policy.confidence

    @property
    def notes(self) -> Mapping[str, object]:
        return self.policy.notes

    @property
    def entries(self) -> Mapping[str, Array] | None:
        return self.policy.entries

    def decide(self, snapshot: Snapshot) -> Array:
        return self.policy.decide(self._add_request(snapshot, 0))

    def decide_many(self, accounts: Sequence[Snapshot]) -> Sequence[Array]:
        return self.policy.decide_many([self._add_request(snapshot, place) for place, snapshot in enumerate(accounts)])

    def memory(self) -> Mapping[str, object] | None:
        return self.policy.memory()

    def recall(self, stored: Mapping[str, object]) -> None:
        self.policy.recall(stored)

    def _add_request(self, snapshot: Snapshot, place: int) -> Snapshot:
        """What is seen, with what is asked for; `place` tells accounts apart that are asked about together."""
        portfolio = np.asarray(snapshot.observation["portfolio"])
        ratio = float(portfolio.reshape(-1, portfolio.shape[-1])[0, PortfolioEntry.EQUITY_RATIO])
        since = snapshot.t - snapshot.first
        # A period restarts like a training episode does, whose achieved return begins at 0.
        if place not in self._began or since == 0 or (self.period_bars and since % self.period_bars == 0):
            self._began[place] = ratio
        began = self._began[place]
        rows = None if self.is_whole else len(snapshot.panel.symbols)
        # An account that lost all has no return to state.
        entries = condition_entries(self.asked, ratio / began - 1.0 if began > 0 else 0.0, rows)
        return snapshot._replace(observation={**snapshot.observation, **entries})
