"""SAC of a fleet; its core is in `learning.fleet.sac`."""

from __future__ import annotations

from pacesetter.learning.fleet.making import make_learner
from pacesetter.learning.fleet.sac import SAC, FleetSAC
from pacesetter.learning.fleet.trainer import FleetTrainer
from pacesetter.learning.methods import Setup

__all__ = ["make_sac"]


def make_sac(setup: Setup) -> FleetTrainer:
    """SAC of a fleet."""
    return make_learner(SAC, FleetSAC, setup)
