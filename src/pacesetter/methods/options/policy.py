"""Agents with options as a policy of one account, and as the module of a bundle; both keep the option in force."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Literal

import numpy as np
import pandas as pd
import torch
from torch import nn

from pacesetter.agents.fleet import FleetAgent
from pacesetter.agents.layout import Tensors
from pacesetter.arrays import Array
from pacesetter.envs.batch.account_entries import PositionEntry
from pacesetter.market.orders import as_targets
from pacesetter.market.parameters import MarketParameters
from pacesetter.market.targets import joint_targets, within_account
from pacesetter.methods.options.agents import ANY, OptionFleet
from pacesetter.methods.options.answer import MEMORY
from pacesetter.policies.agent import per_symbol
from pacesetter.policies.policy import Policy, Snapshot
from pacesetter.policies.spec import PolicySpec

if TYPE_CHECKING:
    from pacesetter.methods.prior.policy import BesidePrior

__all__ = ["OptionPolicy", "ServedOptions", "serve_options"]

Trades = Literal["orders", "targets"]


class OptionPolicy(Policy):
    """A fleet with options, or the one agent of every symbol, in one account.

    trades   by the orders of its agents, or by targets made of them, as `FleetTargets`
    beside   the prior that the orders are added to; with `sets_targets` alone they are positions to hold
    notes    of the last decision: `option`, the name of the one in force for each symbol

    At a backtest's first bar it starts without an option.
    """

    name: str
    action: str
    fitted_until: pd.Timestamp | None
    own_account: bool

    def __init__(
        self,
        fleet: OptionFleet,
        market: MarketParameters,
        trades: Trades = "orders",
        fitted_until: pd.Timestamp | None = None,
        own_account: bool = True,
        name: str = "options",
        sets_targets: bool = False,
        beside: BesidePrior | None = None,
    ) -> None:
        self.fleet, self.market, self.trades, self.name = fleet, market, trades, name
        self.fitted_until, self.own_account = fitted_until, own_account
        self.sets_targets, self.beside = sets_targets, beside
        self.action = "target" if sets_targets or trades == "targets" else "continuous"
        self.notes: dict[str, list[str]] = {}
        self._symbols: tuple[str, ...] = ()

    def decide(self, snapshot: Snapshot) -> Array:
        symbols = snapshot.panel.symbols
        # A new agent has no memory: the option in force at the end of one backtest must not leak into the next.
        if snapshot.t == snapshot.first or symbols != self._symbols:
            self._agent, self._symbols = FleetAgent(self.fleet, symbols), symbols
        known = snapshot if self.beside is None else self.beside.show(snapshot)
        shown = per_symbol(known.observation, self.own_account)
        # Copied: torch warns of read-only arrays.
        orders = self._agent.act({name: np.array(entry) for name, entry in shown.items()})
        self.notes = self._agent.notes
        proposals = np.asarray(orders, dtype=np.float64)
        if self.sets_targets:
            numbers = proposals if self.beside is None else self.beside.numbers(proposals, known)
            wanted = within_account(np.asarray(as_targets(numbers, self.market), dtype=np.float64), self.market)
            return np.where(snapshot.panel.mask[snapshot.t], wanted, np.nan)
        if self.trades == "orders":
            return proposals
        held = np.asarray(snapshot.observation["position"][:, PositionEntry.WEIGHT], dtype=np.float64)
        targets = joint_targets(proposals, held, self.market)
        # Without a bar there is no price to trade at: NaN leaves the position as it is.
        return np.where(snapshot.panel.mask[snapshot.t], targets, np.nan)


class ServedOptions(nn.Module):
    """An observation (row, …) with what was kept of the bar before to an order, and what is kept of this one."""

    def __init__(self, fleet: OptionFleet) -> None:
        super().__init__()
        self.fleet = fleet

    def forward(self, observation: Tensors) -> tuple[torch.Tensor, ...]:
        # The one agent of every symbol is asked for any number of rows; those of a fleet are its symbols.
        answer, _ = self.fleet.evaluate(observation)
        played = answer.play(deterministic=True)
        place = played.option[:, None]
        values = answer.values.gather(-1, place).squeeze(-1)
        confidence = answer.selector.probabilities.gather(-1, place).squeeze(-1)
        return played.orders, confidence, values, played.option.float(), played.memory


def serve_options(
    fleet: OptionFleet, names: Mapping[str, Iterable[str]], trades: Trades = "orders"
) -> tuple[ServedOptions, PolicySpec]:
    """A fleet with options, or the one agent of every symbol, as a module with its spec."""
    is_any = fleet.symbols == (ANY,)
    spec = PolicySpec(
        inputs=fleet.shapes | fleet.memory,
        names={entry: tuple(names[entry]) for entry in fleet.shapes},
        action="continuous",
        rows="symbol" if is_any else "fleet",
        symbols=() if is_any else fleet.symbols,
        outputs=("orders", "confidence", "value", "option", f"{MEMORY}_after"),
        trades=trades,
        options=fleet.options.names,
    )
    return ServedOptions(fleet).eval(), spec
