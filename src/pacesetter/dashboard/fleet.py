"""The fleet at a glance: a tile for each agent, sorted as the reader likes, the strugglers marked."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from pacesetter.dashboard.texts import say
from pacesetter.evaluation.fleet_page import AGENTS
from pacesetter.evaluation.pictures import styled

__all__ = ["figures_of", "fleet_folder", "sorted_fleet", "tiles_figure"]

LOW_IS_GOOD = {"drawdown"}
TILE = 58  # pixels of height


def fleet_folder(folder: Path) -> Path | None:
    """Where `fleet.csv` lies: in the run, or in the run inside a main job's stage; None where there is no fleet."""
    found = [path.parent for pattern in (AGENTS, f"agents/*/{AGENTS}") for path in folder.glob(pattern)]
    return found[0] if found else None


def figures_of(fleet: pd.DataFrame) -> list[str]:
    """The numeric columns by which a fleet can be sorted."""
    return [str(name) for name in fleet.select_dtypes("number").columns]


def sorted_fleet(fleet: pd.DataFrame, by: str, worst_first: bool = False) -> pd.DataFrame:
    """The agents in order of a figure, the best first; unknown ones last."""
    ascending = (by in LOW_IS_GOOD) != worst_first
    return fleet.sort_values(by, ascending=ascending, na_position="last", kind="stable").reset_index(drop=True)


def tiles_figure(fleet: pd.DataFrame, by: str) -> go.Figure:
    """A tile for each agent in the order given, coloured by a figure; ✕ marks a struggler, the hover says why."""
    width = min(max(int(np.ceil(np.sqrt(2.2 * len(fleet)))), 1), 18)
    height = -(-len(fleet) // width)
    spare = height * width - len(fleet)
    values = np.append(fleet[by].to_numpy(float), np.full(spare, np.nan)).reshape(height, width)
    rows = list(zip(fleet["symbol"].astype(str), fleet["reason"].astype(str), fleet[by], strict=True))
    labels = [f"{symbol}<br>{'✕ ' if reason else ''}{value:.3g}" for symbol, reason, value in rows]
    hints = [f"{symbol}: {reason or say('fleet.well')}" for symbol, reason, _ in rows]
    heat = go.Heatmap(
        z=values,
        text=np.array([*labels, *[""] * spare], dtype=object).reshape(height, width),
        customdata=np.array([*hints, *[""] * spare], dtype=object).reshape(height, width),
        texttemplate="%{text}",
        hovertemplate="%{customdata}<extra></extra>",
        colorscale="Cividis_r" if by in LOW_IS_GOOD else "Cividis",
        xgap=2,
        ygap=2,
        colorbar={"title": by},
    )
    figure = styled(go.Figure(heat), say("fleet.tiles", count=len(fleet), by=by), 110 + TILE * height)
    figure.update_xaxes(visible=False)
    return figure.update_yaxes(visible=False, autorange="reversed")
