"""A judgement of windows on paper: sections with the verdict first, and the files that other commands read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from pacesetter.evaluation.lookback.judgement import AGENT, OPTIMUM, STOCHASTIC, LookbackJudgement
from pacesetter.evaluation.report.judgement_page import VERDICT, markdown
from pacesetter.evaluation.report.page import Section, number
from pacesetter.evaluation.report.pictures import PALETTE, styled, thinned
from pacesetter.evaluation.statistics.regimes import index_returns, market_regimes
from pacesetter.evaluation.statistics.regression import RESULT
from pacesetter.evaluation.statistics.trials import RETURNS
from pacesetter.features.regime import REGIMES
from pacesetter.leadlag.engine import LeadLag
from pacesetter.panel import Panel
from pacesetter.runs import write_atomic

__all__ = ["BRIEF", "WINDOWS", "lookback_sections", "store_lookback"]

HEADER = ("policy", "reward", "agent minus it", "regret", "share of the optimum", "mean window", "switches", "cost")
BRIEF = ("share of the optimum", "mean window", "cost")  # columns left out on a console of 80 letters
WINDOWS = "windows.parquet"  # (time, policy) windows in force


def lookback_sections(judgement: LookbackJudgement, panel: Panel) -> list[Section]:
    """The sections of the report, the verdict first."""
    sections = [
        _verdict(judgement),
        _gates(judgement),
        _over_time(judgement, panel),
        _candidates(judgement, panel),
        _regret(judgement),
        _components(judgement),
        _regimes(judgement),
        _costs(judgement),
        _safety(judgement),
    ]
    return sections if judgement.worth.empty else [*sections, _worth(judgement)]


def store_lookback(judgement: LookbackJudgement, panel: Panel, folder: Path, facts: Mapping[str, str]) -> None:
    """Write evaluation.json, evaluation.md, the sequences of windows and the rewards into a folder."""
    sections = lookback_sections(judgement, panel)
    write_atomic(folder / RESULT, json.dumps(judgement.to_json(), indent=2) + "\n")
    lines = "".join(f"\n{name}: {value}" for name, value in facts.items())
    write_atomic(folder / "evaluation.md", markdown(sections) + f"{lines}\n")
    names = list(judgement.evaluation.names)
    windows = pd.DataFrame(judgement.evaluation.lookbacks, judgement.times, names)
    windows.insert(0, "bar", judgement.evaluation.bars)
    windows.to_parquet(folder / WINDOWS)
    pd.DataFrame(judgement.evaluation.rewards, judgement.times, names).to_parquet(folder / RETURNS)


# ---- tables ---------------------------------------------------------------------------------------------------------


def _verdict(judgement: LookbackJudgement) -> Section:
    order = judgement.figures.drop(index=AGENT).sort_values("reward", ascending=False).index
    rows = tuple(_row(judgement, str(name)) for name in (AGENT, *order))
    return Section(VERDICT, judgement.sentence, (), HEADER, rows, judgement.is_evidence)


def _row(judgement: LookbackJudgement, name: str) -> tuple[str, ...]:
    row: Any = judgement.figures.loc[name]
    own = judgement.intervals[name]
    gap = judgement.differences.get(name)
    return (
        name,
        f"{own.value:+.4f} ({own.low:+.4f} to {own.high:+.4f})",
        "–" if gap is None else f"{gap.value:+.4f} ({gap.low:+.4f} to {gap.high:+.4f})",
        number(row["regret"], ".4f"),
        number(row["share of the optimum"], ".0%"),
        number(row["mean_lookback"], ".0f"),
        number(row["switches"], ".1%"),
        number(row["switching cost"], ".5f"),
    )


def _gates(judgement: LookbackJudgement) -> Section:
    failed = sum(not gate.passed for gate in judgement.gates)
    text = f"{'NO-GO' if failed else 'GO'}: {len(judgement.gates) - failed} of {len(judgement.gates)} gates passed."
    rows = tuple(
        (gate.name, number(gate.value, "+.4f"), f"{gate.sense} {gate.limit:g}", "pass" if gate.passed else "FAIL")
        for gate in judgement.gates
    )
    return Section("Gates", text, (), ("gate", "value", "limit", ""), rows)


def _components(judgement: LookbackJudgement) -> Section:
    names = judgement.evaluation.components
    rows = tuple(
        (str(policy), *(f"{row[name]:+.4f} ± {number(row[f'{name}_se'], '.4f')}" for name in names))
        for policy, row in judgement.figures.iterrows()
    )
    text = "Mean of each component of the reward before weights, ± one standard error of block means."
    return Section("Components of the reward", text, (), ("policy", *names), rows)


def _regimes(judgement: LookbackJudgement) -> Section:
    rows = tuple(
        (str(name).replace("_", " "), bars, *map(number, values, ("+.4f", "+.4f", "+.4f", ".0f")))
        for name, bars, *values in judgement.regimes.itertuples()
    )
    header = ("regime", "bars", "agent", judgement.learned, judgement.evaluation.names[-1], "mean window")
    text = (
        f"By the regime that most symbols were in at the decision; '{judgement.learned}' is the training set's choice."
    )
    return Section("Results by regime", text, (), header, rows)


def _costs(judgement: LookbackJudgement) -> Section:
    names = [name for name in judgement.costs if name in (AGENT, judgement.rival, judgement.learned, OPTIMUM)]
    rows = tuple(
        (f"{factor:g}×", *(number(row[name], "+.4f") for name in names)) for factor, row in judgement.costs.iterrows()
    )
    text = "Mean reward of the same windows where a switch costs that many times as much; nothing is chosen again."
    return Section("Costs of switching", text, (), ("cost", *map(str, names)), rows)


def _safety(judgement: LookbackJudgement) -> Section:
    rows = tuple(
        (str(name), *map(number, values, (".1%", ",.0f", ".2%", ".1%", ".1%")))
        for name, *values in judgement.safety.itertuples()
    )
    header = ("policy", "bars observed", "traded value a bar", "range", "filter acted", "otherwise limited")
    text = (
        "How much trading the windows in force hold, on average, and at what share of the bars the liquidity filter, "
        "or history and limits of the change, kept the window that was asked for from coming into force."
    )
    return Section("Safety", text, (), header, rows)


def _worth(judgement: LookbackJudgement) -> Section:
    rows = tuple(
        (
            str(row["rule"]),
            str(row["windows"]),
            number(row["annual_return"], "+.1%"),
            number(row["sharpe"], "+.2f"),
            f"{row['difference']:+.2f} ({row['low']:+.2f} to {row['high']:+.2f})",
            number(row["cost_share"], ".1%"),
        )
        for _, row in judgement.worth.iterrows()
    )
    header = ("trader", "windows by", "annual return", "Sharpe ratio", f"minus {judgement.learned}", "costs")
    text = (
        "The same trader, not retrained, fed by the lead–lag features of different windows over the test bars, net of "
        "costs and filled like every backtest. The optimum's windows know every later bar."
    )
    return Section("Worth downstream", text, (), header, rows)


# ---- pictures -------------------------------------------------------------------------------------------------------


def _over_time(judgement: LookbackJudgement, panel: Panel) -> Section:
    """Windows under the market's index and the leadership of the market."""
    figure = make_subplots(rows=3, cols=1, shared_xaxes=True, row_heights=[0.3, 0.25, 0.45], vertical_spacing=0.04)
    rows = thinned(len(judgement.times))
    index = 100 * np.cumprod(1 + index_returns(panel)[judgement.evaluation.bars])
    figure.add_scatter(x=judgement.times[rows], y=index[rows], name="index", mode="lines", row=1, col=1)
    ends, strength = _leadership(panel, judgement)
    figure.add_scatter(x=panel.index[ends], y=strength, name="mean lead–lag link", mode="lines", row=2, col=1)
    shown = [name for name in (AGENT, STOCHASTIC, judgement.rival, OPTIMUM) if name in judgement.evaluation.names]
    for colour, name in zip(PALETTE[2:], dict.fromkeys(shown), strict=False):
        chosen = pd.Series(judgement.evaluation.lookbacks[:, judgement.evaluation.place(name)])
        course = chosen.rolling(21, min_periods=1).median().to_numpy()
        line = {"color": colour, "width": 2.2 if name == AGENT else 1.0}
        figure.add_scatter(x=judgement.times[rows], y=course[rows], name=name, mode="lines", line=line, row=3, col=1)
    figure.update_yaxes(type="log", row=3, col=1, title="window (bars)")
    text = "Index of all symbols, mean size of a link at the middle window, and windows (median over 21 bars)."
    return Section("Windows over time", text, (styled(figure, "Price, leadership and windows", 560),))


def _leadership(panel: Panel, judgement: LookbackJudgement) -> tuple[Any, Any]:
    """(bar,) ends and mean absolute link of windows of 60 bars over the judged bars."""
    bars = judgement.evaluation.bars
    ends = bars[:: max(len(bars) // 200, 1)]
    ends = ends[ends >= 60]
    matrices = LeadLag("ccf_lag1").fit(panel).many(ends, 60)
    return ends, np.nanmean(np.abs(matrices), axis=(1, 2))


def _candidates(judgement: LookbackJudgement, panel: Panel) -> Section:
    """How often each window was chosen, in all and by regime, and what it earned as a constant."""
    regimes = market_regimes(panel)[judgement.evaluation.bars]
    own = judgement.evaluation.lookbacks[:, judgement.evaluation.place(AGENT)]
    figure = go.Figure()
    labels = [str(bars) for bars in judgement.windows.index]
    for code, name in enumerate(REGIMES):
        bars = own[regimes == code]
        if len(bars):
            shares = [float((bars == window).mean()) for window in judgement.windows.index]
            figure.add_bar(x=labels, y=shares, name=f"{name.replace('_', ' ')} ({len(bars)} bars)")
    styled(figure.update_layout(barmode="group"), "Share of the bars by regime", 320).update_yaxes(tickformat=".0%")
    figure.update_xaxes(type="category", title="window (bars)")
    rows = tuple(
        (str(window), *map(number, values, (".1%", ".1%", "+.4f")))
        for window, *values in judgement.windows.itertuples()
    )
    header = ("window", "agent", "optimum", "reward as a constant")
    return Section("Choices", "Share of the bars at which each window was in force.", (figure,), header, rows)


def _regret(judgement: LookbackJudgement) -> Section:
    """Cumulated reward behind the limit."""
    evaluation, rows = judgement.evaluation, thinned(len(judgement.times))
    limit = evaluation.rewards[:, evaluation.place(OPTIMUM if OPTIMUM in evaluation.names else evaluation.names[-1])]
    figure = go.Figure()
    for name in dict.fromkeys((AGENT, judgement.rival, judgement.learned)):
        regret = np.cumsum(limit - evaluation.rewards[:, evaluation.place(name)])
        figure.add_scatter(x=judgement.times[rows], y=regret[rows], name=name, mode="lines")
    text = "Reward behind the optimum, summed over the bars; a flatter line is better."
    return Section("Regret", text, (styled(figure, "Cumulated regret", 320),))
