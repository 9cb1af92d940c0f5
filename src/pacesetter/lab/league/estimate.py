"""How long cells would take: a short piece of each entrant's training is played, and scaled to all of its steps."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pacesetter.build import build_learner, build_panel, build_parts
from pacesetter.build.prior import with_prior
from pacesetter.build.utility import with_utility
from pacesetter.cells import Table
from pacesetter.lab.league.cell import Cell, cell_key
from pacesetter.learning.learner import Between, Learner

__all__ = ["TrainingLeft", "estimate_cells", "estimate_table"]

PROBE_ROUNDS = 4  # of learning, after those that set everything up


@dataclass(frozen=True)
class TrainingLeft:
    """Of one entrant: cells that are left, and the seconds that one of them takes."""

    entrant: str
    cells: int
    seconds: float

    @property
    def hours(self) -> float:
        """Of all of them, one after another."""
        return self.cells * self.seconds / 3600


def estimate_cells(cells: Sequence[Cell]) -> list[TrainingLeft]:
    """An estimate for each entrant that trains; cells that the folder holds take nothing."""
    left: dict[str, list[Cell]] = {}
    for cell in cells:
        if cell.overrides is not None and not _is_played(cell):
            left.setdefault(cell.entrant, []).append(cell)
    return [TrainingLeft(entrant, len(own), _probe(own[0])) for entrant, own in left.items()]


def _is_played(cell: Cell) -> bool:
    key = cell_key(cell, cell.config, build_panel(cell.config))
    return (Path(cell.folder) / "cells" / f"{key}.json").is_file()


def _probe(cell: Cell) -> float:
    """Seconds of a cell: those until learning has begun in earnest, and the rest by the pace of some rounds."""
    start, config = time.perf_counter(), cell.config
    panel = build_panel(config)
    config = with_prior(with_utility(config, panel))
    learner = build_learner(config, build_parts(config, panel))
    # A replay learns nothing before its first steps, which would make it look quick.
    begin = max(int(config.agent.options.get("learning_starts") or 0), 1)
    learner.learn(_rounds(learner, begin), Between())
    learner.learn(_rounds(learner, learner.step + 1), Between())
    begun, first = time.perf_counter(), learner.step
    learner.learn(_rounds(learner, first + PROBE_ROUNDS * learner.round_steps), Between())
    pace = (time.perf_counter() - begun) / (learner.step - first)
    return begun - start + pace * max(config.train.steps - first, 0)


def _rounds(learner: Learner, steps: int) -> int:
    """At least so many steps, in whole rounds."""
    return -(-steps // learner.round_steps) * learner.round_steps


def estimate_table(estimates: Sequence[TrainingLeft], workers: int) -> Table:
    """Hours by entrant, and of all with so many workers; validation and the test set come on top."""
    rows = [(each.entrant, str(each.cells), f"{each.seconds:.0f}", f"{each.hours:.2f}") for each in estimates]
    total = sum(each.hours for each in estimates)
    rows.append(("all", str(sum(each.cells for each in estimates)), "", f"{total:.2f}"))
    title = f"Training that is left: {total / workers:.1f} hours with {workers} worker{'s' if workers > 1 else ''}"
    return Table(("entrant", "cells", "seconds each", "hours"), tuple(rows), title)
