"""Vector environments whose actions are added to what a prior wants."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces
from gymnasium.vector import VectorWrapper
from gymnasium.vector.utils import batch_space

from pacesetter.arrays import Array
from pacesetter.envs.batch.bank import PRIOR
from pacesetter.envs.batch.batch import Batch
from pacesetter.envs.batch.rows import Cursor
from pacesetter.envs.vector import BatchVectorEnv, VectorStep
from pacesetter.market.bars import Bar
from pacesetter.market.orders import Around, around_prior, as_targets
from pacesetter.market.state import Account, Position

__all__ = ["ResidualVectorEnv", "prior_state"]


class ResidualVectorEnv(VectorWrapper):
    """A `TradingVectorEnv` of targets with a prior: an action in [-1, 1] is added to the prior's own, `reach` times."""

    def __init__(self, env: BatchVectorEnv, reach: float) -> None:
        super().__init__(env)
        self.around, self.batch = Around.of(reach, env.batch.market), env.batch
        self.single_action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.action_space = batch_space(self.single_action_space, env.num_envs)

    def step(self, actions: object) -> VectorStep:
        """Step every environment to the prior's target with its residual added."""
        prior, held = prior_state(self.batch)
        residuals = np.asarray(actions, dtype=np.float64).reshape(-1)
        numbers = around_prior(residuals, prior, held, self.around)
        return self.env.step(as_targets(numbers, self.batch.market)[:, None])


def prior_state(batch: Batch) -> tuple[Array, Array]:
    """The prior's ends (env, 2) and the shares of equity held (env,) at the close that each environment stands at."""
    block, time = batch.cursor[:, Cursor.BLOCK], batch.cursor[:, Cursor.TIME]
    prior = batch.bank.context[block, time, 0, batch.bank.places[PRIOR]].astype(np.float64)
    if batch.sizer is not None:
        return prior, batch.sizer.views_held(batch)[:, 0]
    close, equity = batch.bank.bars[block, time, 0, Bar.CLOSE], batch.accounts[:, Account.EQUITY]
    worth = batch.positions[:, 0, Position.QUANTITY] * close
    held: Array = np.divide(worth, equity, out=np.zeros_like(worth), where=equity > 0)
    return prior, held
