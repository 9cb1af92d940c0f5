"""A day of service on a virtual clock: `python soak.py BUNDLE BARS FOLDER HOURS`; prints its memory after every hour.

Every minute a new bar is sent to the server, decided on, asked about again, and requests are refused. A paper trader
that runs all day trades the same bars, sixty after each hour of requests, from a feed that it waits for.
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from served import HOSTILE, NO_LIMITS, status_of
from trading import make_trader

from pacesetter.panel import Panel
from pacesetter.serving.api.app import make_app
from pacesetter.serving.api.keys import Keys
from pacesetter.serving.api.runtime import Runtime
from pacesetter.serving.bundle.bundle import Bundle
from pacesetter.serving.risk.halt import KillSwitch
from pacesetter.serving.trader.feeds import LiveClock

MINUTE, HOUR_BARS = 60.0, 60
LEAK_BYTES = 0  # that every minute loses, to see that the proof sees it


class Day:
    """The market of the day: one more bar a minute, made up as the clock goes on."""

    def __init__(self, panel: Panel) -> None:
        index = pd.date_range(end="2026-03-02", periods=len(panel), freq="min", tz="UTC").as_unit("ns")
        self.panel = Panel(index, panel.symbols, panel.fields, panel.blocks, panel.mask)
        self.now, self.chance = index[-1].timestamp(), np.random.default_rng(27)
        self.kept = len(panel)

    def next_minute(self) -> Panel:
        """The bar of the next minute; bars older than the history that anybody reads are dropped."""
        self.now += MINUTE
        last, closes = self.panel.rows(-1, None), self.panel.close[-1]
        closes = closes * np.exp(self.chance.normal(0.0, 2e-4, len(closes)))
        blocks = np.array(last.blocks)
        for name in ("open", "high", "low", "close"):
            blocks[last.fields.index(name), 0] = closes
        index = pd.DatetimeIndex([pd.Timestamp(self.now, unit="s", tz="UTC")]).as_unit("ns")
        bar = Panel(index, last.symbols, last.fields, blocks, last.mask)
        self.panel = self.panel.append(bar).rows(-self.kept - HOUR_BARS, None)
        return bar


class Feed:
    """What a source gives the trader, whose waiting moves its clock; an hour is served when it is waited for."""

    is_stored = False

    def __init__(self, day: Day, next_hour: Callable[[], None]) -> None:
        self.day, self.moment, self.next_hour = day, day.now, next_hour
        self.clock = LiveClock(lambda: self.moment, lambda: self.moment, self._sleep)

    def _sleep(self, seconds: float) -> None:
        self.moment += 4 * seconds  # a look at the switch every second

    def history(self, until: pd.Timestamp | None) -> Panel:
        return self.day.panel.between(None, until or pd.Timestamp(self.moment, unit="s", tz="UTC"))

    def after(self, last: pd.Timestamp) -> Panel | None:
        if last >= self.day.panel.index[-1]:
            self.next_hour()
        known = self.history(None)
        return known.rows(int(known.index.searchsorted(last, side="right")), None)

    def digest(self, until: pd.Timestamp) -> str:
        return ""


def requests(bar: Panel, tokens: dict[str, str], minute: int) -> list[tuple[str, str, str, bytes]]:
    """Method, path, token and body of what is asked in a minute."""
    rows = [
        {"symbol": symbol, "time": bar.index[0].isoformat()} | {name: float(bar[name][0, k]) for name in bar.fields}
        for k, symbol in enumerate(bar.symbols)
    ]
    account = {"cash": 1e5}
    return [
        ("POST", "/v1/decide", tokens["trade"], json.dumps({"bars": rows, "account": account}).encode()),
        ("POST", "/v1/decide", tokens["trade"], json.dumps({"account": account}).encode()),
        ("GET", "/v1/state", tokens["read"], b""),
        ("GET", "/metrics", tokens["read"], b""),
        ("GET", "/livez", "", b""),
        ("POST", "/v1/decide", tokens["trade"], HOSTILE[minute % len(HOSTILE)]),
        ("POST", "/v1/decide", f"nobody-{minute}", b"{}"),
    ]


async def serve_hour(app: Any, day: Day, tokens: dict[str, str], hour: int, leaked: list[bytes]) -> int:
    """Sixty minutes of requests; gives how many there were."""
    count = 0
    for minute in range(60):
        bar = day.next_minute()
        leaked.append(bytes(LEAK_BYTES))
        for method, path, token, body in requests(bar, tokens, 60 * hour + minute):
            headers = [(b"authorization", f"Bearer {token}".encode()), (b"content-type", b"application/json")]
            status = await status_of(app, method, path, headers, body)
            assert status < 500, f"{method} {path} {body!r}: {status}"
            count += 1
    return count


def resident_mb() -> float:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 2**20


def main(bundle: Path, bars: Path, folder: Path, hours: int) -> None:
    logging.disable(logging.CRITICAL)
    day, opened = Day(Panel.load(bars)), Bundle.open(bundle)
    keys = Keys(folder / "keys.json")
    tokens = {scope: keys.add(scope, [scope]) for scope in ("read", "trade", "admin")}
    runtime = Runtime(opened, clock=lambda: day.now)
    runtime.feed(day.panel)
    app = make_app(runtime, KillSwitch(folder / "HALT"), keys, NO_LIMITS, folder / "books")
    asked, memory, leaked = [0], list[float](), list[bytes]()

    def end_hour() -> None:
        memory.append(round(resident_mb(), 1))
        print(f"hour {len(memory)}: {memory[-1]} MB resident", flush=True)

    def next_hour() -> None:
        if asked[0]:
            end_hour()
        asked[0] += asyncio.run(serve_hour(app, day, tokens, len(memory), leaked))

    # One run: a start reads the whole journal to verify it, of which memory that was freed remains with the process.
    trader = make_trader(folder / "trader", panel=day.panel, feed=Feed(day, next_hour))
    trader.run(hours * HOUR_BARS)
    end_hour()
    trader.journal.close()
    print(json.dumps({"hours": hours, "requests": asked[0], "bars": trader.bars, "memory": memory}))


if __name__ == "__main__":
    LEAK_BYTES = int(sys.argv[5]) if len(sys.argv) > 5 else 0
    main(Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]))
