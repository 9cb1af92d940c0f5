"""A Stable-Baselines3 learner from a `Setup`: which entries attend to each other, and tables of windows to gather."""

from __future__ import annotations

from typing import Any

from gymnasium import spaces
from gymnasium.vector import VectorEnv

from pacesetter.envs.batch.batch import batch_of
from pacesetter.envs.batch.counterfactual import check_counterfactual
from pacesetter.envs.vector import Environments
from pacesetter.errors import ConfigError
from pacesetter.learning.experience.gather import Tables
from pacesetter.learning.methods import Setup
from pacesetter.learning.sb3.algorithms import make_algorithm
from pacesetter.learning.sb3.learner import SB3Learner

__all__ = ["make_learner"]

LOOKBACK_ENTRIES = ("short", "middle", "long", "chosen")
PORTFOLIO_ENTRIES = ("window", "regime", "leadlag", "supervised", "position", "proposals")


def make_learner(setup: Setup) -> SB3Learner:
    """The algorithm on the training environments; refuses options that it does not have."""
    options: dict[str, Any] = dict(setup.options)
    if options.get("advantages") == "expected":
        _check_orders(setup)
    # Both sets share one bank of windows: that of the validation set spans training and validation bars.
    # None where stored rows validate, and of a lookback environment, whose observations hold no windows.
    batch = batch_of(setup.validation)
    train = setup.train
    assert isinstance(train, VectorEnv)
    task_decides = _entries(setup.task, train)
    if batch is not None:
        bank, task_decides = batch.bank, dict(setup.network) | task_decides
        options["tables"] = Tables(bank.windows, bank.context, bank.places, batch.window_bars, bank.is_whole)
    options["network_options"] = task_decides | dict(options.pop("network_options", None) or {})
    return SB3Learner(make_algorithm(setup.name, train, seed=setup.seed, device=setup.device, **options))


def _check_orders(setup: Setup) -> None:
    """Refuse environments whose orders cannot all be tried."""
    batch = batch_of(setup.train)
    if batch is None:
        raise ConfigError(f"task={setup.task} has no orders to try; give agent.advantages=sampled")
    check_counterfactual(batch)


def _entries(task: str, environments: Environments) -> dict[str, object]:
    """Which entries of the observation are assets that attend to each other, and whether there is one window."""
    if task == "portfolio":
        return {"window": "", "assets": PORTFOLIO_ENTRIES}
    assert isinstance(environments.single_observation_space, spaces.Dict)
    shapes = {name: entry.shape for name, entry in environments.single_observation_space.items()}
    if "universe_mask" in shapes and all(shapes[name] == shapes["universe_mask"] for name in LOOKBACK_ENTRIES):
        return {"assets": LOOKBACK_ENTRIES}
    return {}
