"""Lead–lag: returns of a panel → a matrix of who leads whom, over any window, in constant time.

`LeadLag(method).fit(panel).matrix(end, lookback)`; ESTIMATORS lists the methods, `tick_lead_lag` takes raw ticks.
"""

from __future__ import annotations

from pacesetter.leadlag.engine import CacheInfo, Engine, Window
from pacesetter.leadlag.estimators import (  # noqa: F401  (they register)
    correlation,
    granger,
    learned,
    levy,
    relations,
    signatures,
    warping,
)
from pacesetter.leadlag.estimators.estimator import ESTIMATORS, Estimator, Resources, Scorer, WindowScorer
from pacesetter.leadlag.estimators.ticks import TickLeadLag, hayashi_yoshida, tick_lead_lag
from pacesetter.leadlag.lead_lag import LeadLag, Ranking
from pacesetter.leadlag.series import Series
from pacesetter.leadlag.ticks import TickFinding, TickStudy

__all__ = [
    "ESTIMATORS",
    "CacheInfo",
    "Engine",
    "Estimator",
    "LeadLag",
    "Ranking",
    "Resources",
    "Scorer",
    "Series",
    "TickFinding",
    "TickLeadLag",
    "TickStudy",
    "Window",
    "WindowScorer",
    "hayashi_yoshida",
    "tick_lead_lag",
]
