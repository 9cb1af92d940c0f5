"""A judgement of windows on paper: sections with the verdict first, and the files that other commands read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pacesetter.evaluation.lookback.judgement import AGENT, OPTIMUM, STOCHASTIC, LookbackJudgement
from pacesetter.evaluation.lookback.pictures import (
    INDEX,
    LINK,
    REGIME,
    choices_picture,
    course_picture,
    regret_picture,
)
from pacesetter.evaluation.report.judgement_page import VERDICT, markdown
from pacesetter.evaluation.report.page import Section, number
from pacesetter.evaluation.statistics.regimes import index_returns, market_regimes
from pacesetter.evaluation.statistics.regression import RESULT
from pacesetter.evaluation.statistics.trials import RETURNS
from pacesetter.features.regime import REGIMES
from pacesetter.leadlag.engine import Engine
from pacesetter.panel import Panel
from pacesetter.runs import write_atomic

__all__ = ["BRIEF", "PRINTED", "WINDOWS", "lookback_sections", "store_lookback", "windows_table"]

HEADER = ("policy", "reward", "agent minus it", "regret", "share of the optimum", "mean window", "switches", "cost")
BRIEF = ("share of the optimum", "mean window", "cost")  # columns left out on a console of 80 letters
TRADING = ("traded value a bar", "trades a bar", "range")
PRINTED = 4  # sections of the report that a console shows too: verdict, gates, safety, liquidity
WINDOWS = "windows.parquet"  # (time, policy) windows in force, and the market beside them


def lookback_sections(judgement: LookbackJudgement, panel: Panel) -> list[Section]:
    """The sections of the report, the verdict first."""
    sections = [
        _verdict(judgement),
        _gates(judgement),
        _safety(judgement),
        _liquidity(judgement),
        _over_time(judgement, panel),
        _candidates(judgement, panel),
        _regret(judgement),
        _components(judgement),
        _regimes(judgement),
        _costs(judgement),
    ]
    return sections if judgement.worth.empty else [*sections, _downstream_section(judgement)]


def store_lookback(judgement: LookbackJudgement, panel: Panel, folder: Path, facts: Mapping[str, str]) -> None:
    """Write evaluation.json, evaluation.md, the sequences of windows and the rewards into a folder."""
    sections = lookback_sections(judgement, panel)
    write_atomic(folder / RESULT, json.dumps(judgement.to_json(), indent=2) + "\n")
    lines = "".join(f"\n{name}: {value}" for name, value in facts.items())
    write_atomic(folder / "evaluation.md", markdown(sections) + f"{lines}\n")
    names = list(judgement.evaluation.names)
    windows_table(judgement, panel).to_parquet(folder / WINDOWS)
    pd.DataFrame(judgement.evaluation.rewards, judgement.times, names).to_parquet(folder / RETURNS)


# ---- tables ---------------------------------------------------------------------------------------------------------


def _verdict(judgement: LookbackJudgement) -> Section:
    order = judgement.figures.drop(index=AGENT).sort_values("reward", ascending=False).index
    rows = tuple(_row(judgement, str(name)) for name in (AGENT, *order))
    is_evidence, headline = judgement.is_evidence, judgement.headline
    return Section(VERDICT, judgement.sentence, (), HEADER, rows, is_evidence, headline=headline)


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
        (str(name), *map(number, values, (".1%", ",.0f", ",.0f", ".2%", ".1%", ".1%")))
        for name, *values in judgement.safety.itertuples()
    )
    header = ("policy", "bars observed", *TRADING, "filter acted", "otherwise limited")
    text = (
        "How much trading the windows in force hold, on average, and at what share of the bars the liquidity filter, "
        "or history and limits of the change, kept the window that was asked for from coming into force."
    )
    return Section("Safety", text, (), header, rows)


def _liquidity(judgement: LookbackJudgement) -> Section:
    rows = tuple(
        (str(window), *map(number, values, (".1%", ",.0f", ",.0f", ".2%", ".1%")))
        for window, *values in judgement.liquidity.itertuples()
    )
    header = ("window", "bars observed", *TRADING, "filter rejects")
    text = "How much trading each candidate window holds over the test bars; trades where the data count them."
    return Section("Liquidity by window", text, (), header, rows)


def _downstream_section(judgement: LookbackJudgement) -> Section:
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
    shown = [name for name in (AGENT, STOCHASTIC, judgement.rival, OPTIMUM) if name in judgement.evaluation.names]
    text = "Index of all symbols, mean size of a link over 60 bars, and windows (median over 21 bars)."
    return Section("Windows over time", text, (course_picture(windows_table(judgement, panel), shown),))


def windows_table(judgement: LookbackJudgement, panel: Panel) -> pd.DataFrame:
    """(time, ·) what is stored of a judgement: bar, windows of every policy, index, mean link and regime."""
    evaluation = judgement.evaluation
    bars = evaluation.bars
    table = pd.DataFrame(evaluation.lookbacks, judgement.times, list(evaluation.names))
    # Places in the panel: `inspect` checks by them that the bars are still the same.
    table.insert(0, "bar", bars)
    ends, strength = _leadership(panel, judgement)
    links = pd.Series(strength, panel.index[ends]).reindex(judgement.times)
    regimes = np.array([*REGIMES, "unknown"])[market_regimes(panel)[bars]]  # −1 while none is known
    index = 100 * np.cumprod(1 + index_returns(panel)[bars])
    beside: dict[str, Any] = {INDEX: index, LINK: links, REGIME: regimes}
    return table.assign(**beside)


def _leadership(panel: Panel, judgement: LookbackJudgement) -> tuple[Any, Any]:
    """(bar,) ends and mean absolute link of windows of 60 bars over the judged bars."""
    bars = judgement.evaluation.bars
    ends = bars[:: max(len(bars) // 200, 1)]
    ends = ends[ends >= 60]
    matrices = Engine("ccf_lag1").fit(panel).many(ends, 60)
    return ends, np.nanmean(np.abs(matrices), axis=(1, 2))


def _candidates(judgement: LookbackJudgement, panel: Panel) -> Section:
    """How often each window was chosen, in all and by regime, and what it earned as a constant."""
    figure = choices_picture(windows_table(judgement, panel), AGENT, list(judgement.windows.index))
    rows = tuple(
        (str(window), *map(number, values, (".1%", ".1%", "+.4f")))
        for window, *values in judgement.windows.itertuples()
    )
    header = ("window", "agent", "optimum", "reward as a constant")
    return Section("Choices", "Share of the bars at which each window was in force.", (figure,), header, rows)


def _regret(judgement: LookbackJudgement) -> Section:
    """Cumulated reward behind the limit."""
    evaluation = judgement.evaluation
    limit = OPTIMUM if OPTIMUM in evaluation.names else evaluation.names[-1]
    rewards = pd.DataFrame(evaluation.rewards, judgement.times, list(evaluation.names))
    figure = regret_picture(rewards, (AGENT, judgement.rival, judgement.learned), limit)
    text = "Reward behind the optimum, summed over the bars; a flatter line is better."
    return Section("Regret", text, (figure,))
