"""What is printed beside a student or a fine-tuned fleet: hold, regressions and the oracle on the validation set."""

from __future__ import annotations

from typing import Any

from pacesetter.build import Plan
from pacesetter.build.environments import split_panel
from pacesetter.evaluation.backtest.backtest import backtest
from pacesetter.evaluation.baselines.catalogue import make_baseline
from pacesetter.evaluation.baselines.forecasting import Oracle
from pacesetter.evaluation.statistics.metrics import sharpe
from pacesetter.panel import Panel
from pacesetter.policies.market_rows import market_bank

__all__ = ["beside_words", "sharpe_beside"]

NAMES = ("hold", "ridge", "lasso")


def sharpe_beside(config: Plan, panel: Panel) -> dict[str, float]:
    """Annualised Sharpe ratio of each on the validation set, after costs, in one account.

    Regressions learn from the bars before it. The oracle knows what a synthetic market planted; others have none.
    """
    task, split = config.trading, split_panel(config, panel)
    bank = market_bank(split.known)
    policies: dict[str, Any] = {name: make_baseline(name, bank, task.market) for name in NAMES}
    if panel.truth is not None:
        policies["oracle"] = Oracle.from_truth(panel.truth, bank, task.market)
    played = {
        name: backtest(policy, split.known, first=split.start, market=task.market, bank=bank)
        for name, policy in policies.items()
    }
    return {name: float(sharpe(result.returns, result.bars_per_year)) for name, result in played.items()}


def beside_words(config: Plan, panel: Panel) -> str:
    """The same as a line for a console."""
    figures = ", ".join(f"{name} {value:+.2f}" for name, value in sharpe_beside(config, panel).items())
    return f"beside, Sharpe on the validation set: {figures}"
