"""Synthetic paths, adversarial windows and other universes as scenarios."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from pacesetter.data import load
from pacesetter.errors import ConfigError, DataError
from pacesetter.evaluation.backtest.markets import (
    adversarial_scenarios,
    monte_carlo_scenarios,
    universe_scenarios,
    unstable_windows,
)
from pacesetter.evaluation.backtest.scenarios import evaluate_scenarios, spread
from pacesetter.policies.policy import Policy, Snapshot


@dataclass
class Trained(Policy):
    """A policy that was fitted long after the dates of any synthetic market."""

    name: str = "trained"
    action: str = "target"
    fitted_until: str = "2030-01-01"

    def decide(self, seen: Snapshot) -> Any:
        return np.full(len(seen.panel.symbols), 0.1)


def test_paths_are_like_the_market_and_differ_by_seed() -> None:
    like = load("sample", symbols=["KO", "AAPL", "GE"])
    first, second = monte_carlo_scenarios(like, paths=2, bars=300, seed=5)
    assert first.panel.fields == ("close",)
    assert len(first.panel.symbols) == 3
    assert len(first.panel) == 300
    assert first.panel != second.panel
    assert next(monte_carlo_scenarios(like, paths=1, bars=300, seed=6)).panel == second.panel


def test_a_policy_is_judged_over_many_paths_whatever_their_dates() -> None:
    like = load("synthetic", symbols=4, bars=300)
    table = evaluate_scenarios(["cash", Trained()], monte_carlo_scenarios(like, paths=4, bars=300, groups=0))
    found = spread(table, "total_return")
    assert found.loc["cash", ["mean", "lowest", "highest"]].tolist() == [0, 0, 0]
    assert found.loc["trained", "lowest"] < found.loc["trained", "highest"]


def test_options_of_the_paths_are_checked() -> None:
    like = load("synthetic", symbols=4, bars=300)
    with pytest.raises(ConfigError, match=r"unknown option 'monte_carlo\.volatilty'"):
        next(monte_carlo_scenarios(like, volatilty=0.3))
    with pytest.raises(ConfigError, match="bars=200"):
        next(monte_carlo_scenarios(like, bars=200))


def test_the_windows_in_which_leaders_changed_are_found_and_played() -> None:
    panel = load("synthetic", symbols=6, bars=700, seed=3, strength=1.0, relation_change_bars=350, max_delay=1)
    windows = unstable_windows(panel, 200, 3, lookback=60, step=20)
    worst = windows.iloc[0]
    assert worst["start"] < 370 <= worst["end"] + 60  # where the relations were drawn again
    assert (windows["start"] >= 200).all()
    scenarios = adversarial_scenarios(panel, windows)
    assert [(scenario.first, scenario.last) for scenario in scenarios] == list(
        windows[["start", "end"]].itertuples(index=False, name=None)
    )
    table = evaluate_scenarios(["equal_weight"], scenarios)
    assert table["bars"].tolist() == [60.0] * len(windows)
    with pytest.raises(DataError, match="no window of 60 returns can be scored after bar 680"):
        unstable_windows(panel, 680)


def test_universes_share_no_symbol_and_cover_all() -> None:
    panel = load("synthetic", symbols=5, bars=300)
    one, two = (scenario.panel for scenario in universe_scenarios(panel, 200, 2))
    assert set(one.symbols) | set(two.symbols) == set(panel.symbols)
    assert not set(one.symbols) & set(two.symbols)
    np.testing.assert_array_equal(one.close, panel.select(one.symbols).close)
    with pytest.raises(ConfigError, match="parts=6 must be 1 … 5"):
        universe_scenarios(panel, 200, 6)
