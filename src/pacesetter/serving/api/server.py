"""The server process: a bundle, its keys and the kill switch, on loopback by default."""

from __future__ import annotations

import errno
import gc
import logging
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from pacesetter.errors import ConfigError, DataError
from pacesetter.panel import Panel, utc_index
from pacesetter.serving.api.admission import Admission, ApiSettings
from pacesetter.serving.api.app import make_app
from pacesetter.serving.api.connections import BACKLOG, Connections, guarded_protocol, most_connections
from pacesetter.serving.api.keys import Keys
from pacesetter.serving.api.logs import log_to
from pacesetter.serving.api.runtime import SERVED_ORDERS, ReportedAccount, Runtime
from pacesetter.serving.bundle.bundle import Bundle
from pacesetter.serving.risk.halt import KillSwitch
from pacesetter.serving.trader.desk import OrderOptions

if TYPE_CHECKING:
    from pacesetter.serving.api.windows import WindowRuntime

__all__ = ["load_history", "rehearse", "serve"]

KEEP_ALIVE_SECONDS = 5
DRAIN_SECONDS = 5
WHY_NOT = {
    errno.EADDRINUSE: "the port is in use; stop the other program, or give another --port",
    errno.EACCES: "that port needs administrator rights; give --port 1024 or more",
}

log = logging.getLogger(__name__)


def serve(
    bundle: Bundle,
    keys: Keys,
    switch: KillSwitch,
    settings: ApiSettings,
    symbols: tuple[str, ...] | None = None,
    history: Path | None = None,
    orders: OrderOptions = SERVED_ORDERS,
    has_why: bool = False,
) -> None:
    """Serve until a signal; refuses to start without a key, with a known one, and with a model that does not answer.

    What the guard remembers is kept beside the kill switch, for each port a file.
    """
    # Everything that can be refused is refused before the port is opened.
    keys.check_startable()
    switch.check_usable()
    bundle.model.probe()
    if bundle.is_lookback:
        _serve_windows(bundle, keys, settings, history)
        return
    # On a runtime of its own: made-up bars must never enter the one that serves.
    rehearse(Runtime(bundle, symbols))
    runtime = Runtime(bundle, symbols, orders=orders, has_why=has_why)
    if history is not None:
        load_history(runtime, history)
    log_to(sys.stdout, {"run": bundle.manifest["run"], "model": bundle.model.sha256[:12]})
    if switch.is_engaged():
        log.warning("halted: %s; to resume: %s", switch.reason(), switch.way_out)
    # One file for each port, since two servers may share a switch but not their books.
    books = switch.path.with_name(f"{switch.path.name}.books-{settings.port}")
    _serve_until_stopped(make_app(runtime, switch, keys, settings, books), settings)


def _serve_windows(bundle: Bundle, keys: Keys, settings: ApiSettings, history: Path | None) -> None:
    """Serve a lookback bundle: nothing is traded, so that there is neither a guard nor a book."""
    from pacesetter.serving.api.windows import WindowRuntime, make_window_app

    runtime = WindowRuntime(bundle)
    if history is not None:
        load_history(runtime, history)
    log_to(sys.stdout, {"run": bundle.manifest["run"], "model": bundle.model.sha256[:12]})
    _serve_until_stopped(make_window_app(runtime, keys, settings), settings)


def rehearse(runtime: Runtime) -> None:
    """Decide once on made-up bars, so that no request waits for a compiler; the runtime is then discarded."""
    spec, symbols = runtime.bundle.features, runtime.symbols
    index = utc_index(pd.date_range("2000", periods=spec.memory_bars + spec.window_bars))
    bars = np.broadcast_to(100.0 + np.sin(np.arange(len(index)))[:, None], (len(spec.fields), len(index), len(symbols)))
    panel = Panel(index, symbols, spec.fields, bars.copy(), np.ones(bars.shape[1:], bool))
    for part in (panel.rows(0, -1), panel.rows(-1, None)):  # a whole history, and one more bar
        runtime.feed(part)
    runtime.decide_features(panel, runtime.history.observation(), ReportedAccount(1e5))


def _serve_until_stopped(app: Admission, settings: ApiSettings) -> None:
    import uvicorn

    gc.collect()
    gc.freeze()  # what is loaded stays: a request does not wait while all of it is looked through again
    admitted = Connections(most_connections(), settings.connections, settings.proxy)
    # a request may arrive, wait, be answered and be read; whatever lasts longer is stuck
    most_seconds = 3 * settings.seconds + settings.queue_seconds
    config = uvicorn.Config(
        app,
        http=guarded_protocol(admitted, settings.seconds, most_seconds),
        backlog=BACKLOG,
        proxy_headers=bool(settings.proxy),
        forwarded_allow_ips=settings.proxy or None,
        log_config=None,
        access_log=False,  # its lines hold whole addresses; the gate writes our own
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=DRAIN_SECONDS,
        lifespan="off",
        ws="none",
    )
    with _open_socket(settings) as door, suppress(KeyboardInterrupt):  # which it raises again once all is answered
        log.info("listening on %s port %d", *door.getsockname()[:2])
        uvicorn.Server(config).run([door])


def _open_socket(settings: ApiSettings) -> socket.socket:
    """A socket that listens; refuses an address that is taken, or is not ours to take."""
    host, port = settings.host, settings.port
    try:
        if not host:
            raise OSError  # it would stand for every address of this machine
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except (OSError, UnicodeError) as problem:
        foreign = "it is not an address of this machine; give --host 127.0.0.1, or one of its own"
        why = WHY_NOT.get(getattr(problem, "errno", 0), foreign)
        raise ConfigError(f"cannot listen on {host} port {port}: {why}") from problem


def load_history(runtime: Runtime | WindowRuntime, path: Path) -> None:
    """Feed the latest bars of a stored panel; refuses one without a served symbol or a needed field."""
    if not path.is_file():
        raise DataError(f"--history {path} is not a file; store bars in one: pacesetter data fetch --out bars.parquet")
    panel, fields = Panel.load(path).select(list(runtime.symbols)), runtime.bundle.features.fields
    if not set(fields) <= set(panel.fields):
        raise DataError(f"{path} lacks some of the fields {', '.join(fields)}; store it with them")
    # In the bundle's order of fields, which need not be the file's.
    blocks = panel.blocks[[panel.fields.index(name) for name in fields]]
    runtime.feed(Panel(panel.index, panel.symbols, fields, blocks, panel.mask, calendar=panel.calendar))
