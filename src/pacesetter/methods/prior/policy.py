"""Agents that begin at a prior, as policies and as a graph: what they do is added to what the prior wants."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import nn

from pacesetter.agents.layout import Tensors
from pacesetter.arrays import Array
from pacesetter.envs.batch.account_entries import PositionEntry
from pacesetter.envs.batch.bank import PRIOR
from pacesetter.errors import ConfigError
from pacesetter.market.orders import Around, around_prior, as_targets
from pacesetter.market.targets import within_account
from pacesetter.methods.prior.prior import Prior
from pacesetter.policies.agent import AgentPolicy
from pacesetter.policies.fleet import FleetAdvice
from pacesetter.policies.policy import Policy, Snapshot
from pacesetter.policies.spec import WINDOW, PolicySpec

if TYPE_CHECKING:
    import pandas as pd

    from pacesetter.agents.fleet import Fleet

__all__ = [
    "BesidePrior",
    "PriorAdvice",
    "PriorAlone",
    "PriorPolicy",
    "ServedPrior",
    "ServedPriorMaster",
    "serve_prior",
    "serve_prior_master",
]


@dataclass(frozen=True, eq=False)
class BesidePrior:
    """What a prior adds to an observation, and how an agent's residuals are read beside it.

    window_bars   that the agent itself sees of the window        reach   of its residuals
    """

    prior: Prior
    window_bars: int
    reach: float

    @torch.no_grad()
    def show(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot as the agent sees it; refuses a market of other symbols."""
        if snapshot.panel.symbols != self.prior.symbols:
            raise ConfigError(
                f"the prior knows the symbols {', '.join(self.prior.symbols[:5])} … together; give a market of these, "
                "or train with agent.prior=none"
            )
        rows = {name: torch.tensor(np.asarray(snapshot.observation[name]))[None] for name in self.prior.reads}
        window = snapshot.observation[WINDOW][:, -self.window_bars :]
        observation = {**snapshot.observation, WINDOW: window, PRIOR: self.prior(rows)[0].numpy()}
        return snapshot._replace(observation=observation)

    def numbers(self, residuals: Array, shown: Snapshot) -> Array:
        """(symbol,) numbers in [-1, 1] for the agent's residuals (symbol,) at what it was shown."""
        held = np.asarray(shown.observation["position"])[:, PositionEntry.WEIGHT]
        ends = np.asarray(shown.observation[PRIOR])
        added = around_prior(np.asarray(residuals), ends, held, Around.of(self.reach, self.prior.market))
        return np.asarray(added, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class PriorAdvice:
    """What the agents of a fleet propose around a prior, as `Advice`; they read their residuals themselves."""

    advice: FleetAdvice
    beside: BesidePrior

    @property
    def fleet(self) -> Fleet:
        return self.advice.fleet

    def __call__(self, snapshot: Snapshot) -> dict[str, Array]:
        return {name: entry[0] for name, entry in self.many([snapshot]).items()}

    def many(self, accounts: Sequence[Snapshot]) -> dict[str, Array]:
        """The same of several accounts, entries (account, symbol, …)."""
        return self.advice.many([self.beside.show(snapshot) for snapshot in accounts])


@dataclass(frozen=True, eq=False)
class PriorPolicy(Policy):
    """One agent for every symbol of an account, around a prior."""

    agent_policy: AgentPolicy
    beside: BesidePrior
    action: ClassVar[str] = "target"

    @property
    def name(self) -> str:
        return self.agent_policy.name

    @property
    def fitted_until(self) -> pd.Timestamp | None:
        return self.agent_policy.fitted_until

    def decide(self, snapshot: Snapshot) -> Array:
        shown = self.beside.show(snapshot)
        numbers = self.beside.numbers(self.agent_policy.decide(shown), shown)
        return np.asarray(as_targets(numbers, self.beside.prior.market), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class PriorAlone(Policy):
    """A prior without its agents: what their untrained residuals of 0 come to.

    is_joint   scaled into one account as the targets of a fleet are
    """

    beside: BesidePrior
    fitted_until: pd.Timestamp | None = None
    is_joint: bool = False
    name: str = "its prior"
    action: ClassVar[str] = "target"

    def decide(self, snapshot: Snapshot) -> Array:
        market, none = self.beside.prior.market, np.zeros(len(snapshot.panel.symbols))
        targets = np.asarray(as_targets(self.beside.numbers(none, self.beside.show(snapshot)), market))
        if not self.is_joint:
            return targets
        return np.where(snapshot.panel.mask[snapshot.t], within_account(targets, market), np.nan)


class ServedPrior(nn.Module):
    """An agent's module with its prior in front: rows are the symbols in their order, of one market or several."""

    def __init__(self, agent: nn.Module, beside: BesidePrior) -> None:
        super().__init__()
        self.agent, self.prior, self.window_bars, self.reach = agent, beside.prior, beside.window_bars, beside.reach

    def forward(self, observation: Tensors) -> tuple[torch.Tensor, ...]:
        symbols, market = len(self.prior.symbols), self.prior.market
        # (symbol · market, …) → (market, symbol, …), which the prior reads.
        rows = {
            name: observation[name].reshape(symbols, -1, *observation[name].shape[1:]).transpose(0, 1)
            for name in self.prior.reads
        }
        ends = self.prior(rows).transpose(0, 1).flatten(0, 1)
        window = observation[WINDOW][:, -self.window_bars :]
        residuals, *rest = self.agent({**observation, WINDOW: window, PRIOR: ends})
        held = observation["position"][:, PositionEntry.WEIGHT]
        numbers = around_prior(residuals.flatten(), ends, held, Around.of(self.reach, market))
        return as_targets(numbers, market)[:, None], *rest


class ServedPriorMaster(nn.Module):
    """A master's module with the prior of its agents in front: a market's observation (row, symbol, …)."""

    def __init__(self, master: nn.Module, beside: BesidePrior) -> None:
        super().__init__()
        self.master, self.prior, self.window_bars = master, beside.prior, beside.window_bars

    def forward(self, observation: Tensors) -> tuple[torch.Tensor, ...]:
        ends = self.prior({name: observation[name] for name in self.prior.reads})
        window = observation[WINDOW][:, :, -self.window_bars :]
        answer: tuple[torch.Tensor, ...] = self.master({**observation, WINDOW: window, PRIOR: ends})
        return answer


def serve_prior_master(
    master: nn.Module, spec: PolicySpec, beside: BesidePrior, names: Mapping[str, Iterable[str]]
) -> tuple[ServedPriorMaster, PolicySpec]:
    """A master's module and its spec with the prior of its agents inside."""
    inputs = {name: shape for name, shape in spec.inputs.items() if name != PRIOR}
    symbols, _, features = inputs[WINDOW]
    inputs[WINDOW] = (symbols, max(beside.prior.history_bars, beside.window_bars), features)
    own = replace(spec, inputs=inputs, names={name: tuple(names[name]) for name in inputs})
    return ServedPriorMaster(master, beside).eval(), own


def serve_prior(
    agent: nn.Module, spec: PolicySpec, beside: BesidePrior, names: Mapping[str, Iterable[str]], trades: Any
) -> tuple[ServedPrior, PolicySpec]:
    """A module of residuals and its spec as one of targets, which takes a row of each of the prior's symbols.

    `names` gives the features of each entry; refuses an agent that keeps a memory.
    """
    if spec.memory or spec.remembered:
        raise ConfigError("an agent that keeps a memory cannot be served with a prior; take another network")
    features = len(tuple(names[WINDOW]))
    needed = {name: (len(tuple(names[name])),) for name in beside.prior.reads if name != WINDOW}
    inputs = {name: shape for name, shape in spec.inputs.items() if name != PRIOR} | needed
    inputs[WINDOW] = (max(beside.prior.history_bars, beside.window_bars), features)
    served = replace(
        spec,
        inputs=inputs,
        names={name: tuple(names[name]) for name in inputs},
        action="target",
        rows="fleet",
        symbols=beside.prior.symbols,
        trades=trades,
    )
    return ServedPrior(agent, beside).eval(), served
