"""What an evaluated lookback run stored of its windows, and the pictures of it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import plotly.graph_objects as go

from pacesetter.dashboard.texts import say
from pacesetter.errors import RunError
from pacesetter.evaluation.lookback.judgement import AGENT, OPTIMUM
from pacesetter.evaluation.lookback.page import WINDOWS
from pacesetter.evaluation.lookback.pictures import INDEX, choices_picture, course_picture, regret_picture
from pacesetter.evaluation.report.tables import read_table
from pacesetter.evaluation.statistics.regression import RESULT
from pacesetter.evaluation.statistics.trials import RETURNS
from pacesetter.runs import EVALUATION

__all__ = ["Choices", "has_choices", "read_choices"]


@dataclass(frozen=True, eq=False)
class Choices:
    """Windows and rewards (time, policy) of a judged run; `rival` is the best policy that knows no later bar."""

    sentence: str
    windows: pd.DataFrame
    rewards: pd.DataFrame
    listed: list[int]
    rival: str

    @property
    def limit(self) -> str:
        """The optimum, or the last policy where it has none."""
        return OPTIMUM if OPTIMUM in self.rewards else str(self.rewards.columns[-1])

    def figures(self) -> dict[str, go.Figure]:
        """Choice over time under price and leadership, histogram by regime, regret."""
        return {
            "course": course_picture(self.windows, (AGENT, self.rival, self.limit)),
            "regimes": choices_picture(self.windows, AGENT, self.listed),
            "regret": regret_picture(self.rewards, (AGENT, self.rival), self.limit),
        }


def has_choices(run: Path) -> bool:
    """Whether a run was judged by its windows."""
    return (run / EVALUATION / WINDOWS).is_file()


def read_choices(run: Path) -> Choices:
    """What the evaluation of a run stored; refuses one by an earlier version, which kept no market beside."""
    folder = run / EVALUATION
    windows, rewards = read_table(folder / WINDOWS), read_table(folder / RETURNS)
    if INDEX not in windows:
        raise RunError(say("windows.old", folder=run))
    result = json.loads((folder / RESULT).read_text(encoding="utf-8"))
    return Choices(result["sentence"], windows, rewards, [int(bars) for bars in result["windows"]], result["rival"])
