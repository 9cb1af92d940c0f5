"""GO, CONDITIONAL or NO-GO: a set of gates held against what a run left, as table, JSON and memo."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pacesetter.build import stored_config
from pacesetter.errors import RunError
from pacesetter.evaluation.programme.gate_sets import GateSet
from pacesetter.evaluation.programme.measured import RunRecord, find_metric, measure, read_record
from pacesetter.evaluation.report.memo import decision_memo
from pacesetter.evaluation.statistics.gates import Held, hold
from pacesetter.evaluation.statistics.regression import RESULT
from pacesetter.runs import DECISION, EVALUATION, write_atomic

__all__ = ["CONDITIONAL", "GO", "NO_GO", "GateDecision", "decide", "held_gates", "store_decision"]

GO, CONDITIONAL, NO_GO = "GO", "CONDITIONAL", "NO-GO"
MADE_UP = ("synthetic",)  # sources whose bars no market ever had


@dataclass(frozen=True)
class GateDecision:
    """What a set of gates says of a run.

    held          each limit of the set          conditional   those of a conditional decision
    headline      what the verdict says, which gates do not change
    reason        why a GO was withheld though every gate passed; empty otherwise
    """

    gates: GateSet
    run: str
    held: tuple[Held, ...]
    conditional: tuple[Held, ...]
    headline: str
    reason: str = ""

    @property
    def name(self) -> str:
        """GO, CONDITIONAL or NO-GO."""
        if all(each.holds for each in self.held):
            return CONDITIONAL if self.reason else GO
        # all() of nothing is true: a set without conditional limits has no such decision.
        is_half = bool(self.conditional) and all(each.holds for each in self.conditional)
        return CONDITIONAL if is_half else NO_GO

    @property
    def sentence(self) -> str:
        """The decision in words, with the verdict beside it."""
        passed, silent = (sum(each) for each in zip(*map(_counted, self.held), strict=True))
        said = f"{self.name} by the gates '{self.gates.name}': {passed} of {len(self.held) - silent} passed"
        if silent:
            said += f", {silent} not applicable because the oracle fails them too"
        missing = [each.limit.metric for each in self.held if each.measured is None]
        if missing:
            said += f", {len(missing)} not measured{_by(missing)}"
        if self.name == CONDITIONAL:
            said += f"; {self.reason or self.gates.then or 'the lower limits hold'}"
        return f"{said}. The verdict on the test set: {self.headline}."

    def to_json(self) -> dict[str, Any]:
        """All of it, as `decision.json` stores it."""
        return {
            "gates": self.gates.name,
            "run": self.run,
            "decision": self.name,
            "sentence": self.sentence,
            "headline": self.headline,
            "held": [each.to_json() for each in self.held],
            "conditional": [each.to_json() for each in self.conditional],
        }


def decide(folder: Path, gates: GateSet) -> GateDecision:
    """Hold a set of gates against an evaluated run; refuses one that was not evaluated."""
    if not (folder / EVALUATION / RESULT).is_file():
        raise RunError(f"{folder} was not evaluated; use `pacesetter evaluate {folder}` first")
    record = read_record(folder, gates.index)
    return GateDecision(
        gates,
        folder.name,
        held_gates(record, gates),
        held_gates(record, gates, is_conditional=True),
        headline=str(record.judged["headline"]),
        reason=_withheld(folder, gates),
    )


def held_gates(record: RunRecord, gates: GateSet, is_conditional: bool = False) -> tuple[Held, ...]:
    """The limits of a set, or those of its conditional decision, with what the record has of each metric."""
    limits = gates.conditional if is_conditional else gates.gates
    return hold(limits, measure(record, [limit.metric for limit in limits]))


def store_decision(decision: GateDecision, folder: Path) -> Path:
    """Write `decision.json`, which a bundle of the run carries on, and `decision.md`; the latest decision stands."""
    path = folder / EVALUATION / DECISION
    rows = [each.row for each in (*decision.held, *decision.conditional)]
    title = f"{decision.name}: {decision.run} by the gates '{decision.gates.name}'"
    write_atomic(path.with_suffix(".md"), decision_memo(title, decision.sentence, rows))
    return write_atomic(path, json.dumps(decision.to_json(), indent=2) + "\n")


def _by(metrics: list[str]) -> str:
    """How metrics that were not measured can be, where an evaluation alone does not do it."""
    ways = dict.fromkeys(known.by for known in map(find_metric, metrics) if known is not None and known.by)
    return f": {', '.join(ways)}" if ways else ""


def _counted(held: Held) -> tuple[int, int]:
    """(passed, not applicable)."""
    applies = held.gate.is_applicable
    return int(applies and held.gate.passed), int(not applies)


def _withheld(folder: Path, gates: GateSet) -> str:
    """Why these bars cannot earn a GO; empty where they can."""
    source = str(stored_config(folder).data.get("source", ""))
    if gates.synthetic or source not in MADE_UP:
        return ""
    return f"the bars are synthetic (data={source}), which proves the machinery and never the market"
