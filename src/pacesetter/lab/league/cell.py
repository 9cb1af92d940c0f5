"""One cell of the league: an entrant on one market with one seed, played on bars that it never saw."""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import asdict, dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from pacesetter.build import Plan, build_fold, build_panel, build_table
from pacesetter.evaluation.backtest.backtest import Backtest, backtest
from pacesetter.evaluation.baselines.catalogue import make_baseline
from pacesetter.evaluation.baselines.closed_forms import OracleClosed
from pacesetter.evaluation.baselines.forecasting import Expected, Oracle, ReturnsOracle
from pacesetter.evaluation.baselines.planned import OraclePlanned
from pacesetter.evaluation.baselines.sized import OracleFormula, OracleSized
from pacesetter.evaluation.statistics.intervals import Difference, paired_difference
from pacesetter.evaluation.statistics.metrics import sharpe
from pacesetter.evaluation.stored_run import StoredRun
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.jobs.pipeline.memory import peak_mb, release_memory, reset_peak
from pacesetter.jobs.pipeline.stages import train_quietly
from pacesetter.lab.league.behaviour import Behaviour, behaviour
from pacesetter.lab.league.ladder import GOALS, REAL
from pacesetter.lab.league.speed import NO_SPEED, Speed, speed
from pacesetter.panel import Panel
from pacesetter.policies.market_rows import market_bank
from pacesetter.runs import Run, write_atomic

__all__ = ["Cell", "Score", "cell_key", "play_cell"]

VERSION = 2  # of what a score holds: cells of another one are played again

ORACLES: dict[str, type[Oracle]] = {
    kind.name: kind for kind in (OracleSized, OraclePlanned, OracleFormula, Oracle, ReturnsOracle)
}
QUIET = ("track.mlflow=off", "track.tensorboard=off", "track.progress=false")
HOLD, DRAWS = "hold", 2_000


@dataclass(frozen=True)
class Cell:
    """What is played: overrides of the market and of the entrant, none for a yardstick, and the folder of results."""

    folder: str
    market: str
    entrant: str
    seed: int
    market_overrides: tuple[str, ...]
    overrides: tuple[str, ...] | None

    @property
    def config(self) -> Plan:
        """The whole configuration of the cell."""
        return resolve([*self.market_overrides, *(self.overrides or ()), *QUIET, f"seed={self.seed}"])


@dataclass(frozen=True)
class Score(Behaviour):
    """What a cell came to, after costs: how it behaved on the test set, and how it learned.

    steps    of training          steps_to, seconds_to   those after which it had 80 % of its last validation score
    seconds  of training and playing; processor_seconds and peak_mb of that, the latter of the whole process
    above_hold, above_hold_low, above_hold_high   Sharpe difference to hold over the same bars, with its 95 %
               interval by paired blocks of bars; on real markets, of which no second seed can be drawn
    worth      a bar, by what a world with a closed form asks for
    """

    market: str
    entrant: str
    seed: int
    steps: int
    seconds: float
    steps_to: float
    seconds_to: float
    above_hold: float = np.nan
    above_hold_low: float = np.nan
    above_hold_high: float = np.nan
    worth: float = np.nan
    processor_seconds: float = np.nan
    peak_mb: float = np.nan


def play_cell(cell: Cell) -> Score:
    """Play the cell, or read what an earlier call with the same configuration and data left."""
    config = cell.config
    panel = _panel(cell.market_overrides, cell.seed)
    known = Path(cell.folder) / "cells" / f"{cell_key(cell, config, panel)}.json"
    if known.is_file():
        return Score(**json.loads(known.read_text(encoding="utf-8")))
    release_memory()
    reset_peak()
    start, used = time.perf_counter(), time.process_time()
    if cell.overrides is None:
        result, learned = _yardstick(cell, config, panel), NO_SPEED
    else:
        result, learned = _train_cell(cell, config)
    seconds, figures = time.perf_counter() - start, asdict(behaviour(result)) | asdict(learned)
    figures |= {"processor_seconds": time.process_time() - used, "peak_mb": peak_mb()}
    score = Score(market=cell.market, entrant=cell.entrant, seed=cell.seed, seconds=seconds, **figures)
    if cell.market in GOALS:
        score = replace(score, worth=GOALS[cell.market].worth(result.returns))
    # Of a real market there is one path: intervals come from blocks of bars instead of from seeds.
    if cell.market.startswith(REAL) and cell.entrant != HOLD:
        gap = _above_hold(cell, config, panel, result)
        score = replace(score, above_hold=gap.value, above_hold_low=gap.low, above_hold_high=gap.high)
    known.parent.mkdir(parents=True, exist_ok=True)
    # Atomically: a killed league must not leave half a score that a later one reads.
    write_atomic(known, json.dumps(asdict(score), indent=1).encode())
    return score


@lru_cache(maxsize=1)
def _panel(market_overrides: tuple[str, ...], seed: int) -> Panel:
    """The market's bars; cells of one market and seed follow each other, so one is kept."""
    return build_panel(resolve([*market_overrides, f"seed={seed}"]))


def cell_key(cell: Cell, config: Plan, panel: Panel) -> str:
    """A hash of everything the score depends on but the code: entrant, configuration and bars."""
    # Where it is stored and how it is called do not change a score.
    content = config.to_dict() | {"runs": "", "name": ""}
    text = json.dumps([VERSION, cell.entrant, content, panel.fingerprint], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def _yardstick(cell: Cell, config: Plan, panel: Panel) -> Backtest:
    task = config.trading
    if cell.entrant != Expected.name:  # the others read no lead–lag feature, and those take most of the time
        none = replace(config.features.leadlag, lookback=None)
        config = replace(config, features=replace(config.features, leadlag=none))
    bank = market_bank(panel, build_table(config, panel))
    if cell.entrant == OracleClosed.name:
        policy: Any = OracleClosed.for_goal(GOALS[cell.market], panel.truth, task.market)
    elif cell.entrant in ORACLES:
        policy = ORACLES[cell.entrant].from_truth(panel.truth, bank, task.market)
    else:
        policy = make_baseline(cell.entrant, bank, task.market)
    first = int(build_fold(config, panel).test[0])
    # A market that states a risk states it for agents and yardsticks alike.
    risk = config.risk if policy.action == "target" else None
    return backtest(policy, panel, first=first, market=task.market, bank=bank, window_bars=task.window_bars, risk=risk)


def _above_hold(cell: Cell, config: Plan, panel: Panel, result: Backtest) -> Difference:
    """The Sharpe difference to hold, both redrawn by the same blocks of bars."""
    hold = _yardstick(replace(cell, entrant=HOLD), config, panel)
    ratio = partial(sharpe, bars_per_year=result.bars_per_year)
    return paired_difference(result.returns, hold.returns, ratio, draws=DRAWS)


def _train_cell(cell: Cell, config: Plan) -> tuple[Backtest, Speed]:
    runs = Path(cell.folder) / "runs"
    # One that a signal cuts short ends the league: a score of half the steps would be kept for good.
    folder = train_quietly(replace(config, runs=str(runs)))
    return StoredRun(folder).play(), speed(folder, int(Run.open(folder).manifest["steps"]))
