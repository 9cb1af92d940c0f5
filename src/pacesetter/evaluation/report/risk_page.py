"""The risk of an account on paper: what its views added, what it took and realised, and what each limit cost it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from pacesetter.evaluation.backtest.backtest import Backtest, PlayOptions, backtest
from pacesetter.evaluation.backtest.cuts import describe_limits
from pacesetter.evaluation.baselines.catalogue import make_baseline
from pacesetter.evaluation.report.page import Section, number
from pacesetter.evaluation.statistics.metrics import metrics
from pacesetter.evaluation.statistics.verdict import CASH
from pacesetter.evaluation.stored_run import StoredRun
from pacesetter.market.parameters import MarketParameters
from pacesetter.market.risk import Bound, RiskColumn, RiskOptions, describe_risk

__all__ = ["RISK", "risk_section", "views_sentence"]

RISK = "Risk"
FIGURES = {
    "annual_return": "+.1%",
    "volatility": ".1%",
    "volatility_21_days": ".1%",
    "sharpe": "+.2f",
    "sharpe_21_days": "+.2f",
    "max_drawdown": ".1%",
}
HEADER = ("account", "annual return", "volatility", "by 21 days", "Sharpe ratio", "by 21 days", "drawdown")
OFF = 1e3  # a limit that binds no more
LEAST_SHARE = 0.005  # of the bars: a limit that acted less often is named, and not played without


def risk_section(run: StoredRun, own: Backtest) -> Section:
    """The sized account beside its base alone, and beside itself without each limit that acted."""
    risk, rules = run.sizing, run.task.market
    assert risk is not None
    played = {own.name: own}
    if risk.has_base:
        played |= {"its base alone": _base_alone(run, risk)}
    played |= {
        f"without {name}": _play(run, changed, limits)
        for name, (changed, limits) in _without_limits(own, risk, rules).items()
    }
    rows = tuple(
        (name, *(number(figures[each], form) for each, form in FIGURES.items()))
        for name, figures in ((name, metrics(each)) for name, each in played.items())
    )
    said = f"Stated: {describe_risk(risk)}.", views_sentence(own, risk), realised_sentence(own)
    return Section(RISK, " ".join(filter(None, (*said, describe_limits(own, risk)))), (), HEADER, rows)


def views_sentence(own: Backtest, risk: RiskOptions) -> str:
    """Whether the portfolio is more than its base, and by how much."""
    base = risk.base.replace("_", " ") if isinstance(risk.base, str) else "the given weights"
    views = np.nan_to_num(own.orders)
    if not views.any() or risk.scale == 0:
        if not risk.has_base:
            return "No view was found: the portfolio is cash."
        at = "" if risk.target_volatility is None else f" sized to {risk.target_volatility:.0%} volatility a year"
        return f"No view was found: the portfolio is its base, {base}{at}, and nothing else."
    assert own.risk is not None
    moved = np.abs(views).sum(axis=1) * own.risk[:, RiskColumn.SCALE]
    share = float((np.abs(views).sum(axis=1) > 0).mean())
    around = f"around its base, {base}," if risk.has_base else "of equity"
    return f"Views asked for {moved.mean():.1%} {around} on average, at {share:.0%} of the bars."


def realised_sentence(own: Backtest) -> str:
    """Volatility as it was expected after the limits, and as it came."""
    assert own.risk is not None
    expected = float(np.sqrt(np.square(own.risk[:, RiskColumn.VOLATILITY_AFTER]).mean()))
    if expected == 0:
        return ""
    figures = metrics(own)
    monthly = figures["volatility_21_days"]  # unknown where the test is shorter than a few months
    by_months = f" by bars and {monthly:.1%} by 21 days" if np.isfinite(monthly) else ""
    return f"Expected volatility after limits {expected:.1%}, realised {figures['volatility']:.1%}{by_months}."


def _base_alone(run: StoredRun, risk: RiskOptions) -> Backtest:
    cash = make_baseline(CASH, run.bank(run.panel), run.task.market)
    return backtest(cash, run.panel, first=run.first, **_options(run, replace(risk, scale=0.0), run.task.market))


def _play(run: StoredRun, risk: RiskOptions, rules: MarketParameters) -> Backtest:
    return backtest(run.policy, run.panel, first=run.first, **_options(run, risk, rules))


def _options(run: StoredRun, risk: RiskOptions, rules: MarketParameters) -> PlayOptions:
    return {"market": rules, "bank": run.bank(run.panel), "window_bars": run.task.window_bars, "risk": risk}


def _without_limits(
    own: Backtest, risk: RiskOptions, rules: MarketParameters
) -> Mapping[str, tuple[RiskOptions, MarketParameters]]:
    """Limit that acted -> the same account without it."""
    assert own.risk is not None
    bits, limits = own.risk[:, RiskColumn.LIMITS].astype(int), rules.limits
    free = {
        Bound.POSITION_CAP: replace(limits, position_cap_fraction=OFF),
        Bound.LONG_ONLY: replace(limits, shorting=True),
        Bound.LEVERAGE: replace(limits, gross_leverage=OFF),
    }
    names = {
        Bound.POSITION_CAP: f"market.position_cap={limits.position_cap_fraction:g}",
        Bound.LONG_ONLY: "market.shorting=false",
        Bound.LEVERAGE: f"market.leverage={limits.gross_leverage:g}",
    }
    acted = [each for each in free if float(((bits & each) != 0).mean()) >= LEAST_SHARE]
    accounts = {names[each]: (risk, replace(rules, limits=free[each])) for each in acted}
    if risk.has_base and float(((bits & Bound.TRACKING_ERROR) != 0).mean()) >= LEAST_SHARE:
        accounts[f"risk.tracking_error={risk.tracking_error:g}"] = replace(risk, tracking_error=None), rules
    return accounts
