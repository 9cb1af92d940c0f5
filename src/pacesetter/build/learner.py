"""The agent of a configuration, untrained. torch and Stable-Baselines3 are imported here and not before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pacesetter.build.configuration import Config, build_task
from pacesetter.build.environments import Parts
from pacesetter.errors import ConfigError, needs

if TYPE_CHECKING:
    from pacesetter.learning.fleet.trainer import FleetLearner
    from pacesetter.learning.sb3.learner import Learner

__all__ = ["build_learner", "check_device"]

LOOKBACK_ENTRIES = ("short", "middle", "long", "chosen")
PORTFOLIO_ENTRIES = ("window", "regime", "leadlag", "supervised", "position", "proposals")


def check_device(device: str) -> None:
    """Refuse a device that torch does not know or does not find here, which it would replace by the CPU in silence."""
    with needs("training", "rl"):
        import torch
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as problem:  # the latter of a torch that was built without CUDA
        why = str(problem).splitlines()[0]
        raise ConfigError(
            f"train.device={device} cannot be used here ({why}); use cpu, or an available GPU"
        ) from problem


def build_learner(config: Config, parts: Parts) -> Learner | FleetLearner[Any, Any]:
    """The configured algorithm on the training set; refuses a combination that cannot learn, and a missing torch.

    It sets the number of threads of this process, which the first weights depend on already. A fleet has a learner of
    its own kind, see `build_fleet_learner`, and so has a master, see `build_master_learner`.
    """
    if config.task["problem"] == "fleet":
        from pacesetter.build.fleet import build_fleet_learner

        return build_fleet_learner(config, parts)
    if config.task["problem"] == "master":
        from pacesetter.build.master import build_master_learner

        return build_master_learner(config, parts)
    with needs("training", "rl"):
        import torch

        from pacesetter.learning.experience.gather import Tables
        from pacesetter.learning.sb3.algorithms import make_algorithm
        from pacesetter.learning.sb3.learner import Learner
    torch.set_num_threads(config.train.threads or torch.get_num_threads())  # said aloud, or numba's number becomes it
    options: dict[str, Any] = dict(config.agent)
    name = str(options.pop("algorithm", "ppo"))
    if name.startswith(("fleet_", "master_")):
        raise ConfigError(f"agent={name} is for task={name.partition('_')[0]}, not task={config.task['problem']}")
    network_options = _entries(config, parts) | dict(options.pop("network_options", None) or {})
    batch = parts.validation.batch
    if config.task["problem"] != "lookback":
        network_options = {"unseen": build_task(config).unseen} | network_options
        bank = batch.bank
        options["tables"] = Tables(bank.windows, bank.context, bank.places, batch.window_bars, bank.is_whole)
    options |= {"network_options": network_options, "seed": config.seed, "device": config.train.device}
    return Learner(make_algorithm(name, parts.train, **options))


def _entries(config: Config, parts: Parts) -> dict[str, Any]:
    """Which entries of the observation are assets that attend to each other, and whether there is one window."""
    if config.task["problem"] == "portfolio":
        return {"window": "", "assets": PORTFOLIO_ENTRIES}
    shapes = {name: entry.shape for name, entry in parts.train.single_observation_space.items()}
    if "universe_mask" in shapes and all(shapes[name] == shapes["universe_mask"] for name in LOOKBACK_ENTRIES):
        return {"assets": LOOKBACK_ENTRIES}
    return {}
