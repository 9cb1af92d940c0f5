"""What is Alpaca's own: its minimum, whole shares, its sentences, and fills of which only the mean price is told."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from exchange import Fault, alpaca_client
from trading import SPAN, small_panel
from venues import Rig, hurry, open_rig

from pacesetter.errors import ConfigError, RunError
from pacesetter.panel import Panel
from pacesetter.serving.journal.journal import tables
from pacesetter.serving.risk.order import Order
from pacesetter.serving.trader import alpaca
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
        AlpacaBroker(rig.panel.symbols, alpaca_client(rig.url))


def test_requests_wait_where_they_would_be_too_many(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alpaca, "MOST_REQUESTS", 5)
    now, sent, request = [0.0], list[float](), rig.exchange.fault

    def wait(seconds: float) -> None:
        now[0] += seconds

    def note(method: str, path: str) -> str:
        sent.append(now[0])
        now[0] += 1.0  # that each takes
        return request(method, path)

    monkeypatch.setattr(alpaca, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=wait))
    monkeypatch.setattr(rig.exchange, "fault", note)
    broker = rig.broker()
    while len(sent) < 12:
        broker.open_orders()
    assert sent == [0, 1, 2, 3, 4, 60, 61, 62, 63, 64, 120, 121]


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
