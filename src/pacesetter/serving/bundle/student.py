"""A teacher and its student as they are served: ONNX graphs side by side by size, time and orders, int8 too."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from pacesetter.arrays import Array
from pacesetter.build import build_panel, build_table, stored_plan
from pacesetter.build.members import export_policy
from pacesetter.build.tasks.task import Stored
from pacesetter.cells import Table
from pacesetter.runs import Run
from pacesetter.serving.bundle.export import export_onnx, quantise
from pacesetter.serving.bundle.model import Model

__all__ = ["ServedGraph", "compare_served", "decision_times", "group_by_decision", "served_graphs", "served_table"]

TIMED, NEAR = 300, 0.1  # decisions of all symbols; continuous orders this near are counted as the same
REPORT = "distillation.json"


@dataclass(frozen=True)
class ServedGraph:
    """A graph by size and time.

    p50_ms, p95_ms   of one decision for all symbols, one thread of this machine
    of_teacher       median time as a share of the teacher's
    agreement        share of the orders that are the teacher's, at states of the training set
    """

    name: str
    kilobytes: float
    p50_ms: float
    p95_ms: float
    of_teacher: float
    agreement: float


def served_graphs(teacher: str | Path, student: str | Path, count: int = 200) -> tuple[dict[str, bytes], list[object]]:
    """The graphs of two runs of one market, the student's also in int8, and some observations of that market."""
    config = stored_plan(teacher)
    panel = build_panel(config)
    table = build_table(config, panel)
    graphs: dict[str, bytes] = {}
    shown: list[Any] = []
    for name, folder in (("teacher", teacher), ("student", student)):
        own = stored_plan(folder)
        exported = export_policy(Stored(Path(folder), own, panel, table), count)
        graphs[name] = export_onnx(exported.module, exported.spec)
        shown = shown or group_by_decision(exported.real, len(exported.spec.symbols), count)
    graphs["student, int8"] = quantise(graphs["student"])
    return graphs, shown


def group_by_decision(real: Iterable[Mapping[str, Array]], symbols: int, count: int) -> list[dict[str, Array]]:
    """Observations of all symbols at a time; one by one of a policy for any symbol."""
    symbols = max(symbols, 1)
    decisions: list[dict[str, Array]] = []
    for batch in islice(real, count):
        firsts = range(0, len(next(iter(batch.values()))) - symbols + 1, symbols)
        parts = {name: np.asarray(entry) for name, entry in batch.items()}
        decisions += [{name: part[first : first + symbols] for name, part in parts.items()} for first in firsts]
    return decisions[:count]


def compare_served(graphs: Mapping[str, bytes], observations: list[Any]) -> list[ServedGraph]:
    """Every graph on the same observations; the first one is the teacher."""
    models = {name: Model(data) for name, data in graphs.items()}
    times = {name: decision_times(model, observations) for name, model in models.items()}
    orders = {name: np.concatenate([_orders(model, each) for each in observations]) for name, model in models.items()}
    first = next(iter(graphs))
    return [
        ServedGraph(
            name,
            len(data) / 2**10,
            1e3 * float(np.quantile(times[name], 0.5)),
            1e3 * float(np.quantile(times[name], 0.95)),
            float(np.median(times[name]) / np.median(times[first])),
            float((np.abs(orders[name] - orders[first]) < NEAR).mean()),
        )
        for name, data in graphs.items()
    ]


def decision_times(model: Model, observations: list[Any], calls: int = 1) -> list[float]:
    """Seconds of each decision for all symbols, which takes so many calls."""
    model(observations[0])  # the first call allocates
    seconds = []
    for place in range(0, TIMED, calls):
        start = time.perf_counter()
        for call in range(place, place + calls):
            model(observations[call % len(observations)])
        seconds.append(time.perf_counter() - start)
    return seconds


def _orders(model: Model, observation: Mapping[str, Array]) -> Array:
    answer = model(observation)
    return answer["probabilities"].argmax(axis=-1) if "probabilities" in answer else answer["orders"].reshape(-1)


def served_table(teacher: str | Path, student: Run) -> Table:
    """Compare the graphs of two runs, keep it in the student's report, and give it as a table."""
    rows = compare_served(*served_graphs(teacher, student.folder))
    path = student.path(REPORT)
    facts = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    student.write_json(REPORT, facts | {"served": [asdict(row) for row in rows]})
    cells = []
    for row in rows:
        figures = (f"{row.kilobytes:,.0f}", f"{row.p50_ms:.3f}", f"{row.p95_ms:.3f}", f"{row.of_teacher:.2f}")
        cells.append((row.name, *figures, f"{row.agreement:.1%}"))
    return Table(("as served (ONNX)", "kB", "p50 ms", "p95 ms", "of teacher's time", "same orders"), cells)
