"""A server begins with stored bars; what is no panel of them is refused by its path."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pacesetter.errors import DataError
from pacesetter.serving.runtime import ReportedAccount, Runtime
from pacesetter.serving.service import load_history


def test_stored_bars_are_enough_to_decide_on(made: Any, tmp_path: Path) -> None:
    runtime = Runtime(made.bundle)
    load_history(runtime, made.panel.with_field("more", made.panel.close).save(tmp_path / "bars.parquet"))
    assert not runtime.history.waiting()
    assert len(runtime.decide(ReportedAccount(1e5)).lines) == 3


def test_a_folder_and_a_panel_without_a_field_are_refused(made: Any, tmp_path: Path) -> None:
    runtime = Runtime(made.bundle)
    with pytest.raises(DataError, match="is no file; store bars in one"):
        load_history(runtime, tmp_path)
    panel, closes = made.panel, {"close": made.panel.close}
    bare = type(panel).from_fields(panel.index, panel.symbols, closes)
    with pytest.raises(DataError, match="has not all of the fields"):
        load_history(runtime, bare.save(tmp_path / "bars.parquet"))
