"""The master's learner: fleet PPO whose one symbol is the portfolio; agents that advise it are frozen or tuned along.

`tune` lets the agents learn with the master at a low rate, and takes it back when one of them forgets its own trade.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn

from pacesetter.agents.fleet import Fleet
from pacesetter.agents.layout import Tensors
from pacesetter.agents.master import Master, MasterNetwork
from pacesetter.errors import ConfigError, RunError
from pacesetter.learning.fleet_market import FleetMarket
from pacesetter.learning.fleet_ppo import FleetPPO, FleetPPOLearner
from pacesetter.learning.fleet_rollout import Rollout, Statistics
from pacesetter.learning.master_market import MasterMarket
from pacesetter.learning.state import read_header, read_state

__all__ = ["MasterLearner", "MasterPPO", "Tuning", "load_master", "tune"]


@dataclass(frozen=True)
class MasterPPO(FleetPPO):
    """Options of the master's PPO; `batch_size` counts portfolios, `encoder_learning_rate` is its network's.

    Shares earn in the next bar, and are free to change in the one after: the discount is short. Scores are explored
    widely, in as many directions as there are symbols, so that the divergence is no measure of going too far.

    adviser_learning_rate   of agents that are tuned along
    """

    learning_rate: float = 3e-3
    encoder_learning_rate: float = 3e-3
    discount: float = 0.5
    gae_lambda: float = 0.5
    epochs: int = 6
    target_kl: float | None = None
    adviser_learning_rate: float = 1e-5

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.curiosity is not None:
            raise ConfigError("a master has no curiosity; leave curiosity out")


class MasterLearner(FleetPPOLearner):
    """PPO of a master in its market; `statistics.action_mix` are the mean shares (1, symbol + cash) of a round."""

    config: MasterPPO
    fleet: Any  # the master, of which a fleet's learner asks only what a fleet of one has
    market: Any

    def __init__(self, master: Master, market: MasterMarket, config: MasterPPO) -> None:
        super().__init__(cast(Fleet, master), cast(FleetMarket, market), config)
        self.advisers = market.advisers.fleet.requires_grad_(market.is_joint)
        if market.is_joint:  # Adam's steps are as long as its rate says, whatever the gradient: nothing to clip
            tuned = {"params": list(self.advisers.parameters()), "lr": config.adviser_learning_rate}
            self.encoder_optimiser.add_param_group(tuned)

    def heads(self) -> list[nn.Parameter]:
        """What is stacked by symbol, here one: the deviation of exploring scores."""
        return [self.fleet.log_deviation]

    @torch.no_grad()
    def count(self, seen: Tensors) -> None:
        super().count(seen)

    def describe(self, rollout: Rollout, data: Mapping[str, Any], losses: Mapping[str, torch.Tensor]) -> Statistics:
        held = rollout.actions.softmax(-1).mean((0, 1))
        return super().describe(rollout, data, losses)._replace(action_mix=held[None])

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {"advisers": self.advisers.state_dict()}

    def load_state_dict(self, stored: Mapping[str, Any]) -> None:
        super().load_state_dict(stored)
        self.advisers.load_state_dict(stored["advisers"])

    def _described(self) -> dict[str, Any]:
        shapes = {name: list(shape) for name, shape in self.fleet.shapes.items()}
        return super()._described() | {"network": dataclasses.asdict(self.fleet.config), "shapes": shapes}


def load_master(folder: str | Path, advisers: Fleet) -> Master:
    """The master that `MasterLearner.save` stored; its agents' weights go into `advisers`, which must fit them."""
    told, state = read_header(folder).get("learner", {}), read_state(folder)
    if told.get("algorithm") != MasterPPO.__name__:
        raise RunError(f"{folder} holds no master but {told.get('algorithm')}; give a master's checkpoint")
    master = Master(MasterNetwork(**told["network"]), told["shapes"])
    master.load_state_dict(state["fleet"])
    advisers.load_state_dict(state["advisers"])
    return master


# ---- learning together ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Tuning:
    """How agents did on their own before and after they were tuned with the master.

    before, after   (symbol,) scores; `after` is of the last check, also where it was refused
    is_kept         false where an agent fell by more than allowed: everything is as at the check before
    """

    symbols: tuple[str, ...]
    before: torch.Tensor
    after: torch.Tensor
    largest_fall: float
    is_kept: bool

    def __str__(self) -> str:
        falls = self.before - self.after
        worst = int(falls.argmax())
        ending = "kept" if self.is_kept else "taken back"
        return (
            f"{ending}: scores of {len(self.symbols)} agents went from {self.before.mean():+.2f} to "
            f"{self.after.mean():+.2f} in the mean; {self.symbols[worst]} fell most, by {float(falls[worst]):.2f} of "
            f"the {self.largest_fall:.2f} allowed"
        )


def tune(
    learner: MasterLearner,
    steps: int,
    score: Callable[[], torch.Tensor],
    *,
    checks: int = 4,
    largest_fall: float = 0.1,
) -> Tuning:
    """Learn `steps` more with the agents tuned along; `score` gives what each agent (symbol,) is worth by itself.

    After each of `checks` equal parts every agent is scored. Where one has fallen by more than `largest_fall` from the
    start, master and agents go back to the check before, and learning ends. Refuses a market that is not joint.
    """
    if not learner.market.is_joint:
        raise ConfigError("agents are tuned in a market that is joint; make it with is_joint=True")
    first, before = learner.steps, score()
    after, is_kept = before, True
    for part in range(1, checks + 1):
        kept = copy.deepcopy(learner.state_dict())
        learner.learn(first + steps * part // checks)
        after = score()
        if bool((before - after > largest_fall).any()):
            learner.load_state_dict(kept)
            is_kept = False
            break
    return Tuning(learner.advisers.symbols, before, after, largest_fall, is_kept)
