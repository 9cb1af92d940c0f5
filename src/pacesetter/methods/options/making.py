"""The learner of `agent=options` from a `Setup`: one fleet with options, or one agent for every symbol."""

from __future__ import annotations

import torch

from pacesetter.agents.encoders import network
from pacesetter.learning.experience.market import FleetMarket
from pacesetter.learning.fleet.making import hidden_width, own_options, return_place
from pacesetter.learning.fleet.trainer import FleetTrainer
from pacesetter.learning.methods import Setup
from pacesetter.methods.options.agents import OptionFleet
from pacesetter.methods.options.config import FleetOptions
from pacesetter.methods.options.critic import OptionCritic
from pacesetter.methods.options.smdp import WrittenOptions
from pacesetter.registry import configure

__all__ = ["make_options"]


def make_options(setup: Setup) -> FleetTrainer:
    """The trainer of options, written or learned, in the training market."""
    config, market = configure(FleetOptions, own_options(setup), "agent"), setup.train
    assert isinstance(market, FleetMarket)
    kind = OptionCritic if config.kind == "learned" else WrittenOptions
    return FleetTrainer(kind(make_option_fleet(setup, market, config), market, config))


def make_option_fleet(setup: Setup, market: FleetMarket, config: FleetOptions) -> OptionFleet:
    """The untrained fleet of the options `network`, `network_options` and `heads`."""
    options = setup.options
    sizes = dict(setup.network) | dict(options.get("network_options") or {})
    encoder = network(options.get("network", "mlp"), **sizes)
    hidden = hidden_width(options.get("heads", (128,)))
    # Directly before the weights are drawn: whatever was built earlier does not move them.
    torch.manual_seed(setup.seed)
    return OptionFleet(
        encoder,
        market.shapes,
        market.symbols,
        None,
        hidden,
        column=return_place(market),
        options=config.describe(),
    )
