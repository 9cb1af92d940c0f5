"""Whose episodes are stored: the policy of a run, a rule, an oracle that knows what was planted, or no one's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from pacesetter.build import Plan, best_fleet
from pacesetter.envs.batch.account_entries import PositionEntry
from pacesetter.errors import DataError
from pacesetter.evaluation.baselines.forecasting import choose_thresholds, fill_returns
from pacesetter.learning.experience.recording import Teach, fleet_teacher, order_teacher
from pacesetter.learning.expert import RuleExpert
from pacesetter.learning.state import tensors_hash
from pacesetter.market.orders import DISCRETE_AS_CONTINUOUS, Discrete
from pacesetter.market.parameters import BPS
from pacesetter.methods.offline.window_teachers import windows_expert, windows_oracle, windows_run
from pacesetter.panel import Panel

if TYPE_CHECKING:
    from pacesetter.learning.experience.market import FleetMarket

__all__ = ["TEACHERS", "expert_teacher", "oracle_teacher", "run_teacher"]

Rows = dict[str, torch.Tensor]


def run_teacher(folder: str | Path, config: Plan, market: FleetMarket) -> tuple[Teach, str]:
    """The best fleet of a run, and the hash of its weights; refuses a run without one."""
    fleet = best_fleet(folder)
    return fleet_teacher(fleet, market), tensors_hash(fleet.state_dict())


def expert_teacher(config: Plan, panel: Panel, market: FleetMarket) -> Teach:
    """The rule expert on the features of the window; refuses a window without the indicators that it needs."""
    rule, action = RuleExpert(market.batch.bank.names), config.trading.action

    def choose_orders(observation: Rows) -> torch.Tensor:
        chosen = torch.as_tensor(rule.act(market.tables(observation) | observation)).long()
        if market.actions is not None:
            return chosen
        orders = torch.tensor(DISCRETE_AS_CONTINUOUS)[chosen]
        if action != "target":
            return orders
        held = observation["position"][:, PositionEntry.WEIGHT] > 0  # the full position or none
        # A target has to be restated at every bar: holding is asking for the full position again.
        return torch.where((orders > 0) | (held & (orders == 0)), 1.0, -1.0)

    return order_teacher(choose_orders, market.actions)


def oracle_teacher(config: Plan, panel: Panel, market: FleetMarket) -> Teach:
    """Trades the response that a synthetic market planted for the next bar; refuses a market without a known truth.

    Its thresholds are the best ones, after costs, on the bars of the market, which are those of the training set.
    """
    if panel.truth is None:
        raise DataError("an oracle needs a market with a known truth; give data=synthetic")
    task, bars = config.trading, market.tables.windows.shape[2]
    costs = task.market.costs
    side = (costs.commission_bps + costs.spread_bps / 2 + costs.slippage_bps) * BPS
    # Row t is the response of bar t + 1, which an order decided at t is in time for.
    response = panel.truth.response[1 : bars + 1]
    earned = fill_returns(panel.rows(0, bars))
    size = min(task.market.limits.position_cap_fraction, 1.0)
    limits = choose_thresholds(response[: len(earned)], earned[: len(response)], side, size)
    columns = [list(panel.symbols).index(name) for (name,) in market.batch.bank.symbols]
    expected = torch.from_numpy(np.ascontiguousarray(response[:, columns]))  # (bar, block)

    def choose_orders(observation: Rows) -> torch.Tensor:
        block, bar = observation["index"].long().unbind(-1)
        forecast = expected[bar.clamp(max=len(expected) - 1), block]
        held = observation["position"][:, PositionEntry.WEIGHT] > 0
        enters, leaves = ~held & (forecast > limits.entry), held & (forecast < limits.exit)
        if task.action == "target":  # where nothing is to change, the full position or none
            return torch.where(enters | (held & ~leaves), 1.0, -1.0)
        if market.actions is None:
            return enters.float() - leaves.float()
        return torch.where(enters, int(Discrete.BUY_LARGE), torch.where(leaves, int(Discrete.SELL_ALL), 0))

    return order_teacher(choose_orders, market.actions)


# By what the runs of a task are judged as: orders of an account, or windows.
TEACHERS: Mapping[str, Mapping[str, Callable[..., Any]]] = {
    "account": {"run": run_teacher, "expert": expert_teacher, "oracle": oracle_teacher},
    "windows": {"run": windows_run, "expert": windows_expert, "oracle": windows_oracle},
}
