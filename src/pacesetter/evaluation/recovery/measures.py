"""What a trace amounts to: named numbers, each with what it must be; the gates of a policy that has not collapsed.

Names and meaning are fixed: a gate engine reads `gates_by_name(gates)`, name → value, sense, limit, passed, oracle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from pacesetter.arrays import Array
from pacesetter.build.sections import Gates
from pacesetter.evaluation.recovery.trace import Trace
from pacesetter.evaluation.statistics.gates import Gate, Limit, Measured, Sense, hold
from pacesetter.evaluation.statistics.metrics import sharpe
from pacesetter.features.regime import REGIMES

__all__ = [
    "ABOVE_CONSTANT",
    "COVERAGE",
    "FILLS",
    "HISTOGRAM",
    "LARGEST",
    "PASSED_BY",
    "RANGES",
    "SPREAD",
    "STATES",
    "STATE_NAMES",
    "VOLUNTARY",
    "all_gates",
    "compare_with_oracle",
    "gates_by_name",
    "is_recovered",
    "recovery_gates",
    "state_counts",
    "trace_sharpe",
    "trace_values",
    "training_gates",
]

BINS = 20  # of a continuous action's range
SLIDING = 20  # steps in which distinct actions are counted
GAINS = (-0.01, 0.0, 0.01)  # edges of a position's unrealised return
SIZES = ("up to half the cap", "above half the cap")
LEVELS = ("below −1 %", "−1 to 0 %", "0 to 1 %", "above 1 %")
STATE_NAMES = ("flat", *(f"{size}, {level}" for size in SIZES for level in LEVELS))
ENTROPY, COVERAGE, LARGEST, DISTINCT = "action entropy", "range coverage", "most used action", "distinct actions"
FILLS, TRIPS, STATES, FINITE = "trade rate", "round trips per 1,000 steps", "states visited", "finite numbers"
HISTOGRAM, VOLUNTARY = "histogram entropy", "voluntary trades"
VOLUNTARY_TRIPS = "voluntary round trips per 1,000 steps"
ABOVE_CONSTANT = "Sharpe ratio above the best constant action"
SPREAD = "policy spread"
TRACED = (
    ENTROPY,
    DISTINCT,
    TRIPS,
    VOLUNTARY_TRIPS,
    STATES,
    FINITE,
)  # only where the validation set is played once more
SHARES = (HISTOGRAM, COVERAGE, LARGEST, DISTINCT, FILLS, VOLUNTARY, STATES, FINITE, SPREAD)
SMALLEST_OPTION, LARGEST_OPTION = "smallest option share", "largest option share"
OPTION_SUCCESS, OPTIONS_USED = "option success", "options used"
OPTION_DURATION, OPTION_ALIGNED = "mean option duration", "option switches at regime changes"
# name -> lowest and highest value, of all that training measures of a policy
RANGES: dict[str, tuple[float, float]] = {
    **dict.fromkeys(SHARES, (0.0, 1.0)),
    ENTROPY: (0.0, float(np.log(BINS))),
    **dict.fromkeys((TRIPS, VOLUNTARY_TRIPS), (0.0, 1000.0)),
    ABOVE_CONSTANT: (-np.inf, np.inf),
    **dict.fromkeys((SMALLEST_OPTION, LARGEST_OPTION, OPTION_SUCCESS, OPTIONS_USED), (0.0, 1.0)),
    OPTION_DURATION: (0.0, np.inf),
    OPTION_ALIGNED: (-1.0, np.inf),
}
PASSED_BY = "agents that pass: "  # begins the names of a fleet's shares
RANGES |= {PASSED_BY + name: (0.0, 1.0) for name in list(RANGES)}


def trace_values(trace: Trace) -> dict[str, float]:
    """Every measure by name.

    action entropy      nats of the histogram of actions played: 20 bins of the range, or the discrete orders
    histogram entropy   the same as a share of its maximum
    range coverage      share of the 20 bins that were used; of continuous actions only
    most used action    share of one discrete order, or of sell, hold and buy; not of targets, which are not orders
    distinct actions    mean number of different ones in 20 steps / the most that there can be
    trade rate          share of steps with a fill (voluntary trades: the same here)
    round trips         positions closed in full, per 1,000 steps; voluntary ones by an order of the policy's own
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
        # log of the number of bins is the entropy of equal use.
        HISTOGRAM: nats / float(np.log(len(counts))),
        DISTINCT: _distinct_actions(trace),
        FILLS: fills,
        VOLUNTARY: fills,
        TRIPS: 1000.0 * float((trace.closed & trace.is_played).sum()) / played,
        VOLUNTARY_TRIPS: 1000.0 * float((trace.left & trace.is_played).sum()) / played,
        STATES: _visited_share(trace),
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


def training_gates(values: Mapping[str, float], limits: Gates, kinds: int | None = None) -> list[Gate]:
    """`train.gates` held against measured values by the gate engine; what was not measured has no gate.

    kinds   number of discrete actions: the limit of their entropy is `min_histogram` of its maximum, that of
            continuous ones `min_entropy` nats
    """
    measured = {name: Measured(value) for name, value in values.items()}
    return [each.gate for each in hold(_training_limits(limits, kinds), measured)]


def _training_limits(gates: Gates, kinds: int | None) -> list[Limit]:
    entropy = gates.min_entropy
    if entropy is not None and kinds:
        entropy = gates.min_histogram * float(np.log(kinds))
    is_traced = any(each is not None for each in (entropy, gates.min_distinct, gates.min_round_trips, gates.min_states))
    asked: list[tuple[str, Sense, float | None]] = [
        (SPREAD, ">=", gates.min_spread),
        (COVERAGE, ">=", gates.min_coverage),
        (HISTOGRAM, ">=", gates.min_histogram),
        (LARGEST, "<=", gates.max_share),
        (FILLS, ">=", gates.min_trades),
        (VOLUNTARY, ">=", gates.min_trades),
        (ENTROPY, ">", entropy),
        (DISTINCT, ">", gates.min_distinct),
        (TRIPS, ">=", gates.min_round_trips),
        (VOLUNTARY_TRIPS, ">=", gates.min_round_trips),
        (STATES, ">", gates.min_states),
        (FINITE, ">=", 1.0 if is_traced else None),
        (ABOVE_CONSTANT, ">", 0.0),
    ]
    return [Limit(name, sense, limit, optional=True) for name, sense, limit in asked if limit is not None]


def recovery_gates(trace: Trace, limits: Gates, best_constant: float | None = None) -> list[Gate]:
    """The gates beyond those of `collapse_gates` that have a limit, of one trace."""
    values = trace_values(trace)
    kept = {name: values[name] for name in TRACED}
    return training_gates(kept | _above_constant(trace, best_constant), limits, trace.kinds)


def all_gates(trace: Trace, limits: Gates, best_constant: float | None = None) -> list[Gate]:
    """Every gate of one trace, those of `collapse_gates` too; what an agent of a fleet is held against."""
    values = trace_values(trace)
    del values[VOLUNTARY]  # all trades of a trace are
    if trace.kinds is not None:
        del values[HISTOGRAM]  # orders have the entropy's own limit
    return training_gates(values | _above_constant(trace, best_constant), limits, trace.kinds)


def _above_constant(trace: Trace, best_constant: float | None) -> dict[str, float]:
    return {} if best_constant is None else {ABOVE_CONSTANT: trace_sharpe(trace) - best_constant}


def compare_with_oracle(gates: Sequence[Gate], oracle: Mapping[str, float] | None) -> list[Gate]:
    """The gates with the oracle's value on the same bars; one that the oracle fails does not apply."""
    if oracle is None:
        return list(gates)
    return [replace(gate, oracle=oracle.get(gate.name)) for gate in gates]


def gates_by_name(gates: Sequence[Gate]) -> dict[str, dict[str, object]]:
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


def is_recovered(gates: Mapping[str, Mapping[str, object]]) -> bool:
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
    # Above 0, or an order of exactly 0 would count as a purchase.
    zone = max(trace.hold_zone or 0.0, 1e-12)
    return np.bincount(np.digitize(trace.actions[trace.is_played], [-zone, zone]), minlength=3)


def _entropy(counts: Array) -> float:
    shares = counts[counts > 0] / max(counts.sum(), 1)
    return float(-(shares * np.log(shares)).sum()) + 0.0


def _distinct_actions(trace: Trace) -> float:
    """Mean number of distinct actions in a sliding 20 / min(20, kinds); over the steps there are where fewer."""
    kinds = trace.kinds or BINS
    # Bins of [-1, 1]; 1 itself belongs to the last one.
    codes = trace.actions if trace.kinds else np.clip((trace.actions + 1) * BINS // 2, 0, BINS - 1)
    counts = []
    for column in range(trace.columns):
        played = codes[trace.is_played[:, column], column].astype(np.int64)
        if len(played) == 0:
            continue
        width = min(SLIDING, len(played))
        windows = np.lib.stride_tricks.sliding_window_view(played, width)
        is_used = np.stack([(windows == code).any(axis=1) for code in range(kinds)])  # (code, window)
        counts.append(is_used.sum(axis=0) / min(SLIDING, kinds))
    return float(np.concatenate(counts).mean()) if counts else 0.0


def state_counts(trace: Trace) -> Array:
    """(state, regime) steps in each state of `STATE_NAMES` and each of `REGIMES`."""
    size = np.where(np.abs(trace.weight) > trace.cap / 2, len(LEVELS), 0)
    level = np.digitize(trace.unrealised, GAINS)
    state = np.where(trace.weight == 0, 0, 1 + size + level)
    counts = np.zeros((len(STATE_NAMES), len(REGIMES)), dtype=np.int64)
    known = trace.is_played & (trace.regime >= 0)
    # add.at, not +=: an index that occurs twice must count twice.
    np.add.at(counts, (state[known], trace.regime[known]), 1)
    return counts


def _visited_share(trace: Trace) -> float:
    counts = state_counts(trace)
    occurs = counts.sum(axis=0) > 0
    return float((counts[:, occurs] > 0).mean()) if occurs.any() else 0.0
