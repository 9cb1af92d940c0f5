"""What limits took from the weights, in words; the warnings of `ps.backtest` are tested in test_risk.py."""

from __future__ import annotations

import numpy as np
import pandas as pd

from pacesetter.evaluation.backtest.backtest import Backtest
from pacesetter.evaluation.backtest.cuts import describe_cuts, describe_limits
from pacesetter.market import Column, Fill, Limits, MarketParameters
from pacesetter.market.risk import Bound, RiskOptions

RISK = RiskOptions(0.1, "equal_weight", 0.04)


def played(wanted: list[list[float]], bounds: list[int] | None = None) -> Backtest:
    rows, count = len(wanted), len(wanted[0])
    times = pd.date_range("2024-01-01", periods=rows, tz="UTC")
    empty = np.zeros((rows, len(Column))), np.zeros((rows, count, len(Fill))), np.zeros((rows, count))
    risk = None if bounds is None else np.array([[1.0, 0.0, 0.1, 0.1, bound] for bound in bounds])
    names = tuple("ABC"[:count])
    return Backtest("mine", names, times, *empty, np.ones((rows, count)), 252.0, wanted=np.array(wanted), risk=risk)


def test_each_limit_is_named_with_what_it_took() -> None:
    rules = MarketParameters(limits=Limits(position_cap_fraction=0.6))
    said = describe_cuts(played([[0.8, 0.7, -0.2]]), rules)
    assert said.startswith("mine: 170% of equity was asked on average, and the limits left 100%: ")
    assert "shorting=false took 20.0%" in said
    assert "position_cap=0.6 took 30.0% (allow it by position_cap=0.8)" in said
    assert "leverage=1 took 20.0% (allow it by leverage=1.2)" in said
    assert describe_cuts(played([[0.5, 0.5, 0.0], [np.nan] * 3]), rules) == ""


def test_how_often_each_limit_acted() -> None:
    bounds = [0, Bound.POSITION_CAP, Bound.POSITION_CAP | Bound.LEVERAGE, 0]
    said = describe_limits(played([[0.1]] * 4, [int(bound) for bound in bounds]), RISK)
    assert said == "Limits that acted: position cap at 50.0% of the bars, leverage at 25.0% of the bars."
    assert describe_limits(played([[0.1]] * 4), RISK) == ""
    peak = played([[0.1]] * 4, [int(Bound.TRACKING_ERROR)] * 4)
    assert "tracking error at 100.0%" in describe_limits(peak, RISK)
    assert "peak of 1.5 times the target at 100.0%" in describe_limits(peak, RiskOptions(0.1))
