"""Everything measured of a run by name: its judgement, its folds, its agents and the gates of its training."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from pacesetter.evaluation.statistics.regression import RESULT, read_result
from pacesetter.runs import EVALUATION

__all__ = ["METRICS", "Measured", "Metric", "measure_run"]

LARGE_LOSS = 0.5  # of its equity: an agent that lost more has crashed
SUPERVISED = ("ridge", "lasso", "supervised")  # what learns to forecast and does not trade to learn


class Measured(NamedTuple):
    """A value with the ends of its interval; NaN ends where none was made."""

    value: float
    low: float = math.nan
    high: float = math.nan


@dataclass(frozen=True)
class Metric:
    """What a gate may name: in words, the values it can have, and how it is read from what a run left."""

    about: str
    read: Callable[[Left], Measured]
    lowest: float = -math.inf
    highest: float = math.inf


@dataclass(frozen=True)
class Left:
    """What a run left behind.

    judged   evaluation.json        agents   fleet.csv; None for another task
    folds    the table of walk-forward folds; None where none were made
    gates    gates.json by name, of the deterministic policy    index   baseline that stands for the market
    """

    judged: Mapping[str, Any]
    agents: pd.DataFrame | None
    folds: pd.DataFrame | None
    gates: Mapping[str, Any]
    index: str = "hold"

    def figure(self, name: str, policy: str | None = None) -> float:
        """A figure of the judged policy, or of another one in its table."""
        return float(self.judged["figures"].get(policy or self.judged["policy"], {}).get(name, math.nan))

    def best(self, kinds: tuple[str, ...]) -> float:
        """The best Sharpe ratio of baselines whose names begin so."""
        found = [self.figure("sharpe", name) for name in self.judged["figures"] if name.startswith(kinds)]
        return max((value for value in found if not math.isnan(value)), default=math.nan)


def measure_run(folder: Path, names: list[str], index: str = "hold") -> dict[str, Measured | None]:
    """The named metrics of an evaluated run; None where it left nothing to read one from."""
    left = _left(folder, index)
    return {name: _read(left, name) for name in names}


def _left(folder: Path, index: str) -> Left:
    where = folder / EVALUATION
    table = where / "walk_forward.csv"
    agents, gates = folder / "fleet.csv", folder / "gates.json"
    stored = json.loads(gates.read_text(encoding="utf-8")) if gates.is_file() else {}
    return Left(
        judged=read_result(where / RESULT),
        agents=pd.read_csv(agents, keep_default_na=False, dtype={"symbol": str}) if agents.is_file() else None,
        folds=pd.read_csv(table) if table.is_file() else None,
        gates=stored.get("gates", {}).get("deterministic", {}),
        index=index,
    )


def _read(left: Left, name: str) -> Measured | None:
    if name.startswith("recovery."):
        gate = left.gates.get(name.removeprefix("recovery."))
        return None if gate is None else Measured(float(gate["value"]))
    found = METRICS[name].read(left)
    return None if math.isnan(found.value) else found


# ---- what can be read -----------------------------------------------------------------------------------------------


def _figure(name: str) -> Callable[[Left], Measured]:
    return lambda left: Measured(left.figure(name))


def _sharpe(left: Left) -> Measured:
    value, low, high = (float(each) for each in left.judged["intervals"][left.judged["policy"]][:3])
    return Measured(value, low, high)


def _above_index(left: Left) -> Measured:
    return Measured(left.figure("annual_return") - left.figure("annual_return", left.index))


def _above_supervised(left: Left) -> Measured:
    return Measured(left.figure("sharpe") - left.best(SUPERVISED))


def _supervised_ratio(left: Left) -> Measured:
    best = left.best(SUPERVISED)
    # a share of a ratio at or below zero means nothing: then any positive ratio is above it
    return Measured(left.figure("sharpe") / best - 1 if best > 0 else math.copysign(math.inf, left.figure("sharpe")))


def _stress(name: str, pick: Callable[[list[float]], float]) -> Callable[[Left], Measured]:
    def read(left: Left) -> Measured:
        found = [float(row[name]) for row in left.judged.get("stress", {}).values()]
        return Measured(pick(found) if found else math.nan)

    return read


def _walk_forward(left: Left) -> Measured:
    has = left.folds is not None and "sharpe" in left.folds
    return Measured(float(left.folds["sharpe"].mean()) if has and left.folds is not None else math.nan)


def _agents(count: Callable[[pd.DataFrame], float]) -> Callable[[Left], Measured]:
    return lambda left: Measured(math.nan if left.agents is None else float(count(left.agents)))


def _share_above(bar: float) -> Callable[[pd.DataFrame], float]:
    return lambda table: float((table["sharpe"] > bar).mean())


def _number_above(bar: float) -> Callable[[pd.DataFrame], float]:
    return lambda table: float((table["sharpe"] > bar).sum())


def _crashed(table: pd.DataFrame) -> float:
    return float((table["drawdown"] > LARGE_LOSS).sum())


def _evidence(left: Left) -> Measured:
    return Measured(float(bool(left.judged["is_evidence"])))


METRICS: dict[str, Metric] = {
    "sharpe": Metric("Sharpe ratio on the test set", _sharpe),
    "total_return": Metric("total return", _figure("total_return"), -1.0),
    "annual_return": Metric("annual return", _figure("annual_return"), -1.0),
    "max_drawdown": Metric("largest drawdown", _figure("max_drawdown"), 0.0, 1.0),
    "win_rate": Metric("win rate of trades", _figure("trade_win_rate"), 0.0, 1.0),
    "profit_factor": Metric("profit factor of trades", _figure("trade_profit_factor"), 0.0),
    "trades": Metric("trades closed", _figure("round_trips"), 0.0),
    "excess_annual_return": Metric("annual return above the index", _above_index),
    "sharpe_above_supervised": Metric("Sharpe ratio above the best forecast", _above_supervised),
    "gain_over_supervised": Metric("Sharpe ratio above the best forecast, as a share of it", _supervised_ratio),
    "stress_drawdown": Metric("largest drawdown under stress", _stress("max_drawdown", max), 0.0, 1.0),
    "stress_return": Metric("total return in the worst stress", _stress("total_return", min), -1.0),
    "walk_forward_sharpe": Metric("Sharpe ratio of walk-forward folds, mean", _walk_forward),
    "evidence": Metric("the verdict is evidence", _evidence, 0.0, 1.0),
    "agents": Metric("agents that finished", _agents(len), 0.0),
    "agents_above_02": Metric("share of agents above a Sharpe ratio of 0.2", _agents(_share_above(0.2)), 0.0, 1.0),
    "agents_above_03": Metric("agents above a Sharpe ratio of 0.3", _agents(_number_above(0.3)), 0.0),
    "agents_crashed": Metric("agents that lost more than half", _agents(_crashed), 0.0),
}
