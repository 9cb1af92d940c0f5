"""Orders over HTTP: a server fed with bars of now, 32 clients of one account, every answer against plain limits."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
from live import Live, serving
from plain import PlainGuard

from pacesetter.serving.risk.limits import GuardLimits
from pacesetter.serving.risk.order import AccountView, Order, Quote

CLIENTS, SYMBOLS_SEEN = 32, 61  # the second: bars over which symbols count as moving together
# A test lasts minutes, not days: what is counted by the day or the minute would refuse nearly everything.
LIMITS = {"repeat_count": 60, "repeat_seconds": 30.0, "day_count": 150, "second_count": 12, "copy_seconds": 3.0}


class Asked(NamedTuple):
    """A request that was answered with a decision: the closes it was about, the account it told, and the answer."""

    closes: np.ndarray[Any, Any]  # (time, symbol), the last one's row last
    cash: float
    held: dict[str, float]
    peak: float
    answer: dict[str, Any]


# ---- trading --------------------------------------------------------------------------------------------------------


class Book:
    """The one account that all clients trade: what was allowed at a bar is filled at its close, without costs."""

    def __init__(self, symbols: tuple[str, ...], closes: np.ndarray[Any, Any]) -> None:
        self.symbols, self.closes, self.cash = symbols, closes[-1:], 1e5
        self.history = closes  # that the server knows: bars that came as features are not kept there
        self.held, self.peak = dict.fromkeys(symbols, 0.0), 1e5

    def told(self) -> dict[str, Any]:
        rows = [
            {"symbol": symbol, "quantity": quantity, "entry_price": 100.0}
            for symbol, quantity in self.held.items()
            if quantity
        ]
        return {"cash": self.cash, "positions": rows, "peak_equity": self.peak}

    def move(self, chance: np.random.Generator) -> None:
        """The next closes; those of two symbols go together for some time, those of the others do not."""
        steps = chance.normal(0.0, 0.0005, len(self.symbols))
        steps[1] = 0.95 * steps[0] + 0.05 * steps[1] if len(self.history) // 40 % 2 else steps[1]
        self.closes = self.closes * np.exp(steps)

    def fill(self, answers: list[Asked]) -> None:
        for asked in answers:
            for line in asked.answer["decisions"]:
                self.held[line["symbol"]] += line["allowed"]
                self.cash -= line["allowed"] * self.closes[-1, self.symbols.index(line["symbol"])]
        equity = self.cash + sum(q * p for q, p in zip(self.held.values(), self.closes[-1], strict=True))
        self.peak = max(self.peak, equity)


def ask(live: Live, book: Book, content: dict[str, Any], is_alone: bool) -> Asked | None:
    """One request; None where it is refused as a whole."""
    status, answer = live.client.post("/v1/decide", "trade", {**content, "account": book.told()})
    assert status in (200, 409, 429), answer
    closes = book.closes if is_alone else book.history
    return Asked(closes, book.cash, dict(book.held), book.peak, answer) if status == 200 else None


def bar_requests(
    live: Live, book: Book, chance: random.Random, clients: ThreadPoolExecutor, asks: int = 2 * CLIENTS
) -> list[Asked]:
    """A new bar for all, and then what the clients ask about it at once."""
    moment, symbols = datetime.now(UTC).isoformat(), book.symbols
    by_bars = chance.random() < 0.5
    if by_bars:
        book.history = np.vstack([book.history, book.closes])
        rows = [
            {"symbol": symbol, "time": moment}
            | {field: float(live.panel[field][-1, place]) for field in live.panel.fields}
            | dict.fromkeys(("open", "high", "low", "close"), float(book.closes[-1, place]))
            for place, symbol in enumerate(symbols)
        ]
        first = ask(live, book, {"bars": rows}, False)
        contents: list[dict[str, Any]] = [{} for _ in range(asks)]
    else:
        first, contents = None, [features(live, book, moment, chance) for _ in range(asks)]
    answers = list(clients.map(lambda content: ask(live, book, content, not by_bars), contents))
    return [asked for asked in (first, *answers) if asked is not None]


def features(live: Live, book: Book, moment: str, chance: random.Random) -> dict[str, Any]:
    """A window that nobody saw, so that every client is told another order."""
    generator = np.random.default_rng(chance.getrandbits(32))
    rows = [
        {"symbol": symbol, "close": float(close)}
        | {name: (3 * generator.normal(size=shape)).tolist() for name, shape in live.shapes.items()}
        for symbol, close in zip(book.symbols, book.closes[-1], strict=True)
    ]
    return {"features": {"time": moment, "rows": rows}}


# ---- held against the plain guard -----------------------------------------------------------------------------------


def linked(closes: np.ndarray[Any, Any], symbols: tuple[str, ...], above: float) -> dict[str, int]:
    """Symbol -> cluster, by correlations of each pair."""
    returns = np.diff(np.log(closes[-SYMBOLS_SEEN:]), axis=0)
    if len(returns) < 20:
        return {}
    found = {symbol: place for place, symbol in enumerate(symbols)}
    pairs = [(a, b) for a in range(len(symbols)) for b in range(a)]
    for a, b in pairs * len(symbols):
        if np.corrcoef(returns[:, a], returns[:, b])[0, 1] > above:
            found[symbols[a]] = found[symbols[b]] = min(found[symbols[a]], found[symbols[b]])
    members = Counter(found.values())
    return {symbol: cluster for symbol, cluster in found.items() if members[cluster] > 1}


def compare(live: Live, asked: list[Asked], limits: GuardLimits) -> tuple[int, Counter[str]]:
    """Orders allowed, and refusals by control; each must be what the plain guard says of the same orders in turn."""
    by_request = {each.answer["request"]: each for each in asked}
    lines = (json.loads(line) for line in live.order.read_text().splitlines())
    guard, bar, allowed, refusals = PlainGuard(limits), "", 0, Counter[str]()
    for request, now in lines:
        each = by_request.get(request)
        if each is None:
            continue  # a rehearsal
        symbols = tuple(line["symbol"] for line in each.answer["decisions"])
        prices = dict(zip(symbols, each.closes[-1].tolist(), strict=True))
        equity = each.cash + sum(each.held[symbol] * price for symbol, price in prices.items())
        if each.answer["time"] != bar:
            bar = each.answer["time"]
            guard.open.clear()  # those who sent the orders have filled them
            guard.begin_bar(equity, now)
        quotes = {symbol: Quote(price, 0.0) for symbol, price in prices.items()}
        clusters = linked(each.closes, symbols, limits.cluster_correlation)
        view = AccountView(equity, each.held, quotes, clusters, max(each.peak, equity))
        wanted = [line for line in each.answer["decisions"] if line["quantity"]]
        begin = f"{each.answer['bundle']}-{pd.Timestamp(bar):%Y%m%dT%H%M%S}"
        orders = [
            Order(f"{begin}-{row['symbol']}", row["symbol"], row["quantity"], prices[row["symbol"]]) for row in wanted
        ]
        expected = guard.check(orders, view, now)
        assert [expected[str(place)] for place in range(len(wanted))] == [row["limit"] for row in wanted], (each, now)
        assert all(row["allowed"] == (0.0 if row["limit"] else row["quantity"]) for row in wanted)
        allowed += sum(row["limit"] is None for row in wanted)
        refusals.update(row["limit"] for row in wanted if row["limit"])
    return allowed, refusals


@pytest.mark.proof
@pytest.mark.timeout(3600)
def test_every_order_that_32_clients_get_is_within_the_limits(
    made: Any, tmp_path: Path, sized: Callable[[int], int]
) -> None:
    limits, chance, bars = GuardLimits(**LIMITS), random.Random(27), sized(300)  # type: ignore[arg-type]
    with serving(made, tmp_path, limits) as live, ThreadPoolExecutor(CLIENTS) as clients:
        book, generator = Book(live.panel.symbols, np.array(live.panel.close)), np.random.default_rng(27)
        asked: list[Asked] = []
        for _ in range(bars):
            book.move(generator)
            answers = bar_requests(live, book, chance, clients)
            book.fill(answers)
            asked += answers
        assert live.client.post("/v1/halt", "trade", {"reason": "the end"})[0] == 200
        book.move(generator)
        last = bar_requests(live, book, chance, clients)
        assert not any(row["allowed"] for each in last for row in each.answer["decisions"])
    allowed, refusals = compare(live, asked, limits)
    print(f"{len(asked)} decisions over HTTP by {CLIENTS} clients at {bars} bars: {allowed} orders allowed, ", end="")
    print(f"refused {dict(refusals.most_common())}; each as the plain guard says")
    assert allowed > bars / 4
    assert {"bar_rate", "duplicate_id"} & set(refusals)
