"""Crypto exchanges as venues, through ccxt: spot and linear perpetuals, in a sandbox, on a dry run, or with real money.

ccxt speaks to each exchange in its own words and gives all answers alike. What an exchange takes (steps and least
sizes) comes from its own list of markets. Quantities here are in the symbol itself; of a contract that is worth more
or less than one, ccxt's amounts are converted.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, Literal

import numpy as np
import pandas as pd

from pacesetter.errors import ConfigError, RunError, did_you_mean, needs
from pacesetter.market.parameters import MarketParameters
from pacesetter.market.state import Position
from pacesetter.serving.risk.order import LIMIT, MARKET, STOP, Order
from pacesetter.serving.trader.broker import Broker, OrderStatus, Span
from pacesetter.serving.trader.paper_broker import PaperBroker
from pacesetter.serving.trader.venue import (
    Funding,
    NoAnswerError,
    OpenOrder,
    RefusedError,
    Venue,
    VenueAccount,
    VenueFill,
    VenueOptions,
    VenueOrder,
)

__all__ = ["CcxtBroker", "CcxtOptions", "DryRunBroker", "VenueRules"]

TIMEOUT_SECONDS = 5.0  # of every request
ID_LETTERS = 24  # of a client id's hash: all exchanges below take 26 letters and digits
# Exchanges at which ccxt looks an order up by its client id, without which a lost answer could double it; of the
# linear ones ccxt's total balance includes what open positions gain. Read in the code of ccxt 4.5.90.
SPOT, LINEAR = ("binance", "binanceus", "okx", "kucoin"), ("binance", "binanceusdm", "okx")
LINEAR_OPTIONS = {"defaultType": "swap", "defaultSubType": "linear"}
STATUSES = {  # ccxt's word for ours
    "open": OrderStatus.SENT,
    "closed": OrderStatus.FILLED,
    "canceled": OrderStatus.CANCELLED,
    "canceling": OrderStatus.SENT,
    "expired": OrderStatus.CANCELLED,
    "rejected": OrderStatus.REJECTED,
}


@dataclass(frozen=True)
class CcxtOptions(VenueOptions):
    """Which exchange, and how; its sandbox unless `dry_run` or `live`.

    exchange   as ccxt names it, e.g. binance
    market     spot, or linear: perpetual contracts that are settled in the currency they are quoted in
    dry_run    send nothing: orders are rounded by the exchange's rules and filled here, by the market kernel
    Keys come from the environment alone: EXCHANGE_API_KEY, EXCHANGE_SECRET_KEY, and EXCHANGE_PASSWORD where one is
    needed; a dry run needs none.
    """

    exchange: str = "binance"
    market: Literal["spot", "linear"] = "spot"
    dry_run: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.live and self.dry_run:
            raise ConfigError("broker.live=true trades real money and broker.dry_run=true sends nothing; give one")
        able = SPOT if self.market == "spot" else LINEAR
        if not self.dry_run and self.exchange not in able:
            raise ConfigError(
                f"broker.exchange={self.exchange} cannot be traded with broker.market={self.market}, for ccxt does not "
                "find its orders by client id; give broker.dry_run=true, or an exchange where it does"
                f"{did_you_mean(self.exchange, able)}"
            )

    @property
    def is_local(self) -> bool:
        return self.dry_run

    @property
    def words(self) -> str:
        """e.g. "binance spot (sandbox)"."""
        how = "dry run" if self.dry_run else "REAL MONEY" if self.live else "sandbox"
        return f"{self.exchange} {self.market} ({how})"

    def check(self) -> None:
        _make_client(self)

    def open(self, symbols: Sequence[str], market: MarketParameters) -> Broker:
        self.check_market(market)
        client = _make_client(self)
        if self.dry_run:
            return DryRunBroker(symbols, market, VenueRules(symbols, client, self), self)
        return CcxtBroker(symbols, client, self)

    def check_market(self, market: MarketParameters) -> None:
        """Refuse a policy that may hold what a spot account cannot."""
        if self.market == "spot" and market.limits.shorting:
            raise ConfigError(
                "this policy may go short (market.limits.shorting=true), and a spot account cannot; give "
                "broker.market=linear, or train with task.market.limits.shorting=false"
            )
        if self.market == "spot" and market.limits.gross_leverage > 1.0:
            raise ConfigError(
                f"this policy may hold {market.limits.gross_leverage:g} times its equity, and a spot account cannot; "
                "give broker.market=linear, or train with task.market.limits.gross_leverage=1"
            )


class VenueRules:
    """Steps and least sizes of the symbols, as the exchange lists them.

    money        the currency of the account: what all symbols are quoted, and contracts settled, in
    take_stops   whether stop orders rest among the others, under their client ids
    """

    def __init__(self, symbols: Sequence[str], client: Any, options: CcxtOptions) -> None:
        self._client, self.words, self._is_linear = client, options.words, options.market == "linear"
        try:
            with translate_errors():
                listed = client.load_markets()
                if not listed:  # an answer of another shape is read as none
                    raise NoAnswerError("no markets")
        except (NoAnswerError, RefusedError) as problem:
            raise RunError(f"{options.exchange} market request failed ({problem}); check the network") from problem
        self.markets = {symbol: _market_of(symbol, listed, options) for symbol in symbols}
        monies = {each["settle" if self._is_linear else "quote"] for each in self.markets.values()}
        if len(monies) > 1:
            raise ConfigError(
                f"the symbols are quoted in {', '.join(sorted(monies))}; one account holds one money, so give "
                "data.symbols=[…] of one of them"
            )
        self.money = monies.pop()
        # Binance keeps those of spot beside all other orders. Elsewhere, and of contracts, they are orders of another
        # list, with other ids once they trade: their fills could not be told from strangers.
        of_binance = not self._is_linear and str(client.id).startswith("binance")
        kinds = [each["info"].get("orderTypes", ()) for each in self.markets.values()]
        self.take_stops = of_binance and all("STOP_LOSS" in each for each in kinds)

    def size(self, symbol: str) -> float:
        """How much of the symbol one of ccxt's amounts is: that of a contract, else 1."""
        return float(self.markets[symbol].get("contractSize") or 1.0) if self._is_linear else 1.0

    def fit(self, order: Order, held: float) -> Order | str:
        """The order in the exchange's steps, or why it is too small."""
        ccxt, market, size = import_module("ccxt"), self.markets[order.symbol], self.size(order.symbol)
        # First to twelve digits, where the rounding of sums disappears: 0.29999999999999998 is 0.3.
        wanted = min(float(f"{abs(order.quantity) / size:.12f}"), _limit(market, "amount", "max", math.inf))
        try:
            amount = float(self._client.amount_to_precision(order.symbol, wanted))
        except ccxt.InvalidOrder:  # less than one step
            amount = 0.0
        price = order.price
        if order.kind != MARKET:
            price = float(self._client.price_to_precision(order.symbol, price))
        is_exit = held * order.quantity < 0.0 and abs(order.quantity) <= abs(held)
        # A contract's exit only reduces, for which exchanges ask no least value.
        least = 0.0 if self._is_linear and is_exit else _limit(market, "cost", "min", 0.0)
        if amount == 0.0 or amount < _limit(market, "amount", "min", 0.0) or amount * size * price < least:
            return self._shortfall(order, price, market)
        return replace(order, quantity=math.copysign(amount * size, order.quantity), price=price)

    def _shortfall(self, order: Order, price: float, market: Mapping[str, Any]) -> str:
        quantity = abs(order.quantity)
        amount, cost = _limit(market, "amount", "min", 0.0), _limit(market, "cost", "min", 0.0)
        return (
            f"an order of {quantity:.8g} '{order.symbol}' ({quantity * price:.2f} {self.money}) is below the minimum "
            f"of {self.words}, {amount:g} and {cost:g} {self.money}"
        )


class DryRunBroker(PaperBroker):
    """The market kernel as a broker with an exchange's rules: nothing is sent."""

    def __init__(
        self, symbols: Sequence[str], market: MarketParameters, rules: VenueRules, options: CcxtOptions
    ) -> None:
        super().__init__(symbols, market)
        self.name, self.can_short = options.words, options.market == "linear"
        self.rules, self.notional_cap = rules, options.cap

    def fit_order(self, order: Order, held: float) -> Order | str:
        return self.rules.fit(order, held)


class CcxtBroker(Venue):
    """An account at an exchange that ccxt knows."""

    # Binance, for one, takes a client id again once its order has ended.
    has_unique_ids = False

    def __init__(self, symbols: Sequence[str], client: Any, options: CcxtOptions) -> None:
        self.name, self.notional_cap = options.words, options.cap
        self.can_short = self._is_linear = options.market == "linear"
        self._client, self.rules = client, VenueRules(symbols, client, options)
        self.takes_stops = self.rules.take_stops
        super().__init__(symbols)

    def venue_id(self, client_id: str) -> str:
        """A hash: ours are longer, and have other signs, than exchanges take."""
        return f"ps{hashlib.sha256(client_id.encode()).hexdigest()[:ID_LETTERS]}"

    def fit_order(self, order: Order, held: float) -> Order | str:
        return self.rules.fit(order, held)

    # ---- orders ---------------------------------------------------------------------------------------------------

    def place(self, order: Order) -> None:
        side, kind = ("buy" if order.quantity > 0 else "sell"), (LIMIT if order.kind == LIMIT else MARKET)
        held = float(self.positions[self._symbols.index(order.symbol), Position.QUANTITY])
        params: dict[str, Any] = {"clientOrderId": self.venue_id(order.client_id)}
        if self._is_linear and held * order.quantity < 0.0 and abs(order.quantity) <= abs(held):
            params["reduceOnly"] = True  # whatever happens, it opens nothing
        if order.kind == STOP:
            params["stopLossPrice"] = order.price
        amount = abs(order.quantity) / self.rules.size(order.symbol)
        with translate_errors(self._client):
            self._client.create_order(order.symbol, kind, side, amount, order.price if kind == LIMIT else None, params)

    def find_order(self, order: Order) -> VenueOrder | None:
        ccxt, own = import_module("ccxt"), self.venue_id(order.client_id)
        with translate_errors(self._client):
            try:
                reported = self._client.fetch_order("", order.symbol, {"clientOrderId": own})
            except ccxt.OrderNotFound:
                return None
            if reported["clientOrderId"] != own or reported["symbol"] != order.symbol:
                raise NoAnswerError(f"an answer about {reported['clientOrderId']} instead of {own}")
            size = self.rules.size(order.symbol)
            amount, filled = (float(reported[name] or 0.0) * size for name in ("amount", "filled"))
            fills = self._fills(reported, order) if filled else []
            if filled and not fills:  # an exchange may list them a moment later, and only they have the fees
                raise NoAnswerError(f"the fills of {own} are not listed yet")
            status = STATUSES.get(str(reported["status"]), OrderStatus.SENT)
            return VenueOrder(
                str(reported["id"]), status, amount, filled, float(reported.get("average") or 0.0), tuple(fills)
            )

    def _fills(self, reported: Mapping[str, Any], order: Order) -> list[VenueFill]:
        """The trades of an order, the oldest first, with the fees that the order itself does not have."""
        key = str(reported["id"])
        params = {"orderId": key} if str(self._client.id).startswith("binance") else {}
        since = None if params else reported.get("timestamp")
        trades = [
            each
            for each in self._client.fetch_my_trades(order.symbol, since, None, params)
            if str(each["order"]) == key
        ]
        # Of one millisecond by their numbers, which are texts: 9 is before 10.
        trades.sort(key=lambda each: (each["timestamp"] or 0, len(str(each["id"])), str(each["id"])))
        size = self.rules.size(order.symbol)
        return [
            VenueFill(float(each["amount"]) * size, float(each["price"]), *self._fees(each, order)) for each in trades
        ]

    def _fees(self, trade: Mapping[str, Any], order: Order) -> tuple[float, float]:
        """What a trade cost: in the account's money, and in the symbol itself; a third currency counts as neither."""
        base = None if self._is_linear else self.rules.markets[order.symbol]["base"]
        listed = trade.get("fees") or [trade.get("fee") or {}]
        costs = [(each.get("currency"), float(each.get("cost") or 0.0)) for each in listed]
        return (
            sum(cost for money, cost in costs if money == self.rules.money),
            sum(cost for money, cost in costs if money == base),
        )

    def cancel(self, order: Order, reported: VenueOrder) -> None:
        with translate_errors(self._client):
            self._client.cancel_order(reported.key, order.symbol)

    def cancel_everything(self) -> None:
        for each in self._open():
            try:
                with translate_errors(self._client):
                    self._client.cancel_order(each["id"], each["symbol"])
            except RefusedError:  # it has just ended
                continue

    def list_open(self) -> list[OpenOrder]:
        return [
            OpenOrder(str(each["clientOrderId"]), each["symbol"], self._remaining_size(each)) for each in self._open()
        ]

    def _open(self) -> list[Mapping[str, Any]]:
        with translate_errors(self._client):
            return [each for each in self._client.fetch_open_orders() if each["symbol"] in self._symbols]

    def _remaining_size(self, order: Mapping[str, Any]) -> float:
        left = (float(order["amount"] or 0.0) - float(order["filled"] or 0.0)) * self.rules.size(order["symbol"])
        return left if order["side"] == "buy" else -left

    # ---- money ----------------------------------------------------------------------------------------------------

    def read_account(self, prices: Mapping[str, float]) -> VenueAccount:
        with translate_errors(self._client):
            total = self._client.fetch_balance()["total"]
            if self.rules.money not in total:  # an account without any cannot trade
                raise NoAnswerError(f"no balance in {self.rules.money}")
            money = float(total[self.rules.money])
            holdings = self._contracts() if self._is_linear else self._coins(total)
            prices = prices or self._last_prices(tuple(holdings))
        value = sum(quantity * prices[symbol] for symbol, (quantity, _) in holdings.items() if symbol in prices)
        # The balance of contracts includes what they gain; that of coins does not include the coins.
        return (
            VenueAccount(money - value, money, holdings)
            if self._is_linear
            else VenueAccount(money, money + value, holdings)
        )

    def _coins(self, total: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
        """What is held of each symbol; an exchange does not know at what price it was bought."""
        held = {symbol: float(total.get(self.rules.markets[symbol]["base"]) or 0.0) for symbol in self._symbols}
        return {symbol: (quantity, math.nan) for symbol, quantity in held.items() if quantity}

    def _contracts(self) -> dict[str, tuple[float, float]]:
        holdings: dict[str, tuple[float, float]] = {}
        for each in self._client.fetch_positions():
            size = float(each["contracts"] or 0.0) * float(each.get("contractSize") or 1.0)
            if not size:
                continue
            symbol = str(each["symbol"])
            if symbol in holdings:
                raise ConfigError(
                    f"the account at {self.name} is long and short of '{symbol}' at once; switch its hedge mode off"
                )
            holdings[symbol] = (size if each["side"] == "long" else -size, float(each["entryPrice"] or 0.0))
        return holdings

    def _last_prices(self, symbols: Sequence[str]) -> dict[str, float]:
        """Before the first bar: what the exchange traded last."""
        return {
            symbol: float(self._client.fetch_ticker(symbol)["last"]) for symbol in symbols if symbol in self._symbols
        }

    def read_funding(self, span: Span) -> list[Funding]:
        if not self._is_linear or not self._client.has.get("fetchFundingHistory"):
            return []
        since, until = (_milliseconds(moment) for moment in span)
        with translate_errors(self._client):
            rows = self._client.fetch_funding_history(None, since + 1, None, {"until": until})
            return [
                Funding(each["symbol"], -float(each["amount"]))
                for each in rows
                if each["symbol"] in self._symbols and since < each["timestamp"] <= until
            ]


def _milliseconds(moment: pd.Timestamp) -> int:
    return int(np.datetime64(moment.tz_convert("UTC").tz_localize(None), "ms").astype(np.int64))


def _market_of(symbol: str, listed: Mapping[str, Any], options: CcxtOptions) -> Mapping[str, Any]:
    """A symbol's market; refuses one that the exchange lacks, of another kind, or that is not traded now."""
    kind = options.market

    def fits(market: Mapping[str, Any]) -> bool:
        return bool(market.get("spot") if kind == "spot" else market.get("swap") and market.get("linear"))

    market: Mapping[str, Any] | None = listed.get(symbol)
    if market is None or not fits(market):
        able = [name for name, each in listed.items() if fits(each)]
        raise ConfigError(
            f"{options.exchange} has no {kind} market '{symbol}'; train on what it trades, or give data.symbols=[…]"
            f"{did_you_mean(symbol, able)}"
        )
    if market.get("active") is False:
        raise ConfigError(f"'{symbol}' is not traded at {options.exchange} now; give data.symbols=[…] without it")
    return market


def _limit(market: Mapping[str, Any], of: str, end: str, otherwise: float) -> float:
    value = (market.get("limits") or {}).get(of, {}).get(end)
    return otherwise if value is None else float(value)


@contextmanager
def translate_errors(client: Any = None) -> Iterator[None]:
    """Raise `RefusedError` where the exchange itself says no, else `NoAnswerError`; measure a skewed clock again."""
    ccxt = import_module("ccxt")
    try:
        yield
    except (NoAnswerError, ConfigError):
        raise
    except ccxt.InvalidNonce as problem:
        if client is not None and client.has.get("fetchTime"):
            _measure_clock(client)
        raise NoAnswerError("InvalidNonce") from problem
    except Exception as problem:
        # A plain ExchangeError is an answer that ccxt could not place: whether it acted is not known.
        if isinstance(problem, ccxt.ExchangeError) and type(problem) is not ccxt.ExchangeError:
            raise RefusedError(f"{type(problem).__name__}: {str(problem)[:160]}") from problem
        raise NoAnswerError(type(problem).__name__) from problem


def _measure_clock(client: Any) -> None:
    try:
        client.load_time_difference()
    except Exception as problem:  # the request after it says what is wrong
        raise NoAnswerError(f"clock: {type(problem).__name__}") from problem


def _make_client(options: CcxtOptions) -> Any:
    """ccxt's own client of the exchange: time limit, rate limit, sandbox and keys."""
    with needs("broker=ccxt", "online"):
        ccxt = import_module("ccxt")
    if options.exchange not in ccxt.exchanges:
        raise ConfigError(
            f"broker.exchange='{options.exchange}' is unknown{did_you_mean(options.exchange, ccxt.exchanges)}"
        )
    settings: dict[str, Any] = {
        "enableRateLimit": True,
        "timeout": int(1000 * TIMEOUT_SECONDS),
        "options": {
            **({"defaultType": "spot"} if options.market == "spot" else LINEAR_OPTIONS),
            "adjustForTimeDifference": True,
            "warnOnFetchOpenOrdersWithoutSymbol": False,
            "maxRetriesOnFailure": 0,  # a POST that is repeated may double
        },
    }
    if options.exchange.startswith("binance"):  # which lists its kinds of markets one by one
        settings["options"]["fetchMarkets"] = {"types": [options.market]}
        settings["options"]["fetchMargins"] = False
    client = getattr(ccxt, options.exchange)(settings)
    # With real keys ccxt would ask for currencies and margins, too: a right that keys for trading may lack.
    client.has = {**client.has, "fetchCurrencies": False}
    _refuse_garbage(client)
    if not options.dry_run:
        _give_keys(client, options)
        if not options.live:
            _use_sandbox(client, options)
    return client


def _refuse_garbage(client: Any) -> None:
    """Make an answer that is not JSON an error; ccxt would read a page of text as an empty account."""
    ccxt, parse = import_module("ccxt"), client.parse_json

    def parse_strictly(text: str) -> Any:
        content = parse(text)
        if content is None:
            raise ccxt.BadResponse("not JSON")
        return content

    client.parse_json = parse_strictly


def _give_keys(client: Any, options: CcxtOptions) -> None:
    """Take the keys that the exchange needs from the environment."""
    begin = options.exchange.upper()
    names = {"apiKey": f"{begin}_API_KEY", "secret": f"{begin}_SECRET_KEY", "password": f"{begin}_PASSWORD"}
    needed = {own: name for own, name in names.items() if client.requiredCredentials.get(own)}
    if not all(os.environ.get(name) for name in needed.values()):
        raise ConfigError(f"broker=ccxt needs its keys in the environment: set {' and '.join(needed.values())}")
    for own, name in needed.items():
        setattr(client, own, os.environ[name])


def _use_sandbox(client: Any, options: CcxtOptions) -> None:
    ccxt = import_module("ccxt")
    try:
        if options.market == "linear" and "demo" in client.urls:  # binance has no testnet for contracts any more
            client.enable_demo_trading(True)
        else:
            client.set_sandbox_mode(True)
    except ccxt.NotSupported:
        raise ConfigError(f"{options.exchange} has no sandbox; give broker.dry_run=true") from None
