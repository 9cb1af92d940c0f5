"""Perpetuals after funding: direct, hold, carry and inverse volatility on 36 hourly contracts, and with funding off.

python benchmarks/perpetuals.py FILE [--record]

FILE is the set of 36 perpetuals (timestamp, symbol, open … volume, funding_rate), stamped at opens. Direct learns on
the first 60 % of the bars; all are judged on the rest, in one account with cross margin, at 5 bps a side.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

from record import publish, table

import pacesetter as ps
from pacesetter.envs.batch.bank import Bank
from pacesetter.evaluation.backtest.backtest import Backtest, backtest
from pacesetter.evaluation.baselines.catalogue import make_baseline
from pacesetter.evaluation.statistics.metrics import metrics
from pacesetter.features import feature_table
from pacesetter.market import Column, Costs, Flag, Limits, MarketParameters
from pacesetter.market.parameters import Margin
from pacesetter.methods.direct.learner import DirectLearner
from pacesetter.methods.direct.options import Direct
from pacesetter.panel import Panel
from pacesetter.policies.agent import AgentPolicy

SHARE, ROUNDS = 0.6, 8
MARKET = MarketParameters(
    costs=Costs(commission_bps=5.0, spread_bps=0.0, slippage_bps=0.0),
    limits=Limits(position_cap_fraction=0.15, gross_leverage=2.0, shorting=True),
    margin=Margin("cross", maintenance=0.05),
)


def whole(panel: Panel) -> Bank:
    return Bank.from_panels(panel, feature_table(panel, ["return_1"]), is_whole=True)


def learn(panel: Panel, until: int, market: MarketParameters) -> DirectLearner:
    """Direct on the bars before `until`, which it alone sees."""
    config = Direct(seed=1)
    learner = DirectLearner(whole(panel.rows(0, until)), market, config)
    learner.learn(ROUNDS * config.segments * config.segment_bars)
    return learner


def row_of(name: str, played: Backtest, free: Backtest, years: float) -> list[Any]:
    figures, ledger = metrics(played), played.ledger
    paid = ledger[:, Column.FUNDING] / ledger[:, Column.EQUITY_BEFORE]
    liquidated = int((ledger[:, Column.FLAGS].astype(int) & Flag.LIQUIDATED != 0).sum())
    shares = (figures["annual_return"], figures["volatility"], figures["max_drawdown"], paid.sum() / years)
    words = [f"{100 * value:+.1f} %" for value in shares]
    words.append(f"{100 * metrics(free)['annual_return']:+.1f} %")
    return [name, words[0], words[1], f"{figures['sharpe']:.2f}", words[2], words[3], words[4], liquidated]


def main() -> None:
    path = next(word for word in sys.argv[1:] if not word.startswith("--"))
    sys.argv.remove(path)
    panel = ps.load(path, stamp="open")
    until = int(SHARE * len(panel))
    bank = whole(panel)
    years = (len(panel) - 1 - until) / panel.bars_per_year
    rules = replace(MARKET, bars_per_year=panel.bars_per_year)
    learner = learn(panel, until, rules)
    direct = AgentPolicy(learner.agent, "direct", "target", is_whole=True)
    rows = []
    for name in ("direct", "hold", "carry", "inverse_volatility"):
        results = []
        for market in (rules, replace(rules, funding="none")):
            policy = direct if name == "direct" else make_baseline(name, bank, market)
            window = learner.config.history_bars if name == "direct" else 24
            results.append(backtest(policy, panel, first=until, market=market, bank=bank, window_bars=window))
        rows.append(row_of(name, *results, years))
    header = [
        "",
        "a year",
        "volatility",
        "Sharpe",
        "drawdown",
        "funding a year",
        "a year without funding",
        "liquidations",
    ]
    span = f"{panel.index[until]:%Y-%m-%d} → {panel.index[-1]:%Y-%m-%d}"
    said = (
        f"{len(panel.symbols)} perpetuals, hourly, judged on {span} ({len(panel) - 1 - until:,} bars), 5 bps a side, "
        "leverage 2, position cap .15, cross margin. Funding is what was received in shares of equity, negative where "
        "it was paid. Survivors by volume; one year; nothing was tuned on these bars."
    )
    publish("perpetuals", f"{said}\n\n{table(header, rows)}", "Perpetuals after funding")


if __name__ == "__main__":
    main()
