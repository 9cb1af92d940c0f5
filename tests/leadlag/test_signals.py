"""Lead–lag features: the planted leader scores highest, its move is expected of its followers, a break shows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from pacesetter.data import load
from pacesetter.errors import ConfigError
from pacesetter.leadlag import LeadLag, signals
from pacesetter.leadlag.lookback.policy import ConstantLookback, LookbackPolicy, roll
from pacesetter.leadlag.shrinkage import SHRINKAGE, shrink
from pacesetter.leadlag.signals import expected_follow_through, expected_returns, leadlag_features
from pacesetter.leadlag.structure.ranking import row_mean
from pacesetter.panel import Panel

BREAK = 200
POLICY = ConstantLookback(60)


def market(bars: int = 400, seed: int = 0) -> Panel:
    """A leads B … D by one bar until BREAK; then D leads A … C."""
    rng = np.random.default_rng(seed)
    moves = rng.standard_normal((bars, 4))
    own = moves.copy()
    moves[1:BREAK, 1:] += own[: BREAK - 1, :1]
    moves[BREAK:, :3] += own[BREAK - 1 : -1, 3:]
    close = 100 * np.exp(0.01 * np.cumsum(moves, axis=0))
    return Panel.from_fields(pd.date_range("2023", periods=bars, tz="UTC"), list("ABCD"), {"close": close})


def computed(panel: Panel, **options: object) -> dict[str, np.ndarray]:
    features = leadlag_features("ccf_lag1", POLICY, **options)
    return {feature.name.removeprefix("leadlag_"): feature.compute(panel) for feature in features}


def test_the_leader_scores_highest_on_both_sides_of_the_break() -> None:
    score = computed(market())["leader_score"]
    assert (score[80:BREAK].argmax(axis=1) == 0).all()
    assert (score[BREAK + 60 :].argmax(axis=1) == 3).all()


def test_scaled_features_are_the_same_in_a_market_of_another_volatility() -> None:
    calm = market()
    wild = Panel.from_fields(calm.index, list(calm.symbols), {"close": 100 * (calm.close / 100) ** 3})
    (calm_now, wild_now), (plain_calm, plain_wild) = (
        [computed(panel, is_scaled=is_scaled) for panel in (calm, wild)] for is_scaled in (True, False)
    )
    assert set(calm_now) == {"leader_score", "follow_through_scaled", "instability", "expected_scaled"}
    np.testing.assert_allclose(wild_now["expected_scaled"], calm_now["expected_scaled"], rtol=1e-6)
    # Moves of leaders are simple returns, which three times the log return is near to.
    np.testing.assert_allclose(wild_now["follow_through_scaled"], calm_now["follow_through_scaled"], atol=0.15)
    assert np.nanstd(plain_wild["expected"]) > 2.5 * np.nanstd(plain_calm["expected"])
    deviation = np.log(calm.close[90:151]).T
    own = np.diff(deviation).std(axis=1, ddof=1)
    np.testing.assert_allclose(calm_now["expected_scaled"][150], plain_calm["expected"][150] / own)


def test_standardised_features_are_in_deviations_of_the_symbols_own_latest_values() -> None:
    panel = market()
    plain, found = computed(panel), computed(panel, standardise_bars=80)
    assert set(found) == {f"{name}_standard" for name in plain}
    for name, values in plain.items():
        window = values[221:301]
        expected = (values[300] - window.mean(axis=0)) / window.std(axis=0)
        np.testing.assert_allclose(found[f"{name}_standard"][300], expected, rtol=1e-9)


def test_a_standardised_feature_declares_its_memory_and_grows_to_its_window() -> None:
    panel = market()
    for feature in leadlag_features("ccf_lag1", POLICY, standardise_bars=80):
        values, latest = feature.compute(panel), panel.rows(len(panel) - feature.memory_bars)
        np.testing.assert_allclose(feature.compute(latest)[-1], values[-1], rtol=1e-9, atol=1e-12)
        first = np.isfinite(values).all(axis=1).argmax()
        assert first == feature.memory_bars - 80 + signals.FIRST_BARS - 1


def test_a_gap_is_neither_counted_nor_spread_and_what_stands_still_is_0() -> None:
    values = np.random.default_rng(0).standard_normal((200, 3))
    values[:, 1] = 7.0
    values[100:120, 2] = np.nan
    found = signals.standardise_rolling(values, 80)
    assert np.isnan(found[: signals.FIRST_BARS - 1]).all()
    assert (found[signals.FIRST_BARS - 1 :, 1] == 0).all()
    packed = signals.standardise_rolling(np.delete(values[:, 2:], np.s_[100:120], axis=0), 80)
    np.testing.assert_array_equal(np.delete(found[:, 2:], np.s_[100:120], axis=0), packed)
    assert np.isnan(found[100:120, 2]).all()


def test_the_score_is_the_row_mean_of_the_window_that_ends_at_the_bar() -> None:
    panel = market()
    matrix = LeadLag("ccf_lag1").fit(panel).scores(150, 60)
    np.testing.assert_array_equal(computed(panel)["leader_score"][150], row_mean(matrix))


def test_follow_through_foretells_the_followers_next_move() -> None:
    panel = market()
    expected = computed(panel)["follow_through"][80 : BREAK - 1, 1:]
    following = np.diff(np.log(panel.close), axis=0)[80 : BREAK - 1, 1:]
    assert np.corrcoef(expected.ravel(), following.ravel())[0, 1] > 0.4


def test_follow_through_by_hand() -> None:
    matrix = np.array([[0.0, 1.0, 3.0], [-1.0, 0.0, 1.0], [-3.0, -1.0, 0.0]])
    np.testing.assert_allclose(expected_follow_through(matrix, np.array([0.02, -0.02, 9.0])), [np.nan, 0.02, 0.01])
    np.testing.assert_allclose(expected_follow_through(matrix, np.array([np.nan, -0.02, 9.0])), [np.nan, np.nan, -0.02])


def delayed(bars: int = 600, seed: int = 3) -> Panel:
    """B follows A after three bars with the opposite sign; C and D follow nobody."""
    moves = np.random.default_rng(seed).standard_normal((bars, 4))
    moves[3:, 1] -= moves[:-3, 0]
    close = 100 * np.exp(0.01 * np.cumsum(moves, axis=0))
    return Panel.from_fields(pd.date_range("2023", periods=bars, tz="UTC"), list("ABCD"), {"close": close})


def test_expected_knows_delay_and_sign_and_keeps_silent_where_nothing_leads() -> None:
    panel = delayed()
    expected = expected_returns(panel, np.arange(250, len(panel)), np.full(len(panel) - 250, 250))
    following = np.diff(np.log(panel.close), axis=0)[300:]
    said = expected[300:-1]
    assert np.corrcoef(said[:, 1], following[:, 1])[0, 1] > 0.6
    assert (said[:, 1] != 0).all()
    assert np.abs(said[:, [0, 2, 3]]).mean() < 0.25 * np.abs(said[:, 1]).mean()


def test_expected_by_hand() -> None:
    panel, lookback, t = delayed(), 100, 400
    x = np.diff(np.log(panel.close), axis=0, prepend=np.log(panel.close[:1]))
    window = x[t - lookback + 1 : t + 1]
    sure = np.sqrt(2 * np.log(3 * 3) / lookback)
    expected = np.zeros(4)
    for lag in (1, 2, 3):
        for i, j in np.argwhere(~np.eye(4, dtype=bool)):
            correlation = np.corrcoef(window[:-lag, i], window[lag:, j])[0, 1]
            if abs(correlation) > sure:
                expected[j] += correlation * x[t + 1 - lag, i] / window[:, i].std() * window[:, j].std()
    found = expected_returns(panel, np.array([t]), np.array([lookback]), lags=3, shrinkage="hard")
    np.testing.assert_allclose(found[t], expected, rtol=1e-9, atol=1e-15)
    assert np.isnan(found[:t]).all()


def test_an_asset_that_is_not_there_yet_is_unknown_and_pushes_nobody() -> None:
    panel = delayed()
    close = panel.close.copy()
    close[:500, 2] = np.nan
    late = Panel.from_fields(panel.index, panel.symbols, {"close": close})
    for feature in leadlag_features("ccf_lag1", POLICY):
        values = feature.compute(late)
        assert np.isnan(values[100:400, 2]).all() or feature.name == "leadlag_instability"
        assert np.isfinite(values[100:400, [0, 1, 3]]).all()


def test_where_nobody_leads_nothing_is_promised() -> None:
    """Two assets: one leads the other, and nobody leads it, which is not a reason to know nothing of it."""
    panel = delayed()
    pair = Panel.from_fields(panel.index, ("A", "B"), {"close": panel.close[:, :2]})
    follow_through = {f.name: f.compute(pair) for f in leadlag_features("ccf_auc", POLICY)}["leadlag_follow_through"]
    assert ((follow_through[POLICY.bars :] == 0).sum(axis=1) == 1).mean() > 0.9
    assert np.isfinite(follow_through[POLICY.bars :]).all()


def test_instability_peaks_after_the_break() -> None:
    unstable = computed(market())["instability"]
    assert BREAK < np.nanargmax(unstable[:, 0]) < BREAK + 60
    assert (unstable[100] == unstable[100, 0]).all()


def test_blocks_do_not_change_the_values(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = computed(market())
    monkeypatch.setattr(signals, "BLOCK_BYTES", 30 * 4 * 4 * 8)
    for name, values in computed(market()).items():
        np.testing.assert_array_equal(values, whole[name])


def test_features_declare_enough_memory() -> None:
    panel = market()
    for feature in leadlag_features("ccf_lag1", POLICY):
        latest = panel.rows(len(panel) - feature.memory_bars)
        np.testing.assert_allclose(feature.compute(latest)[-1], feature.compute(panel)[-1], rtol=1e-9, atol=1e-12)


def test_values_are_unknown_until_the_memory_is_full() -> None:
    for feature in leadlag_features("ccf_lag1", POLICY, gap_bars=15):
        known = np.isfinite(feature.compute(market())).any(axis=1)
        assert known.argmax() == feature.memory_bars - 1


def test_a_panel_shorter_than_the_window_has_no_values() -> None:
    assert all(np.isnan(values).all() for values in computed(market().rows(0, 30)).values())


def test_the_policy_is_rolled_once_for_the_four_features() -> None:
    class Counting(LookbackPolicy):
        longest = 60
        asked = 0

        def choose(self, panel: Panel, t: int, previous: int) -> int:
            Counting.asked += 1
            return 60

    panel = market()
    for feature in leadlag_features("ccf_lag1", Counting()):
        feature.compute(panel)
    assert Counting.asked == np.count_nonzero(roll(POLICY, panel))


def test_names_and_refusals() -> None:
    names = [feature.name for feature in leadlag_features()]
    assert names == ["leadlag_leader_score", "leadlag_follow_through", "leadlag_instability", "leadlag_expected"]
    with pytest.raises(ConfigError, match="gap_bars=0"):
        leadlag_features(gap_bars=0)
    with pytest.raises(ConfigError, match="expected_lags=0"):
        leadlag_features(expected_lags=0)
    with pytest.raises(ConfigError, match="did you mean 'soft'"):
        leadlag_features(shrinkage="sof")
    with pytest.raises(ConfigError, match="standardise_bars=59"):
        leadlag_features(standardise_bars=59)


# ---- shrinkage, and a window of its own -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "expected"),
    [("hard", [0.0, 0.0, 0.3, -0.4]), ("soft", [0.0, 0.0, 0.1, -0.2]), ("garrote", [0.0, 0.0, 1 / 6, -0.3])],
)
def test_shrinkage_by_hand(name: str, expected: list[float]) -> None:
    correlations = np.array([0.1, -0.2, 0.3, -0.4])
    shrunk = [shrink(value, 0.2, SHRINKAGE.index(name)) for value in correlations]
    np.testing.assert_allclose(shrunk, expected)


@pytest.mark.parametrize("shrinkage", ["soft", "garrote"])
def test_shrinkage_takes_nothing_else_away_and_adds_nothing(shrinkage: str) -> None:
    """Of the same links, smaller: where nothing is firm nothing is expected by any of them."""
    panel, bars = market(), np.arange(60, 400)
    firm = expected_returns(panel, bars, np.full(340, 60), shrinkage="hard")
    less = expected_returns(panel, bars, np.full(340, 60), shrinkage=shrinkage)
    np.testing.assert_array_equal(firm[60:] == 0, less[60:] == 0)
    assert np.abs(less[60:]).sum() < np.abs(firm[60:]).sum()


def test_expected_has_a_window_of_its_own_that_grows_to_its_length() -> None:
    panel = market()
    found = computed(panel, expected_lookback=150, shrinkage="soft")
    same = computed(panel)
    for name in ("leader_score", "follow_through", "instability"):
        np.testing.assert_array_equal(found[name], same[name])
    known = np.isfinite(found["expected"]).all(axis=1)
    assert known.argmax() == signals.FIRST_BARS
    for t, lookback in ((100, 100), (150, 150), (390, 150)):
        alone = expected_returns(panel, np.array([t]), np.array([lookback]), shrinkage="soft")
        np.testing.assert_array_equal(found["expected"][t], alone[t])


def test_the_memory_of_expected_is_that_of_its_own_window_and_the_newest_bars_are_the_same() -> None:
    panel = market()
    *_, expected = leadlag_features("ccf_lag1", POLICY, expected_lookback=150, shrinkage="soft")
    assert expected.memory_bars == 151
    latest = panel.rows(len(panel) - expected.memory_bars)
    np.testing.assert_allclose(expected.compute(latest)[-1], expected.compute(panel)[-1], rtol=1e-9, atol=1e-12)
    *_, newest = leadlag_features("ccf_lag1", POLICY, expected_lookback=150, shrinkage="soft", newest_bars=3)
    values = newest.compute(panel)
    assert np.isnan(values[:-3]).all()
    np.testing.assert_array_equal(values[-3:], expected.compute(panel)[-3:])


def test_an_asset_without_bars_does_not_hide_the_others_when_links_are_shrunk() -> None:
    panel = delayed()
    close = panel.close.copy()
    close[:500, 2] = np.nan
    late = Panel.from_fields(panel.index, panel.symbols, {"close": close})
    *_, expected = leadlag_features("ccf_lag1", POLICY, shrinkage="soft")
    assert np.isfinite(expected.compute(late)[100:400, [0, 1, 3]]).all()


# ---- measured once --------------------------------------------------------------------------------------------------


class Noted(LookbackPolicy):
    """A policy that notes the bars it was asked at."""

    longest = 40

    def __init__(self, has_memory: bool = False) -> None:
        self.has_memory, self.bars = has_memory, []

    def choose(self, panel, t: int, previous: int) -> int:
        self.bars.append(t)
        return 20 + 20 * int(abs(panel.close[t, 0] * 1000) % 2)


def stressed(panel, start: int):
    return replace(panel, blocks=np.where(np.arange(len(panel))[:, None] >= start, 1.3, 1.0) * panel.blocks, truth=None)


def test_a_panel_that_begins_alike_is_measured_from_the_first_bar_that_differs():
    panel = load("synthetic", symbols=5, bars=260, seed=8)
    policy, start = Noted(), 180
    features = leadlag_features(policy=policy, gap_bars=7)
    fresh = {panel: leadlag_features(policy=Noted(), gap_bars=7) for panel in (panel, stressed(panel, start))}
    part = panel.rows(0, 120)
    for asked, known in ((part, 2), (panel, 120), (stressed(panel, start), start), (part, 260)):
        policy.bars.clear()
        for own, other in zip(features, fresh.get(asked, fresh[panel]), strict=True):
            expected = other.compute(panel if asked is part else asked)[: len(asked)]
            np.testing.assert_array_equal(own.compute(asked), expected)
        assert policy.bars == list(range(known, len(asked)))


def test_a_policy_that_remembers_is_asked_from_the_first_bar_again():
    panel = load("synthetic", symbols=3, bars=120, seed=8)
    policy = Noted(has_memory=True)
    feature, *_ = leadlag_features(policy=policy)
    feature.compute(panel.rows(0, 90))
    policy.bars.clear()
    feature.compute(panel)
    assert policy.bars == list(range(2, 120))
