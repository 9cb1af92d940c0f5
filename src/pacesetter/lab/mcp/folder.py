"""The one folder that is read: what is in it, and nothing beside it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from pacesetter.data.files.kinds import ENDINGS
from pacesetter.errors import ConfigError

__all__ = ["Folder"]

MOST_LISTED = 200  # entries of an answer
MOST_LOOKED_AT = 20_000  # paths in the folder; in a folder of bars each may be a link


@dataclass(frozen=True)
class Folder:
    """A folder by its real path."""

    root: Path

    @classmethod
    def open(cls, path: Path) -> Folder:
        if not path.is_dir():
            raise ConfigError(f"folder {path} does not exist; give the folder of your bars and bundles")
        return cls(path.resolve())

    def inside(self, name: str) -> Path:
        """The real path of a name in the folder; refuses what is, or leads, outside it."""
        path = self._resolve(name)
        if not path.exists():
            has = ", ".join(self.list()["bars"][:5]) or "no bars"
            raise ConfigError(f"'{name}' does not exist in this folder; it has {has}")
        for place, below in enumerate(path.rglob("*") if path.is_dir() else ()):
            if place >= MOST_LOOKED_AT:
                raise ConfigError(f"'{name}' has more than {MOST_LOOKED_AT:,} files; give a smaller folder")
            if below.is_symlink():
                self._resolve(str(below.relative_to(self.root)))
        return path

    def list(self) -> dict[str, list[str]]:
        """Files of bars, and bundles, by name; notes say what was left out."""
        paths = list(islice(self.root.rglob("*"), MOST_LOOKED_AT + 1))
        files = sorted(path for path in paths[:MOST_LOOKED_AT] if not path.is_symlink())
        bars = [str(path.relative_to(self.root)) for path in files if _are_bars(path)]
        bundles = [str(path.parent.relative_to(self.root)) for path in files if path.name == "hashes.json"]
        notes = [
            note
            for note, is_so in (
                (f"only the first {MOST_LISTED} are listed", max(len(bars), len(bundles)) > MOST_LISTED),
                (f"only {MOST_LOOKED_AT:,} paths were looked at", len(paths) > MOST_LOOKED_AT),
            )
            if is_so
        ]
        listed = {"bars": bars[:MOST_LISTED], "bundles": bundles[:MOST_LISTED]}
        return listed | ({"notes": notes} if notes else {})

    def _resolve(self, name: str) -> Path:
        try:
            path = (self.root / name).resolve()
        except (OSError, ValueError, RuntimeError) as problem:  # a loop of links, a name with a zero byte
            raise ConfigError(f"'{name}' is not a path in this folder: {problem}") from None
        if not path.is_relative_to(self.root):
            raise ConfigError(f"'{name}' is outside the folder that this server reads; give a path inside it")
        return path


def _are_bars(path: Path) -> bool:
    return path.is_file() and path.name.lower().endswith(tuple(end for ends in ENDINGS.values() for end in ends))
