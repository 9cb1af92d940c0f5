"""Agents as policies: a symbol agent asked for every symbol, an agent of the whole market, rules, and class odds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pacesetter.agents.agent import ACTION_MASK, Agent, Observation
from pacesetter.agents.rules import RULES, RuleAgent
from pacesetter.envs.batch.bank import Bank
from pacesetter.envs.batch.observation import PositionEntry
from pacesetter.errors import ConfigError, DataError
from pacesetter.evaluation.backtest.backtest import Seen
from pacesetter.evaluation.baselines.baseline import BASELINES, Baseline
from pacesetter.market.parameters import MarketParameters
from pacesetter.registry import configure

__all__ = ["AgentPolicy", "Rule", "Supervised", "per_symbol"]

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class AgentPolicy:
    """A trained agent in a backtest.

    agent          has `act(observation, deterministic)`; one that remembers has `reset()`, as a backtest begins
    action         what its actions are: discrete, continuous or hybrid (an order per symbol), weights
    is_whole       it sees the whole market, as in Portfolio-v0; otherwise one symbol, as in Trading-v0, and is asked
                   for all symbols as a batch, in which each row has the one account's `portfolio`
    fitted_until   last moment of its training bars

    Masks of discrete orders are the entry `action_mask`: (symbol, 7) for symbol agents, (symbol · 7,) for a whole one.
    """

    agent: Agent
    name: str
    action: str
    is_whole: bool = False
    fitted_until: pd.Timestamp | None = None
    deterministic: bool = True

    def decide(self, seen: Seen) -> Array:
        if seen.t == seen.first and hasattr(self.agent, "reset"):
            self.agent.reset()  # else it would remember the last bars of the backtest before
        entries = seen.observation if self.is_whole else per_symbol(seen.observation)
        observation = {entry: np.array(values) for entry, values in entries.items()}  # torch warns of read-only arrays
        if seen.masks is not None:
            observation[ACTION_MASK] = seen.masks.ravel() if self.is_whole else seen.masks
        actions = np.asarray(self.agent.act(observation, self.deterministic), dtype=np.float64)
        return actions.reshape(-1, 2) if self.action == "hybrid" else actions.reshape(-1)


def per_symbol(observation: Observation) -> dict[str, Array]:
    """Entries (symbol, …) of a whole market as a batch of one-symbol observations: `portfolio` (·,) for each."""
    symbols = len(observation["position"])
    return {**observation, "portfolio": np.repeat(observation["portfolio"][None], symbols, axis=0)}


@BASELINES.register("rule")
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
    def on(cls, bank: Bank, market: MarketParameters, **options: Any) -> Self:
        return configure(cls, {"features": bank.names["window"]} | options, cls.name)

    def decide(self, seen: Seen) -> Array:
        return self._agent().act(seen.observation)[:, 0]

    def _agent(self) -> RuleAgent:
        return RULES[self.rule](names=self.features)


@BASELINES.register("supervised")
@dataclass(frozen=True)
class Supervised(Baseline):
    """Buys `size` of equity of a symbol whose last class, "up", is as probable as `threshold`; sells it below one half.

    The probabilities are the entry `supervised` of the observation: see `market_bank`. When cash is short the kernel
    shrinks all buys by one factor.
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
    def on(cls, bank: Bank, market: MarketParameters, **options: Any) -> Self:
        return configure(cls, {"size": min(market.limits.position_cap_fraction, 1.0)} | options, cls.name)

    def decide(self, seen: Seen) -> Array:
        if "supervised" not in seen.observation:
            raise DataError("the supervised baseline needs class probabilities; give market_bank(…, supervised=…)")
        up, held = seen.observation["supervised"][:, -1], seen.observation["position"][:, PositionEntry.WEIGHT]
        return np.select([(held == 0) & (up >= self.threshold), (held > 0) & (up < 0.5)], [self.size, 0.0], np.nan)
