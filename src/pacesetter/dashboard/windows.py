"""Who leads whom over any window: matrix, links and ranking at once, leadership over time, and the agent's windows."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.colors import diverging, unlabel_rgb

from pacesetter.arrays import Array
from pacesetter.build import build_fold, build_panel, load_lookback, stored_plan
from pacesetter.dashboard.folders import find_runs
from pacesetter.dashboard.texts import say
from pacesetter.errors import RunError
from pacesetter.evaluation.report import pictures as house
from pacesetter.evaluation.report.pictures import PALETTE, style_figure
from pacesetter.leadlag import pictures
from pacesetter.leadlag.answer.intervals import leader_table
from pacesetter.leadlag.lookback.baselines import GRID
from pacesetter.leadlag.structure.anomaly import AlertLevels, anomaly_score
from pacesetter.leadlag.structure.concentration import gini, herfindahl, leadership_table
from pacesetter.leadlag.study import Study, WindowFinding
from pacesetter.leadlag.windows import span_text, usual_window
from pacesetter.panel import Panel

__all__ = [
    "Leadership",
    "Lens",
    "WindowView",
    "chosen_windows",
    "lookback_run",
    "lookback_table",
    "open_lens",
    "open_panel",
    "windows_figures",
]

# Flips of the null: few, so that a slider is followed at once; the level of the test is kept with any number.
DRAWS, SLOW_DRAWS = 100, 40  # the latter for methods that are computed again for each
MOST_WINDOWS = 400  # of the time line
MOST_NAMED = 8  # leaders in the sentence
HEIGHT = 430
SCALE = [unlabel_rgb(colour) for colour in getattr(diverging, pictures.SCALE)]
SHORTEST, LONGEST = 8, 2000  # lookback in bars
YEAR_OF_DAYS = 366  # bars; more than that are intraday
GRADES = {1: ("leadlag.warning", PALETTE[1]), 2: ("leadlag.alarm", PALETTE[5])}


@lru_cache(maxsize=4)
def open_panel(folder: Path) -> Panel:
    """The bars of a run: those it stored, or those its configuration names."""
    stored = folder / "load" / "panel.parquet"
    return Panel.load(stored) if stored.is_file() else build_panel(stored_plan(folder))


@dataclass(frozen=True, eq=False)
class WindowView:
    """One window: its length and last day, what it shows in a sentence, and its three pictures as data.

    sure   of each symbol in the ranking: whether the report calls it a leader or a follower
    """

    lookback: int
    day: str
    sentence: str
    matrix: pictures.Heat
    links: pictures.Web
    ranking: pd.Series
    sure: tuple[bool, ...]
    finding: WindowFinding

    def to_drawing(self) -> dict[str, object]:
        """What the browser draws, in plain JSON; an unknown value is None."""
        heat, web = self.matrix, self.links
        values = [[float(f"{value:.4g}") if np.isfinite(value) else None for value in row] for row in heat.values]
        strong = None if heat.significant is None else heat.significant.astype(int).tolist()
        axes = {"row_title": heat.row_title, "column_title": heat.column_title, "absent": pictures.ABSENT}
        matrix = {"title": heat.title, "names": heat.rows, "values": values, "strong": strong, "faint": pictures.FAINT}
        return {
            "told": {"end": self.day, "lookback": f"{self.lookback:,}"},
            "sentence": self.sentence,
            "scale": SCALE,
            "matrix": {**matrix, "limit": heat.limit, **axes},
            "links": {
                "title": web.title,
                "names": web.nodes,
                "scores": web.scores.tolist(),
                "places": web.places.tolist(),
                "arrows": [self._arrow(leader, follower, weight) for leader, follower, weight in web.arrows],
                "none": say("leadlag.no_link"),
            },
            "ranking": {
                "title": say("leadlag.ranking"),
                "names": list(self.ranking.index),
                "scores": self.ranking.tolist(),
                "colours": (PALETTE[1], PALETTE[3]),
                "opacities": [1.0 if sure else pictures.FAINT for sure in self.sure],
            },
        }

    def _arrow(self, leader: int, follower: int, weight: float) -> tuple[int, int, float, bool, str]:
        """Ends, width, whether the follower goes the other way, and what the link says."""
        names = self.links.nodes[leader], self.links.nodes[follower]
        link = self.finding.network.edges[names]
        delay = f", {link['delay']:.0f} bars later" if np.isfinite(link["delay"]) else ""
        flags = f" ({link['flags']})" if link["flags"] else ""
        text = f"{names[0]} → {names[1]}: {link['relation']}{delay}, p = {link['p_value']:.2g}{flags}"
        return leader, follower, self.links.width(weight), link["sign"] < 0, text


@dataclass(frozen=True, eq=False)
class Leadership:
    """All windows of one length: who led when, how unusual each window was, and who led how often."""

    text: str
    timeline: go.Figure
    anomalies: go.Figure
    table: pd.DataFrame


class Lens:
    """A panel under one method: the answer of any window of it, as the report's study gives it."""

    def __init__(self, panel: Panel, method: str) -> None:
        self.panel, self.method = panel, method
        study = Study(method=method)
        self.gauge = study.make_gauge()
        is_quick = self.gauge.is_linear or self.gauge.is_conditional
        self.study = replace(study, draws=DRAWS if is_quick else SLOW_DRAWS)
        self.series = study.read(panel, self.gauge)

    @property
    def longest(self) -> int:
        """The longest lookback that a reader may ask for."""
        return min(LONGEST, len(self.panel) - 1)

    @property
    def usual(self) -> int:
        """The lookback that a reader sees first."""
        return min(max(usual_window(self.panel.index), self._shortest), self.longest)

    @property
    def _shortest(self) -> int:
        return self.gauge.max_lag + 2

    def view(self, end: int, lookback: int) -> WindowView:
        """The window of `lookback` bars that ends at bar `end`, both brought to what the panel has."""
        last = len(self.panel) - 1
        # Brought into range, not refused: sliders and addresses may be of another run.
        end = min(max(end, self._shortest), last)
        lookback = min(max(lookback, self._shortest), end)
        symbols = self.panel.symbols
        form = "%Y-%m-%d" if self.panel.bars_per_year <= YEAR_OF_DAYS else "%Y-%m-%d %H:%M"
        day = self.panel.index[end].strftime(form)
        finding = replace(self.study, lookback=lookback).find(self.panel.rows(0, end + 1), self.series, self.gauge)
        matrix, graph = finding.answer.leadership, finding.network
        ranking = self._rank(finding).dropna(subset="score")
        leaders = ranking.index[ranking["role"] == "leader"]
        window = _span(self.panel.index[: end + 1], lookback)
        facts = {"method": self.method, "window": window, "day": day, "level": f"{self.study.level:.0%}"}
        count = graph.number_of_edges()
        sentence = say(
            "leadlag.sentence",
            links=count,
            flagged=count - finding.firm_links(),
            leaders=", ".join(leaders[:MOST_NAMED]) + (" …" if len(leaders) > MOST_NAMED else "")
            or say("leadlag.no_leader"),
            **facts,
        )
        linked = finding.links.mask_linked(self.study.level)
        heat = pictures.matrix_picture(matrix, symbols, say("leadlag.matrix", **facts), linked | linked.T)
        web = pictures.network_picture(graph)
        return WindowView(
            lookback,
            day,
            sentence,
            replace(heat, row_title=say("leadlag.leader"), column_title=say("leadlag.follower")),
            replace(web, title=say("leadlag.network", links=count, drawn=len(web.arrows), **facts)),
            ranking["score"],
            tuple((ranking["role"] != "–").tolist()),
            finding,
        )

    def _rank(self, finding: WindowFinding) -> pd.DataFrame:
        """The ranking of the report, with the same roles."""
        parts, study = (finding.window, self.gauge, finding.answer, finding.links), self.study
        return leader_table(*parts, draws=study.draws, level=study.level, seed=study.seed)

    def leadership(self, lookback: int) -> Leadership:
        """Windows of one length over the whole panel, at most MOST_WINDOWS of them."""
        panel = self.panel
        lookback = min(max(lookback, self._shortest), len(panel) - 1)
        step = max((len(panel) - lookback) // MOST_WINDOWS, 1)
        ends = np.arange(lookback, len(panel), step)
        study = replace(self.study, lookback=lookback)
        history = study.replay_windows(panel, self.series, self.gauge)
        line = history.time_line(ends, draws=study.draws, level=study.level, seed=study.seed)
        times, shares = panel.index[ends], line.shares[-1]
        table = leadership_table(line.leadership, line.shares, panel.symbols).reset_index()
        title = say("leadlag.timeline", window=_span(panel.index, lookback))
        picture = pictures.leadership_picture(line.leadership, list(times), panel.symbols, title, strong=line.strong)
        shown = style_figure(pictures.to_plotly(picture), title, HEIGHT).update_layout(width=None)
        shown.update_traces(showscale=False).update_xaxes(nticks=12, tickangle=0)
        text = say(
            "leadlag.concentration",
            windows=len(ends),
            step=step,
            herfindahl=float(herfindahl(shares)),
            gini=float(gini(shares)),
        )
        return Leadership(text, shown, _anomaly_figure(times, anomaly_score(line.leadership)), table)


@lru_cache(maxsize=8)
def open_lens(root: Path, run: str, method: str) -> Lens:
    """The bars of a run below `root`, by its name there, under the engine; refuses what is not a run."""
    # The name comes from an address: only folders that are runs may be opened, not any path below or above.
    if root / run not in find_runs(root):
        raise RunError(say("leadlag.no_run", run=run, root=root))
    return Lens(open_panel(root / run), method)


def _span(index: pd.DatetimeIndex, bars: int) -> str:
    """The length of a window in the reader's language."""
    return re.sub(r"[a-z][a-z ]*[a-z]", _unit, span_text(index, bars))


def _unit(match: re.Match[str]) -> str:
    name = match[0].replace(" ", "_")
    return say(f"unit.{name}")


def _anomaly_figure(times: pd.DatetimeIndex, scores: Array) -> go.Figure:
    """The anomaly score with its two levels; what is beyond them is marked."""
    levels = AlertLevels()
    figure = go.Figure(go.Scatter(x=times, y=scores, mode="lines", name=say("leadlag.score"), line={"width": 1.2}))
    grades = levels.grade(scores)
    for grade, (key, colour) in GRADES.items():
        level = levels.warning if grade == 1 else levels.alarm
        figure.add_hline(y=level, line={"color": colour, "dash": "dot"}, annotation_text=say(key))
        at = np.flatnonzero(grades == grade)
        figure.add_scatter(
            x=times[at], y=scores[at], mode="markers", name=say(key), marker={"color": colour, "size": 9}
        )
    return style_figure(figure, say("leadlag.anomalies"), 300)


# ---- the agent's windows --------------------------------------------------------------------------------------------


def lookback_run(folder: Path) -> Path | None:
    """The run of the lookback agent: the folder itself, or the one inside a pipeline; None where there is none."""
    inside = sorted(path.parent for path in (folder / "lookback").glob("*/manifest.json"))
    if inside:
        return inside[0]
    is_own = (folder / "checkpoints").is_dir() and stored_plan(folder).task.problem == "lookback"
    return folder if is_own else None


def lookback_table(folder: Path) -> pd.DataFrame | None:
    """What each lookback policy came to on the test bars, the best first; None where the stage did not run."""
    path = folder / "lookback" / "table.csv"
    return pd.read_csv(path).sort_values("reward", ascending=False) if path.is_file() else None


def chosen_windows(run: Path, panel: Panel) -> pd.Series:
    """(time,) the window that the agent of a lookback run chooses at each test bar."""
    policy, previous, chosen = load_lookback(run, panel), 0, []
    bars = build_fold(stored_plan(run), panel).test
    for bar in bars.tolist():
        previous = policy.choose(panel, bar, previous)
        chosen.append(previous)
    return pd.Series(chosen, panel.index[bars], name="window")


def windows_figures(chosen: pd.Series) -> tuple[go.Figure, go.Figure]:
    """The agent's window over time beside fixed ones, and how often it chose each."""
    fixed = {say("leadlag.fixed", bars=bars): np.full(len(chosen), bars) for bars in GRID}
    course = house.lookbacks(chosen.index, {say("leadlag.agent"): chosen.to_numpy(), **fixed})
    course.update_yaxes(tickvals=list(GRID))
    counts = chosen.value_counts(normalize=True).sort_index()
    bars = go.Bar(x=counts.index.astype(str), y=counts)
    shares = style_figure(go.Figure(bars), say("leadlag.histogram"), 300).update_yaxes(tickformat=".0%")
    return course, shares.update_xaxes(type="category", title=say("leadlag.bars"))
