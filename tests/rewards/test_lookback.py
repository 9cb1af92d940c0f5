"""Lookback components: known answers, and the shared shaping."""

from __future__ import annotations

import numpy as np
import pytest

from pacesetter.rewards import REWARDS, Reward, RewardConfig, Term
from pacesetter.rewards.lookback import LOOKBACK, LOOKBACK_COLUMNS, LookbackColumn


def value(name: str, options: dict[str, float] | None = None, **columns: float) -> float:
    """One component of a ledger row that is 0 but for `columns`."""
    row = np.zeros((1, len(LOOKBACK_COLUMNS)))
    for column, number in columns.items():
        row[0, LookbackColumn[column.upper()]] = number
    return float(Reward(RewardConfig({name: Term(options=options or {})}), 1, LOOKBACK_COLUMNS)(row).raw[0, 0])


@pytest.mark.parametrize(
    ("name", "columns", "expected"),
    [
        ("signal", {"prediction": -0.4}, -0.4),
        ("strength", {"link_strength": 0.6}, 0.6),
        ("stability", {"rank_agreement": 1.0}, 0.0),
        ("stability", {"rank_agreement": -1.0}, -1.0),
        ("extremity", {"place": 0.5}, 0.0),
        ("extremity", {"place": 0.95}, -0.5),
        ("extremity", {"place": 0.0}, -1.0),
        ("switching", {"place": 0.75, "place_before": 0.25}, -0.5),
        ("follow_through", {"equity_change": 0.01}, 0.01),
        ("mutual_information", {"information": 0.2}, 0.2),
        ("thinness", {"thin": 1.0}, -1.0),
    ],
)
def test_known_answers(name: str, columns: dict[str, float], expected: float) -> None:
    assert value(name, **columns) == pytest.approx(expected, abs=1e-15)


def test_the_margin_of_extremity_is_an_option() -> None:
    assert value("extremity", {"margin": 0.5}, place=0.25) == pytest.approx(-0.5)


def test_trading_components_read_the_same_ledger() -> None:
    assert value("pnl", equity_before=1.0, equity_change=0.01) == pytest.approx(np.log(1.01))
    assert value("cost", equity_before=1.0, cost=0.002) == pytest.approx(-0.002)


def test_shaping_is_the_shared_one() -> None:
    terms = {"signal": Term(normalise="zscore"), "switching": Term({"kind": "linear", "points": ((0, 1.0), (4, 0.0))})}
    reward = Reward(RewardConfig(terms, clip=None), 2, LOOKBACK_COLUMNS)
    rows = np.zeros((2, len(LOOKBACK_COLUMNS)))
    rows[:, LookbackColumn.PREDICTION] = 0.1, 0.3
    rows[:, LookbackColumn.PLACE] = 1.0
    first, second = reward(rows), reward(rows)
    np.testing.assert_allclose(first.shaped[:, 0], [-1.0, 1.0])
    np.testing.assert_allclose(first.raw[:, 0], [0.1, 0.3])
    assert first.weights[1] == 1.0
    assert second.weights[1] == 0.5
    np.testing.assert_allclose(second.total, [-1.5, 0.5])


def test_the_default_reward_is_led_by_the_honest_component() -> None:
    assert max(LOOKBACK, key=lambda name: LOOKBACK[name]) == "signal"
    assert set(LOOKBACK) <= set(REWARDS)
