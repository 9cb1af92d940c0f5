"""A store of bundles: numbered folders, which of them serves, and rollback to the one before.

`versions.json` is the version matrix: a row for each bundle with the versions it was made and checked with.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from pacesetter.cells import Table
from pacesetter.errors import RunError
from pacesetter.locks import hold
from pacesetter.runs import write_atomic
from pacesetter.serving.bundle.bundle import Bundle, partial_folder
from pacesetter.serving.bundle.signature import SigningKey

__all__ = ["Store", "find_bundle"]

INDEX = "versions.json"
SHOWN = (
    "pacesetter",
    "torch",
    "onnx",
    "onnxruntime",
    "numpy",
)  # below the table; versions.json and the page of `--matrix` have all
ROW = {"bundle", "run", "model", "made", "signed", "versions"}


class Store:
    """Bundles in a folder; `current` is what `pacesetter serve STORE` takes."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    @property
    def versions(self) -> list[dict[str, Any]]:
        """The version matrix, oldest first."""
        return list(self._index()["versions"])

    def table(self) -> Table:
        """The version matrix, with an arrow at the bundle that serves; below it what that one was made with."""
        current = self.current.name
        rows = [
            (
                *("→" if row["bundle"] == current else "", row["bundle"], row["run"], row["model"][:12]),
                *(row["made"][:16].replace("T", " "), "yes" if row["signed"] else "no", row.get("decision", "")),
            )
            for row in self.versions
        ]
        versions = next(row["versions"] for row in self.versions if row["bundle"] == current)
        note = f"{current}: " + ", ".join(f"{name} {versions[name]}" for name in SHOWN if name in versions)
        return Table(("", "bundle", "run", "model", "made", "signed", "gates"), rows, note=note)

    @property
    def current(self) -> Path:
        """Folder of the bundle that serves; refuses an empty store."""
        name = self._index()["current"]
        if name is None:
            raise RunError(f"{self.folder} has no bundle yet; make one: pacesetter bundle RUN --store {self.folder}")
        return self.folder / str(name)

    @property
    def followed(self) -> list[str]:
        """Names of the bundles that a trader may follow, oldest first: up to the current one, none rolled back."""
        index = self._index()
        rows = {row["bundle"]: row for row in index["versions"]}
        earlier = list(rows)[: list(rows).index(index["current"])] if rows else []
        return [*(name for name in earlier if not rows[name].get("rolled_back")), self.current.name]

    def next_folder(self, name: str) -> Path:
        """Where the next bundle goes; refuses, before any work is done for it, a store that could not take it."""
        # A crash before the index was written leaves a folder that never serves: its number is passed over.
        taken = [int(path.name[:4]) for path in self.folder.glob("[0-9][0-9][0-9][0-9]-*")]
        folder = self.folder / f"{max([len(self.versions), *taken]) + 1:04d}-{name}"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with TemporaryFile(dir=self.folder):  # permissions alone tell nothing of a disk that is mounted read-only
                pass
        except OSError as problem:
            raise RunError(f"{self.folder} cannot store a bundle ({problem.strerror}); give another") from problem
        partial_folder(folder)
        return folder

    def add(self, name: str, files: Mapping[str, bytes], key: SigningKey | None = None) -> tuple[Path, Bundle]:
        """Write a bundle under the next number and let it serve; gives its folder and what `Bundle.open` reads."""
        self.next_folder(name)
        # The number is chosen again under the lock: another process may have added a bundle meanwhile.
        with hold(self.folder):
            return self._add(self.next_folder(name), files, key)

    def _add(self, folder: Path, files: Mapping[str, bytes], key: SigningKey | None) -> tuple[Path, Bundle]:
        bundle = Bundle.write(folder, files, key)
        made = bundle.manifest
        row = {
            "bundle": folder.name,
            "run": made["run"],
            "model": bundle.model.sha256,
            "made": made["made"],
            "signed": bundle.is_signed,
            "versions": made["versions"],
            "decision": (made["training"].get("decision") or {}).get("decision", ""),
        }
        # The index last: a crash before it leaves a folder that is not served.
        self._write({"current": folder.name, "versions": [*self.versions, row]})
        return folder, bundle

    def rollback(self, key: SigningKey | None = None, is_unverified: bool = False) -> tuple[Path, Path]:
        """Let the bundle before the current one serve, once it is found whole; gives the one left and the one taken."""
        _ = self.current  # an empty store is refused before a lock is made in it
        with hold(self.folder):
            return self._rollback(key, is_unverified)

    def _rollback(self, key: SigningKey | None, is_unverified: bool) -> tuple[Path, Path]:
        index, left = self._index(), self.current
        names = [row["bundle"] for row in index["versions"]]
        place = names.index(left.name)
        if place == 0:
            raise RunError(f"{left.name} is the first bundle of {self.folder}; there is none before it")
        taken = self.folder / names[place - 1]
        # It must answer before it may serve.
        Bundle.open(taken, key, is_unverified).model.probe()
        # Marked, so that who follows the store does not return to it while a later one is awaited.
        marks = {left.name: {"rolled_back": True}, taken.name: {"rolled_back": False}}
        versions = [row | marks.get(row["bundle"], {}) for row in index["versions"]]
        self._write({"current": taken.name, "versions": versions})
        return left, taken

    def _index(self) -> dict[str, Any]:
        path = self.folder / INDEX
        if not path.is_file():
            return {"current": None, "versions": []}
        try:
            index = json.loads(path.read_text(encoding="utf-8"))
            current, versions = index["current"], list(index["versions"])
            names = [row["bundle"] for row in versions if row.keys() >= ROW]
            if len(names) < len(versions) or current not in (None, *names):
                raise ValueError(current)
            self._check_inside(names)
            return {"current": current, "versions": versions}
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as problem:
            raise RunError(f"{path} cannot be read ({type(problem).__name__}); restore it from a copy") from problem

    def _check_inside(self, names: Iterable[object]) -> None:
        """Refuse a name that leads out of the store, as it is or through a link."""
        for name in names:
            path = self.folder / str(name)
            if not isinstance(name, str) or path.name != name or name in (".", "..") or path.is_symlink():
                raise RunError(
                    f"{self.folder / INDEX} names {str(name)!r}, which is not a folder of this store; "
                    "do not load it, and restore the file from a copy"
                )

    def _write(self, index: Mapping[str, object]) -> None:
        try:
            write_atomic(self.folder / INDEX, json.dumps(index, indent=2) + "\n")
        except OSError as problem:
            raise RunError(f"{self.folder} cannot be written to ({problem.strerror}); nothing was changed") from problem


def find_bundle(path: str | Path, key: SigningKey | None = None, is_unverified: bool = False) -> Bundle:
    """The bundle at a path: a store's current one, a folder or a zip; see `Bundle.open`."""
    path = Path(path)
    return Bundle.open(Store(path).current if (path / INDEX).is_file() else path, key, is_unverified)
