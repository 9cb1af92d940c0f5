"""Runs that were judged, side by side: one table, one picture, one page of Markdown."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from pacesetter.arrays import Array
from pacesetter.build import stored_plan
from pacesetter.errors import ConfigError, DataError, RunError
from pacesetter.evaluation.report.page import Section, number
from pacesetter.evaluation.report.pictures import style_figure, thin_bars
from pacesetter.evaluation.report.tables import read_table
from pacesetter.evaluation.statistics.intervals import Interval, interval, paired_difference
from pacesetter.evaluation.statistics.metrics import annual_return, max_drawdown, sharpe
from pacesetter.evaluation.statistics.overfitting import choice_sentence
from pacesetter.evaluation.statistics.regression import RESULT, read_result
from pacesetter.evaluation.statistics.superiority import find_superior
from pacesetter.evaluation.statistics.trials import RETURNS
from pacesetter.runs import EVALUATION, Run, read_tags

__all__ = ["BRIEF", "Judged", "RunFilter", "compare_section", "find_judged", "find_matching"]

HEADER = ("run", "policy", "Sharpe ratio", "annual return", "drawdown", "gates passed", "verdict")
OWN_BARS = " Gates and verdict are those of each run's own bars."
BRIEF = ("annual return", "gates passed")  # columns left out on a console of 80 letters


@dataclass(frozen=True, eq=False)
class Judged:
    """What a judged run stored: `result` as in evaluation.json, `returns` (time, policy), and where it lies."""

    name: str
    result: dict[str, Any]
    returns: pd.DataFrame
    folder: Path | None = None

    @property
    def policy(self) -> str:
        return str(self.result["policy"])

    @property
    def bars_per_year(self) -> float:
        """By which its evaluation annualised, from the header of its ledger; refuses a judgement without one."""
        path = Path(self.folder or "") / "ledger.parquet"
        try:
            return float(pd.read_parquet(path, columns=[]).attrs["bars_per_year"])
        except (OSError, LookupError, ValueError) as problem:
            raise RunError(
                f"{path} does not say how many bars a year has ({type(problem).__name__}); evaluate the run again"
            ) from problem

    def row(self, common: pd.Index) -> tuple[str, ...]:
        """The figures over the `common` bars, and what its own evaluation found, as texts."""
        gates = self.result["gates"]
        ratio, growth, drawdown = self._figures(common)
        return (
            self.name,
            self.policy,
            str(ratio),
            number(growth, "+.1%"),
            number(drawdown, ".1%"),
            f"{sum(gate['passed'] for gate in gates)} of {len(gates)}",
            str(self.result["headline"]),
        )

    def _figures(self, common: pd.Index) -> tuple[Interval, float, float]:
        """Sharpe ratio with its interval, annual return, largest drawdown; the stored ones where it has these bars."""
        # The stored figures where nothing was cut: the table then agrees with the run's own report digit by digit.
        if len(common) == len(self.returns):
            figures = self.result["figures"][self.policy]
            ratio = Interval(*self.result["intervals"][self.policy])
            return ratio, figures["annual_return"], figures["max_drawdown"]
        returns, year = self.returns.loc[common, self.policy].to_numpy(), self.bars_per_year
        ratio = interval(returns, partial(sharpe, bars_per_year=year))
        return ratio, float(annual_return(returns, year)), float(max_drawdown(returns))


def find_judged(folder: str | Path) -> Judged:
    """The judgement that a run stored; refuses one that has none."""
    run = Path(folder)
    places = [place for place in (run / EVALUATION, run / "judge") if (place / RESULT).is_file()]
    if not places:
        raise RunError(f"{run} was not evaluated yet; run pacesetter evaluate {run}")
    return Judged(run.name, read_result(places[0] / RESULT), read_table(places[0] / RETURNS), places[0])


@dataclass(frozen=True)
class RunFilter:
    """Which runs are compared; an empty word lets all pass.

    task    problem of the run                  name           part of its name
    tag     one of its tags                     since, until   days of its start, e.g. 2026-11-16
    """

    task: str = ""
    name: str = ""
    tag: str = ""
    since: str = ""
    until: str = ""

    def passes(self, task: str, name: str, tags: Collection[str], day: str) -> bool:
        """Whether a run of that task, name, tags and day of its start is one of them."""
        # ISO dates compare as texts.
        is_then = (not self.since or day >= self.since) and (not self.until or day <= self.until)
        is_named = self.name in name and (not self.tag or self.tag in tags)
        return (not self.task or task == self.task) and is_named and is_then

    def check(self, kept: Sequence[object], count: int) -> None:
        """Refuse filters that leave no run of `count`."""
        if not kept:
            raise ConfigError(f"none of {count} runs is of that task, name, tag and time; leave a filter out")


def find_matching(folders: Sequence[Path], wanted: RunFilter | None = None) -> list[Judged]:
    """The judgements of given runs, and of the evaluated runs inside folders that are none themselves.

    Refuses folders in which no run was evaluated, and filters that leave no run.
    """
    runs = [run for folder in folders for run in _runs_of(folder)]
    if not runs:
        where = ", ".join(str(folder) for folder in folders)
        raise ConfigError(f"no run in {where} was evaluated; run pacesetter evaluate RUN first")
    kept = [run for run in runs if wanted is None or wanted == RunFilter() or _matches(run, wanted)]
    (wanted or RunFilter()).check(kept, len(runs))
    return [find_judged(run) for run in kept]


def _runs_of(folder: Path) -> list[Path]:
    if (folder / "manifest.json").is_file() or not folder.is_dir():
        return [folder]
    inside = sorted(path.parent for path in folder.glob("*/manifest.json"))
    return [run for run in inside if any((run / place / RESULT).is_file() for place in (EVALUATION, "judge"))]


def _matches(run: Path, wanted: RunFilter) -> bool:
    config, started = stored_plan(run), Run.open(run).manifest.get("started", "")
    return wanted.passes(config.task.problem, config.name, read_tags(run), str(started)[:10])


def compare_section(runs: Sequence[Judged]) -> Section:
    """Table and equity curves of two runs or more over the bars that all of them were judged on."""
    if len(runs) < 2:
        raise ConfigError("a comparison needs at least two runs; give their folders")
    kinds = {run.result.get("task", "account") for run in runs}
    if len(kinds) > 1:
        raise ConfigError("runs that trade and runs that choose windows have no figure in common; compare them apart")
    common = runs[0].returns.index
    for run in runs[1:]:
        common = common.intersection(run.returns.index)
    if len(common) < 2:
        raise DataError("these runs were evaluated on different bars and cannot be compared; evaluate them on the same")
    if kinds == {"lookback"}:
        return _windows_section(runs, common)
    rows = sorted((run.row(common) for run in runs), key=lambda row: row[0])
    is_cut = any(len(run.returns) > len(common) for run in runs)
    text = (
        f"{len(runs)} runs over {len(common)} bars, {common[0]:%Y-%m-%d} to {common[-1]:%Y-%m-%d}, that all share."
        f"{OWN_BARS if is_cut else ''}{_choice(runs, common)}{_superiority_sentence(runs, common)}"
    )
    return Section("Comparison", text, (_picture(runs, common),), HEADER, tuple(rows))


def _choice(runs: Sequence[Judged], common: Any) -> str:
    """What it is worth to choose the best of the runs, where there are bars enough to say."""
    said = choice_sentence(np.column_stack([run.returns.loc[common, run.policy] for run in runs]))
    return said and f" Among them, {said}"


def _superiority_sentence(runs: Sequence[Judged], common: Any) -> str:
    """Which runs are better than hold, or cash where hold was not played, with all of them looked at."""
    against = "hold" if "hold" in runs[0].returns.columns else "cash"
    returns = np.column_stack([run.returns.loc[common, run.policy] for run in runs])
    benchmark = runs[0].returns.loc[common, against].to_numpy() if against == "hold" else np.zeros(len(common))
    test = find_superior(returns, benchmark, [run.name for run in runs], against)
    return f" {test.sentence}" if test else ""


def _picture(runs: Sequence[Judged], common: Any) -> go.Figure:
    figure, rows = go.Figure(), thin_bars(len(common))
    for run in runs:
        equity = 100 * (1 + run.returns.loc[common, run.policy]).cumprod().to_numpy()
        name = f"{run.name[:15]} {run.policy}"
        figure.add_scatter(x=common[rows], y=equity[rows], name=name, mode="lines", line={"width": 1.6})
    return style_figure(figure, "Equity, start = 100", 420).update_yaxes(type="log")


# ---- runs that choose windows ---------------------------------------------------------------------------------------

WINDOW_HEADER = ("run", "reward", "minus the first", "share of the optimum", "switches", "gates passed", "verdict")


def _windows_section(runs: Sequence[Judged], common: pd.Index) -> Section:
    """Mean rewards over the common bars with their intervals, and each run less the first over the same blocks."""
    rewards = [run.returns.loc[common, run.policy].to_numpy() for run in runs]
    rows = tuple(_window_row(run, own, rewards[0]) for run, own in zip(runs, rewards, strict=True))
    text = (
        f"{len(runs)} lookback agents over {len(common)} bars, {common[0]:%Y-%m-%d} to {common[-1]:%Y-%m-%d}, that all "
        "share: mean reward a bar with its interval, and the paired difference to the first."
    )
    figure, shown = go.Figure(), thin_bars(len(common))
    for run, own in zip(runs, rewards, strict=True):
        figure.add_scatter(x=common[shown], y=np.cumsum(own)[shown], name=run.name[:24], mode="lines")
    return Section("Comparison", text, (style_figure(figure, "Cumulated reward", 420),), WINDOW_HEADER, rows)


def _window_row(run: Judged, own: Array, first: Array) -> tuple[str, ...]:
    mean, gates = interval(own, _average), run.result["gates"]
    gap = paired_difference(own, first, _average)
    figures = run.result["figures"][run.policy]
    return (
        run.name,
        f"{mean.value:+.4f} ({mean.low:+.4f} to {mean.high:+.4f})",
        f"{gap.value:+.4f} ({gap.low:+.4f} to {gap.high:+.4f})",
        number(float(figures["share of the optimum"] or float("nan")), ".0%"),
        number(float(figures["switches"]), ".1%"),
        f"{sum(gate['passed'] for gate in gates)} of {len(gates)}",
        str(run.result["headline"]),
    )


def _average(values: Array) -> Array:
    return np.asarray(values.mean(axis=0))
