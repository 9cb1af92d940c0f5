"""PPO of a fleet: its core is in `learning.fleet.ppo`, its all-order advantages in `learning.fleet.expected`."""

from __future__ import annotations

from pacesetter.learning.fleet.expected import ExpectedPPO
from pacesetter.learning.fleet.making import make_learner
from pacesetter.learning.fleet.ppo import PPO, FleetPPO
from pacesetter.learning.fleet.trainer import FleetTrainer
from pacesetter.learning.methods import Setup

__all__ = ["make_ppo"]


def make_ppo(setup: Setup) -> FleetTrainer:
    """PPO of a fleet, with the advantages that its options name."""
    return make_learner(ExpectedPPO if setup.options.get("advantages") == "expected" else PPO, FleetPPO, setup)
