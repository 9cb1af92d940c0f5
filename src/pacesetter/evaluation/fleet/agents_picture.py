"""All agents of a fleet in one picture: how they came to trade, and what each then made of the validation set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from pacesetter.errors import ConfigError
from pacesetter.evaluation.fleet.agents import RETURNS, read_agents
from pacesetter.evaluation.fleet.agents_page import validation_curves
from pacesetter.evaluation.report.pictures import PALETTE
from pacesetter.evaluation.report.tables import read_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["fleet_picture"]

COLOURS = (PALETTE[0], PALETTE[5], PALETTE[2])


def fleet_picture(folder: str | Path, path: str | Path, groups: Mapping[str, Sequence[str]] | None = None) -> Path:
    """Write a PNG of the fleet's run: each agent's validation Sharpe ratio by its steps, and its equity at the end.

    `groups` are labels with their symbols, at most three, all agents in one by default; medians are drawn strong.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    folder = Path(folder)
    shown = groups or {"agents": list(read_agents(folder)["symbol"])}
    if len(shown) > len(COLOURS):
        raise ConfigError(f"a picture of agents has at most {len(COLOURS)} groups, not {len(shown)}; merge some")
    figure = Figure(figsize=(11, 4.2), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)  # no window system, whatever the user's backend
    left, right = figure.subplots(1, 2)
    returns = read_table(folder / RETURNS)
    _draw(left, validation_curves(folder), shown)
    # An agent that does not play holds cash: its equity stays.
    _draw(right, 100 * (returns.fillna(0.0) + 1).cumprod(), shown)
    left.set(title="Validation Sharpe ratio during training", xlabel="steps of each agent")
    right.set(title="Equity on the validation set, start = 100")
    right.tick_params(axis="x", rotation=30)
    left.legend(frameon=False)
    figure.savefig(Path(path))
    return Path(path)


def _draw(axes: Axes, curves: pd.DataFrame, groups: Mapping[str, Sequence[str]]) -> None:
    """A faint line for each agent, a strong one for the median of each group."""
    for colour, (label, symbols) in zip(COLOURS, groups.items(), strict=False):
        own = curves[list(symbols)]
        axes.plot(own.index, own.to_numpy(), color=colour, alpha=0.18, linewidth=0.8)
        axes.plot(own.index, own.median(axis=1), color=colour, linewidth=2.4, label=f"{len(symbols)} {label}")
    axes.grid(color="#e0e0e0", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
