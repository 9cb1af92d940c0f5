"""A fixed allocation over what symbol agents want to hold, beside the master that learned to allocate.

`compare_allocations` plays all of them over the same bars.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from pacesetter.agents.agent import PROPOSALS
from pacesetter.arrays import Array
from pacesetter.envs.batch.account_entries import PositionEntry
from pacesetter.envs.batch.bank import Bank
from pacesetter.evaluation.backtest.backtest import Backtest, backtest
from pacesetter.evaluation.baselines.allocators import EqualWeight, InverseVolatility, RiskParity
from pacesetter.evaluation.baselines.baseline import Allocation, cap_shares, recent_returns
from pacesetter.evaluation.baselines.catalogue import group_equal
from pacesetter.evaluation.fleet.account_measures import measures
from pacesetter.evaluation.statistics.intervals import Difference, paired_difference
from pacesetter.evaluation.statistics.metrics import sharpe
from pacesetter.market.parameters import MarketParameters
from pacesetter.market.risk import RiskOptions
from pacesetter.methods.master.policy import MasterPolicy
from pacesetter.panel import Panel
from pacesetter.policies.fleet import FleetAdvice, FleetPolicy, FleetTargets, fleet_action
from pacesetter.policies.policy import Policy, Snapshot

__all__ = [
    "FIXED",
    "AllocationComparison",
    "ProposedAllocation",
    "compare_allocations",
]

FIXED: tuple[type[Allocation], ...] = (EqualWeight, InverseVolatility, RiskParity)
OF_PROPOSALS = " of proposals"


@dataclass(frozen=True, eq=False)
class ProposedAllocation(Policy):
    """A fixed allocation over the symbols that the agents want to hold: what they would buy, or hold and not sell.

    Shares are renewed when the symbols change, and where the allocation itself would renew them. A proposal within
    `hold_zone`, the market's, leaves a position as it is.
    """

    allocation: Allocation
    advice: FleetAdvice
    fitted_until: pd.Timestamp | None = None
    hold_zone: float = 0.1
    action: ClassVar[str] = "target"

    @property
    def name(self) -> str:
        return f"{self.allocation.name}{OF_PROPOSALS}"

    def decide(self, snapshot: Snapshot) -> Array:
        proposals, trades = self.advice(snapshot)[PROPOSALS], snapshot.panel.mask[snapshot.t]
        is_held = snapshot.observation["position"][:, PositionEntry.WEIGHT] > 0
        # Hysteresis as in the kernel: within the hold zone a position stays, but none is opened.
        wanted = trades & ((proposals > self.hold_zone) | (is_held & (proposals >= -self.hold_zone)))
        # No change and not due: NaN leaves all positions, and saves the turnover of drifting weights.
        if (wanted == is_held)[trades].all() and not self.allocation.is_due(snapshot):
            return np.full(len(trades), np.nan)
        orders = np.where(trades, 0.0, np.nan)
        if wanted.any():
            returns = np.nan_to_num(recent_returns(snapshot.panel, self.allocation.history_bars)[:, wanted])
            orders[wanted] = cap_shares(self.allocation.allocate(returns, snapshot), self.allocation.cap)
        return orders


# ---- comparing ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class AllocationComparison:
    """A master beside its agents' own orders, and fixed allocations over the same proposals, in one account each."""

    master: Backtest
    fleet: Backtest
    fixed: tuple[Backtest, ...]

    @property
    def best(self) -> Backtest:
        """The fixed allocation with the highest Sharpe ratio."""
        return max(self.fixed, key=lambda result: float(sharpe(result.returns)))

    def difference(self, other: Backtest | None = None) -> Difference:
        """The annualised Sharpe ratio of the master less another's, the best fixed allocation's; with its interval."""

        def annual(returns: Array) -> Array:
            return np.asarray(sharpe(returns) * np.sqrt(self.master.bars_per_year))

        return paired_difference(self.master.returns, (other or self.best).returns, annual)

    def table(self) -> pd.DataFrame:
        """A row each: its `measures`, and `difference`, `low` and `high` of the master's Sharpe ratio less its own.

        Fixed allocations that earned the same at every bar, as few symbols under a cap do, are one row with all names.
        """
        fixed = {result.name: result for result in self.fixed}
        groups = {_join_names(names): fixed[names[0]] for names in group_equal(fixed)}
        rows = {self.master.name: measures(self.master)}
        for name, result in {self.fleet.name: self.fleet, **groups}.items():
            above = dict(zip(("difference", "low", "high"), self.difference(result), strict=False))
            rows[name] = measures(result) | above
        return pd.DataFrame.from_dict(rows, orient="index").rename_axis("policy")


def _join_names(names: Sequence[str]) -> str:
    return ", ".join(name.removesuffix(OF_PROPOSALS) for name in names) + OF_PROPOSALS


def compare_allocations(
    master: MasterPolicy,
    panel: Panel,
    *,
    first: int,
    bank: Bank,
    last: int | None = None,
    market: MarketParameters | None = None,
    window_bars: int = 24,
    risk: RiskOptions | None = None,
    fixed: Sequence[type[Allocation]] = FIXED,
) -> AllocationComparison:
    """Play the master, its agents, and fixed allocations over their proposals; options are those of `backtest`.

    `risk` sizes those that give weights; agents with orders of their own are played as they are.
    """
    rules = market or MarketParameters()

    def play(policy: Policy) -> Backtest:
        options: dict[str, Any] = {"market": rules, "bank": bank, "window_bars": window_bars}
        return backtest(
            policy, panel, first=first, last=last, risk=risk if policy.action == "target" else None, **options
        )

    fleet: Policy = FleetPolicy(master.fleet, fleet_action(master.fleet), fitted_until=master.fitted_until)
    if master.fleet.around is not None:  # what they do is added to a prior's targets
        fleet = FleetTargets(master.advice, rules, are_targets=True, fitted_until=master.fitted_until)
    options = master.advice, master.fitted_until, rules.orders.hold_zone
    policies = [ProposedAllocation(kind.on(bank, rules), *options) for kind in fixed]
    return AllocationComparison(play(master), play(fleet), tuple(play(policy) for policy in policies))
