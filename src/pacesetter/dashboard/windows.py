"""Who leads whom over any window: matrix, links and ranking at once, leadership over time, and the agent's windows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from numpy.typing import NDArray

from pacesetter.build import build_fold, build_panel, load_lookback, stored_config
from pacesetter.dashboard.texts import say
from pacesetter.evaluation import pictures as house
from pacesetter.evaluation.pictures import PALETTE, styled
from pacesetter.leadlag import LeadLag, pictures
from pacesetter.leadlag.anomaly import AlertLevels, anomaly_score
from pacesetter.leadlag.baselines import GRID
from pacesetter.leadlag.concentration import contributions, gini, herfindahl, leadership_table
from pacesetter.leadlag.network import lead_lag_network
from pacesetter.leadlag.ranking import row_mean
from pacesetter.panel import Panel

__all__ = [
    "Leadership",
    "Lens",
    "WindowView",
    "chosen_windows",
    "lookback_run",
    "lookback_table",
    "open_panel",
    "windows_figures",
]

Array = NDArray[Any]
LINK_SCORE = "ccf_lag1"  # a score summed over lags has little power link by link
LEVEL = 0.1  # false-discovery rate of the links
MOST_WINDOWS = 400  # of the time line
HEIGHT = 430  # matrix, links and ranking fit on a laptop's screen
GRADES = {1: ("leadlag.warning", PALETTE[1]), 2: ("leadlag.alarm", PALETTE[5])}


def open_panel(folder: Path) -> Panel:
    """The bars of a run: those it stored, or those its configuration names."""
    stored = folder / "load" / "panel.parquet"
    return Panel.load(stored) if stored.is_file() else build_panel(stored_config(folder))


@dataclass(frozen=True, eq=False)
class WindowView:
    """One window drawn: what it shows in a sentence, and its three figures."""

    text: str
    matrix: go.Figure
    network: go.Figure
    ranking: go.Figure


@dataclass(frozen=True, eq=False)
class Leadership:
    """All windows of one length: who led when, how unusual each window was, and who led how often."""

    text: str
    timeline: go.Figure
    anomalies: go.Figure
    table: pd.DataFrame


class Lens:
    """A panel under the engine: any window of it in a moment."""

    def __init__(self, panel: Panel, method: str) -> None:
        self.panel, self.method = panel, method
        self._scores = LeadLag(method).fit(panel)
        self._links = LeadLag(LINK_SCORE).fit(panel)

    def bar(self, moment: Any) -> int:
        """The last bar known at a moment; the first one before any."""
        at = pd.Timestamp(moment)
        at = at.tz_localize("UTC") if at.tzinfo is None else at.tz_convert("UTC")
        return max(int(self.panel.index.searchsorted(at, side="right")) - 1, 0)

    def view(self, end: int, lookback: int) -> WindowView:
        """The window of `lookback` increments that ends at bar `end`; one that is too long is cut to its history."""
        end = max(end, 2)
        lookback = min(lookback, end)
        matrix, links = self._scores.matrix(end, lookback), self._links.matrix(end, lookback)
        symbols, when = self.panel.symbols, f"{self.panel.index[end]:%Y-%m-%d}"
        graph = lead_lag_network(links, _p_values(links, lookback), symbols, level=LEVEL)
        scores = pd.Series(row_mean(matrix), symbols).dropna().sort_values(ascending=False)
        told = {"method": self.method, "lookback": lookback, "day": when}
        heat = pictures.matrix_picture(matrix, symbols, say("leadlag.matrix", **told))
        web = pictures.network_picture(graph, say("leadlag.network"))
        return WindowView(
            say("leadlag.sentence", links=graph.number_of_edges(), leaders=", ".join(scores.index[:3]), **told),
            _fitted(heat),
            _fitted(web),
            _ranking_figure(scores),
        )

    def leadership(self, lookback: int) -> Leadership:
        """Windows of one length over the whole panel, at most MOST_WINDOWS of them."""
        panel = self.panel
        lookback = min(lookback, len(panel) - 1)
        step = max((len(panel) - lookback) // MOST_WINDOWS, 1)
        ends, lookbacks = self._scores.windows(lookback, step)
        matrices = self._scores.many(ends, lookbacks)
        times, shares = panel.index[ends], contributions(matrices[-1])
        table = leadership_table(matrices, panel.symbols).reset_index()
        title = say("leadlag.timeline", lookback=lookback)
        line = pictures.leadership_picture(row_mean(matrices), list(times), panel.symbols, title)
        text = say(
            "leadlag.concentration",
            windows=len(ends),
            step=step,
            herfindahl=float(herfindahl(shares)),
            gini=float(gini(shares)),
        )
        return Leadership(text, _fitted(line), _anomaly_figure(times, anomaly_score(matrices)), table)


def _p_values(links: Array, lookback: int) -> Array:
    """(N, N) two-sided p-values of differences of two lagged correlations: variance 2 / bars for independent returns.

    Shared moves make the difference vary less, so the test is on the safe side there; a permutation is in the report.
    """
    from scipy.special import erfc

    p_values: Array = erfc(np.abs(links) * np.sqrt(lookback / 2) / np.sqrt(2))
    np.fill_diagonal(p_values, np.nan)
    return p_values


def _fitted(picture: pictures.Heat | pictures.Web) -> go.Figure:
    """A lead–lag picture in the house style, as wide as its column."""
    figure = styled(pictures.to_plotly(picture), picture.title, HEIGHT)
    figure.update_layout(width=None, title={"font": {"size": 14}}, margin={"r": 10})
    if isinstance(picture, pictures.Heat):
        return figure.update_traces(showscale=False).update_xaxes(tickangle=90)
    if not picture.arrows:
        figure.add_annotation(text=say("leadlag.no_link"), showarrow=False, x=0, y=0)
    return figure.update_traces(marker={"showscale": False})


def _ranking_figure(scores: pd.Series) -> go.Figure:
    colours = [PALETTE[1] if score > 0 else PALETTE[3] for score in scores]
    bars = go.Bar(x=scores, y=scores.index.astype(str), orientation="h", marker_color=colours)
    figure = styled(go.Figure(bars), say("leadlag.ranking"), HEIGHT)
    return figure.update_yaxes(autorange="reversed", type="category").update_layout(title={"font": {"size": 14}})


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
    return styled(figure, say("leadlag.anomalies"), 300)


# ---- the agent's windows --------------------------------------------------------------------------------------------


def lookback_run(folder: Path) -> Path | None:
    """The run of the lookback agent: the folder itself, or the one inside a main job; None where there is none."""
    inside = sorted(path.parent for path in (folder / "lookback").glob("*/manifest.json"))
    if inside:
        return inside[0]
    is_own = (folder / "checkpoints").is_dir() and stored_config(folder).task.get("problem") == "lookback"
    return folder if is_own else None


def lookback_table(folder: Path) -> pd.DataFrame | None:
    """What each lookback policy came to on the test bars, the best first; None where the stage did not run."""
    path = folder / "lookback" / "table.csv"
    return pd.read_csv(path).sort_values("reward", ascending=False) if path.is_file() else None


def chosen_windows(run: Path, panel: Panel) -> pd.Series:
    """(time,) the window that the agent of a lookback run chooses at each test bar."""
    policy, previous, chosen = load_lookback(run, panel), 0, []
    bars = build_fold(stored_config(run), panel).test
    for bar in bars.tolist():
        previous = policy.choose(panel, bar, previous)
        chosen.append(previous)
    return pd.Series(chosen, panel.index[bars], name="window")


def windows_figures(chosen: pd.Series) -> tuple[go.Figure, go.Figure]:
    """The agent's window over time beside fixed ones, and how often it chose each."""
    fixed = {say("leadlag.fixed", bars=bars): np.full(len(chosen), bars) for bars in GRID}
    course = house.lookbacks(chosen.index, {say("leadlag.agent"): chosen.to_numpy(), **fixed})
    counts = chosen.value_counts(normalize=True).sort_index()
    bars = go.Bar(x=counts.index.astype(str), y=counts)
    shares = styled(go.Figure(bars), say("leadlag.histogram"), 300).update_yaxes(tickformat=".0%")
    return course, shares.update_xaxes(type="category", title=say("leadlag.bars"))
