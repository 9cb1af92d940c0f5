"""Structured logs: one line of JSON for each record, with run, model and request, and never a secret."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from contextvars import ContextVar
from typing import IO

from pacesetter.serving.api.keys import PREFIX

__all__ = ["REQUEST", "JsonLines", "log_to"]

REQUEST: ContextVar[str] = ContextVar("request", default="")
SECRET = re.compile(rf"{PREFIX}[\w-]+|(?i:bearer)\s+\S+|-----BEGIN[^-]+-----[\s\S]+?-----END[^-]+-----")
LEFT_OUT = {*vars(logging.makeLogRecord({})), "taskName", "color_message"}  # uvicorn tells its lines in colours too


class JsonLines(logging.Formatter):
    """Time, level, logger, message, `extra`, the facts that all lines share, and the current request."""

    def __init__(self, facts: Mapping[str, object]) -> None:
        super().__init__()
        self.facts = dict(facts)

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {"time": record.created, "level": record.levelname, "logger": record.name}
        line["message"] = record.getMessage()
        line |= self.facts | {"request": REQUEST.get() or None}
        line |= {key: value for key, value in vars(record).items() if key not in LEFT_OUT}
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        # Over the whole line, tracebacks and `extra` included, since a secret may come from anywhere.
        return SECRET.sub("[secret]", json.dumps(line, default=str))


def log_to(stream: IO[str], facts: Mapping[str, object]) -> None:
    """Send what the package and the server log to `stream`, as JSON lines with `facts`."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines(facts))
    for name in ("pacesetter", "uvicorn"):
        logger = logging.getLogger(name)
        # No propagation: the root logger's handlers would print lines that were not cleaned.
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.INFO)
