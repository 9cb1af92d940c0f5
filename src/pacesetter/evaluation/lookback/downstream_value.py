"""What windows are worth downstream: the same trader fed by different schedules, net of all costs.

The `expected` rule, and a stored trader where one is given, trade the test bars with the lead–lag features of each
schedule. Nothing is retrained, and all schedules agree before the test bars, so that only the windows there differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from pacesetter.arrays import Array
from pacesetter.envs.lookback.batch import LookbackConfig
from pacesetter.errors import ConfigError, DataError
from pacesetter.evaluation.backtest.backtest import Backtest, backtest
from pacesetter.evaluation.baselines.catalogue import make_baseline
from pacesetter.evaluation.lookback.judgement import AGENT, OPTIMUM, LookbackJudgement
from pacesetter.evaluation.statistics.intervals import paired_difference
from pacesetter.evaluation.statistics.metrics import metrics, sharpe
from pacesetter.features import feature_table
from pacesetter.leadlag.lookback.policy import StoredLookback
from pacesetter.leadlag.signals import leadlag_features
from pacesetter.market.parameters import MarketParameters
from pacesetter.panel import Panel
from pacesetter.policies.market_rows import market_bank

if TYPE_CHECKING:
    from pacesetter.evaluation.stored_run import StoredRun

__all__ = ["EXPECTED", "downstream_sentences", "downstream_table"]

EXPECTED = "expected"
HISTORY_BARS = 750  # before the test bars, from which the rule takes its thresholds


def downstream_table(
    judgement: LookbackJudgement,
    panel: Panel,
    config: LookbackConfig,
    *,
    trader: StoredRun | None = None,
    draws: int = 1000,
    seed: int = 0,
) -> pd.DataFrame:
    """(rule, schedule) annual return, Sharpe ratio, costs, and the difference to the constant chosen on training bars.

    Refuses a trader of other bars, and one that reads no lead–lag features.
    """
    schedules = dict(_schedules(judgement, len(panel)))
    results = {EXPECTED: _by_rule(schedules, panel, judgement, config)}
    if trader is not None:
        results[f"trader {trader.folder.name}"] = _by_trader(schedules, panel, trader, judgement)
    rows = {
        (rule, name): _row(each, played[judgement.learned], draws, seed)
        for rule, played in results.items()
        for name, each in played.items()
    }
    index = pd.MultiIndex.from_tuples(rows, names=["rule", "windows"])
    return pd.DataFrame(list(rows.values()), index=index).reset_index()


def downstream_sentences(worth: pd.DataFrame, learned: str) -> tuple[str, ...]:
    """What the agent's windows add for each rule, in words; a window that earns nothing is said to."""
    said = []
    for rule, table in worth.groupby("rule", sort=False):
        rows = table.set_index("windows")
        own = rows.loc[AGENT]
        gap = f"{own['difference']:+.2f} ({own['low']:+.2f} to {own['high']:+.2f})"
        begun = f"Downstream, '{rule}' has a net Sharpe ratio of {own['sharpe']:+.2f} with its windows"
        if own["low"] > 0:
            said.append(f"{begun}, {gap} more than with '{learned}'.")
        elif own["high"] < 0:
            said.append(f"{begun}, less than with '{learned}': {gap}.")
        else:
            said.append(f"{begun}; they earn nothing beyond '{learned}' that could be told from luck: {gap}.")
    return tuple(said)


def _schedules(judgement: LookbackJudgement, bars: int) -> Iterator[tuple[str, Array]]:
    """Name -> (time,) windows of the whole panel; before the test bars all have the constant chosen there."""
    evaluation = judgement.evaluation
    constant = int(judgement.learned.removeprefix("constant "))
    best = max((n for n in evaluation.names if n.startswith("constant ")), key=lambda n: judgement.intervals[n].value)
    limit = OPTIMUM if OPTIMUM in evaluation.names else evaluation.names[-1]
    for name in dict.fromkeys((AGENT, judgement.learned, best, limit)):
        # The same window before the test bars for all: thresholds fitted there do not differ between schedules.
        schedule = np.full(bars, constant, dtype=np.int64)
        chosen = evaluation.lookbacks[:, evaluation.place(name)]
        schedule[evaluation.bars] = chosen
        schedule[evaluation.bars[-1] + 1 :] = chosen[-1]
        yield name, schedule


def _by_rule(
    schedules: Mapping[str, Array], panel: Panel, judgement: LookbackJudgement, config: LookbackConfig
) -> dict[str, Backtest]:
    """The `expected` rule with each schedule, on as much history as it needs."""
    first = int(judgement.evaluation.bars[0])
    start = max(first - HISTORY_BARS - config.windows.longest, 0)
    part, market = panel.rows(start, None), MarketParameters(costs=config.costs, bars_per_year=panel.bars_per_year)
    played = {}
    for name, schedule in schedules.items():
        # At most as many bars as lie before each: the first rows of the cut panel have less history.
        own = StoredLookback(np.minimum(schedule[start:], np.maximum(np.arange(len(part)), 2)))
        features = leadlag_features(config.view.method, own, **config.view.options)
        bank = market_bank(part, feature_table(part, ("return_1",), features))
        rule = make_baseline(EXPECTED, bank, market)
        played[name] = backtest(rule, part, first=first - start, market=market, bank=bank, window_bars=2)
    return played


def _by_trader(
    schedules: Mapping[str, Array], panel: Panel, trader: StoredRun, judgement: LookbackJudgement
) -> dict[str, Backtest]:
    """A stored trader with each schedule in place of the lookback that it was trained with."""
    asked = trader.config.features.leadlag
    if not asked.is_on:
        raise ConfigError(
            f"{trader.folder} reads no lead–lag features, so windows change nothing for it; give a trader with "
            "features.leadlag.lookback"
        )
    if trader.panel.fingerprint != panel.fingerprint:
        raise DataError(f"{trader.folder} trades other bars than the lookback agent; train both on the same data")
    # Bars that neither the lookback agent nor the trader has seen.
    first = max(int(judgement.evaluation.bars[0]), trader.first)
    rules, window_bars = trader.task.market, trader.task.window_bars
    names, played = trader.table.names, {}
    for name, schedule in schedules.items():
        features = leadlag_features(asked.method, StoredLookback(schedule), **asked.options)
        plain = tuple(each for each in names if not each.startswith("leadlag_"))
        bank = market_bank(panel, feature_table(panel, plain, features))
        played[name] = backtest(trader.policy, panel, first=first, market=rules, bank=bank, window_bars=window_bars)
    return played


def _row(own: Backtest, constant: Backtest, draws: int, seed: int) -> dict[str, float]:
    figures, ratio = metrics(own), partial(sharpe, bars_per_year=own.bars_per_year)
    gap = paired_difference(own.returns, constant.returns, ratio, draws=draws, seed=seed)
    kept = {
        name: float(figures[name]) for name in ("annual_return", "sharpe", "max_drawdown", "turnover", "cost_share")
    }
    return kept | {"difference": gap.value, "low": gap.low, "high": gap.high}
