"""Throughput of a served policy under overload: 8, 32 and 64 clients that ask again as soon as they are answered.

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
from pathlib import Path
from typing import Any

import numpy as np
from record import publish, table
from serving import connected, run_server

from pacesetter.serving.api.keys import Keys

SECONDS, REPEATS = 6.0, 2
CLIENTS = (8, 32, 64)
SERVED = (("transformer", 1), ("transformer_small", 143))
ABOUT = (
    "`POST /v1/decide` at a known bar by several clients, each on its own connection and in a closed loop: it asks "
    f"again as soon as it is answered, after a 429 too. {SECONDS:g} s a row, after a second of warming up; rows are "
    f"measured {REPEATS} times, in turn, and the median is given. Clients and server share this machine's cores. "
    "The server queues requests as long as they can be answered within `queue_seconds`, and refuses the rest at once."
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


def measured(name: str, symbols: int) -> list[list[Any]]:
    """A row for each number of clients: answers a second, refusals a second, and percentiles of the answers."""
    with tempfile.TemporaryDirectory() as folder, socket.socket() as free:
        keys = Path(folder) / "keys.json"
        token = Keys(keys).add("load", ["trade"])
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        context = multiprocessing.get_context("spawn")
        server = context.Process(target=run_server, args=(name, symbols, 2, port, str(keys)))
        server.start()
        try:
            connected(port).close()
            found: dict[int, list[list[float]]] = {count: [] for count in CLIENTS}
            for count in CLIENTS * REPEATS:
                asyncio.run(load(port, token, count, 1.0))
                found[count].append(figures(asyncio.run(load(port, token, count, SECONDS))))
        finally:
            server.terminate()
            server.join()
    return [[name, symbols, count, *np.median(rows, axis=0).tolist()] for count, rows in found.items()]


def figures(seen: list[tuple[int, float]]) -> list[float]:
    counts = Counter(status for status, _ in seen)
    odd = set(counts) - {200, 429}
    if odd:
        sys.exit(f"the server answered {sorted(odd)}")
    times = [1000 * seconds for status, seconds in seen if status == 200]
    return [counts[200] / SECONDS, counts[429] / SECONDS, *np.percentile(times, [50, 99]).tolist()]


def main() -> None:
    header = ["network", "symbols", "clients", "answers a second", "refused a second", "p50 ms", "p99 ms"]
    rows = [row for name, symbols in SERVED for row in measured(name, symbols)]
    publish("overload", "\n\n".join((ABOUT, table(header, rows))), "Throughput under overload")


if __name__ == "__main__":
    main()
