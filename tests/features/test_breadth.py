"""Market breadth by hand, and that it is there only where it is named."""

from __future__ import annotations

import numpy as np

from pacesetter.data.synthetic import Synthetic
from pacesetter.features import feature_table
from pacesetter.features.breadth import BARS, BREADTH, market_breadth


def test_breadth_is_the_share_of_symbols_above_their_mean():
    panel = Synthetic(symbols=5, bars=80, seed=2).read()
    found = market_breadth(panel)
    assert np.isnan(found[: BARS - 1]).all()
    for t in (BARS - 1, 40, 79):
        window = panel.close[t - BARS + 1 : t + 1]
        expected = (panel.close[t] > window.mean(axis=0)).mean()
        assert np.allclose(found[t], expected)
    assert ((found[BARS:] >= 0) & (found[BARS:] <= 1)).all()


def test_breadth_is_in_a_table_only_by_name():
    panel = Synthetic(symbols=3, bars=60, seed=2).read()
    assert BREADTH not in feature_table(panel).names
    assert feature_table(panel, [BREADTH]).names == (BREADTH,)
