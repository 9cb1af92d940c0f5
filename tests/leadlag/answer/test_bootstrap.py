"""Resampled products give the leadership that resampled correlations have, without copies of the bars."""

from __future__ import annotations

import numpy as np
import pytest

from pacesetter.leadlag.answer.bootstrap import Resampled
from pacesetter.leadlag.answer.strength import StrengthMeasure


@pytest.mark.parametrize("method", ["ccf_peak", "ccf_auc", "ccf_lag1"])
def test_every_bar_drawn_once_is_the_window_itself(method: str) -> None:
    window = np.random.default_rng(1).normal(size=(80, 4))
    gauge = StrengthMeasure(method)
    drawn = Resampled(window, gauge)(np.ones((1, 80), dtype=int))
    np.testing.assert_allclose(drawn, gauge.leadership(window[None]), atol=1e-5)


def test_a_draw_weighs_products_with_their_own_past() -> None:
    rng = np.random.default_rng(2)
    window, counts = rng.normal(size=(60, 3)), rng.integers(0, 4, (5, 60))
    drawn = Resampled(window, StrengthMeasure("ccf_lag1"))(counts)
    rows = np.repeat(np.arange(1, 60), counts[3, 1:])
    forward = np.corrcoef(window[rows - 1, 0], window[rows, 2])[0, 1]
    backward = np.corrcoef(window[rows - 1, 2], window[rows, 0])[0, 1]
    assert drawn[3, 0, 2] == pytest.approx(forward - backward, abs=1e-5)


def test_a_symbol_that_cannot_be_scored_stays_absent() -> None:
    window = np.random.default_rng(3).normal(size=(50, 3))
    window[:, 1] = 0.0
    drawn = Resampled(window, StrengthMeasure("ccf_peak"))(np.ones((2, 50), dtype=int))
    assert np.isnan(drawn[:, 1]).all()
    assert np.isfinite(drawn[:, 0, 2]).all()
