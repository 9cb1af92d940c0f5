"""A fleet as a policy: each symbol's agent gives its order, whatever symbols the market has."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pandas as pd
from numpy.typing import NDArray

from pacesetter.policies.agent import AgentPolicy
from pacesetter.policies.policy import Seen

if TYPE_CHECKING:
    from pacesetter.agents.fleet import Fleet

__all__ = ["FleetPolicy", "fleet_action"]


def fleet_action(fleet: Fleet) -> str:
    """What the orders of its agents are."""
    return "continuous" if fleet.actions is None else "discrete"


@dataclass(frozen=True, eq=False)
class FleetPolicy:
    """The agents of the market's symbols, looked up by name; refuses a symbol that has none. See `AgentPolicy`."""

    fleet: Fleet
    action: str
    name: str = "fleet"
    fitted_until: pd.Timestamp | None = None
    _policies: dict[tuple[str, ...], AgentPolicy] = field(default_factory=dict, init=False, repr=False)

    def decide(self, seen: Seen) -> NDArray[Any]:
        from pacesetter.agents.fleet import FleetAgent

        symbols = seen.panel.symbols
        if symbols not in self._policies:
            self._policies[symbols] = AgentPolicy(FleetAgent(self.fleet, symbols), self.name, self.action)
        return self._policies[symbols].decide(seen)
