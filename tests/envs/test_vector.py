"""Native vector environments: row for row the single environment, arrays that stay, starts, banks, memory.

Runs `envs.batch.batch`, `envs.batch.remembered`.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from typing import Any

import gymnasium
import numpy as np
import pytest

from pacesetter.data.synthetic import Synthetic
from pacesetter.envs import PortfolioEnv, PortfolioVectorEnv, TradingEnv, TradingVectorEnv
from pacesetter.envs.batch.rows import Cursor
from pacesetter.errors import ConfigError, DataError
from pacesetter.features import REGIMES, feature_table, regime_labels
from pacesetter.market.ledger import Column
from pacesetter.market.parameters import Limits, MarketParameters, Slot
from pacesetter.panel import Panel
from pacesetter.rewards import TRADING, RewardConfig

COUNT, SEED = 6, 11


def fragile(limit: float) -> MarketParameters:
    """Rules under which some episodes end by the portfolio's loss limit."""
    return MarketParameters(limits=Limits(position_cap_fraction=1.0, portfolio_loss_limit_fraction=limit))


CASES: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "discrete": (TradingEnv, TradingVectorEnv, {"action": "discrete"}),
    "continuous": (TradingEnv, TradingVectorEnv, {"action": "continuous", "market": fragile(0.004)}),
    "hybrid": (TradingEnv, TradingVectorEnv, {"action": "hybrid", "starts": "stratified"}),
    "components": (TradingEnv, TradingVectorEnv, {"reward": RewardConfig(TRADING)}),
    "indices": (TradingEnv, TradingVectorEnv, {"has_windows": False}),
    "target": (PortfolioEnv, PortfolioVectorEnv, {"action": "target", "market": fragile(0.03)}),
    "orders": (PortfolioEnv, PortfolioVectorEnv, {"action": "discrete"}),
}


def assert_equal(one: dict[str, Any], other: dict[str, Any], row: int | None = None) -> None:
    assert one.keys() == other.keys()
    for entry, values in one.items():
        rest = other[entry] if row is None else other[entry][row]
        assert values.dtype == rest.dtype
        assert values.tobytes() == np.ascontiguousarray(rest).tobytes(), entry


@pytest.mark.parametrize("case", CASES)
def test_each_row_is_the_single_environment_bit_for_bit(market: Panel, case: str) -> None:
    single, vector, options = CASES[case]
    options = {"panel": market, "episode_bars": 17} | options
    native, alone = vector(num_envs=COUNT, **options), [single(**options) for _ in range(COUNT)]
    seen, _ = native.reset(seed=SEED)
    for row, env in enumerate(alone):
        assert_equal(env.reset(seed=SEED + row)[0], seen, row)
    native.action_space.seed(0)
    ends = set()
    for _ in range(60):
        actions = native.action_space.sample()
        seen, rewards, terminated, truncated, infos = native.step(actions)
        for row, env in enumerate(alone):
            one, reward, ended, timed_out, info = env.step(actions[row])
            assert (reward, ended, timed_out) == (rewards[row], terminated[row], truncated[row])
            assert info["ledger"].tobytes() == infos["ledger"][row].tobytes()
            assert info["reward"] == {name: values[row] for name, values in infos["reward"].items()}
            if ended or timed_out:
                ends.add((ended, timed_out))
                assert infos["_final_obs"][row]
                assert_equal(one, infos["final_obs"][row])
                assert infos["final_info"]["equity"][row] == info["equity"]
                one, _ = env.reset()
            assert_equal(one, seen, row)
    assert (False, True) in ends
    assert options.get("market") is None or (True, False) in ends


def test_returned_arrays_never_change(market: Panel) -> None:
    env = TradingVectorEnv(market, 5, episode_bars=4)
    kept: list[tuple[Any, bytes]] = []

    def keep(*arrays: Any) -> None:
        kept.extend((array, array.tobytes()) for array in arrays)

    keep(*env.reset(seed=0)[0].values())
    for _ in range(12):
        keep(env.action_masks())
        seen, rewards, terminated, truncated, infos = env.step(np.array([1, 2, 3, 4, 5]))
        keep(*seen.values(), rewards, terminated, truncated, infos["equity"], infos["ledger"])
        keep(*(entry for final in infos.get("final_obs", []) if final for entry in final.values()))
    assert all(array.tobytes() == before for array, before in kept)


@pytest.mark.proof
def test_many_threads_give_the_numbers_of_one(market: Panel) -> None:
    envs = [TradingVectorEnv(market, 700, episode_bars=9) for _ in range(2)]
    envs[0].batch._is_parallel, envs[1].batch._is_parallel = True, False
    rng = np.random.default_rng(0)
    for env in envs:
        env.reset(seed=3)
    for _ in range(12):
        actions = rng.integers(0, 7, 700)
        (seen, rewards, *ends, _), (other, others, *other_ends, _) = (env.step(actions) for env in envs)
        assert_equal(seen, other)
        assert rewards.tobytes() == others.tobytes()
        assert np.array_equal(ends, other_ends)


def test_masks_of_rows_are_those_of_the_single_environment(market: Panel) -> None:
    native, alone = PortfolioVectorEnv(market, 3, action="discrete"), PortfolioEnv(market, action="discrete")
    native.reset(seed=5)
    alone.reset(seed=6)
    orders = np.array([1, 3, 5, 0])
    native.step(np.tile(orders, (3, 1)))
    alone.step(orders)
    assert native.action_masks().shape == (3, 28)
    assert np.array_equal(native.action_masks()[1], alone.action_masks())


# ---- starts and banks -----------------------------------------------------------------------------------------------


def test_stratified_starts_visit_every_regime_equally(market: Panel) -> None:
    def shares(starts: str) -> Any:
        env = TradingVectorEnv(market, 4_000, starts=starts, has_windows=False)
        _, info = env.reset(seed=0)
        labels = regime_labels(market)[info["bar"], info["block"]]
        return np.array([(labels == regime).mean() for regime in range(len(REGIMES))])

    assert shares("stratified") == pytest.approx(np.full(4, 0.25), abs=0.03)
    assert np.ptp(shares("random")) > 0.15


def test_fixed_starts_are_the_first_bars_of_each_symbol(market: Panel) -> None:
    env = TradingVectorEnv(market, 5, starts="fixed", episode_bars=2)
    first = int(np.flatnonzero(feature_table(market).mask[0])[0]) + 24 - 1
    for _ in range(2):
        _, info = env.reset()
        assert info["block"].tolist() == [0, 1, 2, 3, 0]
        assert info["bar"].tolist() == [first] * 5


def test_starts_need_a_whole_known_window_and_room(market: Panel) -> None:
    env = TradingVectorEnv(market, 3_000, episode_bars=30)
    _, info = env.reset(seed=1)
    known = feature_table(market).mask
    assert info["bar"].max() == len(market) - 31
    assert all(known[b, t - 23 : t + 1].all() for b, t in zip(info["block"], info["bar"], strict=True))


def test_a_bank_draws_from_markets_of_unequal_length(market: Panel) -> None:
    other = Synthetic(symbols=2, bars=300, seed=8).read()
    env = TradingVectorEnv([market, other], 2_000)
    seen, info = env.reset(seed=0)
    assert set(info["block"]) == set(range(6))
    assert info["bar"][info["block"] >= 4].max() <= 298
    row = int(np.flatnonzero(info["block"] == 5)[0])
    table = feature_table(other)
    columns = [table.names.index(name) for name in env.batch.bank.names["window"]]
    assert np.array_equal(seen["window"][row], table.window(1, int(info["bar"][row]), 24)[:, columns])
    for _ in range(3):
        env.step(np.full(2_000, 3))


def test_banks_that_do_not_fit_are_refused(market: Panel) -> None:
    fewer = Synthetic(symbols=2, bars=300, seed=8).read()
    with pytest.raises(DataError, match="4 and 2 symbols"):
        PortfolioVectorEnv([market, fewer], 2)
    bare = feature_table(fewer, ["return_1", "return_5"])
    with pytest.raises(DataError, match="same features"):
        TradingVectorEnv([market, fewer], 2, table=[feature_table(market), bare])
    with pytest.raises(ConfigError, match="1 of 2 markets"):
        TradingVectorEnv([market, fewer], 2, table=bare)


def test_some_rows_can_be_reset_alone(market: Panel) -> None:
    env = TradingVectorEnv(market, 3)
    env.reset(seed=0)
    before, *_ = env.step(np.array([3, 3, 3]))
    after, _ = env.reset(options={"reset_mask": np.array([False, True, False])})
    assert after["position"][:, 0].tolist() == [before["position"][0, 0], 0.0, before["position"][2, 0]]
    assert np.array_equal(after["window"][0], before["window"][0])


@pytest.mark.parametrize("marks", [np.ones(8, bool), [True] * 2, [[True], [True, False]], [1, 1, 1], "TFT", 1])
def test_a_reset_mask_that_is_not_a_boolean_each_is_refused_and_moves_nothing(market: Panel, marks: Any) -> None:
    env = TradingVectorEnv(market, 3)
    env.reset(seed=0)
    before = env.batch.state_dict()
    with pytest.raises(ConfigError, match="not 3 booleans; give one for each environment"):
        env.reset(seed=1, options={"reset_mask": marks})
    with pytest.raises(ConfigError, match="not 3 booleans"):
        env.batch.restart(marks)
    assert all(np.array_equal(before[name], values) for name, values in env.batch.state_dict().items())


@pytest.mark.parametrize("seeds", [[1, 2], [1, 2, None], [-1, 2, 3], [1.5] * 3, [[1], [2], [3]], "abc", -1])
def test_seeds_that_are_not_a_whole_number_each_are_refused(market: Panel, seeds: Any) -> None:
    with pytest.raises(ConfigError, match="not 3 whole numbers"):
        TradingVectorEnv(market, 3).reset(seed=seeds)


@pytest.mark.parametrize("options", [{"bar": 7}, {"reset_maks": np.ones(2, bool)}])
def test_unknown_options_of_a_reset_are_refused(market: Panel, options: dict[str, Any]) -> None:
    for env in (TradingEnv(market), TradingVectorEnv(market, 2)):
        with pytest.raises(ConfigError, match="reset has no option"):
            env.reset(options=options)


def test_a_batch_that_was_not_reset_reads_inside_its_tables(market: Panel) -> None:
    batch = TradingVectorEnv(market, 2).batch
    assert batch.bank.contains_starts(batch.cursor[:, [Cursor.BLOCK, Cursor.TIME, Cursor.END]], batch.window_bars)
    seen = batch.reset([True, False])["window"][1]
    block, t = batch.cursor[1, : Cursor.FINAL_BLOCK]
    assert np.array_equal(seen, batch.bank.windows[block, 0, t - 23 : t + 1])


def test_other_parameters_wait_for_the_next_episode(market: Panel) -> None:
    env = TradingVectorEnv(market, 2, episode_bars=3)
    env.reset(seed=0)
    env.use_market(MarketParameters(initial_cash=5_000.0), rows=[1])
    equity = [env.step(np.array([0, 0]))[4]["equity"].tolist() for _ in range(4)]
    assert equity == [[100_000.0, 100_000.0]] * 3 + [[100_000.0, 5_000.0]]
    with pytest.raises(ConfigError, match="not among the 2 environments"):
        env.use_market(MarketParameters(), rows=[1, 99])
    with pytest.raises(ConfigError, match="market must be of type MarketParameters, not dict"):
        env.use_market({})  # type: ignore[arg-type]


def test_a_volume_cap_needs_volume(market: Panel) -> None:
    capped = MarketParameters(limits=Limits(volume_cap_fraction=0.1))
    bare = Panel.from_fields(market.index, market.symbols, {"close": market.close})
    for make in (TradingEnv, PortfolioEnv, TradingVectorEnv, PortfolioVectorEnv):
        make(market, market=capped)
        with pytest.raises(ConfigError, match="volume_cap_fraction needs volume, which S0"):
            make(bare, market=capped)
        with pytest.raises(ConfigError, match="volume_cap_fraction needs volume"):
            make(bare).use_market(capped)


def test_a_stored_state_goes_on_the_same(market: Panel) -> None:
    options = {"panel": market, "num_envs": 4, "episode_bars": 6, "reward": RewardConfig(TRADING)}
    one, other = TradingVectorEnv(**options), TradingVectorEnv(**options)
    one.reset(seed=0)
    other.reset(seed=99)
    for _ in range(4):
        one.step(np.array([3, 1, 2, 0]))
    other.batch.load_state_dict(one.batch.state_dict())
    for _ in range(9):
        (seen, rewards, *_), (same, others, *_) = (env.step(np.array([0, 1, 4, 3])) for env in (one, other))
        assert_equal(seen, same)
        assert rewards.tobytes() == others.tobytes()


def test_a_state_stored_before_there_was_a_band_goes_on_with_the_band_of_now(market: Panel) -> None:
    rules = MarketParameters(band=0.02)
    options = {"panel": market, "num_envs": 3, "episode_bars": 6, "action": "target", "market": rules}
    one, other = TradingVectorEnv(**options), TradingVectorEnv(**options)
    one.reset(seed=0)
    other.reset(seed=99)
    one.step(np.array([0.1, 0.05, 0.0]))
    stored = one.batch.state_dict()
    assert stored["parameters"].shape[2] == len(Slot)
    other.batch.load_state_dict(stored | {"parameters": stored["parameters"][:, :, : Slot.BAND]})
    for target in (0.105, 0.15, 0.04):
        (seen, rewards, *_), (same, others, *_) = (env.step(np.full(3, target)) for env in (one, other))
        assert_equal(seen, same)
        assert rewards.tobytes() == others.tobytes()


@pytest.mark.parametrize(
    ("place", "value"), [("BLOCK", -1), ("BLOCK", 4), ("TIME", 22), ("TIME", 10**7), ("END", 420), ("END", 100)]
)
def test_a_stored_cursor_outside_the_bars_is_refused_and_moves_nothing(market: Panel, place: str, value: int) -> None:
    batch = TradingVectorEnv(market, 4).batch
    stored, before = batch.state_dict(), batch.state_dict()
    stored["accounts"] += 1.0
    stored["cursor"][2, Cursor[place]] = value
    with pytest.raises(ConfigError, match="stored 'cursor' does not match this batch of 4"):
        batch.load_state_dict(stored)
    assert all(np.array_equal(before[name], values) for name, values in batch.state_dict().items())


def test_stored_arrays_of_another_kind_are_refused(market: Panel) -> None:
    batch = TradingVectorEnv(market, 4).batch
    own = batch.state_dict()
    for accounts in (None, 3, own["accounts"][:3], own["accounts"].astype(str)):
        with pytest.raises(ConfigError, match="stored 'accounts' does not match this batch of 4"):
            batch.load_state_dict(own | {"accounts": accounts})
    with pytest.raises(ConfigError, match="stored 'accounts' does not match"):
        batch.load_state_dict({})


def test_a_bad_action_names_its_environment(market: Panel) -> None:
    env = TradingVectorEnv(market, 3)
    with pytest.raises(ConfigError, match="call reset"):
        env.step(np.zeros(3))
    env.reset()
    with pytest.raises(ConfigError, match="of environment 2 is refused"):
        env.step(np.array([0, 1, 9]))
    with pytest.raises(ConfigError, match="do not match 3 environments"):
        env.step(np.array([0, 1]))
    for odd in ([[1, 2], [3]], [10**400, 0, 0]):
        with pytest.raises(ConfigError, match="do not match 3 environments"):
            env.step(odd)


def test_a_seed_may_be_of_numpy(market: Panel) -> None:
    for env in (TradingVectorEnv(market, 3), TradingEnv(market)):
        (_, first), (_, again) = env.reset(seed=np.int64(5)), env.reset(seed=5)  # type: ignore[arg-type]
        np.testing.assert_array_equal(first["bar"], again["bar"])


@pytest.mark.proof
def test_no_memory_grows_over_a_million_steps(market: Panel) -> None:
    env = TradingVectorEnv(market, 500, episode_bars=50)
    env.reset(seed=0)
    rng = np.random.default_rng(0)

    def resident() -> int:
        gc.collect()
        with open("/proc/self/statm") as numbers:
            return int(numbers.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    sizes = []
    for _ in range(5):
        for _ in range(400):
            env.step(rng.integers(0, 7, 500))
        sizes.append(resident())
    assert sizes[-1] - sizes[0] < 8 * 2**20


# ---- other people's vector environments -----------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_the_vector_environments_of_gymnasium_give_the_native_numbers(market: Panel, mode: str) -> None:
    options = {"panel": market, "episode_bars": 5}
    same_step = {"autoreset_mode": gymnasium.vector.AutoresetMode.SAME_STEP}
    theirs = gymnasium.make_vec(
        "pacesetter/Trading-v0", num_envs=2, vectorization_mode=mode, vector_kwargs=same_step, **options
    )
    ours = gymnasium.make_vec("pacesetter/Trading-v0", num_envs=2, vectorization_mode="vector_entry_point", **options)
    assert_equal(theirs.reset(seed=7)[0], ours.reset(seed=7)[0])
    for action in (3, 0, 4, 1, 2, 6):
        one, other = theirs.step(np.array([action, 3])), ours.step(np.array([action, 3]))
        assert_equal(one[0], other[0])
        assert np.array_equal(one[1], other[1])
    theirs.close()


def test_subprocesses_of_stable_baselines3_are_seeded_each(market: Panel) -> None:
    vec_env = pytest.importorskip("stable_baselines3.common.vec_env")
    workers = vec_env.SubprocVecEnv([lambda: TradingEnv(market, episode_bars=5)] * 2, start_method="fork")
    workers.seed(7)
    native = TradingVectorEnv(market, 2, episode_bars=5)
    assert_equal(workers.reset(), native.reset(seed=7)[0])
    for action in (3, 4, 0):
        assert_equal(workers.step(np.array([action, 1]))[0], native.step(np.array([action, 1]))[0])
    workers.close()


def test_masked_ppo_learns_through_the_adapter(market: Panel) -> None:
    contrib = pytest.importorskip("sb3_contrib")
    from pacesetter.learning.sb3.algorithms import VectorAdapter

    adapter = VectorAdapter(TradingVectorEnv(market, 4, episode_bars=6))
    model = contrib.MaskablePPO("MultiInputPolicy", adapter, n_steps=16, batch_size=32, n_epochs=1, seed=0)
    model.learn(128)
    assert model.num_timesteps == 128
    assert len(model.ep_info_buffer) > 0


def test_the_batch_needs_neither_gymnasium_nor_pandas() -> None:
    program = """
import sys
for name in ("gymnasium", "stable_baselines3", "pandas", "torch"):
    sys.modules[name] = None
import numpy as np
from pacesetter.envs.batch.bank import Bank
from pacesetter.envs.batch.batch import Batch
from pacesetter.market.bars import MarketBars
close = 100 + np.arange(40.0)[:, None]
ones = np.ones((1, 1, 40))
bank = Bank(
    bars=np.ascontiguousarray(MarketBars.from_arrays(close).values.swapaxes(0, 1)[:, :, None]),
    windows=np.ones((1, 1, 40, 2), np.float32), context=np.zeros((1, 40, 1, 0), np.float32), known=ones > 0,
    labels=ones.astype(np.int8), lasts=np.array([39]), symbols=(("A",),), times=(np.arange(40),),
    names={"window": ("x", "y"), "position": ("p",) * 7, "portfolio": ("q",) * 7}, places={}, is_whole=False,
)
batch = Batch(bank, 3, window_bars=4)
batch.reset()
print(batch.step([3, 3, 3]).observation["window"].shape)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "(3, 4, 2)", done.stderr


def test_equity_of_infos_is_the_ledger_s(market: Panel) -> None:
    env = TradingVectorEnv(market, 3)
    env.reset(seed=0)
    infos = env.step(np.array([3, 0, 1]))[4]
    assert np.array_equal(infos["equity"], infos["ledger"][:, Column.EQUITY])
