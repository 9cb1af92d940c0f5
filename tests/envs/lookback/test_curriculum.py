"""Which episodes are dealt: bounds that widen, starts, resolutions, synthetic markets, the worst windows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pacesetter.data.synthetic import Synthetic
from pacesetter.envs.lookback.actions import Clamp, Windows
from pacesetter.envs.lookback.curriculum import Curriculum, Episodes, EpisodeSampler, common_labels
from pacesetter.envs.lookback.environment import LookbackEnv
from pacesetter.envs.lookback.market import View
from pacesetter.errors import ConfigError, DataError
from pacesetter.panel import Panel

WINDOWS = Windows(shortest=8, longest=64, seen=(8, 16, 64), grid=(8, 16, 32, 64))


@pytest.fixture(scope="module")
def panel() -> Panel:
    return Synthetic(symbols=5, bars=600, seed=1).read()


def dealer(panel: Panel, **options: Any) -> EpisodeSampler:
    return EpisodeSampler(panel, WINDOWS, View(method="ccf_lag1", max_assets=6), Episodes(**options))


def generator() -> np.random.Generator:
    return np.random.default_rng(0)


def test_random_starts_differ_and_leave_room_for_the_episode(panel: Panel) -> None:
    deals, draw = dealer(panel, bars=100), generator()
    episodes = [deals.draw_episode(draw) for _ in range(200)]
    starts = {episode.start for episode in episodes}
    assert len(starts) > 100
    assert min(starts) >= 64
    assert all(episode.stop - episode.start == 99 for episode in episodes)
    assert max(episode.stop for episode in episodes) <= len(panel) - 3


def test_fixed_starts_are_one_and_the_same(panel: Panel) -> None:
    deals, draw = dealer(panel, starts="fixed", bars=None), generator()
    assert {deals.draw_episode(draw).start for _ in range(5)} == {64}
    assert deals.draw_episode(draw).stop == len(panel) - 3


def test_consecutive_episodes_cover_every_bar_once(panel: Panel) -> None:
    deals, draw = dealer(panel, starts="consecutive", bars=100), generator()
    episodes = [deals.draw_episode(draw) for _ in range(6)]
    covered = np.concatenate([np.arange(episode.start, episode.stop + 1) for episode in episodes])
    assert covered.tolist() == list(range(64, len(panel) - 2))


def test_stratified_starts_visit_every_regime_equally(panel: Panel) -> None:
    deals, draw = dealer(panel, starts="stratified"), generator()
    labels = common_labels(panel)
    drawn = [labels[deals.draw_episode(draw).start] for _ in range(600)]
    there = np.unique(labels[64:-2])
    shares = [drawn.count(label) / 600 for label in there]
    np.testing.assert_allclose(shares, 1 / len(there), atol=0.07)


def test_adversarial_starts_lie_before_the_planted_break(panel_with_break: Panel) -> None:
    deals, draw = dealer(panel_with_break, starts="adversarial", adversarial_count=1, bars=50), generator()
    episode = deals.draw_episode(draw)
    assert episode.start <= 300 <= episode.start + 40


@pytest.fixture(scope="module")
def panel_with_break() -> Panel:
    """Asset 0 leads the others by a bar until bar 300, asset 1 from then on."""
    import pandas as pd

    moves = 0.01 * np.random.default_rng(2).standard_normal((600, 5))
    returns = 0.1 * moves
    returns[:, :2] = moves[:, :2]
    for t in range(1, 600):
        leader = 0 if t < 300 else 1
        returns[t, [k for k in range(5) if k != leader]] += moves[t - 1, leader]
    close = 100 * np.exp(np.cumsum(returns, axis=0))
    return Panel.from_fields(pd.date_range("2020", periods=600, freq="D", tz="UTC"), list("ABCDE"), {"close": close})


def test_too_short_a_panel_is_refused_with_a_remedy(panel: Panel) -> None:
    with pytest.raises(DataError, match="60 bars leave no decision after 64"):
        dealer(panel.rows(0, 60)).draw_episode(generator())


# ---- bounds ---------------------------------------------------------------------------------------------------------


def test_bounds_widen_with_episodes(panel: Panel) -> None:
    deals = dealer(panel, curriculum=Curriculum(((8, 16), (8, 32), (8, 64)), episodes=3))
    seen = []
    for _ in range(9):
        seen.append(deals.bounds)
        deals.record_episode(0.0)
    assert seen == [(8, 16)] * 3 + [(8, 32)] * 3 + [(8, 64)] * 3


def test_bounds_widen_with_the_score_and_only_then(panel: Panel, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    deals = dealer(panel, curriculum=Curriculum(((8, 16), (8, 64)), advance="score", episodes=2, score=0.5))
    for score in (0.9, 0.0, 0.6):
        deals.record_episode(score)
        assert deals.bounds == (8, 16)
    deals.record_episode(0.4)
    assert deals.bounds == (8, 64)
    assert caplog.messages == ["level 1, stage 8 to 64 bars"]


def test_the_environment_keeps_to_the_stage_and_says_so(panel: Panel) -> None:
    env = LookbackEnv(
        panel,
        windows={"shortest": 8, "longest": 64, "seen": (8, 16, 64), "grid": (8, 16, 32, 64)},
        episodes={"bars": 3, "curriculum": {"stages": ((8, 20), (8, 64)), "episodes": 1}},
    )
    env.reset(seed=0)
    np.testing.assert_array_equal(env.action_masks(), [True, True, False, False])
    infos = [env.step(3)[4] for _ in range(3)]
    assert [(info["lookback"], info["clamped"]) for info in infos] == [(20, Clamp.BOUNDS)] * 3
    env.reset()
    assert env.step(3)[4]["lookback"] == 64
    env.reset(seed=0)
    assert env.step(3)[4]["lookback"] == 20  # a seed starts the curriculum over


# ---- markets --------------------------------------------------------------------------------------------------------


def test_resolutions_take_turns_or_follow_the_schedule(panel: Panel) -> None:
    deals, draw = dealer(panel, resolutions=("", "1W"), warmup_bars=10, bars=5), generator()
    assert [deals.draw_episode(draw).market.resolution for _ in range(4)] == ["", "1W", "", "1W"]
    deals = dealer(panel, resolutions=("1W", ""), resolution_from=(0, 2), warmup_bars=10, bars=5)
    assert [deals.draw_episode(draw).market.resolution for _ in range(4)] == ["1W", "1W", "", ""]
    assert len(deals.draw_episode(draw).market.panel) == 600


def test_synthetic_episodes_are_mixed_in_at_the_ratio_and_drawn_anew(panel: Panel) -> None:
    options = {"bars": 200, "symbols": 4, "randomise": {"strength": {"uniform": [0.2, 0.8]}}}
    deals = dealer(panel, synthetic_share=0.5, synthetic=options, synthetic_pool=2, synthetic_plays=3, bars=20)
    draw = generator()
    markets = [deals.draw_episode(draw).market for _ in range(60)]
    made = [market for market in markets if market.panel is not panel]
    assert 18 <= len(made) <= 42
    drawn = [market.panel.truth.drawn["strength"] for market in made]
    counts = [drawn.count(strength) for strength in dict.fromkeys(drawn)]
    assert len(counts) > 4
    assert max(counts) <= 3


def test_one_seed_deals_the_same_markets_and_logs_what_was_drawn(panel: Panel) -> None:
    options: dict[str, Any] = {"synthetic_share": 1.0, "bars": 10}
    options["synthetic"] = {"bars": 200, "randomise": {"noise": {"uniform": [0.5, 2]}}}
    env = LookbackEnv(panel, windows={"longest": 64, "seen": (8, 16, 64), "grid": (16, 64)}, episodes=options)
    first, second = (env.reset(seed=seed)[1]["drawn"]["noise"] for seed in (1, 2))
    assert first != second
    assert env.reset(seed=1)[1]["drawn"]["noise"] == first
    assert env.reset()[1]["drawn"]["noise"] != first


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bars": 0}, "episodes.bars=0"),
        ({"synthetic_share": 1.5}, "synthetic_share"),
        ({"resolutions": ("", "1W"), "resolution_from": (0,)}, "resolution_from"),
    ],
)
def test_episodes_that_cannot_be_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Episodes(**options)
    with pytest.raises(ConfigError, match="curriculum stages"):
        Curriculum(((16, 8),))
