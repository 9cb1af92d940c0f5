"""Influence: what remains without a bar is what a new computation without it finds; a crash bar is named."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from pacesetter.leadlag.answer import StrengthMeasure, answer_window
from pacesetter.leadlag.answer.answer import lagged_correlations
from pacesetter.leadlag.answer.network import leaders_without_a_bar, links_without_a_bar
from pacesetter.leadlag.answer.thin import ThinTrading, bounce_share, stale_share
from pacesetter.leadlag.structure.ranking import row_mean
from pacesetter.leadlag.study import Study
from pacesetter.panel import Panel


def crashed(seed: int = 0) -> np.ndarray:
    """Noise with one crash of A that B follows a bar later."""
    x = np.random.default_rng(seed).standard_normal((400, 3))
    x[200, 0], x[201, 1] = -25.0, -25.0
    return x


@pytest.mark.parametrize("groups", [None, np.arange(80) // 4])
def test_the_closed_form_is_a_new_computation_without_the_bar(groups: np.ndarray | None) -> None:
    x = np.random.default_rng(1).standard_t(3, (80, 3)) + 0.3
    x[4:, 1] += 0.5 * x[:-4, 0]
    gauge = StrengthMeasure("ccf_peak", max_lag=5)
    answer = answer_window(x, "ABC", gauge)
    lag = int(answer.delays[0, 1])
    assert lag == 4
    (remains,) = links_without_a_bar(x, gauge, answer, np.array([[0, 1]]), groups)

    def correlation(window: np.ndarray) -> float:
        return float(lagged_correlations(window[None], 5)[0, lag - 1, 0, 1])

    numbers = np.arange(80) if groups is None else groups
    without = [np.where((numbers == number)[:, None], 0.0, x) for number in np.unique(numbers)]
    assert 0 < remains < 1
    assert remains == pytest.approx(min(map(correlation, without)) / correlation(x), rel=1e-9)


def test_a_lead_of_one_bar_is_named() -> None:
    x = crashed()
    gauge = StrengthMeasure("ccf_peak")
    answer = answer_window(x, "ABC", gauge)
    assert answer.forward[0, 1] > 0.5
    assert links_without_a_bar(x, gauge, answer, np.array([[0, 1]]))[0] < 0.2
    assert leaders_without_a_bar(x, gauge, answer, np.array([0]))[0] < 0.5


def test_one_crash_makes_no_significant_link() -> None:
    close = 100 * np.exp(0.01 * np.cumsum(crashed(), axis=0))
    panel = Panel.from_fields(pd.date_range("2024", periods=400, tz="UTC"), "ABC", {"close": close})
    assert ("A", "B") not in Study(lookback=399, draws=100).run(panel).network.edges


def test_a_day_of_several_bars_is_taken_away_as_one() -> None:
    x = np.random.default_rng(2).standard_normal((240, 2))
    x[50:55, 0] = x[51:56, 1] = 8.0
    gauge = StrengthMeasure("ccf_peak", max_lag=1)
    answer = answer_window(x, "AB", gauge)
    pair, days = np.array([[0, 1]]), np.arange(240) // 12
    by_bar, by_day = (links_without_a_bar(x, gauge, answer, pair, groups)[0] for groups in (None, days))
    assert by_day < 0.3 < by_bar


def test_thin_symbols_are_flagged_with_a_reason_and_can_be_excluded() -> None:
    rng = np.random.default_rng(4)
    x = 0.01 * rng.standard_normal((500, 4))
    x[rng.random(500) < 0.3, 1] = 0.0
    side = rng.choice([-0.02, 0.02], 501)
    x[:, 2] += np.diff(side)
    close = 100 * np.exp(np.cumsum(x, axis=0))
    volume = np.full(close.shape, 1000.0)
    volume[:, 3] = 1.0
    index = pd.date_range("2024", periods=500, tz="UTC")
    panel = Panel.from_fields(index, "ABCD", {"close": close, "volume": volume})
    flags = ThinTrading(least_turnover=1000.0).flags(panel, x)
    assert set(flags) == {"B", "C", "D"}
    assert "unchanged prices" in flags["B"]
    assert "bounce" in flags["C"]
    assert "turnover" in flags["D"]
    result = Study(lookback=400, thin="exclude", draws=50).run(panel)
    assert np.isnan(result.matrix[1]).all()
    assert result.diagnostics["B"].startswith("excluded: ")


@pytest.mark.parametrize(
    ("method", "residual"), [("ccf_peak", "none"), ("ccf_peak", "market"), ("levy_returns", "none")]
)
def test_history_leaves_out_what_the_last_window_leaves_out(method: str, residual: str) -> None:
    rng = np.random.default_rng(5)
    x = 0.01 * rng.standard_normal((300, 6))
    x[rng.random(300) < 0.3, 1] = 0.0
    x[:, 2] += np.diff(rng.choice([-0.02, 0.02], 301))
    volume = np.full(x.shape, 1e6)
    volume[:, 3] = 1.0
    fields = {"close": 100 * np.exp(np.cumsum(x, axis=0)), "volume": volume}
    panel = Panel.from_fields(pd.date_range("2024", periods=300, tz="UTC"), "ABCDEF", fields)
    result = Study(
        method, lookback=199, step=50, thin="exclude", least_turnover=1000.0, residual=residual, draws=20
    ).run(panel)
    assert set(result.thin) == {"B", "C", "D"}
    assert result.ends[-1] == 299
    np.testing.assert_allclose(result.leadership[-1], row_mean(result.matrix), atol=1e-12)
    assert np.isnan(result.leadership[:, 1:4]).all()
    assert np.isfinite(result.leadership[:, [0, 4, 5]]).all()


def test_shares_have_their_known_values() -> None:
    x = np.array([[1.0], [0.0], [0.0], [-1.0]])
    assert stale_share(x)[0] == 0.5
    assert bounce_share(np.array([[1.0], [-1.0], [1.0], [-1.0]]))[0] == pytest.approx(0.75)
