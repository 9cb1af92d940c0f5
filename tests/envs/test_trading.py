"""`pacesetter/Trading-v0`: the checkers of others, what is seen, how episodes end, what is refused.

Runs `envs.single`, `envs.journal`, `envs.batch.masks`.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
import pandas as pd
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.wrappers import FlattenObservation

import pacesetter.envs  # noqa: F401 - registers the environments
from pacesetter.envs import PortfolioEnv, TradingEnv
from pacesetter.envs.batch.account_entries import PortfolioEntry, PositionEntry
from pacesetter.envs.batch.starts import Starts
from pacesetter.envs.render import episode_chart, text_line
from pacesetter.errors import ConfigError, DataError
from pacesetter.features import feature_table
from pacesetter.leadlag.signals import leadlag_features
from pacesetter.market.ledger import Column, Fill, Flag
from pacesetter.market.orders import Discrete
from pacesetter.market.parameters import Costs, Exits, Limits, MarketParameters
from pacesetter.panel import Panel
from pacesetter.rewards import TRADING, RewardConfig

ACTIONS = ("discrete", "continuous", "hybrid", "target")
FREE = MarketParameters(costs=Costs(0, 0, 0, 0, 0, 0))
ByHand = Callable[..., dict[str, Any]]


@pytest.mark.parametrize("action", ACTIONS)
def test_checker_of_gymnasium(market: Panel, action: str) -> None:
    env = gymnasium.make("pacesetter/Trading-v0", panel=market, symbol="S1", action=action)
    check_env(env.unwrapped)


@pytest.mark.parametrize("action", ACTIONS)
def test_checker_of_stable_baselines3(market: Panel, action: str) -> None:
    checker = pytest.importorskip("stable_baselines3.common.env_checker")
    checker.check_env(TradingEnv(market, "S1", action=action), warn=False)


def test_what_is_seen_is_the_table_up_to_now_and_the_account(market: Panel) -> None:
    env = TradingEnv(market, "S2", starts="fixed")
    table, row = feature_table(market), market.position("S2")
    seen, info = env.reset(seed=0)
    window, regime = ([table.names.index(name) for name in env.names[entry]] for entry in ("window", "regime"))
    for t in range(info["bar"], info["bar"] + 5):
        assert np.array_equal(seen["window"], table.window(row, t, 24)[:, window])
        assert np.array_equal(seen["regime"], table.values[row, t, regime])
        seen, *_ = env.step(Discrete.BUY_LARGE)
    assert set(env.names["regime"]) == {name for name in table.names if name.startswith("regime_")}
    assert not seen["window"].flags.writeable


def test_other_starts_are_drawn_from_the_next_episode_on_also_after_a_step(market: Panel) -> None:
    env = TradingEnv(market, "S1", starts="fixed")
    _, info = env.reset(seed=0)
    env.step(Discrete.BUY_LARGE)  # from here on the compiled step has its arguments bound
    env.batch.use_starts(Starts(np.array([[0, 301, 303]]), np.array([0, 1]), is_fixed=True))
    assert env.step(Discrete.HOLD)[3] is False
    assert env.batch.cursor[0, 1] == info["bar"] + 2  # the open episode goes on
    assert env.reset()[1]["bar"] == 301
    assert [env.step(Discrete.HOLD)[3] for _ in range(2)] == [False, True]


def test_account_entries_after_a_purchase_computed_by_hand(by_hand: ByHand) -> None:
    env = TradingEnv(**by_hand([100, 100, 100, 100, 110, 99, 99]), market=FREE, starts="fixed")
    env.reset()
    env.step(Discrete.BUY_LARGE)  # 15 % of 100,000 at 100: 150 shares, marked at 110 in the next step
    seen, reward, _, _, info = env.step(Discrete.HOLD)
    assert info["equity"] == pytest.approx(101_500)
    assert reward == pytest.approx(np.log(101_500 / 100_000))
    weight = 150 * 110 / 101_500
    position = dict(zip(env.names["position"], seen["position"], strict=True))
    assert position == pytest.approx(
        {
            "weight": weight,
            "unrealised_return": 0.1,
            "from_best": 0.0,
            "bars_held": 2,
            "signal": 0.0,
            "room": max(0.15 - weight, 0),
            "is_trading": 1.0,
        }
    )
    seen, _, _, _, info = env.step(Discrete.HOLD)
    assert seen["position"][PositionEntry.FROM_BEST] == pytest.approx(99 / 110 - 1)
    expected = [85_000 / 99_850, 14_850 / 99_850, 14_850 / 99_850, 1 - 99_850 / 101_500, 0.9985, 1.0, 0.0]
    assert seen["portfolio"] == pytest.approx(expected)
    assert len(expected) == len(PortfolioEntry)


@pytest.mark.parametrize(("switch", "kind"), [(-0.7, "discrete"), (0.7, "continuous")])
def test_hybrid_trades_as_the_kind_it_names_on_the_same_bars(market: Panel, switch: float, kind: str) -> None:
    hybrid, plain = TradingEnv(market, "S0", action="hybrid"), TradingEnv(market, "S0", action=kind)
    hybrid.reset(seed=4)
    plain.reset(seed=4)
    rng = np.random.default_rng(0)
    for _ in range(60):
        order = int(rng.integers(7)) if kind == "discrete" else float(rng.uniform(-1, 1))
        value = (order + 0.5) / 7 * 2 - 1 if kind == "discrete" else order
        one, other = hybrid.step([switch, value]), plain.step(order)
        assert one[1] == other[1]
        assert one[4]["ledger"].tobytes() == other[4]["ledger"].tobytes()


def test_supervised_and_leadlag_are_seen_when_given(market: Panel) -> None:
    table = feature_table(market, extra=leadlag_features())
    odds = np.random.default_rng(0).random((4, 420, 3)).astype(np.float32)
    env = TradingEnv(market, "S3", table=table, supervised=odds, starts="fixed")
    seen, info = env.reset()
    assert np.array_equal(seen["supervised"], odds[3, info["bar"]])
    assert env.names["leadlag"] == tuple(name for name in table.names if name.startswith("leadlag_")) != ()
    assert not any(name.startswith(("leadlag_", "regime_")) for name in env.names["window"])


def test_flat_variant_by_wrapper(market: Panel) -> None:
    env = FlattenObservation(TradingEnv(market, "S0"))
    seen, _ = env.reset(seed=0)
    assert seen.shape == env.observation_space.shape
    assert env.observation_space.contains(env.step(0)[0])


def test_a_gap_keeps_the_last_known_features_and_says_that_nothing_trades(by_hand: ByHand) -> None:
    mask = np.ones((12, 1), bool)
    mask[6:8] = False
    env = TradingEnv(**by_hand(np.linspace(100, 111, 12), mask), starts="fixed")
    env.reset()
    seen = [env.step(Discrete.BUY_LARGE)[0] for _ in range(6)]  # bars 3 … 8
    assert [entry["position"][PositionEntry.IS_TRADING] for entry in seen] == [1, 1, 1, 0, 0, 1]
    assert seen[3]["window"][-1] == seen[2]["window"][-1] != 0


# ---- ends -----------------------------------------------------------------------------------------------------------


def last_step(env: TradingEnv, action: Any) -> tuple[int, bool, bool]:
    """Steps until the end, and how it ended."""
    env.reset(seed=0)
    for count in range(1, 1_000):
        _, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            return count, terminated, truncated
    raise AssertionError("the episode never ended")


def test_time_truncates_at_episode_bars_and_at_the_end_of_the_data(by_hand: ByHand) -> None:
    market = by_hand([100.0] * 20)
    assert last_step(TradingEnv(**market, episode_bars=5), 0) == (5, False, True)
    assert last_step(TradingEnv(**market, starts="fixed"), 0) == (17, False, True)  # from bar 2 to bar 19


def test_ruin_a_portfolio_limit_and_a_delisting_terminate(by_hand: ByHand) -> None:
    whole = replace(FREE, limits=Limits(position_cap_fraction=1.0, ruin_fraction=0.5))
    crash = by_hand([100, 100, 100, 100, 20, 20, 20])
    assert last_step(TradingEnv(**crash, market=whole, action="target", starts="fixed"), 1.0) == (2, True, False)
    limit = replace(
        whole, limits=Limits(position_cap_fraction=1.0, ruin_fraction=0.0, portfolio_loss_limit_fraction=0.2)
    )
    assert last_step(TradingEnv(**crash, market=limit, action="target", starts="fixed"), 1.0) == (3, True, False)
    mask = np.ones((40, 1), bool)
    mask[10:] = False
    gone = by_hand([100.0] * 40, mask)
    assert last_step(TradingEnv(**gone, starts="fixed"), 0) == (
        27,
        True,
        False,
    )  # the 20th bar without a trade is bar 29


def test_an_end_by_both_is_a_termination_only(by_hand: ByHand) -> None:
    whole = replace(FREE, limits=Limits(position_cap_fraction=1.0, ruin_fraction=0.5))
    crash = by_hand([100, 100, 100, 100, 20])
    assert last_step(TradingEnv(**crash, market=whole, action="target", starts="fixed"), 1.0) == (2, True, False)


def test_no_step_without_an_open_episode(by_hand: ByHand) -> None:
    env = TradingEnv(**by_hand([100.0] * 8), episode_bars=1)
    with pytest.raises(ConfigError, match="call reset"):
        env.step(0)
    env.reset()
    env.step(0)
    with pytest.raises(ConfigError, match="call reset"):
        env.step(0)


# ---- rewards, masks, records ----------------------------------------------------------------------------------------


def test_every_component_is_in_info_and_makes_the_reward(market: Panel) -> None:
    env = TradingEnv(market, "S1", reward=RewardConfig(TRADING, clip=None))
    env.reset(seed=1)
    for action in (1, 3, 0, 4):
        _, reward, _, _, info = env.step(action)
        assert list(info["reward"]) == list(TRADING)
        assert reward == pytest.approx(sum(TRADING[name] * value for name, value in info["reward"].items()))


def test_a_reward_is_kept_within_one_unless_told_otherwise(market: Panel) -> None:
    for clip, expected in (({}, -1.0), ({"clip": None}, -5.0)):
        env = TradingEnv(market, "S1", reward=RewardConfig({"hold": 5.0}, **clip))
        env.reset(seed=1)
        _, reward, _, _, info = env.step(0)
        assert (reward, info["reward"]) == (expected, {"hold": -1.0})


def test_a_weighted_pnl_is_the_compiled_path_and_equals_the_general_one(market: Panel) -> None:
    fast = TradingEnv(market, "S1", reward=RewardConfig({"pnl": 50.0}, clip=0.01))
    slow = TradingEnv(market, "S1", reward=RewardConfig({"pnl": 50.0, "time": 0.0}, clip=0.01))
    assert fast.batch.is_pnl_only
    assert not slow.batch.is_pnl_only
    fast.reset(seed=2)
    slow.reset(seed=2)
    for _ in range(40):
        one, other = fast.step(3), slow.step(3)
        assert one[1] == pytest.approx(other[1], abs=1e-15)
        assert one[4]["reward"]["pnl"] == other[4]["reward"]["pnl"]


@pytest.mark.parametrize(
    "limits",
    [{}, {"shorting": True}, {"position_loss_limit_fraction": 0.01}, {"portfolio_loss_limit_fraction": 0.004}],
)
def test_masks_allow_exactly_the_orders_that_would_be_sent(market: Panel, limits: dict[str, Any]) -> None:
    """What a loss limit closes by itself is not an order's doing: only hold is left."""
    env = TradingEnv(market, "S2", episode_bars=60, market=MarketParameters(limits=Limits(**limits)))
    observation, _ = env.reset(seed=3)
    rng, seen = np.random.default_rng(1), set()
    for _ in range(60):
        masks = env.action_masks()
        for order in Discrete:
            trial = copy.deepcopy(env)
            trial.step(order)
            fill = trial.batch.fills[0, 0]
            flags = int(fill[Fill.FLAGS])
            is_limit = flags & (Flag.POSITION_LIMIT | Flag.PORTFOLIO_LIMIT) != 0
            is_seen = observation["portfolio"][PortfolioEntry.IS_LIQUIDATING] == 1.0
            assert is_seen == (flags & Flag.PORTFOLIO_LIMIT != 0)
            assert masks[order] == (order == Discrete.HOLD or (fill[Fill.ORDERED] != 0 and not is_limit))
        seen.add(masks.tobytes())
        observation, _, is_over, *_ = env.step(int(rng.choice(np.flatnonzero(masks))))
        if is_over:
            break
    assert len(seen) >= 3
    assert ("loss" in str(limits)) == (bytes([1, 0, 0, 0, 0, 0, 0]) in seen)


def test_masks_are_for_discrete_actions(market: Panel) -> None:
    env = TradingEnv(market, "S2", action="continuous")
    env.reset()
    with pytest.raises(ConfigError, match="no masks"):
        env.action_masks()


def test_a_copy_through_pickle_goes_on_the_same(market: Panel) -> None:
    env = TradingEnv(market, reward=RewardConfig(TRADING))
    env.reset(seed=9)
    env.step(3)
    stored = pickle.dumps(env)
    twin = pickle.loads(stored)
    assert len(stored) < 3 * sum(getattr(env.batch.bank, n).nbytes for n in ("bars", "windows", "context"))
    for action in (1, 0, 5):
        one, other = env.step(action), twin.step(action)
        assert one[1] == other[1]
        assert all(one[0][entry].tobytes() == other[0][entry].tobytes() for entry in one[0])


def test_journal_holds_the_episode_and_reads_back(market: Panel, tmp_path: Any) -> None:
    env = TradingEnv(market, "S1", record=True)
    _, info = env.reset(seed=2)
    rewards = [env.step(action)[1] for action in (3, 0, 5, 0)]
    assert env.journal is not None
    env.journal.save(tmp_path)
    ledger, fills = (pd.read_parquet(tmp_path / f"{name}.parquet") for name in ("ledger", "fills"))
    assert ledger["reward"].tolist() == rewards
    assert ledger["bar"].tolist() == list(range(info["bar"] + 1, info["bar"] + 5))
    assert (ledger.index == market.index[ledger["bar"]]).all()
    assert ledger["fill_quantity"].tolist() == fills["quantity"].tolist()
    assert np.array_equal(fills["close"], market.close[ledger["bar"], 1])
    env.reset()
    assert len(env.journal.ledger_frame()) == 0


def test_render_gives_a_line_or_a_picture(market: Panel, capsys: pytest.CaptureFixture[str]) -> None:
    talking = TradingEnv(market, "S1", render_mode="human")
    talking.reset(seed=0)
    talking.step(3)
    assert "equity" in capsys.readouterr().out
    painting = TradingEnv(market, "S1", render_mode="rgb_array")
    painting.reset(seed=0)
    empty = painting.render()
    for action in (3, 0, 5):
        painting.step(action)
    picture = painting.render()
    assert picture.dtype == np.uint8
    assert picture.shape == empty.shape == (500, 800, 3)
    assert (picture != empty).mean() > 0.01


def test_a_purchase_and_its_stop_in_one_bar_are_both_told_and_marked(market: Panel) -> None:
    rules = MarketParameters(exits=Exits(trailing_stop_fraction=0.002))
    env = TradingEnv(market, "S1", market=rules, starts="fixed", record=True)
    env.reset()
    fills = env.batch.fills[0, 0]
    while not fills[Fill.QUANTITY] * fills[Fill.EXIT_QUANTITY] < 0:
        env.step(Discrete.BUY_LARGE)
    assert env.journal is not None
    line = text_line(env.journal)
    for quantity, price in ((Fill.QUANTITY, Fill.PRICE), (Fill.EXIT_QUANTITY, Fill.EXIT_PRICE)):
        assert f"S1 {fills[quantity]:+.4g} @ {fills[price]:.4g}" in line
    last = env.journal.fills_frame().iloc[-1:]
    red, green, blue = episode_chart(env.journal.ledger_frame().iloc[-1:], last).reshape(-1, 3).astype(int).T
    assert (green - np.maximum(red, blue)).max() > 50, "no green mark of the purchase"
    assert (red - np.maximum(green, blue)).max() > 50, "no red mark of the stop"


# ---- refusals -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("action", "bad"),
    [
        ("discrete", 7),
        ("discrete", -1),
        ("discrete", 1.5),
        ("discrete", float("nan")),
        ("continuous", [1.01]),
        ("continuous", [float("nan")]),
        ("target", [-0.1]),
        ("hybrid", [0.0, 2.0]),
    ],
)
def test_an_action_outside_its_box_is_refused_and_moves_nothing(market: Panel, action: str, bad: Any) -> None:
    env = TradingEnv(market, "S0", action=action)
    env.reset(seed=0)
    before = env.batch.state_dict()
    with pytest.raises(ConfigError, match=f"a {action} action is"):
        env.step(bad)
    assert all(np.array_equal(before[name], values) for name, values in env.batch.state_dict().items())


@pytest.mark.parametrize("bad", [[0.1, 0.2], "buy", "0.5", None, 10**400, [[0.1]] * 3, 0.5j, [[0.1], [0.2, 0.3]]])
def test_an_action_of_another_shape_is_refused(market: Panel, bad: Any) -> None:
    env = TradingEnv(market, "S0", action="continuous")
    env.reset(seed=0)
    with pytest.raises(ConfigError, match="action"):
        env.step(bad)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"symbol": "S9"}, "no symbol 'S9'"),
        ({"window_bars": 900}, "window_bars=900 does not fit into 420 bars"),
        ({"window_bars": 0}, "window_bars=0"),
        ({"episode_bars": 400}, "episode_bars=400 does not fit"),
        ({"episode_bars": 0}, "episode_bars=0"),
        ({"action": "discreet"}, "did you mean 'discrete'"),
        ({"starts": "stratfied"}, "did you mean 'stratified'"),
        ({"reward": "profit"}, "reward='profit' is unknown"),
        ({"render_mode": "humans"}, "did you mean 'human'"),
        ({"supervised": np.zeros((4, 10, 2))}, "supervised has shape"),
        ({"symbol": []}, "must name symbols, each once"),
        ({"symbol": 3}, "must name symbols"),
        ({"symbol": [["S1"]]}, "must name symbols"),
        ({"symbol": ["S1", "S1"]}, r"\['S1', 'S1'\] must name symbols, each once"),
        ({"window": 3}, "TradingEnv has no option 'window'; did you mean 'window_bars'"),
        ({"symbols": ["S1"]}, "did you mean 'symbol'"),
        ({"recrod": True}, "did you mean 'record'"),
        ({"env_count": 3}, "no option 'env_count'; known: action, "),
        ({"has_windows": "no"}, "has_windows must be of type bool, not str"),
        ({"record": "no"}, "record must be of type bool"),
        ({"market": {}}, "market must be of type MarketParameters, not dict"),
        ({"table": "x"}, "table must be of type FeatureTable"),
        ({"window_bars": 2.5}, "window_bars=2.5 must be a whole number"),
        ({"action": ["discrete"]}, "did you mean 'discrete'"),
    ],
)
def test_bad_options_get_one_sentence(market: Panel, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises((ConfigError, DataError), match=sentence):
        TradingEnv(market, **options)


def test_panels_that_look_ahead_or_have_no_bars_or_another_table_are_refused(market: Panel) -> None:
    with pytest.raises(DataError, match="looking ahead"):
        TradingEnv(replace(market, causal=False))
    with pytest.raises(DataError, match="no usable bar"):
        TradingEnv(replace(market, mask=np.zeros_like(market.mask)))
    with pytest.raises(DataError, match="same symbols and bars"):
        TradingEnv(market, table=feature_table(market.rows(0, 300)))
    with pytest.raises(ConfigError, match="list is empty"):
        TradingEnv([])


@pytest.mark.parametrize("seed", [-1, 1.5, "7", [3]])
def test_a_seed_that_is_no_whole_number_is_refused(market: Panel, seed: Any) -> None:
    with pytest.raises(ConfigError, match="not 1 whole numbers from 0 on"):
        TradingEnv(market, "S1").reset(seed=seed)


@pytest.mark.parametrize("panel", [None, "synthetic", pd.DataFrame()])
def test_what_is_no_panel_is_refused(panel: Any) -> None:
    with pytest.raises(ConfigError, match=f"panel must be of type Panel, not {type(panel).__name__}"):
        gymnasium.make("pacesetter/Trading-v0", panel=panel)


def test_ledger_row_of_info_is_never_overwritten(market: Panel) -> None:
    env = TradingEnv(market, "S1")
    env.reset(seed=0)
    kept = [env.step(3) for _ in range(4)]
    stamps = [step[4]["ledger"][Column.EQUITY] for step in kept]
    assert stamps == [step[4]["equity"] for step in kept]
    assert len(set(stamps)) == 4


@pytest.mark.parametrize(("shorting", "low"), [(False, 0.0), (True, -0.2)])
def test_targets_span_the_range_that_the_cap_leaves(market: Any, shorting: bool, low: float) -> None:
    rules = MarketParameters(limits=Limits(position_cap_fraction=0.2, shorting=shorting))
    for kind in (TradingEnv, PortfolioEnv):
        box = kind(market, action="target", market=rules, window_bars=2).action_space
        np.testing.assert_allclose([box.low.min(), box.high.max()], [low, 0.2], rtol=1e-6)
