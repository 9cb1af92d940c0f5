"""A store follows a fleet: the run in force is its current bundle."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from pacesetter.errors import RunError
from pacesetter.locks import hold
from pacesetter.runs import Run
from pacesetter.serving.bundle.bundle import Bundle
from pacesetter.serving.bundle.hashed_files import HASHES
from pacesetter.serving.bundle.packaging import bundle_run
from pacesetter.serving.bundle.store import Store

__all__ = ["check_store", "holds_run", "promote_run"]


def check_store(store: Path) -> None:
    """Refuse a file, a bundle and a folder that cannot be written to, before anything else is done."""
    if store.is_file() or (store / HASHES).is_file():
        raise RunError(f"--store {store} is a {'file' if store.is_file() else 'bundle'}; give the folder of bundles")
    # The nearest folder that is there: the store itself is made with its first bundle.
    above = next(folder for folder in (store, *store.absolute().parents) if folder.exists())
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        raise RunError(f"--store {store} cannot be written to; give another folder")


def promote_run(store: Path, run: Run) -> Path | None:
    """Let the fleet of a run be the store's current bundle; gives its folder, None where it is that already."""
    if holds_run(store, run):
        return None
    _clear(store)
    return bundle_run(run.folder, store, observations=1_000)[0]


def holds_run(store: Path, run: Run) -> bool:
    """Whether the store's current bundle holds the weights of a run; a damaged one holds none."""
    bundles = Store(store)
    if not bundles.versions:
        return False
    current = bundles.current
    try:
        training = Bundle.open(current, is_unverified=True).manifest.get("training", {})
    except RunError:
        return False
    return bool(training.get("weights_hash") == run.manifest.get("weights_hash"))


def _clear(store: Path) -> None:
    """Remove what a kill in the middle of bundling left, which would be refused."""
    left = list(store.glob(".[0-9][0-9][0-9][0-9]-*.partial"))
    if left:
        with hold(store):  # bundles are written under it, so that none of these is being written
            for folder in left:
                shutil.rmtree(folder, ignore_errors=True)
