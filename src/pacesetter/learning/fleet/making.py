"""The learner of a fleet from a `Setup`: the networks of its options, and the method that trains them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch

from pacesetter.agents.encoders import network
from pacesetter.agents.fleet import Fleet
from pacesetter.envs.batch.bank import PRIOR
from pacesetter.errors import ConfigError
from pacesetter.learning.experience.conditioned import SymbolMarket, symbol_market
from pacesetter.learning.fleet.method import Market, MarketOfSymbols, Method
from pacesetter.learning.fleet.trainer import FleetTrainer
from pacesetter.learning.fleet_config import FleetConfig
from pacesetter.learning.methods import Setup
from pacesetter.registry import configure

__all__ = ["hidden_width", "make_fleet", "make_learner", "make_trainer", "own_options", "return_place"]

RETURN = "return_1"
NETWORK = ("network", "network_options", "heads")
Options = TypeVar("Options", bound=FleetConfig)
MarketKind = TypeVar("MarketKind", bound=MarketOfSymbols)


def make_learner(
    method: Callable[[Fleet, SymbolMarket, Options], Method[Fleet, MarketOfSymbols]],
    options: type[Options],
    setup: Setup,
) -> FleetTrainer:
    """The trainer of a fleet by a method with its options."""
    return make_trainer(method, options, setup, symbol_market(setup.train))


def make_trainer(
    method: Callable[[Fleet, MarketKind, Options], Method[Fleet, MarketOfSymbols]],
    options: type[Options],
    setup: Setup,
    market: MarketKind,
) -> FleetTrainer:
    """The same, of a method that learns in markets of its own kind."""
    config = configure(options, own_options(setup), "agent")
    return FleetTrainer(method(make_fleet(setup, market), market, config))


def make_fleet(setup: Setup, market: Market) -> Fleet:
    """The untrained fleet of the options `network`, `network_options` and `heads` for the symbols of a market."""
    options = setup.options
    sizes = dict(setup.network) | dict(options.get("network_options") or {})
    encoder = network(options.get("network", "mlp"), **sizes)
    hidden = hidden_width(options.get("heads", (128,)))
    # Directly before the weights are drawn: whatever was built earlier does not move them.
    torch.manual_seed(setup.seed)
    fleet = Fleet(encoder, market.shapes, market.symbols, market.actions, hidden)
    if PRIOR in market.shapes:
        assert isinstance(market, SymbolMarket)
        fleet.around = market.around
    return fleet


def own_options(setup: Setup) -> dict[str, object]:
    """The options of the method itself, without those of the network."""
    return {name: value for name, value in setup.options.items() if name not in NETWORK} | {"seed": setup.seed}


def hidden_width(heads: object) -> int:
    """The width of the one hidden layer that the heads of a fleet have; refuses more of them."""
    match heads:
        case int(width) | [int(width)] if width > 0:
            return width
    raise ConfigError(f"agent.heads={heads}: heads of a fleet have one hidden layer; give its width, e.g. [64]")


def return_place(market: SymbolMarket, agent: str = "options") -> int:
    """Which feature of the window is the return of a bar; refuses a table without it."""
    names = market.batch.bank.names["window"]
    if RETURN not in names:
        raise ConfigError(f"agent={agent} reads the feature {RETURN}; add it to features.names={list(names)}")
    return names.index(RETURN)
