"""From actions to windows: what each space means, and that every window in force is feasible."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pacesetter.envs.lookback.actions import Bounds, Clamp, Windows, clamp_windows
from pacesetter.errors import ConfigError, DataError

SMALL = {"shortest": 10, "longest": 160, "seen": (10, 40, 160), "grid": (10, 40, 160)}


def limits(low: int = 10, high: int = 160, history: int = 500, before: int = 40) -> Bounds:
    return Bounds(*(np.array([number]) for number in (low, high, history, before)))


def test_absolute_places_are_the_grid() -> None:
    windows = Windows(**SMALL)
    np.testing.assert_array_equal(windows.read_actions([0, 2, 1], np.full(3, 40)), [10, 160, 40])


def test_delta_places_change_the_window_before() -> None:
    windows = Windows(**SMALL, action="delta", deltas=(-30, 0, 30))
    np.testing.assert_array_equal(windows.read_actions([0, 1, 2], np.array([40, 50, 60])), [10, 50, 90])


def test_absolute_shares_are_logarithmic() -> None:
    windows = Windows(**SMALL, space="continuous")
    np.testing.assert_array_equal(windows.read_actions([[-1.0], [0.0], [1.0]], np.full(3, 40)), [10, 40, 160])


def test_delta_shares_are_in_units_of_the_largest_change() -> None:
    windows = Windows(**SMALL, action="delta", space="continuous", max_delta=20)
    np.testing.assert_array_equal(windows.read_actions([[-0.5], [1.0]], np.array([40, 50])), [30, 70])


@pytest.mark.parametrize("action", [-1, 3, 0.5])
def test_a_place_that_is_not_there_is_refused(action: float) -> None:
    with pytest.raises(DataError, match="not a place from 0 to 2"):
        Windows(**SMALL).read_actions([action], np.array([40]))


@pytest.mark.parametrize("action", [np.nan, 1.5])
def test_a_share_that_is_no_share_is_refused(action: float) -> None:
    with pytest.raises(DataError, match="not a number from -1 to 1"):
        Windows(**SMALL, space="continuous").read_actions([[action]], np.array([40]))


@pytest.mark.parametrize(
    ("asked", "bounds", "max_delta", "expected", "why"),
    [
        (60, limits(), None, 60, Clamp.NONE),
        (200, limits(), None, 160, Clamp.BOUNDS),
        (120, limits(history=90), None, 90, Clamp.HISTORY),
        (120, limits(), 30, 70, Clamp.DELTA),
        (5, limits(history=90), None, 10, Clamp.BOUNDS),
        (100, limits(high=60), 50, 60, Clamp.DELTA | Clamp.BOUNDS),
    ],
)
def test_cuts_are_flagged(asked: int, bounds: Bounds, max_delta: int | None, expected: int, why: Clamp) -> None:
    window, flags = clamp_windows(np.array([asked]), bounds, max_delta)
    assert (int(window[0]), Clamp(int(flags[0]))) == (expected, why)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    asked=st.integers(-500, 2000),
    low=st.integers(2, 100),
    width=st.integers(0, 200),
    history=st.integers(2, 400),
    before=st.integers(2, 400),
    max_delta=st.one_of(st.none(), st.integers(1, 100)),
)
def test_every_window_is_feasible(
    asked: int, low: int, width: int, history: int, before: int, max_delta: int | None
) -> None:
    windows, flags = clamp_windows(np.array([asked]), limits(low, low + width, history, before), max_delta)
    window = int(windows[0])
    assert 2 <= window <= history
    assert window <= low + width
    if history >= low:
        assert window >= low
    if max_delta is not None and low <= before <= min(low + width, history):
        assert abs(window - before) <= max_delta
    assert (window == asked) == (flags[0] == Clamp.NONE)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shortest": 1}, "shortest=1"),
        ({"grid": (20, 20)}, "windows.grid"),
        ({"grid": (5, 20)}, "windows.grid"),
        ({"max_delta": 0}, "windows.max_delta=0"),
        ({"action": "delta", "space": "continuous"}, "windows.max_delta"),
        ({"initial": 900}, "windows.initial=900"),
    ],
)
def test_windows_that_cannot_be_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Windows(**options)
