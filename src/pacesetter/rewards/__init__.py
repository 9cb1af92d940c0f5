"""Rewards: components over ledger columns, their weights and schedules, shaping, and scalarisation.

`Reward(config, env_count)(ledger)` gives the reward of every environment with each component beside it. A component is
a plain function of named ledger columns (`component`, `REWARDS`); an outside package adds one by an entry point of the
group `pacesetter.reward`. The trading components are compiled from the same formulas that arrays run.
"""

from __future__ import annotations

from pacesetter.rewards.component import REWARDS, Component, component
from pacesetter.rewards.lookback import LOOKBACK, LOOKBACK_COLUMNS, LookbackColumn
from pacesetter.rewards.objectives import OBJECTIVES
from pacesetter.rewards.reward import Reward, RewardConfig, RewardValues, Term
from pacesetter.rewards.scalarise import chebyshev, weighted_sum
from pacesetter.rewards.schedule import Schedule
from pacesetter.rewards.trading import PROFESSIONAL, TRADING

__all__ = [
    "LOOKBACK",
    "LOOKBACK_COLUMNS",
    "OBJECTIVES",
    "PROFESSIONAL",
    "REWARDS",
    "TRADING",
    "Component",
    "LookbackColumn",
    "Reward",
    "RewardConfig",
    "RewardValues",
    "Schedule",
    "Term",
    "chebyshev",
    "component",
    "weighted_sum",
]
