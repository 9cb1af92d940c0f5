"""The watch: a few health metrics of a trader, and the alert that each fires beyond its threshold."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from pacesetter.arrays import Array
from pacesetter.errors import DataError, check_range
from pacesetter.features.table import FeatureTable
from pacesetter.market.orders import Discrete
from pacesetter.policies.variety import evenness
from pacesetter.serving.monitor.alerts import CRITICAL, WARNING, Alert, Alerts

__all__ = [
    "CriticalThresholds",
    "FeatureReference",
    "Thresholds",
    "Vitals",
    "Watch",
    "action_entropy",
    "feature_moments",
]

CONTINUOUS_BINS = 20  # as the training gates count them
LEAST_WEIGHT = 1e-9
ACTIONS_KEPT = 512  # served actions that the entropy looks at
ORDERS_KEPT = 100  # orders that the denial rate looks at
LEAST_ACTIONS = 50  # before the entropy says anything
LEAST_ORDERS = 10
LEAST_ROWS = 20
LOW = "entropy"  # the vital sign that is bad where it is low


class Vitals(NamedTuple):
    """How a trader is; NaN is not known yet.

    drawdown          of equity, from its highest
    data_age_bars     from the close of the latest bar until now
    denial_rate       share of the latest orders that the guard refused
    latency_seconds   from a bar's arrival until its orders were decided on
    entropy           of the served actions, as a share of that of equal use
    drift             largest shift of a feature's mean from that of training, in standard deviations of training
    """

    drawdown: float = math.nan
    data_age_bars: float = math.nan
    denial_rate: float = math.nan
    latency_seconds: float = math.nan
    entropy: float = math.nan
    drift: float = math.nan


@dataclass(frozen=True)
class CriticalThresholds:
    """Beyond these, and beyond the warning's, an alert is CRITICAL; the guard itself halts at a drawdown of 10 %."""

    drawdown: float = 0.08
    data_age_bars: float = 5.0
    denial_rate: float = 0.9
    latency_seconds: float = 5.0
    entropy: float = 0.02
    drift: float = 8.0

    def __post_init__(self) -> None:
        check_range(0, owner="watch.critical", **vars(self))


@dataclass(frozen=True)
class Thresholds:
    """Beyond these an alert of the level WARNING is sent: above, or for the entropy below; CRITICAL has its own."""

    drawdown: float = 0.05
    data_age_bars: float = 2.0
    denial_rate: float = 0.5
    latency_seconds: float = 1.0
    entropy: float = 0.1
    drift: float = 4.0
    cooldown_seconds: float = 300.0
    critical: CriticalThresholds = field(default_factory=CriticalThresholds)

    def __post_init__(self) -> None:
        check_range(0, owner="watch", **{name: value for name, value in vars(self).items() if name != "critical"})

    def find_alerts(self, vitals: Vitals, at: float) -> list[Alert]:
        """An alert for each number beyond its threshold."""
        alerts = []
        for kind, value in vitals._asdict().items():
            side, limit = "below" if kind == LOW else "above", vars(self)[kind]
            if _is_beyond(kind, value, limit):
                worse = vars(self.critical)[kind]
                is_worse = _is_beyond(kind, value, worse)
                level, limit = (CRITICAL, worse) if is_worse else (WARNING, limit)
                alerts.append(Alert(kind, f"{kind} is {value:.4g}, {side} {limit:g}", float(value), at, level))
        return alerts


def _is_beyond(kind: str, value: float, limit: float) -> bool:
    return value < limit if kind == LOW else value > limit


@dataclass(frozen=True, eq=False)
class FeatureReference:
    """What the features were in training: (feature,) `mean` and `spread`, their standard deviation."""

    mean: Array
    spread: Array

    @classmethod
    def of(cls, moments: Mapping[str, tuple[float, float]], names: Sequence[str]) -> FeatureReference:
        """The reference of the named features, in their order, from `feature_moments`."""
        mean, spread = np.array([moments[name] for name in names]).T
        return cls(mean, spread)

    def drift(self, rows: Array) -> float:
        """Largest |mean of `rows` (row, feature) − training's| in units of training's spread; NaN of too few rows."""
        # A feature that was constant in training has no unit to measure a shift in.
        known = self.spread > 0.0
        if len(rows) < LEAST_ROWS or not known.any():
            return math.nan
        return float(np.max(np.abs(rows.mean(axis=0) - self.mean)[known] / self.spread[known]))


def feature_moments(table: FeatureTable, until: pd.Timestamp) -> dict[str, tuple[float, float]]:
    """Name -> mean and standard deviation of each feature up to a moment, as a bundle's manifest keeps them."""
    rows = table.values[:, table.index <= until].reshape(-1, len(table.names)).astype(np.float64)
    # Rows that are still warming up have NaN, and are not what a policy saw.
    rows = rows[np.isfinite(rows).all(axis=1)]
    if not len(rows):
        raise DataError(f"no bar up to {until} has all features; give more bars")
    moments = zip(rows.mean(axis=0).tolist(), rows.std(axis=0).tolist(), strict=True)
    return dict(zip(table.names, moments, strict=True))


def action_entropy(actions: ArrayLike, space: str) -> float:
    """Entropy of actions as a share of that of equal use; NaN of too few.

    Discrete orders are counted by name, continuous and hybrid ones in 20 bins of [-1, 1], weights in 20 from 0 to the
    largest.
    """
    values = np.asarray(actions, dtype=np.float64)
    values = values[np.isfinite(values)]
    if len(values) < LEAST_ACTIONS:
        return math.nan
    if space == "discrete":
        counts = np.bincount(values.astype(int), minlength=len(Discrete))
    else:
        held = min(float(values.min()), 0.0), max(float(values.max()), LEAST_WEIGHT)
        counts, _ = np.histogram(values, CONTINUOUS_BINS, held if space in ("target", "weights") else (-1.0, 1.0))
    return evenness(counts)


class Watch:
    """Keeps what the vitals look back on, and sends the alerts."""

    def __init__(self, thresholds: Thresholds, alerts: Alerts, reference: FeatureReference | None = None) -> None:
        self.thresholds, self.alerts, self.reference = thresholds, alerts, reference
        self._actions: deque[float] = deque(maxlen=ACTIONS_KEPT)
        self._denied: deque[bool] = deque(maxlen=ORDERS_KEPT)
        self._rows: deque[Array] = deque(maxlen=ACTIONS_KEPT)

    def record_decisions(self, actions: Array, denied: list[bool], observation: Mapping[str, Array]) -> None:
        """Take in what was decided: actions (symbol,), whether each order was refused, and what was observed."""
        self._actions.extend(actions.tolist())
        self._denied.extend(denied)
        if self.reference is not None:
            self._rows.extend(observation["window"][:, -1])

    def vitals(self, space: str, drawdown: float, data_age_bars: float, latency_seconds: float) -> Vitals:
        """The numbers as they are now."""
        rate = float(np.mean(self._denied)) if len(self._denied) >= LEAST_ORDERS else math.nan
        drift = self.reference.drift(np.array(self._rows)) if self.reference is not None else math.nan
        return Vitals(drawdown, data_age_bars, rate, latency_seconds, action_entropy(self._actions, space), drift)

    def to_dict(self) -> dict[str, object]:
        """The history behind the vitals, without the features, as JSON can hold it."""
        # JSON has no NaN, which is a weight that leaves its symbol as it is.
        actions = [None if math.isnan(action) else action for action in self._actions]
        return {"actions": actions, "denied": list(self._denied), "sent": dict(self.alerts.latest)}

    def restore(self, stored: Mapping[str, Any]) -> None:
        """Restore what `to_dict` gave."""
        for kept in (self._actions, self._denied):
            kept.clear()
        self._actions.extend(math.nan if action is None else action for action in stored["actions"])
        self._denied.extend(stored["denied"])
        self.alerts.latest.update(stored["sent"])

    def check(self, vitals: Vitals, at: float) -> list[Alert]:
        """Send what is beyond its threshold and not cooling down; gives the alerts that were sent."""
        return [alert for alert in self.thresholds.find_alerts(vitals, at) if self.alerts.send(alert)]
