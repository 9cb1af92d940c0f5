"""Rule-based agents: they read features by name from the newest bar of the window and give an order s in [-1, 1].

With `orders`, e.g. {0: 0.0, 1: 1/3, 2: 2/3, 3: 1.0, 4: -0.5, 5: -1.0}, they act in discrete actions: the allowed one
whose order is nearest to s. A feature that is still warming up (NaN) gives s = 0.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pacesetter.agents.agent import ACTION_MASK, Agent, Observation
from pacesetter.arrays import Array
from pacesetter.errors import ConfigError, did_you_mean
from pacesetter.registry import Registry

__all__ = ["RULES", "MeanReversion", "RuleAgent", "Trend", "Votes"]


@dataclass(frozen=True, kw_only=True)
class RuleAgent(Agent):
    """An order from named features; refuses a window that lacks one of them.

    names   the features of the window's last axis, in order
    orders  discrete action -> the order it stands for; None acts in continuous orders of shape (…, 1)
    window  the observation's entry that holds (…, bar, feature)
    """

    needs: ClassVar[tuple[str, ...]]
    names: Sequence[str]
    orders: Mapping[int, float] | None = None
    window: str = "window"

    def __post_init__(self) -> None:
        for name in self.needs:
            if name not in self.names:
                raise ConfigError(
                    f"{type(self).__name__} reads '{name}', which is not a feature here{did_you_mean(name, self.names)}"
                )

    def act(self, observation: Observation, deterministic: bool = True) -> Array:
        """The order of the newest bar; a rule draws nothing at random."""
        newest = observation[self.window][..., -1, :]
        features = {name: newest[..., self.names.index(name)].astype(np.float64) for name in self.needs}
        order = np.clip(np.nan_to_num(self.order(features), nan=0.0), -1.0, 1.0)
        if self.orders is None:
            return np.asarray(order[..., None], dtype=np.float32)
        return self._nearest_action(order, self.orders, observation.get(ACTION_MASK))

    @abstractmethod
    def order(self, features: Mapping[str, Array]) -> Array:
        """The wanted order s (…,), from features (…,) by name."""

    def _nearest_action(self, order: Array, orders: Mapping[int, float], mask: Array | None) -> Array:
        """The discrete action whose order is nearest; on a tie the first."""
        actions = np.array(list(orders), dtype=np.int64)
        distance = np.abs(order[..., None] - np.array(list(orders.values())))
        if mask is not None:
            # A forbidden action is infinitely far, so the nearest allowed one is taken.
            distance = np.where(np.asarray(mask)[..., actions] > 0, distance, np.inf)
        return np.asarray(actions[distance.argmin(axis=-1)])


RULES: Registry[type[RuleAgent]] = Registry("rule")


@RULES.register("trend")
@dataclass(frozen=True, kw_only=True)
class Trend(RuleAgent):
    """Goes with the move: tanh of the close's distance from its 20-bar mean, in deviations of a 20-bar return."""

    needs: ClassVar[tuple[str, ...]] = ("close_to_sma_20", "volatility_20")

    def order(self, features: Mapping[str, Array]) -> Array:
        # σ·√20 is the deviation of a 20-bar return; 1e-9 guards a price that stands still.
        return np.asarray(np.tanh(features["close_to_sma_20"] / (features["volatility_20"] * np.sqrt(20) + 1e-9)))


@RULES.register("mean_reversion")
@dataclass(frozen=True, kw_only=True)
class MeanReversion(RuleAgent):
    """Goes against the move once the close is `entry` of the way to a Bollinger edge or further."""

    needs: ClassVar[tuple[str, ...]] = ("bollinger_position",)
    entry: float = 0.5

    def order(self, features: Mapping[str, Array]) -> Array:
        place = features["bollinger_position"]
        return np.where(np.abs(place) >= self.entry, -place, 0.0)


@RULES.register("votes")
@dataclass(frozen=True, kw_only=True)
class Votes(RuleAgent):
    """The mean of three votes: RSI and Bollinger against extremes, MACD with its crossing.

    RSI votes to buy below `oversold` and to sell above `overbought`, both in [0, 1]; the band votes beyond its edges;
    MACD votes for the side of its signal line on which it is.
    """

    needs: ClassVar[tuple[str, ...]] = ("rsi_14", "macd", "macd_signal", "bollinger_position")
    oversold: float = 0.3
    overbought: float = 0.7

    def order(self, features: Mapping[str, Array]) -> Array:
        rsi, band = features["rsi_14"], features["bollinger_position"]
        crossing = np.sign(features["macd"] - features["macd_signal"])
        votes = crossing + _side_of_band(rsi, self.oversold, self.overbought) + _side_of_band(band, -1.0, 1.0)
        return np.asarray(votes / 3)


def _side_of_band(value: Array, low: float, high: float) -> Array:
    """+1 below `low`, −1 above `high`, 0 between, NaN where the value is."""
    return np.where(np.isnan(value), np.nan, (value < low).astype(float) - (value > high))
