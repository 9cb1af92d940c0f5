"""`pacesetter leadlag data=ticks data.path=FOLDER`: who leads whom in trades or quotes, and by how many seconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import pandas as pd
import plotly.graph_objects as go
from rich.console import Console

from pacesetter.data.ticks import read_ticks
from pacesetter.errors import ConfigError
from pacesetter.evaluation.report.page import Section, write_report
from pacesetter.evaluation.report.pictures import style_figure
from pacesetter.jobs.hydra.overrides import take_options
from pacesetter.leadlag.pictures import FAINT
from pacesetter.leadlag.ticks import TickFinding, TickStudy
from pacesetter.runs import Run
from pacesetter.words import for_spreadsheets

__all__ = ["TickData", "run_ticks"]

HEADER = ("leader", "follower", "verdict", "delay (s)", "interval (s)", "correlation", "p", "ratio")
MOST_LINES = 10  # pairs in the picture


@dataclass(frozen=True)
class TickData:
    """Where ticks are: a folder or file, and how late the stamps of a series are in seconds, by name."""

    path: str
    name: str = "ticks"
    latency: dict[str, float] | None = None


@dataclass(frozen=True)
class TickRun:
    """Where the results go."""

    name: str = "runs"


def run_ticks(overrides: Sequence[str], console: Console | None = None) -> tuple[TickFinding, Run]:
    """The study with its table on the console, and report.html, pairs.csv and lags.csv in a run folder."""
    console = console or Console()
    data, rest = take_options(overrides, "data", TickData)
    root, rest = take_options(rest, "runs", TickRun)
    study, rest = take_options(rest, "lag", TickStudy)
    if rest:
        raise ConfigError(f"'{rest[0]}' is unknown with data=ticks; it takes data.*, lag.* and runs=FOLDER")
    finding = study.run(read_ticks(data.path, data.latency))
    run = Run.create(root.name, "ticks", {"data": asdict(data), "lag": asdict(study)})
    for_spreadsheets(finding.table()).to_csv(run.folder / "pairs.csv", index=False)
    for_spreadsheets(finding.at_lags()).to_csv(run.folder / "lags.csv", index=False)
    section = _section(finding)
    write_report(run.folder / "report.html", "ticks", [section], finding.notes)
    console.print(section.table.cut())
    for text in (section.text, *(f"Note: {note}" for note in finding.notes), f"Report: {run.folder / 'report.html'}"):
        console.print(text, soft_wrap=True, markup=False, highlight=False)
    run.finish(pairs=len(finding.pairs))
    return finding, run


def _section(finding: TickFinding) -> Section:
    table = finding.table()
    rows = tuple(
        (
            *(row["leader"], row["follower"], row["verdict"], f"{row['delay']:g}", f"{row['low']:g} … {row['high']:g}"),
            *(f"{row['correlation']:+.3f}", f"{row['p_value']:.3f}", f"{row['ratio']:.2f}"),
        )
        for row in table.to_dict("records")
    )
    leads = int((table["verdict"] == "leads").sum())
    study = finding.study
    text = (
        f"{leads} of {len(rows)} pairs have a leader by {study.method}, lags up to {finding.lags[-1]:g} s in steps of "
        f"{finding.lags[1] - finding.lags[0]:g} s. p is that of the largest correlation over all lags and pairs (block "
        f"shifts, {study.draws} draws). A lead also needs a {1 - study.level:.0%} interval of its delay above zero."
    )
    faint = tuple(place for place, verdict in enumerate(table["verdict"]) if verdict != "leads")
    return Section("Ticks", text, (_picture(finding, table),), HEADER, rows, faint=faint)


def _picture(finding: TickFinding, table: pd.DataFrame) -> go.Figure:
    """Correlation by lag of the pairs with the smallest p-values, the leader's lags to the right."""
    places = {frozenset(pair): place for place, pair in enumerate(finding.pairs)}
    figure = go.Figure()
    for row in table.head(MOST_LINES).to_dict("records"):
        place = places[frozenset((row["leader"], row["follower"]))]
        is_turned = finding.pairs[place][0] != row["leader"]
        rho = finding.rho[place][::-1] if is_turned else finding.rho[place]
        look = {"name": f"{row['leader']} → {row['follower']}", "opacity": FAINT if row["verdict"] == "–" else 1.0}
        figure.add_scatter(x=finding.lags, y=rho, mode="lines", **look)
    figure.update_xaxes(title="seconds by which the leader is ahead")
    return style_figure(figure, "Correlation at each lag")
