"""A run on disk: named by its config, atomic, with hashes of what it holds."""

from __future__ import annotations

import json
import os

import pytest

from pacesetter import Run, RunError
from pacesetter.runs import SCHEMA, check_schema, config_hash, sha256, write_atomic


def test_folder_is_named_after_job_and_config(tmp_path):
    run = Run.create(tmp_path, "demo", {"seed": 1})
    assert run.folder.name.endswith(f"-demo-{config_hash({'seed': 1})[:8]}")
    assert (run.folder / "config.yaml").read_text() == f"schema: {SCHEMA}\nseed: 1\n"
    assert run.manifest["finished"] is False


def test_what_another_version_stored_is_refused():
    check_schema({"schema": SCHEMA}, "runs/a")
    with pytest.raises(RunError, match=r"runs/a has schema 2, this version reads 1; use the version that wrote it"):
        check_schema({"schema": SCHEMA + 1}, "runs/a")


def test_two_runs_in_one_second_get_two_folders(tmp_path):
    folders = {Run.create(tmp_path, "demo", {}).folder for _ in range(3)}
    assert len(folders) == 3


def test_config_hash_sees_every_value_and_the_order_that_a_source_may_read():
    assert config_hash({"a": 1, "b": {"c": 2}}) == config_hash({"a": 1, "b": {"c": 2}})
    assert config_hash({"a": 1}) != config_hash({"a": 2})
    assert config_hash({"regimes": {"bull": 1, "bear": 2}}) != config_hash({"regimes": {"bear": 2, "bull": 1}})


def test_finish_hashes_every_artefact(tmp_path):
    run = Run.create(tmp_path, "demo", {"seed": 1})
    run.write_json("deep/result.json", {"x": 1})
    run.log(step=1, reward=0.5)
    manifest = run.finish(seed=1)
    assert manifest["finished"] is True
    assert manifest["seed"] == 1
    assert set(manifest["artefacts"]) == {"config.yaml", "deep/result.json", "metrics.jsonl"}
    assert manifest["artefacts"]["deep/result.json"] == sha256(run.folder / "deep/result.json")
    assert json.loads((run.folder / "metrics.jsonl").read_text()) == {"step": 1, "reward": 0.5}


def test_manifest_says_with_what_it_was_made(tmp_path):
    manifest = Run.create(tmp_path, "demo", {}).manifest
    assert manifest["versions"]["numpy"]
    assert {"commit", "python", "processor", "cores", "threads", "command", "started"} <= set(manifest)


def test_opening_what_is_no_run_is_refused(tmp_path):
    with pytest.raises(RunError, match=r"is not a run folder: it has no manifest\.json"):
        Run.open(tmp_path)
    (tmp_path / "manifest.json").write_text("{cut")
    with pytest.raises(RunError, match="cannot be read"):
        _ = Run.open(tmp_path).manifest


def test_a_manifest_that_lacks_its_entries_is_refused(tmp_path):
    (tmp_path / "manifest.json").write_text("{}")
    with pytest.raises(RunError, match="lacks required keys"):
        Run.open(tmp_path)


def test_failed_write_leaves_the_old_file_whole(tmp_path, monkeypatch):
    path = write_atomic(tmp_path / "state.json", "old")

    def no_disk(_descriptor):
        raise OSError("no space left")

    monkeypatch.setattr("pacesetter.runs.os.fsync", no_disk)
    with pytest.raises(OSError, match="no space left"):
        write_atomic(path, "new")
    assert path.read_text() == "old"
    assert [each.name for each in tmp_path.iterdir()] == ["state.json"]


def test_a_synced_file_is_synced_with_its_name(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr("pacesetter.runs.os.fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_ino))
    write_atomic(tmp_path / "kept", "x")
    assert synced[1:] == [tmp_path.stat().st_ino]
    write_atomic(tmp_path / "quick", "x", is_synced=False)
    assert len(synced) == 2
