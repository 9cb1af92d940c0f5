"""One account, several fits: a policy that is replaced by a newer fit of itself, as a user would refit it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import pandas as pd

from pacesetter.arrays import Array
from pacesetter.envs.batch.account_entries import PositionEntry
from pacesetter.errors import ConfigError, DataError
from pacesetter.policies.policy import Policy, Snapshot

__all__ = ["RefittedPolicy"]


@dataclass(frozen=True, eq=False)
class RefittedPolicy(Policy):
    """Fits of one policy in a row; each decides from the close of its own start on, knowing no later bar.

    starts   (fit,) moments of the first decisions
    scales   (fit,) by which each one's weights are multiplied, e.g. k̄ of its views; a fit sees its position unscaled
    """

    policies: tuple[Policy, ...]
    starts: pd.DatetimeIndex
    scales: tuple[float, ...] = ()
    name: str = field(init=False)
    action: str = field(init=False)
    _moments: Array = field(init=False, repr=False)  # nanoseconds: pandas takes most of a bar's time
    asks_many: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not self.policies or len(self.policies) != len(self.starts):
            raise ConfigError(f"{len(self.policies)} fits have {len(self.starts)} starts; give one for each")
        if not self.starts.is_monotonic_increasing or not self.starts.is_unique:
            raise ConfigError("the starts of the fits are not in order; give them from the first to the last")
        for policy, start in zip(self.policies, self.starts, strict=True):
            until = policy.fitted_until
            if until is not None and pd.Timestamp(until) > start:
                raise DataError(f"a fit of {policy.name} ends at {until}, after its first decision at {start}")
        object.__setattr__(self, "name", self.policies[-1].name)
        object.__setattr__(self, "action", self.policies[-1].action)
        object.__setattr__(self, "_moments", self.starts.as_unit("ns").asi8)

    @property
    def window_features(self) -> tuple[str, ...] | None:
        """Those of all fits together; None where one reads more."""
        each = [policy.window_features for policy in self.policies]
        return None if None in each else tuple(dict.fromkeys(name for names in each for name in names or ()))

    def on_features(self, names: tuple[str, ...]) -> RefittedPolicy:
        return replace(self, policies=tuple(policy.on_features(names) for policy in self.policies))

    def decide(self, snapshot: Snapshot) -> Array:
        """(symbol,) orders of the fit in force; before the first start, those of the first."""
        place = self._place(snapshot)
        return self.policies[place].decide(self._own_view(snapshot, place)) * self._scale(place)

    def decide_many(self, snapshots: Sequence[Snapshot]) -> Sequence[Array]:
        """The same of many accounts at one moment, asked together where the fit can."""
        places = {self._place(snapshot) for snapshot in snapshots}
        if len(places) > 1:
            return super().decide_many(snapshots)
        (place,) = places
        orders = self.policies[place].decide_many([self._own_view(snapshot, place) for snapshot in snapshots])
        return [order * self._scale(place) for order in orders]

    def _place(self, snapshot: Snapshot) -> int:
        return max(int(self._moments.searchsorted(snapshot.panel.moments[snapshot.t], side="right")) - 1, 0)

    def _scale(self, place: int) -> float:
        return self.scales[place] if self.scales else 1.0

    def _own_view(self, snapshot: Snapshot, place: int) -> Snapshot:
        """As the fit sees it: its own first decision, and its position in its own units."""
        first = int(snapshot.panel.moments.searchsorted(self._moments[place]))
        own, scale = snapshot._replace(first=max(first, snapshot.first)), self._scale(place)
        if scale in (0.0, 1.0):
            return own
        position = np.array(own.observation["position"])
        position[:, PositionEntry.WEIGHT] /= scale
        return own._replace(observation={**own.observation, "position": position})
