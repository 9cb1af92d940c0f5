"""A fleet as a policy for one account: by targets made of its agents' proposals, or by their own orders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Protocol, runtime_checkable

import numpy as np
import pandas as pd

from pacesetter.agents.agent import PROPOSALS
from pacesetter.arrays import Array
from pacesetter.envs.batch.account_entries import PositionEntry
from pacesetter.market.parameters import MarketParameters
from pacesetter.market.targets import joint_targets
from pacesetter.policies.agent import AgentPolicy
from pacesetter.policies.policy import Policy, Snapshot

if TYPE_CHECKING:
    from pacesetter.agents.fleet import Fleet

__all__ = ["FleetAdvice", "FleetPolicy", "FleetTargets", "OfFleet", "fleet_action", "fleet_policy"]


@runtime_checkable
class OfFleet(Protocol):
    """A policy whose agents are those of a fleet."""

    @property
    def fleet(self) -> Fleet: ...


class FleetRules(Protocol):
    """How a fleet trades one account, as the options of its task say."""

    @property
    def action(self) -> str: ...
    @property
    def trades(self) -> str: ...
    @property
    def market(self) -> MarketParameters: ...
    @property
    def own_account(self) -> bool: ...


class FleetAdvice(Protocol):
    """What the agents of a fleet propose for a market; `policies.advice.Advice` is one."""

    @property
    def fleet(self) -> Fleet: ...

    def __call__(self, snapshot: Snapshot) -> dict[str, Array]:
        """Entries (symbol, …), `proposals` and `confidence` among them."""
        ...

    def many(self, accounts: Sequence[Snapshot]) -> dict[str, Array]:
        """The same of several accounts, entries (account, symbol, …)."""
        ...


def fleet_action(fleet: Fleet) -> str:
    """What the orders of its agents are."""
    return "continuous" if fleet.actions is None else "discrete"


def fleet_policy(fleet: Fleet, task: FleetRules, fitted_until: pd.Timestamp | None = None) -> Policy:
    """The fleet of a `FleetTrading` task in one account: by target weights, or by the orders of its agents."""
    from pacesetter.policies.advice import Advice

    # Targets by default: in a shared account an agent's own order is a share of what cash is left to it.
    if task.trades == "targets":
        return FleetTargets(Advice(fleet), task.market, task.action == "target", fitted_until)
    return FleetPolicy(fleet, task.action, fitted_until=fitted_until, own_account=task.own_account)


@dataclass(frozen=True, eq=False)
class FleetTargets(Policy):
    """The fleet in one account by target weights: each agent's proposal is a share of the position cap.

    Own orders spend shares of the cash that all agents share: one that is filled is a fraction of a percent of equity.
    Targets are proportional to proposals, capped, and scaled by one factor when oversubscribed: see `joint_targets`.

    are_targets   the agents learned by action=target: their proposals are target positions, not orders
    """

    advice: FleetAdvice
    market: MarketParameters
    are_targets: bool = False
    fitted_until: pd.Timestamp | None = None
    name: str = "fleet"
    action: ClassVar[str] = "target"
    asks_many: ClassVar[bool] = True

    @property
    def fleet(self) -> Fleet:
        """The agents."""
        return self.advice.fleet

    def decide(self, snapshot: Snapshot) -> Array:
        return self._targets(snapshot, self.advice(snapshot)[PROPOSALS])

    def decide_many(self, accounts: Sequence[Snapshot]) -> list[Array]:
        """Orders of each account, by one pass through the networks."""
        return [self._targets(*each) for each in zip(accounts, self.advice.many(accounts)[PROPOSALS], strict=True)]

    def _targets(self, snapshot: Snapshot, advised: Array) -> Array:
        held = np.asarray(snapshot.observation["position"][:, PositionEntry.WEIGHT], dtype=np.float64)
        proposals = np.asarray(advised, dtype=np.float64)
        targets = joint_targets(proposals, held, self.market, are_targets=self.are_targets)
        # Without a bar there is no price to trade at: NaN leaves the position as it is.
        return np.where(snapshot.panel.mask[snapshot.t], targets, np.nan)


@dataclass(frozen=True, eq=False)
class FleetPolicy(Policy):
    """The agents of the market's symbols, looked up by name; refuses a symbol that has none. See `AgentPolicy`."""

    fleet: Fleet
    action: str
    name: str = "fleet"
    fitted_until: pd.Timestamp | None = None
    own_account: bool = True
    _policies: dict[tuple[str, ...], AgentPolicy] = field(default_factory=dict, init=False, repr=False)

    def decide(self, snapshot: Snapshot) -> Array:
        from pacesetter.agents.fleet import FleetAgent

        symbols = snapshot.panel.symbols
        # One for each set of symbols: a backtest of part of the market reads other rows of the stacked heads.
        if symbols not in self._policies:
            agent = FleetAgent(self.fleet, symbols)
            self._policies[symbols] = AgentPolicy(agent, self.name, self.action, own_account=self.own_account)
        return self._policies[symbols].decide(snapshot)
