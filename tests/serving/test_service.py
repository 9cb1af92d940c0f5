"""A server begins with stored bars; what is no panel of them is refused by its path."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from numba.core.dispatcher import Dispatcher

from pacesetter.envs import loops
from pacesetter.errors import DataError
from pacesetter.features import rolling, technical
from pacesetter.market import batch as market_batch
from pacesetter.serving.runtime import ReportedAccount, Runtime
from pacesetter.serving.service import load_history, rehearse


def test_stored_bars_are_enough_to_decide_on(made: Any, tmp_path: Path) -> None:
    runtime = Runtime(made.bundle)
    load_history(runtime, made.panel.with_field("more", made.panel.close).save(tmp_path / "bars.parquet"))
    assert not runtime.history.waiting()
    assert len(runtime.decide(ReportedAccount(1e5)).lines) == 3


@pytest.mark.parametrize("kind", ["made", "fleet", "master"])
def test_after_a_rehearsal_a_decision_compiles_nothing(kind: str, request: pytest.FixtureRequest) -> None:
    made = request.getfixturevalue(kind)
    rehearse(Runtime(made.bundle))
    compiled = kernels()
    assert all(compiled[name] for name in ("_mean", "account_rows"))
    runtime = Runtime(made.bundle)
    runtime.feed(made.panel.rows(0, -1))
    assert runtime.decide(ReportedAccount(1e5), made.panel.rows(-1, None)).lines
    assert kernels() == compiled


def kernels() -> dict[str, int]:
    """Name -> signatures compiled so far, of every function that features and desk have numba compile."""
    rooms = (rolling, technical, loops, market_batch)
    found = {name: part for room in rooms for name, part in vars(room).items() if isinstance(part, Dispatcher)}
    return {name: len(part.signatures) for name, part in found.items()}


def test_a_folder_and_a_panel_without_a_field_are_refused(made: Any, tmp_path: Path) -> None:
    runtime = Runtime(made.bundle)
    with pytest.raises(DataError, match="is no file; store bars in one"):
        load_history(runtime, tmp_path)
    panel, closes = made.panel, {"close": made.panel.close}
    bare = type(panel).from_fields(panel.index, panel.symbols, closes)
    with pytest.raises(DataError, match="has not all of the fields"):
        load_history(runtime, bare.save(tmp_path / "bars.parquet"))
