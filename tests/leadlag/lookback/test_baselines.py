"""Baseline policies: what each chooses on a market where the answer is known, and that none but two look ahead."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pacesetter.data.synthetic import Synthetic
from pacesetter.errors import ConfigError, DataError
from pacesetter.leadlag.lookback.baselines import (
    CorrelationLookback,
    CrossValidatedLookback,
    HindsightLookback,
    RegimeOracle,
    ThompsonLookback,
    VolatilityLookback,
    WindowScores,
    baseline_policies,
)
from pacesetter.leadlag.lookback.policy import ConstantLookback, LookbackPolicy, roll
from pacesetter.panel import Panel

SCORES = WindowScores((10, 20, 80), "ccf_lag1")
NAMES = list(baseline_policies(SCORES))


def market(bars: int = 1500, change: int | tuple[int, int] = 0, **more: Any) -> Panel:
    """One group of one leader and five followers a bar later; regimes differ in volatility alone, or in `change`."""
    options: dict[str, Any] = {"regime_bars": 500.0} | more
    return Synthetic(
        symbols=6,
        bars=bars,
        seed=3,
        groups=1,
        unrelated_share=0.0,
        strength=1.5,
        negative_share=0.0,
        max_delay=1,
        market_correlation=0.0,
        volatility_clustering=0.0,
        tail_degrees=1e9,
        gap_share=0.0,
        path_steps=1,
        regimes={"calm": (0.0, 0.5), "wild": (0.0, 2.0)},
        relation_change_bars=change,
        **options,
    ).read()


@pytest.mark.parametrize("name", NAMES)
def test_every_baseline_keeps_the_protocol(name: str) -> None:
    policy, panel = baseline_policies(SCORES)[name], market(300)
    assert isinstance(policy, LookbackPolicy)
    schedule = roll(policy, panel)[100:]
    assert schedule.min() >= 10
    assert schedule.max() <= policy.longest <= 80
    np.testing.assert_array_equal(roll(policy, panel)[100:], schedule)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "hindsight"])
def test_choices_do_not_look_ahead(name: str) -> None:
    panel, policy = market(300), baseline_policies(SCORES)[name]
    whole = roll(policy, panel)
    for t in (120, 121, 200):
        assert policy.choose(panel.rows(0, t + 1), t, int(whole[t - 1])) == whole[t]


def test_hindsight_looks_ahead_and_is_the_ceiling() -> None:
    panel = market(600)
    table = SCORES.table(panel)
    known = np.flatnonzero(np.isfinite(table).all(axis=1))
    chosen = [SCORES.grid.index(HindsightLookback(SCORES).choose(panel, int(t), 0)) for t in known]
    np.testing.assert_array_equal(table[known, chosen], table[known].max(axis=1))
    assert table[known, chosen].mean() > table[known].mean(axis=0).max() + 0.03


def test_a_lasting_relation_asks_for_the_longest_window() -> None:
    panel = market()
    assert CrossValidatedLookback(SCORES).choose(panel, 1400, 0) == 80
    draws = [ThompsonLookback(SCORES).choose(panel, t, 0) for t in range(1200, 1400)]
    assert draws.count(80) > 120


def test_relations_that_change_soon_ask_for_a_short_window() -> None:
    panel = market(change=25)
    assert CrossValidatedLookback(SCORES, history_bars=1000).choose(panel, 1400, 0) < 80


def test_the_oracle_finds_the_window_of_each_regime_and_is_told_the_regime() -> None:
    panel = market(6000, change=(6000, 25))
    oracle = RegimeOracle.fit(panel, SCORES)
    calm, wild = oracle.windows
    assert wild < calm == 80
    assert [oracle.choose(panel, t, 0) for t in range(100)] == [oracle.windows[r] for r in panel.truth.regimes[:100]]


def test_where_volatility_tells_the_window_the_oracle_is_above_records_and_constants() -> None:
    """Each regime has leaders of its own; those of the wild one fill long windows, those of the calm one short ones."""
    panel = market(8000, regime_relations=True, transition=((39 / 40, 1 / 40), (1 / 30, 29 / 30)))
    scores = WindowScores((10, 20, 60, 250), "ccf_lag1")
    table, half = scores.table(panel), 4000
    oracle = RegimeOracle.fit(panel.rows(0, half), scores)
    assert oracle.windows[0] < oracle.windows[1] == 250

    def mean_score(policy: LookbackPolicy) -> float:
        bars = range(half, len(panel) - 3)
        return float(np.mean([table[t, scores.grid.index(policy.choose(panel, t, 0))] for t in bars]))

    others = [ConstantLookback(bars) for bars in scores.grid]
    others += [CrossValidatedLookback(scores, bars) for bars in (20, 60, 250)]
    assert mean_score(oracle) > 1.05 * max(map(mean_score, others))


def test_the_oracle_refuses_a_panel_without_truth(noise: Panel) -> None:
    with pytest.raises(DataError, match="truth of a synthetic market"):
        RegimeOracle((10, 20)).choose(noise, 50, 0)


def test_thompson_draws_differ_by_seed_and_bar() -> None:
    panel = market(300)
    first, second = (
        [ThompsonLookback(SCORES, seed=seed).choose(panel, t, 0) for t in range(40, 100)] for seed in (0, 1)
    )
    assert first != second
    assert len(set(first)) > 1


def test_turmoil_shortens_the_window(panel_of) -> None:
    size = np.where(np.arange(600) < 300, 0.01, np.where(np.arange(600) < 450, 0.05, 0.002))[:, None]
    panel = panel_of(size * np.random.default_rng(0).standard_normal((600, 4)))
    policy = VolatilityLookback(10, 250)
    assert policy.choose(panel, 340, 0) < 15
    assert policy.choose(panel, 490, 0) > 150
    assert policy.choose(panel, 10, 0) == 50  # the geometric middle before there is a history


def test_assets_that_move_together_lengthen_the_window(panel_of) -> None:
    rng = np.random.default_rng(0)
    common, own = rng.standard_normal((300, 1)), rng.standard_normal((300, 20))
    together, apart = panel_of(0.01 * (common + 0.05 * own)), panel_of(0.01 * own)
    policy = CorrelationLookback(10, 250)
    assert policy.choose(together, 250, 0) > 240
    assert policy.choose(apart, 250, 0) < 15


def test_bad_bounds_and_grids_are_refused() -> None:
    with pytest.raises(ConfigError, match="in order"):
        VolatilityLookback(50, 10)
    with pytest.raises(ConfigError, match="grid="):
        WindowScores((1, 20))


def test_before_anything_is_known_the_middle_of_the_grid_is_taken() -> None:
    assert CrossValidatedLookback(SCORES).choose(market(300), 5, 0) == 20
    assert isinstance(baseline_policies()["constant 60"], ConstantLookback)
