"""A small paper trade that tests repeat: a panel, rule policies of each action space, and a trader on them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pacesetter.data.loading import load
from pacesetter.market.parameters import Exits, MarketParameters
from pacesetter.panel import Panel
from pacesetter.policies.policy import Policy, Snapshot
from pacesetter.serving.journal.journal import Journal, journal_url
from pacesetter.serving.monitor.alerts import Alerts
from pacesetter.serving.monitor.watch import Thresholds, Watch
from pacesetter.serving.risk.guard import Guard
from pacesetter.serving.risk.halt import KillSwitch
from pacesetter.serving.risk.limits import GuardLimits
from pacesetter.serving.trader.desk import Desk
from pacesetter.serving.trader.feeds import ReplayFeed
from pacesetter.serving.trader.paper import PaperTrader

__all__ = ["FIRST", "RULES", "SAME_AFTER_RESUMING", "SPAN", "Rule", "make_trader", "small_market", "small_panel"]

FIRST = 190
SPAN = (pd.Timestamp("2026-01-01", tz="UTC"), pd.Timestamp("2026-01-02", tz="UTC"))  # of a bar
RULES: dict[str, Callable[[Any], Any]] = {  # momentum (symbol,) -> actions
    "target": lambda momentum: np.where(momentum > 0.0, 0.15, 0.0),
    "continuous": lambda momentum: np.tanh(20.0 * momentum),
    "discrete": lambda momentum: np.where(momentum > 0.02, 3, np.where(momentum < 0.0, 5, 4)),
}

# A person who resumes forgives losses and stop-outs. Where these never act, a trade ends as one without a halt.
SAME_AFTER_RESUMING = GuardLimits(stop_count=999, reduce_fraction=0.9, halt_fraction=0.9, drawdown_fraction=0.9)


class Rule(Policy):
    """Follows the trend of ten bars."""

    def __init__(self, action: str) -> None:
        self.name, self.action = f"{action} rule", action

    def decide(self, seen: Snapshot) -> Any:
        closes = seen.panel.close[-10:]
        return RULES[self.action](closes[-1] / closes[0] - 1.0)


def small_panel(bars: int = 235) -> Panel:
    return load("synthetic", symbols=4, bars=bars, seed=3)


def small_market(panel: Panel) -> MarketParameters:
    return replace(MarketParameters(exits=Exits(trailing_stop_fraction=0.03)), bars_per_year=panel.bars_per_year)


def make_trader(folder: Path, action: str = "continuous", panel: Panel | None = None, **parts: Any) -> PaperTrader:
    """A trader that replays the panel into a journal in the folder; `parts` replace its own."""
    panel = panel or small_panel()
    policy, guard = parts.pop("policy", Rule(action)), Guard(parts.pop("limits", None))
    desk = Desk(policy, guard, panel.symbols, small_market(panel), parts.pop("broker", None))
    own: dict[str, Any] = {
        "feed": ReplayFeed(panel, FIRST),
        "journal": Journal(journal_url(folder), "run"),
        "switch": KillSwitch(folder / "HALT"),
        "watch": Watch(Thresholds(latency_seconds=1e9), Alerts([], 0.0)),
        "observe": lambda panel: {"position": np.zeros(0), "portfolio": np.zeros(0)},
    }
    return PaperTrader(desk, **(own | parts))
