"""What decides, and what may be known when it does: the one protocol of backtest, paper trading and API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol, runtime_checkable

from pacesetter.arrays import Array
from pacesetter.panel import Panel

__all__ = ["QUANTITIES", "Policy", "Snapshot"]

QUANTITIES = "quantities"  # action of a policy that sizes orders itself, as a guarded one does


class Snapshot(NamedTuple):
    """All that may be known at the close of bar t.

    panel         rows 0 … t, as views
    observation   that of Portfolio-v0: window (symbol, bar, feature), regime, leadlag, supervised and position
                  (symbol, ·), portfolio (·,)
    masks         (symbol, 7) True where a discrete order would be sent; None for other actions
    first         bar of the first decision, from which rebalancing counts
    """

    panel: Panel
    t: int
    observation: Mapping[str, Array]
    masks: Array | None = None
    first: int = 0


@runtime_checkable
class Policy(Protocol):
    """What decides: a baseline, an agent, a fleet, a guarded policy.

    action   how the orders are read: discrete, continuous, hybrid, which are (switch, value) as in Trading-v0, or
             weights, which are shares of equity. A weight that is NaN leaves its symbol as it is; beside other orders,
             as it is up to the position cap. Quantities are orders that were sized already

    One that learned from data has `fitted_until`, the last moment it saw, and so have the parts it is made of; it is
    refused on bars up to there. One that answers for several accounts at once has `decide_many(accounts)`, a sequence
    of `Snapshot` to a row of orders each; see `backtest_many`.
    """

    @property
    def name(self) -> str: ...

    @property
    def action(self) -> str: ...

    def decide(self, snapshot: Snapshot) -> Array:
        """(symbol,) orders at the close of bar `snapshot.t`; (symbol, 2) hybrid ones."""
        ...
