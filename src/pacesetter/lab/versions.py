"""The model version matrix of a store: every bundle with what it was made of, and whether it serves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pacesetter.errors import RunError
from pacesetter.evaluation.report.page import Section
from pacesetter.serving.bundle.store import Store
from pacesetter.words import count_noun

__all__ = ["matrix_sections"]

HEADER = (
    *("bundle", "state", "decision", "signed", "made", "run", "commit", "fitted until", "seed", "steps"),
    *("config hash", "weights hash", "model", "symbols", "features"),
)
LETTERS = 12  # of a hash


def matrix_sections(store: Store) -> list[Section]:
    """A row for each bundle, oldest first, and the libraries of each; refuses a store without one, and a bundle that
    cannot be read."""
    current, stored = store.current.name, store.versions
    rows = tuple(_row(store.folder / row["bundle"], row, current) for row in stored)
    count = count_noun(len(rows), "bundle")
    text = f"{count} in {store.folder}; {current} serves. Hashes are shown by their first letters."
    names = sorted({name for row in stored for name in row["versions"]})
    libraries = tuple((name, *(str(row["versions"].get(name, "")) for row in stored)) for name in names)
    header = ("library", *(str(row["bundle"]) for row in stored))
    return [
        Section("Model versions", text, (), HEADER, rows),
        Section("Libraries", "What each bundle was made and checked with.", (), header, libraries),
    ]


def _row(folder: Path, row: dict[str, Any], current: str) -> tuple[str, ...]:
    manifest, features = (_read(folder / name) for name in ("manifest.json", "features.json"))
    training = manifest["training"]
    state = "serves" if row["bundle"] == current else "rolled back" if row.get("rolled_back") else ""
    facts = (str(training.get(name, "")) for name in ("seed", "steps"))
    hashes = (str(training.get(name, ""))[:LETTERS] for name in ("config_hash", "weights_hash"))
    return (
        *(row["bundle"], state, row.get("decision", ""), "yes" if row["signed"] else "no", row["made"], row["run"]),
        *(
            str(training.get("commit") or "none")[:LETTERS],
            str(manifest.get("fitted_until", "")),
            *facts,
            *hashes,
            row["model"][:LETTERS],
        ),
        *(str(len(features["symbols"])), str(len(features["names"]))),
    )


def _read(path: Path) -> dict[str, Any]:
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise RunError(f"{path} cannot be read ({type(problem).__name__}); restore the bundle from a copy") from problem
    return content
