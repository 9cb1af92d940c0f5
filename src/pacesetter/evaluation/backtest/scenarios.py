"""Policies over many markets: each scenario is a panel, a period and rules, and the answer is one table.

Stressed, costlier, synthetic, adversarial markets and other universes are all lists of scenarios.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from pacesetter.envs.batch.bank import Bank
from pacesetter.errors import ConfigError
from pacesetter.evaluation.backtest.backtest import backtest
from pacesetter.evaluation.baselines.catalogue import make_baseline
from pacesetter.evaluation.statistics.metrics import metrics
from pacesetter.market.parameters import MarketParameters
from pacesetter.market.risk import RiskOptions
from pacesetter.panel import Panel
from pacesetter.policies.market_rows import market_bank
from pacesetter.policies.policy import Policy

__all__ = ["Scenario", "evaluate_scenarios", "spread"]

FEWEST_FOR_TAILS = 20  # scenarios; with fewer, one in twenty is none of them


class Scenario(NamedTuple):
    """A market to be judged on: decisions from bar `first` on, bars up to `last` (the panel's), under `market`.

    is_unseen   no policy was fitted on these bars, whatever their dates: see `backtest`
    """

    label: str
    panel: Panel
    first: int
    last: int | None = None
    market: MarketParameters | None = None
    is_unseen: bool = False


def evaluate_scenarios(
    policies: Sequence[Policy | str],
    scenarios: Iterable[Scenario],
    *,
    bank_of: Callable[[Panel], Bank] = market_bank,
    window_bars: int = 24,
    risk: RiskOptions | None = None,
) -> pd.DataFrame:
    """A row of `metrics` for each (scenario, policy); a string names a baseline, made for each scenario's market.

    `bank_of` gives the features that the policies read. A bank is computed once for scenarios in a row that share
    their panel. `risk` sizes the weights of policies; baselines by name are played as they are.
    """
    rows: dict[tuple[str, str], dict[str, float]] = {}
    panel, bank = None, None
    for scenario in scenarios:
        # Features are the most expensive part: cost scenarios share one panel, and so one bank.
        if bank is None or scenario.panel is not panel:
            panel, bank = scenario.panel, bank_of(scenario.panel)
        for given in policies:
            policy = make_baseline(given, bank, scenario.market) if isinstance(given, str) else given
            # The second would silently replace the first in the table.
            if (scenario.label, policy.name) in rows:
                raise ConfigError(f"policy '{policy.name}' appears twice in '{scenario.label}'; give each its own name")
            sizing = None if isinstance(given, str) else risk
            rules = scenario._asdict()
            rules.pop("label")
            played = backtest(policy, bank=bank, window_bars=window_bars, risk=sizing, **rules)
            rows[scenario.label, policy.name] = metrics(played)
    if not rows:
        raise ConfigError("nothing to evaluate; give at least one policy and one scenario")
    index = pd.MultiIndex.from_tuples(rows, names=["scenario", "policy"])
    return pd.DataFrame(list(rows.values()), index=index)


def spread(table: pd.DataFrame, figure: str = "sharpe") -> pd.DataFrame:
    """For each policy: mean and spread of one figure over the scenarios, and the share above 0.

    The spread is the 5 %, 50 % and 95 % quantile, or the lowest, median and highest of fewer than twenty scenarios.
    """
    by_policy = table[figure].groupby("policy", sort=False)
    has_tails = by_policy.size().min() >= FEWEST_FOR_TAILS
    # A 5 % quantile of fewer than twenty values would be an extrapolation.
    shares = {"5%": 0.05, "50%": 0.5, "95%": 0.95} if has_tails else {"lowest": 0.0, "median": 0.5, "highest": 1.0}
    quantiles = {name: by_policy.quantile(share) for name, share in shares.items()}
    positive = by_policy.agg(lambda values: float(np.mean(values > 0)))
    return pd.DataFrame({"mean": by_policy.mean(), **quantiles, "positive": positive})
