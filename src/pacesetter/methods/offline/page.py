"""Runs that learned from stored episodes, side by side: from what, what the data said, and what the market answered."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pacesetter.errors import RunError
from pacesetter.evaluation.report.compare import Judged
from pacesetter.evaluation.report.page import Section, format_signed, number

__all__ = ["offline_section"]

REPORT = "offline.json"  # that an offline run leaves beside its checkpoints
ESTIMATES = ("WIS", "DR", "FQE", "market")
HEADER = ("run", "agent", "learned from", "episodes", "held-out accuracy", *ESTIMATES)
TEXT = (
    "Runs that learned from stored episodes alone. WIS, DR and FQE: the discounted return of an episode as held-out "
    "episodes estimate it, with 95 % intervals; market: what the policy then earned in episodes like them."
)


def offline_section(runs: Sequence[Judged]) -> Section | None:
    """A row for each run that learned offline; None where none did."""
    rows = [row for run in runs if (row := _row(run)) is not None]
    return Section("Learned from stored episodes", TEXT, (), HEADER, tuple(sorted(rows))) if rows else None


def _row(run: Judged) -> tuple[str, ...] | None:
    path = (run.folder.parent if run.folder else Path()) / REPORT
    if run.folder is None or not path.is_file():
        return None
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
        accuracy, known = facts["held_out"]["accuracy"], {each["name"]: each for each in facts["estimates"]}
    except (ValueError, KeyError, TypeError) as problem:
        raise RunError(f"{path} is damaged ({problem!r}); train the run again") from problem
    source = facts.get("dataset", {})  # of a run from before it was stored: nothing
    regimes = ", ".join(source.get("regimes", ()))
    learned = f"{source['source']} ({regimes})" if source else "–"
    return (
        run.name,
        str(facts.get("agent", "–")),
        learned,
        f"{source['episodes']:,}" if source else "–",
        number(accuracy, ".1%"),
        *(_estimate(known.get(name)) for name in ESTIMATES),
    )


def _estimate(each: dict[str, Any] | None) -> str:
    if not each:
        return "–"
    value, low, high = (format_signed(each[name]) for name in ("value", "low", "high"))
    return f"{value} ({low} to {high})"
