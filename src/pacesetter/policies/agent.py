"""An agent as a policy: a symbol agent applied to every symbol, or an agent of the whole market."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from pacesetter.agents.agent import ACTION_MASK, Agent, Observation
from pacesetter.arrays import Array
from pacesetter.envs.batch.account_entries import PortfolioEntry, write_own_accounts
from pacesetter.policies.policy import Policy, Snapshot

__all__ = ["AgentPolicy", "per_symbol"]

ACCOUNT = ("position", "portfolio")  # entries of an observation that the account makes


@dataclass(frozen=True, eq=False)
class AgentPolicy(Policy):
    """A trained agent that decides for an account.

    agent          has `act(observation, deterministic)`; one that remembers has `reset()`, as a backtest begins
    action         what its actions are: discrete, continuous or hybrid (an order per symbol), target
    is_whole       it sees the whole market, as in Portfolio-v0; otherwise one symbol, as in Trading-v0, and is asked
                   for all symbols as a batch, in which each row has an account of its own: see `write_own_accounts`
    fitted_until   last moment of its training bars
    own_account    of a symbol agent: false shows each row the joint account
    has_encoder    whether its networks can be read, e.g. for attributions

    Masks of discrete orders are the entry `action_mask`: (symbol, 7) for symbol agents, (symbol · 7,) for a whole one.
    """

    agent: Agent
    name: str
    action: str
    is_whole: bool = False
    fitted_until: pd.Timestamp | None = None
    deterministic: bool = True
    own_account: bool = True
    has_encoder: bool = True

    def decide(self, snapshot: Snapshot) -> Array:
        if snapshot.t == snapshot.first:
            self.agent.reset()  # else it would remember the last bars of the backtest before
        entries = self._with_reading(snapshot) if self.is_whole else per_symbol(snapshot.observation, self.own_account)
        observation = {entry: np.array(values) for entry, values in entries.items()}  # torch warns of read-only arrays
        if snapshot.masks is not None:
            observation[ACTION_MASK] = snapshot.masks.ravel() if self.is_whole else snapshot.masks
        actions = np.asarray(self.agent.act(observation, self.deterministic), dtype=np.float64)
        # An agent of the whole market gives one flat vector; a batch of symbol agents gives rows.
        return actions.reshape(-1, 2) if self.action == "hybrid" else actions.reshape(-1)

    @property
    def asks_many(self) -> bool:
        """Whether its agent of the whole market takes several accounts at once."""
        return self.is_whole and self.agent.takes_rows

    @property
    def window_features(self) -> tuple[str, ...] | None:
        """Those of its agent of the whole market."""
        return self.agent.window_features if self.is_whole else None

    def on_features(self, names: tuple[str, ...]) -> AgentPolicy:
        return replace(self, agent=self.agent.on_features(names))

    def decide_many(self, accounts: Sequence[Snapshot]) -> Sequence[Array]:
        if not self.asks_many:
            return super().decide_many(accounts)
        shown = [self._with_reading(each) for each in accounts]
        observation = {entry: np.stack([np.asarray(each[entry]) for each in shown]) for entry in shown[0]}
        return list(np.asarray(self.agent.act(observation, self.deterministic), dtype=np.float64))

    def _with_reading(self, snapshot: Snapshot) -> Observation:
        """The observation of a whole market; in place of the market what was read of it, where that is known."""
        if snapshot.read is None or not self.agent.reads_ahead:
            return snapshot.observation
        return {entry: snapshot.observation[entry] for entry in ACCOUNT} | dict(snapshot.read(self.agent))


def per_symbol(observation: Observation, own_account: bool = True) -> dict[str, Array]:
    """Entries (symbol, …) of a whole market as a batch of one-symbol observations, each with an account of its own.

    Without `own_account` each has the joint one.
    """
    position = np.asarray(observation["position"])
    if not own_account:
        return {**observation, "portfolio": np.repeat(observation["portfolio"][None], len(position), axis=0)}
    # A symbol agent trained alone in its account: the joint account's cash would be outside what it has seen.
    accounts = np.zeros((len(position), len(PortfolioEntry)), position.dtype)
    return {**observation, "portfolio": write_own_accounts(accounts, position)}
