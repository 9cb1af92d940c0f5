"""Who allocates best on a page: the master, its agents' own orders, and fixed allocations. Reads a run folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from pacesetter.errors import RunError
from pacesetter.evaluation.fleet.account_measures import allocation_gates
from pacesetter.evaluation.report.page import Section, number
from pacesetter.evaluation.report.tables import read_table
from pacesetter.panel import Panel
from pacesetter.runs import ALLOCATIONS

__all__ = ["allocation_sentence", "allocations_section", "better_run", "read_allocations", "run_sections"]

MASTER, FLEET = "master", "fleet"  # its rows beside the fixed allocations
SHOWN = {
    "Sharpe ratio": ("sharpe", "+.2f"),
    "growth": ("growth", "+.1%"),
    "cash": ("cash", ".0%"),
    "positions": ("positions", ".1f"),
    "turnover a bar": ("turnover", ".1%"),
    "master less it": ("difference", "+.2f"),
    "from": ("low", "+.2f"),
    "to": ("high", "+.2f"),
}


def read_allocations(folder: Path) -> pd.DataFrame:
    """`allocations.csv`, a row for each policy; refuses a run without it."""
    path = folder / ALLOCATIONS
    if not path.is_file():
        raise RunError(
            f"{folder} has no {ALLOCATIONS}; give a finished run of task=master with train.validate_every above 0"
        )
    return read_table(path, index_col="policy")


def allocation_sentence(table: pd.DataFrame) -> str:
    """How far the master is above the best fixed allocation, with the interval, and whether it has collapsed."""
    own: Any = table.loc[MASTER]
    best: Any = table.drop([MASTER, FLEET]).sort_values("sharpe", kind="stable").iloc[-1]
    gates = allocation_gates(own)
    failed = [f"{gate.name} {gate.value:.2f} must be {gate.sense} {gate.limit:g}" for gate in gates if not gate.passed]
    collapse = f"it has collapsed: {', '.join(failed)}" if failed else "no collapse into cash or one symbol"
    return (
        f"the master's annualised Sharpe ratio is {own['sharpe']:+.2f}, a difference of {best['difference']:+.2f} "
        f"({best['low']:+.2f} to {best['high']:+.2f}) to {best.name}, the best fixed allocation; the fleet's own "
        f"orders have {table['sharpe'][FLEET]:+.2f}; {collapse}"
    )


def allocations_section(folder: Path) -> Section:
    """The table of allocations on the validation set."""
    table = read_allocations(folder)
    text = (
        "One account per allocation, on the validation set, which selected the master and is not "
        f"evidence for it: {allocation_sentence(table)}. The fleet's agents give their own orders; fixed allocations "
        "divide the money over what the agents want to hold."
    )
    rows = [(str(name), *(number(row[key], form) for key, form in SHOWN.values())) for name, row in table.iterrows()]
    return Section("Allocations", text, (), ("policy", *SHOWN), tuple(rows))


def better_run(fleet: Path, master: Path) -> Path:
    """The run folder of the two whose account had the higher Sharpe ratio on the validation set."""
    ratios = read_allocations(master)["sharpe"]
    # Of equal ones the simpler: a master that adds nothing is not served.
    return master if ratios[MASTER] > ratios[FLEET] else fleet


def run_sections(run: Path, panel: Panel) -> list[Section]:
    """What a report says of the training: the allocations, where they were validated."""
    return [allocations_section(run)] if (run / ALLOCATIONS).is_file() else []
