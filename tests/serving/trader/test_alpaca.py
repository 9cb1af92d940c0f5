"""What is Alpaca's own: its minimum, whole shares, its sentences, and fills of which only the mean price is told."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from exchange import Fault, alpaca_client
from trading import SPAN, small_panel
from venues import Rig, hurry, open_rig

from pacesetter.errors import ConfigError, RunError
from pacesetter.panel import Panel
from pacesetter.serving.journal.journal import tables
from pacesetter.serving.risk.order import Order
from pacesetter.serving.trader.alpaca import AlpacaBroker
from pacesetter.serving.trader.broker import OrderStatus


@pytest.fixture(scope="module")
def panel() -> Panel:
    return small_panel()


@pytest.fixture
def rig(panel: Panel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    hurry(monkeypatch)
    with open_rig("alpaca", panel, tmp_path, monkeypatch) as made:
        yield made


def test_fills_are_told_once_and_a_silent_broker_is_not_known(rig: Rig) -> None:
    exchange, symbol = rig.exchange, rig.panel.symbols[0]
    broker = rig.broker()
    exchange.move(symbol, Decimal(5), Decimal(0))
    exchange.slow_cancels = 1000  # what the first look cancels still fills
    order = Order("run-1", symbol, -5.0, 100.0)
    broker.submit(order)
    bar = np.full((4, 7), 100.0)
    resting = exchange.orders["run-1"]
    exchange.fill(resting, Decimal("0.4"), Decimal("99.5"))
    assert [fill[2:4] for fill in broker.settle(bar, bar, [order], SPAN).executions] == [(-2.0, 99.5)]
    left = replace(order, quantity=-3.0)
    assert broker.settle(bar, bar, [left], SPAN) == ((), {}, 0, False, True, ())
    exchange.fill(resting, Decimal(1), Decimal("98"))
    exchange.script = [Fault("504", "GET", path) for path in ("/account", "by_client")]
    assert not broker.settle(bar, bar, [left], SPAN).is_known
    assert not broker.settle(bar, bar, [left], SPAN).is_known
    last = broker.settle(bar, bar, [left], SPAN)
    assert last.closed == {"run-1": OrderStatus.FILLED}
    assert [fill[2:4] for fill in last.executions] == [(-3.0, pytest.approx(98.0))]


def test_a_service_that_does_not_answer_is_told_in_one_sentence(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    broker = AlpacaBroker(rig.panel.symbols, alpaca_client(rig.url))
    rig.exchange.script = [Fault("504", "DELETE"), Fault("504", "GET", "/account"), Fault("504", "GET", "/assets")]
    broker.cancel_all()
    broker.finish()
    assert "Alpaca cancel request failed (APIError 504)" in caplog.text
    with pytest.raises(RunError, match=r"Alpaca account request failed \(APIError 504\)"):
        AlpacaBroker(rig.panel.symbols, alpaca_client(rig.url))
    with pytest.raises(RunError, match=r"Alpaca asset request failed \(APIError 504\)"):
        AlpacaBroker(rig.panel.symbols, alpaca_client(rig.url))


def test_an_account_or_a_venue_that_does_not_fit_is_refused(rig: Rig) -> None:
    with pytest.raises(ConfigError, match="Alpaca has no 'ZZZ' to trade"):
        AlpacaBroker(("ZZZ",), alpaca_client(rig.url))
    rig.exchange.held["YYY"], rig.exchange.prices["YYY"] = Decimal(1), Decimal(1)
    with pytest.raises(ConfigError, match="holds YYY, which is not traded here"):
<<<<<<< HEAD
        AlpacaBroker(rig.panel.symbols, alpaca_client(rig.url))
=======
        AlpacaBroker(rig.panel.symbols, client(rig.url))


def test_an_order_whose_sending_was_cut_short_is_sent_once(rig: Rig) -> None:
    trader = rig.trader(plain(0.1, 0.1, 0.0, 0.0))
    post, ask = Fault("504", "POST"), Fault("504", "GET", "by_client")
    rig.exchange.script = [post, ask, post._replace(kind="504_after"), ask]
    trader.run(1)
    assert [row["status"] for row in trader.journal.rows(tables.orders)] == ["unknown", "unknown"]
    assert len(rig.exchange.orders) == 1
    trader.journal.close()
    again = rig.trader(plain(0.1, 0.1, 0.0, 0.0))
    again._resume(again._read_state())
    assert [row["status"] for row in again.journal.rows(tables.orders)] == ["sent", "sent"]
    assert len(rig.exchange.orders) == 2
    again.journal.close()


def test_after_two_orders_without_an_answer_the_rest_is_not_sent(rig: Rig) -> None:
    trader = rig.trader(plain(0.1, 0.1, 0.1, 0.1))
    rig.exchange.chance = lambda method, path: "504" if "orders" in path else None
    trader.run(1)
    statuses = [row["status"] for row in trader.journal.rows(tables.orders)]
    assert statuses == ["unknown", "unknown", "cancelled", "cancelled"]
    assert len(trader.desk.guard.in_flight) == 2
    trader.journal.close()


def test_what_was_filled_while_nobody_looked_is_booked_at_the_next_bar(rig: Rig) -> None:
    trader = rig.trader(plain(0.1, 0.1, 0.0, 0.0))
    trader.run(1)
    trader.journal.close()
    again = rig.trader(plain(0.1, 0.1, 0.0, 0.0))
    again.run(1)
    assert booked(again) == held(rig) != {}
    again.journal.close()
    rig.exchange.held[rig.panel.symbols[0]] *= 10  # by hand
    with pytest.raises(RunError, match=r"the broker holds .*; correct it, then resume"):
        rig.trader(plain(0.0, 0.0, 0.0, 0.0)).run(1)
    rig.folder = rig.folder / "new"  # nor does a run begin with what another bought
    with pytest.raises(RunError, match=r"the broker holds .*; correct it, then resume"):
        rig.trader(plain(0.0, 0.0, 0.0, 0.0)).run(1)


# ---- 5. quantities and time ----------------------------------------------------------------------------------------
>>>>>>> main


def test_quantities_have_the_digits_that_the_venue_takes(rig: Rig) -> None:
    rig.exchange.whole_only = {rig.panel.symbols[1]}
    trader = rig.trader(lambda bar: [0.1, 0.1, 0.0, 0.0])
    rig.exchange.share = lambda order: 0.0
    trader.run(1)
    rows = trader.journal.rows(tables.orders)
    assert len(rows) == 2
    for row in rows:
        assert Decimal(str(row["quantity"])) == rig.exchange.orders[row["client_id"]].quantity
    trader.journal.close()
    again = rig.trader(lambda bar: [0.1, 0.1, 0.0, 0.0])  # an order that is open stops no restart
    again.run(1)
    rig.exchange.share = lambda order: 1.0
    again.run(1)
    assert again.journal.holdings() == pytest.approx(rig.held(), abs=1e-9)
    again.journal.close()
<<<<<<< HEAD
=======


def wait_until(is_true: Callable[[], bool], seconds: float = 30.0) -> bool:
    end = time.monotonic() + seconds
    while not is_true() and time.monotonic() < end:
        time.sleep(0.01)
    return is_true()


@pytest.mark.parametrize("path", ["/account", "/orders"])
def test_a_halt_does_not_wait_for_a_broker_that_holds_its_answer(
    path: str, rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alpaca, "TIMEOUT_SECONDS", 60.0)  # so that only a look at the switch can end the wait
    exchange, trader = rig.exchange, rig.trader(plain(0.1, 0.0, 0.0, 0.0))
    trader.run(1)
    exchange.patience = 60.0
    exchange.script = [Fault("slow", "GET" if path == "/account" else "POST", path)]
    trader.desk.policy.plan = plain(0.0, 0.1, 0.0, 0.0)  # type: ignore[attr-defined]
    running = threading.Thread(target=lambda: trader.run(1), daemon=True)
    running.start()
    assert wait_until(lambda: exchange.held_answers == 1)
    trader.switch.engage("now")
    assert wait_until(lambda: trader.desk.guard.state is State.HALTED, 20.0)
    was_waiting = exchange.held_answers == 1
    exchange.released.set()
    running.join()
    assert was_waiting
    trader.journal.close()


# ---- whatever goes wrong -------------------------------------------------------------------------------------------


class Model:
    """The account as the exchange's own orders make it, compared with the trader's books after every bar.

    It is the display of a trader: `bar` is called when a bar is done.
    """

    def __init__(self, rig: Rig, trader: PaperTrader) -> None:
        self.rig, self.trader = rig, trader

    def open(self) -> None:
        """Nothing to show."""

    def bar(self) -> None:
        exchange, journal, guard = self.rig.exchange, self.trader.journal, self.trader.desk.guard
        orders = {row["client_id"]: row for row in journal.rows(tables.orders)}
        assert set(exchange.orders) <= set(orders), "an order that is not journalled"
        filled = dict.fromkeys(orders, 0.0)
        for row in journal.rows(tables.fills):
            filled[row["client_id"]] += row["quantity"]
        expected = dict.fromkeys(self.rig.panel.symbols, Decimal(0))
        for each in exchange.orders.values():
            assert each.quantity == Decimal(str(orders[each.client_id]["quantity"])), "another quantity than journalled"
            expected[each.symbol] += each.filled
            # What is in flight may have filled since it was looked at; all else is booked to the last digit.
            if each.client_id not in guard.in_flight:
                assert not each.is_open, f"{each.client_id} is open and forgotten"
                assert filled[each.client_id] == pytest.approx(float(each.filled), abs=1e-9), (
                    "a fill is lost or doubled"
                )
            assert abs(filled[each.client_id]) <= abs(float(each.filled)) + 1e-9
        assert expected == exchange.held
        for symbol, quantity in exchange.held.items():
            working = [each.left for each in exchange.orders.values() if each.symbol == symbol and each.is_open]
            assert quantity + sum((left for left in working if left < 0), Decimal(0)) >= 0, "it may become short"
            most = quantity + sum((left for left in working if left > 0), Decimal(0))
            assert most * exchange.prices[symbol] <= Decimal("0.15") * exchange.equity, "it may become too large"
        assert "the broker holds" not in guard.reason, "a false alarm"
        for row in orders.values():  # what reached the venue is never called rejected or denied
            if row["client_id"] in exchange.orders:
                assert row["status"] not in ("rejected", "denied")


def started(make: Callable[[], PaperTrader]) -> PaperTrader:
    """A trader, however often the venue fails while it starts."""
    while True:
        try:
            return make()
        except RunError as problem:
            if "request failed" not in str(problem):
                raise


def check_faults(folder: Path, panel: Panel, seed: int, bars: int) -> int:
    """Trade beside random faults, resting and partial fills, rejections, halts and restarts; gives how many faults."""
    chance, exchange, faults = random.Random(seed), Exchange(panel.symbols), []
    weights = np.random.default_rng(seed).choice([0.0, 0.0, 0.04, 0.08, 0.12], (bars + 10, len(panel.symbols)))

    def fault(method: str, path: str) -> str | None:
        if chance.random() > 0.2:
            return None
        faults.append(chance.choice(FAULTS if chance.random() < 0.2 else FAULTS[:-2]))
        return faults[-1]

    with listening(exchange) as url:
        rig = Rig(folder, url, exchange, panel)
        exchange.chance, exchange.patience = fault, 0.2
        exchange.refuses = lambda symbol: chance.random() < 0.05
        rig.feed.share = lambda order: chance.choice((0.0, 0.0, 0.3, 0.5, 1.0, 1.0))
        options = OrderOptions(flatten_on_halt=chance.random() < 0.7)
        done, switch = 0, KillSwitch(folder / "HALT")

        def make() -> PaperTrader:
            return rig.trader(lambda bar: weights[min(bar, len(weights) - 1)], options=options)

        trader = started(make)
        while done < bars:
            exchange.slow_cancels = chance.choice((0, 0, 1, 50))
            if chance.random() < 0.2:
                trader.journal.close()
                trader = started(make)
            if chance.random() < 0.25:
                switch.release("Ada") if switch.is_engaged() else switch.engage("drill")
            trader.display = Model(rig, trader)
            done += trader.run(chance.randint(1, 4)).new_bars
        # In the end all is well, and everything is closed.
        exchange.chance, exchange.slow_cancels, exchange.refuses = (lambda *words: None), 0, lambda symbol: False
        rig.feed.share, weights[:] = (lambda order: 1.0), 0.0
        exchange.confirm()
        switch.release("Ada")
        trader.run(4)
        assert held(rig) == {} == {symbol: each for symbol, each in booked(trader).items() if abs(each) > 1e-9}
        final = {"canceled": "cancelled", "filled": "filled"}
        for row in trader.journal.rows(tables.orders):
            order = exchange.orders.get(row["client_id"])
            if order is not None:
                assert row["status"] == final[order.status]
            else:
                assert row["status"] in ("cancelled", "rejected", "denied")
        trader.journal.verify()
        trader.journal.close()
    return len(faults)


def test_random_faults_double_and_lose_nothing(panel: Panel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alpaca, "TIMEOUT_SECONDS", 0.1)  # one that is met because the machine is busy is one fault more
    faults = sum(check_faults(tmp_path / str(seed), panel, seed, 36) for seed in range(1, 6))
    assert faults > 150


@pytest.mark.proof
@pytest.mark.timeout(3600)
def test_many_random_faults_double_and_lose_nothing(
    panel: Panel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sized: Callable[[int], int]
) -> None:
    monkeypatch.setattr(alpaca, "TIMEOUT_SECONDS", 0.1)
    runs = sized(200)
    faults = sum(check_faults(tmp_path / str(seed), panel, seed, 36) for seed in range(100, 100 + runs))
    print(f"Alpaca over HTTP: {runs} runs of 36 bars, {faults:,} faults; no order doubled, lost or not journalled")
>>>>>>> main
