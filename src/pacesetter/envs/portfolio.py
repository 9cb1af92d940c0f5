"""`pacesetter/Portfolio-v0`: all symbols in one account, a target weight or an order for each at every close."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Unpack

import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import batch_space
from numpy.typing import ArrayLike

from pacesetter.arrays import Array
from pacesetter.envs.single import EnvOptions, Observation, SingleEnv
from pacesetter.envs.vector import BatchVectorEnv, VectorOptions
from pacesetter.errors import ConfigError

if TYPE_CHECKING:
    from pacesetter.panel import Panel

__all__ = ["PortfolioEnv", "PortfolioVectorEnv", "Propose"]

Propose = Callable[
    [Observation], ArrayLike
]  # observations (env, …) -> what frozen symbol agents want, (env, K) in [-1, 1]


class PortfolioEnv(SingleEnv):
    """Trades all symbols of a panel, or of each of several panels with as many symbols.

    action    target (shares of equity), continuous or discrete (an order per symbol)
    propose   frozen symbol agents: their orders are the entry `proposals` (K,) of the observation
    """

    is_whole = True

    def __init__(
        self,
        panel: Panel | Sequence[Panel],
        symbols: Sequence[str] | None = None,
        *,
        action: str = "target",
        propose: Propose | None = None,
        **options: Unpack[EnvOptions],
    ) -> None:
        super().__init__(panel, symbols, action=action, **options)
        self.propose = propose
        if propose is not None:
            self.observation_space = _with_proposals(self.observation_space, self.batch.bank.positions_each)

    def _complete(self, observation: Observation) -> Observation:
        return observation if self.propose is None else _add_proposals_of_one(self.propose, observation)


class PortfolioVectorEnv(BatchVectorEnv):
    """Many `PortfolioEnv` as one; row e with seed s + e is `PortfolioEnv` of it."""

    is_whole = True

    def __init__(
        self,
        panel: Panel | Sequence[Panel],
        num_envs: int = 1,
        symbols: Sequence[str] | None = None,
        *,
        action: str = "target",
        propose: Propose | None = None,
        **options: Unpack[VectorOptions],
    ) -> None:
        super().__init__(panel, num_envs, symbols, action=action, **options)
        self.propose = propose
        if propose is not None:
            width = self.batch.bank.positions_each
            self.single_observation_space = _with_proposals(self.single_observation_space, width)
            self.observation_space = batch_space(self.single_observation_space, num_envs)

    def _complete(self, observation: Observation) -> Observation:
        return observation if self.propose is None else _add_proposals(self.propose, observation)

    def _final_observation(self, e: int, finals: Array) -> Observation:
        observation = super()._final_observation(e, finals)
        # The last observation is bootstrapped from, so it needs proposals like any other.
        return observation if self.propose is None else _add_proposals_of_one(self.propose, observation)


def _with_proposals(space: spaces.Space[Observation], positions_each: int) -> spaces.Dict:
    assert isinstance(space, spaces.Dict)
    return spaces.Dict({**space.spaces, "proposals": spaces.Box(-1.0, 1.0, (positions_each,), np.float32)})


def _add_proposals(propose: Propose, observation: Observation) -> Observation:
    """The observation (env, …) with the orders that `propose` gives; refuses other shapes, NaN and |order| > 1."""
    orders = np.asarray(propose(observation), dtype=np.float32)
    shape = observation["position"].shape[:2]
    if orders.shape != shape or not (np.abs(orders) <= 1.0).all():
        raise ConfigError(f"propose gave {orders.shape} orders; give (env, symbol) = {shape}, each from -1 to 1")
    return observation | {"proposals": orders}


def _add_proposals_of_one(propose: Propose, observation: Observation) -> Observation:
    """The same for one environment."""
    batched = _add_proposals(propose, {entry: values[None] for entry, values in observation.items()})
    return observation | {"proposals": batched["proposals"][0]}
