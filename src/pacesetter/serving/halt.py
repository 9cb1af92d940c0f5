"""The kill switch: a file that is there or not. It needs no database, no network and no running process."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path

from pacesetter.errors import ConfigError
from pacesetter.runs import write_atomic

__all__ = ["KillSwitch"]


class KillSwitch:
    """Engaged while the file at `path` exists, across restarts, until a person releases it by name.

    Any file counts, so `touch` is enough. A release is left in `<path>.released` until the trader has taken it.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._released = self.path.with_name(f"{self.path.name}.released")

    def engaged(self) -> bool:
        """Whether trading must stop; a path that cannot be looked at counts as engaged."""
        try:
            os.stat(self.path)
        except FileNotFoundError:
            return False
        except OSError:
            return True
        return True

    def reason(self) -> str:
        """Why it was engaged, in one line; empty while it is not."""
        return _entry(self.path, "reason") or (f"{self.path} exists" if self.engaged() else "")

    def take_release(self) -> str:
        """Who released it since it was last engaged, told once; empty where nobody did."""
        by = "" if self.engaged() else _entry(self._released, "by")
        if by:
            self._released.unlink(missing_ok=True)
        return by

    def engage(self, reason: str) -> None:
        """Stop trading; the first reason stays. Where a full disk takes no text, an empty file stands."""
        if self.engaged():
            return
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(self.path, _text(reason=reason))
        except OSError:
            self.path.touch()
        self._released.unlink(missing_ok=True)

    def release(self, by: str) -> None:
        """Allow trading again; refuses to be nameless."""
        if not by.strip():
            raise ConfigError("a release needs the name of the person who releases: give by=NAME")
        if self.engaged():
            write_atomic(self._released, _text(by=by, reason=self.reason()))
            self.path.unlink(missing_ok=True)


def _text(**entries: str) -> str:
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return json.dumps({name: " ".join(text.split()) for name, text in entries.items()} | {"at": now}) + "\n"


def _entry(path: Path, name: str) -> str:
    """What a file of ours says under `name`; empty where it says nothing, or is not ours."""
    try:
        return str(json.loads(path.read_text(encoding="utf-8"))[name])
    except (OSError, ValueError, KeyError, TypeError):
        return ""
