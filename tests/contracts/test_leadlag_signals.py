"""Contract 1 for what is made of lead–lag matrices: altering any bar after t changes nothing up to t, bit for bit."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from pacesetter.leadlag import LeadLag
from pacesetter.leadlag.lookback.policy import ConstantLookback, roll
from pacesetter.leadlag.signals import leadlag_features
from pacesetter.leadlag.strategy import fill_to_fill_returns, follow_leaders, follower_weights, last_moves
from pacesetter.leadlag.structure.anomaly import anomaly_score, instability
from pacesetter.leadlag.structure.encoding import ENCODERS
from pacesetter.leadlag.structure.ranking import RANKINGS, row_mean
from pacesetter.panel import Panel
from pacesetter.registry import configure

LOOKBACK = 20


def bars(altered_after: int | None = None) -> Panel:
    """150 bars of 5 assets, one of which enters late; every bar after `altered_after` is another one."""
    rng = np.random.default_rng(4)
    close = 100 * np.exp(np.cumsum(0.01 * rng.standard_normal((150, 5)), axis=0))
    opens = close * (1 + 0.001 * rng.standard_normal(close.shape))
    if altered_after is not None:
        later = slice(altered_after + 1, None)
        opens[later] *= 3 + rng.random(opens[later].shape)
        close[later] *= 3 + rng.random(close[later].shape)
    close[:40, 3] = opens[:40, 3] = np.nan
    return Panel.from_fields(
        pd.date_range("2024", periods=150, tz="UTC"), list("ABCDE"), {"open": opens, "close": close}
    )


def matrices(panel: Panel) -> np.ndarray:
    """(time, N, N) matrices of a constant window, NaN before the first."""
    stack = np.full((len(panel), 5, 5), np.nan)
    ends = np.arange(LOOKBACK, len(panel))
    stack[LOOKBACK:] = LeadLag("ccf_auc").fit(panel).many(ends, np.full(len(ends), LOOKBACK))
    return stack


Causal = Callable[[Panel], np.ndarray]
SERIES: dict[str, Causal] = {
    "schedule": lambda panel: roll(ConstantLookback(LOOKBACK), panel),
    "moves": last_moves,
    "weights": lambda panel: follower_weights(matrices(panel), last_moves(panel)),
    "instability": lambda panel: instability(matrices(panel), gap=5),
    "anomaly": lambda panel: anomaly_score(row_mean(matrices(panel)), history=10),
}
SERIES |= {
    feature.name: feature.compute for feature in leadlag_features("ccf_auc", ConstantLookback(LOOKBACK), gap_bars=5)
}
SERIES |= {name: (lambda panel, name=name: RANKINGS[name](matrices(panel))) for name in RANKINGS}
SERIES |= {
    name: (lambda panel, name=name: configure(ENCODERS[name], {}, "encoder").encode(matrices(panel), LOOKBACK))
    for name in ENCODERS
}


@pytest.mark.parametrize("name", list(SERIES))
@pytest.mark.parametrize("t", [35, 80, 148])
def test_later_bars_change_nothing(name: str, t: int) -> None:
    np.testing.assert_array_equal(SERIES[name](bars(altered_after=t))[: t + 1], SERIES[name](bars())[: t + 1])


@pytest.mark.parametrize("name", [name for name in SERIES if name not in ("schedule", "universe_mask", "lookback")])
def test_a_present_bar_does_change_the_value(name: str) -> None:
    assert not np.array_equal(SERIES[name](bars(altered_after=119))[120:], SERIES[name](bars())[120:], equal_nan=True)


def test_strategy_returns_reach_two_bars_ahead_and_no_further() -> None:
    def net(panel: Panel) -> np.ndarray:
        return follow_leaders(matrices(panel), last_moves(panel), fill_to_fill_returns(panel)).net

    kept, changed = net(bars()), net(bars(altered_after=100))
    np.testing.assert_array_equal(changed[:99], kept[:99])
    assert changed[99] != kept[99]
