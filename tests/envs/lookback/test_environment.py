"""`pacesetter/Lookback-v0`: checkers, what `info` says, masks, trouble, thin windows and a universe that changes.

Runs `envs.lookback.liquidity`.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from pacesetter.data.synthetic import Synthetic
from pacesetter.envs.lookback.actions import Clamp
from pacesetter.envs.lookback.batch import LookbackConfig
from pacesetter.envs.lookback.environment import LookbackEnv
from pacesetter.errors import ConfigError, DataError
from pacesetter.panel import Panel
from pacesetter.rewards import LOOKBACK, RewardConfig

WINDOWS = {"shortest": 8, "longest": 64, "seen": (8, 16, 64), "grid": (8, 16, 32, 64)}
SPACES = [(action, space) for action in ("absolute", "delta") for space in ("discrete", "continuous")]


@pytest.fixture(scope="module")
def panel() -> Panel:
    return Synthetic(symbols=5, bars=300, seed=1).read()


def make(panel: Panel, windows: dict[str, Any] | None = None, **options: Any) -> LookbackEnv:
    return LookbackEnv(panel, windows=WINDOWS | (windows or {}), **options)


def mixed(panel: Panel, change: Any) -> Panel:
    """The panel with `change(fields, mask)` done to copies of its fields."""
    fields, mask = {name: panel[name].copy() for name in panel.fields}, panel.mask.copy()
    change(fields, mask)
    for block in fields.values():
        block[~mask] = np.nan
    return Panel.from_fields(panel.index, panel.symbols, fields, mask)


# ---- what it is -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("action", "space"), SPACES)
def test_gymnasium_and_sb3_find_nothing_wrong(panel: Panel, action: str, space: str) -> None:
    from stable_baselines3.common.env_checker import check_env as check_for_sb3

    windows = {"action": action, "space": space, "max_delta": 16}
    env = make(panel, windows, view={"context": ("regime",)}, episodes={"resolutions": ("", "1W"), "warmup_bars": 10})
    check_env(env, skip_render_check=True)
    check_for_sb3(env)


def test_gymnasium_makes_it_by_its_id(panel: Panel) -> None:
    env = gymnasium.make("pacesetter/Lookback-v0", panel=panel, windows=WINDOWS)
    observation, info = env.reset(seed=3)
    assert observation in env.observation_space
    assert info["bar"] >= 64
    assert {"short", "middle", "long", "chosen", "universe_mask", "lookback"} == set(observation)


def test_options_are_checked_by_name(panel: Panel) -> None:
    with pytest.raises(ConfigError, match="did you mean 'windows'"):
        LookbackEnv(panel, window={})
    with pytest.raises(ConfigError, match="did you mean 'max_delta'"):
        make(panel, {"max_dleta": 3})
    with pytest.raises(ConfigError, match="unknown encoder 'row_sum'"):
        make(panel, view={"encoder": "row_sum"})


def test_a_reset_takes_no_options_and_an_ended_episode_no_step(panel: Panel) -> None:
    env = make(panel, episodes={"bars": 2})
    with pytest.raises(ConfigError, match="reset has no option 'reset_mask'"):
        env.reset(options={"reset_mask": [True]})
    env.reset(seed=0)
    env.step(0)
    assert env.step(0)[3]
    with pytest.raises(ConfigError, match=r"no open episode: call reset\(\) first"):
        env.step(0)


# ---- what it shows --------------------------------------------------------------------------------------------------


def test_the_chosen_window_is_encoded_like_the_seen_ones(panel: Panel) -> None:
    env = make(panel)
    env.reset(seed=0)
    for place, name in ((0, "short"), (1, "middle"), (3, "long")):
        observation, *_ = env.step(place)
        np.testing.assert_array_equal(observation["chosen"], observation[name])
    assert not np.array_equal(observation["short"], observation["long"])


def test_lookback_entry_says_where_the_window_lies(panel: Panel) -> None:
    env = make(panel)
    env.reset(seed=0)
    observation, *_ = env.step(2)
    np.testing.assert_allclose(observation["lookback"], [np.log(32 / 8) / np.log(8), 0.0, 1.0], rtol=1e-6)


def test_info_tells_the_decision_and_every_component(panel: Panel) -> None:
    env = make(panel, {"max_delta": 10}, reward={"components": {"signal": 2.0, "switching": 1.0, "strength": 0.1}})
    env.reset(seed=0)
    _, reward, terminated, truncated, info = env.step(3)
    assert (info["raw_action"], info["asked"], info["lookback"]) == (3, 64, 26)
    assert info["clamped"] == Clamp.DELTA
    parts = info["reward"]
    assert set(parts) == {"signal", "switching", "strength"}
    assert reward == pytest.approx(np.clip(2 * parts["signal"] + parts["switching"] + 0.1 * parts["strength"], -1, 1))
    assert info["reward_weights"]["signal"] == 2.0
    assert not terminated
    assert not truncated


def test_the_signal_is_the_prediction_of_the_window_at_the_bar(panel: Panel) -> None:
    from pacesetter.leadlag.prediction import window_predictions

    env = make(panel, reward={"components": {"signal": 1.0}})
    table = window_predictions(panel, WINDOWS["grid"])
    env.reset(seed=0)
    for place in (0, 1, 2, 3, 2, 1):
        *_, info = env.step(place)
        assert info["reward"]["signal"] == pytest.approx(table[info["bar"], place], abs=1e-12)


def test_follow_through_pays_the_rates_of_the_market(panel: Panel) -> None:
    costs = {"commission_bps": 5.0, "spread_bps": 4.0, "slippage_bps": 3.0}
    free = dict.fromkeys(costs, 0.0)
    results = []
    for rates in (costs, free):
        env = make(panel, reward={"components": {"follow_through": 1.0, "cost": 1.0}}, costs=rates)
        env.reset(seed=2)
        results.append([env.step(k % 4)[4]["reward"] for k in range(20)])
    for paid, gross in zip(*results, strict=True):
        assert paid["follow_through"] - gross["follow_through"] == pytest.approx(paid["cost"], abs=1e-15)
        turnover = -paid["cost"] / 10e-4
        assert min(abs(turnover - whole) for whole in (0.0, 1.0, 2.0)) < 1e-9  # one follower, held, turned or changed


def test_an_episode_is_truncated_after_its_bars(panel: Panel) -> None:
    env = make(panel, episodes={"bars": 5})
    env.reset(seed=0)
    assert [env.step(0)[3] for _ in range(5)] == [False, False, False, False, True]


def test_the_last_decision_has_its_outcome_within_the_panel(panel: Panel) -> None:
    env = make(panel, episodes={"bars": None, "starts": "fixed"})
    env.reset(seed=0)
    truncated, count, troubles = False, 0, []
    while not truncated:
        *_, truncated, info = env.step(1)
        count += 1
        troubles.append(info["trouble"])
    assert info["bar"] == len(panel) - 3
    assert count == len(panel) - 2 - 64
    assert not any(troubles)


# ---- feasible -------------------------------------------------------------------------------------------------------


def test_windows_never_exceed_the_history(panel: Panel) -> None:
    env = make(panel, {"initial": 8}, episodes={"starts": "fixed", "warmup_bars": 0})
    _, info = env.reset(seed=0)
    assert info["bar"] == 8
    observation, *_, info = env.step(3)
    assert info["lookback"] == 8
    assert info["clamped"] == Clamp.HISTORY
    assert observation["lookback"][2] < 1
    np.testing.assert_array_equal(env.action_masks(), [True, False, False, False])


def test_masks_allow_what_is_not_cut_and_always_something(panel: Panel) -> None:
    env = make(panel, {"max_delta": 20})
    env.reset(seed=0)
    np.testing.assert_array_equal(env.action_masks(), [True, True, True, False])
    env = make(panel, {"max_delta": 3, "initial": 24})
    env.reset(seed=0)
    np.testing.assert_array_equal(env.action_masks(), [False, True, False, False])  # cut to 21, least of all


def test_continuous_windows_have_no_masks(panel: Panel) -> None:
    with pytest.raises(ConfigError, match="masks are for"):
        make(panel, {"space": "continuous"}).action_masks()


def test_masked_actions_never_appear(panel: Panel) -> None:
    from sb3_contrib import MaskablePPO

    env = make(panel, {"max_delta": 20}, episodes={"bars": 16})
    seen = []
    step = env.step
    env.step = lambda action: seen.append(env.action_masks()[action]) or step(action)  # type: ignore[method-assign]
    MaskablePPO("MultiInputPolicy", env, n_steps=64, batch_size=32, n_epochs=1, seed=0).learn(128)
    assert len(seen) == 128
    assert all(seen)


# ---- trouble --------------------------------------------------------------------------------------------------------


def frozen(panel: Panel, start: int) -> Panel:
    """The panel with prices that stand still from bar `start` on."""

    def change(fields: dict[str, np.ndarray], mask: np.ndarray) -> None:
        for name in ("open", "high", "low", "close"):
            fields[name][start:] = fields["close"][start]

    return mixed(panel, change)


def test_trouble_gives_a_zero_and_a_sentence(panel: Panel) -> None:
    env = make(frozen(panel, 70), episodes={"starts": "fixed"})
    env.reset(seed=0)
    for _ in range(25):
        observation, reward, *_, info = env.step(0)
        assert np.isfinite(reward)
        assert all(np.isfinite(entry).all() for entry in observation.values())
    assert info["reward"]["signal"] == 0.0
    assert "scores 0 of 5 assets" in info["trouble"]
    assert "constant" in info["trouble"]


def test_repeated_trouble_stops_with_a_report(panel: Panel) -> None:
    env = make(frozen(panel, 70), episodes={"starts": "fixed"}, trouble_limit=10)
    env.reset(seed=0)
    message = r"10 decisions in a row .* window of 8 bars .* raise lookback.trouble_limit"
    with pytest.raises(DataError, match=message):
        [env.step(0) for _ in range(60)]


def test_a_repaired_panel_that_looked_ahead_is_refused(panel: Panel) -> None:
    from dataclasses import replace

    with pytest.raises(DataError, match="looking ahead"):
        make(replace(panel, causal=False))


def test_a_window_is_paid_at_every_bar() -> None:
    with pytest.raises(ConfigError, match=r"task\.reward\.paid=episode is of trading tasks"):
        LookbackConfig(reward=RewardConfig(dict(LOOKBACK), paid="episode"))


# ---- microstructure -------------------------------------------------------------------------------------------------


def test_thin_windows_are_rejected_or_penalised(panel: Panel) -> None:
    def dry(fields: dict[str, np.ndarray], mask: np.ndarray) -> None:
        fields["volume"][90:100] = 0.0

    thin, typical = mixed(panel, dry), float(np.mean((panel.close * panel.volume)[68:90]))
    rules = {"min_value": 0.5 * typical}
    options: dict[str, Any] = {"episodes": {"starts": "fixed", "warmup_bars": 99}}
    env = make(thin, {"initial": 64}, liquidity=rules, **options)
    env.reset(seed=0)
    np.testing.assert_array_equal(env.action_masks(), [False, False, True, True])
    *_, info = env.step(0)
    assert (info["lookback"], info["clamped"]) == (64, Clamp.THIN)
    assert info["liquidity"]["coverage"] == 1.0
    env = make(thin, liquidity=rules | {"thin": "penalise"}, reward={"components": {"thinness": 1.0}}, **options)
    env.reset(seed=0)
    assert [env.step(0)[1], env.step(3)[1]] == [-1.0, 0.0]


def test_a_rule_about_a_field_that_is_not_there_is_refused(panel: Panel) -> None:
    closes = Panel.from_fields(panel.index, panel.symbols, {"close": panel.close})
    env = make(closes, liquidity={"min_value": 1.0})
    with pytest.raises(ConfigError, match="needs volumes"):
        env.reset(seed=0)


# ---- a universe that changes ----------------------------------------------------------------------------------------


def test_assets_enter_and_leave_without_reshaping(panel: Panel) -> None:
    def change(fields: dict[str, np.ndarray], mask: np.ndarray) -> None:
        mask[:80, 1] = False
        mask[120:, 3] = False

    env = make(mixed(panel, change), view={"max_assets": 8}, episodes={"starts": "fixed", "bars": None})
    observation, _ = env.reset(seed=0)
    assert observation["universe_mask"].tolist() == [1, 0, 1, 1, 1, 0, 0, 0]
    events = {}
    for _ in range(80):
        observation, *_, info = env.step(0)
        assert observation in env.observation_space
        if info["entered"] or info["left"]:
            events[info["bar"] + 1] = (info["entered"], info["left"])
    assert list(events.values()) == [([panel.symbols[1]], []), ([], [panel.symbols[3]])]
    entered, left = events
    assert entered == 88  # eight increments after its first bar
    assert left == 120
    assert observation["universe_mask"].tolist() == [1, 1, 1, 0, 1, 0, 0, 0]


def test_padding_changes_nothing_but_the_shape(panel: Panel) -> None:
    plain, padded = make(panel), make(panel, view={"max_assets": 7})
    first, _ = plain.reset(seed=5)
    second, _ = padded.reset(seed=5)
    np.testing.assert_array_equal(second["long"], np.append(first["long"], [0, 0]))
    rewards = [[env.step(k % 4)[1] for k in range(10)] for env in (plain, padded)]
    assert rewards[0] == rewards[1]
    with pytest.raises(ConfigError, match="max_assets=3"):
        make(panel, view={"max_assets": 3})


@pytest.mark.parametrize("encoder", ["row_sums", "upper_triangle", "top_k", "signature_summary", "lookback"])
def test_every_encoder_can_be_shown(panel: Panel, encoder: str) -> None:
    env = make(panel, view={"encoder": encoder, "max_assets": 6})
    observation, _ = env.reset(seed=0)
    assert observation in env.observation_space
    assert env.step(1)[0] in env.observation_space


@pytest.mark.parametrize("method", ["ccf_auc", "ccf_peak", "levy_path", "levy_returns", "mutual_information"])
def test_estimators_with_and_without_tables_serve(panel: Panel, method: str) -> None:
    env = make(panel, view={"method": method})
    env.reset(seed=0)
    rewards = [env.step(k % 4)[1] for k in range(8)]
    assert np.all(np.isfinite(rewards))
    assert len(set(rewards)) == 8
