"""The rules of the market as frozen parameters: costs, limits, exits, orders. Money in currency, rates in bps.

`MarketParameters.to_vector()` is the float64 vector that the kernel reads, one `Slot` per number; accounts may differ.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Annotated, Any, Literal

import numpy as np

from pacesetter.arrays import Floats
from pacesetter.errors import ConfigError, check_range, did_you_mean
from pacesetter.registry import configure

__all__ = [
    "SHORT_KEYS",
    "Costs",
    "Exits",
    "Limits",
    "Margin",
    "MarketParameters",
    "Orders",
    "Slot",
    "StartingHolding",
    "SymbolCost",
    "configure_market",
    "expand_key",
]

BPS = 1e-4
# what a person types -> the key of `limits` that it stands for
SHORT_KEYS = {
    "leverage": "gross_leverage",
    "shorting": "shorting",
    "position_cap": "position_cap_fraction",
    "reserve_cash": "reserve_cash_fraction",
}
SHORT_ORDERS = {"minimum_notional": "minimum_trade"}  # the same of `orders`
EXPONENTS = {"square_root": 0.5, "linear": 1.0, "almgren_chriss": 0.6}  # of the share of volume


class Slot(IntEnum):
    """Places in the packed vector: fractions, money or rates per bar; a limit that is off is infinite."""

    COMMISSION = 0
    MINIMUM_COMMISSION = 1
    HALF_SPREAD = 2
    SLIPPAGE = 3
    IMPACT = 4
    BORROW_PER_BAR = 5
    INTEREST_PER_BAR = 6
    LOAN_PER_BAR = 7
    POSITION_CAP = 8
    RESERVE_CASH = 9
    GROSS_LEVERAGE = 10
    VOLUME_CAP = 11
    POSITION_LOSS_LIMIT = 12
    PORTFOLIO_LOSS_LIMIT = 13
    RUIN_EQUITY = 14
    SHORTING = 15
    STOP_LOSS = 16
    TAKE_PROFIT = 17
    TRAILING_STOP = 18
    HOLD_ZONE = 19
    BUY_FRACTION = 20
    SMOOTHING = 21
    MINIMUM_TRADE = 22
    INITIAL_CASH = 23
    BAND = 24
    IMPACT_EXPONENT = 25
    PERMANENT_IMPACT = 26
    DELISTING_RETURN = 27
    MARGIN = 28  # place in MARGIN_MODES
    INITIAL_MARGIN = 29
    MAINTENANCE_MARGIN = 30
    LIQUIDATION_FEE = 31
    IMPACT_LEFT = 32


MARGIN_MODES = ("none", "cross", "isolated")


@dataclass(frozen=True)
class SymbolCost:
    """What a fill of one symbol costs beyond the others, in bps of the price; booked as spread. Below 0 it is cheaper.

    A symbol that is not traded is passed over.
    """

    symbol: str
    extra_bps: float


@dataclass(frozen=True)
class StartingHolding:
    """A position that an account begins with; the entry price is that of the first bar where None."""

    symbol: str
    quantity: float
    entry_price: float | None = None

    def __post_init__(self) -> None:
        if not math.isfinite(self.quantity) or (self.entry_price is not None and not self.entry_price > 0):
            raise ConfigError(
                f"market.holdings: {self.symbol} has quantity {self.quantity} at {self.entry_price}; give a number, "
                "and an entry price above 0 or none"
            )


@dataclass(frozen=True)
class Costs:
    """What trading and holding cost. The defaults make 10 bps a side, the 0.1 % of most published results.

    A fill pays half the spread, the slippage, the impact, and the commission. The impact is impact_bps · √(share of the
    bar's volume); with `impact_model: linear` it is impact_bps · share, so that costs are quadratic in what is traded;
    with `almgren_chriss` it is ½ · permanent_bps · share + impact_bps · share^0.6. Cash
    earns interest; cash that leverage borrowed pays the loan rate; a short pays the borrow rate.
    """

    commission_bps: Annotated[float, "of the money traded, a side"] = 5.0
    minimum_commission: Annotated[float, "money, of each fill"] = 0.0
    spread_bps: Annotated[float, "between bid and ask; a fill pays half of it"] = 4.0
    slippage_bps: Annotated[float, "of the price, against the trader"] = 3.0
    impact_bps: Annotated[
        float,
        "of the price for a fill of the bar's whole volume; needs limits.volume_cap_fraction",
    ] = 0.0
    borrow_bps_per_year: Annotated[float, "of a short position's value"] = 50.0
    interest_bps_per_year: Annotated[float, "that cash earns"] = 0.0
    loan_bps_per_year: Annotated[float, "of cash that leverage borrowed"] = 0.0
    impact_model: Annotated[
        Literal["square_root", "linear", "almgren_chriss"],
        "square_root, linear, or almgren_chriss with a permanent part",
    ] = "square_root"
    permanent_bps: Annotated[
        float,
        "of the price that stays behind a fill of the whole volume; half of it is paid",
    ] = 0.0
    impact_left: Annotated[
        float,
        "share of an impact that is left a bar later, and makes more of the same side cost more; what is sold "
        "after a purchase, or bought after a sale, gains nothing from it",
    ] = 0.0
    by_symbol: Annotated[
        tuple[SymbolCost, ...],
        "symbols that cost more or less than the others: [{symbol: NVDA, extra_bps: 4}]",
    ] = ()

    def __post_init__(self) -> None:
        words = ("impact_model", "by_symbol")
        check_range(0, owner="costs", **{name: value for name, value in vars(self).items() if name not in words})
        check_range(0, 0.999, owner="costs", impact_left=self.impact_left)
        if self.permanent_bps and self.impact_model != "almgren_chriss":
            raise ConfigError("costs.permanent_bps is a part of impact_model=almgren_chriss; name it, or leave it out")
        named = [each.symbol for each in self.by_symbol]
        if len(set(named)) < len(named):
            raise ConfigError(f"costs.by_symbol names {max(named, key=named.count)} twice; give each symbol once")
        for each in self.by_symbol:
            # Commission apart, no fill may be paid for by the market.
            if not -self.spread_bps / 2 - self.slippage_bps <= each.extra_bps < 5_000:
                raise ConfigError(
                    f"costs.by_symbol: {each.symbol} with extra_bps={each.extra_bps:g} would cost less than nothing, "
                    "or half its price; spread and slippage of all come on top"
                )
        if self.adverse_fraction >= 1.0:
            raise ConfigError(
                f"costs.spread_bps/2 + slippage_bps + impact_bps = {self.adverse_fraction / BPS:g} bps would make "
                "the price of a sale 0 or less; keep the sum below 10,000"
            )

    @property
    def side_bps(self) -> float:
        """What a side costs all in, without impact and a symbol's own."""
        return self.commission_bps + self.spread_bps / 2 + self.slippage_bps

    @property
    def adverse_fraction(self) -> float:
        """The most that a fill's price can be moved against the trader, as a fraction of it."""
        dearest = max((each.extra_bps for each in self.by_symbol), default=0.0)
        moved = self.impact_bps + self.permanent_bps / 2
        # What is left of earlier impacts adds up to a geometric series.
        moved /= 1 - self.impact_left
        return (self.spread_bps / 2 + self.slippage_bps + moved + max(dearest, 0.0)) * BPS

    def own_fractions(self, symbols: Sequence[str]) -> Floats:
        """(symbol,) what a fill of each costs beyond the others, as a fraction of the price."""
        named = {each.symbol: each.extra_bps * BPS for each in self.by_symbol}
        return np.array([named.get(symbol, 0.0) for symbol in symbols])


@dataclass(frozen=True)
class Limits:
    """How much an account may hold and lose, in fractions of equity unless said; None is off."""

    position_cap_fraction: Annotated[float, "most that one position may have"] = 0.15
    reserve_cash_fraction: Annotated[float, "kept in cash"] = 0.0
    gross_leverage: Annotated[float, "most of Σ |position value| / equity after an opening"] = 1.0
    volume_cap_fraction: Annotated[
        float | None,
        "most of a bar's volume that the fills of one position take together",
    ] = None
    position_loss_limit_fraction: Annotated[
        float | None,
        "of the entry price; seen at a close, the position is closed in the next bar",
    ] = None
    portfolio_loss_limit_fraction: Annotated[
        float | None,
        "fall from the highest equity; closes everything, then the episode terminates",
    ] = None
    ruin_fraction: Annotated[float, "of the initial cash; equity at or below it terminates the episode"] = 0.1
    shorting: Annotated[bool, "whether positions below zero are allowed"] = False

    def __post_init__(self) -> None:
        check_range(0, owner="market", position_cap=self.position_cap_fraction)
        if self.position_cap_fraction == 0:
            raise ConfigError("market.position_cap=0 allows no position; give a share of equity above 0, e.g. 0.5")
        check_range(0, 1, owner="market", reserve_cash=self.reserve_cash_fraction)
        check_range(0, 1, owner="limits", ruin_fraction=self.ruin_fraction)
        check_range(1, owner="market", leverage=self.gross_leverage)
        if self.reserve_cash_fraction >= self.gross_leverage:
            raise ConfigError(
                f"market.reserve_cash={self.reserve_cash_fraction:g} leaves nothing of "
                f"market.leverage={self.gross_leverage:g} to hold; keep less in cash"
            )
        if not isinstance(self.shorting, bool):
            raise ConfigError(f"market.shorting={self.shorting!r} must be True or False")
        _check_shares(
            "limits",
            volume_cap_fraction=self.volume_cap_fraction,
            position_loss_limit_fraction=self.position_loss_limit_fraction,
            portfolio_loss_limit_fraction=self.portfolio_loss_limit_fraction,
        )


@dataclass(frozen=True)
class Margin:
    """The margin of perpetuals and futures: when the venue closes a position that its account can no longer bear.

    With a margin nothing is borrowed: neither shorts nor leverage pay borrow or loan rates, but funding.
    """

    mode: Annotated[
        Literal["none", "cross", "isolated"],
        "none; cross: all positions share the account's equity; isolated: each has its own margin",
    ] = "none"
    initial: Annotated[float | None, "of a position's value when it is opened; 1 / leverage where left out"] = None
    maintenance: Annotated[
        float | None,
        "of its value, at which it is liquidated; half of the initial margin where left out",
    ] = None
    liquidation_fee_bps: Annotated[float, "of the value that the venue closes"] = 50.0

    def __post_init__(self) -> None:
        check_range(0, owner="market.margin", liquidation_fee_bps=self.liquidation_fee_bps)
        _check_shares("market.margin", initial=self.initial, maintenance=self.maintenance)

    def shares(self, gross_leverage: float) -> tuple[float, float]:
        """Initial and maintenance margin of an account with this leverage."""
        initial = 1 / gross_leverage if self.initial is None else self.initial
        return initial, initial / 2 if self.maintenance is None else self.maintenance

    def check_leverage(self, gross_leverage: float) -> None:
        """Refuse margins that contradict each other or the leverage."""
        if self.mode == "none":
            return
        initial, maintenance = self.shares(gross_leverage)
        if initial * gross_leverage > 1 + 1e-9:
            raise ConfigError(
                f"market.margin.initial={initial:g} allows a leverage of {1 / initial:g}, below "
                f"market.leverage={gross_leverage:g}; lower one of them"
            )
        if maintenance >= initial:
            raise ConfigError(
                f"market.margin.maintenance={maintenance:g} is not below the initial margin of {initial:g}, so that "
                "a position would be liquidated when it is opened; give less"
            )
        if self.liquidation_fee_bps * BPS > maintenance:
            raise ConfigError(
                f"market.margin.liquidation_fee_bps={self.liquidation_fee_bps:g} is more than the maintenance margin "
                f"of {maintenance:g} leaves to pay it; give at most {maintenance / BPS:g}"
            )


@dataclass(frozen=True)
class Exits:
    """Resting exits in the bar; None is off."""

    stop_loss_fraction: Annotated[float | None, "of the entry price: a fall by it closes the position"] = None
    take_profit_fraction: Annotated[float | None, "of the entry price: a gain by it closes the position"] = None
    trailing_stop_fraction: Annotated[
        float | None,
        "of the best price since the entry: a fall by it closes the position",
    ] = None

    def __post_init__(self) -> None:
        _check_shares("exits", **vars(self))


@dataclass(frozen=True)
class Orders:
    """How an action becomes an order."""

    hold_zone: Annotated[float, "an order smaller than this does nothing"] = 0.1
    buy_fraction: Annotated[float, "share of the free cash that an order of 1 spends"] = 0.15
    smoothing_bars: Annotated[
        int,
        "span of the moving average over actions, s ← s + 2/(span + 1)·(a − s); 1 is none",
    ] = 3
    minimum_trade: Annotated[
        float,
        "money; a smaller order is not sent, and a sale that would leave less closes the position; never less than "
        "1e-9 of equity, which is rounding",
    ] = 25.0

    def __post_init__(self) -> None:
        check_range(0, 1, owner="orders", hold_zone=self.hold_zone, buy_fraction=self.buy_fraction)
        check_range(1, owner="orders", smoothing_bars=self.smoothing_bars)
        check_range(0, owner="orders", minimum_trade=self.minimum_trade)


@dataclass(frozen=True)
class MarketParameters:
    """All that the kernel reads besides bars and actions; `bars_per_year` turns annual rates into rates per bar."""

    costs: Costs = field(default_factory=Costs)
    limits: Limits = field(default_factory=Limits)
    exits: Exits = field(default_factory=Exits)
    orders: Orders = field(default_factory=Orders)
    initial_cash: Annotated[float, "money that an episode begins with"] = 100_000.0
    bars_per_year: float = 252.0
    band: Annotated[
        float,
        "share of equity; a position that is less than this away from its target is left as it is. 0 is off",
    ] = 0.0
    holdings: Annotated[
        tuple[StartingHolding, ...],
        "positions that an account begins with, e.g. [{symbol: SPY, quantity: 10}]: in backtests, on paper and in "
        "every episode of training, where an account of one symbol has that one's only",
    ] = ()
    margin: Annotated[
        Margin,
        "when a venue liquidates; `margin=cross` is short for `margin.mode=cross`",
    ] = field(default_factory=Margin)
    funding: Annotated[
        Literal["auto", "none"] | float,
        "of perpetuals: auto, by the bars' `funding_rate` where they have it; none; or a flat annual rate",
    ] = "auto"
    lot: Annotated[
        float | dict[str, float] | None,
        "smallest step of a quantity, e.g. 1 for whole shares, or by symbol {BTC: 0.001}; None for fractions",
    ] = None
    tick: Annotated[
        float | dict[str, float] | None,
        "smallest step of a price, in the same way; fills are rounded against the trader",
    ] = None
    prices: Annotated[
        Literal["adjusted", "unadjusted"],
        "adjusted, or unadjusted: `close_unadjusted` is traded, with its dividends and splits",
    ] = "adjusted"
    dividends: Annotated[
        bool,
        "pay the bars' `dividend` to longs, from shorts; prices=unadjusted does so in any case",
    ] = False
    splits: Annotated[bool, "multiply quantities by the bars' `split`; prices=unadjusted does so in any case"] = False
    delisting_return: Annotated[
        float,
        "of the last price, e.g. -0.3, that is lost or gained when a symbol vanishes",
    ] = 0.0
    conversion_bps: Annotated[float, "of a fill of a symbol in another currency, see `data.currency`"] = 0.0

    def __post_init__(self) -> None:
        check_range(1, owner="market", initial_cash=self.initial_cash, bars_per_year=self.bars_per_year)
        check_range(0, 1, owner="market", band=self.band)
        check_range(-1, owner="market", delisting_return=self.delisting_return)
        check_range(0, 5_000, owner="market", conversion_bps=self.conversion_bps)
        _check_steps("lot", self.lot)
        _check_steps("tick", self.tick)
        if not isinstance(self.funding, str):
            check_range(-10, 10, owner="market", funding=self.funding)
        self.margin.check_leverage(self.limits.gross_leverage)
        for each in self.holdings:
            if each.quantity < 0 and not self.limits.shorting:
                raise ConfigError(f"market.holdings: {each.symbol} is short, which limits.shorting=false forbids")
        has_impact = self.costs.impact_bps > 0 or self.costs.permanent_bps > 0
        if has_impact and self.limits.volume_cap_fraction is None:
            raise ConfigError(
                "costs.impact_bps grows with the share of volume; it needs limits.volume_cap_fraction, e.g. 0.1"
            )
        for name in ("stop_loss_fraction", "trailing_stop_fraction"):
            stop = vars(self.exits)[name]
            if stop is not None and stop <= self.costs.adverse_fraction:
                raise ConfigError(
                    f"exits.{name}={stop:g} is within what a fill costs ({self.costs.adverse_fraction:g}) and "
                    "would stop every entry immediately; give a wider stop"
                )

    def to_vector(self) -> Floats:
        """The (slot,) float64 vector the kernel reads."""
        costs, limits, exits, orders = self.costs, self.limits, self.exits, self.orders
        per_bar = BPS / self.bars_per_year
        has_margin = self.margin.mode != "none"
        initial, maintenance = self.margin.shares(limits.gross_leverage) if has_margin else (0.0, 0.0)
        values = {
            Slot.COMMISSION: costs.commission_bps * BPS,
            Slot.MINIMUM_COMMISSION: costs.minimum_commission,
            Slot.HALF_SPREAD: costs.spread_bps * BPS / 2,
            Slot.SLIPPAGE: costs.slippage_bps * BPS,
            Slot.IMPACT: costs.impact_bps * BPS,
            Slot.BORROW_PER_BAR: 0.0 if has_margin else costs.borrow_bps_per_year * per_bar,
            Slot.INTEREST_PER_BAR: costs.interest_bps_per_year * per_bar,
            Slot.LOAN_PER_BAR: 0.0 if has_margin else costs.loan_bps_per_year * per_bar,
            Slot.POSITION_CAP: limits.position_cap_fraction,
            Slot.RESERVE_CASH: limits.reserve_cash_fraction,
            Slot.GROSS_LEVERAGE: limits.gross_leverage,
            Slot.VOLUME_CAP: _or_off(limits.volume_cap_fraction),
            Slot.POSITION_LOSS_LIMIT: _or_off(limits.position_loss_limit_fraction),
            Slot.PORTFOLIO_LOSS_LIMIT: _or_off(limits.portfolio_loss_limit_fraction),
            Slot.RUIN_EQUITY: limits.ruin_fraction * self.initial_cash,
            Slot.SHORTING: float(limits.shorting),
            Slot.STOP_LOSS: _or_off(exits.stop_loss_fraction),
            Slot.TAKE_PROFIT: _or_off(exits.take_profit_fraction),
            Slot.TRAILING_STOP: _or_off(exits.trailing_stop_fraction),
            Slot.HOLD_ZONE: orders.hold_zone,
            Slot.BUY_FRACTION: orders.buy_fraction,
            Slot.SMOOTHING: 2.0 / (orders.smoothing_bars + 1),
            Slot.MINIMUM_TRADE: orders.minimum_trade,
            Slot.INITIAL_CASH: self.initial_cash,
            Slot.BAND: self.band,
            Slot.IMPACT_EXPONENT: EXPONENTS[costs.impact_model],
            Slot.PERMANENT_IMPACT: costs.permanent_bps * BPS,
            Slot.DELISTING_RETURN: self.delisting_return,
            Slot.MARGIN: float(MARGIN_MODES.index(self.margin.mode)),
            Slot.INITIAL_MARGIN: initial,
            Slot.MAINTENANCE_MARGIN: maintenance,
            Slot.LIQUIDATION_FEE: self.margin.liquidation_fee_bps * BPS if has_margin else 0.0,
            Slot.IMPACT_LEFT: costs.impact_left,
        }
        return np.array([values[slot] for slot in Slot])


def expand_key(key: str, value: object, where: str = "market") -> dict[str, object]:
    """The keys below `market` that a key, short or not, sets, with their values; refuses an unknown one.

    >>> expand_key("costs", 2)
    {'costs.commission_bps': 2, 'costs.spread_bps': 0.0, 'costs.slippage_bps': 0.0}
    """
    known = [*MarketParameters.__dataclass_fields__, *SHORT_KEYS, *SHORT_ORDERS]
    if key.partition(".")[0] not in known:
        raise ConfigError(f"unknown key '{where}.{key}'{_suggest_key(key, known, where)}")
    if key == "costs" and isinstance(value, (int, float)) and not isinstance(value, bool):
        check_range(0, owner=where, costs=value)
        return {"costs.commission_bps": value, "costs.spread_bps": 0.0, "costs.slippage_bps": 0.0}
    if key == "costs" and isinstance(value, str) and not value.startswith("{"):
        raise ConfigError(f"{where}.costs={value} must be a number, of bps a side all in")
    if key == "margin" and isinstance(value, str):
        return {"margin.mode": value}
    if key in SHORT_ORDERS:
        return {f"orders.{SHORT_ORDERS[key]}": value}
    return {f"limits.{SHORT_KEYS[key]}" if key in SHORT_KEYS else key: value}


def _suggest_key(key: str, known: Sequence[str], where: str = "") -> str:
    """What a key may have meant; the currency of an account is an option of its bars."""
    if key in ("currency", "currencies", "fx"):
        return f"; did you mean 'data.{key}'? Prices are converted when they are read"
    prefix = f"{where}." if where else ""
    return did_you_mean(prefix + key, [prefix + name for name in known])


def configure_market(options: Mapping[str, Any], where: str = "market") -> MarketParameters:
    """The rules from plain options, in which limits have short keys and `costs=2` is 2 bps a side, all in.

    >>> configure_market({"leverage": 2, "costs": 3}).limits.gross_leverage
    2.0
    """
    known = [*MarketParameters.__dataclass_fields__, *SHORT_KEYS, *SHORT_ORDERS]
    unknown = next((key for key in options if key not in known), None)
    if unknown is not None:
        raise ConfigError(f"unknown option '{where}.{unknown}'{_suggest_key(unknown, known)}")
    given = {key: value for key, value in options.items() if key not in (*SHORT_KEYS, *SHORT_ORDERS)}
    for part, names in (("limits", SHORT_KEYS), ("orders", SHORT_ORDERS)):
        short = {names[key]: value for key, value in options.items() if key in names}
        full = dict(given.get(part) or {}) if short else {}
        twice = next((key for key in short if key in full), None)
        if twice is not None:
            raise ConfigError(f"{where}.{part}.{twice} is given twice, once by its short key; give one of them")
        if short:
            given[part] = full | short
    if isinstance(given.get("margin"), str):
        given["margin"] = {"mode": given["margin"]}
    costs = given.get("costs")
    if isinstance(costs, (int, float)) and not isinstance(costs, bool):
        check_range(0, owner=where, costs=costs)
        given["costs"] = {"commission_bps": costs, "spread_bps": 0.0, "slippage_bps": 0.0}
    elif isinstance(costs, str):
        raise ConfigError(f"{where}.costs={costs} must be a number, of bps a side all in")
    return configure(MarketParameters, given, where)


def _check_steps(name: str, steps: float | dict[str, float] | None) -> None:
    """Refuse a lot or tick that is not above 0."""
    given = steps if isinstance(steps, dict) else {} if steps is None else {name: steps}
    for symbol, step in given.items():
        if not (math.isfinite(step) and step > 0):
            raise ConfigError(f"market.{name}: {symbol} has {step:g}; give a number above 0, or leave it out")


def _or_off(limit: float | None) -> float:
    return math.inf if limit is None else limit


def _check_shares(owner: str, **shares: float | None) -> None:
    """Refuse a share that is neither None nor in (0, 1]."""
    given = {name: share for name, share in shares.items() if share is not None}
    check_range(0, 1, owner=owner, **given)
    for name, share in given.items():
        if share == 0:
            raise ConfigError(f"{owner}.{name}=0 would act immediately; give a share above 0, or None to switch it off")
