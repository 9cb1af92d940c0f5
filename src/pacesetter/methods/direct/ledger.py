"""The account as a differentiable function: the market kernel's arithmetic for target weights, in shares of equity.

One bar, with h the shares held at the close of t and w the shares that are wanted:

    w        cut to the position cap, h within the no-trade band; a position that would change its side is closed
    sell     what makes a position smaller fills at the open of t+1, then
    buy      what makes one larger, all by one factor where the budget is short
    cost     (move + commission · (1 ± move)) · |traded|, move = spread / 2 + the symbol's own + slippage
             + impact · √(share of volume), or impact · share, + what is left of earlier impacts on the same side
    margin   a venue liquidates at the open before these orders, inside the bar and at the close, see `margin`
    mark     equity and h at the close of t+1

With `softness` 0 it repeats the kernel to rounding (a test). Above 0, |x| becomes √(x² + softness²) − softness, so that
a cost has a gradient where nothing is traded. Left out are the kernel's smallest trade, its resting exits and whole
lots.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch

from pacesetter.errors import ConfigError
from pacesetter.market.parameters import BPS, MarketParameters
from pacesetter.methods.direct.margin import MarginAccount, MarginRules, Marks

__all__ = ["Fills", "Rules", "Settled", "settle"]

LEAST_EQUITY = 1e-9  # of an account that a venue left with nothing, whose growth is still a number


class Fills(NamedTuple):
    """What a bar pays, entries (…, symbol).

    to_open    open of t+1 / close of t; on closes-only data that of the close
    to_close   close of t+1 / close of t
    trading    1 where an order fills in t+1, 0 where the symbol is halted, not listed or gone
    depth      money value of the volume of t+1 at the close of t; only where impact or a volume cap need it
    funding    fraction of what is held that longs pay at the open of t+1; only where something is paid
    marks      what a venue judges margins by; only where it does
    own_cost   fraction of the price that a fill of this symbol pays beyond the others; only where one does
    """

    to_open: torch.Tensor
    to_close: torch.Tensor
    trading: torch.Tensor
    depth: torch.Tensor | None = None
    funding: torch.Tensor | None = None
    marks: Marks | None = None
    own_cost: torch.Tensor | None = None


class Settled(NamedTuple):
    """An account after a bar.

    held     (…, symbol) shares of equity at the close of t+1
    earned   (…,) net return over the bar
    paid     (…, symbol) what is held was bought for, in the same shares; 0 where no margin depends on it
    impact   (…, symbol) by which its fills move prices, above 0 after purchases; None where nothing is left of it
    """

    held: torch.Tensor
    earned: torch.Tensor
    paid: torch.Tensor
    impact: torch.Tensor | None = None


@dataclass(frozen=True)
class Rules:
    """The market's parameters as rates per bar and fractions of equity."""

    move: float
    commission: float
    impact: float
    interest: float
    loan: float
    borrow: float
    lowest: float
    cap: float
    budget: float
    volume_cap: float | None
    band: float
    initial_cash: float
    softness: float = 0.0
    is_linear: bool = False
    venue: MarginRules | None = None
    impact_left: float = 0.0

    @classmethod
    def of(cls, market: MarketParameters, softness: float = 0.0) -> Rules:
        costs, limits = market.costs, market.limits
        if costs.impact_model == "almgren_chriss":
            raise ConfigError(
                "agent=direct learns through a ledger with square-root or linear impact; "
                "leave out costs.impact_model=almgren_chriss, or take another agent"
            )
        per_bar = BPS / market.bars_per_year
        return cls(
            move=(costs.spread_bps / 2 + costs.slippage_bps) * BPS,
            commission=costs.commission_bps * BPS,
            impact=costs.impact_bps * BPS,
            is_linear=costs.impact_model == "linear",
            impact_left=costs.impact_left,
            interest=costs.interest_bps_per_year * per_bar,
            # With a margin nothing is borrowed.
            loan=costs.loan_bps_per_year * per_bar if market.margin.mode == "none" else 0.0,
            borrow=costs.borrow_bps_per_year * per_bar if market.margin.mode == "none" else 0.0,
            lowest=-limits.position_cap_fraction if limits.shorting else 0.0,
            cap=limits.position_cap_fraction,
            budget=limits.gross_leverage - limits.reserve_cash_fraction,
            volume_cap=limits.volume_cap_fraction,
            band=market.band,
            initial_cash=market.initial_cash,
            softness=softness,
            venue=MarginRules.of(market, is_smooth=softness > 0),
        )

    def hard(self) -> Rules:
        """The same with the kernel's own kinks."""
        venue = self.venue and replace(self.venue, is_smooth=False)
        return replace(self, softness=0.0, venue=venue)

    @property
    def side_cost(self) -> float:
        """What a unit of turnover costs, without impact."""
        return self.move + self.commission

    def size(self, x: torch.Tensor) -> torch.Tensor:
        """|x|, smooth around 0."""
        # At 0, where an account that does not trade stands, |x| has a kink and autograd a gradient of 0.
        return x.abs() if self.softness == 0 else (x.square() + self.softness**2).sqrt() - self.softness

    def adverse_move(self, share: torch.Tensor | float, own: torch.Tensor | float = 0.0) -> torch.Tensor | float:
        """How far a fill's price is moved against the trader; `share` of the bar's volume, `own` cost of the symbol."""
        return self.move + own + self.impact_of(share)

    def cost(self, traded: torch.Tensor, move: torch.Tensor | float) -> torch.Tensor:
        """Cost of each trade as a share of the same equity."""
        # Commission is on the fill price, which lies above the open for a buy and below it for a sale.
        side = torch.where(traded >= 0, 1.0, -1.0)
        return self.size(traded) * (move + self.commission * (1 + side * move))

    def impact_of(self, share: torch.Tensor | float) -> torch.Tensor | float:
        """Fraction by which a fill of a share of the bar's volume moves the price itself."""
        if not isinstance(share, torch.Tensor) or not self.impact:
            return 0.0
        # 1e-18: the slope of √ is infinite at 0, where nothing is traded.
        return self.impact * (share if self.is_linear else (share + 1e-18).sqrt())


def settle(
    held: torch.Tensor,
    target: torch.Tensor,
    wealth: torch.Tensor,
    fills: Fills,
    rules: Rules,
    paid: torch.Tensor | None = None,
    impact: torch.Tensor | None = None,
) -> Settled:
    """An account that holds `held` (…, symbol) at the close of t and wants `target`, after bar t+1.

    wealth   (…,) equity at the close of t as a multiple of the initial cash; impact grows with it
    paid, impact   (…, symbol) as in `Settled`, of the bar before; nothing where left out
    """
    traded, venue = _size_orders(held, target, rules) * fills.trading, rules.venue
    paid = torch.zeros_like(held) if paid is None else paid
    # Equity at the close of t is 1; all amounts of the bar are in that unit.
    cash = 1.0 - held.sum(-1) + _carry(held, rules)
    if fills.funding is not None:
        cash = cash - (held * fills.to_open * fills.funding).sum(-1)
    if venue is not None and fills.marks is not None:
        (cash, held, paid), kept = venue.judge(MarginAccount(cash, held, paid), fills.marks.before, fills.to_open)
        traded = traded * kept  # the orders of what was liquidated are cancelled
    share: torch.Tensor | float = 0.0
    if fills.depth is not None:
        depth = fills.depth / (wealth[..., None] * rules.initial_cash)
        if rules.volume_cap is not None:
            traded = traded.clamp(-rules.volume_cap * depth, rules.volume_cap * depth)
        # Smooth at 0 as costs are: the slope of √ is infinite there, that of size · √size is not.
        share = rules.size(traded) / depth.clamp_min(1e-12)
    # Sales first, as in the kernel: what they pay in can be spent on purchases in the same bar.
    is_smaller = traded * held < 0
    reduced, opened = (torch.where(chosen, traded, 0.0) for chosen in (is_smaller, ~is_smaller))
    after = held + reduced
    own: torch.Tensor | float = 0.0 if fills.own_cost is None else fills.own_cost
    earlier = rules.impact_left * impact if rules.impact_left and impact is not None else None
    if earlier is not None:
        # The other side gains nothing from what earlier fills moved.
        own = own + (traded.sign() * earlier).clamp_min(0.0)
    move = rules.adverse_move(share, own)
    cash = cash - ((reduced + rules.cost(reduced, move)) * fills.to_open).sum(-1)
    # One factor for all purchases: where cash is short the kernel shrinks them together, in no order of symbols.
    factor = _affordable_share(cash, after, opened, fills.to_open, move, rules)[..., None]
    # Impact is computed again below: a smaller order is a smaller share of the bar's volume.
    opened, move = opened * factor, rules.adverse_move(share * factor, own)
    cash = cash - ((opened + rules.cost(opened, move)) * fills.to_open).sum(-1)
    held = after + opened
    if venue is not None and fills.marks is not None:
        if venue.is_isolated:
            left = 1 + reduced / torch.where(reduced != 0, after - reduced, 1.0)
            paid = paid * left + (opened + opened.abs() * move) * fills.to_open
        account = venue.judge_inside(MarginAccount(cash, held, paid), fills.marks, fills.to_open)
        (cash, held, paid), _ = venue.judge(account, fills.marks.after, fills.to_close)
    value = held * fills.to_close
    equity = cash + value.sum(-1)
    if venue is not None:
        equity = equity.clamp_min(LEAST_EQUITY)
    # Back to shares of the new equity, the unit of the next bar.
    moved: torch.Tensor | None = None
    if rules.impact_left:
        moved = traded.sign() * rules.impact_of(torch.where(is_smaller, share, share * factor))
        moved = moved if earlier is None else earlier + moved
    return Settled(value / equity[..., None], equity - 1.0, paid / equity[..., None], moved)


def _size_orders(held: torch.Tensor, target: torch.Tensor, rules: Rules) -> torch.Tensor:
    """What is to be traded, in shares of equity at the close of t."""
    wanted = target.clamp(rules.lowest, rules.cap)
    change = wanted - held
    if rules.band > 0:
        # The band never keeps a position from being closed: a target of 0 is always traded.
        change = torch.where((wanted != 0) & (change.abs() < rules.band), 0.0, change)
    # A change of side takes two bars, as in the kernel: close first, open at the next.
    return torch.where(held * wanted < 0, -held, change)


def _carry(held: torch.Tensor, rules: Rules) -> torch.Tensor:
    """Interest on own cash less the borrow of shorts, whose proceeds earn nothing."""
    short = (-held).clamp_min(0.0).sum(-1)
    # The proceeds of a short, as large as its value, are collateral and earn no interest.
    own = 1.0 - held.sum(-1) - short
    return own * torch.where(own > 0, rules.interest, rules.loan) - short * rules.borrow


def _affordable_share(
    cash: torch.Tensor,
    after: torch.Tensor,
    opened: torch.Tensor,
    to_open: torch.Tensor,
    move: torch.Tensor | float,
    rules: Rules,
) -> torch.Tensor:
    """(…,) the share ≤ 1 of all openings that the budget pays for, as `market.kernel.affordable_share`."""
    # Costs lower equity, and the budget is a multiple of equity: hence budget times the cost rate.
    needed = (opened.abs() * to_open * (1.0 + rules.budget * (move + rules.commission * (1.0 + move)))).sum(-1)
    equity = cash + (after * to_open).sum(-1)
    left = rules.budget * equity - (after.abs() * to_open).sum(-1)
    return (left.clamp_min(0.0) / needed.clamp_min(1e-12)).clamp_max(1.0)
