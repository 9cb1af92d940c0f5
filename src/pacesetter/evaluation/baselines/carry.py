"""The baseline that collects funding: short what pays shorts most, long what pays longs, or costs them least."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from pacesetter.arrays import Array
from pacesetter.envs.batch.bank import Bank
from pacesetter.errors import ConfigError
from pacesetter.evaluation.baselines.baseline import Baseline
from pacesetter.market.bars import Bar
from pacesetter.market.parameters import MarketParameters
from pacesetter.policies.policy import Snapshot
from pacesetter.registry import configure

__all__ = ["Carry"]


@dataclass(frozen=True)
class Carry(Baseline):
    """Weights against the rank of each symbol's mean funding over `history_bars`, renewed every `every_bars`.

    Longs and shorts are worth the same, and together the equity (Koijen, Moskowitz, Pedersen, Vrugt 2018, by ranks).
    Without shorting it holds, in proportion, what pays longs; with nothing that does, cash.
    """

    name: ClassVar[str] = "carry"
    reads_features: ClassVar[bool] = False
    every_bars: int = 21
    history_bars: int = 63
    cap: float = 0.15
    shorting: bool = False

    def __post_init__(self) -> None:
        if self.every_bars < 1 or self.history_bars < 1 or not self.cap > 0:
            raise ConfigError(
                f"carry: every_bars={self.every_bars} and history_bars={self.history_bars} must be 1 or more, and "
                f"cap={self.cap} above 0"
            )

    @classmethod
    def lacks(cls, bank: Bank) -> str:
        has_funding = bank.bars.shape[-1] > Bar.FUNDING and bool(bank.bars[..., Bar.FUNDING].any())
        return "" if has_funding else "a column funding_rate"

    @classmethod
    def on(cls, bank: Bank, market: MarketParameters, **options: object) -> Self:
        limits = market.limits
        given = {"cap": min(limits.position_cap_fraction, 1.0), "shorting": limits.shorting}
        return configure(cls, given | options, cls.name)

    def decide(self, snapshot: Snapshot) -> Array:
        panel = snapshot.panel
        if (snapshot.t - snapshot.first) % self.every_bars:
            return np.full(len(panel.symbols), np.nan)
        trades = panel.mask[snapshot.t]
        rates = np.nan_to_num(panel["funding_rate"][-self.history_bars :]).mean(axis=0)[trades]
        orders = np.where(trades, 0.0, np.nan)
        orders[trades] = self._weights(rates)
        return orders

    def _weights(self, rates: Array) -> Array:
        """(k,) shares of equity from the mean rates of the symbols that trade."""
        if self.shorting:
            ranks = rates.argsort(kind="stable").argsort(kind="stable").astype(np.float64)
            wanted = ranks.mean() - ranks
        else:
            wanted = np.maximum(-rates, 0.0)
        gross = np.abs(wanted).sum()
        shares: Array = np.clip(wanted / gross, -self.cap, self.cap) if gross > 0 else wanted
        return shares
