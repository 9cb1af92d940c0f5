"""What the pages of results show: league, ablations, decisions, options and Pareto front, from files below the runs.

A page is a function: folder of the runs -> what it shows, the newest first. To add one, write such a function, enter
it in RESULT_PAGES, and give `NAME.title` and `NAME.empty` in the texts. Nothing else is needed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from pacesetter.dashboard.live import read_metrics
from pacesetter.dashboard.texts import say
from pacesetter.evaluation.report.pictures import PALETTE, style_figure

__all__ = ["RESULT_PAGES", "Shown"]

RUN_FOLDER = re.compile(r"^(?P<time>\d{8}T\d{6})-(?P<name>.+)-[0-9a-f]{8}$")
DEEPEST = 4  # folders below the runs
OPTIONS = "options/"  # how metrics of options begin
LEAGUE = ("entrant", "seeds", "sharpe", "half_width", "share", "reliable", "exposure", "seconds")
ABLATION = ("variant", "runs", "mean", "half_width", "gap", "gap_half_width", "p", "p_adjusted")


@dataclass(frozen=True, eq=False)
class Shown:
    """One part of a page: where it is from, a sentence, a table, and a picture where there is one."""

    title: str
    text: str
    table: pd.DataFrame
    figure: go.Figure | None = None


def league(root: Path) -> Iterator[Shown]:
    """Each market of each league: entrants by Sharpe ratio, beside oracle, lasso, ridge and hold."""
    for path, table in _tables(root, {"market", "entrant", "sharpe"}):
        for market, part in table.groupby("market", sort=False):
            ordered = part.sort_values("sharpe", ascending=False)
            shown = ordered[[name for name in LEAGUE if name in ordered]]
            title = f"{_place(path.parent, root)} · {market}"
            yield Shown(
                title, say("league.text"), shown, _bars(ordered, "entrant", "sharpe", "half_width", "league.picture")
            )


def ablations(root: Path) -> Iterator[Shown]:
    """Each market of each ablation: what is lost without a part, paired by seed."""
    for path, table in _tables(root, {"market", "variant", "gap"}):
        for market, part in table.groupby("market", sort=False):
            shown = part[[name for name in ABLATION if name in part]]
            title = f"{_place(path.parent, root)} · {market}"
            figure = _bars(part.dropna(subset="gap"), "variant", "gap", "gap_half_width", "ablations.picture")
            yield Shown(title, say("ablations.text"), shown, figure)


def decisions(root: Path) -> Iterator[Shown]:
    """What each run's latest set of gates decided, in one table."""
    stored = [(path, each) for path, each in _read_stored(root, "decision.json") if "decision" in each]
    if stored:
        names = ("gates", "decision", "sentence")
        rows = [
            {"run": _place(path.parent.parent, root)} | {name: each.get(name) for name in names}
            for path, each in stored
        ]
        yield Shown(say("decisions.title"), say("decisions.text"), pd.DataFrame(rows))


def options(root: Path) -> Iterator[Shown]:
    """Of each run with options: how long they last and how often each is chosen, over the steps."""
    for path in _files(root, "metrics.jsonl"):
        if OPTIONS not in path.read_text(encoding="utf-8", errors="replace"):
            continue
        metrics = read_metrics(path.parent)
        own = metrics[[name for name in metrics if str(name).startswith(OPTIONS)]].dropna(how="all")
        own.columns = [str(name).removeprefix(OPTIONS).replace("_", " ") for name in own.columns]
        if len(own):
            figure = go.Figure([go.Scatter(x=own.index, y=own[name], name=name, mode="lines") for name in own.columns])
            figure = style_figure(figure, say("options.picture"), 340).update_xaxes(title=say("live.step"))
            latest = own.ffill().iloc[-1].rename_axis("figure").rename("value").reset_index()
            yield Shown(_place(path.parent, root), say("options.text"), latest, figure)


def pareto(root: Path) -> Iterator[Shown]:
    """Of each run with several objectives: what each preference came to, and which are on the front."""
    for path, front in _read_stored(root, "front.json"):
        if not {"objectives", "points"} <= set(front):
            continue
        names = [str(name) for name in front["objectives"]]
        table = pd.DataFrame([point["objectives"] for point in front["points"]], columns=names)
        table["efficient"] = [bool(point.get("efficient")) for point in front["points"]]
        table["utility"] = [point.get("utility") for point in front["points"]]
        table["chosen"] = [place == front.get("chosen") for place in range(len(table))]
        count = int(table["efficient"].sum())
        yield Shown(
            _place(path.parent, root), say("pareto.text", count=count, all=len(table)), table, _front(table, names)
        )


RESULT_PAGES: dict[str, Callable[[Path], Iterator[Shown]]] = {
    "league": league,
    "ablations": ablations,
    "decisions": decisions,
    "options": options,
    "pareto": pareto,
}


# ---- reading --------------------------------------------------------------------------------------------------------


def _files(root: Path, name: str) -> list[Path]:
    """Files of that name below the runs, the newest first."""
    # By depth, not by **: recursion would read every checkpoint and cache below the runs.
    paths = [path for depth in range(DEEPEST) for path in root.glob("/".join([*["*"] * depth, name]))]
    return sorted(paths, key=lambda path: path.stat().st_mtime, reverse=True)


def _tables(root: Path, columns: set[str]) -> Iterator[tuple[Path, pd.DataFrame]]:
    for path in _files(root, "table.csv"):
        table = pd.read_csv(path)
        if columns <= set(table.columns):
            yield path, table


def _read_stored(root: Path, name: str) -> Iterator[tuple[Path, dict[str, Any]]]:
    for path in _files(root, name):
        content = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(content, dict):
            yield path, content


def _place(folder: Path, root: Path) -> str:
    """Where it is, runs as a person would say them: `trader · 16 Nov 07:57:12` for 20261116T075712-trader-76c487ce."""
    return " / ".join(RUN_FOLDER.sub(_describe_match, part) for part in folder.relative_to(root).parts)


def _describe_match(match: re.Match[str]) -> str:
    return f"{match['name']} · {pd.Timestamp(match['time']):%d %b %H:%M:%S}"


# ---- pictures -------------------------------------------------------------------------------------------------------


def _bars(table: pd.DataFrame, name: str, value: str, half: str, title: str) -> go.Figure:
    """A bar for each row with its interval; the largest on top."""
    ordered = table.sort_values(value)
    colours = [PALETTE[0] if number > 0 else PALETTE[5] for number in ordered[value]]
    bars = go.Bar(
        x=ordered[value],
        y=ordered[name].astype(str),
        orientation="h",
        marker_color=colours,
        error_x={"type": "data", "array": ordered.get(half), "color": "#808080"},
    )
    figure = style_figure(go.Figure(bars), say(title), 110 + 26 * len(ordered))
    return figure.update_yaxes(type="category", automargin=True).update_layout(showlegend=False)


def _front(table: pd.DataFrame, names: list[str]) -> go.Figure | None:
    """The first two objectives against each other; the front is a line, the chosen point a star."""
    if len(names) < 2:
        return None
    figure = go.Figure()
    for is_efficient, key in ((False, "pareto.other"), (True, "pareto.front")):
        part = table[table["efficient"] == is_efficient].sort_values(names[0])
        mode = "lines+markers" if is_efficient and len(names) == 2 else "markers"
        colour = PALETTE[0] if is_efficient else PALETTE[7]
        figure.add_scatter(x=part[names[0]], y=part[names[1]], name=say(key), mode=mode, marker={"color": colour})
    chosen = table[table["chosen"]]
    star = {"symbol": "star", "size": 15, "color": PALETTE[1]}
    figure.add_scatter(x=chosen[names[0]], y=chosen[names[1]], name=say("column.chosen"), mode="markers", marker=star)
    figure = style_figure(figure, say("pareto.picture"), 420)
    return figure.update_xaxes(title=names[0]).update_yaxes(title=names[1])
