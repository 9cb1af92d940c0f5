"""`pacesetter inspect` of a lookback run: its windows replayed with the matrices that they showed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from pacesetter.errors import RunError
from pacesetter.evaluation.lookback.judgement import AGENT
from pacesetter.evaluation.lookback.page import WINDOWS
from pacesetter.evaluation.lookback.stored import LookbackRun
from pacesetter.evaluation.report.page import Section, write_report
from pacesetter.evaluation.report.pictures import style_figure
from pacesetter.evaluation.report.tables import read_table
from pacesetter.evaluation.statistics.trials import RETURNS
from pacesetter.leadlag.engine import Engine
from pacesetter.runs import EVALUATION
from pacesetter.words import for_spreadsheets

__all__ = ["BRIEF", "HEADER", "LookbackReplay", "has_replay"]

HEADER = ("from", "to", "bars", "window", "reward a bar", "leader", "follower")
BRIEF = ("to", "follower")  # columns left out on a console of 80 letters
SHOWN_MATRICES = 6


def has_replay(folder: Path) -> bool:
    """Whether an evaluation of windows is stored in a run folder."""
    return (folder / EVALUATION / WINDOWS).is_file()


@dataclass(frozen=True, eq=False)
class LookbackReplay:
    """The windows (time, policy) that an evaluation stored, with their rewards, and the run that they are of."""

    run: LookbackRun
    windows: pd.DataFrame
    rewards: pd.DataFrame

    @classmethod
    def load(cls, folder: str | Path) -> LookbackReplay:
        """The stored windows of an evaluated run; refuses one whose bars have changed."""
        run = LookbackRun(Path(folder))
        windows, rewards = (read_table(run.folder / EVALUATION / name) for name in (WINDOWS, RETURNS))
        if not windows.index.equals(run.panel.index[windows["bar"].to_numpy()]):
            raise RunError(f"the bars of {folder} have changed since its evaluation; evaluate it again")
        return cls(run, windows, rewards)

    def periods(self) -> pd.DataFrame:
        """A row for each stretch of bars with one window: when, how long, what it earned, who led and followed."""
        own, earned = self.windows[AGENT].to_numpy(), self.rewards[AGENT].to_numpy()
        # No window has −1 bars, so the first bar always begins a stretch.
        starts = np.flatnonzero(np.diff(own, prepend=-1))
        stops = np.append(starts[1:], len(own)) - 1
        engine, bars = self._engine(), self.windows["bar"].to_numpy()
        matrices = engine.many(bars[starts], own[starts])
        scores = np.nan_to_num(np.nanmean(matrices, axis=2))
        symbols = np.array(self.run.panel.symbols)
        return pd.DataFrame(
            {
                "from": self.windows.index[starts],
                "to": self.windows.index[stops],
                "bars": stops - starts + 1,
                "window": own[starts],
                "reward": [earned[a : b + 1].mean() for a, b in zip(starts, stops, strict=True)],
                "leader": symbols[scores.argmax(axis=1)],
                "follower": symbols[scores.argmin(axis=1)],
            }
        )

    def verdict(self) -> str:
        """What the replay came to, in a sentence."""
        table = self.periods()
        return (
            f"{len(self.windows)} decisions in {len(table)} stretches of one window, {table['bars'].median():.0f} bars "
            f"long at the median; bars are {self.run.panel.bars_per_year:.0f} a year. Mean reward "
            f"{self.rewards[AGENT].mean():+.4f}."
        )

    def rows(self) -> tuple[tuple[str, ...], ...]:
        """The stretches as texts."""
        return tuple(
            (
                f"{row['from']:%Y-%m-%d}",
                f"{row['to']:%Y-%m-%d}",
                str(row["bars"]),
                str(row["window"]),
                f"{row['reward']:+.4f}",
                str(row["leader"]),
                str(row["follower"]),
            )
            for _, row in self.periods().iterrows()
        )

    def save(self, folder: str | Path) -> list[Path]:
        """Write replay.html, with matrices and observations of single decisions, and windows.csv beside it."""
        target = Path(folder) / EVALUATION
        csv = target / "windows.csv"
        for_spreadsheets(self.periods()).to_csv(csv, index=False)
        shown = self._decisions()
        sections = [
            Section("Windows", self.verdict(), (self._picture(),), HEADER, self.rows()[:500]),
            Section(
                "Matrices",
                "What the chosen window showed at single decisions; rows lead columns.",
                tuple(self._matrix(row) for row in shown),
            ),
            self._observations(shown),
        ]
        return [write_report(target / "replay.html", self.run.folder.name, sections), csv]

    def _engine(self) -> Engine:
        view = self.run.task.view
        return Engine(view.method, **view.options).fit(self.run.panel)

    def _decisions(self) -> list[int]:
        """Rows of decisions to look at: those after the longest stretches began."""
        own = self.windows[AGENT].to_numpy()
        starts = np.flatnonzero(np.diff(own, prepend=-1))
        lengths = np.diff(np.append(starts, len(own)))
        return sorted(int(row) for row in starts[np.argsort(-lengths)[:SHOWN_MATRICES]])

    def _picture(self) -> go.Figure:
        figure = make_subplots(rows=2, cols=1, shared_xaxes=True, vertical_spacing=0.05)
        index, own = self.windows.index, self.windows[AGENT]
        figure.add_scatter(x=index, y=own, name="window", mode="lines", line={"shape": "hv"}, row=1, col=1)
        curve = self.rewards[AGENT].cumsum()
        figure.add_scatter(x=index, y=curve, name="cumulated reward", mode="lines", row=2, col=1)
        figure.update_yaxes(type="log", row=1, col=1)
        return style_figure(figure, "Windows and cumulated reward", 480)

    def _matrix(self, row: int) -> go.Figure:
        bar, window = int(self.windows["bar"].iloc[row]), int(self.windows[AGENT].iloc[row])
        matrix = self._engine().many(np.array([bar]), np.array([window]))[0]
        symbols = list(self.run.panel.symbols)
        heat = go.Heatmap(z=matrix, x=symbols, y=symbols, colorscale="RdBu", zmid=0.0)
        title = f"{self.windows.index[row]:%Y-%m-%d}, window of {window} bars"
        return style_figure(go.Figure(heat), title, 380).update_yaxes(autorange="reversed")

    def _observations(self, shown: list[int]) -> Section:
        """What the agent saw at these decisions, number by number."""
        task, own = self.run.task, self.windows[AGENT].to_numpy()
        batch = task.make_batch(self.run.panel, len(shown))
        held = [own[row - 1] if row else task.windows.start for row in shown]
        batch.place(batch.markets[0], self.windows["bar"].to_numpy()[shown], held)
        observation = batch.observe()
        header = ("entry", *(f"{self.windows.index[row]:%Y-%m-%d}" for row in shown))
        rows = [
            (f"{name} {k}" if values.shape[1] > 1 else name, *(f"{value:+.4g}" for value in values[:, k]))
            for name, values in observation.items()
            for k in range(min(values.shape[1], 12))
        ]
        return Section("Observations", "The first twelve numbers of each entry.", (), header, tuple(rows))
