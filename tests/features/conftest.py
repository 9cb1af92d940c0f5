"""A small OHLCV market whose highs and lows stand one percent around the close."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from pacesetter.panel import Panel

MakeBars = Callable[..., Panel]


@pytest.fixture
def make_bars() -> MakeBars:
    """close (time, symbol) -> panel with open, high, low and a volume that repeats every seven bars."""

    def make(close: np.ndarray, mask: np.ndarray | None = None) -> Panel:
        index = pd.date_range("2020-01-01", periods=len(close), freq="D", tz="UTC")
        volume = np.broadcast_to(1000.0 + np.arange(len(close))[:, None] % 7, close.shape)
        fields = {"open": close * 1.002, "high": close * 1.01, "low": close * 0.99, "close": close, "volume": volume}
        return Panel.from_fields(index, [f"S{k}" for k in range(close.shape[1])], fields, mask=mask)

    return make


@pytest.fixture
def bars(make_bars: MakeBars) -> Panel:
    """400 bars of three random walks."""
    steps = 0.02 * np.random.default_rng(3).standard_normal((400, 3))
    return make_bars(30 * np.exp(np.cumsum(steps, axis=0)))
