"""What the agents of a fleet say of a market in a backtest; one that keeps no memory but the bars it has encoded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from pacesetter.agents.fleet import Fleet
from pacesetter.agents.stream.encoder import STREAM, BarFollower, follower_of
from pacesetter.arrays import Array
from pacesetter.learning.experience.advisers import Advisers
from pacesetter.policies.policy import Snapshot

__all__ = ["Advice"]


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
