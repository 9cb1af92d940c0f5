"""API keys: random tokens of which only hashes are kept, each with scopes and an expiry."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal, get_args

from pacesetter.errors import ConfigError, did_you_mean
from pacesetter.locks import hold
from pacesetter.registry import configure
from pacesetter.runs import write_atomic
from pacesetter.serving.bundle.signature import DEFAULTS

__all__ = ["SCOPES", "Key", "Keys", "Scope"]

Scope = Literal["read", "trade", "admin"]
SCOPES: tuple[str, ...] = get_args(Scope)
MOST_DAYS = 36_500
PREFIX = "pace_"  # tokens are known by it wherever they must not appear


@dataclass(frozen=True)
class Key:
    """What is kept of a key. A token has 256 random bits, so that a plain SHA-256 cannot be reversed."""

    id: str
    name: str
    sha256: str
    scopes: tuple[Scope, ...]
    expires: str

    def __post_init__(self) -> None:
        if datetime.fromisoformat(self.expires).tzinfo is None:
            raise ValueError(f"{self.expires} has no time zone")

    def is_expired(self, now: datetime) -> bool:
        return now >= datetime.fromisoformat(self.expires)


class Keys:
    """The keys in a file; `find` gives the key of a token."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.keys = tuple(self._read()) if self.path.exists() else ()

    def find(self, token: str) -> Key | None:
        """The key of a token; every key is compared, in equal time, whichever fits."""
        digest = _hash(token).encode()
        # A list, not `next`: stopping at the match would tell by its time which key it was.
        matches = [key for key in self.keys if hmac.compare_digest(key.sha256.encode(), digest)]
        return matches[0] if matches else None

    def check_startable(self) -> None:
        """Refuse to serve without a valid key, or with a publicly known one."""
        now = datetime.now(UTC)
        if all(key.is_expired(now) for key in self.keys):
            why = "only expired keys" if self.keys else "no key"
            raise ConfigError(f"{self.path} has {why}, but serving needs one: pacesetter keys add NAME")
        known = {_hash(word) for word in (*DEFAULTS, "")}
        for key in self.keys:
            if key.sha256 in known:
                raise ConfigError(f"key '{key.name}' in {self.path} is a publicly known default; revoke it")

    def add(self, name: str, scopes: Iterable[str], days: float = 90.0) -> str:
        """A new key's token, which is shown once and kept nowhere; refuses a name twice and unknown scopes."""
        with self._only_writer():
            return self._add(name, scopes, days)

    def _add(self, name: str, scopes: Iterable[str], days: float) -> str:
        if not name.strip() or any(key.name == name for key in self.keys):
            raise ConfigError(f"key name '{name}' is taken or empty; give another")
        wanted = tuple(dict.fromkeys(scope.strip() for scope in scopes))
        for scope in wanted or ("",):
            if scope not in SCOPES:
                raise ConfigError(f"scope '{scope}' is unknown{did_you_mean(scope, SCOPES)}")
        if not 0 < days <= MOST_DAYS:
            raise ConfigError(f"a key cannot last {days:g} days; give days above 0, {MOST_DAYS:,} at most")
        token = PREFIX + secrets.token_urlsafe(32)
        expires = (datetime.now(UTC) + timedelta(days=days)).isoformat(timespec="seconds")
        self._write((*self.keys, Key(secrets.token_hex(4), name, _hash(token), wanted, expires)))  # type: ignore[arg-type]
        return token

    def revoke(self, name: str) -> None:
        """Forget a key by its name."""
        with self._only_writer():
            if all(key.name != name for key in self.keys):
                raise ConfigError(f"there is no key '{name}'{did_you_mean(name, [key.name for key in self.keys])}")
            self._write(tuple(key for key in self.keys if key.name != name))

    @contextmanager
    def _only_writer(self) -> Iterator[None]:
        """Lock the file and read it again: a key that another process added or revoked meanwhile is not undone."""
        with ExitStack() as held:
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                held.enter_context(hold(self.path.parent, f".{self.path.name}.lock"))
            except OSError as problem:
                raise self._write_error(problem) from problem
            self.keys = tuple(self._read()) if self.path.exists() else ()
            yield

    def _read(self) -> list[Key]:
        try:
            return [configure(Key, row, "key") for row in json.loads(self.path.read_text(encoding="utf-8"))]
        except (OSError, ValueError, TypeError, ConfigError) as problem:
            raise ConfigError(f"{self.path} is not a key file ({problem}); give another, or create it") from problem

    def _write(self, keys: tuple[Key, ...]) -> None:
        try:
            # Atomic: a crash half-way would lock every caller out. Never readable by others, not even for a moment.
            write_atomic(self.path, json.dumps([asdict(key) for key in keys], indent=2) + "\n", mode=0o600)
        except OSError as problem:
            raise self._write_error(problem) from problem
        self.keys = keys

    def _write_error(self, problem: OSError) -> ConfigError:
        return ConfigError(f"{self.path} cannot be written ({problem.strerror}); give another --keys")


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode(errors="surrogatepass")).hexdigest()
