"""Several seeds of one agent as one policy: what is wanted is the mean of what its members want."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn

from pacesetter.agents.agent import CONFIDENCE, PROPOSALS
from pacesetter.agents.layout import Tensors
from pacesetter.arrays import Array
from pacesetter.errors import ConfigError
from pacesetter.policies.fleet import FleetAdvice, FleetTargets
from pacesetter.policies.modules import Exported
from pacesetter.policies.policy import Policy, Snapshot

if TYPE_CHECKING:
    import pandas as pd

    from pacesetter.agents.fleet import Fleet

__all__ = ["EnsemblePolicy", "MeanAdvice", "ServedEnsemble", "average_exports", "average_policies"]


def average_policies(policies: Sequence[Policy]) -> Policy:
    """One policy of several alike; a fleet's proposals are averaged before they share the account."""
    first = policies[0]
    if len(policies) == 1:
        return first
    fleets = [policy for policy in policies if isinstance(policy, FleetTargets)]
    if len(fleets) == len(policies):
        return replace(fleets[0], advice=MeanAdvice(tuple(policy.advice for policy in fleets)))
    return EnsemblePolicy(tuple(policies))


@dataclass(frozen=True, eq=False)
class EnsemblePolicy(Policy):
    """Policies whose orders are numbers, e.g. targets; each decides alone, and the mean is sent."""

    policies: tuple[Policy, ...]

    @property
    def name(self) -> str:
        return self.policies[0].name

    @property
    def action(self) -> str:
        return self.policies[0].action

    @property
    def fitted_until(self) -> pd.Timestamp | None:
        """The last moment that any of them saw."""
        known = [policy.fitted_until for policy in self.policies]
        return max((until for until in known if until is not None), default=None)

    def decide(self, snapshot: Snapshot) -> Array:
        mean: Array = np.mean([policy.decide(snapshot) for policy in self.policies], axis=0)
        return mean


@dataclass(frozen=True, eq=False)
class MeanAdvice:
    """What the fleets of several seeds say on average, as `Advice`; `fleet` is the first."""

    members: tuple[FleetAdvice, ...]

    @property
    def fleet(self) -> Fleet:
        return self.members[0].fleet

    def __call__(self, snapshot: Snapshot) -> dict[str, Array]:
        return _mean_advice([member(snapshot) for member in self.members])

    def many(self, accounts: Sequence[Snapshot]) -> dict[str, Array]:
        """The same of several accounts, entries (account, symbol, …)."""
        return _mean_advice([member.many(accounts) for member in self.members])


def _mean_advice(answers: list[dict[str, Array]]) -> dict[str, Array]:
    means = {name: np.mean([answer[name] for answer in answers], axis=0) for name in (PROPOSALS, CONFIDENCE)}
    return answers[0] | means


class ServedEnsemble(nn.Module):
    """Modules of the same spec: the mean of each of their outputs."""

    def __init__(self, members: Sequence[nn.Module]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)

    def forward(self, observation: Tensors) -> tuple[torch.Tensor, ...]:
        answers = [member(observation) for member in self.members]
        return tuple(torch.stack(part).mean(0) for part in zip(*answers, strict=True))


def average_exports(exports: Sequence[Exported]) -> Exported:
    """One graph of several alike; refuses graphs that keep a memory, whose mean means nothing."""
    first = exports[0]
    if len(exports) == 1:
        return first
    if first.spec.memory or first.spec.remembered:
        raise ConfigError("a policy that keeps a memory cannot be served as an ensemble; train it with agent.members=1")
    return first._replace(module=ServedEnsemble([each.module for each in exports]).eval())
