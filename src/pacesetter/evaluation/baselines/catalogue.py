"""The baselines by name, made for a market and played over the same bars in one call."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

import pandas as pd

from pacesetter.envs.batch.bank import Bank
from pacesetter.evaluation.backtest.backtest import Backtest, PlayOptions, backtest, risk_tables
from pacesetter.evaluation.backtest.refitted import RefittedPolicy
from pacesetter.evaluation.baselines.baseline import BASELINES, Baseline
from pacesetter.evaluation.baselines.forecasting import Forecasting
from pacesetter.evaluation.baselines.sized import SizedForecast
from pacesetter.evaluation.statistics.verdict import CASH
from pacesetter.features.table import FeatureTable
from pacesetter.market.parameters import MarketParameters
from pacesetter.market.risk import RiskOptions, fit_scale
from pacesetter.panel import Panel
from pacesetter.policies.market_rows import market_bank
from pacesetter.policies.policy import Policy, Snapshot
from pacesetter.progress import LogLines

__all__ = [
    "BASELINES",
    "drop_equal",
    "evaluate_baselines",
    "group_equal",
    "left_out_sentence",
    "make_baseline",
    "possible_baselines",
]


def make_baseline(name: str, bank: Bank, market: MarketParameters | None = None, **options: object) -> Baseline:
    """The registered baseline `name` with the options that the market gives it; refuses an unknown name or option."""
    return BASELINES[name].on(bank, market or MarketParameters(), **options)


def possible_baselines(bank: Bank) -> list[str]:
    """Names of the default baselines that find in the bank what they need, cash first and then by the alphabet.

    Of equal ones the first is counted (see `drop_equal`).
    """
    possible = (name for name in BASELINES if BASELINES[name].is_default and not BASELINES[name].lacks(bank))
    # Cash first: all others are judged in excess of it.
    return sorted(possible, key=lambda name: (name != CASH, name))


def left_out_sentence(bank: Bank) -> str:
    """Which registered baselines are not possible, and what they need; empty where all are."""
    by_need: dict[str, list[str]] = {}
    for name in sorted(BASELINES):
        by_need.setdefault(BASELINES[name].lacks(bank), []).append(name)
    by_need.pop("", None)
    parts = [f"{', '.join(names)} without {need}" for need, names in by_need.items()]
    return f"Left out: {'; '.join(parts)}." if parts else ""


def evaluate_baselines(
    panel: Panel,
    first: int,
    names: Sequence[str] | None = None,
    *,
    last: int | None = None,
    market: MarketParameters | None = None,
    table: FeatureTable | None = None,
    bank: Bank | None = None,
    window_bars: int = 24,
    risk: RiskOptions | None = None,
    refits: pd.DatetimeIndex | None = None,
    tell: Callable[[str], object] | None = None,
) -> dict[str, Backtest]:
    """The named baselines, or all possible defaults, over the same bars; options are those of `backtest`.

    `refits` are the moments at which those that fit a forecast fit it again, from all bars known then.
    Around a base the views of a regression are signed, as an agent's are; long-only holds for the sum. Where `risk` has
    no scale, each fit of a sized regression brings its own, measured on bars that it was not fitted to. `tell` hears
    how many are played, where that takes long.
    """
    bank = market_bank(panel, table) if bank is None else bank
    chosen = [_make_views(name, bank, market, risk) for name in names or possible_baselines(bank)]
    played: dict[str, Backtest] = {}
    lines = LogLines("played", len(chosen), "baselines", tell or (lambda line: None))
    for baseline in chosen:
        moments = panel.index[[first]] if refits is None else refits
        policy, step = _refit_policy(baseline, panel, moments, market or MarketParameters(), risk)
        options: PlayOptions = {"market": market, "bank": bank, "window_bars": window_bars, "risk": step}
        played[baseline.name] = backtest(policy, panel, first=first, last=last, **options)
        lines.update(len(played))
    return played


def _make_views(name: str, bank: Bank, market: MarketParameters | None, risk: RiskOptions | None) -> Baseline:
    """The baseline as its account needs it: views around a base are signed, and no budget binds what a step sizes."""
    rules = market or MarketParameters()
    if risk is not None and risk.has_base:
        rules = replace(rules, limits=replace(rules.limits, shorting=True))
    if risk is not None and risk.is_on and issubclass(BASELINES[name], SizedForecast):
        # Signed views of 143 symbols are 19 times equity before the step. Within a budget of 1 they would be compared
        # with shares of another size, no zone would hold, and the whole book would be traded at each bar.
        return make_baseline(name, bank, rules, budget=math.inf)
    return make_baseline(name, bank, rules)


def _refit_policy(
    baseline: Baseline, panel: Panel, refits: pd.DatetimeIndex, market: MarketParameters, risk: RiskOptions | None
) -> tuple[Policy, RiskOptions | None]:
    """A baseline that fits itself again at each of the moments, and its risk; any other as it is."""
    if not isinstance(baseline, Forecasting):
        return baseline, risk
    fits, scales = (baseline,) * len(refits), tuple[float, ...]()
    if isinstance(baseline, SizedForecast) and risk is not None and risk.is_on and risk.scale is None:
        places, shorting = panel.index.get_indexer(refits).tolist(), market.limits.shorting
        scales = tuple(_measure_scale(baseline, panel, t, risk, shorting) for t in places)
        risk = replace(risk, scale=1.0)
    return RefittedPolicy(fits, refits, scales), risk


def _measure_scale(baseline: SizedForecast, panel: Panel, t: int, risk: RiskOptions, shorting: bool) -> float:
    """k̄ of a regression that is fitted at the close of bar t; 0 where it stays in cash."""
    start, views = baseline.unseen_views(Snapshot(replace(panel, truth=None).rows(0, t + 1), t, {}, first=t))
    return fit_scale(views, risk_tables(panel, risk), risk, start, shorting=shorting) if len(views) else 0.0


def drop_equal(results: Mapping[str, Backtest], explained: Collection[str] = ()) -> tuple[dict[str, Backtest], str]:
    """The results without those whose returns equal an earlier one's bit for bit, and a sentence that names them.

    Few symbols under a position cap leave nothing to divide, so that allocations become one and the same. Those that
    are `explained` elsewhere are dropped without being named.
    """
    groups = group_equal(results)
    named = [(first, [name for name in same if name not in explained]) for first, *same in groups]
    said = [
        f"{', '.join(same)} {'has' if len(same) == 1 else 'have'} the same returns as {first} at every bar"
        for first, same in named
        if same
    ]
    note = f"Shown and counted once: {'; '.join(said)}." if said else ""
    return {first: results[first] for first, *_ in groups}, note


def group_equal(results: Mapping[str, Backtest]) -> list[list[str]]:
    """Names of the results in groups whose returns are equal bit for bit, in the order of the first of each."""
    names: dict[bytes, list[str]] = {}
    for name, result in results.items():
        names.setdefault((result.returns + 0.0).tobytes(), []).append(name)  # -0.0 becomes 0.0
    return list(names.values())
