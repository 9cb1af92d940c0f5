"""The kill switch: a file that is there or not. It needs no database, no network and no running process."""

from __future__ import annotations

import json
import os
import shlex
import threading
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from pacesetter.errors import ConfigError
from pacesetter.runs import write_atomic
from pacesetter.serving.risk.order import State

if TYPE_CHECKING:
    from pacesetter.serving.risk.guard import Guard

__all__ = ["KillSwitch"]


class KillSwitch:
    """Engaged while the file at `path` exists, across restarts, until a person releases it by name.

    Any file counts, so `touch` is enough. `<path>.released` says who released it, for every trader and server that
    shares the file, until it is engaged again.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._released = Path(f"{self.path}.released")
        self._taken = ""  # when the release came that was told last
        self._syncing = threading.Lock()

    def check_usable(self) -> None:
        """Refuse a place where no file can be made or removed: a halt there would fail."""
        folder = self.path.parent
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
        if self.path.is_dir() or not (folder.is_dir() and os.access(folder, os.W_OK)):
            raise ConfigError(f"{self.path} cannot be a kill switch; give a file in a writable folder")

    @property
    def way_out(self) -> str:
        """The command that releases it."""
        return f"pacesetter resume --by NAME --file {shlex.quote(str(self.path))}"

    def is_engaged(self) -> bool:
        """Whether trading must stop; a path that cannot be read counts as engaged."""
        try:
            os.stat(self.path)
        except FileNotFoundError:
            return False
        except OSError:  # no permission, a broken disk: what cannot be ruled out counts as a halt
            return True
        return True

    def reason(self) -> str:
        """Why it was engaged, in one line; empty while it is not."""
        return _entry(self.path, "reason") or (f"{self.path} exists" if self.is_engaged() else "")

    def engaged_by(self) -> str:
        """Whose limits engaged it; empty where a person did, and while it is not."""
        return _entry(self.path, "by")

    def since(self) -> str:
        """When it was engaged, in UTC; empty while it is not."""
        moment = _entry(self.path, "at")
        return moment or (_stamp(self.path.stat().st_mtime) if self.path.is_file() else "")

    def take_release(self) -> str:
        """Who released it since it was last engaged, given once to each holder of the switch; empty if not released."""
        at = "" if self.is_engaged() else _entry(self._released, "at")
        if at in ("", self._taken):
            return ""
        self._taken = at
        return _entry(self._released, "by")

    def sync_with_guard(self, guard: Guard, name: str = "") -> tuple[str, str] | None:
        """Let an engaged switch halt the guard, a halted guard engage it, and a release resume; what changed and why.

        `name` is the guard's, which the file then keeps.
        Call it before the guard can halt by itself: a release that finds it active is forgotten. One thread at a time:
        between taking a release and resuming, another would see a halted guard and engage the switch again.
        """
        with self._syncing:
            return self._sync_with_guard(guard, name)

    def _sync_with_guard(self, guard: Guard, name: str) -> tuple[str, str] | None:
        is_engaged = self.is_engaged()
        # Taken in any case: a release that found the guard active must not resume a later halt.
        by = "" if is_engaged else self.take_release()
        if is_engaged == (guard.state is State.HALTED):
            return None
        if is_engaged:
            guard.halt(self.reason())
        elif by:
            guard.resume(by)
            return "resume", f"by {by}"
        else:
            self.engage(guard.reason, name)
        return "halt", guard.reason

    def engage(self, reason: str, by: str = "") -> bool:
        """Stop trading; false where it is stopped already, and the first reason stays.

        Where a full disk takes no text, an empty file stands.
        """
        if self.is_engaged():
            return False
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(self.path, _text(reason=reason, by=by))
        except OSError:
            self.path.touch()
        # After the switch is engaged: in between it counts as engaged, whatever the old release says.
        self._released.unlink(missing_ok=True)
        return True

    def release(self, by: str) -> bool:
        """Allow trading again; false where nothing was engaged. Refuses to be nameless."""
        if not by.strip():
            raise ConfigError("a release needs the name of the person who releases")
        if not self.is_engaged():
            return False
        if not self.path.is_file():
            raise ConfigError(f"{self.path} is not a file that can be released; remove it by hand, then resume")
        # Before the switch is removed: once it is gone, traders look for who released it.
        write_atomic(self._released, _text(by=by, reason=self.reason()))
        self.path.unlink(missing_ok=True)
        return True


def _text(**entries: str) -> str:
    words = {name: " ".join(text.split()) for name, text in entries.items()}
    return json.dumps(words | {"at": _stamp(time.time())}) + "\n"


def _stamp(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()


def _entry(path: Path, name: str) -> str:
    """What a file of ours says under `name`; empty where it says nothing, or is not ours."""
    try:
        return str(json.loads(path.read_text(encoding="utf-8"))[name])
    except (OSError, ValueError, KeyError, TypeError):
        return ""
