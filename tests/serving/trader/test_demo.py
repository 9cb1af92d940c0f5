"""The end of a job: which bundle of a store it asks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pacesetter.errors import RunError
from pacesetter.serving.bundle.bundle import Bundle
from pacesetter.serving.bundle.hashed_files import NEEDED
from pacesetter.serving.bundle.signature import SigningKey
from pacesetter.serving.trader.demo import _find_current

KEY = SigningKey("0123456789abcdef0123456789abcdef")


def stored(folder: Path, runs: list[str], current: str, key: SigningKey | None = None) -> Path:
    """A store with a bundle of each run, one of which serves."""
    rows: list[dict[str, Any]] = []
    for number, run in enumerate(runs, 1):
        name = f"{number:04d}-policy"
        Bundle.write(folder / name, dict.fromkeys(NEEDED, b"{}"), key)
        told = {"model": "", "made": "", "versions": {}, "signed": key is not None}
        rows.append({"bundle": name, "run": run} | told)
    (folder / "versions.json").write_text(json.dumps({"current": current, "versions": rows}))
    return folder


def test_after_a_rollback_the_bundle_of_another_run_is_not_asked(tmp_path: Path) -> None:
    store = stored(tmp_path / "bundles", ["old", "new"], "0001-policy")
    assert _find_current(Path("runs/new"), store, None) is None
    served = _find_current(Path("runs/old"), store, None)
    assert served is not None
    assert (served[0].name, served[1].name) == ("0001-policy", "0001-policy")
    assert _find_current(Path("runs/old"), tmp_path / "empty", None) is None


def test_a_signed_bundle_is_opened_by_its_key_and_an_unsigned_one_made_again(tmp_path: Path) -> None:
    store = stored(tmp_path / "signed", ["run"], "0001-policy", KEY)
    served = _find_current(Path("runs/run"), store, KEY)
    assert served is not None
    assert served[1].is_signed
    with pytest.raises(RunError, match="no key to check it by"):
        _find_current(Path("runs/run"), store, None)
    assert _find_current(Path("runs/run"), stored(tmp_path / "plain", ["run"], "0001-policy"), KEY) is None
