"""BC, CQL and IQL for windows: the losses of the fleet's offline methods on one policy.

`train.steps` counts rows drawn. The policy is stored, evaluated, explained, bundled and served like every other agent
of windows; critics are modules of it, so that a checkpoint has them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any, ClassVar

import numpy as np
import torch
from stable_baselines3.common.callbacks import BaseCallback

from pacesetter.arrays import Array
from pacesetter.errors import ConfigError
from pacesetter.learning.experience.transitions import Transitions
from pacesetter.learning.extras.extra import check_extras
from pacesetter.learning.methods import Setup
from pacesetter.learning.sb3.adapter import VectorAdapter
from pacesetter.learning.sb3.algorithms import Algorithm, fit_normaliser
from pacesetter.learning.sb3.learner import SB3Learner
from pacesetter.learning.sb3.own import OwnAlgorithm
from pacesetter.methods.offline.bc import Cloning, FleetBC
from pacesetter.methods.offline.cql import ConservativeQ, FleetCQL
from pacesetter.methods.offline.iql import FleetIQL, ImplicitQ
from pacesetter.methods.offline.method import OfflineConfig, OfflineMethod
from pacesetter.methods.offline.rows import StoredRows
from pacesetter.methods.offline.window_agents import PolicyAgents
from pacesetter.methods.offline.window_options import (
    StoredWindowsOptions,
    WindowsBCOptions,
    WindowsCQLOptions,
    WindowsIQLOptions,
)
from pacesetter.methods.offline.window_rows import StoredWindows

__all__ = ["OfflineWindows", "WindowsBC", "WindowsCQL", "WindowsIQL", "bc", "cql", "iql", "make_windows"]

OF_DATASET = ("dataset", "regimes", "held_out")  # options that the task reads; the algorithm has none of them


class _NoRows:
    """In place of stored rows where a policy is only to act."""

    symbols = PolicyAgents.symbols

    def __init__(self, actions: int, device: torch.device) -> None:
        self.actions, self.device = actions, device

    def reset(self) -> dict[str, torch.Tensor]:
        return {}


class OfflineWindows(OwnAlgorithm):
    """An offline method of a fleet of one; it never steps an environment.

    method_kind   whose losses are descended        config_kind   its options
    """

    options: StoredWindowsOptions
    method_kind: ClassVar[type[OfflineMethod]]
    config_kind: ClassVar[type[OfflineConfig]]

    def __init__(self, *arguments: Any, **policy_options: Any) -> None:
        super().__init__(*arguments, **policy_options)
        own = self.env.env if isinstance(self.env, VectorAdapter) else None
        self.agents = PolicyAgents(self.policy)
        rows: object = own.rows if isinstance(own, StoredWindows) else _NoRows(self.agents.actions, self.device)
        shared = {each.name for each in fields(self.config_kind)} & self.hyperparameters().keys()
        config = self.config_kind(**{name: getattr(self.options, name) for name in shared}, seed=self.seed)
        make: Callable[..., OfflineMethod] = self.method_kind
        self.method = make(self.agents, rows, config)
        self.policy.add_module("offline", self.method.own.to(self.device))
        learned = [tensor for tensor in self.policy.parameters() if tensor.requires_grad]  # targets follow instead
        kind: Any = self.policy.optimizer_class
        self.policy.optimizer = kind(learned, lr=self.options.learning_rate, **self.policy.optimizer_kwargs)

    @property
    def n_steps(self) -> int:
        """Rows of a round."""
        return self.options.batch_size * self.options.gradient_steps

    @property
    def rows(self) -> StoredRows:
        """What is learned from."""
        return self.method.market

    def features(self, observation: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """(row, width) features, as an offline method asks for them."""
        return self.agents.encoder(observation)

    def collect(self, callback: BaseCallback) -> bool:
        """Draw the batches of a round; nothing is played."""
        self._batches: list[Transitions] = list(self.method.batches(None, self))
        self.num_timesteps += self.n_steps
        shown = {
            name: _join_parts([batch.observation[name] for batch in self._batches]) for name in self._last_obs or {}
        }
        actions = _join_parts([batch.actions for batch in self._batches])
        rewards = _join_parts([batch.rewards for batch in self._batches if batch.rewards is not None])
        done = np.zeros(len(actions), dtype=bool)
        callback.update_locals({"new_obs": shown, "infos": [], "actions": actions, "rewards": rewards, "dones": done})
        if not callback.on_step():
            return False
        self._last_obs = {name: entry[-self.options.batch_size :] for name, entry in shown.items()}
        return True

    def update(self) -> None:
        """A gradient step for each batch."""
        for batch in self._batches:
            losses = self.method.losses(batch, self.features(batch.observation), self)
            self.descend(torch.stack(list(losses.terms.values())).sum())
            self.method.after_step()
        self._n_updates += len(self._batches)
        for name, value in losses.metrics.items():
            self.logger.record(f"train/{name}", float(value.mean()))


def _join_parts(parts: list[torch.Tensor]) -> Array:
    return np.asarray(torch.cat(parts).cpu().numpy())


class WindowsBC(OfflineWindows):
    """Behaviour cloning."""

    options_kind, method_kind, config_kind = WindowsBCOptions, Cloning, FleetBC


class WindowsCQL(OfflineWindows):
    """Conservative Q-learning."""

    options_kind, method_kind, config_kind = WindowsCQLOptions, ConservativeQ, FleetCQL


class WindowsIQL(OfflineWindows):
    """Implicit Q-learning."""

    options_kind, method_kind, config_kind = WindowsIQLOptions, ImplicitQ, FleetIQL


def make_windows(setup: Setup) -> SB3Learner:
    """A learner of windows from stored rows, whose normaliser has counted all of them; refuses a market and extras."""
    from pacesetter.learning.sb3.making import make_learner

    if not isinstance(setup.train, StoredWindows):
        raise ConfigError(
            f"agent={setup.name} learns task=lookback from stored rows, not task={setup.task} in a market; give "
            "task=lookback and agent.dataset=FILE"
        )
    if extras := check_extras(dict(setup.options.get("extras", {}))):
        raise ConfigError(f"offline methods take no extras, not even {', '.join(extras)}; leave them out")
    options = {name: value for name, value in setup.options.items() if name not in OF_DATASET}
    learner = make_learner(replace(setup, options=options))
    fit_normaliser(learner.algorithm, setup.train.rows.observation)  # type: ignore[arg-type]
    return learner


bc = Algorithm(WindowsBC, "discrete")
cql = Algorithm(WindowsCQL, "discrete")
iql = Algorithm(WindowsIQL, "discrete")
