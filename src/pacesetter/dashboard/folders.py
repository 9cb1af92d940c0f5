"""Run folders as a table: what each run was, how it stands and how it was judged; and curves of several together."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from pacesetter.dashboard.live import CURVES, read_metrics
from pacesetter.dashboard.texts import in_own_language, say
from pacesetter.errors import PacesetterError, RunError
from pacesetter.evaluation.report.compare import Judged
from pacesetter.evaluation.report.pictures import style_figure, thin_bars
from pacesetter.evaluation.statistics.intervals import Interval
from pacesetter.evaluation.statistics.regression import read_result
from pacesetter.runs import EVALUATION, TAGS, Run, data_name, read_tags, read_yaml

__all__ = ["Filters", "RunFacts", "by_job", "curves", "equity_figure", "find_runs", "read_run", "run_table", "stamp"]

PASSED_BY = {"bundles", "cache", "checkpoints", "tensorboard", "mlflow", "supervised", "diagnostics"}
DEEPEST = 5  # folders below the runs: a stage's own run, and those of a sweep
JUDGED = (EVALUATION, "judge")


@dataclass(frozen=True)
class RunFacts:
    """One run folder; what cannot be read leaves a sentence in `problem` and the rest as far as it is known.

    result   evaluation.json of a judged run, else None
    title    what its configuration calls it        tags   words that `pacesetter tag` gave it
    """

    folder: Path
    name: str
    started: pd.Timestamp | None = None
    task: str = ""
    data: str = ""
    preset: str = ""
    status: str = "damaged"
    result: dict[str, Any] | None = None
    problem: str = ""
    title: str = ""
    tags: tuple[str, ...] = ()

    @property
    def job(self) -> str:
        """The run that it is inside of, by its folder; its own where it stands alone."""
        return Path(self.name).parts[0]

    @property
    def is_inside(self) -> bool:
        return self.job != self.name

    @property
    def label(self) -> str:
        """Its name as a person would say it: what it is called and when it began, and its stage inside a job."""
        if self.started is None or not self.title:
            return self.name
        stage = f"{' / '.join(Path(self.name).parts[1:-1])}: " if self.is_inside else ""
        return f"{stage}{self.title} · {self.started:%d %b %H:%M:%S}"

    @property
    def regimes(self) -> dict[str, dict[str, float]]:
        """Regime -> figures of a judged run."""
        return dict((self.result or {}).get("regimes", {}))

    @property
    def chooses_windows(self) -> bool:
        """Whether its judgement is one of windows: rewards instead of returns."""
        return (self.result or {}).get("task") == "lookback"

    def row(self, regime: str | None = None) -> dict[str, Any]:
        """The run's line of the table; Sharpe ratio and return are those in `regime` where one is named."""
        own: dict[str, Any] = {"name": self.name, "started": self.started, "task": self.task}
        own |= {"data": self.data, "preset": self.preset, "status": say(f"status.{self.status}")}
        own |= {"label": f"{'└ ' if self.is_inside else ''}{self.label}", "tags": ", ".join(self.tags)}
        return own | (self._judgement(regime) if self.result else {}) | {"problem": self.problem}

    def _judgement(self, regime: str | None) -> dict[str, object]:
        result: dict[str, Any] = self.result or {}
        policy = result["policy"]
        figures, gates = result["figures"][policy], result["gates"]
        common = {
            "policy": policy,
            "gates": f"{sum(gate['passed'] for gate in gates)} / {len(gates)}" if gates else "–",
            "verdict": in_own_language(result["headline"]),
        }
        if self.chooses_windows:  # it has a reward and no Sharpe ratio
            reward = Interval(*result["intervals"][policy])
            own = say("runs.reward", value=reward.value, low=reward.low, high=reward.high)
            return common | {"interval": own if regime is None else "–"}
        sharpe = Interval(*result["intervals"][policy])
        shown = {"sharpe": sharpe.value, "interval": f"{sharpe.low:+.2f} … {sharpe.high:+.2f}"}
        shown["yearly_return"] = figures["annual_return"]
        if regime is not None:
            shown = {"sharpe": self.regimes[regime]["sharpe"], "interval": "–"}
            shown["yearly_return"] = self.regimes[regime]["total_return"]
        return shown | common | {"drawdown": figures["max_drawdown"]}


def find_runs(root: Path) -> list[Path]:
    """Every run folder below `root`, the newest first; runs inside runs, as of a stage or a sweep, are found too."""
    return sorted(_runs_below(root, DEEPEST), key=lambda folder: folder.name, reverse=True)


def _runs_below(folder: Path, depth: int) -> Iterator[Path]:
    if not folder.is_dir() or not depth:
        return
    for path in folder.iterdir():
        if path.is_dir() and path.name not in PASSED_BY and not path.name.startswith("."):
            if (path / "manifest.json").is_file():
                yield path
            yield from _runs_below(path, depth - 1)


def stamp(folder: Path) -> tuple[float, ...]:
    """Times of change of what `read_run` reads: equal stamps give equal facts."""
    files = [
        *(folder / name for name in ("manifest.json", "config.yaml", TAGS)),
        *(folder / name / "evaluation.json" for name in JUDGED),
    ]
    # A file that appears or goes changes the stamp too.
    return tuple(path.stat().st_mtime if path.is_file() else 0.0 for path in files)


def read_run(folder: Path, root: Path) -> RunFacts:
    """What a run folder says; it never raises, because one damaged run must not hide the others."""
    name = str(folder.relative_to(root))
    try:
        return _facts(folder, name)
    except PacesetterError as problem:
        return RunFacts(folder, name, problem=str(problem))
    except Exception as problem:  # a file that is not a run's ends in any of a dozen exceptions
        return RunFacts(folder, name, problem=say("runs.damaged", kind=type(problem).__name__))


def _facts(folder: Path, name: str) -> RunFacts:
    manifest = Run.open(folder).manifest
    config = read_yaml((folder / "config.yaml").read_text(encoding="utf-8"))
    presets = [word.split("preset=")[1] for word in manifest.get("command", ()) if "preset=" in word]
    is_job = (folder / "load").is_dir()
    failed = manifest.get("failed")
    return RunFacts(
        folder,
        name,
        started=pd.Timestamp(manifest["started"]),
        task="job" if is_job else str(config.get("task", {}).get("problem", manifest["name"])),
        data=data_name(config.get("data", {})),
        preset=presets[-1] if presets else "",
        status=_status(manifest),
        result=_result(folder),
        problem=f"{failed['stage']}: {failed['why']}" if failed else "",
        title=str(manifest.get("label") or manifest["name"]),
        tags=tuple(read_tags(folder)),
    )


def _status(manifest: dict[str, object]) -> str:
    if manifest.get("finished"):
        return "finished"
    return "failed" if manifest.get("failed") else "stopped" if manifest.get("stopped") else "running"


def _result(folder: Path) -> dict[str, object] | None:
    places = [folder / name / "evaluation.json" for name in JUDGED]
    return next((read_result(path) for path in places if path.is_file()), None)


# ---- the table ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Filters:
    """Which runs to show; an empty choice shows all. A regime keeps the runs that were judged in it."""

    tasks: Sequence[str] = ()
    data: Sequence[str] = ()
    presets: Sequence[str] = ()
    tags: Sequence[str] = ()
    regime: str | None = None
    since: date | None = None
    until: date | None = None

    def keep(self, run: RunFacts) -> bool:
        """Whether a run is shown; one without a date is, unless a first or last day is asked for."""
        chosen = ((self.tasks, run.task), (self.data, run.data), (self.presets, run.preset))
        if any(wanted and value not in wanted for wanted, value in chosen):
            return False
        if self.tags and not set(self.tags) & set(run.tags):
            return False
        if self.regime is not None and run.regimes.get(self.regime, {}).get("bars", 0) < 2:
            return False
        if run.started is None:
            return self.since is None and self.until is None
        day = run.started.date()
        return (self.since is None or day >= self.since) and (self.until is None or day <= self.until)


def run_table(runs: Iterable[RunFacts], filters: Filters | None = None) -> pd.DataFrame:
    """A row for each run that the filters keep, with `problem` where any has one; figures of judged runs only."""
    filters = filters or Filters()
    kept = [run for run in runs if filters.keep(run)]
    about, origin = ["label", "started", "task", "status", "tags"], ["policy", "data", "preset", "name"]
    figures = ["verdict", "sharpe", "interval", "yearly_return", "drawdown", "gates"]
    problems = ["problem"] if any(run.problem for run in kept) else []
    return pd.DataFrame([run.row(filters.regime) for run in kept], columns=[*about, *figures, *origin, *problems])


def by_job(runs: Sequence[RunFacts]) -> list[RunFacts]:
    """The runs with those inside a job below it; the job that began last first."""
    begun = {run.name: run.started for run in runs if run.started is not None and not run.is_inside}
    # A damaged job has no start: it goes to the end, its runs with it.
    oldest = pd.Timestamp(0, tz="UTC")
    order = sorted({run.job for run in runs}, key=lambda job: (begun.get(job, oldest), job), reverse=True)
    place = {job: number for number, job in enumerate(order)}
    return sorted(runs, key=lambda run: (place[run.job], run.is_inside, run.name))


# ---- curves ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Curves:
    """What several runs have to show together: judged returns, and live metrics by step."""

    judged: list[Judged] = field(default_factory=list)
    metrics: dict[str, pd.DataFrame] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)

    def metric_names(self) -> list[str]:
        """Names of the live metrics of which a run has a value."""
        return [
            name
            for name in CURVES
            if any(name in table and table[name].notna().any() for table in self.metrics.values())
        ]


def curves(runs: Iterable[RunFacts]) -> Curves:
    """Curves of each run as far as it has any; what cannot be read is told by run."""
    result = Curves()
    for run in runs:
        try:
            if run.result is not None and not run.chooses_windows:
                result.judged.append(Judged(run.label, run.result, _returns(run.folder)))
            metrics = read_metrics(run.folder)
            if len(metrics):
                result.metrics[run.label] = metrics
        except (PacesetterError, OSError, ValueError, json.JSONDecodeError) as problem:
            result.problems[run.name] = str(problem)
    return result


def _returns(folder: Path) -> pd.DataFrame:
    path = next(folder / name / "returns.parquet" for name in JUDGED if (folder / name / "evaluation.json").is_file())
    try:
        return pd.read_parquet(path)
    except Exception as problem:  # damaged bytes end in any of a dozen exceptions
        raise RunError(say("runs.no_returns", path=path, kind=type(problem).__name__)) from problem


def equity_figure(judged: Sequence[Judged], with_baselines: bool, is_aligned: bool = False) -> go.Figure:
    """Equity of each judged policy from 100 on its own bars; of the first one its baselines too, if asked for.

    Curves of different periods lie over each other where they are aligned: by bars since the start, not by dates.
    """
    figure = go.Figure()
    for run in judged:
        _draw_line(figure, run.returns[run.policy], f"{run.policy} · {run.name}", {"width": 2.2}, is_aligned)
    for name in judged[0].returns.columns if with_baselines else ():
        if name != judged[0].policy:
            _draw_line(figure, judged[0].returns[name], str(name), {"width": 1.0}, is_aligned)
    figure = style_figure(figure, say("runs.equity"), 460).update_yaxes(type="log")
    return figure.update_xaxes(title=say("runs.bar")) if is_aligned else figure


def _draw_line(figure: go.Figure, returns: pd.Series, name: str, line: dict[str, object], is_aligned: bool) -> None:
    rows, equity = thin_bars(len(returns)), 100 * np.cumprod(1 + returns.to_numpy())
    figure.add_scatter(
        x=rows if is_aligned else returns.index[rows], y=equity[rows], name=name, mode="lines", line=line
    )
