"""A disk that fails at each write in turn, a clock that steps: nothing half-written, nothing doubled, a clean halt."""

from __future__ import annotations

import errno
import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from trading import FIRST, SAME_AFTER_RESUMING, make_trader, small_panel

from pacesetter.errors import RunError
from pacesetter.learning.state import read_state, write_state
from pacesetter.panel import Panel
from pacesetter.serving.journal.journal import Journal, journal_url, tables
from pacesetter.serving.risk.guard import Guard
from pacesetter.serving.risk.halt import KillSwitch
from pacesetter.serving.risk.order import State
from pacesetter.serving.trader.feeds import LiveClock, ReplayFeed

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
    assert switch.is_engaged()
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


class SteppedFeed(ReplayFeed):
    """Bars that come as their time comes, after `known` of them, by a clock that is set wrong at one of them."""

    def __init__(self, panel: Panel, known: int = 1, wrong_at: int | None = None, step: float = 0.0) -> None:
        super().__init__(panel, FIRST)
        self.moment, self.ahead = panel.index[FIRST + known - 1].timestamp() + 1.0, 0.0
        self.wrong_at, self.step = wrong_at, step
        self.clock = LiveClock(lambda: self.moment + self.ahead, lambda: self.moment, lambda _: None)  # type: ignore[assignment]

    def after(self, last: pd.Timestamp) -> Panel | None:
        bar = super().after(last)
        if bar is not None:
            self.moment = bar.index[0].timestamp() + 1.0
            if self.wrong_at is not None and bar.index[0] >= self.panel.index[self.wrong_at]:
                self.ahead = self.step
        return bar


def _finished(folder: Path, panel: Panel, feed: ReplayFeed) -> dict[str, Any]:
    trader = make_trader(folder, panel=panel, feed=feed, limits=SAME_AFTER_RESUMING)
    trader.run()
    trader.journal.close()
    return _content(folder)


def check_step(folder: Path, panel: Panel, whole: dict[str, Any], row: int, step: float) -> bool:
    """Set the clock wrong at a bar, then right, and go on: it ends as if it had been right. Gives whether it halted."""
    feed = SteppedFeed(panel, wrong_at=row, step=step)
    trader = make_trader(folder, panel=panel, feed=feed, limits=SAME_AFTER_RESUMING)
    with suppress(RunError):
        trader.run()
    trader.journal.close()
    switch = KillSwitch(folder / "HALT")
    has_halted = "the clock jumped by" in switch.reason()
    assert switch.release("Ada") is has_halted
    written = Journal(journal_url(folder), "run")
    known = len(written.rows(tables.equity))
    written.close()
    # The clock is right again.
    assert _finished(folder, panel, SteppedFeed(panel, known)) == whole, f"a step of {step} s at bar {row}"
    return has_halted


@pytest.mark.parametrize(("step", "halts"), [(3_600.0, True), (-DAY, True), (-2.0, False)])
def test_a_clock_that_is_set_wrong_and_right_again_changes_nothing(step: float, halts: bool, tmp_path: Path) -> None:
    panel = small_panel(FIRST + 6)
    whole = _finished(tmp_path / "whole", panel, SteppedFeed(panel))
    assert check_step(tmp_path / "stepped", panel, whole, FIRST + 3, step) is halts


@pytest.mark.proof
@pytest.mark.timeout(3600)
def test_a_clock_that_steps_at_any_bar_changes_nothing(tmp_path: Path, sized: Callable[[int], int]) -> None:
    panel, chance, times = small_panel(), random.Random(27), sized(200)
    whole = _finished(tmp_path / "whole", panel, SteppedFeed(panel))
    sizes = (1.0, 4.0, 6.0, 60.0, 3_600.0, DAY, 7 * DAY, 400 * DAY)
    halts = 0
    for number in range(times):
        step = chance.choice(sizes) * chance.choice((-1, 1))
        halts += check_step(tmp_path / str(number), panel, whole, chance.randrange(FIRST + 1, len(panel)), step)
    print(f"the clock stepped {times} times by a second to 400 days at any bar, {halts} halts, all equal in the end")


# ---- daylight saving ------------------------------------------------------------------------------------------------

ZONES = (
    "America/New_York",
    "Europe/Berlin",
    "Australia/Lord_Howe",
    "Asia/Tehran",
)  # by an hour, by half an hour, by none
CHANGES = ("2026-03-08 06:00", "2026-03-29 00:00", "2026-10-25 00:00", "2026-11-01 05:00", "2026-04-04 14:00")


@pytest.fixture
def zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Sets the time zone of the process."""

    def use(name: str) -> None:
        monkeypatch.setenv("TZ", name)
        time.tzset()

    yield use
    monkeypatch.undo()
    time.tzset()


def over_a_change(moment: str, freq: str, bars: int) -> Panel:
    """The small market, with a change to or from summer time in the middle of the bars that are traded."""
    panel = small_panel(FIRST + bars)
    step = pd.Timedelta(freq)
    start = pd.Timestamp(moment, tz="UTC") - step * (FIRST + bars // 2)
    return replace(panel, index=pd.date_range(start, periods=len(panel), freq=step).as_unit("ns"))


def check_zones(panel: Panel, folder: Path, use: Callable[[str], None], zones: tuple[str, ...]) -> None:
    """Trade the bars with the process in each time zone: all journals are equal."""
    found = []
    for name in ("UTC", *zones):
        use(name)
        found.append(_finished(folder / name.replace("/", "-"), panel, SteppedFeed(panel)))
    assert len(found[0]["equity"]) == len(panel) - FIRST
    assert all(each == found[0] for each in found)


def test_a_change_to_summer_time_is_not_a_step_of_the_clock(tmp_path: Path, zone: Callable[[str], None]) -> None:
    check_zones(over_a_change(CHANGES[0], "60min", 6), tmp_path, zone, ZONES[:1])


@pytest.mark.proof
def test_changes_of_summer_time_in_any_zone_change_nothing(tmp_path: Path, zone: Callable[[str], None]) -> None:
    bars = 24
    for number, moment in enumerate(CHANGES):
        for freq in ("30min", "60min"):
            check_zones(over_a_change(moment, freq, bars), tmp_path / f"{number}-{freq}", zone, ZONES)
    print(f"{len(CHANGES)} changes of summer time, {bars} bars of 30 and 60 minutes, {len(ZONES)} zones: all equal")
