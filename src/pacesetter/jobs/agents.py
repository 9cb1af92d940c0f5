"""`pacesetter inspect --agents`: a fleet's agents on the validation set, out-of-sample, and together."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from pacesetter.build import stage_run
from pacesetter.evaluation.fleet.agents_page import agents_section
from pacesetter.evaluation.fleet.ensemble import Ensemble, evidence, unseen_returns
from pacesetter.evaluation.fleet.ensemble_page import ensemble_section, evidence_section
from pacesetter.evaluation.report.page import write_report
from pacesetter.evaluation.stored_run import StoredRun
from pacesetter.jobs.pipeline.show import section_table
from pacesetter.runs import Run

__all__ = ["show_agents"]

PAGE = "fleet.html"


def show_agents(run: Path, draws: int | None = None) -> Path:
    """Print the tables of a fleet, or of that of a pipeline, and write its page; `draws` of the bootstrap."""
    opened = Run.open(stage_run(run, "agents"))
    stored = StoredRun(opened.folder)
    first = agents_section(stored.folder)  # refuses a run without agents before anything is played
    returns, per_year = unseen_returns(stored), stored.panel.bars_per_year
    period = f"{returns.index[0]:%Y-%m-%d} to {returns.index[-1]:%Y-%m-%d}"
    shown = [first, evidence_section(evidence(returns, per_year, draws), period)]
    shown.append(ensemble_section(Ensemble(returns, per_year)))
    console = Console()
    for section in shown:
        console.print(section_table(section, ("entropy", "main action")))
        console.print(section.text, highlight=False, markup=False)
    facts = {"config hash": opened.manifest["config_hash"], "data fingerprint": stored.panel.fingerprint}
    return write_report(stored.folder / PAGE, stored.folder.name, shown, stored.panel.notes, facts)
