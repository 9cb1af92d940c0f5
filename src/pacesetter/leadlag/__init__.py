"""Lead–lag: returns of a panel → a matrix of who leads whom, over any window, in constant time.

`LeadLag(method).fit(panel).matrix(end, lookback)`; ESTIMATORS lists the methods, `tick_lead_lag` takes raw ticks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pacesetter.late import names_on_use

if TYPE_CHECKING:
    from pacesetter.leadlag.engine import CacheInfo, Engine, Window
    from pacesetter.leadlag.estimators.estimator import ESTIMATORS, Estimator, Resources, Scorer, WindowScorer
    from pacesetter.leadlag.estimators.ticks import TickLeadLag, hayashi_yoshida, tick_lead_lag
    from pacesetter.leadlag.lead_lag import LeadLag, Ranking
    from pacesetter.leadlag.series import Series
    from pacesetter.leadlag.ticks import TickFinding, TickStudy

_HOMES = {
    "CacheInfo": "pacesetter.leadlag.engine",
    "ESTIMATORS": "pacesetter.leadlag.estimators.estimator",
    "Engine": "pacesetter.leadlag.engine",
    "Estimator": "pacesetter.leadlag.estimators.estimator",
    "LeadLag": "pacesetter.leadlag.lead_lag",
    "Ranking": "pacesetter.leadlag.lead_lag",
    "Resources": "pacesetter.leadlag.estimators.estimator",
    "Scorer": "pacesetter.leadlag.estimators.estimator",
    "Series": "pacesetter.leadlag.series",
    "TickFinding": "pacesetter.leadlag.ticks",
    "TickLeadLag": "pacesetter.leadlag.estimators.ticks",
    "TickStudy": "pacesetter.leadlag.ticks",
    "Window": "pacesetter.leadlag.engine",
    "WindowScorer": "pacesetter.leadlag.estimators.estimator",
    "hayashi_yoshida": "pacesetter.leadlag.estimators.ticks",
    "tick_lead_lag": "pacesetter.leadlag.estimators.ticks",
}
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

__getattr__ = names_on_use(__name__, _HOMES)
