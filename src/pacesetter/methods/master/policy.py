"""A master and the agents that advise it, as a policy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
import torch
from torch import nn

from pacesetter.agents.agent import ACTION_MASK, CONFIDENCE
from pacesetter.agents.fleet import Fleet
from pacesetter.agents.layout import Tensors
from pacesetter.arrays import Array
from pacesetter.learning.experience.advisers import Advisers
from pacesetter.methods.master.agent import PORTFOLIO, Master, shares
from pacesetter.policies.fleet import FleetAdvice
from pacesetter.policies.policy import Policy, Snapshot
from pacesetter.policies.spec import PolicySpec

__all__ = ["MasterPolicy", "ServedMaster", "serve_master"]


@dataclass(frozen=True, eq=False)
class MasterPolicy(Policy):
    """A master and its agents in a backtest, without exploring; `fitted_until` is the last moment any of them saw."""

    master: Master
    advice: FleetAdvice
    fitted_until: pd.Timestamp | None = None
    name: str = "master"
    action: ClassVar[str] = "target"
    asks_many: ClassVar[bool] = True

    @property
    def fleet(self) -> Fleet:
        """The agents."""
        return self.advice.fleet

    def decide(self, snapshot: Snapshot) -> Array:
        return np.asarray(self.master.act(self.advice(snapshot)), dtype=np.float64)

    def decide_many(self, accounts: Sequence[Snapshot]) -> Sequence[Array]:
        """(account, symbol) orders, by one pass through the networks."""
        return list(np.asarray(self.master.act(self.advice.many(accounts)), dtype=np.float64))


class ServedMaster(nn.Module):
    """A master with the agents that advise it: a market's observation (row, symbol, …) to shares of equity.

    The confidence of a symbol is that of its agent.
    """

    def __init__(self, master: Master, advisers: Advisers) -> None:
        super().__init__()
        self.master, self.advisers = master, advisers

    def forward(self, observation: Tensors) -> tuple[torch.Tensor, ...]:
        advised = self.advisers(observation)
        policy, value = self.master.evaluate(advised)
        return shares(policy.mode()), advised[CONFIDENCE], value


def serve_master(
    master: Master, fleet: Fleet, symbols: tuple[str, ...], names: Mapping[str, Iterable[str]]
) -> tuple[ServedMaster, PolicySpec]:
    """A master of a market with these symbols as a module with its spec; refuses a symbol without an agent."""
    alone = {name: shape for name, shape in fleet.shapes.items() if name not in (PORTFOLIO, ACTION_MASK)}
    inputs = {name: (len(symbols), *shape) for name, shape in alone.items()} | {PORTFOLIO: master.shapes[PORTFOLIO]}
    spec = PolicySpec(
        inputs=inputs,
        names={entry: tuple(names[entry]) for entry in inputs},
        action="target",
        rows="market",
        symbols=symbols,
        outputs=("orders", "confidence", "value"),
    )
    # eval: a bundle must not serve with dropout on.
    return ServedMaster(master, Advisers(fleet, symbols)).eval(), spec
