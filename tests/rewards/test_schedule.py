"""Weight schedules: known values, ends, and what is refused."""

from __future__ import annotations

import pytest

from pacesetter.errors import ConfigError
from pacesetter.registry import configure
from pacesetter.rewards import Schedule

POINTS = ((10, 8.0), (30, 2.0))


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("piecewise", {0: 8.0, 10: 8.0, 20: 8.0, 29: 8.0, 30: 2.0, 99: 2.0}),
        ("linear", {0: 8.0, 10: 8.0, 20: 5.0, 25: 3.5, 30: 2.0, 99: 2.0}),
        ("cosine", {0: 8.0, 10: 8.0, 15: 5.0 + 3.0 / 2**0.5, 20: 5.0, 30: 2.0, 99: 2.0}),
        ("exponential", {0: 8.0, 10: 8.0, 20: 4.0, 30: 2.0, 99: 2.0}),
    ],
)
def test_weight_at_a_step(kind: str, expected: dict[int, float]) -> None:
    schedule = Schedule(kind, POINTS)  # type: ignore[arg-type]
    assert {step: schedule.at(step) for step in expected} == pytest.approx(expected)


def test_several_pieces_and_negative_weights() -> None:
    assert Schedule("linear", ((0, 0.0), (10, 1.0), (20, -1.0))).at(15) == 0.0
    assert Schedule("exponential", ((0, -1.0), (2, -4.0))).at(1) == pytest.approx(-2.0)


def test_it_is_made_from_plain_options() -> None:
    options = {"kind": "linear", "points": [[0, 1], [100, 0.5]]}
    assert configure(Schedule, options, "weight") == Schedule("linear", ((0, 1.0), (100, 0.5)))


@pytest.mark.parametrize(
    ("kind", "points", "message"),
    [
        ("linear", (), "at least one step"),
        ("linear", ((5, 1.0), (5, 2.0)), "in increasing order"),
        ("linear", ((0, float("nan")),), "not finite"),
        ("exponential", ((0, 1.0), (5, 0.0)), "one sign"),
        ("exponential", ((0, 1.0), (5, -1.0)), "one sign"),
    ],
)
def test_refused(kind: str, points: tuple[tuple[int, float], ...], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Schedule(kind, points)  # type: ignore[arg-type]


def test_unknown_kind_gets_a_suggestion() -> None:
    with pytest.raises(ConfigError, match="did you mean 'linear'"):
        configure(Schedule, {"kind": "liner", "points": [[0, 1.0]]}, "weight")
    with pytest.raises(ConfigError, match="schedule kind 'liner' is unknown; did you mean 'linear'"):
        Schedule("liner", POINTS)  # type: ignore[arg-type]
