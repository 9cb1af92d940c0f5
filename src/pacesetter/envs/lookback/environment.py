"""`pacesetter/Lookback-v0`: at every bar the agent chooses how far to look back, and the market's structure answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from pacesetter.arrays import Array
from pacesetter.envs.lookback.actions import Clamp, Windows
from pacesetter.envs.lookback.batch import LookbackBatch, LookbackConfig, LookbackStep, lookback_config
from pacesetter.envs.single import check_reset
from pacesetter.panel import Panel

__all__ = ["LookbackEnv", "action_space", "observation_space"]

Observation = dict[str, Array]
LARGEST = float(np.finfo(np.float32).max)  # encodings have no common bound, and Gymnasium wants one


def observation_space(batch: LookbackBatch) -> spaces.Dict:
    """Named float32 boxes, one per entry of `LookbackBatch.entries`."""
    boxes: dict[str, spaces.Space[Any]] = {
        name: spaces.Box(-LARGEST, LARGEST, (size,), np.float32) for name, size in batch.entries().items()
    }
    return spaces.Dict(boxes | {"universe_mask": spaces.Box(0.0, 1.0, (batch.assets,), np.float32)})


def action_space(windows: Windows) -> spaces.Space[Any]:
    """Places in the grid or among the deltas, or one number in −1 … 1."""
    if windows.space == "discrete":
        return spaces.Discrete(len(windows.choices))
    return spaces.Box(-1.0, 1.0, (1,), np.float32)


class LookbackEnv(gymnasium.Env[Observation, Any]):
    """One lookback environment on `panel`, made from a config or from its options by name.

    `info` of a step:

    raw_action, asked, lookback   the action, the window it asks for, and the one in force
    clamped                       the `Clamp` that says why these two differ
    bar                           of the decision
    reward, shaped_reward         each component before and after shaping, and
    reward_weights                what they are weighed with
    entered, left                 symbols that joined and left the universe by the next bar
    trouble                       a sentence where nothing could be measured, else empty
    liquidity                     coverage, value and range of the window, where the filter is on
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 - as Gymnasium declares it

    def __init__(self, panel: Panel, config: LookbackConfig | None = None, **options: object) -> None:
        self.batch = lookback_config(config, **options).make_batch(panel)
        self.observation_space = observation_space(self.batch)
        self.action_space = action_space(self.batch.config.windows)

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, object] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin an episode; with a seed, random numbers and curriculum start over. There are no options."""
        check_reset(options)
        super().reset(seed=seed)
        self.batch.reset(None if seed is None else [seed])
        truth = self.batch.markets[0].panel.truth
        drawn = {} if truth is None else truth.drawn
        info = {"bar": int(self.batch.t[0]), "lookback": int(self.batch.lookback[0]), "drawn": drawn}
        return self._observation(), info

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Look back as far as `action` says, and show the next bar; an episode never terminates, it is truncated."""
        step = self.batch.step([action])
        is_over = bool(step.truncated[0])
        if is_over:
            self.batch.dealer.record_episode(float(self.batch.total[0] / self.batch.decisions[0]))
        return self._observation(), float(step.reward.total[0]), False, is_over, self._info(action, step)

    def action_masks(self) -> Array:
        """(action,) True where a discrete action is feasible as it is; MaskablePPO asks for it."""
        return np.asarray(self.batch.masks()[0])

    def _observation(self) -> Observation:
        return {name: entry[0] for name, entry in self.batch.observe().items()}

    def _info(self, action: object, step: LookbackStep) -> dict[str, object]:
        batch, bar = self.batch, int(step.bars[0])
        market = batch.decided_in[0]
        names = batch.reward.names
        info: dict[str, object] = {
            "raw_action": action,
            "asked": int(step.asked[0]),
            "lookback": int(step.lookback[0]),
            "clamped": Clamp(int(step.clamped[0])),
            "bar": bar,
            "reward": dict(zip(names, step.reward.raw[0].tolist(), strict=True)),
            "shaped_reward": dict(zip(names, step.reward.shaped[0].tolist(), strict=True)),
            "reward_weights": dict(zip(names, step.reward.weights.tolist(), strict=True)),
            "entered": [],
            "left": [],
            "trouble": batch.explain(0, bar) if step.troubled[0] else "",
        }
        # Looked up first: the universe rarely changes.
        if market.is_changed[bar + 1]:
            entered, left = (np.flatnonzero(change[0]) for change in batch.universe_changes(step.bars))
            info["entered"] = [market.panel.symbols[place] for place in entered]
            info["left"] = [market.panel.symbols[place] for place in left]
        if batch.config.liquidity.is_on:
            liquidity = market.liquidity.window(step.bars, step.lookback)
            info["liquidity"] = {name: float(values[0]) for name, values in liquidity.items()}
        return info
