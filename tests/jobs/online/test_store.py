"""The store that a trader follows has the fleet in force, wherever the learner was killed.

Runs `cli.jobs`, `serving.bundle.promotion`.
"""

from __future__ import annotations

import json
import shutil

import pytest

from pacesetter.build import build_panel, stored_plan
from pacesetter.cli.jobs import online
from pacesetter.errors import DataError, RunError
from pacesetter.runs import Run
from pacesetter.serving.bundle import bundle as bundles
from pacesetter.serving.bundle.store import Store
from tests.jobs.online.swaps import FIRST, swapped


@pytest.fixture(scope="module")
def updated(run):
    """The run of an updater with two swaps, none of which was bundled: its process was killed before."""
    panel = build_panel(stored_plan(run)).rows(0, FIRST)
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


def events(folder):
    return json.loads((folder / "online.json").read_text())["events"]


def in_force(folder):
    return Run.open(folder).manifest["weights_hash"]


def killed(*given):
    raise KeyboardInterrupt


def test_a_swap_whose_bundle_a_kill_prevented_is_bundled_once(folder, tmp_path, monkeypatch):
    store = tmp_path / "store"

    with monkeypatch.context() as dying:
        dying.setattr(bundles.Path, "rename", killed)  # of a bundle that is written, into its place
        dying.setattr(bundles.shutil, "rmtree", lambda *given, **options: None)  # a killed process removes nothing
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


def test_a_killed_rollback_is_completed_before_another_goes_further(folder, tmp_path, monkeypatch, capsys):
    store, swaps = tmp_path / "store", [event["weights_hash"] for event in events(folder) if event["kind"] == "swap"]
    online(folder, store=store)
    with monkeypatch.context() as dying:
        dying.setattr(Store, "_write", killed)  # of the index that names the current bundle
        with pytest.raises(KeyboardInterrupt):
            online(folder, store=store, rollback=True)
    assert (in_force(folder), weights(store)) == (swaps[0], swaps[1])
    capsys.readouterr()
    online(folder, store=store, rollback=True)
    assert "update 2 is undone already, but not in" in capsys.readouterr().out
    assert weights(store) == in_force(folder) == swaps[0]
    online(folder, store=store, rollback=True)
    assert "back before update 1\n" in capsys.readouterr().out
    assert weights(store) == in_force(folder) not in swaps
    with pytest.raises(RunError, match="all 2 are undone"):
        online(folder, store=store, rollback=True)


def test_a_rollback_of_a_swap_that_was_never_bundled_makes_no_bundle(folder, updated, tmp_path, capsys):
    store = tmp_path / "store"
    online(folder, rollback=True)
    online(folder, store=store)  # as the store was before the latest swap
    shutil.rmtree(folder)
    shutil.copytree(updated, folder)
    online(folder, store=store, rollback=True)
    assert "back before update 2\n" in capsys.readouterr().out
    assert weights(store) == in_force(folder)
    assert len(Store(store).versions) == 1


def test_a_store_that_cannot_be_one_is_refused_before_anything_is_written(run, folder, tmp_path):
    own, bundle = shutil.copytree(run, tmp_path / "own/run"), tmp_path / "bundle"
    bundle.mkdir()
    (bundle / "hashes.json").write_text("{}")
    for store, reason in (
        (bundle / "hashes.json", "is a file"),
        (bundle, "is a bundle"),
        (bundle / "hashes.json/x", ""),
    ):
        for rollback in (False, True):
            with pytest.raises(RunError, match=f"--store .* {reason}"):
                online(own, store=store, first=930, options=["every_bars=60", "steps=64"], rollback=rollback)
    assert [path.name for path in own.parent.iterdir()] == ["run"]
    with pytest.raises(RunError, match="is a bundle"):
        online(folder, store=bundle, rollback=True)
    assert events(folder)[-1]["kind"] == "keep"
    with pytest.raises(DataError, match="need 350 bars"):
        online(own, store=tmp_path / "new", first=100)
    assert not (tmp_path / "new").exists()
