"""The best policy of a finished run as a plain module, with observations of its own market to compare a graph on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from pacesetter.agents.agent import ACTION_MASK
from pacesetter.agents.layout import Tensors
from pacesetter.build import Config, build_learner, build_parts, build_task
from pacesetter.envs.batch.bank import Bank
from pacesetter.features import FeatureTable
from pacesetter.learning.experience.market import FleetMarket
from pacesetter.learning.experience.master_market import MasterMarket
from pacesetter.learning.fleet.master import load_master
from pacesetter.learning.fleet.storage import load_fleet
from pacesetter.learning.sb3.algorithms import EncoderExtractor, load_weights
from pacesetter.learning.state import read_state
from pacesetter.market.orders import Discrete
from pacesetter.panel import Panel
from pacesetter.serving.bundle.export import serve_agent, serve_algorithm, serve_master
from pacesetter.serving.bundle.model import PolicySpec

__all__ = ["Trained", "load_trained"]

Array = NDArray[Any]
PORTFOLIOS = 8  # of a master's market, side by side


class Trained(NamedTuple):
    """A policy by its spec; `real` are batches of observations (row, …) while random actions are played."""

    module: nn.Module
    spec: PolicySpec
    symbols: tuple[str, ...]
    real: Iterator[dict[str, Array]]


def load_trained(config: Config, checkpoint: Path, panel: Panel, table: FeatureTable, count: int) -> Trained:
    """The policy of a run's checkpoint, single, fleet or master, with `count` observations of the market it was for."""
    load = {"fleet": _fleet, "master": _master}.get(config.task["problem"], _algorithm)
    return load(config, checkpoint, panel, table, count)


def _fleet(config: Config, checkpoint: Path, panel: Panel, table: FeatureTable, count: int) -> Trained:
    task = build_task(config)
    bank = Bank.from_panels(panel, table, symbols=task.symbols or None)
    module, spec = serve_agent(load_fleet(checkpoint), bank.names)
    market = FleetMarket(bank, 1, action=task.action, window_bars=task.window_bars, market=task.market)

    def draw(generator: torch.Generator) -> torch.Tensor:
        drawn = torch.rand(len(spec.symbols), generator=generator)
        return 2 * drawn[:, None] - 1 if market.actions is None else (drawn * len(Discrete)).long()

    return Trained(module, spec, spec.symbols, _played(market, market.tables, draw, count))


def _master(config: Config, checkpoint: Path, panel: Panel, table: FeatureTable, count: int) -> Trained:
    task = build_task(config)
    symbols = task.symbols or panel.symbols
    bank = Bank.from_panels(panel, table, symbols=symbols, is_whole=True)
    module, spec = serve_master(*load_master(checkpoint), symbols, bank.names)
    options = {"window_bars": task.window_bars, "market": task.market}
    market = MasterMarket(bank, PORTFOLIOS, module.advisers, is_joint=True, **options)

    def draw(generator: torch.Generator) -> torch.Tensor:
        return torch.randn(PORTFOLIOS, len(symbols) + 1, generator=generator)

    return Trained(module, spec, symbols, _played(market, market.lookup, draw, count))


def _played(
    market: FleetMarket | MasterMarket,
    look: Callable[[Tensors], dict[str, torch.Tensor]],
    draw: Callable[[torch.Generator], torch.Tensor],
    count: int,
) -> Iterator[dict[str, Array]]:
    """What a market shows by `look` while drawn actions are played in it."""
    generator, seen, found = torch.Generator().manual_seed(0), market.reset(), 0
    while found < count:
        yield {name: entry.numpy() for name, entry in look(seen).items()}
        found += len(seen["position"])
        seen = market.step(draw(generator)).observation


def _algorithm(config: Config, checkpoint: Path, panel: Panel, table: FeatureTable, count: int) -> Trained:
    parts = build_parts(config, panel)
    algorithm = build_learner(config, parts).agent.algorithm
    load_weights(algorithm, read_state(checkpoint))
    bank = parts.validation.batch.bank
    module, spec = serve_algorithm(algorithm, bank.names, config.task["action"], bank.symbols[0])
    symbols = tuple(name for block in bank.symbols for name in block)
    return Trained(module, spec, symbols, _shown(algorithm, parts.train, spec, count))


def _shown(algorithm: Any, env: Any, spec: PolicySpec, count: int) -> Iterator[dict[str, Array]]:
    """What training environments show while random actions are played in them."""
    extractor = next(module for module in algorithm.policy.modules() if isinstance(module, EncoderExtractor))
    observation, _ = env.reset(seed=0)
    env.action_space.seed(0)
    for _ in range(0, count, env.num_envs):
        compact = {name: torch.as_tensor(np.asarray(entry)) for name, entry in observation.items()}
        full = compact if extractor.tables is None else extractor.tables(compact)
        batch = {name: entry.numpy() for name, entry in full.items()}
        if ACTION_MASK in spec.inputs:
            batch[ACTION_MASK] = env.action_masks().astype(np.float32)
        yield batch
        observation, *_ = env.step(env.action_space.sample())
