"""The master's trainer: fleet PPO whose one symbol is the portfolio; agents that advise it are frozen or tuned along.

`train_jointly` lets the agents learn with the master at a low rate and takes it back when one forgets its own trade.
"""

from __future__ import annotations

import copy
import dataclasses
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import torch
from torch import nn

from pacesetter.agents.fleet import Fleet
from pacesetter.errors import ConfigError, RunError
from pacesetter.learning.experience.rollout import Rollout
from pacesetter.learning.fleet.making import own_options
from pacesetter.learning.fleet.ppo import PPO, FleetPPO
from pacesetter.learning.fleet.storage import blank_fleet, describe_fleet
from pacesetter.learning.fleet.trainer import Trainer
from pacesetter.learning.learner import Between
from pacesetter.learning.methods import Setup
from pacesetter.learning.state import read_header, read_state
from pacesetter.methods.master.agent import Master, MasterNetwork
from pacesetter.methods.master.market import MasterMarket
from pacesetter.registry import configure

__all__ = ["JointTraining", "MasterMethod", "MasterPPO", "MasterTrainer", "load_master", "make_master", "train_jointly"]


@dataclass(frozen=True)
class MasterPPO(FleetPPO):
    """Options of the master's PPO; `batch_size` counts portfolios, `encoder_learning_rate` is its network's.

    Shares earn in the next bar, and are free to change in the one after: the discount is short. Scores are explored
    widely, in as many directions as there are symbols, so that the divergence is not a measure of going too far.
    """

    learning_rate: float = 3e-3
    encoder_learning_rate: float = 3e-3
    gamma: float = 0.5
    gae_lambda: float = 0.5
    n_epochs: int = 6
    target_kl: float | None = None
    adviser_learning_rate: Annotated[float, "of agents that are tuned along"] = 1e-5

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.extras:
            raise ConfigError(f"task=master takes no extras, not even {', '.join(self.extras)}; leave agent.extras out")
        if self.advantages != "sampled":
            raise ConfigError("task=master has no discrete orders to try; give agent.advantages=sampled")


class MasterMethod(PPO[Master, MasterMarket]):
    """PPO whose one symbol is the portfolio; `action_mix` are the mean shares (1, symbol + cash) of a round."""

    config: MasterPPO
    is_recordable = False  # its market steps on the CPU

    def describe(self, experience: Rollout, metrics: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        # Actions are scores; shares of the account are their softmax.
        held = experience.actions.softmax(-1).mean((0, 1))
        return super().describe(experience, metrics) | {"action_mix": held[None]}


class MasterTrainer(Trainer[Master, MasterMarket]):
    """The trainer of a master, with the agents that advise it; what it saves is whole: `load_master` needs no more."""

    config: MasterPPO

    def __init__(self, method: MasterMethod) -> None:
        super().__init__(method)
        # Frozen agents without a gradient: it would be computed through every window for nothing.
        self.advisers = self.market.advisers.fleet.requires_grad_(self.market.is_joint)
        if self.market.is_joint:  # Adam's steps are as long as its rate says, whatever the gradient: nothing to clip
            joint = {"params": list(self.advisers.parameters()), "lr": self.config.adviser_learning_rate}
            self.encoder_optimiser.add_param_group(joint)

    @property
    def modules(self) -> dict[str, nn.Module]:
        """The master and its agents."""
        return {"fleet": self.fleet, "advisers": self.advisers}

    def freeze(self, parts: tuple[str, ...]) -> None:
        """Nothing of a master can be kept as it is."""
        if parts:
            raise ConfigError(f"train.freeze={list(parts)}: no part of a master can be frozen; leave it out")

    def take_weights(self, folder: str | Path) -> int:
        """Begin with a stored master; gives how many tensors were taken, and refuses one of another size."""
        taken = load_master(folder)[0].state_dict()
        try:
            self.fleet.load_state_dict(taken)
        except RuntimeError as problem:
            raise ConfigError(f"the master in {folder} has another size; use its network_options") from problem
        return len(taken)

    def joint(self, seed: int) -> MasterTrainer:
        """A new trainer of the same master in the same market, with its agents learning along."""
        config = dataclasses.replace(self.config, seed=seed)
        return MasterTrainer(MasterMethod(self.fleet, self.market.joint(), config))

    def complete(self, stored: dict[str, Any]) -> dict[str, object]:
        if "advisers" in stored:  # they too may be from before some options; what the run of the fleet says is kept
            described = {"has_state_value": self.advisers.has_state_value} | stored["advisers"]
            stored = stored | {"advisers": describe_fleet(blank_fleet(described))}
        return super().complete(stored)

    def describe(self) -> dict[str, object]:
        own = {"network": dataclasses.asdict(self.fleet.config), "shapes": self.fleet.shapes}
        plain = json.loads(json.dumps(own | {"advisers": describe_fleet(self.advisers)}))
        return super().describe() | dict(plain)


def load_master(folder: str | Path) -> tuple[Master, Fleet]:
    """The master that `MasterTrainer.save` stored, and the agents that advise it; refuses what has no master."""
    described = read_header(folder).get("learner", {})
    if described.get("algorithm") != MasterPPO.__name__:
        raise RunError(f"{folder} has no master; give checkpoints/best of a run of task=master")
    state, fleet = read_state(folder), blank_fleet(described["advisers"])
    with torch.random.fork_rng(devices=[]):
        master = Master(configure(MasterNetwork, described["network"], "network"), described["shapes"])
    master.load_state_dict(state["fleet"])
    fleet.load_state_dict(state["advisers"])
    return master, fleet


# ---- learning together ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class JointTraining:
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
            f"{self.after.mean():+.2f} on average; {self.symbols[worst]} fell most, by {float(falls[worst]):.2f} of "
            f"the {self.largest_fall:.2f} allowed"
        )


def train_jointly(
    learner: MasterTrainer,
    steps: int,
    score: Callable[[], torch.Tensor],
    *,
    checks: int = 4,
    largest_fall: float = 0.1,
    between: Callable[[], None] | None = None,
) -> JointTraining:
    """Learn `steps` more with the agents tuned along; `score` gives what each agent (symbol,) is worth by itself.

    After each of `checks` equal parts every agent is scored. Where one has fallen by more than `largest_fall` from the
    start, master and agents go back to the check before, and learning ends; `between` is called as by `learn`. Refuses
    a market that is not joint.
    """
    if not learner.market.is_joint:
        raise ConfigError("fine-tuning needs a joint market; build it with is_joint=True")
    first, before = learner.steps, score()
    after, is_kept = before, True
    for part in range(1, checks + 1):
        # A deep copy: the tensors of a state_dict are those that learning goes on to change.
        kept = copy.deepcopy(learner.state_dict())
        learner.learn(first + steps * part // checks, Between(between))
        after = score()
        # Against the start, not the last check: small falls at every check would add up unnoticed.
        if bool((before - after > largest_fall).any()):
            learner.load_state_dict(kept)
            is_kept = False
            break
    return JointTraining(learner.advisers.symbols, before, after, largest_fall, is_kept)


def make_master(setup: Setup) -> MasterTrainer:
    """PPO of a master, which shares one account among the symbols of its fleet."""
    config = configure(MasterPPO, own_options(setup), "agent")
    torch.manual_seed(setup.seed)
    sizes = configure(MasterNetwork, setup.options.get("network_options") or {}, "agent.network_options")
    assert isinstance(setup.train, MasterMarket)
    return MasterTrainer(MasterMethod(Master(sizes, setup.train.shapes), setup.train, config))
