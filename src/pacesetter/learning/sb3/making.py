"""A Stable-Baselines3 learner from a `Setup`: which entries attend to each other, and tables of windows to gather."""

from __future__ import annotations

from typing import Any

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
    batch = setup.validation.batch
    bank = getattr(batch, "bank", None)  # a lookback environment has none: its observations hold no windows
    task_decides = _entries(setup)
    if bank is not None:
        task_decides = dict(setup.network) | task_decides
        options["tables"] = Tables(bank.windows, bank.context, bank.places, batch.window_bars, bank.is_whole)
    options["network_options"] = task_decides | dict(options.pop("network_options", None) or {})
    return SB3Learner(make_algorithm(setup.name, setup.train, seed=setup.seed, device=setup.device, **options))


def _entries(setup: Setup) -> dict[str, Any]:
    """Which entries of the observation are assets that attend to each other, and whether there is one window."""
    if setup.task == "portfolio":
        return {"window": "", "assets": PORTFOLIO_ENTRIES}
    shapes = {name: entry.shape for name, entry in setup.train.single_observation_space.items()}
    if "universe_mask" in shapes and all(shapes[name] == shapes["universe_mask"] for name in LOOKBACK_ENTRIES):
        return {"assets": LOOKBACK_ENTRIES}
    return {}
