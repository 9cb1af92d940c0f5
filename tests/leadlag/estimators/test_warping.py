"""Dynamic time warping: the path of least cost by its definition, and a planted delay that changes."""

from __future__ import annotations

import numpy as np
import pytest

from pacesetter.leadlag import LeadLag
from pacesetter.leadlag.estimators.warping import _mean_offset


def naive(x: np.ndarray, y: np.ndarray, band: int) -> float:
    """The mean offset of the cheapest path by the whole table of costs."""
    bars = len(x)
    cost = np.full((bars + 1, bars + 1), np.inf)
    cost[0, 0] = 0
    for a in range(1, bars + 1):
        for b in range(max(1, a - band), min(bars, a + band) + 1):
            cost[a, b] = (x[a - 1] - y[b - 1]) ** 2 + min(cost[a - 1, b - 1], cost[a, b - 1], cost[a - 1, b])
    a = b = bars
    offsets = []
    while (a, b) != (0, 0):
        offsets.append(b - a)
        steps = {(a - 1, b - 1): cost[a - 1, b - 1], (a, b - 1): cost[a, b - 1], (a - 1, b): cost[a - 1, b]}
        a, b = min(steps, key=steps.__getitem__)
    return float(np.mean(offsets))


@pytest.mark.parametrize("band", [1, 3, 8])
def test_the_path_is_that_of_the_definition(band: int) -> None:
    rng = np.random.default_rng(band)
    for _ in range(5):
        x, y = rng.standard_normal((2, 40))
        assert _mean_offset(x, y, band) == pytest.approx(naive(x, y, band))
        assert _mean_offset(y, x, band) == pytest.approx(-naive(x, y, band))


def test_a_delay_that_changes_is_a_lead(panel_of) -> None:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((600, 3))
    x[1:300, 1], x[3:, 2] = x[:299, 0], x[:-3, 0]
    x[304:, 1] = x[300:-4, 0]
    x[:, 1:] += 0.3 * rng.standard_normal((600, 2))
    lag = LeadLag("dtw").fit(panel_of(0.01 * x))
    scores, lags = lag.scores(600, 600), lag.lags(600, 600)
    assert scores[0, 1] > 0.2
    assert lags[0, 2] == pytest.approx(3, abs=0.5)
    assert 1.2 < lags[0, 1] < 3.8  # one bar in the first half, four in the second
    assert lag.ranking(lookback=600, draws=20).index[0] == "A0"
