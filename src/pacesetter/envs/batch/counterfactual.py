"""What every order would come to: a step of each of the seven discrete orders on copies of the accounts.

Bars do not depend on orders and one account's step is exact arithmetic, so the result of an order that was not sent is
known as exactly as that of the one that was. A learner can then average over orders instead of sampling one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pacesetter.envs.batch.loops import try_rows
from pacesetter.envs.batch.rows import DISCRETE_COUNT, Cursor, Outcome
from pacesetter.errors import ConfigError
from pacesetter.market.ledger import Column, Fill
from pacesetter.rewards import Reward

if TYPE_CHECKING:
    from pacesetter.envs.batch.batch import Batch

__all__ = ["Counterfactual", "check_counterfactual", "repeated_reward", "try_orders"]


class Counterfactual(NamedTuple):
    """The result of every order in every environment.

    rewards      (env, order)
    terminated   (env, order) ruin, a limit, a delisting
    vectors      (env, order, size) account vectors as seen at the next close, before any restart
    places       (env, 2) block and bar of that close, whatever the order
    """

    rewards: Any
    terminated: Any
    vectors: Any
    places: Any


def check_counterfactual(batch: Batch) -> None:
    """Refuse environments whose orders cannot all be tried: they must be discrete and of one symbol."""
    if batch.action != "discrete" or batch.bank.positions_each != 1:
        raise ConfigError(
            "agent.advantages=expected tries every discrete order of one symbol, but task.action is "
            f"{batch.action} for {batch.bank.positions_each}; give task.action=discrete, or agent.advantages=sampled"
        )
    if batch.reward.paid == "episode":
        raise ConfigError(
            "task.reward.paid=episode pays nothing for an order that was tried at one bar; give bar, or "
            "agent.advantages=sampled"
        )
    for name, term in batch.reward.components.items():
        if term.normalise != "none":
            raise ConfigError(
                f"reward.components.{name}.normalise={term.normalise} depends on all rewards before, so those of "
                "orders not sent are unknown; give none, or agent.advantages=sampled"
            )


def try_orders(batch: Batch, reward: Reward | None) -> Counterfactual:
    """Try every order in every environment of a batch; `reward` is the batch's, unless its step writes it."""
    rows, (_, width, entries) = batch.env_count * DISCRETE_COUNT, batch.positions.shape
    ledger, outcome = np.empty((rows, len(Column))), np.empty((len(Outcome), rows))
    vectors = np.empty((rows, batch.builder.vector_size), np.float32)
    copies = np.empty((rows, batch.accounts.shape[1])), np.empty((rows, width, entries))
    state = (batch.settings, batch.bank.bars, batch.parameters, batch.accounts, batch.positions, batch.cursor)
    fills = np.empty((rows, width, len(Fill)))
    try_rows(np.empty((rows, width)), *state, *copies, ledger, fills, outcome, vectors)
    rewards = outcome[Outcome.REWARD] if reward is None else repeated_reward(reward)(ledger).total
    shape = (batch.env_count, DISCRETE_COUNT)
    places = batch.cursor[:, : Cursor.FINAL_BLOCK] + np.array([0, 1])
    return Counterfactual(
        rewards.reshape(shape), outcome[Outcome.TERMINATED].reshape(shape) > 0, vectors.reshape(*shape, -1), places
    )


def repeated_reward(reward: Reward) -> Reward:
    """A reward for every order of every environment that remembers what the environments' own does."""
    known = reward.state_dict()
    copy = reward.again(len(reward.state) * DISCRETE_COUNT)
    rows = np.arange(len(copy.state)) // DISCRETE_COUNT
    known |= {name: known[name][rows] for name in ("state", "smoothed")}
    copy.load_state_dict(known)
    return copy
