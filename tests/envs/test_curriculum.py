"""Curricula: which starts and costs a stage gives, when it is left, and that no running episode is touched."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
import pytest

from pacesetter.data.synthetic import Synthetic
from pacesetter.envs import LookbackEnv, PortfolioVectorEnv, TradingEnv, TradingVectorEnv
from pacesetter.envs.curriculum import (
    FIVE_STAGES,
    Course,
    CurriculumEnv,
    CurriculumStage,
    CurriculumVectorEnv,
    adaptive_stages,
)
from pacesetter.errors import ConfigError, DataError
from pacesetter.features import REGIMES, feature_table, regime_labels
from pacesetter.market.ledger import Column
from pacesetter.market.parameters import Slot
from pacesetter.panel import Panel

BARS = 4  # of an episode


@pytest.fixture(scope="module")
def noisy() -> list[Panel]:
    """Three markets of two symbols, ever noisier."""
    return [Synthetic(symbols=2, bars=260, seed=1, noise=noise).read() for noise in (0.5, 1.0, 2.0)]


def course_of(market: Panel, stages: Any, count: int = 1, **options: Any) -> Course:
    return Course(TradingVectorEnv(market, count, **options).batch, stages)


def played(course: Course, *returns: float, count: int = 1) -> None:
    """Let the course hear of one-bar episodes with these returns, each in all environments at once."""
    for change in returns:
        ledger = np.zeros((count, len(Column)))
        ledger[:, Column.EQUITY_BEFORE], ledger[:, Column.EQUITY_CHANGE] = 100.0, 100.0 * change
        course.begin(slice(None))
        course.observe_step(ledger, np.ones(count, dtype=bool))


def test_five_stages_grow_from_calm_and_free_to_the_market_as_it_is(market: Panel) -> None:
    batch = TradingVectorEnv(market, 1).batch
    everything, own = len(batch.starts.pool), batch.parameters[1, 0].copy()
    course = Course(batch, [replace(stage, episodes=1, sharpe=-9.0, win_rate=0.1) for stage in FIVE_STAGES])
    assert batch.parameters[1, 0, [Slot.COMMISSION, Slot.HALF_SPREAD, Slot.SLIPPAGE]].tolist() == [0, 0, 0]
    played(course, *[0.01] * 9)
    log = course.stage_log
    assert [entry["stage"] for entry in log] == [stage.name for stage in FIVE_STAGES]
    assert [entry["episode"] for entry in log] == [0, 1, 2, 3, 4]
    for rising in ("starts", "commission_bps", "spread_bps", "slippage_bps"):
        values = [entry[rising] for entry in log]
        assert values == sorted(values)
        assert values[0] < values[-1]
    assert log[-1]["starts"] == everything
    assert np.array_equal(batch.parameters[1, 0], own)


def test_starts_of_a_stage_are_of_its_regimes_volatility_and_trend(market: Panel) -> None:
    stage = CurriculumStage("x", calmest_share=0.5, clearest_share=0.4, regimes=("bull", "sideways"))
    env = TradingVectorEnv(market, 1)
    everything = env.batch.starts.pool
    Course(env.batch, [stage])
    table, labels = feature_table(market), regime_labels(market)
    rank, trend = (
        np.abs(table.values[:, :, table.names.index(f"regime_{name}")])
        for name in ("volatility_rank", "trend_efficiency")
    )

    def at(values: Any, pool: Any) -> Any:
        return values[pool[:, 0], pool[:, 1]]

    kept = env.batch.starts.pool
    assert {REGIMES[label] for label in at(labels.T, kept)} == {"bull", "sideways"}
    assert at(rank, kept).max() <= np.quantile(at(rank, everything), 0.5)
    assert at(trend, kept).min() >= np.quantile(at(trend, everything), 0.6)
    assert 0 < len(kept) < 0.5 * len(everything)


def test_cleaner_markets_come_first(noisy: list[Panel]) -> None:
    env = TradingVectorEnv(noisy, 3)
    noise = np.repeat([0.5, 1.0, 2.0], 2)
    stages = [
        CurriculumStage(name, cleanest_share=share, episodes=1, sharpe=-9)
        for name, share in (("a", 0.3), ("b", 0.6), ("c", 1.0))
    ]
    course = Course(env.batch, stages, noise)
    blocks = [set(env.batch.starts.pool[:, 0].tolist())]
    for _ in range(2):
        played(course, 0.01, count=3)
        blocks.append(set(env.batch.starts.pool[:, 0].tolist()))
    assert blocks == [{0, 1}, {0, 1, 2, 3}, {0, 1, 2, 3, 4, 5}]


@pytest.mark.parametrize(
    ("returns", "level"),
    [
        ([0.01, 0.02], 0),  # too few episodes
        ([0.01, 0.02, 0.01], 1),
        ([-0.01, -0.01, 0.05], 0),  # a third of the episodes gained: Sharpe is met, win rate is not
        ([0.001, 0.001, -0.05], 0),  # two thirds gained, at a negative Sharpe
        ([-0.05, 0.01, 0.02, 0.01], 1),  # only the latest three count
        ([0.0, 0.0, 0.0], 0),  # staying in cash is not a success
    ],
)
def test_advance_needs_episodes_sharpe_and_win_rate(market: Panel, returns: list[float], level: int) -> None:
    course = course_of(
        market, [CurriculumStage("first", episodes=3, sharpe=0.5, win_rate=0.6), CurriculumStage("last")]
    )
    played(course, *returns)
    assert course.level == level


def test_log_has_the_sharpe_ratio_and_the_share_of_gains(market: Panel, caplog: pytest.LogCaptureFixture) -> None:
    returns = [0.01, -0.01, 0.03, 0.02]
    course = course_of(market, [CurriculumStage("first", episodes=4), CurriculumStage("second")])
    with caplog.at_level(logging.INFO, "pacesetter.envs.curriculum"):
        played(course, *returns)
    entry = course.stage_log[-1]
    assert entry["sharpe"] == pytest.approx(np.mean(returns) / np.std(returns, ddof=1) * np.sqrt(252))
    assert (entry["win_rate"], entry["stage"], entry["episode"]) == (0.75, "second", 4)
    assert "stage second" in caplog.text


def test_adaptive_difficulty_goes_up_and_down_with_success(market: Panel) -> None:
    stages = adaptive_stages(levels=5, episodes=2)
    course = course_of(market, stages)
    played(course, *[0.01] * 6)
    assert course.level == 3
    played(course, 0.01, -0.01)  # a half gained: stay
    assert course.level == 3
    played(course, -0.01, -0.01)
    assert [entry["level"] for entry in course.stage_log] == [0, 1, 2, 3, 2]
    played(course, *[-0.01] * 20)
    assert course.level == 0
    assert course.stage is stages[0]


def test_adaptive_stages_move_spread_volatility_trend_and_noise_evenly() -> None:
    stages = adaptive_stages(levels=3)
    assert [stage.spread_factor for stage in stages] == [0.0, 1.0, 2.0]
    for name in ("calmest_share", "clearest_share", "cleanest_share"):
        assert [getattr(stage, name) for stage in stages] == pytest.approx([0.3, 0.65, 1.0])
    assert stages[-1].name == "difficulty 100%"


def test_a_running_episode_keeps_its_costs(market: Panel) -> None:
    stages = [
        CurriculumStage("free", 1.0, 1.0, 1.0, (), 0, 0, 0, episodes=1, sharpe=-9, win_rate=0.1),
        CurriculumStage("dear"),
    ]
    env = CurriculumEnv(TradingEnv(market, "S0", episode_bars=BARS, action="continuous"), stages)
    env.reset(seed=3)
    costs: list[float] = []
    for step in range(40 * BARS):
        _, _, terminated, truncated, info = env.step([1.0 if step % 2 else -1.0])
        costs.append(float(info["ledger"][Column.COST]))
        if terminated or truncated:
            if env.course.level == 1:
                break
            env.reset()
    assert env.course.level == 1
    assert sum(costs) == 0.0
    env.reset()
    assert sum(float(env.step([1.0])[4]["ledger"][Column.COST]) for _ in range(BARS)) > 0.0


def test_vector_rows_change_with_their_next_episode_and_old_ones_are_not_judged(market: Panel) -> None:
    free = CurriculumStage("free", 1.0, 1.0, 1.0, (), 0, 0, 0, episodes=2, sharpe=-9, win_rate=0.1)
    env = CurriculumVectorEnv(
        TradingVectorEnv(market, 6, episode_bars=BARS), [free, CurriculumStage("own", episodes=50)]
    )
    env.reset(seed=1)
    commission = []
    for _ in range(8 * BARS):
        env.step(np.full(6, 3))
        commission.append(env.batch.parameters[0, :, Slot.COMMISSION].tolist())
        if len(env.course.stage_log) == 2:
            break
    assert commission[-1] == [0.0] * 6  # restarted before the stage changed
    for _ in range(BARS):
        env.step(np.full(6, 3))
    assert (env.batch.parameters[0, :, Slot.COMMISSION] > 0).all()
    assert len(env.course.state_dict()["finished"]) == 0
    for _ in range(BARS):
        env.step(np.full(6, 3))
    assert len(env.course.state_dict()["finished"]) == 6


def test_masked_learning_on_a_curriculum(market: Panel) -> None:
    algorithms = pytest.importorskip("sb3_contrib")
    from pacesetter.learning.sb3.adapter import VectorAdapter

    env = CurriculumVectorEnv(TradingVectorEnv(market, 4, episode_bars=BARS), adaptive_stages(episodes=4))
    algorithms.MaskablePPO("MultiInputPolicy", VectorAdapter(env), n_steps=32, batch_size=64, n_epochs=1, seed=0).learn(
        128
    )
    assert env.course.episodes == 4 * 32 // BARS


def test_portfolio_and_partial_resets(market: Panel) -> None:
    env = CurriculumVectorEnv(PortfolioVectorEnv(market, 2, episode_bars=30))
    env.reset(seed=0)
    env.step(np.full((2, 4), 0.1))
    env.reset(options={"reset_mask": np.array([True, False])})
    assert env.course.state_dict()["sums"][:, 0].tolist() == [0, 1]


@pytest.mark.parametrize("single", [True, False])
def test_same_seed_same_course(market: Panel, single: bool) -> None:
    def play() -> tuple[list[Any], list[dict[str, Any]]]:
        stages = adaptive_stages(levels=4, episodes=3, advance_at=0.5, retreat_below=0.3)
        env: Any = (
            CurriculumEnv(TradingEnv(market, episode_bars=BARS), stages)
            if single
            else CurriculumVectorEnv(TradingVectorEnv(market, 2, episode_bars=BARS), stages)
        )
        env.reset(seed=5)
        env.action_space.seed(0)
        rewards = []
        for _ in range(120):
            _, reward, terminated, truncated, _ = env.step(env.action_space.sample())
            rewards.append(np.asarray(reward).tolist())
            if single and (terminated or truncated):
                env.reset()
        return rewards, env.course.stage_log

    one, other = play(), play()
    assert one == other
    assert len(one[1]) > 1


def test_stored_course_goes_on_where_it_was(market: Panel) -> None:
    stages = adaptive_stages(levels=3, episodes=2)
    one, other = course_of(market, stages), course_of(market, stages)
    played(one, 0.01, 0.01, 0.01)
    other.load_state_dict(one.state_dict())
    assert np.array_equal(one.batch.starts.pool, other.batch.starts.pool)
    assert np.array_equal(one.batch.parameters[1], other.batch.parameters[1])
    for course in (one, other):
        played(course, 0.01)
    assert other.level == 2
    assert one.stage_log == other.stage_log
    with pytest.raises(ConfigError, match="other stages or environments"):
        course_of(market, stages, count=2).load_state_dict(one.state_dict())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"calmest_share": 0.0}, "calmest_share=0.0 must be in"),
        ({"cleanest_share": float("nan")}, "cleanest_share=nan"),
        ({"spread_factor": -1.0}, "spread_factor=-1.0 must be 0 or more"),
        ({"regimes": ("bul",)}, "did you mean 'bull'"),
        ({"episodes": 0}, "1 episode or more"),
        ({"retreat_below": 0.6}, "retreat_below < win_rate"),
    ],
)
def test_stage_refuses(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        CurriculumStage("x", **options)


def test_course_refuses_what_it_cannot_lead(market: Panel, by_hand: Any) -> None:
    with pytest.raises(ConfigError, match="not LookbackEnv"):
        CurriculumEnv(LookbackEnv(market))
    with pytest.raises(ConfigError, match="not CartPoleEnv"):
        CurriculumEnv(gymnasium.make("CartPole-v1"))
    with pytest.raises(ConfigError, match="for each of the 4 blocks"):
        CurriculumEnv(TradingEnv(market), noise=[1.0, 2.0])
    with pytest.raises(ConfigError, match="needs a stage"):
        course_of(market, [])
    with pytest.raises(ConfigError, match="levels=1"):
        adaptive_stages(levels=1)
    bare = TradingEnv(**by_hand(range(100, 120)))
    with pytest.raises(ConfigError, match="'regime_volatility_rank', which the feature table lacks"):
        CurriculumEnv(bare, [CurriculumStage("calm", calmest_share=0.5)])
    with pytest.raises(DataError, match="stage 'bear': no start is left"):
        CurriculumEnv(bare, [CurriculumStage("bear", regimes=("bear",))])
