"""Fleets with a context as a policy: their agents keep the latest bars of each account."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import torch

from pacesetter.agents.layout import Tensors
from pacesetter.arrays import Array
from pacesetter.learning.experience.advisers import Advisers
from pacesetter.market.parameters import MarketParameters
from pacesetter.methods.meta.agents import ContextFleet
from pacesetter.methods.meta.memory import CONTEXT
from pacesetter.policies.modules import ServedAgent, serve_agent
from pacesetter.policies.policy import Snapshot
from pacesetter.policies.spec import PolicySpec

__all__ = ["ContextAdvice", "ServedContext", "serve_context"]


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


class ServedContext(ServedAgent):
    """An observation (row, …) with what was kept before it to an order, and what is kept after it."""

    agent: ContextFleet

    def forward(self, observation: Tensors) -> tuple[torch.Tensor, ...]:
        policy, value = self.agent.evaluate(observation)
        (kept,) = self.agent.memory_after(policy).values()
        return (*self.outputs(policy, value), kept)


def serve_context(
    fleet: ContextFleet,
    names: Mapping[str, Iterable[str]],
    market: MarketParameters | None = None,
    trades: Literal["orders", "targets"] = "orders",
) -> tuple[ServedContext, PolicySpec]:
    """A fleet with a context as a module with its spec; see `serve_agent`."""
    _, spec = serve_agent(fleet, names, market, trades)
    (context,) = fleet.memory
    outputs = (*spec.outputs, f"{context}_after")
    return ServedContext(fleet, market).eval(), replace(spec, inputs=spec.inputs | fleet.memory, outputs=outputs)
