"""What an agent did in a stored episode: its orders by symbol and hour, its reward, its trades, and why it acted."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from pacesetter.dashboard.texts import say
from pacesetter.errors import RunError
from pacesetter.evaluation.backtest.episode import Episode
from pacesetter.evaluation.explain.behaviour import DIVERGING, BehaviourFinding
from pacesetter.evaluation.explain.explanation import explain_agent
from pacesetter.evaluation.report.pictures import PALETTE, style_figure
from pacesetter.evaluation.stored_run import StoredRun
from pacesetter.policies.agent import AgentPolicy

__all__ = [
    "cut_episode",
    "episode_folders",
    "explain",
    "most_traded",
    "order_shares",
    "orders_by_hour",
    "orders_figure",
    "reward_figure",
    "reward_parts",
    "when_figure",
]

EPISODES = (".", "evaluation", "judge")
DAY = pd.Timedelta("20h")  # a close a day; it moves by an hour in summer
EXPLAINED_BARS, EXPLAINED_DECISIONS = 60, 24  # enough for a picture, few enough for a page


def episode_folders(folder: Path) -> dict[str, Path]:
    """Name -> folder of each stored episode of a run: the validation's, and the judged one."""
    return {name: folder / name for name in EPISODES if (folder / name / "ledger.parquet").is_file()}


def order_shares(fills: pd.DataFrame) -> pd.DataFrame:
    """(symbol, side) shares of the bars in which an episode's agent ordered to buy, to sell, or nothing."""
    sides = np.sign(fills["ordered"]).map({1.0: "buy", 0.0: "hold", -1.0: "sell"})
    return pd.crosstab(fills["symbol"], sides, normalize="index").reindex(columns=["buy", "hold", "sell"], fill_value=0)


def orders_figure(shares: pd.DataFrame) -> go.Figure:
    """The shares as stacked bars, a bar for each symbol."""
    figure = go.Figure()
    for side, colour in zip(shares.columns, (PALETTE[0], PALETTE[7], PALETTE[5]), strict=True):
        figure.add_bar(x=shares.index, y=shares[side], name=say(f"side.{side}"), marker_color=colour)
    figure = style_figure(figure, say("agent.orders"), 340).update_layout(barmode="stack")
    return figure.update_yaxes(range=[0, 1], tickformat=".0%").update_xaxes(type="category")


def orders_by_hour(fills: pd.DataFrame) -> pd.DataFrame:
    """(symbol, hour UTC) share of buys less share of sells; by day of the week where bars are daily or longer."""
    times = pd.DatetimeIndex(fills.index)
    # The median: nights and weekends between intraday bars are long, but few.
    name = "weekday" if times.unique().to_series().diff().median() >= DAY else "hour"
    slots = (times.dayofweek if name == "weekday" else times.hour).to_numpy()
    sides = pd.DataFrame({"symbol": fills["symbol"].to_numpy(), name: slots, "side": np.sign(fills["ordered"])})
    return sides.pivot_table(index="symbol", columns=name, values="side", aggfunc="mean")


def when_figure(table: pd.DataFrame) -> go.Figure:
    """The heat map of `orders_by_hour`: blue where it buys more, orange-red where it sells more."""
    is_daily = table.columns.name == "weekday"
    names = [say(f"weekday.{slot}") if is_daily else f"{slot:02d}:00" for slot in table.columns]
    limit = float(np.nanmax(np.abs(table.to_numpy()), initial=0.0)) or 1.0
    heat = go.Heatmap(
        z=table.to_numpy(), x=names, y=list(table.index), zmin=-limit, zmax=limit, colorscale=DIVERGING, ygap=1
    )
    title = say("agent.by_weekday" if is_daily else "agent.by_hour")
    figure = style_figure(go.Figure(heat), title, max(260, min(18 * len(table), 1200) + 110))
    return figure.update_xaxes(type="category").update_yaxes(type="category", autorange="reversed")


def reward_parts(folder: Path) -> pd.DataFrame:
    """(time, component) raw reward components of a validation's episode, with `reward`, their weighted sum.

    Empty for an episode that was judged, which has no reward.
    """
    ledger = pd.read_parquet(folder / "ledger.parquet")
    return ledger[[name for name in ledger.columns if name == "reward" or name.startswith("reward_")]]


def reward_figure(parts: pd.DataFrame) -> go.Figure:
    """Every component summed over the episode so far."""
    figure = go.Figure()
    for name in parts.columns:
        width = 2.4 if name == "reward" else 1.2
        label = say("agent.total") if name == "reward" else name.removeprefix("reward_").replace("_", " ")
        figure.add_scatter(x=parts.index, y=parts[name].cumsum(), name=label, mode="lines", line={"width": width})
    return style_figure(figure, say("agent.rewards"), 340)


def most_traded(episode: Episode) -> list[str]:
    """The symbols of an episode, those with the most trades first."""
    counts = episode.trades()["symbol"].value_counts().reindex(list(episode.symbols), fill_value=0)
    return [str(name) for name in counts.sort_values(ascending=False, kind="stable").index]


def cut_episode(episode: Episode, symbols: Sequence[str], bars: int) -> Episode:
    """The first `bars` steps of an episode as these symbols saw them; no symbols means all."""
    ledger = episode.ledger.iloc[:bars]
    fills = episode.fills.iloc[: bars * len(episode.symbols)]
    return Episode(ledger, fills[fills["symbol"].isin(symbols)] if symbols else fills)


def explain(folder: Path) -> list[BehaviourFinding]:
    """Attributions and pictures of the run's best agent on the first test bars; needs torch and captum.

    Refuses a fleet and a master, which their report explains.
    """
    run: Any = StoredRun(folder)
    if not isinstance(run.policy, AgentPolicy):
        raise RunError(say("agent.in_report"))
    last = min(run.first + EXPLAINED_BARS, len(run.panel) - 1)
    return explain_agent(
        run.policy,
        run.panel,
        first=run.first,
        last=last,
        market=run.task.market,
        bank=run.bank(run.panel),
        window_bars=run.task.window_bars,
        most=EXPLAINED_DECISIONS,
    )
