"""The store that a trader follows has the fleet in force, wherever the learner was killed.

Runs `cli.offline`.
"""

from __future__ import annotations

import json
import shutil

import pytest

from pacesetter.build import build_panel, stored_config
from pacesetter.cli.offline import online
from pacesetter.runs import Run
from pacesetter.serving.bundle import bundle as bundles
from pacesetter.serving.bundle.store import Store
from tests.training.online.swaps import FIRST, swapped


@pytest.fixture(scope="module")
def updated(run):
    """The run of an updater with two swaps, none of which was bundled: its process was killed before."""
    panel = build_panel(stored_config(run)).rows(0, FIRST)
    updater = swapped(run, panel, 2)
    # Up to the end of the source, so that nothing is left to learn.
    state = json.loads((updater.run.folder / "online.json").read_text())
    updater.bars = 1_000
    updater._store({**state["events"][-1], "kind": "keep"})
    return updater.run.folder


@pytest.fixture
def folder(updated, tmp_path):
    return shutil.copytree(updated, tmp_path / "runs" / updated.name)


def weights(store):
    """Hash of the policy that a trader follows."""
    return json.loads((Store(store).current / "manifest.json").read_text())["training"]["weights_hash"]


def in_force(folder):
    return Run.open(folder).manifest["weights_hash"]


def test_a_swap_whose_bundle_a_kill_prevented_is_bundled_once(folder, tmp_path, monkeypatch):
    store = tmp_path / "store"

    def killed(self, target):
        raise KeyboardInterrupt

    with monkeypatch.context() as dying:
        dying.setattr(bundles.Path, "rename", killed)  # of a bundle that is written, into its place
        with pytest.raises(KeyboardInterrupt):
            online(folder, store=store)
    assert list(store.glob(".*.partial"))
    for _ in range(2):
        online(folder, store=store)
        assert weights(store) == in_force(folder)
        assert len(Store(store).versions) == 1
    (Store(store).current / "CARD.md").write_text("damaged")
    online(folder, store=store)
    assert len(Store(store).versions) == 2
