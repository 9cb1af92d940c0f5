"""Panels with known increments, and the market of REFERENCE §1 in which the lags are planted."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from pacesetter.panel import Panel

PanelOf = Callable[..., Panel]
Market = Callable[[int, float, int], tuple[Panel, np.ndarray]]


@pytest.fixture(scope="session")
def panel_of() -> PanelOf:
    """Log returns (time, symbol) after a first bar -> panel of closes; `mask` (time + 1, symbol)."""

    def make(returns: np.ndarray, mask: np.ndarray | None = None) -> Panel:
        close = 100 * np.exp(np.cumsum(np.vstack([np.zeros(returns.shape[1]), returns]), axis=0))
        index = pd.date_range("2020-01-01", periods=len(close), freq="h", tz="UTC")
        return Panel.from_fields(index, [f"A{k}" for k in range(close.shape[1])], {"close": close}, mask=mask)

    return make


@pytest.fixture(scope="session")
def noise(panel_of: PanelOf) -> Panel:
    """400 bars of seven independent walks."""
    return panel_of(0.01 * np.random.default_rng(5).standard_normal((399, 7)))


@pytest.fixture(scope="session")
def planted(panel_of: PanelOf) -> Market:
    """(groups, sigma, seed) -> panel and lags: x_i(t) = z(t − lag_i) + sigma·ε, 250 returns of 100 assets."""

    def make(groups: int, sigma: float, seed: int) -> tuple[Panel, np.ndarray]:
        rng = np.random.default_rng(seed)
        lags = np.arange(100) % groups
        z = rng.standard_normal(250 + groups)
        returns = np.stack([z[groups - lag : groups - lag + 250] for lag in lags], axis=1)
        return panel_of(0.01 * (returns + sigma * rng.standard_normal(returns.shape))), lags

    return make
