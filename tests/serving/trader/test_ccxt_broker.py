"""Exchanges by ccxt: steps and minimums, fees in kind, funding, clocks, keys, and a dry run beside the backtest."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pandas as pd
import pytest
from exchange import BinanceExchange, Fault
from trading import FIRST, SPAN, Rule, small_panel
from venues import CALM, MARKET, Rig, hurry, open_rig

from pacesetter.data.loading import load
from pacesetter.errors import ConfigError, RunError
from pacesetter.evaluation.backtest.backtest import backtest
from pacesetter.evaluation.baselines.catalogue import BASELINES
from pacesetter.market.parameters import MarketParameters
from pacesetter.market.state import Position
from pacesetter.panel import Panel
from pacesetter.policies.policy import Snapshot
from pacesetter.registry import configure
from pacesetter.serving.journal.journal import tables
from pacesetter.serving.risk.guard import Guard
from pacesetter.serving.risk.order import LIMIT, Order
from pacesetter.serving.trader.broker import OrderStatus, broker_options
from pacesetter.serving.trader.ccxt_broker import CcxtBroker, CcxtOptions, _make_client
from pacesetter.serving.trader.desk import Desk, GuardedPolicy, last_bars
from pacesetter.serving.trader.session import PaperConfig, open_session


@pytest.fixture(scope="module")
def panel() -> Panel:
    return small_panel()


@pytest.fixture(params=["spot", "linear"])
def rig(request: pytest.FixtureRequest, panel: Panel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    hurry(monkeypatch)
    with open_rig(request.param, panel, tmp_path, monkeypatch) as made:
        yield made


@pytest.fixture
def spot(panel: Panel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    hurry(monkeypatch)
    with open_rig("spot", panel, tmp_path, monkeypatch) as made:
        yield made


@pytest.fixture
def linear(panel: Panel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    hurry(monkeypatch)
    with open_rig("linear", panel, tmp_path, monkeypatch) as made:
        yield made


def of(rig: Rig) -> BinanceExchange:
    assert isinstance(rig.exchange, BinanceExchange)
    return rig.exchange


# ---- what an exchange takes ------------------------------------------------------------------------------------------


def test_orders_have_the_exchanges_steps_and_prices(rig: Rig) -> None:
    broker, symbol = rig.broker(), rig.panel.symbols[0]
    fitted = broker.fit_order(Order("a", symbol, 1.23456789, 12.3456789, LIMIT), 0.0)
    assert isinstance(fitted, Order)
    assert (fitted.quantity, fitted.price) == (1.23456, 12.3457)
    assert broker.submit(fitted) is OrderStatus.SENT
    (order,) = rig.exchange.orders.values()
    assert (order.quantity, order.limit, order.kind) == (Decimal("1.23456"), Decimal("12.3457"), "limit")
    assert len(order.client_id) == 26
    assert order.client_id.isalnum()


def test_an_order_below_the_minimum_is_not_sent_and_told_once(spot: Rig) -> None:
    of(spot).least_cost = Decimal(20_000)
    trader = spot.trader(lambda bar: [0.1, 0.0, 0.0, 0.0])
    trader.run(3)
    assert spot.exchange.orders == {}
    (event,) = [row["message"] for row in trader.journal.rows(tables.events) if row["kind"] == "minimum"]
    assert f"'{spot.panel.symbols[0]}'" in event
    assert "is below the minimum of binance spot (sandbox), 1e-05 and 20000 USDT; it is not sent" in event
    trader.journal.close()


def test_an_exit_of_a_contract_only_reduces_and_has_no_minimum(linear: Rig) -> None:
    exchange, symbol = of(linear), linear.panel.symbols[0]
    exchange.move(symbol, Decimal("0.01"), Decimal(0))
    broker = linear.broker()
    exit_order = broker.fit_order(Order("a", symbol, -0.01, 100.0), 0.01)
    assert isinstance(exit_order, Order)
    assert isinstance(broker.fit_order(Order("b", symbol, 0.01, 100.0), 0.0), str)
    assert broker.submit(exit_order) is OrderStatus.SENT
    exchange.held[symbol] = Decimal(0)  # closed by hand meanwhile: a second one opens nothing
    assert broker.submit(replace(exit_order, client_id="c")) is OrderStatus.REJECTED


def test_a_contract_of_another_size_is_converted(linear: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """At okx, for one, a contract is a part of a coin; the fake counts contracts."""
    exchange, symbol, market = of(linear), linear.panel.symbols[0], of(linear)._market
    monkeypatch.setattr(exchange, "_market", lambda name: market(name) | {"contractSize": 0.01})
    broker, bar = linear.broker(), np.full((4, 7), 100.0)
    order = broker.fit_order(Order("a", symbol, 1.23456789, 100.0), 0.0)
    assert isinstance(order, Order)
    assert order.quantity == pytest.approx(1.2345678)
    assert broker.submit(order) is OrderStatus.SENT
    (resting,) = exchange.orders.values()
    assert resting.quantity == Decimal("123.45678")
    assert broker.list_open()[0].quantity == pytest.approx(1.2345678)
    exchange.fill(resting, Decimal(1), Decimal(100))
    (fill,) = broker.settle(bar, bar, [order], SPAN).executions
    assert fill.quantity == pytest.approx(1.2345678)


def test_requests_keep_the_exchanges_rate_and_none_is_tried_twice(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    broker = rig.broker()
    assert isinstance(broker, CcxtBroker)
    client = broker._client
    assert client.options["maxRetriesOnFailure"] == 0
    client.enableRateLimit, waited = True, list[float]()  # the rig switches it off, for speed
    monkeypatch.setattr(client, "throttle", waited.append)
    rig.exchange.script = [Fault("504", "POST")]
    broker.submit(Order("a", rig.panel.symbols[0], 1.0, 100.0))
    assert [method for method, _ in rig.exchange.requests].count("POST") == 1
    assert len(waited) == 2  # before the order, and before the question about it
    assert all(cost > 0 for cost in waited)


# ---- money -----------------------------------------------------------------------------------------------------------


def test_a_fee_in_kind_is_a_fill_of_its_own_and_the_books_add_up(spot: Rig) -> None:
    trader = spot.trader(lambda bar: [0.1, 0.0, 0.0, 0.0] if bar < 3 else [0.0] * 4)
    trader.run(2)
    symbol = spot.panel.symbols[0]
    fills = trader.journal.rows(tables.fills)
    assert {row["reason"] for row in fills} == {"order", "fee"}
    bought = sum(row["quantity"] for row in fills if row["reason"] == "order")
    assert trader.journal.holdings()[symbol] == pytest.approx(bought * 0.999, rel=1e-6)
    assert trader.desk.equity == pytest.approx(float(spot.exchange.equity), rel=1e-9)
    assert trader.desk.broker.positions[0, Position.ENTRY_PRICE] == pytest.approx(fills[0]["price"])
    trader.run(3)
    sold = [row for row in trader.journal.rows(tables.fills) if row["quantity"] < 0 and row["reason"] == "order"]
    assert sold[-1]["commission"] > 0  # a seller pays in money
    assert spot.sold_out()
    trader.journal.close()


def test_a_fill_that_the_account_shows_before_its_order_has_its_own_price_in_the_end(spot: Rig) -> None:
    broker, exchange, symbol = spot.broker(), of(spot), spot.panel.symbols[0]
    exchange.fee_fraction = Decimal(0)
    bar, first, second = np.full((4, 7), 120.0), Order("a", symbol, 3.0, 100.0), Order("b", symbol, 1.0, 100.0)
    broker.submit(first)
    exchange.fill(next(iter(exchange.orders.values())), Decimal(1), Decimal(100))
    entries = []
    for asked in ([], [first], []):  # the first look comes before the fill is asked about
        broker.settle(bar, bar, asked, SPAN)
        entries.append(broker.positions[0, Position.ENTRY_PRICE])
    assert entries == [120.0, 100.0, 100.0]
    broker.submit(second)
    exchange.fill(list(exchange.orders.values())[1], Decimal(1), Decimal(140))
    broker.settle(bar, bar, [], SPAN)
    assert broker.positions[0, Position.ENTRY_PRICE] == pytest.approx((3 * 100 + 120) / 4)
    broker.refresh()
    assert broker.positions[0, Position.ENTRY_PRICE] == pytest.approx((3 * 100 + 120) / 4)


def test_fees_of_many_fills_are_booked_with_the_fills_that_they_belong_to(spot: Rig) -> None:
    broker, exchange, symbol = spot.broker(), of(spot), spot.panel.symbols[0]
    exchange.slow_cancels = 1000  # what the first look cancels still fills
    order, bar, fees = Order("a", symbol, 100.0, 100.0), np.full((4, 7), 100.0), 0.0
    broker.submit(order)
    (resting,) = exchange.orders.values()
    for parts in (9, 3):  # trades are numbered from 1 on, as texts: 9 is before 10
        for part in range(parts):
            exchange.fill(resting, Decimal("0.05") * (1 + part % 3), Decimal(100))
        settled = broker.settle(bar, bar, [order], SPAN)
        order = replace(order, quantity=float(resting.left))
        fees -= sum(fill.quantity for fill in settled.executions if fill.reason == "fee")
        assert fees == pytest.approx(float(resting.fee_quantity), abs=1e-9)


def test_funding_is_journalled_once_also_after_a_bar_without_an_answer(linear: Rig) -> None:
    exchange, symbol = of(linear), linear.panel.symbols[0]
    trader = linear.trader(lambda bar: [0.1, 0.0, 0.0, 0.0])
    trader.run(2)
    for row in (FIRST + 2, FIRST + 3):  # at the closes of the next two bars, of which the first is not answered
        exchange.pay_funding(symbol, 0.001, linear.panel.index[row].value // 10**6)
    exchange.script = [Fault("504", "GET", "account")]
    for bar in trader._new_bars():
        trader._trade(bar)
        if trader.bars == 4:
            break
    funding = [row for row in trader.journal.rows(tables.fills) if row["reason"] == "funding"]
    assert [row["symbol"] for row in funding] == [symbol, symbol]
    paid = -sum(float(row["income"]) for row in exchange.funding)
    assert sum(row["commission"] for row in funding) == pytest.approx(paid)
    assert trader.desk.equity == pytest.approx(float(exchange.equity), rel=1e-9)
    trader.journal.close()


def test_an_account_long_and_short_at_once_is_refused(linear: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    exchange, symbol = of(linear), linear.panel.symbols[0]
    exchange.move(symbol, Decimal(1), Decimal(0))
    risk, exchange.prices["again"] = exchange._risk, Decimal(1)
    monkeypatch.setattr(exchange, "held", {**exchange.held, "again": Decimal(1)})
    monkeypatch.setattr(exchange, "_risk", lambda name: risk(symbol))
    with pytest.raises(ConfigError, match=r"is long and short of .* at once; switch its hedge mode off"):
        linear.broker()


# ---- clocks and answers ----------------------------------------------------------------------------------------------


def test_a_clock_that_is_off_is_measured_again(rig: Rig) -> None:
    broker, symbol = rig.broker(), rig.panel.symbols[0]
    of(rig).skew_ms = 3_600_000
    bar = np.full((4, 7), 100.0)
    assert not broker.settle(bar, bar, [], SPAN).is_known
    assert broker.settle(bar, bar, [], SPAN).is_known
    assert broker.submit(Order("a", symbol, 1.0, 100.0)) is OrderStatus.SENT


def test_an_answer_that_is_not_json_is_no_empty_account(rig: Rig) -> None:
    rig.exchange.script = [Fault("garbled", "GET", "account")]
    with pytest.raises(RunError, match=r"account request failed \(BadResponse\)"):
        rig.broker()


# ---- what is refused -------------------------------------------------------------------------------------------------


def test_bad_input_is_one_sentence(spot: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    def opening(symbols: tuple[str, ...] = spot.panel.symbols, market: MarketParameters = MARKET, **given: Any) -> str:
        with pytest.raises((ConfigError, RunError)) as refused:
            broker_options({"name": "ccxt", **given}).open(symbols, market)
        return str(refused.value)

    assert opening(("S9/USDT",)).startswith("binance has no spot market 'S9/USDT'; train on what it trades, or give")
    assert "; did you mean 'S" in opening(("S9/USDT",))
    assert "binance has no spot market 'S0/USDT:USDT'" in opening(("S0/USDT:USDT",))
    assert opening(exchange="krakn").startswith("broker.exchange=krakn cannot be traded with broker.market=spot, for")
    assert opening(exchange="krakn").endswith("; known: binance, binanceus, kucoin, okx")
    assert opening(exchange="binnce").endswith("; did you mean 'binance'?")
    assert "broker.exchange='krakn' is unknown" in opening(exchange="krakn", dry_run=True)
    assert "unknown option 'broker.secret'" in opening(secret="x")
    short = replace(MARKET, limits=replace(MARKET.limits, shorting=True))
    assert "may go short" in opening(market=short)
    levered = replace(MARKET, limits=replace(MARKET.limits, gross_leverage=2.0))
    assert "may hold 2 times its equity" in opening(market=levered)
    monkeypatch.delenv("BINANCE_SECRET_KEY")
    assert opening() == "broker=ccxt needs its keys in the environment: set BINANCE_API_KEY and BINANCE_SECRET_KEY"
    with pytest.raises(ConfigError, match=r"broker.live=true trades real money and broker.dry_run=true sends nothing"):
        CcxtOptions(live=True, notional_cap=10.0, dry_run=True)
    with pytest.raises(ConfigError, match="unknown broker 'alpca'; did you mean 'alpaca'"):
        broker_options({"name": "alpca"})


def test_without_ccxt_one_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ccxt", None)
    with pytest.raises(ConfigError, match=r"pip install .*online"):
        CcxtOptions(dry_run=True).open(("BTC/USDT",), MARKET)


@pytest.mark.parametrize(
    ("market", "sandbox"), [("spot", "testnet.binance.vision"), ("linear", "demo-fapi.binance.com")]
)
def test_the_sandbox_is_the_default_and_real_money_says_so(market: Any, sandbox: str, monkeypatch: Any) -> None:
    hurry(monkeypatch)  # which sets keys, too; nothing is asked here
    name = "public" if market == "spot" else "fapiPublic"

    def host(options: CcxtOptions) -> str | None:
        client = _make_client(options)
        assert client.enableRateLimit
        return urlsplit(client.urls["api"][name]).hostname

    real_money = CcxtOptions(market=market, live=True, notional_cap=500.0)
    assert host(CcxtOptions(market=market)) == sandbox
    assert host(real_money) in ("api.binance.com", "fapi.binance.com")
    assert "REAL MONEY" in real_money.words
    assert real_money.cap == 500.0


def test_real_money_is_asked_for_as_the_sandbox_is(rig: Rig) -> None:
    paths = []
    for options in ({}, {"live": True, "notional_cap": 500.0}):
        rig.exchange.requests.clear()
        rig.broker(**options)
        paths.append([path.replace("/v3/", "/v2/") for _, path in rig.exchange.requests])
    assert paths[0] == paths[1]
    assert "REAL MONEY" in rig.broker(live=True, notional_cap=500.0).name


# ---- feed, and a dry run beside the backtest -------------------------------------------------------------------------


def test_a_session_on_an_exchanges_bars_sends_its_orders_there(spot: Rig, tmp_path: Path, monkeypatch: Any) -> None:
    now = pd.Timestamp.now("UTC").floor("h")
    for name in of(spot).names:
        rows = [(now - pd.Timedelta(hours=back)) for back in range(60, 0, -1)]
        of(spot).candles[name] = [
            [int(at.timestamp() * 1000), "100", "103", "99", str(100 + k % 3), "5"] for k, at in enumerate(rows)
        ]
    symbols = list(spot.panel.symbols)
    options = {
        "feed": "ccxt",
        "broker": {"name": "ccxt", "exchange": "binance"},
        "folder": str(tmp_path / "paper"),
        "halt_file": str(tmp_path / "HALT"),
        "data": {
            "symbols": symbols,
            "start": f"{now - pd.Timedelta(days=3):%Y-%m-%d}",
            "freq": "1h",
            "cache": str(tmp_path / "cache"),
        },
    }
    spot.exchange.prices = dict.fromkeys(symbols, Decimal(100))
    trader = open_session("equal_weight", configure(PaperConfig, options, "paper"), BASELINES)
    trader.run(1)
    assert sorted(order.symbol for order in spot.exchange.orders.values()) == sorted(symbols)
    assert re.match(r"data [01]\.\d bars old", trader.staleness())  # an hour may begin while it trades
    trader.journal.close()


class HourlyRule(Rule):
    """Targets by the trend of ten bars."""

    def __init__(self) -> None:
        super().__init__("target")


def play_both(kind_panel: Panel, options: CcxtOptions) -> tuple[Any, Any]:
    """Equity of the guarded backtest, and of a dry run on the same bars."""
    market = replace(MARKET, bars_per_year=kind_panel.bars_per_year)
    guarded = GuardedPolicy(HourlyRule(), Guard(CALM), kind_panel, market)
    expected = backtest(guarded, kind_panel, first=FIRST, market=guarded.market).equity
    broker = options.open(kind_panel.symbols, market)
    desk = Desk(HourlyRule(), Guard(CALM), kind_panel.symbols, market, broker)
    equity = []
    observation = {"position": np.zeros(0), "portfolio": np.zeros(0)}
    for t in range(FIRST, len(kind_panel)):
        known = kind_panel.rows(0, t + 1)
        bars, now = last_bars(known), known.index[-1].timestamp()
        desk.settle(known, bars, now)
        equity.append(desk.equity)
        desk.decide(Snapshot(known, t, observation, None, FIRST), bars, now)
    return expected, np.array(equity)


def check_dry_run(bars: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[float, float]:
    """Relative difference of a dry run's equity to the backtest's: with the exchange's rules, and with tiny steps."""
    hurry(monkeypatch)
    whole = load("synthetic", symbols=3, bars=FIRST + bars, seed=5)
    index = pd.date_range("2020-01-01", periods=len(whole), freq="h", tz="UTC").as_unit("ns")
    with open_rig("spot", replace(whole, index=index), tmp_path, monkeypatch) as rig:
        differences = []
        for step, least in (("0.00001", 5), ("0.00000001", 0)):
            of(rig).step, of(rig).least_cost = Decimal(step), Decimal(least)
            expected, equity = play_both(rig.panel, CcxtOptions(dry_run=True))
            assert len(expected) == len(equity) == bars
            differences.append(float(np.abs(equity / expected - 1.0).max()))
        assert {path for _, path in rig.exchange.requests} == {"/api/v3/time", "/api/v3/exchangeInfo"}  # nothing sent
    return differences[0], differences[1]


def test_a_dry_run_is_the_backtest_up_to_the_exchanges_rounding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounded, fine = check_dry_run(60, tmp_path, monkeypatch)
    assert 0.0 < rounded < 1e-4
    assert fine < 1e-9  # the difference is the rounding's: it goes with the steps


@pytest.mark.proof
@pytest.mark.timeout(3600)
def test_a_dry_run_of_ten_thousand_bars_is_the_backtest_up_to_rounding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sized: Callable[[int], int]
) -> None:
    bars = sized(10_000)
    rounded, fine = check_dry_run(bars, tmp_path, monkeypatch)
    print(
        f"dry run, {bars:,} bars: equity within {rounded:.1e} of the backtest's with steps of 1e-5 and orders from 5 "
        f"USDT on, within {fine:.1e} with steps of 1e-8 and none too small"
    )
    assert rounded < 1e-3
    assert fine < 1e-8
