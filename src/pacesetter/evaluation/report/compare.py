"""Runs that were judged, side by side: one table, one picture, one page of Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from pacesetter.errors import ConfigError, DataError, RunError
from pacesetter.evaluation.report.page import Section, number
from pacesetter.evaluation.report.pictures import styled, thinned
from pacesetter.evaluation.report.tables import read_table
from pacesetter.evaluation.statistics.intervals import Interval
from pacesetter.evaluation.statistics.overfitting import choice_sentence
from pacesetter.evaluation.statistics.regression import RESULT, read_result
from pacesetter.evaluation.statistics.trials import FOLDER, RETURNS

__all__ = ["BRIEF", "FOLDER", "Judged", "compare_section", "find_judged"]

HEADER = ("run", "policy", "Sharpe ratio", "annual return", "drawdown", "gates passed", "verdict")
BRIEF = ("annual return", "gates passed")  # columns left out on a console of 80 letters


@dataclass(frozen=True, eq=False)
class Judged:
    """What a judged run stored: `result` as in evaluation.json, and `returns` (time, policy)."""

    name: str
    result: dict[str, Any]
    returns: pd.DataFrame

    @property
    def policy(self) -> str:
        return str(self.result["policy"])

    def row(self) -> tuple[str, ...]:
        """The figures of the comparison as texts."""
        figures, gates = self.result["figures"][self.policy], self.result["gates"]
        return (
            self.name,
            self.policy,
            str(Interval(*self.result["intervals"][self.policy])),
            number(figures["annual_return"], "+.1%"),
            number(figures["max_drawdown"], ".1%"),
            f"{sum(gate['passed'] for gate in gates)} of {len(gates)}",
            "evidence" if self.result["is_evidence"] else "no evidence",
        )


def find_judged(folder: str | Path) -> Judged:
    """The judgement that a run stored; refuses one that has none."""
    run = Path(folder)
    places = [place for place in (run / FOLDER, run / "judge") if (place / RESULT).is_file()]
    if not places:
        raise RunError(f"{run} was not evaluated yet; run pacesetter evaluate {run}")
    return Judged(run.name, read_result(places[0] / RESULT), read_table(places[0] / RETURNS))


def compare_section(runs: Sequence[Judged]) -> Section:
    """Table and equity curves of two runs or more over the bars that all of them were judged on."""
    if len(runs) < 2:
        raise ConfigError("a comparison needs at least two runs; give their folders")
    common = runs[0].returns.index
    for run in runs[1:]:
        common = common.intersection(run.returns.index)
    if len(common) < 2:
        raise DataError("these runs were evaluated on different bars and cannot be compared; evaluate them on the same")
    rows = sorted((run.row() for run in runs), key=lambda row: row[0])
    text = (
        f"{len(runs)} runs over {len(common)} bars, {common[0]:%Y-%m-%d} to {common[-1]:%Y-%m-%d}, that all share."
        f"{_choice(runs, common)}"
    )
    return Section("Comparison", text, (_picture(runs, common),), HEADER, tuple(rows))


def _choice(runs: Sequence[Judged], common: Any) -> str:
    """What it is worth to choose the best of the runs, where there are bars enough to say."""
    said = choice_sentence(np.column_stack([run.returns.loc[common, run.policy] for run in runs]))
    return said and f" Among them, {said}"


def _picture(runs: Sequence[Judged], common: Any) -> go.Figure:
    figure, rows = go.Figure(), thinned(len(common))
    for run in runs:
        equity = 100 * (1 + run.returns.loc[common, run.policy]).cumprod().to_numpy()
        name = f"{run.name[:15]} {run.policy}"
        figure.add_scatter(x=common[rows], y=equity[rows], name=name, mode="lines", line={"width": 1.6})
    return styled(figure, "Equity, start = 100", 420).update_yaxes(type="log")
