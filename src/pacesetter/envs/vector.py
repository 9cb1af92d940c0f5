"""Many environments as one Gymnasium vector environment: no processes, one compiled call, shared tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, Unpack

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from pacesetter.arrays import Array
from pacesetter.envs.batch.bank import Bank
from pacesetter.envs.batch.batch import Batch, BatchOptions, Step
from pacesetter.envs.batch.rows import Cursor
from pacesetter.envs.batch.starts import WHOLE, chosen_rows
from pacesetter.envs.single import EQUITY, Observation, action_space, check_options, check_reset, observation_space
from pacesetter.errors import ConfigError
from pacesetter.market.parameters import MarketParameters

if TYPE_CHECKING:
    from pacesetter.features.table import FeatureTable
    from pacesetter.panel import Panel

__all__ = ["BatchVectorEnv", "Environments", "VectorOptions", "VectorStep"]

Environments: TypeAlias = VectorEnv[Observation, Array, Array]  # of any task that is learned in Gymnasium's
# observations, rewards, terminated, truncated and infos of a wrapped step; Gymnasium's wrappers are not generic
VectorStep: TypeAlias = tuple[Any, Any, Any, Any, dict[str, object]]


class VectorOptions(BatchOptions, total=False):
    """Options of a vector environment beside panel, number and symbols; see `BatchVectorEnv`."""

    table: FeatureTable | Sequence[FeatureTable] | None
    supervised: Array | Sequence[Array] | None
    prior: Array | None


class BatchVectorEnv(VectorEnv[Observation, Array, Array]):
    """What `TradingVectorEnv` and `PortfolioVectorEnv` share.

    Environments restart in the step in which they end. `infos` as `SingleEnv`'s, an array each; where an episode ended,
    `final_obs` (env,) holds its last observation and `final_info` its infos, both with their mask `_final_obs` and
    `_final_info`. With `has_windows=False` observations hold `index` instead of windows and context.
    """

    metadata: dict[str, Any] = {"autoreset_mode": AutoresetMode.SAME_STEP, "render_modes": []}  # noqa: RUF012
    is_whole: ClassVar[bool]

    def __init__(
        self,
        panel: Panel | Sequence[Panel],
        num_envs: int,
        symbols: str | Sequence[str] | None,
        /,
        *,
        table: FeatureTable | Sequence[FeatureTable] | None = None,
        supervised: Array | Sequence[Array] | None = None,
        prior: Array | None = None,
        action: str = "discrete",
        **options: Unpack[BatchOptions],
    ) -> None:
        check_options(type(self), options)
        bank = Bank.from_panels(panel, table, supervised, symbols=symbols, is_whole=self.is_whole)
        bank = bank if prior is None else bank.with_prior(prior)
        self.batch = Batch(bank, num_envs, action=action, **options)
        self.num_envs = num_envs
        self.single_observation_space = observation_space(self.batch)
        self.single_action_space = action_space(self.batch)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._is_open = False

    def reset(
        self, *, seed: int | Sequence[int] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin an episode in every environment, or where `options["reset_mask"]` says; a seed s gives row e s + e."""
        check_reset(options, "reset_mask")
        # The first reset begins every environment, whatever its mask says.
        chosen = chosen_rows((options or {}).get("reset_mask") if self._is_open else None, self.num_envs)
        if seed is not None:
            self.batch.seed(range(seed, seed + self.num_envs) if isinstance(seed, WHOLE) else seed)
        super().reset(seed=int(seed) if isinstance(seed, WHOLE) else None)
        observation = self._complete(self.batch.reset(chosen))
        self._is_open = True
        return observation, {
            "block": self.batch.cursor[:, Cursor.BLOCK].copy(),
            "bar": self.batch.cursor[:, Cursor.TIME].copy(),
        }

    def step(self, actions: Array) -> tuple[Observation, Array, Array, Array, dict[str, Any]]:
        """Step every environment by one bar; those that end are restarted at once."""
        if not self._is_open:
            raise ConfigError("there is no open episode: call reset() first")
        step = self.batch.step(actions)
        infos = self._infos(step)
        if self.batch.ended:
            has_ended, final = step.terminated | step.truncated, np.empty(self.num_envs, dtype=object)  # of None
            for e in self.batch.ended:
                final[e] = self._final_observation(e, step.finals)
            # As Gymnasium's SAME_STEP mode wants it: a learner bootstraps truncated episodes from `final_obs`.
            infos = infos | {"final_obs": final, "_final_obs": has_ended, "final_info": infos, "_final_info": has_ended}
        return self._complete(step.observation), step.rewards, step.terminated, step.truncated, infos

    def action_masks(self) -> Array:
        """(env, K · 7) True where a discrete order would be sent now."""
        return self.batch.action_masks()

    def use_market(self, market: MarketParameters, rows: object = slice(None)) -> None:
        """Trade under other market parameters from the next episode of the environments `rows` on."""
        self.batch.use_market(market, rows)

    def _infos(self, step: Step) -> dict[str, object]:
        components = {name: step.components[place] for place, name in enumerate(self.batch.components)}
        return {"equity": step.ledger[:, EQUITY], "reward": components, "ledger": step.ledger}

    def _complete(self, observation: Observation) -> Observation:
        """What the learner sees of a batch's observation (env, …)."""
        return observation

    def _final_observation(self, e: int, finals: Array) -> Observation:
        return self.batch.final_observation(e, finals)
