"""A disk that fails at each write in turn, a clock that steps: nothing half-written, nothing doubled, a clean halt."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from trading import make_trader, small_panel

from pacesetter.learning.state import read_state, write_state
from pacesetter.serving.journal.journal import Journal, journal_url, tables
from pacesetter.serving.risk.guard import Guard
from pacesetter.serving.risk.halt import KillSwitch
from pacesetter.serving.risk.order import State

BARS = 5
FAULTS = {"full": errno.ENOSPC, "broken": errno.EIO, "read-only": errno.EROFS}
DAY = 86_400.0


class FailingDisk:
    """Lets so many syncs through, then fails each with an error."""

    def __init__(self, code: int, after: int) -> None:
        self.code, self.left, self.real = code, after, os.fsync

    def __call__(self, descriptor: int) -> None:
        self.left -= 1
        if self.left < 0:
            raise OSError(self.code, os.strerror(self.code))
        self.real(descriptor)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_checkpoint_is_the_old_or_the_new_one_whichever_write_fails(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes = []
    for after in range(6):
        folder = tmp_path / str(after)
        write_state(folder, {}, {"step": 1})
        with monkeypatch.context() as failing:
            failing.setattr(os, "fsync", FailingDisk(FAULTS[fault], after))
            with suppress(OSError):
                write_state(folder, {}, {"step": 2})
        outcomes.append(read_state(folder)["step"])
    assert outcomes[0] == 1
    assert outcomes[-1] == 2
    assert outcomes == sorted(outcomes)


def _content(folder: Path) -> dict[str, Any]:
    journal = Journal(journal_url(folder), "run")
    named = (tables.decisions, tables.orders, tables.fills, tables.positions)
    rows: dict[str, Any] = {table.name: journal.rows(table) for table in named}
    rows["equity"] = [row["equity"] for row in journal.rows(tables.equity)]
    journal.verify()
    journal.close()
    return rows


@pytest.mark.parametrize("write", range(3))
def test_a_journal_that_cannot_be_written_halts_and_no_bar_or_order_is_lost_or_doubled(
    write: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fault comes before a bar's page, before the statuses of its orders, or with the page half written."""
    panel = small_panel()
    whole = make_trader(tmp_path / "whole", panel=panel)
    whole.run(2 * BARS)
    whole.journal.close()
    trader = make_trader(tmp_path / "faulty", panel=panel)
    trader.run(BARS)
    name = ("record", "set_statuses", "_set_status")[write]

    def fail(*given: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as failing:
        failing.setattr(Journal, name, fail)
        with pytest.raises(OSError, match="No space left"):
            trader.run(BARS)
    trader.journal.close()
    switch = KillSwitch(tmp_path / "faulty" / "HALT")
    assert switch.engaged()
    switch.release("Ada")
    again = make_trader(tmp_path / "faulty", panel=panel)
    again.run(2 * BARS - again.journal.checkpoint()[1]["bars"])  # type: ignore[index]
    again.journal.close()
    faulty, expected = _content(tmp_path / "faulty"), _content(tmp_path / "whole")
    assert len(faulty["equity"]) == len(expected["equity"])
    assert len({row["client_id"] for row in faulty["orders"]}) == len(faulty["orders"])


@pytest.mark.parametrize("step", [-1.0, -3_600.0, -DAY, -7 * DAY])
def test_a_clock_that_steps_back_halts_until_a_person_resumes(step: float) -> None:
    guard, now = Guard(), 1_767_600_000.0
    guard.begin_bar(1e5, now)
    guard.begin_bar(1e5, now + step)
    assert guard.state is State.HALTED
    assert guard.reason.startswith("the clock went back")
    guard.resume("Ada")
    guard.begin_bar(1e5, now + step)
    assert guard.state is State.ACTIVE
