"""Small markets: a synthetic one with all features, and closes made by hand with one short feature."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest

from pacesetter.data.synthetic import Synthetic
from pacesetter.features import FeatureTable, feature_table
from pacesetter.panel import Panel


@pytest.fixture(scope="session")
def market() -> Panel:
    """Four symbols, 420 bars of OHLCV."""
    return Synthetic(symbols=4, bars=420, seed=5).read()


@pytest.fixture(scope="session")
def by_hand() -> Callable[..., dict[str, Any]]:
    """`panel` and `table` of closes (time,) or (time, symbol); the only feature needs two bars."""

    def make(closes: Sequence[Any], mask: Any = None) -> dict[str, Any]:
        values = np.array(closes, dtype=float).reshape(len(closes), -1)
        index = pd.date_range("2020-01-01", periods=len(values), freq="D", tz="UTC")
        names = [f"S{k}" for k in range(values.shape[1])]
        panel = Panel.from_fields(index, names, {"close": values}, mask)
        table: FeatureTable = feature_table(panel, ["return_1"])
        return {"panel": panel, "table": table, "window_bars": 2}

    return make
