"""Traders at the fake exchanges: one rig for every kind of venue, a model of the account, and runs beside faults."""

from __future__ import annotations

import importlib
import random
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest
import requests
from exchange import FAULTS, AlpacaExchange, BinanceExchange, Exchange, alpaca_client, listening
from requests.adapters import HTTPAdapter
from trading import FIRST

from pacesetter.errors import RunError
from pacesetter.market.parameters import Exits, MarketParameters
from pacesetter.panel import Panel
from pacesetter.policies.policy import Policy, Snapshot
from pacesetter.serving.journal.journal import Journal, journal_url, tables
from pacesetter.serving.monitor.alerts import Alerts
from pacesetter.serving.monitor.watch import Thresholds, Watch
from pacesetter.serving.risk.guard import Guard
from pacesetter.serving.risk.halt import KillSwitch
from pacesetter.serving.risk.limits import GuardLimits
from pacesetter.serving.trader import alpaca, ccxt_broker, venue
from pacesetter.serving.trader.alpaca import AlpacaBroker
from pacesetter.serving.trader.ccxt_broker import CcxtOptions
from pacesetter.serving.trader.desk import Desk, OrderOptions
from pacesetter.serving.trader.feeds import ReplayFeed
from pacesetter.serving.trader.paper import PaperTrader
from pacesetter.serving.trader.venue import Venue

__all__ = [
    "BARS",
    "CALM",
    "KINDS",
    "MARKET",
    "STOPPING",
    "ExchangeFeed",
    "Model",
    "Plan",
    "Rig",
    "Targets",
    "check_end",
    "check_orders",
    "hurry",
    "meet_faults",
    "open_rig",
    "post_bars",
    "started",
    "symbols_of",
    "wait_until",
]

KINDS = ("alpaca", "spot", "linear")
CALM = GuardLimits(reduce_fraction=0.9, halt_fraction=0.9, drawdown_fraction=0.9, stop_count=999)
MARKET = MarketParameters()
STOPPING = replace(MARKET, exits=Exits(stop_loss_fraction=0.03, trailing_stop_fraction=0.05))
BARS = 36  # of a run beside faults
FAULT_SECONDS = 0.5  # that a request may take where some are held back
Plan = Callable[[int], Any]  # bar since the first -> weights (symbol,)


class Targets(Policy):
    """Asks for the weights of a plan."""

    name, action = "targets", "target"

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def decide(self, seen: Snapshot) -> Any:
        return np.array(self.plan(seen.t - FIRST), dtype=np.float64)


class ExchangeFeed(ReplayFeed):
    """Bars of a market that waits for nobody; `trade` lets the exchange fill what it will with each, at the open."""

    is_stored = False

    def __init__(self, panel: Panel, trade: Callable[[int, dict[str, list[float]]], None]) -> None:
        super().__init__(panel, FIRST)
        self._trade = trade

    def after(self, last: pd.Timestamp) -> Panel | None:
        bar = super().after(last)
        if bar is not None:
            prices = np.array([bar[name][0] for name in ("open", "high", "low", "close")]).T.tolist()
            self._trade(bar.index[0].value, dict(zip(bar.symbols, prices, strict=True)))
        return bar


def symbols_of(panel: Panel, kind: str) -> Panel:
    """The panel with symbols as the venue writes them."""
    ending = {"alpaca": "", "spot": "/USDT", "linear": "/USDT:USDT"}[kind]
    return replace(panel, symbols=tuple(f"{symbol}{ending}" for symbol in panel.symbols))


def make_exchange(kind: str, symbols: tuple[str, ...]) -> Exchange:
    if kind == "alpaca":
        return AlpacaExchange(symbols)
    return BinanceExchange(symbols, is_linear=kind == "linear")


def hurry(patch: pytest.MonkeyPatch, seconds: float = 60.0) -> None:
    """No pauses. A time limit that a busy machine never meets, or a short one where answers are held back.

    Requests are not counted a minute, or a run of faults would wait for the clock: `test_alpaca` has that limit.
    """
    patch.setattr(alpaca, "MOST_REQUESTS", 1_000_000)
    patch.setattr(alpaca, "TIMEOUT_SECONDS", seconds)
    patch.setattr(ccxt_broker, "TIMEOUT_SECONDS", seconds)
    patch.setattr(venue, "CANCEL_PAUSES", (0.0, 0.001))
    patch.setattr(venue, "READ_PAUSES", (0.001, 0.001))
    for name in ("API", "SECRET"):
        patch.setenv(f"BINANCE_{name}_KEY", "key")


class Rig:
    """An exchange, the feed of its bars, and traders on both, one after another."""

    def __init__(self, folder: Path, url: str, exchange: Exchange, panel: Panel, kind: str) -> None:
        self.folder, self.url, self.exchange, self.panel, self.kind = folder, url, exchange, panel, kind
        self.feed = ExchangeFeed(panel, exchange.trade)
        closes = panel.close[FIRST].tolist()
        exchange.prices = {s: Decimal(str(price)) for s, price in zip(panel.symbols, closes, strict=True)}

    def broker(self, market: MarketParameters = MARKET, **options: Any) -> Venue:
        if self.kind == "alpaca":
            return AlpacaBroker(self.panel.symbols, alpaca_client(self.url))
        made = CcxtOptions(exchange="binance", market=self.kind, **options).open(self.panel.symbols, market)  # type: ignore[arg-type]
        assert isinstance(made, Venue)
        return made

    def trader(
        self,
        plan: Plan,
        market: MarketParameters = MARKET,
        options: OrderOptions | None = None,
        limits: GuardLimits = CALM,
        broker: Venue | None = None,
    ) -> PaperTrader:
        made = broker or self.broker(market)
        desk = Desk(Targets(plan), Guard(limits), self.panel.symbols, market, made, options=options)
        return PaperTrader(
            desk,
            self.feed,
            Journal(journal_url(self.folder), "run"),
            KillSwitch(self.folder / "HALT"),
            Watch(Thresholds(latency_seconds=1e9), Alerts([], 0.0)),
            lambda panel: {"position": np.zeros(0), "portfolio": np.zeros(0)},
        )

    def weights(self) -> list[float]:
        exchange = self.exchange
        return [float(exchange.held[s] * exchange.prices[s] / exchange.equity) for s in self.panel.symbols]

    def held(self) -> dict[str, float]:
        return {symbol: float(quantity) for symbol, quantity in self.exchange.held.items() if quantity}

    def sold_out(self) -> bool:
        """Whether nothing is held, but for what a fee left that is too little to sell."""
        left = {symbol: quantity for symbol, quantity in self.exchange.held.items() if quantity}
        least = self.exchange.least_cost if isinstance(self.exchange, BinanceExchange) else Decimal(0)
        return all(0 < quantity * self.exchange.prices[symbol] < least for symbol, quantity in left.items())


@contextmanager
def open_rig(kind: str, panel: Panel, folder: Path, patch: pytest.MonkeyPatch) -> Iterator[Rig]:
    """A rig of a kind whose exchange listens; alpaca-py or ccxt, which must be there, talk to it."""
    own = symbols_of(panel, kind)
    exchange = make_exchange(kind, own.symbols)
    with listening(exchange) as url:
        count_requests(exchange, patch)
        if kind != "alpaca":
            patch.setitem(sys.modules, "ccxt", ccxt_at(url))
        yield Rig(folder, url, exchange, own, kind)


def count_requests(exchange: Exchange, patch: pytest.MonkeyPatch) -> None:
    """Let the exchange know how many requests are on their way to it."""
    send = HTTPAdapter.send

    def count(adapter: HTTPAdapter, *words: Any, **options: Any) -> requests.Response:
        with exchange.lock:
            exchange.sent += 1
        return send(adapter, *words, **options)

    patch.setattr(HTTPAdapter, "send", count)


def ccxt_at(url: str) -> ModuleType:
    """The module ccxt, whose Binance talks to the URL in place of any other; its own addresses stay as they are."""
    library = importlib.import_module("ccxt")
    redirected = ModuleType("ccxt")
    redirected.__dict__.update(library.__dict__)
    redirected.binance = partial(_redirected_client, library.binance, url)  # type: ignore[attr-defined]
    return redirected


def _redirected_client(make: Callable[[Mapping[str, Any]], Any], url: str, settings: Mapping[str, Any]) -> Any:
    client = make({**settings, "enableRateLimit": False})  # or a bar takes seconds
    client.session.mount("https://", _Redirect(url))
    return client


class _Redirect(HTTPAdapter):
    """Sends every request to one server."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url

    def send(self, request: requests.PreparedRequest, *words: Any, **options: Any) -> requests.Response:
        request.url = self.url + request.path_url
        return super().send(request, *words, **options)


def wait_until(is_true: Callable[[], bool], seconds: float = 30.0) -> bool:
    end = time.monotonic() + seconds
    while not is_true() and time.monotonic() < end:
        time.sleep(0.01)
    return is_true()


def post_bars(url: str) -> Callable[[int, dict[str, list[float]]], None]:
    """What a feed in another process than the exchange's trades by."""

    def trade(at: int, bars: dict[str, list[float]]) -> None:
        requests.post(f"{url}/market", json={"at": at, "bars": bars}, timeout=30).raise_for_status()

    return trade


# ---- a model of the account -----------------------------------------------------------------------------------------


def check_orders(rig: Rig, journal: Journal, venue_id: Callable[[str], str], in_flight: set[str]) -> None:
    """Hold the journal against the exchange's own orders: none doubled, none lost, none unknown.

    What is in flight may have filled since it was looked at; all else is booked to the last digit. The exchange stands
    still meanwhile: a request whose client waits no longer may yet arrive.
    """
    with rig.exchange.lock:
        _check_orders(rig, journal, venue_id, in_flight)


def _check_orders(rig: Rig, journal: Journal, venue_id: Callable[[str], str], in_flight: set[str]) -> None:
    exchange = rig.exchange
    rows = {venue_id(row["client_id"]): row for row in journal.rows(tables.orders)}
    assert set(exchange.orders) <= set(rows), "an order that is not journalled"
    assert all(count == 1 for count in exchange.times.values()), "an order was accepted twice"
    filled = dict.fromkeys(rows, 0.0)
    for row in journal.rows(tables.fills):
        if row["client_id"] is not None:
            filled[venue_id(row["client_id"])] += row["quantity"]
    expected = dict.fromkeys(rig.panel.symbols, Decimal(0))
    for own, each in exchange.orders.items():
        assert each.quantity == Decimal(str(rows[own]["quantity"])), "another quantity than journalled"
        expected[each.symbol] += each.filled - each.fee_quantity
        if own not in in_flight:
            assert not each.is_open, f"{own} is open and forgotten"
            assert filled[own] == pytest.approx(float(each.filled), abs=1e-9), "a fill is lost or doubled"
        assert abs(filled[own]) <= abs(float(each.filled)) + 1e-9
        # What reached the venue is never called rejected or denied.
        assert rows[own]["status"] not in ("rejected", "denied")
    assert expected == exchange.held


class Model:
    """The account as the exchange's own orders make it, compared with the trader's books after every bar.

    It is the display of a trader: `bar` is called when a bar is done.
    """

    def __init__(self, rig: Rig, trader: PaperTrader, is_odd: bool = False) -> None:
        self.rig, self.trader, self.is_odd = rig, trader, is_odd

    def open(self) -> None:
        """Nothing to show."""

    def bar(self) -> None:
        exchange, guard, broker = self.rig.exchange, self.trader.desk.guard, self.trader.desk.broker
        assert isinstance(broker, Venue)
        in_flight = {broker.venue_id(client_id) for client_id in guard.in_flight}
        with exchange.lock:
            check_orders(self.rig, self.trader.journal, broker.venue_id, in_flight)
            for symbol, quantity in exchange.held.items():
                working = [each.left for each in exchange.orders.values() if each.symbol == symbol and each.is_open]
                assert quantity + sum((left for left in working if left < 0), Decimal(0)) >= 0, "it may become short"
                most = quantity + sum((left for left in working if left > 0), Decimal(0))
                assert most * exchange.prices[symbol] <= Decimal("0.15") * exchange.equity, "it may become too large"
        assert self.is_odd or "the broker h" not in guard.reason, "a false alarm"


def started(make: Callable[[], PaperTrader]) -> PaperTrader:
    """A trader, however often the venue fails while it starts."""
    while True:
        try:
            return make()
        except RunError as problem:
            if "request failed" not in str(problem):
                raise


def draw_faults(chance: random.Random, faults: list[str]) -> Callable[[str, str], str | None]:
    """A fault for one request in five; an old answer of a path is not given twice in a row."""
    repeated: set[str] = set()

    def fault(method: str, path: str) -> str | None:
        kind = chance.choice(FAULTS if chance.random() < 0.2 else FAULTS[:-2]) if chance.random() < 0.2 else None
        if kind == "repeated" and path in repeated:
            kind = None
        (repeated.add if kind == "repeated" else repeated.discard)(path)
        if kind is not None:
            faults.append(kind)
        return kind

    return fault


def draw_odd_answers(chance: random.Random, faults: list[str]) -> Callable[[str, Any], Any]:
    """Lists of what is held, open or traded that are empty, lack a row, are of before, doubled or in another order.

    One of a kind comes several times, so that reading again does not help.
    """
    kinds, before = dict[str, str](), dict[str, Any]()

    def show(path: str, content: Any) -> Any:
        name = path.split("/")[-1]
        is_spot = name == "account" and "balances" in content
        if not is_spot and name not in ("positions", "positionRisk", "orders", "openOrders", "myTrades", "userTrades"):
            return content
        if name not in kinds or chance.random() < 0.2:
            is_odd = chance.random() < 0.2
            kinds[name] = chance.choice(("empty", "less", "old", "twice", "shuffled")) if is_odd else ""
        kind = kinds[name]
        if not kind:
            before[name] = content
            return content
        faults.append(kind)
        if is_spot:
            money = [row for row in content["balances"] if row["asset"] == "USDT"]
            held = [row for row in content["balances"] if row["asset"] != "USDT"]
            # Neither a coin nor a position comes twice in one answer: that is refused as another kind of account.
            kind = "shuffled" if kind == "twice" else kind
            return before.get(name, content) if kind == "old" else content | {"balances": money + twist(kind, held)}
        if kind == "twice" and name in ("positions", "positionRisk"):
            return content
        return before.get(name, content) if kind == "old" else twist(kind, content)

    def twist(kind: str, rows: list[Any]) -> list[Any]:
        if kind == "twice":
            return [*rows, *rows[:1]]
        if kind == "shuffled":
            return chance.sample(rows, len(rows))
        return [] if kind == "empty" else rows[1:]

    return show


def check_faults(
    kind: str, folder: Path, panel: Panel, seed: int, bars: int, patch: pytest.MonkeyPatch, is_odd: bool = False
) -> int:
    """Trade beside random faults, resting and partial fills, rejections, halts and restarts; gives how many faults.

    A time limit that is met because the machine is busy is one fault more; in the end there is none. With `is_odd`
    answers are wrong in what they say instead: a halt for positions that no fill explains is right then, and a person
    ends it.
    """
    hurry(patch, FAULT_SECONDS)
    chance, faults = random.Random(seed), list[str]()
    weights = np.random.default_rng(seed).choice([0.0, 0.0, 0.04, 0.08, 0.12], (bars + 10, len(panel.symbols)))
    with open_rig(kind, panel, folder, patch) as rig:
        exchange = rig.exchange
        draw = exchange.chance if is_odd else draw_faults(chance, faults)
        exchange.chance = draw
        if is_odd:
            exchange.shown = draw_odd_answers(chance, faults)
        exchange.refuses = lambda symbol: chance.random() < 0.05
        exchange.share = lambda order: chance.choice((0.0, 0.0, 0.3, 0.5, 1.0, 1.0))
        options = OrderOptions(flatten_on_halt=chance.random() < 0.7)
        done, switch = 0, KillSwitch(folder / "HALT")

        def make() -> PaperTrader:
            return rig.trader(lambda bar: weights[min(bar, len(weights) - 1)], STOPPING, options)

        trader = started(make)
        while done < bars:
            exchange.slow_cancels, exchange.is_closed = chance.choice((0, 0, 1, 50)), chance.random() < 0.1
            if isinstance(exchange, BinanceExchange) and chance.random() < 0.1:
                exchange.skew_ms = chance.choice((0, -60_000, 3_600_000))
                faults.append("skew")
            if chance.random() < 0.2:
                trader.journal.close()
                trader = started(make)
            if chance.random() < 0.25:
                switch.release("Ada") if switch.is_engaged() else switch.engage("drill")
            if chance.random() < 0.05:  # for some bars nobody is there
                exchange.chance = lambda *words: "cut"
                faults.append("outage")
            trader.display = Model(rig, trader, is_odd)
            try:
                done += trader.run(chance.randint(1, 4)).new_bars
            except RunError:
                if not is_odd:
                    raise
                trader.journal.close()
                switch.release("Ada")
                trader = started(make)
            exchange.chance = draw
        calm_down(rig, weights)
        switch.release("Ada")
        trader.journal.close()
        hurry(patch)
        trader = make()
        trader.run(4)
        check_end(rig, trader)
    return len(faults)


def meet_faults(
    kind: str, folder: Path, panel: Panel, seed: int, least: int, patch: pytest.MonkeyPatch, is_odd: bool = False
) -> tuple[int, int]:
    """Runs of `check_faults`, the first with this seed, until so many faults were met; gives runs and faults.

    How many a run meets is not known before: what is sent depends on what was answered in time.
    """
    runs = faults = 0
    while faults < least:
        faults += check_faults(kind, folder / str(seed + runs), panel, seed + runs, BARS, patch, is_odd)
        runs += 1
    return runs, faults


def calm_down(rig: Rig, weights: Any) -> None:
    """In the end all is well, and everything is closed."""
    exchange = rig.exchange
    exchange.chance, exchange.slow_cancels, exchange.refuses = (lambda *words: None), 0, lambda symbol: False
    exchange.share, exchange.is_closed, weights[:] = (lambda order: 1.0), False, 0.0
    exchange.shown = lambda path, content: content
    exchange.confirm()


def check_end(rig: Rig, trader: PaperTrader) -> None:
    """Nothing is held, nothing is open, and the journal says of every order what the exchange says."""
    broker = trader.desk.broker
    assert isinstance(broker, Venue)
    assert rig.sold_out()
    books = {symbol: quantity for symbol, quantity in trader.journal.holdings().items() if abs(quantity) > 1e-9}
    assert books == pytest.approx(rig.held(), abs=1e-9)
    final = {"canceled": "cancelled", "filled": "filled"}
    for row in trader.journal.rows(tables.orders):
        order = rig.exchange.orders.get(broker.venue_id(row["client_id"]))
        if order is not None:
            assert row["status"] == final[order.status]
        else:
            assert row["status"] in ("cancelled", "rejected", "denied")
    check_orders(rig, trader.journal, broker.venue_id, set())
    trader.journal.verify()
    trader.journal.close()
