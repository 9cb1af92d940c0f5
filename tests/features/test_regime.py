from __future__ import annotations

import numpy as np
import pytest

from pacesetter.features import FEATURES, REGIMES, feature_table, regime_labels
from pacesetter.panel import Panel


def test_ten_indicators_cover_volatility_trend_momentum_and_volume() -> None:
    names = [name for name in FEATURES if name.startswith("regime_") and FEATURES[name].kind == "regime"]
    assert len(names) == 10
    assert {name.split("_")[1] for name in names} >= {"volatility", "trend", "momentum", "volume"}


def planted(regime: str, rng: np.random.Generator) -> np.ndarray:
    """400 closes of which the last 60 are in the regime."""
    drift = {"bull": 0.005, "bear": -0.005}.get(regime, 0.0)
    noise = 0.01 * rng.standard_normal(400)
    noise[340:] = 0.007 * (-1.0) ** np.arange(60)
    if regime == "high_volatility":
        noise[340:] *= 5
    steps = noise + np.where(np.arange(400) >= 340, drift, 0.0)
    return 100 * np.exp(np.cumsum(steps))


@pytest.mark.parametrize("regime", REGIMES)
def test_a_planted_regime_gets_its_name(regime: str, make_bars) -> None:
    panel = make_bars(planted(regime, np.random.default_rng(1))[:, None])
    assert REGIMES[regime_labels(panel)[-1, 0]] == regime


def test_labels_are_minus_one_while_warming_up_and_in_gaps(bars: Panel) -> None:
    mask = np.ones(bars.mask.shape, bool)
    mask[300, 0] = False
    labels = regime_labels(Panel(bars.index, bars.symbols, bars.fields, bars.blocks, mask))
    assert labels.dtype == np.int8
    assert (labels[:139] == -1).all()
    assert (labels[139:] >= 0).sum() == labels[139:].size - 1
    assert labels[300, 0] == -1


def test_a_straight_rise_stands_at_the_bounds(make_bars) -> None:
    panel = make_bars(10 * 1.01 ** np.arange(300.0)[:, None])
    table = feature_table(panel)
    newest = dict(zip(table.names, table.values[0, -1].tolist(), strict=True))
    assert newest["regime_trend_efficiency"] == 1
    assert newest["regime_trend_fit"] == pytest.approx(1)
    assert newest["regime_downside_share"] == 0
    assert newest["regime_trend_drawdown"] == 0
    assert newest["regime_momentum_long"] > 0.99
