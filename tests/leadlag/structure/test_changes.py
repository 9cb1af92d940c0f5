"""Change points: none in noise, the right ones where the strength changes, and intervals that hold."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import pacesetter as ps
from pacesetter.data import load
from pacesetter.errors import ConfigError, DataError
from pacesetter.leadlag.structure.changes import change_points, lead_periods


def test_noise_rarely_changes() -> None:
    found = sum(len(change_points(np.random.default_rng(seed).standard_t(4, 2000))[0]) > 1 for seed in range(100))
    assert found <= 6  # at 1 % of each split


def test_two_changes_are_dated_within_their_intervals() -> None:
    hits = tried = 0
    for seed in range(40):
        y = np.random.default_rng(seed).standard_normal(3000)
        y[1000:2000] += 0.5
        starts, reach = change_points(y)
        if len(starts) == 3:  # a split too many is made at 1 %
            tried += 2
            hits += (abs(starts[1] - 1000) <= reach[1]) + (abs(starts[2] - 2000) <= reach[2])
    assert tried >= 70
    assert hits >= 0.9 * tried


def test_the_largest_companies_lead_less_since_1987_and_not_since_2006() -> None:
    periods = ps.LeadLag().fit(load("deciles")).changes("size10", "size01", delay=1)
    leading = periods[periods["leads"] & (periods["forward"] > 0.1)]
    assert leading["first"].min().year < 1930
    assert leading["last"].max().year in range(2002, 2010)
    assert 1987 in leading["last"].dt.year.tolist()
    assert (periods["earliest"].iloc[1:] <= periods["first"].iloc[1:]).all()
    assert (periods["first"].iloc[1:] <= periods["latest"].iloc[1:]).all()


def test_too_few_bars_are_one_sentence() -> None:
    with pytest.raises(DataError, match=r"^change points need 240 bars with both symbols; these are 39$"):
        lead_periods(np.ones(100), np.ones(100), 1, pd.date_range("2020", periods=100, tz="UTC"))


def test_an_interval_allows_for_the_choice_of_the_strongest() -> None:
    leader, follower = np.random.default_rng(5).standard_normal((2, 600))
    index = pd.date_range("2020", periods=600, tz="UTC")
    alone, chosen = (lead_periods(leader, follower, 1, index, chosen_from=n).iloc[0] for n in (1, 30))
    assert (chosen["high"] - chosen["low"]) / (alone["high"] - alone["low"]) == pytest.approx(3.144 / 1.960, abs=1e-3)


def test_symbols_that_predict_each_other_alike_lead_at_no_time() -> None:
    led = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        factor = rng.standard_normal(1500)
        for t in range(1, len(factor)):
            factor[t] += 0.3 * factor[t - 1]
        x = factor[:, None] + 0.5 * rng.standard_normal((len(factor), 2))
        periods = lead_periods(x[:, 0], x[:, 1], 1, pd.date_range("2000", periods=len(x)), chosen_from=10)
        assert (periods["low"] > 0).any()
        led += bool(periods["leads"].any())
    assert led <= 2


def test_a_symbol_does_not_lead_itself() -> None:
    with pytest.raises(ConfigError, match="size10 is named as leader and as follower; name two symbols"):
        ps.LeadLag().fit(load("deciles")).changes("size10", "size10")
