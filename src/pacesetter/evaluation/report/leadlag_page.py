"""The lead–lag page: what a study found, as report sections, as files of the run, and as rows for the console."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pacesetter.evaluation.report.page import Section
from pacesetter.evaluation.report.pictures import styled
from pacesetter.leadlag import pictures
from pacesetter.leadlag.study import StudyResult

__all__ = ["leadlag_rows", "leadlag_sections", "leadlag_verdict", "store_leadlag"]

HEADER = ("rank", "symbol", "role", "leader score", "interval", "rank interval", "led in windows")


def leadlag_rows(result: StudyResult) -> list[tuple[str, ...]]:
    """One row a symbol, leaders first; a role only where the interval, for all symbols at once, is clear of zero."""
    level = 1 - result.study.level
    table = result.table()
    rows: list[tuple[str, ...]] = []
    for symbol, row in table.iterrows():
        if np.isnan(row["score"]):
            why = result.diagnostics.get(str(symbol), "no other symbol is")
            rows.append(("–", str(symbol), f"not scored: {why}", "", "", "", ""))
            continue
        role = "leader" if row["sure_low"] > 0 else "follower" if row["sure_high"] < 0 else "–"
        rows.append(
            (
                f"{row['rank']:.0f}",
                str(symbol),
                role,
                f"{row['score']:+.3f}",
                f"{level:.0%} {row['sure_low']:+.3f} … {row['sure_high']:+.3f}",
                f"{row['rank_low']:.0f} … {row['rank_high']:.0f}",
                f"{row['leads']:.0%}",
            )
        )
    return rows


def leadlag_pictures(result: StudyResult) -> dict[str, Any]:
    """The four pictures by file name."""
    symbols = result.panel.symbols
    times = list(result.panel.index[result.ends])
    return {
        "matrix": pictures.matrix_picture(result.matrix, symbols, f"Lead–lag matrix ({result.study.method})"),
        "network": pictures.network_picture(result.network, f"Significant links ({result.study.links})"),
        "lags": pictures.lag_picture(result.lags, result.matrix, symbols),
        "leadership": pictures.leadership_picture(result.leadership, times, symbols),
    }


def leadlag_sections(result: StudyResult) -> list[Section]:
    """Leaders and followers, links, lags, and leadership over time, each with what may be concluded from it."""
    shown = {name: _transparent(picture) for name, picture in leadlag_pictures(result).items()}
    return [
        Section("Lead–lag", leadlag_verdict(result), (shown["matrix"],), HEADER, tuple(leadlag_rows(result))),
        Section("Links and lags", _links_text(result), (shown["network"], shown["lags"]), *_links_table(result)),
        Section(
            "Leadership over time",
            _time_text(result),
            (shown["leadership"],),
            ("start", "end", "change"),
            _worst(result),
        ),
    ]


def store_leadlag(result: StudyResult, folder: Path) -> None:
    """Write matrix, ranking, links and pictures (HTML and PNG) into a folder."""
    symbols = list(result.panel.symbols)
    pd.DataFrame(result.matrix, index=symbols, columns=symbols).to_csv(folder / "matrix.csv")
    result.table().to_csv(folder / "ranking.csv")
    links = pd.DataFrame(_links(result), columns=["leader", "follower", "weight", "p_value", "q_value"])
    links.to_csv(folder / "links.csv", index=False)
    for name, picture in leadlag_pictures(result).items():
        pictures.save_picture(picture, folder, name)


def _transparent(picture: Any) -> Any:
    """A lead–lag picture in the report's style."""
    figure = pictures.to_plotly(picture)
    return styled(figure, picture.title, figure.layout.height).update_layout(width=None)


def leadlag_verdict(result: StudyResult) -> str:
    """Who leads and follows, at the study's level over all symbols together; and what following them earned."""
    rows = leadlag_rows(result)
    leaders = [row[1] for row in rows if row[2] == "leader"]
    followers = [row[1] for row in rows if row[2] == "follower"]
    window = f"{result.study.lookback} bars up to {result.panel.index[-1]:%Y-%m-%d}"
    flow = result.strategy
    earned = (
        f"Following the leaders at every bar (fill to fill, {flow['bars']:.0f} bars) earned {flow['gross_bps']:+.1f} "
        f"bps a bar gross (t = {flow['gross_t']:+.1f}) and {flow['net_bps']:+.1f} net of costs of "
        f"{result.study.cost_bps:g} bps a side (t = {flow['net_t']:+.1f})."
    )
    if not np.isfinite(flow["net_t"]):
        earned = "The return of following the leaders could not be measured: too few windows were scored."
    if not leaders and not followers:
        return f"No evidence of a leader: over {window} no interval excludes zero. {earned}"
    found = f"leaders: {_names(leaders)}; followers: {_names(followers)}"
    return f"Over {window}, all symbols tested together: {found}. {earned}"


def _names(names: list[str], most: int = 8) -> str:
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return (", ".join(names[:most]) + rest) or "none"


def _links(result: StudyResult) -> Iterator[tuple[str, str, float, float, float]]:
    edges = sorted(result.network.edges(data=True), key=lambda edge: -edge[2]["weight"])
    for leader, follower, link in edges:
        yield leader, follower, link["weight"], link["p_value"], link["q_value"]


def _links_text(result: StudyResult) -> str:
    pairs = len(result.panel.symbols) * (len(result.panel.symbols) - 1) // 2
    return (
        f"{result.network.number_of_edges()} of {pairs} pairs are linked at a false-discovery rate of "
        f"{result.study.level:.0%} ({result.study.links}, permutation null of {result.study.draws} draws, all pairs "
        "pooled). The lag map shows at how many bars the cross-correlation peaks, whether significant or not."
    )


def _links_table(result: StudyResult, most: int = 20) -> tuple[tuple[str, ...], tuple[tuple[Any, ...], ...]]:
    rows = [(a, b, f"{w:.3f}", f"{p:.2g}", f"{q:.2g}") for a, b, w, p, q in _links(result)][:most]
    return ("leader", "follower", "score", "p", "q"), tuple(rows)


def _time_text(result: StudyResult) -> str:
    hhi, gini = result.concentration()
    _, grades = result.anomalies()
    return (
        f"Leader scores of {len(result.ends)} windows. Rank correlation of windows without common bars: "
        f"{result.persistence():+.2f} (0: leaders do not persist). Concentration of leading now: Herfindahl {hhi:.3f}, "
        f"Gini {gini:.2f}. Anomaly alarms: {int((grades == 2).sum())}, warnings: {int((grades == 1).sum())}. The table "
        "lists the windows whose matrix changed most, an adversarial test set."
    )


def _worst(result: StudyResult) -> tuple[tuple[Any, ...], ...]:
    days = result.panel.index
    worst = result.unstable()
    return tuple((f"{days[int(a)]:%Y-%m-%d}", f"{days[int(b)]:%Y-%m-%d}", f"{c:.3g}") for a, b, c in worst.to_numpy())
