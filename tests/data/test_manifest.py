"""The manifest finds every kind of damage by name; the DVC stages parse and call commands that exist."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from typer.main import get_command

from pacesetter.cli import app
from pacesetter.data.manifest import verify_manifest, write_manifest
from pacesetter.errors import DataError
from pacesetter.panel import Panel
from pacesetter.runs import sha256

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "splits.json").write_text("{}")
    index = pd.date_range("2020-01-01", periods=3, tz="UTC")
    Panel.from_fields(index, ["A"], {"close": np.arange(1.0, 4.0)[:, None]}).save(tmp_path / "panel.parquet")
    pd.DataFrame({"x": [1]}).to_parquet(tmp_path / "table.parquet")
    return tmp_path


def test_every_file_has_size_hash_and_a_panel_its_fingerprint(folder: Path) -> None:
    path = write_manifest(folder)
    assert path == folder / "manifest.json"
    files = verify_manifest(path)
    assert list(files) == ["inner/splits.json", "panel.parquet", "table.parquet"]
    assert files["inner/splits.json"] == {"bytes": 2, "sha256": hashlib.sha256(b"{}").hexdigest()}
    assert files["panel.parquet"]["fingerprint"] == Panel.load(folder / "panel.parquet").fingerprint
    assert "fingerprint" not in files["table.parquet"]


def test_writing_again_gives_the_same_bytes(folder: Path) -> None:
    first = write_manifest(folder).read_bytes()
    assert write_manifest(folder).read_bytes() == first


def test_a_changed_file_is_named(folder: Path) -> None:
    write_manifest(folder)
    (folder / "inner" / "splits.json").write_text("[]")  # same size
    with pytest.raises(DataError, match=r"splits\.json was changed"):
        verify_manifest(folder)


def test_a_missing_file_is_named(folder: Path) -> None:
    write_manifest(folder)
    (folder / "table.parquet").unlink()
    with pytest.raises(DataError, match=r"table\.parquet is missing"):
        verify_manifest(folder)


def test_an_extra_file_is_named_only_where_the_whole_folder_is_described(folder: Path) -> None:
    write_manifest(folder)
    (folder / "extra.txt").write_text("x")
    with pytest.raises(DataError, match=r"extra\.txt is not recorded"):
        verify_manifest(folder)
    write_manifest([folder / "panel.parquet", folder / "inner" / "splits.json"])
    assert list(verify_manifest(folder)) == ["inner/splits.json", "panel.parquet"]


def test_files_outside_and_absent_files_are_refused(folder: Path) -> None:
    for path in (ROOT / "pyproject.toml", folder / "nowhere.parquet"):
        with pytest.raises(DataError, match="is not a file below"):
            write_manifest([path], folder / "manifest.json")
    for artefacts in (folder / "nowhere", []):
        with pytest.raises(DataError, match="is not a folder of artefacts"):
            write_manifest(artefacts)
    with pytest.raises(DataError, match="must be in the folder it describes"):
        write_manifest(folder / "inner", folder / "manifest.json")


def test_one_file_may_have_its_own_manifest(folder: Path) -> None:
    path = write_manifest([folder / "panel.parquet"], folder / "panel.manifest.json")
    assert list(verify_manifest(path)) == ["panel.parquet"]
    assert not (folder / "manifest.json").exists()


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"whole_folder": true, "files": {"a": {}}}', '{"files": 1}'])
def test_a_damaged_manifest_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "manifest.json").write_text(content)
    with pytest.raises(DataError, match=r"manifest\.json is not a manifest"):
        verify_manifest(tmp_path)


def test_a_truncated_parquet_file_is_refused(folder: Path) -> None:
    table = folder / "table.parquet"
    table.write_bytes(table.read_bytes()[:-9])
    with pytest.raises(DataError, match=r"table\.parquet is not a readable Parquet"):
        write_manifest(folder)


def test_hashing_reads_in_pieces(tmp_path: Path) -> None:
    content = np.random.default_rng(0).bytes(3_000_001)
    (tmp_path / "large").write_bytes(content)
    assert sha256(tmp_path / "large") == hashlib.sha256(content).hexdigest()


# ---- dvc.yaml -------------------------------------------------------------------------------------------------------


def test_stages_chain_raw_to_processed_to_splits() -> None:
    stages = yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"]
    assert list(stages) == ["raw", "processed", "splits"]
    outs = ["data/raw.parquet", "data/processed.parquet", "data/splits.json"]
    assert [stage["outs"][0] for stage in stages.values()] == outs
    for before, name in zip(outs, ("processed", "splits"), strict=False):
        assert before in stages[name]["deps"]
    for out, stage in zip(outs, stages.values(), strict=True):
        assert stage["cmd"].endswith(f"--out {out}")
        for dependency in stage["deps"]:
            assert dependency in outs or (ROOT / dependency).exists()


def test_stages_use_parameters_and_commands_that_exist() -> None:
    parameters = yaml.safe_load((ROOT / "params.yaml").read_text())
    commands = get_command(app).commands["data"].commands  # type: ignore[attr-defined]
    for stage in yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"].values():
        program, room, verb = stage["cmd"].split()[:3]
        assert (program, room) == ("pacesetter", "data")
        assert verb in commands
        assert set(stage.get("params", [])) <= set(parameters)
