"""Two levels: equal to one level where nothing is set, bit for bit; each setting does what it says, and is shown."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pacesetter.envs.lookback.batch import LookbackConfig
from pacesetter.envs.lookback.controller import ControllerLearner
from pacesetter.envs.lookback.curriculum import common_labels
from pacesetter.envs.lookback.evaluation import AgentLookback, evaluate_lookback
from pacesetter.envs.lookback.state import load_lookback_state, lookback_state
from pacesetter.envs.lookback.table import reward_table
from pacesetter.envs.lookback.two_level import TwoLevelConfig
from pacesetter.envs.lookback.vector import LookbackVectorEnv
from pacesetter.errors import ConfigError
from pacesetter.features.regime import REGIMES
from pacesetter.panel import Panel
from pacesetter.registry import configure

OPTIONS: dict[str, Any] = {
    "windows": {"shortest": 8, "longest": 64, "seen": (8, 16, 64), "grid": (8, 16, 32, 64)},
    "episodes": {"bars": 30},
    "reward": {"components": {"signal": 1.0, "switching": 0.05}, "clip": None},
}


def two_level(**controller: Any) -> TwoLevelConfig:
    return configure(TwoLevelConfig, OPTIONS | {"controller": controller}, "task")


def played(panel: Panel, config: LookbackConfig, steps: int = 80) -> list[Any]:
    """Observations, rewards, ends and windows of three environments under the same random actions."""
    env, generator = LookbackVectorEnv(panel, 3, config), np.random.default_rng(2)
    gathered: list[Any] = [env.reset(seed=7)[0]]
    for _ in range(steps):
        observation, rewards, _, truncated, infos = env.step(generator.integers(0, 4, 3))
        gathered += [observation, rewards, truncated, infos["lookback"], infos["bar"]]
    return gathered


ONE_LEVEL = {"signal": 1.0, "switching": 0.05}


@pytest.mark.parametrize(
    "controller",
    [
        {"every": 1},
        {"every": 20},
        {"every": 1, "settings": [{"weights": ONE_LEVEL, "shortest": 8, "longest": 64, "resolution": ""}]},
        {"every": 7, "settings": [{"weights": ONE_LEVEL}]},
    ],
)
def test_a_constant_controller_is_one_level_bit_for_bit(market: Panel, controller: dict[str, Any]) -> None:
    plain = played(market, configure(LookbackConfig, OPTIONS, "task"))
    for one, two in zip(plain, played(market, two_level(**controller)), strict=True):
        if isinstance(one, dict):
            assert one.keys() == two.keys()
            assert all(np.array_equal(one[name], two[name]) for name in one)
        else:
            assert np.array_equal(one, two)


def test_settings_take_turns_and_bound_windows_and_weigh_rewards(market: Panel) -> None:
    settings = [{"longest": 16}, {"shortest": 32, "weights": {"signal": 0.5}}]
    env = LookbackVectorEnv(market, 2, two_level(every=5, rule="cycle", settings=settings))
    observation, _ = env.reset(seed=1)
    for _ in range(40):
        bars, setting = env.batch.t.copy(), env.batch.setting.copy()
        assert np.array_equal(setting, bars // 5 % 2)
        assert np.array_equal(observation["setting"].argmax(1), setting)  # the lower agent is shown it
        observation, rewards, _, _, infos = env.step(np.array([0, 3]))
        lookback = infos["lookback"]
        assert np.where(setting == 0, lookback <= 16, lookback >= 32).all()
        weights = np.where(setting == 0, 1.0, 0.5)
        parts = infos["shaped_reward"]
        np.testing.assert_array_equal(rewards, parts["signal"] * weights + parts["switching"] * 0.05)


def test_a_controller_by_regime_reads_the_first_bar_of_its_interval(market: Panel) -> None:
    regimes = {name: place % 2 for place, name in enumerate(REGIMES)}
    config = two_level(every=10, rule="regime", settings=[{}, {"longest": 32}], regimes=regimes)
    batch, labels = config.make_batch(market, 300), common_labels(market)
    bars = np.arange(80, 380)
    batch.place(batch.markets[0], bars, np.full(300, 16))
    at = labels[bars - bars % 10]
    assert len(np.unique(at)) > 1
    assert np.array_equal(batch.setting, np.where(at >= 0, at % 2, 0))
    # What comes after the interval's first bar changes nothing.
    cut = config.make_batch(market.rows(0, 250), 1)
    cut.place(cut.markets[0], [240], [16])
    assert cut.setting[0] == batch.setting[240 - 80]


LEARNED: dict[str, Any] = {"every": 10, "rule": "learned", "settings": [{"longest": 16}, {"shortest": 32}]}


def test_what_it_learns_is_the_gain_over_a_random_window_by_regime_and_setting(market: Panel) -> None:
    config = two_level(**LEARNED)
    env = LookbackVectorEnv(market, 3, config)
    env.reset(seed=1)
    batch: Any = env.batch
    labels, own = common_labels(market), batch.markets[0]
    kept = np.einsum("tkk->tk", reward_table(own, config, own.first, own.last).total).mean(axis=1)
    usual = {bar // 10: [] for bar in range(len(market))}  # type: dict[int, list[float]]
    for bar, value in zip(range(own.first, own.last + 1), kept, strict=True):
        usual[bar // 10].append(value)
    expected, drawn = np.zeros((2, len(REGIMES), 2)), set()
    held: dict[tuple[int, int], set[int]] = {}
    episode = np.zeros(3, dtype=int)
    for _ in range(60):
        bars, setting = batch.t.copy(), batch.setting.copy()
        _, rewards, _, truncated, infos = env.step(np.array([0, 3, 1]))
        assert np.where(setting == 0, infos["lookback"] <= 16, infos["lookback"] >= 32).all()
        for row in range(3):
            held.setdefault((row, 1000 * episode[row] + bars[row] // 10), set()).add(setting[row])
            label = labels[bars[row] - bars[row] % 10]
            if label >= 0:
                expected[:, label, setting[row]] += 1.0, rewards[row] - np.mean(usual[bars[row] // 10])
        drawn |= set(setting.tolist())
        episode += truncated
    assert drawn == {0, 1}  # both are tried
    assert all(len(settings) == 1 for settings in held.values())  # and each for a whole interval
    # What was seen counts (1 − 1/memory) less with every bar: at most 180 of 10,000 here.
    np.testing.assert_allclose(batch.learned[:2], expected, rtol=0.02, atol=1e-9)


def test_a_controller_finds_the_better_setting_of_each_regime_and_others_play_it_as_a_rule() -> None:
    generator, learner = np.random.default_rng(0), ControllerLearner(3, 20, 10_000)
    worth = np.array([[0.0, 0.1, 0.0], [0.1, 0.0, 0.0], [0.0, 0.0, 0.1], [0.0, 0.1, 0.0]])
    generators = [np.random.default_rng(seed) for seed in range(8)]
    tried = np.zeros((4, 3))
    for _ in range(300):
        regimes = generator.integers(0, 4, 8)
        settings = learner.draw(regimes, generators)
        np.add.at(tried, (regimes, settings), 1)
        for _ in range(20):
            learner.observe(regimes, settings, worth[regimes, settings] + 0.3 * generator.standard_normal(8))
    assert np.array_equal(learner.best(), [1, 0, 2, 1])
    # Thompson sampling spends its draws on the better one: far above the third that chance gives it.
    assert (tried[np.arange(4), learner.best()] / tried.sum(axis=1) > 0.6).all()
    rule = two_level(**LEARNED | {"settings": [{}, {"longest": 16}, {"shortest": 32}]}).controller
    assert rule.as_learned(learner.best()).regimes == dict(zip(REGIMES, [1, 0, 2, 1], strict=True))
    assert rule.as_learned([0, 0, 0, 0]).rule == "constant"


def test_settings_that_are_alike_learn_one_level(market: Panel) -> None:
    """With settings that change nothing, any controller is one level but for what it shows."""
    plain = LookbackVectorEnv(market, 2, configure(LookbackConfig, OPTIONS, "task"))
    learned = LookbackVectorEnv(market, 2, two_level(every=1, rule="learned", settings=[{}, {}]))
    plain.reset(seed=3)
    learned.reset(seed=3)
    for action in np.random.default_rng(0).integers(0, 4, (25, 2)):  # before an episode ends, and starts are drawn
        assert np.array_equal(plain.step(action)[1], learned.step(action)[1])


def test_a_resolution_changes_the_bars_of_an_episode_and_not_its_moment(market: Panel) -> None:
    config = two_level(every=30, rule="cycle", settings=[{}, {"resolution": "1W"}])
    env = LookbackVectorEnv(market, 2, config)
    env.reset(seed=3)
    moments: list[list[Any]] = [[], []]
    resolutions = set()
    for _ in range(60):
        batch = env.batch
        resolutions |= {own.resolution for own in batch.markets}
        now = [own.panel.index[t] for own, t in zip(batch.markets, batch.t, strict=True)]
        *_, truncated, _ = env.step(np.array([0, 0]))
        for row in range(2):
            moments[row] = [] if truncated[row] else [*moments[row], now[row]]
            assert moments[row] == sorted(moments[row])  # time never runs back
    assert resolutions == {"", "1W"}


@pytest.mark.parametrize("rule", ["cycle", "learned"])
def test_it_resumes_bit_exactly(market: Panel, rule: str) -> None:
    config = two_level(every=5, rule=rule, settings=[{"longest": 16}, {"weights": {"signal": 0.5}}])
    first = LookbackVectorEnv(market, 2, config)
    first.reset(seed=1)
    actions = np.random.default_rng(0).integers(0, 4, (60, 2))
    for action in actions[:33]:
        first.step(action)
    second = LookbackVectorEnv(market, 2, config)
    second.reset(seed=9)
    load_lookback_state(second.batch, lookback_state(first.batch))
    for action in actions[33:]:
        one, two = first.step(action), second.step(action)
        assert np.array_equal(one[1], two[1])
        assert all(np.array_equal(one[0][name], two[0][name]) for name in one[0])


def test_an_agent_is_judged_by_the_configured_reward_within_its_controllers_range(market: Panel) -> None:
    config = two_level(every=5, rule="cycle", settings=[{"longest": 16, "weights": {"signal": 9.0}}, {"shortest": 32}])
    seen: list[dict[str, Any]] = []

    def longest(observation: dict[str, Any]) -> Any:
        seen.append(observation)
        return np.full(len(observation["setting"]), 3)

    result = evaluate_lookback({"agent": AgentLookback(longest, config)}, market, config, start=100, stop=180)
    assert np.array_equal(result.lookbacks[:, 0], np.where(result.bars // 5 % 2 == 0, 16, 64))
    assert seen[0]["setting"].shape[1] == 2
    np.testing.assert_allclose(result.rewards[1:], result.parts[1:] @ [1.0, 0.05])


@pytest.mark.parametrize(
    ("controller", "text"),
    [
        ({"every": 0}, r"task\.controller\.every=0"),
        ({"settings": []}, r"task\.controller\.settings is empty"),
        ({"settings": [{"longest": 65}]}, r"settings\[0\] has windows of 8 to 65 bars; stay within 8 to 64"),
        ({"settings": [{"weights": {"signl": 1.0}}]}, r"weights names 'signl'.*did you mean 'signal'"),
        ({"rule": "regime"}, "rule=regime needs a regime with another setting than the first"),
        ({"rule": "regime", "regimes": {"bul": 0}}, "has no regime 'bul'; did you mean 'bull'"),
        ({"rule": "regime", "regimes": {"bull": 1}}, r"regimes\.bull=1 is not the place of a setting, 0 to 0"),
        ({"rule": "often"}, "often"),
        ({"rule": "learned"}, "rule=learned has one setting and nothing to learn; give two or more"),
        ({"memory": 0}, r"task\.controller\.memory=0"),
    ],
)
def test_wrong_controllers_get_one_sentence(controller: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        two_level(**controller)


def test_other_resolutions_and_schedules_do_not_go_with_those_of_a_controller() -> None:
    weekly = {"settings": [{"resolution": "1W"}]}
    with pytest.raises(ConfigError, match=r"leave out task\.episodes\.resolutions"):
        configure(TwoLevelConfig, OPTIONS | {"controller": weekly, "episodes": {"resolutions": ("", "1D")}}, "task")
    reward = {"components": {"signal": {"kind": "linear", "points": [[0, 1.0], [9, 2.0]]}}}
    controller = {"settings": [{"weights": {"signal": 1.0}}]}
    with pytest.raises(ConfigError, match="has a schedule and a controller"):
        configure(TwoLevelConfig, OPTIONS | {"controller": controller, "reward": reward}, "task")
