"""A master and the agents that advise it, as a policy; agents with a context keep their latest bars."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pandas as pd
import torch

from pacesetter.agents.fleet import Fleet
from pacesetter.agents.stream.encoder import STREAM, BarFollower, follower_of
from pacesetter.arrays import Array
from pacesetter.methods.master.agent import Master
from pacesetter.methods.master.market import Advisers
from pacesetter.methods.meta.agents import ContextFleet
from pacesetter.methods.meta.memory import CONTEXT
from pacesetter.policies.fleet import FleetAdvice
from pacesetter.policies.policy import Snapshot

if TYPE_CHECKING:
    from pacesetter.methods.meta.agents import ContextFleet

__all__ = ["Advice", "ContextAdvice", "MasterPolicy"]


@dataclass(frozen=True, eq=False)
class Advice:
    """What the agents of a fleet say in a backtest, whatever symbols the market has; refuses one without an agent."""

    fleet: Fleet
    _advisers: dict[tuple[str, ...], Advisers] = field(default_factory=dict, init=False, repr=False)
    _followers: dict[tuple[str, ...], BarFollower | None] = field(default_factory=dict, init=False, repr=False)

    def __call__(self, snapshot: Snapshot) -> dict[str, Array]:
        """What a master sees of the market, entries (symbol, …)."""
        return {name: entry[0] for name, entry in self.many([snapshot]).items()}

    @torch.no_grad()
    def many(self, accounts: Sequence[Snapshot]) -> dict[str, Array]:
        """The same of several accounts in markets of the same symbols, entries (account, symbol, …)."""
        symbols, device = accounts[0].panel.symbols, self.fleet.frozen.device
        if symbols not in self._advisers:
            self._advisers[symbols] = Advisers(self.fleet, symbols).to(device)
            bars = self.fleet.shapes.get("window", (0,))[0]
            self._followers[symbols] = follower_of(self.fleet.encoder, bars)
        # Copied (`tensor`, not `as_tensor`): observations are read-only views of a bank.
        rows = {
            name: torch.tensor(np.stack([each.observation[name] for each in accounts]), device=device)
            for name in accounts[0].observation
        }
        # A follower keeps the keys and values of one market; several accounts may be in several.
        follow = self._followers[symbols] if len(accounts) == 1 else None
        if follow is not None:
            # Encoded bar by bar: a backtest's next window shares all bars but one with this one.
            rows[STREAM] = follow(accounts[0].observation["window"])[None]
        return {name: entry.cpu().numpy() for name, entry in self._advisers[symbols](rows).items()}


@dataclass(frozen=True, eq=False)
class ContextAdvice:
    """What the agents of a fleet with a context say in a backtest, as `Advice`; each account keeps its own bars.

    At an account's first bar, and when its symbols change, nothing is kept.
    """

    fleet: ContextFleet
    _advisers: dict[tuple[str, ...], Advisers] = field(default_factory=dict, init=False, repr=False)
    _kept: dict[tuple[int, tuple[str, ...]], torch.Tensor] = field(default_factory=dict, init=False, repr=False)

    def __call__(self, snapshot: Snapshot) -> dict[str, Array]:
        """What a master sees of the market, entries (symbol, …)."""
        return self._one(snapshot, 0)

    def many(self, accounts: Sequence[Snapshot]) -> dict[str, Array]:
        """The same of several accounts, entries (account, symbol, …)."""
        answers = [self._one(snapshot, place) for place, snapshot in enumerate(accounts)]
        return {name: np.stack([answer[name] for answer in answers]) for name in answers[0]}

    @torch.no_grad()
    def _one(self, snapshot: Snapshot, place: int) -> dict[str, Array]:

        symbols, device = snapshot.panel.symbols, self.fleet.frozen.device
        if symbols not in self._advisers:
            self._advisers[symbols] = Advisers(self.fleet, symbols).to(device)
        if snapshot.t == snapshot.first or (place, symbols) not in self._kept:
            self._kept[place, symbols] = self.fleet.no_memory(len(symbols))[CONTEXT]
        # Copied (`tensor`, not `as_tensor`): observations are read-only views of a bank.
        shown = {
            name: torch.tensor(np.asarray(entry)[None], device=device) for name, entry in snapshot.observation.items()
        }
        advisers = self._advisers[symbols]
        policy = advisers.ask(shown | {CONTEXT: self._kept[place, symbols][None]})
        answer = {name: entry[0].cpu().numpy() for name, entry in advisers.advise(shown, policy).items()}
        self._kept[place, symbols] = self.fleet.memory_after(policy)[CONTEXT]
        return answer


@dataclass(frozen=True, eq=False)
class MasterPolicy:
    """A master and its agents in a backtest, without exploring; `fitted_until` is the last moment any of them saw."""

    master: Master
    advice: FleetAdvice
    fitted_until: pd.Timestamp | None = None
    name: str = "master"
    action: ClassVar[str] = "target"

    @property
    def fleet(self) -> Fleet:
        """The agents."""
        return self.advice.fleet

    def decide(self, snapshot: Snapshot) -> Array:
        return np.asarray(self.master.act(self.advice(snapshot)), dtype=np.float64)

    def decide_many(self, accounts: Sequence[Snapshot]) -> Array:
        """(account, symbol) orders, by one pass through the networks."""
        return np.asarray(self.master.act(self.advice.many(accounts)), dtype=np.float64)
