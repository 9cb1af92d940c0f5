"""The whole reward: weights, schedules, shaping, resets, what is remembered, and what is refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from pacesetter.errors import ConfigError, DataError
from pacesetter.market.ledger import LEDGER_COLUMNS, Column
from pacesetter.registry import configure
from pacesetter.rewards import TRADING, Reward, RewardConfig, Schedule, Term
from pacesetter.rewards.component import INTERPRETED
from pacesetter.rewards.rows import evaluate


def market(returns: Any, drawdown: float = 0.0) -> NDArray[np.float64]:
    """(env, column) ledger in which account e has the log return `returns[e]`."""
    table = np.zeros((len(returns), len(LEDGER_COLUMNS)))
    table[:, Column.EQUITY_BEFORE] = 100.0
    table[:, Column.EQUITY_CHANGE] = 100.0 * np.expm1(returns)
    table[:, Column.DRAWDOWN] = drawdown
    return table


def path(seed: int, steps: int, envs: int) -> list[NDArray[np.float64]]:
    return [market(returns) for returns in np.random.default_rng(seed).normal(0, 0.02, (steps, envs))]


def test_the_total_is_the_weighted_sum_with_every_component_beside_it() -> None:
    reward = Reward(RewardConfig({"pnl": 2.0, "drawdown": 0.5}), 2)
    step = reward(market([0.1, -0.1], drawdown=0.2))
    assert reward.names == ("pnl", "drawdown")
    np.testing.assert_allclose(step.raw, [[0.1, -0.2], [-0.1, -0.2]])
    np.testing.assert_allclose(step.total, [0.1, -0.3])
    np.testing.assert_array_equal(step.weights, [2.0, 0.5])


def test_the_default_reward_is_the_log_return() -> None:
    np.testing.assert_allclose(Reward(RewardConfig(), 2)(market([0.01, -0.02])).total, [0.01, -0.02])


def test_the_total_is_clipped_and_the_components_are_not() -> None:
    step = Reward(RewardConfig({"pnl": 100.0}), 2)(market([0.5, -0.5]))
    np.testing.assert_array_equal(step.total, [1.0, -1.0])
    np.testing.assert_allclose(step.raw[:, 0], [0.5, -0.5])


def test_a_schedule_counts_environment_steps_and_its_weights_are_given() -> None:
    reward = Reward(RewardConfig({"pnl": Schedule("linear", ((0, 1.0), (8, 0.0)))}), 2)
    weights = [float(reward(rows).weights[0]) for rows in path(0, 6, 2)]
    assert weights == [1.0, 0.75, 0.5, 0.25, 0.0, 0.0]


def test_zscores_are_those_of_all_values_so_far() -> None:
    reward = Reward(RewardConfig({"pnl": Term(normalise="zscore")}, clip=None), 3)
    steps = [reward(rows) for rows in path(1, 20, 3)]
    seen = np.concatenate([step.raw[:, 0] for step in steps])
    np.testing.assert_allclose(steps[-1].shaped[:, 0], (seen[-3:] - seen.mean()) / seen.std())
    np.testing.assert_allclose(steps[4].shaped[:, 0], (seen[12:15] - seen[:15].mean()) / seen[:15].std())


def test_minmax_is_within_one_and_smoothing_keeps_the_raw_value() -> None:
    config = RewardConfig({"pnl": Term(normalise="minmax"), "cost": 1.0, "time": Term(smoothing_steps=3)})
    reward = Reward(config, 4)
    for rows in path(2, 10, 4):
        rows[:, Column.HOLDING_BARS] = np.arange(4) * 10
        step = reward(rows)
        assert np.abs(step.shaped[:, 0]).max() <= 1.0
    rows[:, Column.HOLDING_BARS] = 0.0
    step = reward(rows)
    np.testing.assert_array_equal(step.raw[:, 2], 0.0)
    np.testing.assert_allclose(step.shaped[:, 2], -0.05 * np.arange(4))


def test_a_single_value_ever_normalises_to_zero() -> None:
    reward = Reward(RewardConfig({"pnl": Term(normalise="zscore"), "drawdown": Term(normalise="minmax")}), 1)
    np.testing.assert_array_equal(reward(market([0.1])).shaped, [[0.0, 0.0]])


def test_the_past_does_not_change_when_the_future_does() -> None:
    config = RewardConfig({"pnl": Term(normalise="zscore", smoothing_steps=5), "differential_sharpe": 1.0})
    one, other = Reward(config, 2), Reward(config, 2)
    shared = path(3, 8, 2)
    first = [one(rows).total for rows in [*shared, *path(4, 3, 2)]]
    second = [other(rows).total for rows in [*shared, *path(5, 3, 2)]]
    np.testing.assert_array_equal(first[:8], second[:8])
    assert not np.array_equal(first[8:], second[8:])


CHEBYSHEV = RewardConfig({"pnl": 1.0, "drawdown": 2.0}, "chebyshev", {"pnl": 0.1, "drawdown": 0.0}, clip=None)


def test_chebyshev_with_its_reference_point() -> None:
    step = Reward(CHEBYSHEV, 2)(market([0.1, -0.5], drawdown=0.2))
    np.testing.assert_allclose(step.total, [-0.4, -0.6])


def test_a_reset_row_starts_over_and_the_others_go_on() -> None:
    config = RewardConfig({"differential_sharpe": Term(smoothing_steps=3)}, clip=None)
    reward, undisturbed, fresh = (Reward(config, 2) for _ in range(3))
    for rows in path(6, 5, 2):
        reward(rows), undisturbed(rows)
    reward.reset([1])
    for rows in path(7, 5, 2):
        totals = [each(rows).total for each in (reward, undisturbed, fresh)]
    assert totals[0][0] == totals[1][0]
    assert totals[0][1] == totals[2][1]
    assert totals[0][1] != totals[1][1]


def test_reset_takes_a_mask() -> None:
    reward = Reward(RewardConfig({"repetition": 1.0}), 3)
    reward.state[:] = 9.0
    reward.reset(np.array([True, False, True]))
    np.testing.assert_array_equal(reward.state, [[0, 0], [9, 9], [0, 0]])


EVERYTHING = RewardConfig(
    TRADING
    | {"pnl": Term(Schedule("exponential", ((0, 10.0), (60, 1.0))), normalise="zscore")}
    | {"hold": Term(normalise="minmax", smoothing_steps=4)}
)


@pytest.mark.parametrize("device", [None, "cpu"])
def test_it_goes_on_from_what_was_stored(device: str | None) -> None:
    def run(reward: Reward, part: list[NDArray[np.float64]]) -> Any:
        return [np.asarray(reward(rows if device is None else torch.as_tensor(rows)).total) for rows in part]

    whole, first, second = (Reward(EVERYTHING, 3, device=device) for _ in range(3))
    rows = path(8, 20, 3)
    expected = run(whole, rows)
    run(first, rows[:9])
    second.load_state_dict(first.state_dict())
    np.testing.assert_array_equal(run(second, rows[9:]), expected[9:])
    assert {str(value.dtype).removeprefix("torch.") for value in first.state_dict().values()} == {"float64"}


def test_what_was_stored_for_another_shape_is_refused() -> None:
    with pytest.raises(ConfigError, match="does not match"):
        Reward(EVERYTHING, 2).load_state_dict(Reward(EVERYTHING, 3).state_dict())


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_shaped_rewards_are_the_same_in_torch(device: str) -> None:
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("needs an NVIDIA GPU")
    arrays, tensors = Reward(EVERYTHING, 3), Reward(EVERYTHING, 3, device=device)
    for rows in path(9, 10, 3):
        step, other = arrays(rows), tensors(torch.as_tensor(rows, device=device))
        np.testing.assert_allclose(other.total.cpu().numpy(), step.total, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(other.shaped.cpu().numpy(), step.shaped, rtol=1e-12, atol=1e-12)


def test_returned_arrays_are_never_written_again() -> None:
    reward = Reward(EVERYTHING, 2)
    rows = path(10, 2, 2)
    first = reward(rows[0])
    kept = [part.copy() for part in first]
    reward(rows[1])
    for part, copy in zip(first, kept, strict=True):
        np.testing.assert_array_equal(part, copy)


def test_one_account_alone_is_worth_the_same_as_in_a_batch() -> None:
    batch, alone = Reward(RewardConfig(TRADING), 50), Reward(RewardConfig(TRADING), 1)
    for rows in path(11, 5, 50):
        assert batch(rows).total[17] == alone(rows[17:18]).total[0]


@pytest.mark.parametrize("device", [None, "cpu"])
@pytest.mark.parametrize("hole", [math.nan, math.inf])
def test_a_hole_in_the_ledger_is_refused_before_it_is_remembered(device: str | None, hole: float) -> None:
    reward = Reward(RewardConfig({"pnl": 1.0, "differential_sharpe": 1.0, "hold": 0.1}), 3, device=device)
    rows = market([0.1, 0.1, 0.1])
    rows[1, Column.TURNOVER] = hole
    with pytest.raises(DataError, match=r"'turnover' of environment 1 is (nan|inf), and reward component 'hold'"):
        reward(rows if device is None else torch.as_tensor(rows))
    assert not reward.state.any()


def test_a_hole_in_a_column_that_nobody_reads_is_no_matter() -> None:
    rows = market([0.1])
    rows[0, Column.EXIT_PRICE] = math.nan
    assert Reward(RewardConfig(), 1)(rows).total[0] == pytest.approx(0.1)


def test_a_component_that_makes_a_hole_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from pacesetter.rewards import REWARDS, component

    monkeypatch.setitem(REWARDS._members, "broken", component(lambda cash: cash * math.nan))
    with pytest.raises(DataError, match="'broken' gave nan for environment 0"):
        Reward(RewardConfig({"broken": 1.0}), 1)(market([0.1]))


def test_a_ledger_of_another_shape_is_refused() -> None:
    with pytest.raises(DataError, match=r"shape \(3, 34\).* = \(2, 34\)"):
        Reward(RewardConfig(), 2)(market([0.1, 0.1, 0.1]))


def test_an_environment_may_have_a_ledger_of_its_own() -> None:
    reward = Reward(RewardConfig({"drawdown": 1.0}), 1, columns=("spread", "drawdown"))
    assert reward(np.array([[9.0, 0.25]])).total[0] == -0.25
    with pytest.raises(ConfigError, match="'pnl' reads ledger column 'equity_before', which does not exist"):
        Reward(RewardConfig(), 1, columns=("spread", "drawdown"))


def test_a_ledger_of_its_own_is_not_read_beyond_its_columns() -> None:
    """Uncompiled, where a column that is not there is an error; compiled, it would be someone else's memory."""
    nothing = np.zeros((1, 0))
    codes, offsets = np.array([INTERPRETED]), np.array([0])
    plain = getattr(evaluate, "py_func", evaluate)  # with NUMBA_DISABLE_JIT it is plain already
    assert plain(np.ones((1, 2)), np.array([1]), codes, offsets, nothing, nothing, np.ones((1, 1))) == -1


def test_it_is_made_from_plain_options() -> None:
    options = {
        "components": {
            "pnl": {"weight": {"kind": "linear", "points": [[0, 1], [10, 2]]}, "normalise": "zscore"},
            "time": {"options": {"horizon_bars": 50}},
            "cost": 0.5,
            "hold": {"kind": "piecewise", "points": [[0, 1.0]]},
        },
        "clip": 5,
    }
    expected = {
        "pnl": Term(Schedule("linear", ((0, 1.0), (10, 2.0))), normalise="zscore"),
        "time": Term(options={"horizon_bars": 50.0}),
        "cost": Term(0.5),
        "hold": Term(Schedule("piecewise", ((0, 1.0),))),
    }
    assert configure(RewardConfig, options, "reward") == RewardConfig(expected, clip=5.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"components": {}}, "name one or more"),
        ({"components": {"pln": 1.0}}, "did you mean 'pnl'"),
        ({"components": {"pnl": "1"}}, "reward.components.pnl.weight='1' is not a finite number"),
        ({"components": {"pnl": {"weight": {"kind": "liner", "points": []}}}}, "did you mean 'linear'"),
        ({"components": {"pnl": math.nan}}, "not a finite number"),
        ({"components": {"pnl": {"wieght": 1.0}}}, r"'reward.components.pnl.wieght'; did you mean 'weight'"),
        ({"components": {"time": {"options": {"horizon": 5}}}}, "did you mean 'horizon_bars'"),
        ({"components": {"time": {"options": {"horizon_bars": 0}}}}, "above 0"),
        ({"components": {"pnl": {"normalise": "z-score"}}}, "did you mean 'zscore'"),
        ({"components": {"pnl": {"smoothing_steps": 0}}}, "reward.components.pnl.smoothing_steps=0 must be 1 or more"),
        ({"components": {"pnl": -1.0}, "scalarisation": "chebyshev"}, "at least 0"),
        ({"scalarisation": "chebychev"}, "did you mean 'chebyshev'"),
        ({"reference": {"pnll": 1.0}}, "did you mean 'pnl'"),
        ({"clip": 0}, "above 0"),
    ],
)
def test_refused_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        configure(RewardConfig, options, "reward")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"components": ["pnl"]}, "name one or more, e.g. {pnl: 1.0}"),
        ({"components": {"pnl": Term(normalise="zscroe")}}, "did you mean 'zscore'"),  # type: ignore[arg-type]
        ({"components": {"time": Term(options={"horizon_bars": "x"})}}, "horizon_bars='x' must be of type float"),  # type: ignore[dict-item]
        ({"scalarisation": "chebychev"}, "did you mean 'chebyshev'"),
        ({"reference": {"pnl": math.nan}}, "reward.reference.pnl=nan is not a finite number"),
        ({"clip": "1"}, "reward.clip='1' is out of range"),
    ],
)
def test_refused_in_python_too(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        RewardConfig(**options)


def test_a_reward_paid_at_the_end_of_an_episode_is_the_sum_of_what_its_bars_earned() -> None:
    rows = path(7, 6, 2)
    ends = np.zeros((6, 2), bool)
    ends[2, 0] = ends[5, 1] = ends[5, 0] = True
    plain, sparse = Reward(RewardConfig({"pnl": 1.0}), 2), Reward(RewardConfig({"pnl": 1.0}, paid="episode"), 2)
    earned = np.array([plain(ledger).total for ledger in rows])
    paid = np.array([sparse(ledger, ended).total for ledger, ended in zip(rows, ends, strict=True)])
    assert (paid[~ends] == 0).all()
    np.testing.assert_allclose(
        [paid[2, 0], paid[5, 0], paid[5, 1]], [*(earned[:3, 0].sum(), earned[3:, 0].sum()), earned[:, 1].sum()]
    )


def test_what_an_episode_is_owed_is_stored_and_forgotten_with_its_account() -> None:
    rows, never = path(8, 4, 2), np.zeros(2, bool)
    reward = Reward(RewardConfig({"pnl": 1.0}, paid="episode"), 2)
    for ledger in rows[:3]:
        reward(ledger, never)
    other = Reward(RewardConfig({"pnl": 1.0}, paid="episode"), 2)
    other.load_state_dict(reward.state_dict())
    np.testing.assert_array_equal(reward(rows[3], ~never).total, other(rows[3], ~never).total)
    reward(rows[0], never)
    reward.reset(np.array([True, False]))
    last = reward(rows[3], ~never).total
    alone = [float(Reward(RewardConfig(), 2)(ledger).total[0]) for ledger in (rows[3],)]
    np.testing.assert_allclose(last[0], alone[0])


def test_an_unknown_time_of_payment_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"reward\.paid='episodes' is unknown; did you mean 'episode'"):
        RewardConfig(paid="episodes")  # type: ignore[arg-type]
