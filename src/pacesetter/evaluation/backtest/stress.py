"""Stressed markets by name: `STRESSES`. Each alters a stretch of a panel's bars and, where it must, the market's rules.

Outside the stretch every return stays as it was; all prices of a bar move by one factor unless said. An outside
package adds one by an entry point of the group `pacesetter.stress`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pandas as pd

from pacesetter.arrays import Array
from pacesetter.errors import ConfigError
from pacesetter.evaluation.backtest.scenarios import Scenario
from pacesetter.evaluation.backtest.sensitivity import scaled_costs
from pacesetter.market.parameters import MarketParameters
from pacesetter.panel import PRICE_FIELDS, Panel
from pacesetter.registry import Registry

__all__ = ["AS_IT_WAS", "STRESSES", "Stress", "stress_scenarios"]

AS_IT_WAS = "as it was"  # the scenario without a stress


@dataclass(frozen=True)
class Stress(ABC):
    """What happens to a market in `bars` bars."""

    bars: int = 20

    def __post_init__(self) -> None:
        if self.bars < 1:
            raise ConfigError(f"a stress lasts 1 bar or more, not bars={self.bars}")

    @abstractmethod
    def apply(self, panel: Panel, start: int) -> Panel:
        """The panel under stress in bars start … start + bars − 1, or to its end."""

    def rules(self, market: MarketParameters, panel: Panel) -> MarketParameters:
        """The market's rules under stress, for all bars."""
        return market

    def concerns(self, market: MarketParameters, panel: Panel) -> bool:
        """Whether the stress can do anything to this market."""
        return True


STRESSES: Registry[Callable[..., Stress]] = Registry("stress")


@dataclass(frozen=True)
class Move(Stress):
    """Every symbol moves by `size` over the stretch, in equal log steps beside its own returns, and stays there."""

    size: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.size > -1:
            raise ConfigError(f"size={self.size} takes a price to 0 or below; give more than -1")

    def apply(self, panel: Panel, start: int) -> Panel:
        # 0 before, a ramp inside, 1 after: the level stays where the stress left it.
        steps = np.clip(np.arange(len(panel)) - start + 1, 0, self.bars) / self.bars
        return _scale_prices(panel, np.log1p(self.size) * steps[:, None])


STRESSES.add("crash", partial(Move, bars=10, size=-0.3))
STRESSES.add("rally", partial(Move, bars=60, size=0.3))
STRESSES.add("gap", partial(Move, bars=1, size=-0.1))  # between two bars: no order can be filled on the way


@STRESSES.register("sideways")
@dataclass(frozen=True)
class Sideways(Stress):
    """For a year every symbol ends where it began: its mean log return is taken off each bar."""

    bars: int = 252

    def apply(self, panel: Panel, start: int) -> Panel:
        returns = _log_returns(panel)
        stretch = slice(start, start + self.bars)
        taken = np.zeros_like(returns)
        # Less its own mean the sum over the stretch is 0, and bar-to-bar noise stays.
        taken[stretch] = returns[stretch].mean(axis=0)
        return _scale_prices(panel, -np.cumsum(taken, axis=0))


@STRESSES.register("volatility_shock")
@dataclass(frozen=True)
class VolatilityShock(Stress):
    """For sixty bars every return, and the range of every bar, is `factor` times as large in logs."""

    bars: int = 60
    factor: float = 3.0

    def apply(self, panel: Panel, start: int) -> Panel:
        returns, ranges = _log_returns(panel), np.zeros(len(panel))
        added = np.zeros_like(returns)
        stretch = slice(start, start + self.bars)
        # factor − 1 on top of the return that is in the prices already.
        added[stretch], ranges[stretch] = (self.factor - 1.0) * returns[stretch], self.factor - 1.0
        return _scale_prices(panel, np.cumsum(added, axis=0), ranges[:, None])


@STRESSES.register("liquidity_drought")
@dataclass(frozen=True)
class LiquidityDrought(Stress):
    """For a quarter little is traded; trading is expensive throughout.

    volume_share   share of the volume that remains
    halted_share   share of a symbol's bars without trading, drawn by `seed`
    cost_factor    of spread, slippage and impact
    volume_cap     most of a bar's volume that fills take, where the panel has volumes and no cap is set
    """

    bars: int = 63
    volume_share: float = 0.05
    halted_share: float = 0.2
    cost_factor: float = 5.0
    volume_cap: float = 0.1
    seed: int = 0

    def apply(self, panel: Panel, start: int) -> Panel:
        blocks, mask = panel.blocks.copy(), panel.mask.copy()
        stretch = slice(start, start + self.bars)
        if "volume" in panel.fields:
            blocks[panel.fields.index("volume"), stretch] *= self.volume_share
        # Halts hit symbols one by one, not the market as a whole.
        mask[stretch] &= np.random.default_rng(self.seed).random(mask[stretch].shape) >= self.halted_share
        blocks[:, ~mask] = np.nan
        return replace(panel, blocks=blocks, mask=mask, truth=None)

    def rules(self, market: MarketParameters, panel: Panel) -> MarketParameters:
        higher_costs = scaled_costs(market, self.cost_factor, ("spread_bps", "slippage_bps", "impact_bps"))
        cap = market.limits.volume_cap_fraction or (self.volume_cap if "volume" in panel.fields else None)
        return replace(higher_costs, limits=replace(market.limits, volume_cap_fraction=cap))


@STRESSES.register("funding")
@dataclass(frozen=True)
class FundingStress(Stress):
    """For thirty days of hours perpetuals pay `factor` times as much funding; a flat rate does so throughout."""

    bars: int = 720
    factor: float = 3.0

    def apply(self, panel: Panel, start: int) -> Panel:
        if "funding_rate" not in panel.fields:
            return panel
        rates = panel["funding_rate"].copy()
        rates[start : start + self.bars] *= self.factor
        return panel.with_field("funding_rate", rates)

    def rules(self, market: MarketParameters, panel: Panel) -> MarketParameters:
        return market if isinstance(market.funding, str) else replace(market, funding=market.funding * self.factor)

    def concerns(self, market: MarketParameters, panel: Panel) -> bool:
        if isinstance(market.funding, str):
            return market.funding == "auto" and "funding_rate" in panel.fields
        return market.funding != 0.0


@STRESSES.register("liquidation_gap")
@dataclass(frozen=True)
class LiquidationGap(Move):
    """Between two bars every symbol falls by so much that a levered long has lost its margin before it can act."""

    bars: int = 1
    size: float = -0.4

    def concerns(self, market: MarketParameters, panel: Panel) -> bool:
        return market.margin.mode != "none"


def stress_scenarios(
    panel: Panel,
    first: int,
    names: Sequence[str] | None = None,
    *,
    start: int | None = None,
    market: MarketParameters | None = None,
) -> list[Scenario]:
    """The market as it was, then under each stress named (all that concern it when None) from bar `start` on.

    `start` is a third of the way from `first` to the end when it is not given.
    """
    # Some bars before it show the policy undisturbed, most come after it: does it recover?
    start = first + 1 + (len(panel) - first) // 3 if start is None else start
    if not first < start < len(panel):
        raise ConfigError(f"start={start} must be after first={first} and within the {len(panel)} bars")
    market = market or MarketParameters()
    chosen = {name: STRESSES[name]() for name in names or STRESSES}
    if not names:
        chosen = {name: stress for name, stress in chosen.items() if stress.concerns(market, panel)}
    stressed = [
        Scenario(name, stress.apply(panel, start), first, market=stress.rules(market, panel))
        for name, stress in chosen.items()
    ]
    return [Scenario(AS_IT_WAS, panel, first, market=market), *stressed]


def _log_returns(panel: Panel) -> Array:
    """(time, symbol) log returns from the last observed close; 0 where there is none."""
    close = np.where(panel.mask, panel.close, np.nan)
    # Filled forward, so that the return after a gap is from the last close known then.
    return np.nan_to_num(np.diff(pd.DataFrame(np.log(close)).ffill().to_numpy(), axis=0, prepend=np.nan))


def _scale_prices(panel: Panel, shifts: Array, ranges: Array | float = 0.0) -> Panel:
    """The panel with `shifts` added to all log prices, and each price `ranges` times further from its close in logs."""
    close = panel.close
    blocks = [
        block * np.exp(shifts) * (block / close) ** ranges if name in PRICE_FIELDS else block
        for name, block in zip(panel.fields, panel.blocks, strict=True)
    ]
    return replace(panel, blocks=np.stack(blocks), truth=None)
