"""The lead–lag page: what a study found, as report sections, as files of the run, and as rows for the console."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from pacesetter.evaluation.report.page import Section, day_form
from pacesetter.evaluation.report.pictures import style_figure
from pacesetter.leadlag import pictures
from pacesetter.leadlag.answer.intervals import chance_text
from pacesetter.leadlag.answer.network import HALF
from pacesetter.leadlag.study import GroupFinding, StudyResult
from pacesetter.words import for_spreadsheets

if TYPE_CHECKING:
    import plotly.graph_objects as go

__all__ = ["group_verdict", "leadlag_rows", "leadlag_sections", "leadlag_verdict", "store_leadlag"]

HEADER = ("rank", "symbol", "role", "leader score", "interval", "p", "rank interval", "windows as top leader", "note")
MOST_SPREADSHEET = 1000  # symbols whose matrix a spreadsheet opens
MARGINS, ROW_HEIGHT = 200, 40  # of a picture with a row for each symbol, in pixels
LINK_COLUMNS = ("leader", "follower", "relation", "delay", "forward", "backward", "p_value", "remains_bar", "flags")


def leadlag_rows(result: StudyResult) -> list[tuple[str, ...]]:
    """One row a symbol, leaders first; a role only where both tests, for all symbols at once, find one.

    The interval (bootstrap) must be clear of zero, and so large a score must be rare where nothing leads (the null).
    """
    level = 1 - result.study.level
    table = result.table()
    rows: list[tuple[str, ...]] = []
    for symbol, row in table.iterrows():
        if np.isnan(row["score"]):
            why = result.diagnostics.get(str(symbol), "no other symbol is")
            rows.append(("–", str(symbol), f"not scored: {why}", "", "", "", "", "", ""))
            continue
        rows.append(
            (
                f"{row['rank']:.0f}",
                str(symbol),
                row["role"],
                f"{row['score']:+.3f}",
                f"{level:.0%} {row['sure_low']:+.3f} … {row['sure_high']:+.3f}",
                f"{row['p_value']:.2g}",
                f"{row['rank_low']:.0f} … {row['rank_high']:.0f}",
                f"{row['leads']:.0%}",
                _symbol_note(result, str(symbol), row),
            )
        )
    return rows


def _symbol_note(result: StudyResult, symbol: str, row: pd.Series) -> str:
    """What to know of a symbol's score: thin trading, dependence on one bar, its group."""
    notes = [f"thin: {result.thin[symbol]}"] if symbol in result.thin else []
    if row["remains"] < HALF:
        notes.append(f"depends on one bar: {row['remains']:.0%} remains without it")
    if "group" in row:
        notes.append(f"group {row['group']:.0f}")
    return "; ".join(notes)


def leadlag_pictures(result: StudyResult) -> dict[str, go.Figure]:
    """The pictures by file name; no lag map for a method without delays."""
    symbols = result.panel.symbols
    times = list(result.panel.index[result.ends])
    method = result.study.method
    linked = result.links.mask_linked(result.study.level)
    known = linked | linked.T
    shown = {
        "matrix": pictures.matrix_picture(result.matrix, symbols, f"Lead–lag matrix ({method})", known),
        "network": pictures.network_picture(result.network, f"Significant links ({method})"),
        "leadership": pictures.leadership_picture(result.leadership, times, symbols, strong=result.history.strong),
    }
    if result.answer.max_lag:  # a method without delays has no lag map
        title = f"Delay of each pair ({method})"
        shown["lags"] = pictures.lag_picture(result.lags, result.matrix, symbols, title, known)
    return shown


def leadlag_sections(result: StudyResult) -> list[Section]:
    """Leaders and followers, links, lags, and leadership over time, each with what may be concluded from it."""
    shown = {name: _style_picture(picture, len(result.panel.symbols)) for name, picture in _shown_pictures(result)}
    rows = leadlag_rows(result)
    faint = tuple(place for place, row in enumerate(rows) if row[2] not in ("leader", "follower"))
    return [
        Section("Lead–lag", leadlag_verdict(result), (shown["matrix"],), HEADER, tuple(rows), faint=faint),
        *_group_sections(result.pooled, len(result.panel.symbols)),
        Section(
            "Links and lags",
            _links_text(result),
            tuple(shown[name] for name in ("network", "lags") if name in shown),
            *_links_table(result),
        ),
        Section(
            "Leadership over time",
            _time_text(result),
            (shown["leadership"],),
            ("start", "end", "change"),
            _unstable_rows(result),
        ),
    ]


def _group_sections(finding: GroupFinding | None, symbols: int) -> list[Section]:
    """Relations between groups, and when the strongest of them began and ended."""
    if finding is None:
        return []
    level, rows = finding.result.study.level, []
    table = finding.table()
    for row in table.to_dict("records"):
        members = len(finding.groups[row["follower"]])
        thin = f"{row['thin']} of {members}" if row["thin"] else ""
        delay = f"{row['delay']:.0f}" if np.isfinite(row["delay"]) else "–"
        strengths = f"{row['forward']:.3f}", f"{row['backward']:.3f}"
        role = row["relation"] if row["p_value"] <= level else "–"
        rows.append((row["leader"], row["follower"], role, delay, *strengths, f"{row['p_value']:.2g}", thin))
    header = ("leader", "follower", "relation", "delay (bars)", "forward", "backward", "p", "thin members")
    faint = tuple(place for place, p_value in enumerate(table["p_value"]) if not p_value <= level)
    sections = [Section("Groups", group_verdict(finding, symbols), (), header, tuple(rows), faint=faint)]
    if finding.relation is not None and len(finding.periods):
        sections.append(_periods_section(finding))
    return sections


def group_verdict(finding: GroupFinding, symbols: int) -> str:
    """Which group leads which of so many symbols, all relations tested together; what following the leader earned."""
    result, flow = finding.result, finding.earned
    sizes = ", ".join(f"{name} ({len(members)})" for name, members in finding.groups.items())
    if rest := symbols - sum(map(len, finding.groups.values())):
        sizes += f"; {rest} of {symbols} symbols are in no group"
    table = finding.table()
    firm = table[table["p_value"] <= result.study.level].to_dict("records")
    said = "; ".join(
        f"{row['leader']} {row['relation'].replace('leads', 'leads ' + row['follower'], 1)}"
        + (f", delay {row['delay']:.0f}" if np.isfinite(row["delay"]) else "")
        for row in firm
    )
    earned = (
        f"Following the leading group at every bar earned {flow['gross_bps']:+.1f} bps a bar gross "
        f"(t = {flow['gross_t']:+.1f}) and {flow['net_bps']:+.1f} net of {result.study.cost_bps:g} bps a side "
        f"(t = {flow['net_t']:+.1f})."
    )
    return f"Equal-weighted means of {sizes}: {said or 'no evidence that a group leads another'}. {earned}"


def _periods_section(finding: GroupFinding) -> Section:
    assert finding.relation is not None
    leader, follower, delay = finding.relation
    days = finding.result.panel.index
    form = day_form(days)
    rows = []
    for row in finding.periods.to_dict("records"):
        begun = "" if pd.isna(row["earliest"]) else f"{row['earliest']:{form}} … {row['latest']:{form}}"
        interval = f"{row['low']:+.3f} … {row['high']:+.3f}"
        period = f"{row['first']:{form}}", f"{row['last']:{form}}", begun
        rows.append(
            (*period, f"{row['forward']:+.3f}", interval, f"{row['backward']:+.3f}", "yes" if row["leads"] else "no")
        )
    text = (
        f"The strongest relation over all bars is {leader} → {follower}, at a delay of {delay}. The correlation "
        "is split where it changed (each at 1 %; returns in units of volatility), with a 95 % interval for each date. "
        "Intervals of correlations allow for the choice of the strongest."
    )
    header = ("from", "to", "began within", "forward", "95 % interval", "backward", "leads")
    faint = tuple(place for place, is_lead in enumerate(finding.periods["leads"]) if not is_lead)
    return Section("When it began and ended", text, (), header, tuple(rows), faint=faint)


def store_leadlag(result: StudyResult, folder: Path) -> None:
    """Write matrix, ranking, links and pictures (HTML and PNG) into a folder; a large matrix as Parquet."""
    symbols = list(result.panel.symbols)
    matrix = pd.DataFrame(result.matrix, index=symbols, columns=symbols)
    if len(symbols) > MOST_SPREADSHEET:
        matrix.to_parquet(folder / "matrix.parquet")
    else:
        for_spreadsheets(matrix).to_csv(folder / "matrix.csv")
    for_spreadsheets(result.table()).to_csv(folder / "ranking.csv")
    for_spreadsheets(_links(result)).to_csv(folder / "links.csv", index=False)
    if result.pooled is not None:
        for_spreadsheets(result.pooled.table()).to_csv(folder / "groups.csv", index=False)
        for_spreadsheets(result.pooled.periods).to_csv(folder / "periods.csv", index=False)
    for name, picture in leadlag_pictures(result).items():
        pictures.save_picture(picture, folder, name)


def _shown_pictures(result: StudyResult) -> Iterator[tuple[str, go.Figure]]:
    """The pictures of the page: of no link there is none."""
    for name, picture in leadlag_pictures(result).items():
        if name != "network" or result.network.number_of_edges():
            yield name, picture


def _style_picture(picture: go.Figure, symbols: int) -> go.Figure:
    """A lead–lag picture in the report's style, lower for few symbols so that the table is in sight."""
    figure = pictures.to_plotly(picture)
    height = min(figure.layout.height, MARGINS + symbols * ROW_HEIGHT)
    return style_figure(figure, picture.heading, height).update_layout(width=None)


def leadlag_verdict(result: StudyResult) -> str:
    """Who leads and follows, at the study's level over all symbols together; and what following them earned."""
    rows = leadlag_rows(result)
    leaders = [row[1] for row in rows if row[2] == "leader"]
    followers = [row[1] for row in rows if row[2] == "follower"]
    window = f"the {result.window_text} up to {result.panel.index[-1]:{day_form(result.panel.index)}}"
    flow = result.strategy
    earned = (
        f"Following the leaders at every bar (traded at the next bar, {flow['bars']:.0f} bars) earned "
        f"{flow['gross_bps']:+.1f} bps a bar gross (t = {flow['gross_t']:+.1f}) "
        f"and {flow['net_bps']:+.1f} net of costs of "
        f"{result.study.cost_bps:g} bps a side (t = {flow['net_t']:+.1f})."
    )
    if not np.isfinite(flow["net_t"]):
        earned = "The return of following the leaders could not be measured: too few windows were scored."
    smallest = _smallest_effect(result)
    if not leaders and not followers:
        why = chance_text(result.ranking) or "no interval excludes zero"
        return f"No evidence of a leader: over {window} {why}. {smallest}{earned}"
    names = f"leaders: {_names(leaders)}; followers: {_names(followers)}"
    return f"Over {window}, all symbols tested together: {names}. {smallest}{earned}"


def _smallest_effect(result: StudyResult) -> str:
    """What a link must at least be to be found, or nothing where the method does not test correlations."""
    least = result.links.detectable
    if not np.isfinite(least):
        return ""
    return (
        f"Smallest detectable effect: in a window of {result.study.bars:,} bars, a single relation between two symbols "
        f"has 80 % power at a correlation of {least:.2f}. Many at once need more: "
        "`pacesetter lab selftest` measures it. "
    )


def _names(names: list[str], most: int = 8) -> str:
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return (", ".join(names[:most]) + rest) or "none"


def _links(result: StudyResult) -> pd.DataFrame:
    """The significant links, strongest first."""
    edges = [{"leader": a, "follower": b, **link} for a, b, link in result.network.edges(data=True)]
    columns = [*LINK_COLUMNS, "weight", "sign", "remains_day"]
    return pd.DataFrame(edges, columns=columns).sort_values("weight", ascending=False, kind="stable")


def _links_text(result: StudyResult) -> str:
    study, count = result.study, result.network.number_of_edges()
    pairs = len(result.panel.symbols) * (len(result.panel.symbols) - 1) // 2
    promise = {
        "max": f"chance of any false link {study.level:.0%}",
        "bh": f"false-discovery rate {study.level:.0%} (Benjamini–Hochberg)",
        "by": f"false-discovery rate {study.level:.0%} (Benjamini–Yekutieli)",
    }[study.control]
    white = int((result.links.orders > 0).sum())
    cleaned = f" after {white} symbols were cleaned of autocorrelation" if white else ""
    flagged = count - result.firm_links()
    # The smallest p-value is 1 / (draws + 1): above the level nothing can be significant.
    too_few = (study.draws + 1) * study.level < 1
    return (
        f"{count} of {pairs} pairs are linked by {study.method} ({promise}; null of {study.draws} whole-bar sign flips"
        f"{cleaned}). Flagged, because they depend on one bar or day or on a thinly traded symbol: {flagged}. "
        "Strength forward is how well the leader's past predicts the follower, backward "
        "the reverse; 'remains' is the share of the forward strength without its most influential bar."
        + (" This method names no delays, so there is no lag map." if not result.answer.max_lag else "")
        + (" With so few draws no link can be significant; raise lag.draws." if too_few else "")
    )


def _links_table(result: StudyResult, most: int = 20) -> tuple[tuple[str, ...], tuple[tuple[object, ...], ...]]:
    rows = []
    for link in _links(result).head(most).to_dict("records"):
        delay = f"{link['delay']:.0f}" if np.isfinite(link["delay"]) else "–"
        strengths = (f"{link['forward']:.3f}", f"{link['backward']:.3f}")
        remains = f"{link['remains_bar']:.0%}"
        row = (link["leader"], link["follower"], link["relation"], delay, *strengths, f"{link['p_value']:.2g}", remains)
        rows.append((*row, link["flags"]))
    header = ("leader", "follower", "relation", "delay (bars)", "forward", "backward", "p", "remains", "flags")
    return header, tuple(rows)


def _time_text(result: StudyResult) -> str:
    hhi, gini = result.concentration()
    _, grades = result.anomalies()
    learned = result.autoencoder_anomalies()
    by_network = "" if learned is None else f" By the autoencoder: alarms {int((learned[1] == 2).sum())}, warnings "
    by_network += "" if learned is None else f"{int((learned[1] == 1).sum())}."
    kept = result.persistence()
    lasting = (
        f"Ranks of windows that share no bar correlate by {kept:+.2f} (0: leaders do not last)."
        if np.isfinite(kept)
        else "No two of them share no bar, so that whether leaders last cannot be told."
    )
    return (
        f"Leader scores of {len(result.ends)} windows. {lasting} Concentration of leading now: Herfindahl {hhi:.3f}, "
        f"Gini {gini:.2f}. Anomaly alarms: {int((grades == 2).sum())}, warnings: {int((grades == 1).sum())}."
        f"{by_network} The table lists the windows whose matrix changed most, an adversarial test set."
    )


def _unstable_rows(result: StudyResult) -> tuple[tuple[object, ...], ...]:
    days, form = result.panel.index, day_form(result.panel.index)
    worst = result.unstable_windows()
    return tuple((f"{days[int(a)]:{form}}", f"{days[int(b)]:{form}}", f"{c:.3g}") for a, b, c in worst.to_numpy())
