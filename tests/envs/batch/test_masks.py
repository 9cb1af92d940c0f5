"""The repetition limit: an order that was given n times in a row is masked; compiled rows equal the plain ones."""

from __future__ import annotations

import numpy as np
import pytest

from pacesetter.data.synthetic import Synthetic
from pacesetter.envs.batch.bank import Bank
from pacesetter.envs.batch.batch import Batch
from pacesetter.envs.batch.masks import limit_row, mask_row
from pacesetter.envs.batch.rows import Cursor, Setting
from pacesetter.errors import ConfigError
from pacesetter.features import feature_table
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.market.orders import Discrete

ENVS, LIMIT = 4, 3


@pytest.fixture(scope="module")
def bank() -> Bank:
    panel = Synthetic(symbols=2, bars=80, seed=1).read()
    return Bank.from_panels(panel, feature_table(panel, ["return_1"]))


def batch_of(bank: Bank, **options) -> Batch:
    batch = Batch(bank, ENVS, window_bars=2, episode_bars=30, has_windows=False, **options)
    batch.seed(range(ENVS))
    batch.reset()
    return batch


def plain_masks(batch: Batch) -> np.ndarray:
    """The same by Python alone."""
    masks = np.zeros(batch.mask_shape, dtype=bool)
    for e in range(ENVS):
        mask_row(e, masks, batch.bank.bars, batch.parameters, batch.accounts, batch.positions, batch.cursor)
        limit_row(e, masks, batch.settings, batch.cursor)
    return masks


def test_compiled_masks_are_those_of_plain_python(bank):
    batch, generator = batch_of(bank, repetition_limit=2), np.random.default_rng(0)
    limited = 0
    for _ in range(60):
        masks = batch.action_masks()
        assert np.array_equal(masks, plain_masks(batch))
        limited += int((~masks[:, Discrete.HOLD]).sum())
        batch.step(generator.integers(0, 2, ENVS))
    assert limited > 0


def test_after_so_many_equal_orders_another_is_forbidden_until_there_was_a_different_one(bank):
    batch = batch_of(bank, repetition_limit=LIMIT)
    for step in range(2 * LIMIT):
        assert batch.action_masks()[:, Discrete.HOLD].all() == (step < LIMIT)
        batch.step(np.zeros(ENVS, dtype=np.int64))
    batch.step(np.full(ENVS, Discrete.BUY_SMALL))
    assert batch.action_masks()[:, Discrete.HOLD].all()
    assert (batch.cursor[:, Cursor.REPEATS] == 1).all()


def test_an_order_that_alone_is_allowed_stays(bank):
    masks, cursor = np.zeros((1, 7), bool), np.zeros((1, len(Cursor)), np.int64)
    settings = np.zeros(len(Setting))
    settings[Setting.REPETITION_LIMIT], masks[0, Discrete.HOLD] = 1, True
    cursor[0, [Cursor.ORDER, Cursor.REPEATS]] = 1, 5
    limit_row(0, masks, settings, cursor)
    assert masks[0, Discrete.HOLD]


def test_an_episode_begins_without_a_memory_and_a_resume_keeps_it(bank):
    batch = batch_of(bank, repetition_limit=LIMIT)
    for _ in range(LIMIT):
        batch.step(np.zeros(ENVS, dtype=np.int64))
    stored, other = batch.state_dict(), batch_of(bank, repetition_limit=LIMIT)
    other.load_state_dict(stored)
    assert np.array_equal(other.action_masks(), batch.action_masks())
    early = stored | {"cursor": stored["cursor"][:, : Cursor.ORDER]}  # of a version that had no limit
    other.load_state_dict(early)
    assert other.action_masks()[:, Discrete.HOLD].all()
    batch.reset()
    assert batch.action_masks()[:, Discrete.HOLD].all()


def test_without_a_limit_nothing_is_counted(bank):
    batch = batch_of(bank)
    for _ in range(5):
        batch.step(np.zeros(ENVS, dtype=np.int64))
    assert batch.action_masks()[:, Discrete.HOLD].all()
    assert not batch.cursor[:, Cursor.REPEATS].any()


def test_a_limit_that_no_mask_could_keep_is_refused(bank):
    with pytest.raises(ConfigError, match="masks discrete orders of one symbol"):
        batch_of(bank, action="continuous", repetition_limit=3)
    with pytest.raises(ConfigError, match="must be a whole number"):
        batch_of(bank, repetition_limit=0)
    with pytest.raises(ConfigError, match="agent=ppo ignores"):
        resolve(["data=synthetic", "task.action=discrete", "task.repetition_limit=20"])
    with pytest.raises(ConfigError, match="needs 1 or more, and"):
        resolve(["data=synthetic", "task=fleet", "task.action=continuous", "agent=sac", "task.repetition_limit=20"])
    discrete = ["data=synthetic", "task=fleet", "task.action=discrete"]
    assert resolve([*discrete, "task.repetition_limit=20"]).trading.repetition_limit == 20
