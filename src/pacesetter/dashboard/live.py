"""A running training: its metrics as they are written, gates, curriculum, resources and the time left."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import plotly.graph_objects as go
import yaml

from pacesetter.build.actions import action_names
from pacesetter.dashboard.texts import say
from pacesetter.errors import RunError
from pacesetter.evaluation.report.pictures import style_figure
from pacesetter.evaluation.statistics.gates import Gate

__all__ = ["LiveRun", "curve_figure", "gate_rows", "mix_figure", "read_lines", "read_live", "read_metrics"]

CURVES = ("reward", "returns", "entropy", "sharpe", "trade_rate")
SENSES = {"<=": "≤", ">=": "≥", ">": ">", "<": "<"}
STAGE = re.compile(r"level (?P<level>\d+), stage (?P<stage>.+?)(, sharpe .*)?$")
QUIET_SECONDS = 120.0  # without a new line, a run that is not finished may be dead


@dataclass(frozen=True, eq=False)
class LiveRun:
    """How a training run stands.

    metrics       a row for each line of metrics, by step: reward, entropy, sharpe, trade_rate, memory …
    mix           (line, action) shares by step
    validations   a row for each validation by step: score, sharpe
    gates         way of acting -> gates at the last validation
    stage         of the curriculum, empty without one
    quiet_seconds since the last line was written
    """

    status: str
    step: int
    steps: int
    metrics: pd.DataFrame
    mix: pd.DataFrame
    validations: pd.DataFrame
    gates: Mapping[str, list[Gate]]
    stage: str
    quiet_seconds: float

    @property
    def seconds_left(self) -> float | None:
        """At the rate of the last line; None where it is done or no rate is known."""
        rate = self.latest("steps_per_second")
        left = self.steps - self.step
        return left / rate if self.status == "running" and rate and left > 0 else None

    @property
    def is_quiet(self) -> bool:
        """Whether an unfinished run has not written for long."""
        return self.status == "running" and self.quiet_seconds > QUIET_SECONDS

    def latest(self, name: str) -> float | None:
        """The last known value of a metric."""
        known = self.metrics[name].dropna().tolist() if name in self.metrics else []
        return float(known[-1]) if known else None


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The whole lines of a file of JSON lines; one that is being written is left for the next time."""
    try:
        # A run may be in the middle of a character; the half line is skipped below.
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return []
    lines = []
    for line in text.splitlines():
        try:
            lines.append(json.loads(line))
        except ValueError:  # half a line
            continue
    return [line for line in lines if isinstance(line, dict)]


def read_metrics(folder: Path) -> pd.DataFrame:
    """The plain numbers of metrics.jsonl by step, those of `resources` and `seconds` included; empty without any."""
    rows = [_numbers(line) for line in read_lines(folder / "metrics.jsonl") if "step" in line and "entropy" in line]
    return pd.DataFrame(rows).set_index("step") if rows else pd.DataFrame()


def _numbers(line: Mapping[str, Any]) -> dict[str, float | None]:
    flat = {**line, **line.get("resources", {}), **line.get("seconds", {})}
    return {name: value for name, value in flat.items() if value is None or isinstance(value, (int, float))}


def read_live(folder: Path, status: str) -> LiveRun:
    """Everything the page shows of a run; refuses a run without training."""
    config = yaml.safe_load((folder / "config.yaml").read_text(encoding="utf-8"))
    if "train" not in config:
        raise RunError(say("live.no_training", folder=folder))
    lines = read_lines(folder / "metrics.jsonl")
    validations = [line for line in lines if "validation" in line]
    mixes = {line["step"]: line["action_mix"] for line in lines if line.get("action_mix")}
    metrics, path = read_metrics(folder), folder / "metrics.jsonl"
    problem = str(config["task"].get("problem", ""))
    if problem == "lookback":  # it trades nothing
        metrics = metrics.drop(columns="trade_rate", errors="ignore")
    return LiveRun(
        status=status,
        step=max((int(line.get("step", 0)) for line in lines), default=0),
        steps=int(config["train"]["steps"]),
        metrics=metrics,
        mix=_named_mix(mixes, config["task"]),
        validations=pd.DataFrame([_validation(line) for line in validations]),
        gates={way: _gates(measured) for way, measured in _validation_ways(validations[-1])} if validations else {},
        stage=_stage(folder),
        quiet_seconds=time.time() - (path if path.is_file() else folder).stat().st_mtime,
    )


def _validation_ways(line: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return [(way, measured) for way, measured in line["validation"].items() if isinstance(measured, dict)]


def _validation(line: Mapping[str, Any]) -> dict[str, float]:
    validation = line["validation"]
    sharpes = {f"sharpe_{way}": each.get("sharpe") for way, each in _validation_ways(line)}
    return {"step": line["step"], "score": validation["score"], **sharpes}


def _named_mix(mixes: dict[int, list[float]], task: Mapping[str, object]) -> pd.DataFrame:
    """(line, action) shares, with orders and windows by their names."""
    table: pd.DataFrame = pd.DataFrame.from_dict(mixes, orient="index").rename_axis("step")
    table.columns = action_names(task, len(table.columns))
    return table


def _stage(folder: Path) -> str:
    """The curriculum's stage that the log told last."""
    searched = [STAGE.search(str(line.get("message", ""))) for line in read_lines(folder / "log.jsonl")]
    matches = [match for match in searched if match]
    return f"{int(matches[-1]['level']) + 1}: {matches[-1]['stage']}" if matches else ""


def gate_rows(live: LiveRun) -> pd.DataFrame:
    """A row for each gate and way of acting: value, limit, and whether it passed."""
    pairs = [(way, gate) for way, gates in live.gates.items() for gate in gates]
    rows = [(gate.name, way, gate.value, f"{SENSES[gate.sense]} {gate.limit:g}", gate.passed) for way, gate in pairs]
    return pd.DataFrame(rows, columns=["gate", "way", "value", "limit", "passed"])


def _gates(validation: Mapping[str, Any]) -> list[Gate]:
    """Those of a way of acting that have a value."""
    return [Gate(**gate) for gate in validation.get("gates", {}).values() if gate["value"] is not None]


# ---- figures; `uirevision` keeps a reader's zoom while new lines come ------------------------------------------------


def curve_figure(tables: Mapping[str, pd.DataFrame], metric: str) -> go.Figure:
    """One metric over the steps of one run or of several."""
    figure = go.Figure()
    for name, table in tables.items():
        if metric in table:
            known = table[metric].dropna()
            figure.add_scatter(x=known.index, y=known, name=name, mode="lines+markers", line={"width": 1.6})
    figure = style_figure(figure, say(f"metric.{metric}"), 280).update_xaxes(title=say("live.step"))
    figure.update_yaxes(exponentformat="power")
    return figure.update_layout(uirevision=metric, showlegend=len(tables) > 1)


def mix_figure(mix: pd.DataFrame) -> go.Figure:
    """Shares of the actions over the steps; an agent that collapses draws one bright line."""
    heat = go.Heatmap(
        z=mix.to_numpy().T,
        x=[f"{step:,}" for step in mix.index],
        y=[str(name) for name in mix.columns],
        zmin=0,
        zmax=1,
        colorscale="Cividis",
        ygap=1,
        colorbar={"tickformat": ".0%"},
    )
    figure = style_figure(go.Figure(heat), say("live.mix"), 320).update_layout(uirevision="mix")
    return figure.update_xaxes(title=say("live.step"), type="category").update_yaxes(type="category", automargin=True)
