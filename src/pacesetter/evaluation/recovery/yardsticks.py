"""What a policy's gates stand beside: the best constant action and the oracle, played once over the same bars."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pacesetter.arrays import Array
from pacesetter.build.sections import Gates
from pacesetter.envs.batch.account_entries import PositionEntry
from pacesetter.envs.batch.batch import Batch
from pacesetter.errors import DataError
from pacesetter.evaluation.baselines.teachers import OracleTeacher
from pacesetter.evaluation.recovery.measures import trace_sharpe, trace_values
from pacesetter.evaluation.recovery.trace import Act, Trace, constant_actions, play_trace
from pacesetter.market.orders import Discrete, as_continuous, target_range
from pacesetter.panel import Panel

__all__ = ["Yardsticks", "oracle_act"]


class Yardsticks:
    """The traces of constant actions and of the oracle in a batch with fixed starts.

    batch   of the bars that the policy is judged on            panel   of all bars, with its truth where that is known
    stop    end of the training set, on which the oracle's thresholds are chosen
    """

    def __init__(self, batch: Batch, limits: Gates, panel: Panel | None, stop: int) -> None:
        self.constants = [play_trace(batch, act) for act in constant_actions(batch)] if limits.constant else []
        self.oracle: Trace | None = None
        if limits.oracle and panel is not None and panel.truth is not None and not batch.bank.is_whole:
            self.oracle = play_trace(batch, oracle_act(batch, panel, stop))

    def best_constant(self, column: int | None = None) -> float | None:
        """The highest Sharpe ratio of a constant action, of all columns or of one; None where none was played."""
        parts = self.constants if column is None else [trace.column(column) for trace in self.constants]
        return max((trace_sharpe(part) for part in parts), default=None)

    def oracle_values(self, column: int | None = None) -> dict[str, float] | None:
        """What the oracle has, of all columns or of one; None where its truth is not known."""
        if self.oracle is None:
            return None
        return trace_values(self.oracle if column is None else self.oracle.column(column))


def oracle_act(batch: Batch, panel: Panel, stop: int) -> Act:
    """The oracle in the batch's own kind of action; where no trade earns its costs, it holds."""
    last = int(batch.bank.lasts.max()) + 1
    try:
        # Thresholds from training bars, responses of the judged ones: it knows the signal, not its own result.
        teacher = OracleTeacher.from_truth(panel, batch.bank, batch.market, stop, shown=min(last + 1, len(panel)))
    except DataError:
        return Act(lambda observation, masks: np.zeros(batch.inputs.shape))

    def act(observation: Mapping[str, Array], masks: Array | None) -> Array:
        orders = teacher.act(observation)
        if batch.action == "discrete":
            return orders
        if batch.action == "target":
            _, high = target_range(batch.market)
            held = np.asarray(observation["position"])[:, PositionEntry.WEIGHT]
            wanted = [orders == Discrete.BUY_LARGE, orders == Discrete.SELL_ALL]
            return np.asarray(np.clip(np.select(wanted, [high, 0.0], held), 0.0, high)[:, None])
        numbers = as_continuous(orders)
        return np.stack([np.ones_like(numbers), numbers], axis=1) if batch.action == "hybrid" else numbers[:, None]

    return Act(act)
