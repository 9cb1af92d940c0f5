"""What trading a window holds, by hand; trades are counted where the data have them, and asked for only there."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from pacesetter.envs.lookback.liquidity import Liquidity, LiquidityFilter
from pacesetter.errors import ConfigError
from pacesetter.panel import Panel

DAYS = pd.date_range("2020-01-01", periods=6, tz="UTC")
TRADES = np.array([[1, 2], [3, 4], [5, 6], [7, 8], [9, 10], [11, 12]], dtype=float)


def panel(**fields: np.ndarray) -> Panel:
    close = np.full((6, 2), 10.0)
    return Panel.from_fields(DAYS, ("A", "B"), {"close": close, "volume": np.full((6, 2), 3.0)} | fields)


def test_trades_of_a_window_are_the_mean_of_its_bars() -> None:
    counted = Liquidity.of(panel(trades=TRADES))
    held = counted.window(np.array([5, 3]), np.array([2, 3]))
    np.testing.assert_allclose(held["trades"], [TRADES[4:6].mean(), TRADES[1:4].mean()])
    np.testing.assert_allclose(held["value"], 30.0)
    thin = LiquidityFilter(min_trades=9.0).is_thin(counted, np.array([5, 3]), np.array([2, 3]))
    assert thin.tolist() == [False, True]
    assert LiquidityFilter(min_trades=9.0).is_on


def test_trades_are_refused_where_no_data_count_them() -> None:
    plain = Liquidity.of(panel())
    assert not plain.has_trades
    with pytest.raises(ConfigError, match="min_trades needs the field trades"):
        LiquidityFilter(min_trades=1.0).check(plain)
