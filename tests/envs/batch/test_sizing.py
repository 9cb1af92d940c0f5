"""The risk step in training: the backtest's own account bar by bar, and nothing of an episode in the next.

Runs `envs.batch.sizing`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pacesetter.build import build_panel, build_parts
from pacesetter.data import load
from pacesetter.envs.batch.account_entries import PositionEntry
from pacesetter.envs.batch.bank import Bank
from pacesetter.envs.batch.batch import Batch
from pacesetter.envs.batch.starts import Starts
from pacesetter.errors import ConfigError
from pacesetter.evaluation.backtest.backtest import backtest
from pacesetter.features import feature_table
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.market.parameters import Limits, MarketParameters
from pacesetter.market.risk import RiskColumn, RiskOptions
from pacesetter.policies.policy import Policy

FIRST, LAST = 60, 160
RISKS = {
    "inverse_volatility": RiskOptions(0.1, "inverse_volatility", 0.04, scale=1.0),
    "cash": RiskOptions(0.1, scale=1.0),
    "given": RiskOptions(None, {"S1": 0.6, "S2": 0.4}, scale=1.0),
}


@pytest.fixture(scope="module")
def panel():
    return replace(load("synthetic", symbols=3, bars=200, seed=5, volatility=0.4), truth=None)


@pytest.fixture(scope="module")
def market(panel):
    return MarketParameters(limits=Limits(position_cap_fraction=0.8), bars_per_year=panel.bars_per_year)


def wanted(position):
    """Views of a policy that reads what it believes to hold: (…, K, PositionEntry) → (…, K)."""
    held = np.asarray(position, dtype=np.float64)[..., PositionEntry.WEIGHT]
    return np.clip(0.3 * np.array([1.0, 0.2, 0.0]) + 0.5 * held, 0.0, 1.0)


class Views(Policy):
    name, action = "views", "target"

    def decide(self, snapshot):
        return wanted(snapshot.observation["position"])


def make_batch(panel, market, risk, envs=1, **options):
    bank = Bank.from_panels(panel, feature_table(panel, ["return_1"]), is_whole=True)
    batch = Batch(bank, envs, action="target", window_bars=2, market=market, risk=risk, **options)
    batch.use_starts(Starts(np.array([[0, FIRST, LAST]]), np.array([0, 1]), is_fixed=True))
    return batch


@pytest.mark.parametrize("base", RISKS)
def test_an_episode_is_the_backtest_of_the_same_views(base, panel, market):
    played = backtest(Views(), panel, first=FIRST, last=LAST, market=market, window_bars=2, risk=RISKS[base])
    batch = make_batch(panel, market, RISKS[base], envs=2)
    observation, equity = batch.reset(), []
    for bar in range(LAST - FIRST):
        step = batch.step(wanted(observation["position"]))
        observation = step.observation
        equity.append(step.ledger[:, 0].tolist())
        if bar < LAST - FIRST - 1:
            np.testing.assert_array_equal(batch.sizer.sizes[1], played.risk[bar])
    np.testing.assert_array_equal(np.array(equity), np.repeat(played.ledger[:, :1], 2, axis=1))
    assert (np.abs(played.risk[:, RiskColumn.VOLATILITY_AFTER]) > 0).all()


def test_a_single_environment_is_a_row_of_many(panel, market):
    risk = RISKS["inverse_volatility"]
    many, alone = make_batch(panel, market, risk), make_batch(panel, market, risk, restarts=False)
    observation, vector = many.reset(), alone.restart()[0, 0]
    for _ in range(5):
        step = many.step(wanted(observation["position"]))
        position = vector[: 3 * len(PositionEntry)].reshape(3, -1)
        np.testing.assert_array_equal(position, observation["position"][0])
        ledger, vector, _ = alone.step_alone(wanted(position))
        np.testing.assert_array_equal(ledger, step.ledger[0])
        observation = step.observation


def test_an_episode_begins_without_the_base_of_the_last_one(panel, market):
    batch = make_batch(panel, market, RISKS["inverse_volatility"])
    observation = batch.reset()
    first = [batch.step(wanted(observation["position"])).ledger[0, 0]]
    while not batch.ended:
        step = batch.step(np.full((1, 3), 0.1))
    final = batch.final_observation(0, step.finals)["position"][:, PositionEntry.WEIGHT]
    assert 0.0 < np.abs(final).max() < 0.2  # the views alone, and not the base
    assert not step.observation["position"][..., PositionEntry.WEIGHT].any()
    assert not batch.sizer.base_quantities.any()
    again = batch.step(wanted(step.observation["position"])).ledger[0, 0]
    assert [again] == first


def test_a_stored_state_goes_on_alike(panel, market):
    batch, other = (make_batch(panel, market, RISKS["inverse_volatility"], envs=2) for _ in range(2))
    batch.reset()
    for _ in range(7):
        batch.step(np.full((2, 3), 0.2))
    other.load_state_dict(batch.state_dict())
    np.testing.assert_array_equal(other.step(np.zeros((2, 3))).ledger, batch.step(np.zeros((2, 3))).ledger)
    with pytest.raises(ConfigError, match=r"stored 'risk\.base_quantities' does not match"):
        other.load_state_dict(make_batch(panel, market, None, envs=2).state_dict())


def test_symbols_that_are_traded_alone_are_sized_alone(panel, market):
    bank = Bank.from_panels(panel, feature_table(panel, ["return_1"]))
    batch = Batch(bank, 3, action="target", window_bars=2, market=market, risk=RiskOptions(0.1))
    batch.use_starts(Starts(np.array([[k, FIRST, LAST] for k in range(3)]), np.arange(4), is_fixed=True))
    batch.reset()
    batch.step(np.full((3, 1), 0.8))
    before, after = batch.sizer.sizes[:, [RiskColumn.VOLATILITY_BEFORE, RiskColumn.VOLATILITY_AFTER]].T
    np.testing.assert_allclose(after, 0.15)  # the peak, 1.5 times the target
    np.testing.assert_allclose(before, after)


def test_a_target_may_be_above_one_where_leverage_allows_it(panel, market):
    levered = replace(market, limits=Limits(position_cap_fraction=1.8, gross_leverage=2.0))
    batch = make_batch(panel, levered, RiskOptions(3.0, {"S1": 1.0}, scale=0.0))
    batch.reset()
    batch.step(np.zeros((1, 3)))
    assert batch.inputs[0].tolist() == [0.0, 1.8, 0.0]
    assert batch.positions[0, 1, 0] > 0.0
    with pytest.raises(ConfigError, match="from 0 to 1"):  # views themselves stay in their box
        batch.step(np.full((1, 3), 1.5))


def test_what_is_not_a_view_is_refused(panel, market):
    batch = make_batch(panel, market, RISKS["cash"])
    batch.reset()
    with pytest.raises(ConfigError, match="is refused"):
        batch.step(np.full((1, 3), 1.5))
    bank = Bank.from_panels(panel, feature_table(panel, ["return_1"]), is_whole=True)
    with pytest.raises(ConfigError, match="risk sizes targets, not discrete orders"):
        Batch(bank, action="discrete", market=market, risk=RiskOptions(0.1))
    assert make_batch(panel, market, RiskOptions()).sizer is None


QUICK = (
    "data=synthetic",
    "data.symbols=3",
    "data.bars=400",
    "data.groups=1",
    "features.leadlag.lookback=null",
    "task.episode_bars=20",
)


@pytest.mark.parametrize(
    "task", [("task=portfolio",), ("task=trading", "task.action=target"), ("task=fleet", "task.action=target")]
)
def test_agents_of_targets_learn_in_the_account_that_is_judged(task):
    words = (*task, "agent=ppo", "train.envs=2", *QUICK)
    plain, sized = (resolve([*words, *more]) for more in ((), ("risk.target_volatility=0.1",)))
    panel = build_panel(sized)
    assert build_parts(plain, panel).train.batch.sizer is None
    parts = build_parts(sized, panel)
    assert parts.train.batch.sizer is not None
    orders = resolve([*words, "task.action=discrete", "risk.target_volatility=0.1"])
    assert build_parts(orders, panel).train.batch.sizer is None
