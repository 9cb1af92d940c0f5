"""Everything measured of a run by name: its judgement, its folds, its agents and the gates of its training."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pacesetter.arrays import Array
from pacesetter.evaluation.backtest.stress import AS_IT_WAS
from pacesetter.evaluation.recovery.measures import COVERAGE, ENTROPY, RANGES, STATES, TRIPS
from pacesetter.evaluation.statistics.gates import Measured
from pacesetter.evaluation.statistics.intervals import Statistic, block_length, interval, paired_difference
from pacesetter.evaluation.statistics.metrics import annual_return, max_drawdown, sharpe, total_return
from pacesetter.evaluation.statistics.regression import RESULT, read_result
from pacesetter.evaluation.statistics.trials import RETURNS
from pacesetter.market.orders import Discrete
from pacesetter.runs import EVALUATION, REPLAY, SERVED

__all__ = [
    "METRICS",
    "REPEAT",
    "SUPERVISED",
    "SUPERVISED_FILE",
    "Metric",
    "RunRecord",
    "find_metric",
    "measure",
    "metric_names",
    "read_agents",
    "read_record",
    "seconds_learning",
]

LARGE_LOSS = 0.5  # of its equity: an agent that lost more has crashed
SUPERVISED = ("ridge", "lasso", "supervised")  # what learns to forecast and does not trade to learn
SUPERVISED_FILE = "supervised.json"  # baselines on the validation set, which agents are compared with
REPEAT = "repeat.json"  # of a run that was trained once more
BESIDE = "pacesetter validate RUN gates=NAME --beside RUN"
SUCCESS = 0.3  # Sharpe ratio of an agent that succeeded
GAIN = 0.2  # that an agent must have above the best supervised baseline, as a share of it
SCORE, SECONDS = "validation.score", "seconds."  # in the log: of a validation; begins the parts of a run's clock
TRAINED = "recovery."  # begins the names of what training measured
WIDTH = 1.96  # standard errors on each side of a share
STEADY = 0.05  # that a weight may be off its last value once it has settled
UPDATES = "reward/preference_updates"  # of the network that weighs objectives
GENERATIONS = 100  # of evolution, over which the mean of its members must not fall
MOST = 0.8  # of the score of the run beside, which a run is timed to


@dataclass(frozen=True)
class Metric:
    """What a gate may name: in words, the values it can have, and how it is read from what a run left.

    by   the command that measures it, where an evaluation alone does not
    """

    about: str
    read: Callable[[RunRecord], Measured]
    lowest: float = -math.inf
    highest: float = math.inf
    by: str = ""


@dataclass(frozen=True, eq=False)
class RunRecord:
    """What a run left behind.

    judged       evaluation.json              agents   fleet.csv; None for another task
    folds        the table of walk-forward folds; None where none were made
    gates        gates.json by name, of the deterministic policy; of a fleet the median of its agents
    returns      (time, policy) of the test set; None where they were not kept, and intervals are not made
    supervised   best Sharpe ratio of a supervised baseline on the validation set; NaN where it was not measured
    repeat       relative difference of the score when it was trained once more; NaN where it was not
    index        baseline that stands for the market where no symbol does
    logged       (step, value) of every figure that training logged
    heads        auxiliary.json: accuracies of auxiliary heads on the validation set
    served       serving.json: how the policy is served     replay   replay.json: what its replay costs
    hacks        ways in which its reward is paid without earning, by the audit; NaN where none was made
    episode_bars   of an episode of training; NaN of a task without
    beside       another run, which gains are measured over; None where none was named
    """

    judged: Mapping[str, Any]
    agents: pd.DataFrame | None = None
    folds: pd.DataFrame | None = None
    gates: Mapping[str, Any] | None = None
    returns: pd.DataFrame | None = None
    supervised: float = math.nan
    repeat: float = math.nan
    index: str = "hold"
    logged: Mapping[str, Sequence[tuple[float, float]]] = field(default_factory=dict)
    heads: Mapping[str, Mapping[str, float | None]] = field(default_factory=dict)
    served: Mapping[str, float] = field(default_factory=dict)
    replay: Mapping[str, float] = field(default_factory=dict)
    hacks: float = math.nan
    episode_bars: float = math.nan
    beside: RunRecord | None = None

    def figure(self, name: str, policy: str | None = None) -> float:
        """A figure of the judged policy, or of another one in its table."""
        return float(self.judged["figures"].get(policy or self.policy, {}).get(name, math.nan))

    @property
    def policy(self) -> str:
        """The judged one."""
        return str(self.judged["policy"])

    @property
    def bars_per_year(self) -> float:
        return float(self.judged.get("bars_per_year", math.nan))

    def best_of(self, kinds: tuple[str, ...]) -> str | None:
        """The baseline with the best Sharpe ratio among those whose names begin so."""
        figures = {name: self.figure("sharpe", name) for name in self.judged["figures"] if name.startswith(kinds)}
        known = {name: value for name, value in figures.items() if not math.isnan(value)}
        return max(known, key=lambda name: known[name]) if known else None

    def series(self, name: str | None) -> Array | None:
        """Returns of a policy on the test set, where they were kept."""
        has = self.returns is not None and name in self.returns
        return self.returns[name].to_numpy() if has and self.returns is not None else None


def read_record(folder: Path, index: str = "hold", judged: Mapping[str, object] | None = None) -> RunRecord:
    """What a run left in its folder; `judged` where its judgement is at hand and not stored yet."""
    where = folder / EVALUATION
    table, kept = where / "walk_forward.csv", where / RETURNS
    return RunRecord(
        judged=read_result(where / RESULT) if judged is None else judged,
        agents=read_agents(folder),
        folds=pd.read_csv(table) if table.is_file() else None,
        gates=_training_gates(_json(folder / "gates.json")),
        returns=pd.read_parquet(kept) if kept.is_file() else None,
        supervised=float(_json(where / SUPERVISED_FILE).get("sharpe", math.nan)),
        repeat=float(_json(folder / REPEAT).get("difference", math.nan)),
        index=index,
        logged=_read_log(folder / "metrics.jsonl"),
        heads=_json(folder / "auxiliary.json"),
        served=_json(where / SERVED),
        replay=_json(where / REPLAY),
    )


def read_agents(folder: Path) -> pd.DataFrame | None:
    """The agents of a fleet's run on the validation set; None of another run."""
    path = folder / "fleet.csv"
    return pd.read_csv(path, keep_default_na=False, dtype={"symbol": str}) if path.is_file() else None


def measure(record: RunRecord, names: Iterable[str]) -> dict[str, Measured | None]:
    """The named metrics of an evaluated run; None where it left nothing to read one from."""
    return {name: _read(record, name) for name in names}


def find_metric(name: str) -> Metric | None:
    """The metric of that name, `recovery.NAME` for one that training measures; None where there is none."""
    if not name.startswith(TRAINED):
        return METRICS.get(name)
    known = name.removeprefix(TRAINED)
    return (
        None
        if known not in RANGES
        else Metric(known, partial(_training_figure, known), *RANGES[known], by="train with +preset=recovery")
    )


def metric_names() -> list[str]:
    """All that a gate may name."""
    return [*METRICS, *(TRAINED + name for name in RANGES)]


def _read(record: RunRecord, name: str) -> Measured | None:
    metric = find_metric(name)
    value = Measured(math.nan) if metric is None else metric.read(record)
    return None if math.isnan(value.value) else value


def _json(path: Path) -> dict[str, Any]:
    return read_result(path) if path.is_file() else {}


def _read_log(path: Path) -> dict[str, list[tuple[float, float]]]:
    """(step, number) of every name in a log, those one level down as `name.part`."""
    logged: dict[str, list[tuple[float, float]]] = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else ():
        record = json.loads(line)
        for name, value in record.items():
            parts = (
                {f"{name}.{part}": each for part, each in value.items()} if isinstance(value, dict) else {name: value}
            )
            for part, each in parts.items():
                if isinstance(each, int | float):
                    logged.setdefault(part, []).append((float(record.get("step", math.nan)), float(each)))
    return logged


def _training_gates(stored: Mapping[str, Any]) -> dict[str, Any]:
    """By name, of the deterministic policy; of a fleet also each gate's median over its agents."""
    gates = dict(stored.get("gates", {}).get("deterministic", {}))
    own = [ways.get("deterministic", {}) for ways in stored.get("agents", {}).values()]
    for name in {name for each in own for name in each}:
        values = [each[name]["value"] for each in own if name in each]
        oracles = [each[name]["oracle"] for each in own if name in each and each[name]["oracle"] is not None]
        gates[name] = {
            "value": float(np.median(values)),
            # Only where every agent has one: a median over some would be of other agents than the values.
            "oracle": float(np.median(oracles)) if len(oracles) == len(values) else None,
        }
    return gates


# ---- what can be read -----------------------------------------------------------------------------------------------


def _training_figure(name: str, record: RunRecord) -> Measured:
    """What training measured, and what the oracle had on the same bars."""
    gate = (record.gates or {}).get(name)
    if gate is None:
        return Measured(math.nan)
    oracle = gate.get("oracle")
    return Measured(float(gate["value"]), oracle=None if oracle is None else float(oracle))


def _order_entropy(record: RunRecord) -> Measured:
    """Entropy of discrete orders as a share of the most; NaN of continuous actions, which cover a range."""
    nats = _training_figure(ENTROPY, record)
    if not math.isnan(_training_figure(COVERAGE, record).value):
        return Measured(math.nan)
    most = math.log(len(Discrete))
    return Measured(nats.value / most, oracle=None if nats.oracle is None else nats.oracle / most)


def _trips_each_episode(record: RunRecord) -> Measured:
    trips = _training_figure(TRIPS, record)
    share = record.episode_bars / 1000
    return Measured(trips.value * share, oracle=None if trips.oracle is None else trips.oracle * share)


def _last(name: str) -> Callable[[RunRecord], Measured]:
    return lambda record: Measured(_newest(record, name))


def _size(name: str) -> Callable[[RunRecord], Measured]:
    return lambda record: Measured(abs(_newest(record, name)))


def _newest(record: RunRecord, name: str) -> float:
    curve = record.logged.get(name)
    return curve[-1][1] if curve else math.nan


def _objective_weights(record: RunRecord) -> list[str]:
    return [name for name in record.logged if name.startswith("reward/") and name.endswith("_weight")]


def _largest_weight(record: RunRecord) -> Measured:
    return Measured(max((_newest(record, name) for name in _objective_weights(record)), default=math.nan))


def _steps_to_settle(record: RunRecord) -> Measured:
    return Measured(_settled(record.logged.get("potential/weight", ())))


def _updates_to_settle(record: RunRecord) -> Measured:
    """Updates of the network that weighs objectives after which no weight moves any more."""
    step = max((_settled(record.logged[name]) for name in _objective_weights(record)), default=math.nan)
    if not math.isfinite(step):
        return Measured(step)
    return Measured(dict(record.logged.get(UPDATES, ())).get(step, math.nan))


def _settled(curve: Sequence[tuple[float, float]]) -> float:
    """The step from which a figure stays beside its last value; infinite where it still moves, NaN of one value."""
    if len(curve) < 2:
        return math.nan
    moving = [place for place, (_, value) in enumerate(curve) if abs(value - curve[-1][1]) > STEADY]
    place = moving[-1] + 1 if moving else 0
    return math.inf if place == len(curve) - 1 else curve[place][0]


def _samples_saved(name: str) -> Callable[[RunRecord], Measured]:
    """Share of the steps of the run beside that are saved on the way to where a figure of it ends."""

    def compare(record: RunRecord) -> Measured:
        own = record.logged.get(name, ())
        other = record.beside.logged.get(name, ()) if record.beside is not None else ()
        wanted = other[-1][1] if other else 0.0
        if not own or not wanted > 0:
            return Measured(math.nan)
        mine, theirs = (next((step for step, value in curve if value >= wanted), math.inf) for curve in (own, other))
        return Measured(1 - mine / theirs)

    return compare


def _seconds_to_beside(record: RunRecord) -> Measured:
    """Time until a run has most of the last score of the run beside, as a multiple of what that one took itself.

    Infinite where it never has; NaN where the run beside ended at a loss, of which there is no share.
    """
    scores = () if record.beside is None else record.beside.logged.get(SCORE, ())
    wanted = MOST * scores[-1][1] if scores else 0.0
    if record.beside is None or not wanted > 0 or not record.logged.get(SCORE):
        return Measured(math.nan)
    return Measured(_seconds_to(record, wanted) / _seconds_to(record.beside, wanted))


def _seconds_to(record: RunRecord, wanted: float) -> float:
    """Seconds of learning until the first validation with such a score."""
    step = next((step for step, score in record.logged[SCORE] if score >= wanted), math.inf)
    parts = {name: curve for name, curve in record.logged.items() if name.startswith(SECONDS)}
    if not math.isfinite(step):
        return step
    spent = {name: [seconds for at, seconds in curve if at <= step] for name, curve in parts.items()}
    known = {name.removeprefix(SECONDS): each[-1] for name, each in spent.items() if each}
    return seconds_learning(known) if known else math.nan


def seconds_learning(parts: Mapping[str, float]) -> float:
    """The whole of a run's clock; a fleet counts the time in environments within that of the rollout."""
    total = float(sum(parts.values()))
    return total - float(parts.get("environment", 0.0)) if "rollout" in parts else total


def _generations(record: RunRecord) -> Measured:
    """How the mean member moved over the latest generations, in standard errors: the second half less the first."""
    curve = [score for _, score in record.logged.get("es/mean", ())][-GENERATIONS:]
    if len(curve) < GENERATIONS:
        return Measured(math.nan)
    first, second = np.split(np.asarray(curve), 2)
    if not np.isfinite(curve).all():
        return Measured(-math.inf)
    gap, error = float(second.mean() - first.mean()), math.sqrt((first.var(ddof=1) + second.var(ddof=1)) / len(first))
    return Measured(gap / error if error > 0 else math.copysign(math.inf, gap) if gap else 0.0)


def _added_ms(record: RunRecord) -> Measured:
    """Milliseconds of a step of one agent, learning included, above those of the run beside."""
    rates = [_newest(each, "steps_per_second") for each in (record, record.beside) if each is not None]
    return Measured(1e3 / rates[0] - 1e3 / rates[1] if len(rates) == 2 and min(rates) > 0 else math.nan)


def _measure_replay(name: str) -> Callable[[RunRecord], Measured]:
    return lambda record: Measured(float(record.replay.get(name, math.nan)))


def _direction(record: RunRecord) -> Measured:
    head = record.heads.get("change", {})
    accuracy, oracle = head.get("accuracy"), head.get("oracle")
    return Measured(math.nan if accuracy is None else float(accuracy), oracle=oracle)


def _measure_served(name: str) -> Callable[[RunRecord], Measured]:
    return lambda record: Measured(float(record.served.get(name, math.nan)))


def _gain(read: Callable[[RunRecord], Measured]) -> Callable[[RunRecord], Measured]:
    """By how much a number is above that of the run beside, as a share of it."""

    def compare(record: RunRecord) -> Measured:
        other = math.nan if record.beside is None else read(record.beside).value
        # a share of nothing, or of a loss, means nothing
        return Measured(read(record).value / other - 1 if other > 0 else math.nan)

    return compare


def _figure(name: str) -> Callable[[RunRecord], Measured]:
    return lambda record: Measured(record.figure(name))


def _sharpe(record: RunRecord) -> Measured:
    value, low, high = (float(each) for each in record.judged["intervals"][record.policy][:3])
    return Measured(value, low, high)


def _with_interval(name: str, statistic: Callable[[float], Statistic], is_risk: bool = False) -> Any:
    """A figure with the interval of its statistic, where the returns were kept."""

    def read(record: RunRecord) -> Measured:
        own, value = record.series(record.policy), record.figure(name)
        if own is None or math.isnan(record.bars_per_year):
            return Measured(value)
        # Risk lasts longer than trends do, see `intervals`.
        blocks = block_length(own**2) if is_risk else None
        bounds = interval(own, statistic(record.bars_per_year), block_bars=blocks)
        return Measured(value, bounds.low, bounds.high)

    return read


def _annual(bars_per_year: float) -> Statistic:
    return partial(annual_return, bars_per_year=bars_per_year)


def _ratio(bars_per_year: float) -> Statistic:
    return partial(sharpe, bars_per_year=bars_per_year)


def _paired_difference(
    record: RunRecord, value: float, other: str | None, statistic: Callable[[float], Statistic]
) -> Measured:
    """A difference to another policy of the table with its interval, where the returns of both were kept."""
    own, beside = record.series(record.policy), record.series(other)
    if own is None or beside is None or math.isnan(record.bars_per_year):
        return Measured(value)
    difference = paired_difference(own, beside, statistic(record.bars_per_year))
    return Measured(value, difference.low, difference.high)


def _above_index(record: RunRecord) -> Measured:
    own, index = record.figure("annual_return"), record.judged.get("index")
    if index:
        return Measured(own - float(index["annual_return"]))
    return _paired_difference(record, own - record.figure("annual_return", record.index), record.index, _annual)


def _above_supervised(record: RunRecord) -> Measured:
    best = record.best_of(SUPERVISED)
    value = math.nan if best is None else record.figure("sharpe") - record.figure("sharpe", best)
    return _paired_difference(record, value, best, _ratio)


def _supervised_ratio(record: RunRecord) -> Measured:
    name = record.best_of(SUPERVISED)
    if name is None:
        return Measured(math.nan)
    own, best = record.figure("sharpe"), record.figure("sharpe", name)
    # a share of a ratio at or below zero means nothing: then any positive ratio is above it
    return Measured(own / best - 1 if best > 0 else math.copysign(math.inf, own))


def _stress(name: str, pick: Callable[[list[float]], float]) -> Callable[[RunRecord], Measured]:
    def read(record: RunRecord) -> Measured:
        # Beside the stresses the table has the market as it was, and of a fast evaluation nothing else.
        rows = record.judged.get("stress", {})
        values = [float(row[name]) for scenario, row in rows.items() if scenario != AS_IT_WAS]
        return Measured(pick(values) if values else math.nan)

    return read


def _walk_forward(record: RunRecord) -> Measured:
    if record.folds is None or "sharpe" not in record.folds:
        return Measured(math.nan)
    folds = record.folds["sharpe"].to_numpy(dtype=float)
    mean, error = float(folds.mean()), float(folds.std(ddof=1)) / math.sqrt(len(folds)) if len(folds) > 1 else math.nan
    return Measured(mean, mean - WIDTH * error, mean + WIDTH * error)


def _share(share: float, count: float) -> Measured:
    """A share of `count` cases with Wilson's interval, which stays within 0 and 1."""
    if math.isnan(share) or not count > 0:
        return Measured(share)
    # Wilson (1927): unlike mean ± 1.96 standard errors it holds for shares near 0 and 1, and for few cases.
    z = WIDTH**2 / count
    middle = (share + z / 2) / (1 + z)
    half = WIDTH / (1 + z) * math.sqrt(share * (1 - share) / count + z / (4 * count))
    return Measured(share, max(middle - half, 0.0), min(middle + half, 1.0))


def _win_rate(record: RunRecord) -> Measured:
    # Parts of one position are not independent: the interval counts round trips.
    return _share(record.figure("lot_win_rate"), record.figure("round_trips"))


def _profit_factor(record: RunRecord) -> Measured:
    value = record.figure("lot_profit_factor")
    # gains over no losses: larger than any limit, where a ratio is undefined
    has_only_gains = math.isnan(value) and record.figure("lot_win_rate") == 1.0
    return Measured(math.inf if has_only_gains else value)


def _agents(count: Callable[[pd.DataFrame], float]) -> Callable[[RunRecord], Measured]:
    return lambda record: Measured(math.nan if record.agents is None else float(count(record.agents)))


def _share_above(bar: float) -> Callable[[RunRecord], Measured]:
    def read(record: RunRecord) -> Measured:
        if record.agents is None:
            return Measured(math.nan)
        return _share(float((record.agents["sharpe"] > bar).mean()), len(record.agents))

    return read


def _number_above(bar: float) -> Callable[[pd.DataFrame], float]:
    return lambda table: float((table["sharpe"] > bar).sum())


def _count_finished(table: pd.DataFrame) -> float:
    return float(np.isfinite(table["sharpe"].to_numpy(dtype=float)).sum())


def _count_successes(table: pd.DataFrame) -> float:
    return float(((table["sharpe"] > SUCCESS) & ~(table["drawdown"] > LARGE_LOSS)).sum())


def _count_crashed(table: pd.DataFrame) -> float:
    return float((table["drawdown"] > LARGE_LOSS).sum())


def _agents_above_supervised(record: RunRecord) -> Measured:
    """How many agents are a fifth above the best supervised baseline; both on the validation set."""
    if record.agents is None or math.isnan(record.supervised):
        return Measured(math.nan)
    # A fifth above a negative ratio would be below it.
    bar = max(record.supervised, 0.0) * (1 + GAIN)
    return Measured(float((record.agents["sharpe"] > bar).sum()))


def _read_verdict(name: str) -> Callable[[RunRecord], Measured]:
    """What the verdict says with yes or no; NaN where it was not asked."""

    def read(record: RunRecord) -> Measured:
        value = record.judged.get(name)
        return Measured(math.nan if value is None else float(bool(value)))

    return read


def _windows(record: RunRecord) -> Measured:
    gains = np.asarray(record.judged.get("windows", ()), dtype=float)
    return _share(float((gains > 0).mean()), len(gains)) if len(gains) else Measured(math.nan)


def _regimes(record: RunRecord) -> Measured:
    rows = record.judged.get("regimes", {})
    return Measured(float(sum(row["total_return"] > 0 for row in rows.values())) if rows else math.nan)


def _verdict(name: str, place: int | None = None) -> Callable[[RunRecord], Measured]:
    """A figure of the verdict; NaN where it was not looked at."""

    def read(record: RunRecord) -> Measured:
        value = record.judged.get("verdict", {}).get(name)
        return Measured(math.nan if value is None else float(value if place is None else value[place]))

    return read


def _costs(multiple: float) -> Callable[[RunRecord], Measured]:
    def read(record: RunRecord) -> Measured:
        costs = record.judged.get("verdict", {}).get("costs", {})
        # JSON has texts for keys.
        return Measured(float(costs.get(str(multiple), math.nan)))

    return read


METRICS: dict[str, Metric] = {
    "sharpe": Metric("Sharpe ratio on the test set", _sharpe),
    "sharpe_low": Metric("Sharpe ratio, lower bound", _verdict("sharpe", 1)),
    "deflated_sharpe": Metric("deflated Sharpe probability", _verdict("deflated"), 0.0, 1.0),
    "sharpe_above_baseline_low": Metric(
        "Sharpe difference to the best baseline, lower bound", _verdict("difference", 1)
    ),
    "overfitting": Metric("probability of overfitting", _verdict("overfitting"), 0.0, 1.0),
    "sharpe_double_costs": Metric("Sharpe ratio at 2× costs", _costs(2.0)),
    "sharpe_triple_costs": Metric("Sharpe ratio at 3× costs", _costs(3.0)),
    "windows_with_gain": Metric("share of profitable test periods", _windows, 0.0, 1.0),
    "regimes_with_gain": Metric("regimes with a gain", _regimes, 0.0, 4.0),
    "total_return": Metric("total return", _with_interval("total_return", lambda _: total_return), -1.0),
    "annual_return": Metric("annual return", _with_interval("annual_return", _annual), -1.0),
    "max_drawdown": Metric(
        "largest drawdown", _with_interval("max_drawdown", lambda _: max_drawdown, is_risk=True), 0.0, 1.0
    ),
    "win_rate": Metric("win rate of lots", _win_rate, 0.0, 1.0),
    "profit_factor": Metric("profit factor of lots", _profit_factor, 0.0),
    "trades": Metric("round trips", _figure("round_trips"), 0.0),
    "excess_annual_return": Metric("annual return above the index", _above_index),
    "sharpe_above_supervised": Metric("Sharpe ratio above the best forecast", _above_supervised),
    "gain_over_supervised": Metric("Sharpe ratio above the best forecast, as a share of it", _supervised_ratio),
    "stress_drawdown": Metric(
        "largest drawdown under stress", _stress("max_drawdown", max), 0.0, 1.0, by="pacesetter evaluate RUN"
    ),
    "stress_return": Metric(
        "total return in the worst stress", _stress("total_return", min), -1.0, by="pacesetter evaluate RUN"
    ),
    "walk_forward_sharpe": Metric(
        "Sharpe ratio of walk-forward folds, mean", _walk_forward, by="pacesetter evaluate RUN --folds 5"
    ),
    "edge": Metric("an edge was found", _read_verdict("has_edge"), 0.0, 1.0),
    "evidence": Metric("better than all baselines", _read_verdict("is_evidence"), 0.0, 1.0),
    "agents": Metric("agents that finished", _agents(_count_finished), 0.0),
    "agents_succeeded": Metric(
        "agents above a Sharpe ratio of 0.3 that did not lose half", _agents(_count_successes), 0.0
    ),
    "agents_above_02": Metric("share of agents above a Sharpe ratio of 0.2", _share_above(0.2), 0.0, 1.0),
    "agents_above_03": Metric("agents above a Sharpe ratio of 0.3", _agents(_number_above(0.3)), 0.0),
    "agents_above_supervised": Metric(
        "agents a fifth above the best supervised baseline", _agents_above_supervised, 0.0
    ),
    "agents_crashed": Metric("agents that lost more than half", _agents(_count_crashed), 0.0),
    "curiosity_gradient": Metric("gradient norm of curiosity", _last("icm/gradient_norm"), 0.0),
    "option_value_loss": Metric("loss of the options' values", _last("value_loss"), 0.0),
    "potential_loss": Metric("loss of the learned potential", _last("potential/loss"), 0.0),
    "advantage_size": Metric("size of the mean advantage", _size("vtrace/advantage_mean"), 0.0),
    "advantage_deviation": Metric("standard deviation of advantages", _last("vtrace/advantage_std"), 0.0),
    "goal_success_gain": Metric(
        "goals reached, gain over the run beside", _gain(_last("her/goal_achievement_rate")), by=BESIDE
    ),
    "states_gain": Metric(
        "states visited, gain over the run beside", _gain(partial(_training_figure, STATES)), by=BESIDE
    ),
    "sharpe_gain": Metric("Sharpe ratio, gain over the run beside as a share of it", _gain(_sharpe), by=BESIDE),
    "goal_samples_saved": Metric(
        "steps saved to the goals reached by the run beside, share",
        _samples_saved("her/goal_achievement_rate"),
        highest=1.0,
        by=BESIDE,
    ),
    "memory_gain": Metric("peak memory, gain over the run beside", _gain(_last("resources.peak_memory_mb")), by=BESIDE),
    "seconds_to_beside": Metric(
        "seconds to 80 % of the score of the run beside, as a multiple of its own", _seconds_to_beside, 0.0, by=BESIDE
    ),
    "step_ms_added": Metric("milliseconds of an agent's step above the run beside", _added_ms, by=BESIDE),
    "generations_drift": Metric(
        f"mean member over the last {GENERATIONS} generations, second half less first in standard errors", _generations
    ),
    "replay_draw_ms": Metric("milliseconds of a draw of 256 rows from the replay", _measure_replay("draw_ms"), 0.0),
    "replay_full_gb": Metric("gigabytes of the full replay", _measure_replay("full_gb"), 0.0),
    "order_entropy": Metric(
        "entropy of the orders, as a share of the most", _order_entropy, 0.0, 1.0, by="train with +preset=recovery"
    ),
    "trips_each_episode": Metric("round trips an episode", _trips_each_episode, 0.0, by="train with +preset=recovery"),
    "potential_settled": Metric("steps until the potential's weight settles", _steps_to_settle, 0.0),
    "objectives_settled": Metric("updates until the weights of the objectives settle", _updates_to_settle, 0.0),
    "reward_hacks": Metric(
        "ways to be paid without earning, by the reward audit", lambda record: Measured(record.hacks), 0.0
    ),
    "largest_objective_weight": Metric("largest weight of an objective", _largest_weight, 0.0, 1.0),
    "direction_accuracy": Metric("accuracy of the head for the next direction", _direction, 0.0, 1.0),
    "curriculum_stages": Metric("stages of the curriculum completed", _last("curriculum.level"), 0.0),
    "served_p95_ms": Metric("milliseconds of a served decision, p95", _measure_served("p95_ms"), 0.0),
    "served_p95_ms_143": Metric(
        "milliseconds of a served decision of 143 symbols, p95", _measure_served("p95_ms_143"), 0.0
    ),
    "bfloat16_agreement": Metric(
        "share of orders that stay in bfloat16",
        _measure_served("bfloat16_agreement"),
        0.0,
        1.0,
    ),
    "served_difference": Metric("largest difference of the served graph", _measure_served("difference"), 0.0),
    "repeat_difference": Metric(
        "difference when trained again, share", lambda record: Measured(record.repeat), 0.0, by="pacesetter verify RUN"
    ),
}
