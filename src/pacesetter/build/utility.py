"""What trading agents are rewarded by where a risk is stated: mean–variance utility in place of growth."""

from __future__ import annotations

import logging
from dataclasses import replace

import numpy as np

from pacesetter.build.environments import build_fold
from pacesetter.build.plan import Plan
from pacesetter.build.trading import Trading
from pacesetter.errors import ConfigError
from pacesetter.market.orders import target_range
from pacesetter.panel import Panel
from pacesetter.rewards.reward import Term
from pacesetter.rewards.trading import TRADING

__all__ = ["with_utility"]

log = logging.getLogger(__name__)
SHARPE = 2.0  # annualised, at which an account has the volatility that is asked for: S = aversion · volatility
# Of a bar's volatility: the expected return from which the full position is worth its variance. With more, what an
# agent tries out costs it more than any signal brings, and it learns to stay in cash.
MOST_DEMANDED = 0.5


def with_utility(config: Plan, panel: Panel) -> Plan:
    """The configuration with `task.utility` written into `task.reward`, as it is stored with a run.

    The component pnl becomes mean_variance or differential_sharpe with a weight to suit; refuses mean_variance without
    an aversion to take. An aversion with which agents would stay in cash is cut, and a warning says so.
    """
    task = _trading_task(config)
    if task is None:
        return config
    utility = _utility_name(config, task)
    if utility == "reward":
        return config
    components = dict(task.reward.components)
    term: Term = components.pop("pnl")
    if utility == "differential_sharpe":
        # In the proportion of the starting weights.
        term = replace(term, weight=_plain_weight(term) * TRADING["differential_sharpe"] / TRADING["pnl"])
    else:
        term = replace(term, options={"aversion": _aversion(config, task, panel)})
    reward = replace(task.reward, components={utility: term} | components)
    return replace(config, task=replace(task, reward=reward, utility="reward", aversion=None))


def _plain_weight(term: Term) -> float:
    weight = term.weight
    if not isinstance(weight, int | float):
        raise ConfigError(
            f"task.utility=differential_sharpe needs a number as the weight of pnl, not {weight}; give one, or name "
            "differential_sharpe with its own weight in task.reward.components"
        )
    return float(weight)


def _trading_task(config: Plan) -> Trading | None:
    """The task where its agents are rewarded bar by bar; None for windows, and for direct, which has an objective."""
    if not config.problem.is_rewarded:
        return None
    return config.task if isinstance(config.task, Trading) else None


def _utility_name(config: Plan, task: Trading) -> str:
    target = config.risk.target_volatility
    if task.utility == "auto":
        has_aversion = target is not None or task.aversion is not None
        return "mean_variance" if has_aversion and "pnl" in task.reward.components else "reward"
    if task.utility == "mean_variance" and target is None and task.aversion is None:
        raise ConfigError(
            "task.utility=mean_variance has no aversion to variance; give risk.target_volatility, or task.aversion"
        )
    return task.utility


def _aversion(config: Plan, task: Trading, panel: Panel) -> float:
    """The aversion that is asked for, or the largest with which agents trade."""
    target = config.risk.target_volatility
    asked = task.aversion if task.aversion is not None else SHARPE / float(target or np.inf)
    known = panel.rows(0, int(build_fold(config, panel).train[-1]) + 1)
    names = task.symbols or panel.symbols
    moves = np.diff(np.log(known.select(names).close), axis=0)
    volatility = float(np.nanmedian(np.nanstd(moves, axis=0)))
    most = MOST_DEMANDED / max(volatility * target_range(task.market)[1], 1e-12)
    if asked <= most:
        return asked
    log.warning(
        "an aversion of %.0f to variance would keep agents in cash; %.0f is taken, with which a position at its cap "
        "needs %.0f %% of a bar's volatility; give a larger risk.target_volatility, or a smaller task.aversion",
        *(asked, most, 100 * MOST_DEMANDED),
    )
    return most
