"""What decides, and what may be known when it does: the one base of backtest, paper trading and API."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from pacesetter.arrays import Array
from pacesetter.panel import Panel

if TYPE_CHECKING:
    import pandas as pd

    from pacesetter.agents.agent import Agent

__all__ = ["QUANTITIES", "MarketReader", "Policy", "Snapshot"]

MarketReader = Callable[["Agent"], Mapping[str, Array]]  # an agent -> what it made of a bar, see `Agent.read_market`

QUANTITIES = "quantities"  # action of a policy that sizes orders itself, as a guarded one does


class Snapshot(NamedTuple):
    """All that may be known at the close of bar t.

    panel         rows 0 … t, as views
    observation   that of Portfolio-v0: window (symbol, bar, feature), regime, leadlag, supervised and position
                  (symbol, ·), portfolio (·,)
    masks         (symbol, 7) True where a discrete order would be sent; None for other actions
    first         bar of the first decision, from which rebalancing counts
    read          what an agent that `reads_ahead` makes of bar t; None where each bar is read as it comes
    """

    panel: Panel
    t: int
    observation: Mapping[str, Array]
    masks: Array | None = None
    first: int = 0
    read: MarketReader | None = None


class Policy(ABC):
    """What decides: a baseline, an agent, a fleet, a guarded policy.

    action         how the orders are read: discrete, continuous, hybrid, which are (switch, value) as in Trading-v0, or
                   weights, which are shares of equity. A weight that is NaN leaves its symbol as it is; beside other
                   orders, as it is up to the position cap. Quantities are orders that were sized already
    fitted_until   the last moment that one which learned from data saw; it is refused on bars up to there, and so is
                   one with a part that says so, e.g. a normaliser
    own_account    whether each symbol's row is shown with an account of its own
    is_whole       whether it is shown the market as one observation, not a row for each symbol
    asks_many      whether `decide_many` answers for several accounts at once; see `backtest_many`
    window_features   all that it reads of a market beside its bars: these features of the window; None: more, or it
                   does not say
    confidence     (symbol,) of the last decision; None where it says none
    notes          what else it says of the last decision: a list has an entry for each symbol
    entries        what a model was shown at the last decision
    """

    if TYPE_CHECKING:  # to be read: a policy has them as fields, or works them out

        @property
        def name(self) -> str: ...
        @property
        def action(self) -> str: ...
        @property
        def fitted_until(self) -> pd.Timestamp | None: ...
        @property
        def own_account(self) -> bool: ...
        @property
        def is_whole(self) -> bool: ...
        @property
        def asks_many(self) -> bool: ...
        @property
        def window_features(self) -> tuple[str, ...] | None: ...
        @property
        def confidence(self) -> Array | None: ...
        @property
        def notes(self) -> Mapping[str, object]: ...
        @property
        def entries(self) -> Mapping[str, Array] | None: ...

    else:
        fitted_until = confidence = entries = window_features = None
        own_account, is_whole, asks_many, notes = True, False, False, MappingProxyType({})

    @abstractmethod
    def decide(self, snapshot: Snapshot) -> Array:
        """(symbol,) orders at the close of bar `snapshot.t`; (symbol, 2) hybrid ones."""

    def decide_many(self, accounts: Sequence[Snapshot]) -> Sequence[Array]:
        """The orders of several accounts, a row each."""
        return [self.decide(account) for account in accounts]

    def on_features(self, names: tuple[str, ...]) -> Policy:
        """The same policy for windows of these features alone, `window_features` among them."""
        raise NotImplementedError(f"'{self.name}' reads all features")

    def memory(self) -> Mapping[str, object] | None:
        """What it keeps from bar to bar, as JSON holds it, so that a restarted account goes on; None: nothing."""
        return None

    def recall(self, stored: Mapping[str, object]) -> None:  # noqa: B027 - most keep nothing
        """Take back what `memory` gave."""

    def parts(self) -> Mapping[str, object]:
        """What it is made of, by name; a part that was fitted has `fitted_until`."""
        return vars(self)
