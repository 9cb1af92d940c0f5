"""A judgement on paper: report sections with the verdict first, Markdown, and the memo."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from pacesetter.evaluation.backtest.backtest import Backtest
from pacesetter.evaluation.judgement import Judgement
from pacesetter.evaluation.report.account_page import monthly_section, trades_section, weights_section
from pacesetter.evaluation.report.memo import memo
from pacesetter.evaluation.report.page import Section, day_form, format_number, number, span_text, write_report
from pacesetter.evaluation.report.pictures import PALETTE, style_figure, thin_bars
from pacesetter.evaluation.report.reasons import verdict_reasons
from pacesetter.evaluation.statistics.intervals import Interval
from pacesetter.evaluation.statistics.metrics import drawdowns, metrics, volatility
from pacesetter.evaluation.statistics.regression import RESULT
from pacesetter.evaluation.statistics.trials import RETURNS
from pacesetter.market.ledger import Column
from pacesetter.runs import write_atomic
from pacesetter.words import for_markdown

__all__ = ["BRIEF", "VERDICT", "judgement_sections", "markdown", "results_section", "store_judgement", "write_pages"]

VERDICT, PRIOR = "Verdict", "Around its prior"
SCORES = (
    *("policy", "annual return", "volatility", "volatility (21 days)", "Sharpe ratio", "Sharpe (21 days)"),
    *("drawdown", "turnover", "costs", "round trips"),
)
BRIEF = (
    "volatility",
    "volatility (21 days)",
    "turnover",
    "costs",
    "round trips",
)  # columns left out on a console of 80 letters
MOST_LINES, MOST_EQUAL = 6, 4  # policies in a picture of equity, and at equal volatility
SENSES = {"<=": "≤", ">=": "≥", ">": ">", "<": "<"}


def judgement_sections(judgement: Judgement) -> list[Section]:
    """The sections of the report that a judgement fills, the verdict first; of an idle account little is to be said."""
    if is_idle(judgement):
        others = {name: each for name, each in judgement.results.items() if name != judgement.verdict.name}
        beside = [results_section(others, judgement.intervals)] if others else []
        return [_verdict_section(judgement), *_prior_sections(judgement), *beside, _gates_section(judgement)]
    return [
        _verdict_section(judgement),
        *_prior_sections(judgement),
        _gates_section(judgement),
        _benchmark_section(judgement),
        monthly_section(judgement.result),
        weights_section(judgement.result),
        trades_section(judgement.result),
        _regimes_section(judgement),
        _scenario_section("Stress", FAST_TEXT if judgement.is_fast else STRESS_TEXT, judgement.stress),
        _scenario_section("Costs and limits", FAST_TEXT if judgement.is_fast else RULES_TEXT, judgement.rules),
        _assets_section(judgement),
        *_option_sections(judgement),
    ]


def store_judgement(judgement: Judgement, folder: Path, facts: Mapping[str, str] | None = None) -> None:
    """Write evaluation.json, evaluation.md, memo.md and the judged policy's ledger into a folder."""
    write_atomic(folder / RESULT, json.dumps(judgement.to_json(), indent=2, default=str) + "\n")
    write_atomic(folder / "evaluation.md", markdown(judgement_sections(judgement)))
    write_atomic(folder / "memo.md", memo(judgement.verdict, judgement.gates, facts))
    judgement.result.save(folder, dict(judgement.rewards))
    returns = {name: each.returns for name, each in judgement.results.items()}
    pd.DataFrame(returns, judgement.result.times).to_parquet(folder / RETURNS)


def markdown(sections: list[Section]) -> str:
    """Titles, texts and tables; pictures are left to the page."""
    parts = []
    for section in sections:
        text = for_markdown(section.text)
        lines = [f"## {for_markdown(section.title)}", "", *(f"- {for_markdown(reason)}" for reason in section.reasons)]
        lines += ["", text] if section.reasons else [text]
        if section.rows:
            lines += [
                "",
                _markdown_row(section.header),
                _markdown_row(["---"] * len(section.header)),
                *map(_markdown_row, section.rows),
            ]
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def write_pages(
    path: Path, title: str, sections: list[Section], notes: Sequence[str] = (), facts: Mapping[str, str] | None = None
) -> list[Path]:
    """Write a page and, beside it, its texts and tables as Markdown; gives both."""
    head = "\n\n".join([f"# {for_markdown(title)}", *map(for_markdown, notes)])
    page = write_report(path, title, sections, notes, facts)
    return [page, write_atomic(path.with_suffix(".md"), f"{head}\n\n{markdown(sections)}")]


def _markdown_row(cells: Iterable[object]) -> str:
    # A bar would begin another column.
    return "| " + " | ".join(for_markdown(cell).replace("|", "/") for cell in cells) + " |"


def is_idle(judgement: Judgement) -> bool:
    """Whether the account never held a position, so that its tables would be of zeros."""
    return not judgement.result.ledger[:, Column.EXPOSURE].any()


def _verdict_section(judgement: Judgement) -> Section:
    verdict = judgement.verdict
    own: dict[str, Any] = {"title": VERDICT, "is_evidence": verdict.is_evidence, "headline": verdict.headline}
    if is_idle(judgement):
        return Section(text=verdict.sentence, **own)
    table, own["text"] = results_section(judgement.results, judgement.intervals), judgement.sentence
    # Hold beside it whatever its rank, then the best.
    order = dict.fromkeys([verdict.name, "hold", *(str(row[0]) for row in table.rows)])
    shown = [judgement.results[name] for name in order if name in judgement.results][:MOST_EQUAL]
    own["figures"] = (equity_picture(shown, has_equal_volatility=True),)
    ratios = [judgement.intervals[str(row[0])] for row in table.rows]
    faint = tuple(place for place, ratio in enumerate(ratios) if ratio.low <= 0 <= ratio.high)
    return replace(table, **own, reasons=verdict_reasons(judgement), faint=faint)


# ---- tables ---------------------------------------------------------------------------------------------------------

STRESS_TEXT = (
    "The same policy, not retrained, with the test bars changed from a third of the way on; "
    "the guide describes each stress."
)
FAST_TEXT = "A fast evaluation: stressed markets, and limits other than costs, were left out."
RULES_TEXT = "The same policy under other costs and limits, one at a time."


def results_section(results: Mapping[str, Backtest], intervals: Mapping[str, Interval] | None = None) -> Section:
    """Figures and equity of many backtests over the same bars: the first one first, the others by Sharpe ratio."""
    figures = {name: metrics(each) for name, each in results.items()}
    first, *rest = figures
    rest.sort(key=lambda name: -figures[name]["sharpe"])
    order = [first, *rest]
    rows = [_score(name, figures[name], intervals) for name in order]
    days = results[first].times
    text = f"{len(days):,} bars, {span_text(days)}, all with the same costs and caps."
    return Section(
        "Results", text, (equity_picture([results[name] for name in order[:MOST_LINES]]),), SCORES, tuple(rows)
    )


def _score(name: str, row: Mapping[str, float], intervals: Mapping[str, Interval] | None) -> tuple[str, ...]:
    return (
        name,
        number(row["annual_return"], "+.1%"),
        number(row["volatility"], ".1%"),
        number(row["volatility_21_days"], ".1%"),
        str(intervals[name]) if intervals else number(row["sharpe"], "+.2f"),
        number(row["sharpe_21_days"], "+.2f"),
        number(row["max_drawdown"], ".1%"),
        f"{row['turnover']:.1f}×",
        number(row["cost_share"], ".1%"),
        number(row["round_trips"], ".0f"),
    )


def _prior_sections(judgement: Judgement) -> list[Section]:
    """What an agent adds to the prior that it began at; nothing without one."""
    gain = judgement.prior
    if gain is None:
        return []
    rows = tuple(
        (name, format_number(own), format_number(prior), *(f"{each:+.3g}" for each in gap[:3]))
        for name, (own, prior, gap) in gain.figures.items()
    )
    text = f"Paired over the same bars. {gain.sentence}"
    return [Section(PRIOR, text, header=("figure", "agent", "prior alone", "difference", "95 % from", "to"), rows=rows)]


def _gates_section(judgement: Judgement) -> Section:
    count, failed = len(judgement.gates), sum(not gate.passed for gate in judgement.gates)
    decision = "NO-GO" if failed else "GO"
    text = f"{decision}: {count - failed} of {count} gates passed; the memo has the decision."
    rows = tuple(
        (
            gate.name,
            format_number(gate.value),
            f"{SENSES[gate.sense]} {gate.limit:g}",
            "pass" if gate.passed else "FAIL",
        )
        for gate in judgement.gates
    )
    return Section("Gates", text, (), ("gate", "value", "limit", ""), rows)


def _benchmark_section(judgement: Judgement) -> Section:
    header = ("policy", "alpha", "beta", "correlation", "Sharpe ratio above it", "relative drawdown")
    rows = tuple(
        (str(name), *map(number, values, ("+.1%", ".2f", ".2f", "+.2f", ".1%")))
        for name, *values in judgement.benchmark.itertuples()
    )
    index = "an equal-weight index of all symbols" if judgement.index is None else judgement.index.name
    text = (
        f"Against {index} without costs; alpha is annualised. "
        "A drawdown is a share of the highest equity before it, and never has a sign."
    )
    return Section("Against the index", text, (), header, rows)


def _regimes_section(judgement: Judgement) -> Section:
    header = ("regime", "bars", "total return", "Sharpe ratio", "bars with a gain")
    rows = tuple(
        (str(name).replace("_", " "), bars, *map(number, values, ("+.1%", "+.2f", ".0%")))
        for name, bars, *values in judgement.regimes.itertuples()
    )
    text = (
        "By the regime that most symbols were in at the close of the decision. "
        f"{int((judgement.windows > 0).sum())} of {len(judgement.windows)} equal periods of the test set had a gain."
    )
    return Section("Results by regime", text, (_window_picture(judgement),), header, rows)


def _scenario_section(title: str, text: str, table: pd.DataFrame) -> Section:
    header = ("scenario", "annual return", "Sharpe ratio", "drawdown", "costs")
    shown = table[["annual_return", "sharpe", "max_drawdown", "cost_share"]]
    rows = tuple(
        (str(name).replace("_", " "), *map(number, values, ("+.1%", "+.2f", ".1%", ".1%")))
        for name, *values in shown.itertuples()
    )
    return Section(title, text, (), header, rows)


def _assets_section(judgement: Judgement) -> Section:
    earned = judgement.contribution
    text = (
        f"What each symbol earned after costs. Concentration of the absolute shares: Herfindahl "
        f"{number(earned.herfindahl, '.3f')}, Gini {number(earned.gini, '.2f')}. "
        "The share of risk is that of the account's variance, and turnover is annual."
    )
    shown = earned.table[["pnl", "share", "risk", "turnover"]]
    forms = ("+,.0f", "+.1%", "+.1%", ".1f")
    rows = tuple((str(name), *map(number, values, forms)) for name, *values in shown.itertuples())
    header = ("symbol", "profit and loss", "share", "share of risk", "turnover")
    return Section("Contribution by asset", text, (), header, rows)


def _option_sections(judgement: Judgement) -> list[Section]:
    """Of a policy with options, those of the symbol that moved most money under its price."""
    if judgement.result.options is None:
        return []
    from pacesetter.methods.options.page import options_section

    return [options_section(judgement.result, str(judgement.contribution.table.index[0]))]


# ---- pictures -------------------------------------------------------------------------------------------------------


def equity_picture(results: Sequence[Backtest], has_equal_volatility: bool = False) -> go.Figure:
    """Equity from 100 on a log axis above the drawdown, the first policy's line the strongest.

    With `has_equal_volatility` the returns of the others are scaled to the volatility of the first: what is above it
    earned more for the same risk.
    """
    figure = make_subplots(rows=2, cols=1, shared_xaxes=True, row_heights=[0.7, 0.3], vertical_spacing=0.04)
    own = float(volatility(results[0].returns))
    for colour, result in zip(PALETTE, results, strict=False):
        other = float(volatility(result.returns))
        scale = own / other if has_equal_volatility and own > 0 and other > 0 else 1.0
        _draw(figure, result, scale, {"color": colour, "width": 2.4 if result is results[0] else 1.2})
    figure.update_yaxes(type="log", row=1, col=1)
    figure.update_yaxes(tickformat=".0%", autorange="reversed", row=2, col=1)  # hangs down, without a sign
    if has_equal_volatility:
        return style_figure(figure, f"Equity at the volatility of {results[0].name} (start = 100) and drawdown", 280)
    return style_figure(figure, "Equity (start = 100) and drawdown", 520)


def _draw(figure: go.Figure, result: Backtest, scale: float, line: Mapping[str, object]) -> None:
    rows, returns = thin_bars(len(result)), scale * result.returns
    equity = 100 * np.cumprod(1 + returns)
    common = {"x": result.times[rows], "mode": "lines", "line": line, "legendgroup": result.name, "name": result.name}
    figure.add_scatter(y=equity[rows], row=1, col=1, **common)
    figure.add_scatter(y=drawdowns(returns)[rows], row=2, col=1, showlegend=False, **common)


def _window_picture(judgement: Judgement) -> go.Figure:
    days = judgement.result.times
    starts = [days[part[0]] for part in np.array_split(np.arange(len(days)), len(judgement.windows))]
    bars = go.Bar(
        x=[f"{day:{day_form(days)}}" for day in starts],
        y=judgement.windows,
        marker_color=[PALETTE[0] if gain > 0 else PALETTE[5] for gain in judgement.windows],
    )
    return style_figure(go.Figure(bars), "Return of equal periods of the test set", 260).update_yaxes(tickformat=".0%")
