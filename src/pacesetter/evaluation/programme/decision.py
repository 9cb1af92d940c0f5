"""GO, CONDITIONAL or NO-GO: a set of gates held against what a run left, as table, JSON and memo."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pacesetter.build import stored_config
from pacesetter.errors import RunError
from pacesetter.evaluation.programme.gate_sets import GateSet, Limit
from pacesetter.evaluation.programme.measured import Measured, measure_run
from pacesetter.evaluation.statistics.gates import Gate
from pacesetter.evaluation.statistics.regression import RESULT
from pacesetter.runs import DECISION, EVALUATION, write_atomic

__all__ = ["GateDecision", "Held", "decide", "store_decision"]

GO, CONDITIONAL, NO_GO = "GO", "CONDITIONAL", "NO-GO"
MADE_UP = ("synthetic",)  # sources whose bars no market ever had


@dataclass(frozen=True)
class Held:
    """One limit with what was measured; None where nothing was."""

    limit: Limit
    measured: Measured | None

    @property
    def gate(self) -> Gate:
        """As a report shows it; what was not measured is NaN and fails."""
        value = math.nan if self.measured is None else self.measured.value
        return Gate(self.limit.name, value, self.limit.sense, self.limit.limit)

    @property
    def row(self) -> tuple[str, str, str, str, str]:
        """(gate, value, limit, how sure, what follows)."""
        wanted = f"{self.limit.sense} {self.limit.limit:g}"
        if self.measured is None:
            return self.limit.name, "not measured", wanted, "", "FAIL"
        low, high = self.measured.low, self.measured.high
        sure = "" if math.isnan(low) else f"[{low:+.2f}, {high:+.2f}]"
        return self.limit.name, f"{self.measured.value:.4g}", wanted, sure, "pass" if self.gate.passed else "FAIL"

    def to_json(self) -> dict[str, Any]:
        """Plain values; what was not measured is null."""
        found = self.measured
        return {
            "metric": self.limit.metric,
            "about": self.limit.name,
            "value": None if found is None else found.value,
            "interval": None if found is None or math.isnan(found.low) else [found.low, found.high],
            "sense": self.limit.sense,
            "limit": self.limit.limit,
            "passed": self.gate.passed,
        }


@dataclass(frozen=True)
class GateDecision:
    """What a set of gates says of a run.

    held          each limit of the set          conditional   those of a conditional decision
    is_evidence   what the verdict says, which gates do not change
    reason        why a GO was withheld though every gate passed; empty otherwise
    """

    gates: GateSet
    run: str
    held: tuple[Held, ...]
    conditional: tuple[Held, ...]
    is_evidence: bool
    reason: str = ""

    @property
    def name(self) -> str:
        """GO, CONDITIONAL or NO-GO."""
        if all(each.gate.passed for each in self.held):
            return CONDITIONAL if self.reason else GO
        is_half = bool(self.conditional) and all(each.gate.passed for each in self.conditional)
        return CONDITIONAL if is_half else NO_GO

    @property
    def sentence(self) -> str:
        """The decision in words, with the verdict beside it."""
        passed = sum(each.gate.passed for each in self.held)
        said = f"{self.name} by the gates '{self.gates.name}': {passed} of {len(self.held)} passed"
        if self.name == CONDITIONAL:
            said += f"; {self.reason or self.gates.then or 'the lower limits hold'}"
        verdict = "evidence" if self.is_evidence else "no evidence"
        return f"{said}. The verdict on the test set is {verdict}."

    def to_json(self) -> dict[str, Any]:
        """All of it, as `decision.json` stores it."""
        return {
            "gates": self.gates.name,
            "run": self.run,
            "decision": self.name,
            "sentence": self.sentence,
            "is_evidence": self.is_evidence,
            "held": [each.to_json() for each in self.held],
            "conditional": [each.to_json() for each in self.conditional],
        }


def decide(folder: Path, gates: GateSet) -> GateDecision:
    """Hold a set of gates against an evaluated run; refuses one that was not evaluated."""
    if not (folder / EVALUATION / RESULT).is_file():
        raise RunError(f"{folder} was not evaluated; use `pacesetter evaluate {folder}` first")
    names = [limit.metric for limit in (*gates.gates, *gates.conditional)] + ["evidence"]
    found = measure_run(folder, names, gates.index)
    evidence = found["evidence"]
    return GateDecision(
        gates,
        folder.name,
        _held(gates.gates, found),
        _held(gates.conditional, found),
        is_evidence=evidence is not None and evidence.value > 0,
        reason=_withheld(folder, gates),
    )


def store_decision(decision: GateDecision, folder: Path) -> Path:
    """Write `decision.json`, which a bundle of the run carries on; the latest decision stands."""
    path = folder / EVALUATION / DECISION
    return write_atomic(path, json.dumps(decision.to_json(), indent=2) + "\n")


def _held(limits: tuple[Limit, ...], found: Mapping[str, Measured | None]) -> tuple[Held, ...]:
    return tuple(Held(limit, found[limit.metric]) for limit in limits)


def _withheld(folder: Path, gates: GateSet) -> str:
    """Why these bars cannot earn a GO; empty where they can."""
    source = str(stored_config(folder).data.get("source", ""))
    if gates.synthetic or source not in MADE_UP:
        return ""
    return f"the bars are synthetic (data={source}), which proves the machinery and never the market"
