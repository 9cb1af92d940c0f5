"""A server fed with bars of now, as a process (`python live.py BUNDLE KEYS PORT ORDER [HISTORY]`), and its clients.

It writes in which order it decided, and when.
Only that is taken from it: what was asked and answered, those who asked know themselves.
"""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from threading import local
from typing import Any, NamedTuple

import pandas as pd

from pacesetter.panel import Panel
from pacesetter.serving.api.admission import ApiSettings
from pacesetter.serving.api.keys import Keys
from pacesetter.serving.api.logs import REQUEST
from pacesetter.serving.api.schemas import ACCOUNT_ENTRIES
from pacesetter.serving.api.server import serve
from pacesetter.serving.bundle.bundle import Bundle
from pacesetter.serving.risk.halt import KillSwitch
from pacesetter.serving.risk.limits import GuardLimits
from pacesetter.serving.trader.desk import Desk

__all__ = ["Client", "Live", "serving"]


def main(bundle: Path, keys: Path, port: int, order: Path, history: Path | None = None) -> None:
    decide, stream = Desk.decide, order.open("w")

    def noted(self: Desk, snapshot: Any, bars: Any, now: float, late: Any = 0.0) -> Any:
        stream.write(json.dumps([REQUEST.get(), now]) + "\n")
        stream.flush()
        return decide(self, snapshot, bars, now, late)

    Desk.decide = noted  # type: ignore[method-assign]
    settings = ApiSettings(port=port, rate=1e9, burst=10**9, queue_seconds=60.0, seconds=60.0)
    serve(Bundle.open(bundle), Keys(keys), KillSwitch(keys.with_name("HALT")), settings, history=history)


class Client:
    """Callers of one server by one key; each thread has a connection of its own."""

    def __init__(self, port: int, tokens: dict[str, str]) -> None:
        self.port, self.tokens, self.own = port, tokens, local()
        self.links: list[HTTPConnection] = []

    def post(self, route: str, scope: str, content: Any) -> tuple[int, Any]:
        if not hasattr(self.own, "link"):
            self.own.link = HTTPConnection("127.0.0.1", self.port, timeout=120)
            self.links.append(self.own.link)
        try:
            return self._post(route, scope, content)
        except ConnectionError:  # the server closes a connection that was idle for some time
            self.own.link.close()
            return self._post(route, scope, content)

    def _post(self, route: str, scope: str, content: Any) -> tuple[int, Any]:
        headers = {"Authorization": f"Bearer {self.tokens[scope]}", "Content-Type": "application/json"}
        self.own.link.request("POST", route, json.dumps(content), headers)
        response = self.own.link.getresponse()
        return response.status, json.loads(response.read())

    def close(self) -> None:
        for link in self.links:
            link.close()


class Live(NamedTuple):
    """A server that is running, and the file in which it writes the order of its decisions."""

    client: Client
    order: Path
    panel: Panel
    shapes: dict[str, tuple[int, ...]]  # of a row of features


@contextmanager
def serving(made: Any, folder: Path, limits: GuardLimits) -> Iterator[Live]:
    """The bundle with other limits, served by a process of its own, whose history ends now."""
    files = dict(made.bundle.files) | {"limits.json": json.dumps(limits.__dict__).encode()}
    Bundle.write(folder / "bundle", files)
    keys = Keys(folder / "keys.json")
    tokens = {scope: keys.add(scope, [scope]) for scope in ("read", "trade", "admin")}
    panel = until_now(made.panel)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = (folder / "bundle", keys.path, port, folder / "order.jsonl", panel.save(folder / "bars.parquet"))
    with subprocess.Popen([sys.executable, str(__file__), *map(str, words)], stdout=subprocess.DEVNULL) as process:
        try:
            wait_for(port, process)
            inputs = made.bundle.model.spec.inputs
            shapes = {name: shape for name, shape in inputs.items() if name not in ACCOUNT_ENTRIES}
            with closing(Client(port, tokens)) as client:
                yield Live(client, folder / "order.jsonl", panel, shapes)
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(60)


def until_now(panel: Panel) -> Panel:
    """The same bars, a minute apart, the last one of a minute ago."""
    end = pd.Timestamp.now(tz="UTC").floor("s") - pd.Timedelta(1, "min")
    index = pd.date_range(end=end, periods=len(panel), freq="min", tz="UTC").as_unit("ns")
    return Panel(index, panel.symbols, panel.fields, panel.blocks, panel.mask)


def wait_for(port: int, process: Any) -> None:
    for _ in range(1200):
        assert process.poll() is None, "the server ended"
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.1)
    raise AssertionError("the server did not start")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]), *map(Path, sys.argv[5:]))
