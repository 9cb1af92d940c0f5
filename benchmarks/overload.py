"""Throughput under overload, of admission alone and of a policy for 143 symbols: clients that ask again at once.

python benchmarks/overload.py [--record]
"""

from __future__ import annotations

import asyncio
import multiprocessing
import socket
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from record import publish, table
from serving import run_server

from pacesetter.serving.api.admission import Access, Admission, ApiSettings
from pacesetter.serving.api.keys import Keys
from pacesetter.serving.api.server import _serve_until_stopped

SECONDS, REPEATS = 4.0, 3
CLIENTS = (8, 32, 64)
WORK_SECONDS = 0.005  # of processor time a request
POLICY, SYMBOLS = "fleet_transformer_small", 143
ABOUT = (
    "Requests by several clients, each on a connection of its own, in a closed loop: it asks again as soon as it is "
    f"answered, after a 429 too. Behind the server's own admission, not a policy but {1000 * WORK_SECONDS:g} ms of "
    f"processor time on one thread. {SECONDS:g} s a row, after a second of warming up; rows are measured {REPEATS} "
    "times, in turn, and the median is given. Clients and server share the cores of a machine that others used, too, "
    "so compare rows, not machines."
)
ABOUT_POLICY = (
    f"The same clients before a real policy, {POLICY} with random weights: each request is a decision for all "
    f"{SYMBOLS} symbols, through key, schema, features, model, sizing and guard, on one thread."
)


async def client(port: int, token: str, until: float, seen: list[tuple[int, float]]) -> None:
    """Ask until the time is over; note status and seconds of each answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    asked = (
        f"POST /v1/decide HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n"
        "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
    ).encode()
    while time.perf_counter() < until:
        start = time.perf_counter()
        writer.write(asked)
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = int(head.split(b"content-length: ")[1].split(b"\r\n")[0])
        await reader.readexactly(length)
        seen.append((int(head.split()[1]), time.perf_counter() - start))
        if b"connection: close" in head:
            writer.close()
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.close()


async def load(port: int, token: str, clients: int, seconds: float) -> list[tuple[int, float]]:
    seen: list[tuple[int, float]] = []
    until = time.perf_counter() + seconds
    await asyncio.gather(*(client(port, token, until, seen) for _ in range(clients)))
    return seen


def run_gate(port: int, keys: str) -> None:
    """Admission alone before work of a known length on the one thread that decisions have."""
    worker = ThreadPoolExecutor(1)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.get_running_loop().run_in_executor(worker, busy)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"{}"})

    settings = ApiSettings(port=port, rate=1e9, burst=10**9)
    metrics: Any = SimpleNamespace(request=lambda *facts: None)
    _serve_until_stopped(Admission(app, Keys(keys), settings, {"/v1/decide": Access(("trade",))}, metrics), settings)


def busy() -> None:
    """Use the processor, in pieces that give other threads their turn as numerical code does."""
    left = np.ones((160, 160))
    until = time.thread_time() + WORK_SECONDS
    while time.thread_time() < until:
        left @ left


def run_policy(port: int, keys: str) -> None:
    """The server with a policy for all symbols."""
    run_server(POLICY, SYMBOLS, 1, port, keys)


def measured(run: Callable[[int, str], None]) -> list[list[Any]]:
    """A row for each number of clients: answers a second, refusals a second, and percentiles of the answers."""
    with tempfile.TemporaryDirectory() as folder, socket.socket() as free:
        keys = Path(folder) / "keys.json"
        token = Keys(keys).add("load", ["trade"])
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        server = multiprocessing.get_context("spawn").Process(target=run, args=(port, str(keys)))
        server.start()
        try:
            wait_for(port)
            found: dict[int, list[list[float]]] = {count: [] for count in CLIENTS}
            for count in CLIENTS * REPEATS:
                asyncio.run(load(port, token, count, 1.0))
                found[count].append(figures(asyncio.run(load(port, token, count, SECONDS))))
        finally:
            server.terminate()
            server.join()
    return [[count, *np.median(rows, axis=0).tolist()] for count, rows in found.items()]


def wait_for(port: int) -> None:
    for _ in range(1200):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.1)
    sys.exit("the server did not start")


def figures(seen: list[tuple[int, float]]) -> list[float]:
    counts = Counter(status for status, _ in seen)
    odd = set(counts) - {200, 429}
    if odd:
        sys.exit(f"the server answered {sorted(odd)}")
    times = [1000 * seconds for status, seconds in seen if status == 200]
    return [counts[200] / SECONDS, counts[429] / SECONDS, *np.percentile(times, [50, 99]).tolist()]


def main() -> None:
    header = ["clients", "answers a second", "refused a second", "p50 ms", "p99 ms"]
    parts = (ABOUT, table(header, measured(run_gate)), ABOUT_POLICY, table(header, measured(run_policy)))
    publish("overload", "\n\n".join(parts), "Throughput under overload")


if __name__ == "__main__":
    main()
