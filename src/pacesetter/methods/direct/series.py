"""A market's bars and observations as tensors over time: what a direct learner rolls its segments over."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch

from pacesetter.arrays import Array
from pacesetter.envs.batch.bank import Bank
from pacesetter.errors import ConfigError
from pacesetter.market.bars import Bar, Status
from pacesetter.market.parameters import MarketParameters
from pacesetter.methods.direct.ledger import Fills
from pacesetter.methods.direct.margin import Marks
from pacesetter.methods.direct.policy import EXPECTED, GAP, LEADLAG, RETURN, DirectPolicy, Moves

__all__ = ["MarketSeries", "expected_column", "feature_columns", "gap_column", "return_column"]


def return_column(bank: Bank) -> int:
    """Which feature of the window is the return of a bar; refuses a table without it."""
    names = bank.names["window"]
    if RETURN not in names:
        raise ConfigError(f"agent=direct reads the feature {RETURN}; add it to features.names={list(names)}")
    return names.index(RETURN)


def gap_column(bank: Bank) -> int:
    """Which feature of the window is the gap from close to open; −1 where the table has none."""
    names = bank.names["window"]
    return names.index(GAP) if GAP in names else -1


def expected_column(bank: Bank) -> int:
    """Which of the lead–lag features is the move that they let expect; refuses a table without it."""
    names = bank.names.get(LEADLAG, ())
    if EXPECTED not in names:
        raise ConfigError(
            f"agent.dictionary names windows, and the table has no {EXPECTED}; give features.leadlag.lookback=RUN of a "
            "lookback agent or a number of bars, without is_scaled and standardise_bars"
        )
    return names.index(EXPECTED)


def feature_columns(bank: Bank) -> dict[int, str]:
    """Column -> name of the features of the window beside return and gap."""
    return {place: name for place, name in enumerate(bank.names["window"]) if name not in (RETURN, GAP)}


@dataclass(frozen=True)
class MarketSeries:
    """One market over time; bar 0 of every tensor is bar `first` of the bank, the first with all lags behind it.

    z            (bar, symbol, past bar) moves in units of volatility; those before the first bar's lags are 0
    intraday     the same of moves from open to close; None where gaps are unknown
    volatility, fast   (bar, symbol) as positions are measured by, and of the last bars
    features     (bar, symbol, feature)
    expected     (bar, symbol) as in `Moves`
    to_open, to_close, trading, depth   (bar, symbol) `Fills` of an order decided at this bar; the last has none
    earned       (bar, symbol) return from the fill of an order decided here to that of the next, less the funding
                 that is due there; the last two have none
    funding      (bar, symbol) of the bar after this one; None where there is none
    marks        (bar, symbol, 4) `Marks` of the bar after this one; None where no venue judges
    own_cost     (bar, symbol) of a fill in the bar after this one; None where no symbol has one
    """

    first: int
    z: torch.Tensor
    intraday: torch.Tensor | None
    volatility: torch.Tensor
    fast: torch.Tensor
    features: torch.Tensor
    expected: torch.Tensor
    to_open: torch.Tensor
    to_close: torch.Tensor
    trading: torch.Tensor
    depth: torch.Tensor | None
    earned: torch.Tensor
    funding: torch.Tensor | None = None
    marks: torch.Tensor | None = None
    own_cost: torch.Tensor | None = None

    @classmethod
    def of(cls, bank: Bank, policy: DirectPolicy, market: MarketParameters) -> MarketSeries:
        """The bank's one market as the policy reads it, in the policy's precision, with what the rules need of it."""
        # Volume is read only where impact or a cap asks for it: closes-only data have none.
        needs_depth = market.costs.impact_bps > 0 or market.limits.volume_cap_fraction is not None
        # Adjusted prices already have dividends and splits in their returns.
        plain = replace(market, prices="adjusted", dividends=False, splits=False, lot=None, tick=None)
        bank = bank.with_market(plain)
        # Earlier bars have no signal. Inputs that reach further back than the lags begin with zeros: or the first bars
        # of a short history would be lost to all.
        bars, first = bank.bars[0], policy.volatility_bars + policy.lags - 1
        z, volatility, fast, features, expected = _read_windows(bank, policy, 0.0)
        intraday = _read_windows(bank, policy, 1.0).z if policy.gap >= 0 else None
        to_open, to_close, trading = _fills(bars)
        depth = bars[:-1, :, Bar.CLOSE] * bars[1:, :, Bar.VOLUME] if needs_depth else None

        def cut(values: Array) -> torch.Tensor:
            return torch.from_numpy(np.ascontiguousarray(values[first:]))

        return cls(
            first,
            z,
            intraday,
            volatility,
            fast,
            features,
            expected,
            cut(to_open),
            cut(to_close),
            cut(trading),
            None if depth is None else cut(depth),
            cut(_fill_returns(bars)),
            cut(_funding(bars)) if _has_funding(bars) else None,
            None if market.margin.mode == "none" else cut(_marks(bars)),
            cut(bars[1:, :, Bar.COST]) if bars[..., Bar.COST].any() else None,
        )

    def __len__(self) -> int:
        return len(self.z)

    def to(self, device: torch.device) -> MarketSeries:
        """The same on another device."""
        parts = dict(vars(self))
        moved = {name: part.to(device) for name, part in parts.items() if isinstance(part, torch.Tensor)}
        return MarketSeries(**parts | moved)

    def fills(self, bars: torch.Tensor) -> Fills:
        """What orders decided at these bars (…,) are paid."""
        depth = None if self.depth is None else self.depth[bars]
        funding = None if self.funding is None else self.funding[bars]
        marks = None if self.marks is None else Marks(*self.marks[bars].unbind(-1))
        own = None if self.own_cost is None else self.own_cost[bars]
        return Fills(self.to_open[bars], self.to_close[bars], self.trading[bars], depth, funding, marks, own)


@torch.no_grad()
def _read_windows(bank: Bank, policy: DirectPolicy, intraday: float) -> Moves:
    """Moves and volatilities of every bar with its lags behind it, as the policy itself reads them."""
    bars, chosen = policy.volatility_bars + 1, policy.intraday.clone()
    known = torch.from_numpy(np.array(bank.windows[0])).to(policy.decay.dtype)  # (symbol, bar, feature)
    leadlag = bank.context[0][bars - 1 :, :, bank.places.get(LEADLAG, slice(0))]
    shown = torch.from_numpy(np.array(leadlag)).to(known)  # (bar, symbol, feature)
    policy.intraday.fill_(intraday)
    z, *others = policy.series_moves(known, shown)
    policy.intraday.copy_(chosen)
    # As a view on the moves bar by bar: windows of their own would take a hundred times the memory.
    early = z.new_zeros(policy.past_bars - policy.lags, *z.shape[1:])
    past = torch.cat([early, z]).unfold(0, policy.past_bars, 1)
    return Moves(past, *(part[policy.lags - 1 :] for part in others))


def _fills(bars: Array) -> tuple[Array, Array, Array]:
    now, opened, closed = bars[:-1, :, Bar.CLOSE], bars[1:, :, Bar.OPEN], bars[1:, :, Bar.CLOSE]
    is_known = now > 0
    # An order needs a fresh price to be decided on and a bar that trades to be filled in.
    trading = is_known & (bars[1:, :, Bar.STATUS] == Status.TRADING) & (bars[:-1, :, Bar.STATUS] == Status.TRADING)
    return _over_close(opened, now), _over_close(closed, now), trading.astype(float)


def _over_close(prices: Array, closes: Array) -> Array:
    # A ratio of 1 where there is no price: nothing is held there, and 0 · NaN would reach the account.
    ratio: Array = np.divide(prices, closes, out=np.ones_like(closes), where=closes > 0)
    return ratio


def _marks(bars: Array) -> Array:
    """(bar, symbol, 4) `Marks` for each bar but the last."""
    now, after = bars[:-1], bars[1:]
    prices = after[..., Bar.LOW], after[..., Bar.HIGH], now[..., Bar.MARK], after[..., Bar.MARK]
    return np.stack([_over_close(price, now[..., Bar.CLOSE]) for price in prices], axis=-1)


def _has_funding(bars: Array) -> bool:
    return bars.shape[-1] > Bar.FUNDING and bool(bars[..., Bar.FUNDING].any())


def _funding(bars: Array) -> Array:
    """(bar, symbol) what longs pay in each bar but the first, as a fraction of their value at its open."""
    # The kernel takes it of the value at the mark of the close before, where there is one.
    opened, mark = bars[1:, :, Bar.OPEN], bars[:-1, :, Bar.MARK]
    of_open: Array = np.divide(mark, opened, out=np.ones_like(opened), where=(mark > 0) & (opened > 0))
    return bars[1:, :, Bar.FUNDING] * of_open


def _fill_returns(bars: Array) -> Array:
    """Open of t+1 → open of t+2, closes likewise on closes-only data; 0 where no order fills."""
    paid, left = bars[1:-1, :, Bar.OPEN], bars[2:, :, Bar.OPEN]
    is_filled = (paid > 0) & (bars[1:-1, :, Bar.STATUS] == Status.TRADING)
    growth = np.divide(left, paid, out=np.ones_like(paid), where=is_filled)
    if _has_funding(bars):
        # Due at the next fill, at its price.
        growth = growth * (1.0 - np.where(is_filled, _funding(bars)[1:], 0.0))
    return growth - 1.0
