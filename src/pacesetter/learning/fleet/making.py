"""Learners of a fleet and of a master from a `Setup`: the networks of its options, and the method that trains them."""

from __future__ import annotations

from typing import Any

import torch

from pacesetter.agents.encoders import network
from pacesetter.agents.fleet import Fleet
from pacesetter.agents.master import Master, MasterNetwork
from pacesetter.errors import ConfigError
from pacesetter.learning.fleet.master import MasterMethod, MasterPPO, MasterTrainer
from pacesetter.learning.fleet.ppo import PPO, FleetPPO
from pacesetter.learning.fleet.sac import SAC, FleetSAC
from pacesetter.learning.fleet.trainer import FleetTrainer
from pacesetter.learning.methods import Setup
from pacesetter.registry import configure

__all__ = ["make_fleet", "make_master", "make_ppo", "make_sac"]

NETWORK = ("network", "network_options", "heads")


def make_ppo(setup: Setup) -> FleetTrainer:
    """PPO of a fleet."""
    config = configure(FleetPPO, own_options(setup), "agent")
    return FleetTrainer(PPO(make_fleet(setup), setup.train, config))


def make_sac(setup: Setup) -> FleetTrainer:
    """SAC of a fleet."""
    config = configure(FleetSAC, own_options(setup), "agent")
    return FleetTrainer(SAC(make_fleet(setup), setup.train, config))


def make_master(setup: Setup) -> MasterTrainer:
    """PPO of a master, which shares one account among the symbols of its fleet."""
    config = configure(MasterPPO, own_options(setup), "agent")
    torch.manual_seed(setup.seed)
    sizes = configure(MasterNetwork, setup.options.get("network_options") or {}, "agent.network_options")
    return MasterTrainer(MasterMethod(Master(sizes, setup.train.shapes), setup.train, config))


def make_fleet(setup: Setup) -> Fleet:
    """The untrained fleet of the options `network`, `network_options` and `heads` for the training market."""
    options, market = setup.options, setup.train
    sizes = dict(setup.network) | dict(options.get("network_options") or {})
    encoder = network(options.get("network", "mlp"), **sizes)
    hidden = _hidden(options.get("heads", (128,)))
    torch.manual_seed(setup.seed)
    return Fleet(encoder, market.shapes, market.symbols, market.actions, hidden)


def own_options(setup: Setup) -> dict[str, Any]:
    """The options of the method itself, without those of the network."""
    return {name: value for name, value in setup.options.items() if name not in NETWORK} | {"seed": setup.seed}


def _hidden(heads: Any) -> int:
    """The width of the one hidden layer that the heads of a fleet have; refuses more of them."""
    match heads:
        case int(width) | [int(width)] if width > 0:
            return width
    raise ConfigError(f"agent.heads={heads}: heads of a fleet have one hidden layer; give its width, e.g. [64]")
