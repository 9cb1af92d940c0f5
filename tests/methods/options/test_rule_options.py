"""The written options against their definitions, one situation at a time."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from pacesetter.errors import ConfigError
from pacesetter.methods.options.config import WRITTEN, FleetOptions, OptionRules
from pacesetter.methods.options.rule_options import Situation, endings, initiation, orders, read_market

RULES = OptionRules()


def situation(gap=0.0, deviation=0.01, last=0.0, weight=0.0, gain=0.0) -> Situation:
    return Situation(*(torch.tensor([value]) for value in (gap, deviation, last, weight, gain)))


def begins(**values) -> set[str]:
    opens = initiation(WRITTEN, situation(**values), RULES)[0]
    return {name for name, is_open in zip(WRITTEN, opens.tolist(), strict=True) if is_open}


def order(name, steps, **values) -> float:
    given = orders(WRITTEN, situation(**values), torch.tensor([float(steps)]), RULES)
    return round(float(given[0, WRITTEN.index(name)]), 6)


def ends(name, steps=1, opened=(), **values) -> float:
    opens = torch.tensor([[each in opened for each in WRITTEN]])
    given = endings(WRITTEN, situation(**values), torch.tensor([float(steps)]), opens, RULES)
    return round(float(given[0, WRITTEN.index(name)]), 6)


def test_signals_are_the_moving_averages_deviation_and_last_return():
    generator = np.random.default_rng(0)
    closes = 50 * np.exp(np.cumsum(generator.normal(0, 0.02, 40)))
    returns = np.diff(np.log(closes))
    gap, deviation, last = read_market(torch.tensor(returns[None])).squeeze(0).tolist()
    assert gap == pytest.approx(closes[-10:].mean() / closes[-20:].mean() - 1)
    assert deviation == pytest.approx(returns[-20:].std())
    assert last == pytest.approx(returns[-1])


def test_where_each_may_begin():
    assert begins() == {"open_long", "wait"}
    assert begins(weight=0.05) == {"close", "wait"}
    assert begins(weight=0.05, gap=0.021) == {"close", "trend", "wait"}
    assert begins(weight=0.05, gap=-0.016) == {"close", "trend", "wait"}  # 1.5 deviations are less than 2 %
    assert begins(gap=0.014) == {"open_long", "wait"}
    assert begins(last=-0.011) == {"open_long", "scalp", "wait"}
    assert begins(last=-0.009) == {"open_long", "wait"}


def test_orders_of_opening_and_closing():
    assert [order("open_long", steps) for steps in range(4)] == [0.3, 0.5, 0.5, 0.2]
    assert [order("open_long", steps, gain=0.02) for steps in range(4)] == [0.3, 0.0, 0.0, 0.2]
    gains = (-0.011, -0.005, 0.005, 0.015, 0.025)
    assert [order("close", 3, gain=gain, weight=0.1) for gain in gains] == [-1.0, 0.0, 0.0, -0.3, -0.8]


def test_orders_of_trend_scalp_and_wait():
    assert order("trend", 2, gap=0.03, weight=0.05) == 0.4
    assert order("trend", 2, gap=0.03, weight=0.11) == 0.0
    assert order("trend", 2, gap=-0.03, weight=0.05) == -0.6
    assert order("trend", 2, gap=-0.03) == 0.0  # nothing is held
    assert [order("scalp", steps) for steps in (0, 1, 4, 5)] == [0.3, 0.0, 0.0, -1.0]
    assert order("scalp", 1, gain=0.006) == -1.0  # half a deviation
    assert order("wait", 3, gain=0.5) == 0.0


def test_when_each_ends():
    assert ends("open_long", 3) == 0.1
    assert ends("open_long", 3, weight=0.11) == ends("open_long", 10) == 1.0
    assert ends("close", 3, weight=0.05) == 0.05
    assert ends("close", 3, weight=0.005) == 1.0
    assert ends("trend", 3, gap=0.016) == 0.1
    assert ends("trend", 3, gap=0.007) == 0.8  # below half of 1.5 deviations
    assert ends("scalp", 1, weight=0.05) == 0.0
    assert ends("scalp", 1) == 1.0
    assert ends("wait", 3) == 0.2
    assert ends("wait", 3, opened=("scalp",)) == 1.0
    assert ends("wait", 3, opened=("wait",)) == 0.2


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"options": ("wait", "fly")}, "agent.options has no option 'fly'"),
        ({"options": ("open_long", "close")}, "must name wait"),
        ({"options": ("wait",)}, "at least one other"),
        ({"option_timeout": 1}, "option_timeout=1"),
        ({"epsilon": 1.5}, "epsilon=1.5"),
    ],
)
def test_what_cannot_be_options_is_refused(given, sentence):
    with pytest.raises(ConfigError, match=sentence):
        FleetOptions(**given)


def test_rules_are_refused_outside_their_ranges():
    with pytest.raises(ConfigError, match=r"agent\.rules\.wait_ends=2"):
        OptionRules(wait_ends=2.0)
    assert FleetOptions(options=("wait", "close")).names == ("close", "wait")
    assert FleetOptions(kind="learned", count=2).names == ("option_1", "option_2")
    assert math.isclose(FleetOptions(seen_bars=30).history_bars, 30)
