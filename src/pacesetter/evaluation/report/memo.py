"""The go/no-go memo: a decision that follows from the gates alone, in Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pacesetter.errors import DataError
from pacesetter.evaluation.statistics.gates import NOT_MEASURED, Gate
from pacesetter.evaluation.statistics.verdict import Verdict
from pacesetter.words import for_markdown

__all__ = ["decision_memo", "memo"]


def memo(verdict: Verdict, gates: Sequence[Gate], facts: Mapping[str, str] | None = None) -> str:
    """The memo on a judged policy: GO where it passes every gate, else NO-GO; `facts` are the set-up, shown last."""
    # all() of no gates is true: a policy without a measured gate would be a GO.
    if not gates:
        raise DataError(f"a decision on {verdict.name} needs at least one measured gate")
    failed = [gate for gate in gates if not gate.passed]
    decision = f"# {'NO-GO' if failed else 'GO'}: {for_markdown(verdict.name)}"
    passed = f"{len(gates) - len(failed)} of {len(gates)} gates passed."
    rows = [
        f"| {gate.name} | {gate.value:.4g} | {gate.sense} {gate.limit:g} | {'pass' if gate.passed else 'FAIL'} |"
        for gate in gates
    ]
    table = ["| gate | value | limit | |", "|---|---|---|---|", *rows]
    parts = [
        decision,
        f"**{for_markdown(verdict.headline)}**",
        for_markdown(verdict.sentence),
        passed,
        "## Gates\n\n" + "\n".join(table),
    ]
    if failed:
        open_points = [f"- {gate.name}: {gate.value:.4g} must be {gate.sense} {gate.limit:g}" for gate in failed]
        parts.append("## Failed gates\n\n" + "\n".join(open_points))
    if facts:
        parts.append(
            "## Set-up\n\n"
            + "\n".join(f"- {for_markdown(name)}: {for_markdown(value)}" for name, value in facts.items())
        )
    return "\n\n".join(parts) + "\n"


def decision_memo(title: str, sentence: str, rows: Sequence[Sequence[str]]) -> str:
    """The memo on a set of gates: its decision, and every value with its limit and interval."""
    table = ["| gate | value | limit | interval | |", "|---|---|---|---|---|"]
    table += [f"| {' | '.join(row)} |" for row in rows]
    failed = [f"- {row[0]}: {row[1]} must be {row[2]}" for row in rows if row[-1] == "FAIL"]
    missing = [f"- {row[0]}" for row in rows if row[-1] == NOT_MEASURED]
    parts = [f"# {title}", sentence, "## Gates\n\n" + "\n".join(table)]
    if failed:
        parts.append("## Failed gates\n\n" + "\n".join(failed))
    if missing:
        parts.append("## Not measured\n\n" + "\n".join(missing))
    return "\n\n".join(parts) + "\n"
