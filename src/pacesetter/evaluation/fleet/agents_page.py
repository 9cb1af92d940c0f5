"""The agents of a fleet on a page: a row for each, what they order, and how they came to it. Reads a run folder."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import plotly.graph_objects as go

from pacesetter.evaluation.fleet.agents import STRUGGLER, fleet_sentence, read_agents
from pacesetter.evaluation.report.page import Section
from pacesetter.evaluation.report.pictures import PALETTE, style_figure

__all__ = [
    "action_figure",
    "agents_section",
    "curves_figure",
    "validation_curves",
]

ORDERS = {"sell": PALETTE[5], "hold": PALETTE[7], "buy": PALETTE[0]}


def validation_curves(folder: Path) -> pd.DataFrame:
    """(step, symbol) Sharpe ratios of the validations while the fleet learned."""
    lines = map(json.loads, (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
    by_step = {line["step"]: line["agents_validation"] for line in lines if "agents_validation" in line}
    return pd.DataFrame.from_dict(by_step, orient="index").rename_axis("step")


def agents_section(folder: Path) -> Section:
    """Table and pictures of the agents on the validation set, the best first."""
    table = read_agents(folder).sort_values("sharpe", ascending=False, kind="stable")
    text = (
        "Each agent alone on the validation set, which selected the fleet and is not evidence for it: "
        f"{fleet_sentence(table)}. An agent whose Sharpe ratio is not above the bar struggles: by cost where it would "
        "be above it without costs, by collapse where one action takes too large a share, else by lack of a signal. It "
        "is retrained from scratch on the shared encoder, and the better head is kept."
    )
    header = ("symbol", "Sharpe ratio", "drawdown", "trades", "entropy", "main action", "reason", "retrained")
    figures = (curves_figure(validation_curves(folder), table), action_figure(table))
    return Section("Agents", text, figures, header, tuple(_row(row) for _, row in table.iterrows()))


def _row(row: pd.Series) -> tuple[object, ...]:
    return (
        row["symbol"],
        f"{row['sharpe']:+.2f}",
        f"{row['drawdown']:.1%}",
        int(row["trades"]),
        f"{row['entropy']:.2f}",
        f"{row['main_share']:.0%}",
        row["reason"],
        row["retrained"],
    )


def curves_figure(curves: pd.DataFrame, table: pd.DataFrame) -> go.Figure:
    """Validation Sharpe ratio of every agent by its steps, strugglers in a colour of their own, the median on top."""
    weak = set(table.loc[table["state"] == STRUGGLER, "symbol"])
    groups = {
        "above the bar": ([name for name in curves if name not in weak], PALETTE[4]),
        "struggler": ([name for name in curves if name in weak], PALETTE[5]),
    }
    figure = go.Figure()
    for label, (symbols, colour) in groups.items():
        # All agents of a group in one trace, broken by None: a trace for each of 143 would slow the browser.
        steps = [step for _ in symbols for step in (*curves.index, None)]
        values = [value for symbol in symbols for value in (*curves[symbol], None)]
        names = [symbol for symbol in symbols for _ in range(len(curves) + 1)]
        line = {"width": 1, "color": colour}
        figure.add_scatter(x=steps, y=values, text=names, name=label, mode="lines", line=line, opacity=0.55)
    median = curves.median(axis=1)
    figure.add_scatter(x=curves.index, y=median, name="median", mode="lines", line={"width": 3, "color": PALETTE[0]})
    titled = style_figure(figure, f"Validation Sharpe ratio of {len(table)} agents", 420)
    return titled.update_xaxes(title="steps of each agent").update_yaxes(title="Sharpe ratio")


def action_figure(table: pd.DataFrame) -> go.Figure:
    """Shares of sell, hold and buy among each agent's orders on the validation set."""
    figure = go.Figure()
    for order, colour in ORDERS.items():
        figure.add_bar(x=table["symbol"], y=table[order], name=order, marker={"color": colour})
    figure.update_layout(barmode="stack", bargap=0.1)
    return style_figure(figure, "Orders of each agent").update_yaxes(range=[0, 1], tickformat=".0%")
