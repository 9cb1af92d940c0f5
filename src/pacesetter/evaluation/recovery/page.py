"""gates.html and gates.json of a run: every gate beside its limit and the oracle's value, and states visited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pacesetter.evaluation.recovery.measures import STATE_NAMES, gates_by_name, is_recovered, state_counts
from pacesetter.evaluation.recovery.trace import Trace
from pacesetter.evaluation.report.page import Section, write_report
from pacesetter.evaluation.statistics.gates import Gate
from pacesetter.features.regime import REGIMES
from pacesetter.runs import Run

__all__ = ["gate_rows", "store_gates"]

Ways = Mapping[str, Sequence[Gate]]
ABOUT = (
    "Every gate is measured on the validation set. One that the oracle fails on the same bars does not apply. No "
    "policy is called recovered unless it also beats the best constant action after costs."
)


def store_gates(run: Run, ways: Ways, traces: Mapping[str, Trace], agents: Mapping[str, Ways] | None = None) -> None:
    """Write `gates.json`, by way of acting and name, and `gates.html`; `agents` are those of a fleet, one by one."""
    by_way = {way: gates_by_name(gates) for way, gates in ways.items()}
    stored: dict[str, Any] = {"gates": by_way}
    judged = by_way.get("deterministic", {})
    if agents is None:
        stored["recovered"] = is_recovered(judged)
    else:
        stored["agents"] = {
            symbol: {way: gates_by_name(gates) for way, gates in own.items()} for symbol, own in agents.items()
        }
        stored["recovered"] = {
            symbol: is_recovered(own.get("deterministic", {})) for symbol, own in stored["agents"].items()
        }
    run.write_json("gates.json", stored)
    sections = [
        Section("Gates", ABOUT, header=("gate", "played", "value", "limit", "oracle", ""), rows=gate_rows(ways))
    ]
    sections += [_heat_map(way, trace) for way, trace in traces.items()]
    if agents:
        sections.append(_agents(agents))
    write_report(Path(run.path("gates.html")), "gates", sections)


def gate_rows(ways: Ways) -> tuple[tuple[str, ...], ...]:
    """A row for each gate and way of acting: value, limit, the oracle's value, and what follows."""
    return tuple(
        (
            gate.name,
            way,
            f"{gate.value:.3f}",
            f"{gate.sense} {gate.limit:g}",
            "" if gate.oracle is None else f"{gate.oracle:.3f}",
            verdict(gate),
        )
        for way, gates in ways.items()
        for gate in gates
    )


def verdict(gate: Gate) -> str:
    """pass, FAIL, or that the gate does not apply."""
    return ("pass" if gate.passed else "FAIL") if gate.is_applicable else "not applicable"


def _heat_map(way: str, trace: Trace) -> Section:
    import plotly.graph_objects as go

    from pacesetter.evaluation.report.pictures import style_figure

    counts = state_counts(trace)
    shares = counts / max(int(counts.sum()), 1)
    figure = go.Figure(go.Heatmap(z=np.log10(np.maximum(shares, 1e-5)), x=list(REGIMES), y=list(STATE_NAMES), zmin=-5))
    style_figure(figure, f"log10 of the share of steps in each state, {way}", 420)
    text = "Position and its unrealised return against the regime; the darkest cells were never visited."
    return Section(f"States visited, {way}", text, (figure,))


def _agents(agents: Mapping[str, Ways]) -> Section:
    """One row for each agent: which gates it fails."""
    rows = []
    for symbol, ways in agents.items():
        gates = ways.get("deterministic", ())
        failed = [gate.name for gate in gates if gate.is_applicable and not gate.passed]
        rows.append((symbol, f"{len(gates) - len(failed)} of {len(gates)}", ", ".join(failed)))
    return Section(
        "Agents",
        "Gates that each agent fails, played deterministically.",
        (),
        ("agent", "passed", "failed"),
        tuple(rows),
    )
