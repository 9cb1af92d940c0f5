"""The programme's curriculum: stages on copies of the bars, what leaves one, the difficulty that adapts; fleets too."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pacesetter.build import build_panel, build_parts
from pacesetter.data.synthetic import Synthetic
from pacesetter.envs.batch.bank import Bank
from pacesetter.envs.batch.batch import Batch
from pacesetter.envs.curriculum import Course
from pacesetter.envs.difficulty import alter_returns
from pacesetter.envs.programme import AdaptiveCourse, Difficulty, copies_of, make_course, programme_stages
from pacesetter.errors import ConfigError
from pacesetter.features import feature_table
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.market.ledger import Column
from pacesetter.market.parameters import Slot

SYMBOLS = 2


@pytest.fixture(scope="module")
def bank() -> Bank:
    panel = Synthetic(symbols=SYMBOLS, bars=400, seed=1).read()
    copies = enumerate(copies_of("programme"))
    panels = [panel, *(alter_returns(panel, copy.noise, copy.volatility, seed=k) for k, copy in copies)]
    tables = [feature_table(each, ["return_1", "regime_trend_efficiency"]) for each in panels]
    return Bank.from_panels(panels, tables)


def course_of(bank: Bank, stages=None, kind=Course) -> Course:
    batch = Batch(bank, 2, window_bars=2, episode_bars=5)
    copies = np.arange(len(bank.lasts)) // SYMBOLS
    return kind(batch, stages, copies=copies) if stages else kind(batch, copies=copies)


def hear(course: Course, *returns: float) -> None:
    for change in returns:
        ledger = np.zeros((2, len(Column)))
        ledger[:, Column.EQUITY_BEFORE], ledger[:, Column.EQUITY_CHANGE] = 100.0, 100.0 * change
        course.begin(slice(None))
        course.observe_step(ledger, np.ones(2, dtype=bool))


def test_each_stage_plays_on_its_own_copy_at_its_own_costs(bank):
    easy = {"episodes": 2, "recent_success": 0.0, "sharpe": -9.0, "win_rate": 0.1}
    stages = [replace(stage, **easy) for stage in programme_stages()]
    course = course_of(bank, stages)
    for number, (cost, slippage) in enumerate([(1, 0), (10, 5), (20, 10), (30, 15), (30, 20)]):
        pool = course.batch.starts.pool
        assert set(pool[:, 0] // SYMBOLS) == {number + 1}
        rules = course.batch.parameters[1, 0]
        assert rules[Slot.COMMISSION] == pytest.approx(cost * 1e-4)
        assert rules[Slot.SLIPPAGE] == pytest.approx(slippage * 1e-4)
        hear(course, 0.01)
    assert [entry["stage"] for entry in course.stage_log] == [
        "bull",
        "mixed bullish",
        "sideways",
        "mixed bearish",
        "all",
    ]


def test_a_stage_is_left_by_all_its_criteria(bank):
    course = course_of(bank, programme_stages(episodes=20))
    hear(course, *[0.01, 0.02] * 4, -0.01, -0.02)  # it wins, but of the last ten episodes four have lost
    assert course.level == 0
    hear(course, *[0.01, 0.02] * 5)
    assert course.level == 1


def test_the_difficulty_follows_the_latest_episodes_within_its_bounds(bank):
    course = course_of(bank, kind=AdaptiveCourse)
    first = course.difficulty
    hear(course, *[0.03] * 10)
    assert course.difficulty == first.harder()
    assert course.batch.parameters[1, 0, Slot.HALF_SPREAD] == pytest.approx(0.001 * 1.1 / 2)
    stored = course.state_dict()
    hear(course, *[-0.03] * 30)
    assert course.difficulty.noise < first.noise
    other = course_of(bank, kind=AdaptiveCourse)
    other.load_state_dict(stored)
    assert other.difficulty == first.harder()
    hardest = easiest = Difficulty()
    for _ in range(100):
        hardest, easiest = hardest.harder(), easiest.easier()
    assert hardest == Difficulty(0.003, 1.5, 0.3, 0.5)
    assert easiest == Difficulty(0.0005, 0.3, 0.9, 0.05)


@pytest.mark.parametrize("task", [["agent=ppo"], ["task=fleet", "agent=ppo"]])
def test_noise_reaches_the_bars_from_the_command_line_and_validation_has_none(task):
    levels = "task.noise=[0,0,0,0,2]"
    common = ["data=synthetic", "data.symbols=2", "data.bars=500", "features.names=[return_1,regime_trend_efficiency]"]
    more = ["task.curriculum=programme", "task.window_bars=4", "task.episode_bars=20", "train.envs=2", levels]
    config = resolve([*task, *common, *more])
    panel = build_panel(config)
    parts = build_parts(config, panel)
    bars = parts.train.batch.bank.bars[:, :300, 0, 3]  # closes
    own = np.diff(np.log(bars), axis=1).std(axis=1).reshape(-1, 2).mean(axis=1)
    assert own[5] / own[4] == pytest.approx(0.3 / 0.25 * 5**0.5, rel=0.1)
    course = parts.train.course
    assert course.stage.name == "bull"
    starts = parts.validation.batch.starts.pool
    assert set(starts[:, 0]) == {0, 1}  # the market itself
    np.testing.assert_allclose(parts.validation.batch.bank.bars[0, :300, 0, 3], panel.close[:300, 0])


def test_a_fleet_follows_its_course_and_keeps_it(bank):
    import torch

    from pacesetter.learning.experience.market import FleetMarket

    def market() -> FleetMarket:
        made = FleetMarket(bank, 3, window_bars=2, episode_bars=5)
        made.follow(lambda batch, **options: make_course("programme", batch, **options))
        return made

    torch.manual_seed(0)
    one = market()
    one.reset()
    for _ in range(12):
        step = one.step(torch.zeros(6, dtype=torch.long))
    assert set((step.observation["index"][:, 0] // SYMBOLS).tolist()) == {1}  # copies of the first stage
    assert one.course.episodes == 12
    other = market()
    other.reset()
    other.load_state_dict(one.state_dict())
    assert other.course.episodes == 12
    assert len(one.select(["S0"]).batch.bank.lasts) == 1  # retraining has the market itself


@pytest.mark.parametrize(
    ("overrides", "text"),
    [
        (["task.noise=[0.1]", "task.curriculum=programme"], "five numbers"),
        (["task.noise=[0,0,0,0,0]"], r"give task\.curriculum=programme"),
    ],
)
def test_bad_noise_is_refused(overrides, text):
    with pytest.raises(ConfigError, match=text):
        resolve(["data=synthetic", *overrides])
