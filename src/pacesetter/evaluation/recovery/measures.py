"""What a trace amounts to: named numbers, each with what it must be; the gates of a policy that has not collapsed.

Names and meaning are fixed: a gate engine reads them as `named(gates)`, name → value, sense, limit, passed, oracle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pacesetter.build.configuration import Gates
from pacesetter.evaluation.recovery.trace import Trace
from pacesetter.evaluation.statistics.gates import Gate
from pacesetter.evaluation.statistics.metrics import sharpe
from pacesetter.features.regime import REGIMES

__all__ = [
    "ABOVE_CONSTANT",
    "STATE_NAMES",
    "all_gates",
    "beside_oracle",
    "is_recovered",
    "named",
    "recovery_gates",
    "state_counts",
    "trace_sharpe",
    "trace_values",
]

Array = NDArray[Any]
BINS = 20  # of a continuous action's range
SLIDING = 20  # steps in which distinct actions are counted
GAINS = (-0.01, 0.0, 0.01)  # edges of a position's unrealised return
SIZES = ("up to half the cap", "above half the cap")
LEVELS = ("below −1 %", "−1 to 0 %", "0 to 1 %", "above 1 %")
STATE_NAMES = ("flat", *(f"{size}, {level}" for size in SIZES for level in LEVELS))
ENTROPY, COVERAGE, LARGEST, DISTINCT = "action entropy", "range coverage", "most used action", "distinct actions"
FILLS, TRIPS, STATES, FINITE = "trade rate", "round trips per 1,000 steps", "states visited", "finite numbers"
HISTOGRAM, VOLUNTARY = "histogram entropy", "voluntary trades"
ABOVE_CONSTANT = "Sharpe ratio above the best constant action"


def trace_values(trace: Trace) -> dict[str, float]:
    """Every measure by name.

    action entropy      nats of the histogram of actions played: 20 bins of the range, or the discrete orders
    histogram entropy   the same as a share of its maximum
    range coverage      share of the 20 bins that were used; of continuous actions only
    most used action    share of one discrete order, or of sell, hold and buy; not of targets, which are not orders
    distinct actions    mean number of different ones in 20 steps / the most that there can be
    trade rate          share of steps with a fill (voluntary trades: the same here)
    round trips         positions closed in full, per 1,000 steps
    states visited      share of position × unrealised return × regime that were seen; regimes that never occur are left
                        out, and a flat position has no return
    finite numbers      share of steps whose action and return are numbers
    """
    counts = _histogram(trace)
    played = max(int(trace.is_played.sum()), 1)
    nats = _entropy(counts)
    fills = float(trace.filled[trace.is_played].mean()) if played else 0.0
    values = {
        ENTROPY: nats,
        HISTOGRAM: nats / float(np.log(len(counts))),
        DISTINCT: _distinct(trace),
        FILLS: fills,
        VOLUNTARY: fills,
        TRIPS: 1000.0 * float((trace.closed & trace.is_played).sum()) / played,
        STATES: _visited(trace),
        FINITE: float((np.isfinite(trace.actions) & np.isfinite(trace.returns))[trace.is_played].mean()),
    }
    if trace.kinds is None:
        values[COVERAGE] = float((counts > 0).mean())
    if trace.kinds is not None or trace.hold_zone is not None:
        orders = _orders(trace)
        values[LARGEST] = float(orders.max() / max(orders.sum(), 1))
    return values


def trace_sharpe(trace: Trace) -> float:
    """Annualised Sharpe ratio of all columns in equal parts; 0 where returns never vary."""
    returns = np.where(trace.is_played, trace.returns, np.nan)
    return float(sharpe(np.nanmean(returns, axis=1), trace.bars_per_year))


# ---- gates ----------------------------------------------------------------------------------------------------------


def recovery_gates(trace: Trace, limits: Gates, best_constant: float | None = None) -> list[Gate]:
    """The gates beyond those of `collapse_gates` that have a limit, of one trace.

    Of discrete actions the entropy's limit is `min_histogram` of its maximum, of continuous ones `min_entropy` nats.
    """
    values, gates = trace_values(trace), list[Gate]()
    if limits.min_entropy is not None:
        most = float(np.log(trace.kinds)) if trace.kinds else None
        gates.append(Gate(ENTROPY, values[ENTROPY], ">", limits.min_histogram * most if most else limits.min_entropy))
    for name, limit in ((DISTINCT, limits.min_distinct), (TRIPS, limits.min_round_trips), (STATES, limits.min_states)):
        if limit is not None:
            gates.append(Gate(name, values[name], ">=" if name == TRIPS else ">", limit))
    if gates:
        gates.append(Gate(FINITE, values[FINITE], ">=", 1.0))
    if best_constant is not None:
        gates.append(Gate(ABOVE_CONSTANT, trace_sharpe(trace) - best_constant, ">", 0.0))
    return gates


def all_gates(trace: Trace, limits: Gates, best_constant: float | None = None) -> list[Gate]:
    """Every gate of one trace, those of `collapse_gates` too; what an agent of a fleet is held against."""
    values = trace_values(trace)
    gates = [Gate(FILLS, values[FILLS], ">=", limits.min_trades)]
    if LARGEST in values:
        gates.insert(0, Gate(LARGEST, values[LARGEST], "<=", limits.max_share))
    if trace.kinds is None:
        gates.append(Gate(COVERAGE, values[COVERAGE], ">=", limits.min_coverage))
        gates.append(Gate(HISTOGRAM, values[HISTOGRAM], ">=", limits.min_histogram))
    return [*gates, *recovery_gates(trace, limits, best_constant)]


def beside_oracle(gates: Sequence[Gate], oracle: Mapping[str, float] | None) -> list[Gate]:
    """The gates with the oracle's value on the same bars; one that the oracle fails does not apply."""
    if oracle is None:
        return list(gates)
    return [replace(gate, oracle=oracle.get(gate.name)) for gate in gates]


def named(gates: Sequence[Gate]) -> dict[str, dict[str, Any]]:
    """Name → value, sense, limit, passed, oracle, applicable: what a gate engine reads."""
    return {
        gate.name: {
            "value": gate.value,
            "sense": gate.sense,
            "limit": gate.limit,
            "passed": gate.passed,
            "oracle": gate.oracle,
            "applicable": gate.is_applicable,
        }
        for gate in gates
    }


def is_recovered(gates: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether every gate that applies is passed, and the best constant action was beaten after costs.

    A gate that was not measured says nothing, except the last: without it no policy is called recovered.
    """
    beaten = gates.get(ABOVE_CONSTANT)
    return beaten is not None and bool(beaten["passed"]) and all(g["passed"] for g in gates.values() if g["applicable"])


# ---- measures -------------------------------------------------------------------------------------------------------


def _histogram(trace: Trace) -> Array:
    """How often each discrete action, or each of 20 bins of [-1, 1], was played."""
    actions = trace.actions[trace.is_played]
    if trace.kinds:
        return np.bincount(actions.astype(np.int64), minlength=trace.kinds)
    return np.histogram(actions, bins=BINS, range=(-1.0, 1.0))[0]


def _orders(trace: Trace) -> Array:
    """How often each discrete action was played, or of continuous ones sell, hold and buy."""
    if trace.kinds:
        return _histogram(trace)
    zone = max(trace.hold_zone or 0.0, 1e-12)
    return np.bincount(np.digitize(trace.actions[trace.is_played], [-zone, zone]), minlength=3)


def _entropy(counts: Array) -> float:
    shares = counts[counts > 0] / max(counts.sum(), 1)
    return float(-(shares * np.log(shares)).sum()) + 0.0


def _distinct(trace: Trace) -> float:
    """Mean number of distinct actions in a sliding 20 / min(20, kinds); over the steps there are where fewer."""
    kinds = trace.kinds or BINS
    codes = trace.actions if trace.kinds else np.clip((trace.actions + 1) * BINS // 2, 0, BINS - 1)
    found = []
    for column in range(trace.columns):
        played = codes[trace.is_played[:, column], column].astype(np.int64)
        if len(played) == 0:
            continue
        width = min(SLIDING, len(played))
        windows = np.lib.stride_tricks.sliding_window_view(played, width)
        is_used = np.stack([(windows == code).any(axis=1) for code in range(kinds)])
        found.append(is_used.sum(axis=0) / min(SLIDING, kinds))
    return float(np.concatenate(found).mean()) if found else 0.0


def state_counts(trace: Trace) -> Array:
    """(state, regime) steps in each state of `STATE_NAMES` and each of `REGIMES`."""
    size = np.where(np.abs(trace.weight) > trace.cap / 2, len(LEVELS), 0)
    level = np.digitize(trace.unrealised, GAINS)
    state = np.where(trace.weight == 0, 0, 1 + size + level)
    counts = np.zeros((len(STATE_NAMES), len(REGIMES)), dtype=np.int64)
    known = trace.is_played & (trace.regime >= 0)
    np.add.at(counts, (state[known], trace.regime[known]), 1)
    return counts


def _visited(trace: Trace) -> float:
    counts = state_counts(trace)
    occurs = counts.sum(axis=0) > 0
    return float((counts[:, occurs] > 0).mean()) if occurs.any() else 0.0
