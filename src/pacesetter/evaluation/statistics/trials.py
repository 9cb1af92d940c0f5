"""`trials.jsonl`, beside the runs: every trial and seed ever run, so that a result is judged among them all."""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from pacesetter.arrays import Array
from pacesetter.errors import RunError
from pacesetter.evaluation.report.tables import read_table
from pacesetter.evaluation.statistics.overfitting import choice_sentence
from pacesetter.runs import EVALUATION

__all__ = ["RETURNS", "Trial", "Trials"]

FILE = "trials.jsonl"
RETURNS = "returns.parquet"  # of a judgement: (time, policy), the judged one first
TRADING = ("trading", "portfolio", "fleet", "master")
STAGE = re.compile(r"\..+|[a-z]+-[0-9a-f]{16}")  # a folder of the pipeline's cache, while its stage works and after
CACHE = "cache"  # of the pipeline, below the folder of the runs; its stages work in hidden folders there


@dataclass(frozen=True)
class Trial:
    """One run of one agent.

    data    fingerprint of the whole panel       task   the problem, e.g. trading
    run     name of the run's folder             seed   the run's
    sharpe  per bar, on the latest part it was judged on; None before and where it failed
    """

    data: str
    task: str
    run: str
    seed: int
    sharpe: float | None = None


@dataclass(frozen=True)
class Trials:
    """The ledger in the folder that run folders go to. Lines are only ever added; the last one of a run counts."""

    folder: str | Path

    @classmethod
    def for_runs(cls, runs: str | Path) -> Trials:
        """The ledger for run folders in `runs`; those inside another run, as a sweep's, are entered beside that one.

        So are those that a stage of the pipeline keeps in the cache.
        """
        inner = Path(runs).resolve()
        if inner.parent.name == CACHE and STAGE.fullmatch(inner.name):
            inner = inner.parents[1]
        # The outermost run counts: folds and seeds of one sweep are trials beside it, not a ledger of their own.
        outer = [path.parent for path in (inner, *inner.parents) if (path / "manifest.json").is_file()]
        return cls([inner, *outer][-1])

    @property
    def path(self) -> Path:
        return Path(self.folder) / FILE

    def add(self, trial: Trial) -> None:
        """Append one line; processes that add at the same time do not mix theirs."""
        line = json.dumps(dataclasses.asdict(trial)) + "\n"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        # one write in append mode lands whole at the end of the file, whatever else writes
        ledger = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(ledger, line.encode())
            # An uncounted trial makes later results look better than they are: it has to survive a crash.
            os.fsync(ledger)
        finally:
            os.close(ledger)

    def of(self, data: str, task: str) -> list[Trial]:
        """The trials on that data and task, each run once, in the order of their first lines; none without a ledger.

        All tasks that trade count together: a fleet, a portfolio and single agents are tried on the same test bars.
        """
        return [trial for trial in self._related_trials(task) if trial.data == data]

    def sharpes_beside(self, own: Trial) -> Array:
        """(trial,) Sharpe ratio per bar of the other trials on the data and task of `own`, NaN where it is not known.

        Its own is left out: the ledger has that of its training before it is judged, and its judged one afterwards.
        """
        known = [trial.sharpe for trial in self.of(own.data, own.task) if trial.run != own.run]
        return np.array([np.nan if value is None else value for value in known])

    def describe_others(self, own: Trial, returns: pd.Series) -> str:
        """What the other trials say of choosing `own`, whose judged returns (time,) are given; empty where nothing.

        Only trials beside it count that were judged on all of its bars. Trials on other data are counted by number: a
        market with one more bar is other data, too.
        """
        others = [trial.run for trial in self.of(own.data, own.task) if trial.run != own.run]
        judged = self._judged_returns(others, returns.index)
        choice = choice_sentence(np.column_stack([returns, *judged]))
        elsewhere = len(self._related_trials(own.task)) - len(others) - 1
        said = []
        if choice:
            said.append(f"Among the {len(judged) + 1} of {len(others) + 1} trials evaluated on these bars, {choice}")
        if elsewhere:
            said.append(f"Trials on other data, or on other bars of it, are not counted: {elsewhere} known.")
        return " ".join(said)

    def _judged_returns(self, runs: Iterable[str], times: pd.Index) -> list[pd.Series]:
        """The judged returns of those runs whose judgement is stored and has all these times."""
        paths = (Path(self.folder) / run / EVALUATION / RETURNS for run in runs)
        stored = (read_table(path).iloc[:, 0].reindex(times) for path in paths if path.is_file())
        # All bars, or the comparison would be over different periods.
        return [returns for returns in stored if returns.notna().all()]

    def _related_trials(self, task: str) -> list[Trial]:
        """The trials of tasks that count together with `task`, each run once, by its last line."""
        alike = TRADING if task in TRADING else (task,)
        # Later lines replace earlier ones: a run is entered when it starts and again when it is judged.
        alike_trials = {(trial.data, trial.run, trial.seed): trial for trial in self._read() if trial.task in alike}
        return list(alike_trials.values())

    def _read(self) -> list[Trial]:
        lines = self.path.read_text(encoding="utf-8").splitlines() if self.path.exists() else []
        return [self._trial(number, line) for number, line in enumerate(lines, 1)]

    def _trial(self, number: int, line: str) -> Trial:
        try:
            return Trial(**json.loads(line))
        except (ValueError, TypeError) as problem:
            raise RunError(
                f"line {number} of {self.path} is not a trial ({problem}); fix or remove it, but note that "
                "an uncounted trial makes every later result look better than it is"
            ) from problem
