"""Small markets for direct learners."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from pacesetter.data.synthetic import Synthetic
from pacesetter.envs.batch.bank import Bank
from pacesetter.features import feature_table
from pacesetter.market.parameters import Costs, MarketParameters, Orders
from pacesetter.methods.direct.learner import DirectLearner
from pacesetter.methods.direct.options import Direct
from pacesetter.panel import Panel

CHEAP = MarketParameters(
    costs=Costs(commission_bps=1.0, spread_bps=1.0, slippage_bps=1.0),
    orders=Orders(smoothing_bars=1, minimum_trade=0.0),
)
DRIFT = {"calm": (-0.0072, 0.8), "wild": (-0.022, 1.4)}  # log drifts that make up for half the variance


def market_panel(strength: float, seed: int = 0, bars: int = 1200, symbols: int = 5) -> Panel:
    """One leader and its followers; nothing else pays."""
    return Synthetic(
        symbols=symbols,
        bars=bars,
        groups=1,
        unrelated_share=0.0,
        strength=strength,
        volatility=0.15,
        regimes=DRIFT,
        seed=seed,
    ).read()


def whole_bank(panel: Panel, names: Sequence[str] = ("return_1",)) -> Bank:
    return Bank.from_panels(panel, feature_table(panel, list(names)), is_whole=True)


Make = Callable[..., DirectLearner]


@pytest.fixture(scope="session")
def planted() -> Panel:
    return market_panel(0.8)


@pytest.fixture
def make_learner(planted: Panel) -> Make:
    """A learner on the first 800 bars of the planted market, or on another panel's."""

    def make(
        panel: Panel = planted, bars: int = 800, market: MarketParameters = CHEAP, **options: Any
    ) -> DirectLearner:
        return DirectLearner(whole_bank(panel.rows(0, bars)), market, Direct(**{"segments": 8} | options))

    return make
