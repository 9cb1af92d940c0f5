"""GO, CONDITIONAL, NO-GO or not applicable: a set of gates held against what a run left, as table, JSON and memo."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from pacesetter.build import Plan, stored_plan
from pacesetter.build.trading import Trading
from pacesetter.errors import RunError
from pacesetter.evaluation.explain.reward_audit import audit_ledger
from pacesetter.evaluation.programme.gate_sets import GateSet
from pacesetter.evaluation.programme.measured import RunRecord, find_metric, measure, read_agents, read_record
from pacesetter.evaluation.programme.subjects import has_subject
from pacesetter.evaluation.report.memo import decision_memo
from pacesetter.evaluation.statistics.gates import Held, Limit, hold
from pacesetter.evaluation.statistics.regression import RESULT
from pacesetter.runs import DECISION, EVALUATION, write_atomic

__all__ = ["CONDITIONAL", "GO", "NOT_APPLICABLE", "NO_GO", "GateDecision", "decide", "held_gates", "store_decision"]

GO, CONDITIONAL, NO_GO, NOT_APPLICABLE = "GO", "CONDITIONAL", "NO-GO", "NOT APPLICABLE"
LEDGER = "ledger.parquet"
MADE_UP = ("synthetic",)  # sources whose bars no market ever had


@dataclass(frozen=True)
class GateDecision:
    """What a set of gates says of a run.

    held          each limit of the set          conditional   those of a conditional decision
    stretch       those that are shown and have no say
    is_about      whether the run was trained with what the set is about
    headline      what the verdict says, which gates do not change
    reason        why a GO was withheld though every gate passed; empty otherwise
    """

    gates: GateSet
    run: str
    held: tuple[Held, ...]
    conditional: tuple[Held, ...]
    headline: str
    reason: str = ""
    stretch: tuple[Held, ...] = ()
    is_about: bool = True

    @property
    def name(self) -> str:
        """GO, CONDITIONAL, NO-GO or NOT APPLICABLE."""
        if not self.is_about:
            return NOT_APPLICABLE
        if all(each.holds for each in self.held):
            return CONDITIONAL if self.reason else GO
        # all() of nothing is true: a set without conditional limits has no such decision.
        is_half = bool(self.conditional) and all(each.holds for each in self.conditional)
        return CONDITIONAL if is_half else NO_GO

    @property
    def sentence(self) -> str:
        """The decision in words, with the verdict beside it."""
        if not self.is_about:
            subjects = " or ".join(self.gates.subjects)
            return (
                f"{self.name}: the gates '{self.gates.name}' are about {subjects}, which the run was trained without."
            )
        counts = Counter(each.state for each in self.held)
        said = f"{self.name} by the gates '{self.gates.name}': {counts['pass']} passed, {counts['FAIL']} failed"
        missing = [each.limit.metric for each in self.held if each.measured is None]
        said += f", {len(missing)} not measured{_explain_measuring(missing)}"
        if counts["n/a"]:
            said += f", {counts['n/a']} not applicable because the oracle fails them too"
        if self.stretch:
            said += f"; {sum(each.state == 'pass' for each in self.stretch)} of {len(self.stretch)} stretch goals"
        if self.name == CONDITIONAL:
            said += f"; {self.reason or self.gates.then or 'the lower limits hold'}"
        return f"{said}. The verdict on the test set: {self.headline}."

    @property
    def rows(self) -> tuple[tuple[str, str, str, str, str], ...]:
        """(gate, value, limit, interval, state) of all lists; `if not` begins those that only a CONDITIONAL needs."""
        beside = (("if not: ", self.conditional), ("stretch: ", self.stretch))
        others = ((f"{what}{each.row[0]}", *each.row[1:]) for what, gates in beside for each in gates)
        return (*(each.row for each in self.held), *others)

    def to_json(self) -> dict[str, object]:
        """All of it, as `decision.json` stores it."""
        return {
            "gates": self.gates.name,
            "run": self.run,
            "decision": self.name,
            "sentence": self.sentence,
            "headline": self.headline,
            "held": [each.to_json() for each in self.held],
            "conditional": [each.to_json() for each in self.conditional],
            "stretch": [each.to_json() for each in self.stretch],
        }


def decide(folder: Path, gates: GateSet, beside: Path | None = None) -> GateDecision:
    """Hold a set of gates against an evaluated run, and against a run beside it; refuses what was not evaluated."""
    record, config = _read_evaluated(folder, gates), stored_plan(folder)
    if beside is not None:
        record = replace(record, beside=_read_evaluated(beside, gates))
    # A master has no agents of its own: those of its fleet are meant.
    fleet = config.to_dict()["task"].get("fleet")
    if record.agents is None and fleet and Path(fleet).is_dir():
        record = replace(record, agents=read_agents(Path(fleet)))
    record = replace(record, hacks=_count_hacks(folder, config), episode_bars=_episode_bars(config))
    own = tuple(limit for limit in gates.gates if not limit.subject or has_subject(config, limit.subject))
    return GateDecision(
        gates,
        folder.name,
        held_gates(record, own),
        held_gates(record, gates.conditional),
        headline=str(record.judged["headline"]),
        reason=_explain_withheld(config, gates),
        stretch=held_gates(record, gates.stretch),
        is_about=not gates.subjects or any(has_subject(config, subject) for subject in gates.subjects),
    )


def _read_evaluated(folder: Path, gates: GateSet) -> RunRecord:
    if not (folder / EVALUATION / RESULT).is_file():
        raise RunError(f"{folder} was not evaluated; use `pacesetter evaluate {folder}` first")
    return read_record(folder, gates.index)


def _count_hacks(folder: Path, config: Plan) -> float:
    """By the audit of the training's reward over the judged account; NaN where there is none."""
    path = folder / EVALUATION / LEDGER
    if not path.is_file() or not isinstance(config.task, Trading):
        return math.nan
    ledger = pd.read_parquet(path)
    if "reward" not in ledger or len(ledger) < 2:
        return math.nan
    # The weights at the end of training, which the final policy was shaped by.
    terms = config.task.reward.components.items()
    return float(audit_ledger(ledger, {name: term.weight_at(config.train.steps) for name, term in terms}).hacks)


def _episode_bars(config: Plan) -> float:
    bars = config.task.episode_bars if isinstance(config.task, Trading) else None
    return math.nan if bars is None else float(bars)


def held_gates(record: RunRecord, limits: Sequence[Limit]) -> tuple[Held, ...]:
    """Limits with what the record has of each metric."""
    return hold(limits, measure(record, [limit.metric for limit in limits]))


def store_decision(decision: GateDecision, folder: Path) -> Path:
    """Write `decision.json`, which a bundle of the run carries on, and `decision.md`; the latest decision stands."""
    path = folder / EVALUATION / DECISION
    rows = decision.rows
    title = f"{decision.name}: {decision.run} by the gates '{decision.gates.name}'"
    write_atomic(path.with_suffix(".md"), decision_memo(title, decision.sentence, rows))
    return write_atomic(path, json.dumps(decision.to_json(), indent=2) + "\n")


def _explain_measuring(metrics: list[str]) -> str:
    """How metrics that were not measured can be, where an evaluation alone does not do it."""
    ways = dict.fromkeys(known.by for known in map(find_metric, metrics) if known is not None and known.by)
    return f": {', '.join(ways)}" if ways else ""


def _explain_withheld(config: Plan, gates: GateSet) -> str:
    """Why these bars cannot earn a GO; empty where they can."""
    source = config.data.source
    if gates.synthetic or source not in MADE_UP:
        return ""
    return f"the bars are synthetic (data={source}), which proves the machinery and never the market"
