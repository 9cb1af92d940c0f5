"""Where a programme stands: its phases with their decisions, as `status.json` and a page; and which is the latest."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from pacesetter.errors import RunError
from pacesetter.evaluation.report.page import Section, write_report
from pacesetter.runs import write_atomic

__all__ = ["STATUS", "PhaseStatus", "ProgrammeStatus", "latest_status", "read_status", "write_status"]

STATUS = "status.json"
WAITING, RUNNING, DONE, FAILED, STOPPED, ROLLED_BACK = "waiting", "running", "done", "failed", "stopped", "rolled back"
HEADER = ("phase", "state", "decision", "seconds", "result")


@dataclass(frozen=True)
class PhaseStatus:
    """One phase.

    state      waiting, running, done, failed, stopped (a NO-GO ended the programme here) or rolled back
    decision   GO, CONDITIONAL or NO-GO; empty where it has no gates
    line       what it came to          report   page of the phase, beside the status
    kept       name of the folder that its results are kept in
    """

    name: str
    state: str = WAITING
    decision: str = ""
    line: str = ""
    seconds: float | None = None
    report: str = ""
    kept: str = ""

    @property
    def is_good(self) -> bool:
        """Whether it is done and no gate said NO-GO."""
        return self.state == DONE and self.decision != "NO-GO"


@dataclass(frozen=True)
class ProgrammeStatus:
    """All phases of one programme.

    run   name of its folder         synthetic   whether its bars were made up, which is said wherever it is shown
    """

    run: str
    started: str
    phases: tuple[PhaseStatus, ...]
    synthetic: bool = False

    @property
    def sentence(self) -> str:
        """Where it stands, in words."""
        done = sum(phase.state == DONE for phase in self.phases)
        said = f"{done} of {len(self.phases)} phases are done."
        current = next((phase for phase in self.phases if phase.state in (RUNNING, FAILED, STOPPED)), None)
        if current is not None:
            said += f" The phase '{current.name}' is {current.state}" + (f": {current.line}" if current.line else "")
            said += "" if said.endswith(".") else "."
        if self.synthetic:
            said += " The bars are SYNTHETIC: this shows the machinery, and nothing about a market."
        return said

    @property
    def rows(self) -> tuple[tuple[str, ...], ...]:
        """(phase, state, decision, seconds, result)."""
        return tuple(
            (each.name, each.state, each.decision, "" if each.seconds is None else f"{each.seconds:.0f}", each.line)
            for each in self.phases
        )

    def section(self) -> Section:
        """As a table."""
        return Section("Programme", self.sentence, (), HEADER, self.rows)

    def with_phase(self, name: str, **changes: Any) -> ProgrammeStatus:
        """With one phase changed."""
        phases = tuple(replace(each, **changes) if each.name == name else each for each in self.phases)
        return replace(self, phases=phases)

    def last_good(self) -> int:
        """Place of the last phase before the first that is not good; −1 where none is."""
        bad = next((place for place, each in enumerate(self.phases) if not each.is_good), len(self.phases))
        return bad - 1


def write_status(status: ProgrammeStatus, folder: Path, more: Sequence[Section] = ()) -> Path:
    """Write `status.json` and `status.html` into a programme's folder; gives the page."""
    write_atomic(folder / STATUS, json.dumps(asdict(status), indent=2) + "\n")
    return write_report(folder / "status.html", "Programme", [status.section(), *more])


def read_status(folder: Path) -> ProgrammeStatus:
    """What `write_status` wrote; refuses a folder without it."""
    try:
        stored = json.loads((folder / STATUS).read_text(encoding="utf-8"))
        phases = tuple(PhaseStatus(**each) for each in stored.pop("phases"))
        return ProgrammeStatus(**stored, phases=phases)
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise RunError(
            f"{folder} has no readable {STATUS} ({type(problem).__name__}); give a folder of `pacesetter lab programme`"
        ) from problem


def latest_status(runs: Path) -> Path | None:
    """Folder of the latest programme below the runs; None where there is none."""
    return max((path.parent for path in runs.glob(f"*/{STATUS}")), key=lambda folder: folder.name, default=None)
