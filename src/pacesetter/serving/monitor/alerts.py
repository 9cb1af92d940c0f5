"""Alerts: what a person must look at, sent to a log, a file, a web hook or by e-mail, and not again for a while."""

from __future__ import annotations

import json
import logging
import re
import smtplib
import urllib.request
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from email.message import EmailMessage
from pathlib import Path
from typing import Protocol

from pacesetter.errors import ConfigError

__all__ = [
    "CRITICAL",
    "WARNING",
    "Alert",
    "AlertOptions",
    "Alerts",
    "EmailSink",
    "FileSink",
    "LogSink",
    "Sink",
    "WebhookSink",
    "make_sinks",
]

log = logging.getLogger("pacesetter.alerts")
SECONDS = 5.0  # that a sink on the network may take
WARNING, CRITICAL = "WARNING", "CRITICAL"


@dataclass(frozen=True)
class Alert:
    """One thing that went beyond its threshold at `at`, UTC seconds.

    level     WARNING: look at it today; CRITICAL: look at it now
    repeats   times that the same was silent since it was last sent
    """

    kind: str
    message: str
    value: float
    at: float
    level: str = WARNING
    repeats: int = 0


class Sink(Protocol):
    """Where alerts go; it may fail without stopping trading."""

    def send(self, alert: Alert) -> None: ...


class LogSink:
    """The program's own log, at the alert's level."""

    def send(self, alert: Alert) -> None:
        log.log(logging.CRITICAL if alert.level == CRITICAL else logging.WARNING, "%s: %s", alert.kind, alert.message)


@dataclass(frozen=True)
class FileSink:
    """A line of JSON each."""

    path: Path

    def __post_init__(self) -> None:
        if not self.path.parent.is_dir():
            raise ConfigError(f"alerts.file='{self.path}' is in no existing folder; create it, or give another")

    def send(self, alert: Alert) -> None:
        with self.path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(asdict(alert)) + "\n")


@dataclass(frozen=True)
class WebhookSink:
    """A POST of JSON to a URL."""

    url: str

    def __post_init__(self) -> None:
        if not self.url.startswith(("http://", "https://")):
            raise ConfigError(f"alerts.webhook='{self.url}' is not a web address; give http://… or https://…")

    def send(self, alert: Alert) -> None:
        body = json.dumps(asdict(alert)).encode()
        request = urllib.request.Request(self.url, body, {"Content-Type": "application/json"})
        urllib.request.urlopen(request, timeout=SECONDS).close()


@dataclass(frozen=True)
class EmailSink:
    """A mail through an SMTP server, HOST or HOST:PORT."""

    server: str
    to: str

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[^:\s]+(:\d+)?", self.server):
            raise ConfigError(f"alerts.smtp='{self.server}' is not a mail server; give HOST or HOST:PORT")

    def send(self, alert: Alert) -> None:
        mail = EmailMessage()
        mail["Subject"], mail["From"], mail["To"] = f"pacesetter {alert.level}: {alert.kind}", self.to, self.to
        mail.set_content(alert.message)
        host, _, port = self.server.partition(":")
        with smtplib.SMTP(host, int(port or 25), timeout=SECONDS) as server:
            server.send_message(mail)


@dataclass(frozen=True)
class AlertOptions:
    """Where alerts go beside the log: a file, a web address, a mail address by the server `smtp`; empty is nowhere."""

    file: str = ""
    webhook: str = ""
    email: str = ""
    smtp: str = "localhost"


def make_sinks(options: AlertOptions) -> list[Sink]:
    """The log, and what the options name."""
    sinks: list[Sink] = [LogSink()]
    if options.file:
        sinks.append(FileSink(Path(options.file)))
    if options.webhook:
        sinks.append(WebhookSink(options.webhook))
    if options.email:
        sinks.append(EmailSink(options.smtp, options.email))
    return sinks


class Alerts:
    """Sends each kind of alert to every sink, at most once in `cooldown_seconds`, without blocking the caller.

    What is silent meanwhile is folded into the next one, which says how often. A kind that becomes CRITICAL does not
    wait.
    """

    def __init__(self, sinks: Sequence[Sink], cooldown_seconds: float) -> None:
        self._sinks, self._cooldown = tuple(sinks), cooldown_seconds
        self.latest: dict[str, float] = {}  # kind -> when it was last sent
        self._levels: dict[str, str] = {}  # kind -> the level that it was sent at
        self._folded: Counter[str] = Counter()
        # One thread, so that alerts arrive in the order in which they were raised.
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="alerts")

    def send(self, alert: Alert) -> bool:
        """Whether it was sent; False while its kind is cooling down, and counted for the next."""
        is_worse = alert.level == CRITICAL and self._levels.get(alert.kind) == WARNING
        if alert.at - self.latest.get(alert.kind, float("-inf")) < self._cooldown and not is_worse:
            self._folded[alert.kind] += 1
            return False
        # Set before it is sent: a sink that hangs must not let the same alert queue up.
        self.latest[alert.kind], self._levels[alert.kind] = alert.at, alert.level
        message = _with_repeats(alert, self._folded.pop(alert.kind, 0))
        for sink in self._sinks:
            self._thread.submit(_send, sink, message)
        return True

    def close(self) -> None:
        """Wait until everything is out."""
        self._thread.shutdown()


def _with_repeats(alert: Alert, repeats: int) -> Alert:
    if not repeats:
        return alert
    return replace(alert, repeats=repeats, message=f"{alert.message} ({repeats} more since the last alert)")


def _send(sink: Sink, alert: Alert) -> None:
    try:
        sink.send(alert)
    except Exception as problem:  # a sink that fails must not stop a trader; the log knows
        log.error("%s did not accept the alert '%s' (%s)", type(sink).__name__, alert.kind, type(problem).__name__)
