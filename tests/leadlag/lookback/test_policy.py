"""A policy rolls into a feasible schedule, which is stored without pickles and tied to its bars."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pacesetter.errors import ConfigError, DataError
from pacesetter.leadlag.lookback.policy import (
    ConstantLookback,
    LookbackPolicy,
    StoredLookback,
    load_schedule,
    roll,
    save_schedule,
)
from pacesetter.panel import Panel


def panel_of(bars: int) -> Panel:
    close = np.linspace(10, 20, 2 * bars).reshape(bars, 2)
    return Panel.from_fields(pd.date_range("2024", periods=bars, tz="UTC"), ["A", "B"], {"close": close})


@dataclass(frozen=True)
class Growing(LookbackPolicy):
    """Asks for three bars more than what was in force."""

    longest: int = 1000

    def choose(self, panel: Panel, t: int, previous: int) -> int:
        return previous + 3 if t < 8 else -5


def test_a_constant_is_a_policy_and_is_cut_to_the_history() -> None:
    assert isinstance(ConstantLookback(4), LookbackPolicy)
    assert roll(ConstantLookback(4), panel_of(8)).tolist() == [0, 0, 2, 3, 4, 4, 4, 4]


def test_the_policy_is_told_the_lookback_in_force() -> None:
    assert roll(Growing(), panel_of(10)).tolist() == [0, 0, 2, 3, 4, 5, 6, 7, 2, 2]


def test_a_stored_schedule_rolls_into_itself(tmp_path: Path) -> None:
    panel = panel_of(10)
    schedule = roll(Growing(), panel)
    path = save_schedule(tmp_path / "schedules" / "growing", schedule, panel)
    stored = StoredLookback(load_schedule(path, panel))
    assert isinstance(stored, LookbackPolicy)
    np.testing.assert_array_equal(roll(stored, panel), schedule)
    assert stored.longest == 7


def test_a_schedule_of_other_bars_is_refused(tmp_path: Path) -> None:
    path = save_schedule(tmp_path / "one.npz", roll(ConstantLookback(4), panel_of(8)), panel_of(8))
    with pytest.raises(DataError, match="rolled on other bars"):
        load_schedule(path, panel_of(9))


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x03\x04 cut short"])
def test_a_damaged_schedule_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "bad.npz").write_bytes(content)
    with pytest.raises(DataError, match="not a stored schedule"):
        load_schedule(tmp_path / "bad.npz", panel_of(8))


def test_a_pickle_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "bad.npz", schedule=np.array([object()], dtype=object), fingerprint=np.array("x"))
    with pytest.raises(DataError, match="not a stored schedule"):
        load_schedule(tmp_path / "bad.npz", panel_of(8))


def test_a_short_constant_and_a_bar_beyond_the_schedule_are_refused() -> None:
    with pytest.raises(ConfigError, match="lookback 1 is too short"):
        ConstantLookback(1)
    with pytest.raises(DataError, match="ends at bar 3"):
        StoredLookback(np.array([0, 0, 2, 2])).choose(panel_of(8), 4, 2)
