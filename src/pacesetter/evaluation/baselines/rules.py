"""Baselines that read features: a rule-based agent by name, and the class probabilities of a supervised model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from pacesetter.agents.rules import RULES, RuleAgent
from pacesetter.arrays import Array
from pacesetter.envs.batch.account_entries import PositionEntry
from pacesetter.envs.batch.bank import Bank
from pacesetter.errors import ConfigError, DataError
from pacesetter.evaluation.baselines.baseline import Baseline
from pacesetter.market.parameters import MarketParameters
from pacesetter.policies.policy import Snapshot
from pacesetter.registry import configure

__all__ = ["Rule", "Supervised"]


@dataclass(frozen=True)
class Rule(Baseline):
    """A rule-based agent of `agents.rules`, by name, with continuous orders for every symbol.

    features   names of the window's last axis
    """

    name: ClassVar[str] = "rule"
    action: ClassVar[str] = "continuous"
    features: tuple[str, ...]
    rule: str = "trend"

    def __post_init__(self) -> None:
        self._agent()  # refuses an unknown rule, and features it cannot act on

    @classmethod
    def lacks(cls, bank: Bank) -> str:
        missing = [name for name in RULES[cls.rule].needs if name not in bank.names["window"]]
        return f"features {', '.join(missing)}" if missing else ""

    @classmethod
    def on(cls, bank: Bank, market: MarketParameters, **options: object) -> Self:
        return configure(cls, {"features": bank.names["window"]} | options, cls.name)

    def decide(self, snapshot: Snapshot) -> Array:
        return self._agent().act(snapshot.observation)[:, 0]

    def _agent(self) -> RuleAgent:
        return RULES[self.rule](names=self.features)


@dataclass(frozen=True)
class Supervised(Baseline):
    """Buys `size` of equity of a symbol whose last class, "up", is as probable as `threshold`; sells it below one half.

    Of several classifiers the last one decides. The probabilities are the entry `supervised` of the observation: see
    `market_bank`. When cash is short the kernel shrinks all buys by one factor.
    """

    name: ClassVar[str] = "supervised"
    threshold: float = 0.6
    size: float = 0.15

    def __post_init__(self) -> None:
        if not (0.5 <= self.threshold <= 1 and 0 < self.size <= 1):
            raise ConfigError(f"supervised: threshold={self.threshold} must be 0.5 … 1, size={self.size} above 0, ≤ 1")

    @classmethod
    def lacks(cls, bank: Bank) -> str:
        return "" if "supervised" in bank.places else "class probabilities, e.g. of `pacesetter baseline sl`"

    @classmethod
    def on(cls, bank: Bank, market: MarketParameters, **options: object) -> Self:
        return configure(cls, {"size": min(market.limits.position_cap_fraction, 1.0)} | options, cls.name)

    def decide(self, snapshot: Snapshot) -> Array:
        if "supervised" not in snapshot.observation:
            raise DataError("the supervised baseline needs class probabilities; give market_bank(…, supervised=…)")
        up, held = snapshot.observation["supervised"][:, -1], snapshot.observation["position"][:, PositionEntry.WEIGHT]
        # Bought at `threshold`, sold below one half: a gap between the two, so that noise around one value does not
        # trade.
        return np.select([(held == 0) & (up >= self.threshold), (held > 0) & (up < 0.5)], [self.size, 0.0], np.nan)
