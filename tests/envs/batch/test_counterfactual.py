"""What every order would come to equals what it does come to, and trying it changes nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pacesetter.data.synthetic import Synthetic
from pacesetter.envs import Bank, Batch
from pacesetter.envs.batch.counterfactual import check_counterfactual
from pacesetter.errors import ConfigError
from pacesetter.features import feature_table
from pacesetter.rewards import TRADING, RewardConfig

ENVS, ORDERS = 5, 7


@pytest.fixture(scope="module")
def bank() -> Bank:
    panel = Synthetic(symbols=3, bars=60, seed=2).read()
    return Bank.from_panels(panel, feature_table(panel, ["return_1"]))


def played(bank: Bank, **options: Any) -> Batch:
    """A batch some steps into its episodes, with positions of all kinds."""
    batch = Batch(bank, ENVS, window_bars=3, episode_bars=9, has_windows=False, **options)
    batch.seed(range(ENVS))
    batch.reset()
    for orders in np.random.default_rng(0).integers(0, ORDERS, (6, ENVS)):
        batch.step(orders)
    return batch


@pytest.mark.parametrize("reward", ["pnl", RewardConfig(TRADING)], ids=["pnl", "many components"])
def test_each_order_comes_to_what_was_foreseen(bank: Bank, reward: Any) -> None:
    batch = played(bank, reward=reward)
    for _ in range(6):  # over the ends of episodes
        before = batch.state_dict()
        tried = batch.counterfactual()
        for name, values in batch.state_dict().items():
            assert np.array_equal(values, before[name], equal_nan=True), name
        for order in range(ORDERS):
            batch.load_state_dict(before)
            step = batch.step(np.full(ENVS, order))
            ended = step.terminated | step.truncated
            seen = {name: step.observation[name] for name in ("position", "portfolio")}
            vectors = np.where(ended[:, None], step.finals, np.concatenate([*seen.values()], axis=1))
            places = np.where(ended[:, None], batch.cursor[:, 2:4], step.observation["index"])
            np.testing.assert_array_equal(tried.vectors[:, order], vectors)
            np.testing.assert_array_equal(tried.places, places)
            np.testing.assert_array_equal(tried.terminated[:, order], step.terminated)
            np.testing.assert_allclose(tried.rewards[:, order], step.rewards, rtol=1e-12, atol=1e-15)
    assert np.ptp(tried.rewards, axis=1).max() > 0


def test_what_cannot_be_tried_is_refused(bank: Bank) -> None:
    with pytest.raises(ConfigError, match=r"task.action is target for 1; give task.action=discrete"):
        check_counterfactual(played_target(bank))
    normalised = RewardConfig({"pnl": {"weight": 1.0, "normalise": "zscore"}})
    with pytest.raises(ConfigError, match=r"reward.components.pnl.normalise=zscore depends on all rewards before"):
        check_counterfactual(played(bank, reward=normalised))
    with pytest.raises(ConfigError, match=r"task.reward.paid=episode pays nothing for an order that was tried"):
        check_counterfactual(played(bank, reward=RewardConfig(paid="episode")))


def played_target(bank: Bank) -> Batch:
    return Batch(bank, ENVS, window_bars=3, episode_bars=9, action="target")
