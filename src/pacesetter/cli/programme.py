"""The programme: all phases from data to a bundle, where it stands, and the way back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pacesetter.cli.overrides import Overrides

if TYPE_CHECKING:
    from pacesetter.jobs.pipeline.stages import Job, StageResult

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add this command to the application."""
    app.command()(programme)


def programme(
    overrides: Overrides = None,
    phase: Annotated[str, typer.Option(help="Stop after this phase.")] = "bundle",
    status: Annotated[bool, typer.Option("--status", help="Show where the latest programme stands.")] = False,
    rollback: Annotated[
        bool, typer.Option("--rollback", help="Go back to the last good phase, and to the bundle before.")
    ] = False,
    despite_no_go: Annotated[bool, typer.Option(help="Go on after a NO-GO, and bundle it all the same.")] = False,
    reports: Annotated[
        bool, typer.Option("--reports", help="Write the completion report of the latest programme's phases.")
    ] = False,
    risks: Annotated[bool, typer.Option("--risks", help="Write the risk log of the latest programme.")] = False,
) -> None:
    """Go from data to a bundle: data, baselines, prototype, tuning, fleet, master, validation, bundle, each with gates.

    The same command resumes after the last finished phase. Start with +preset=prototype or +preset=prototype_offline.
    Exit 1 where a gate says NO-GO.
    """
    from pacesetter.jobs import resolve
    from pacesetter.lab.programme.programme import run_programme

    config = resolve(_own_overrides(overrides or []))
    if status:
        _show_status(Path(config.runs))
        return
    if rollback:
        _roll_back(Path(config.runs))
        return
    if reports or risks:
        _write_deliverables(Path(config.runs), reports, risks)
        return

    def bundle(job: Job, folder: Path) -> StageResult:
        return _bundle(job, despite_no_go)

    result = run_programme(config, bundle, until=phase, despite_no_go=despite_no_go)
    typer.echo(f"Status: {result.job.run.folder / 'status.html'}")
    if result.is_stopped:
        raise typer.Exit(1)


def _own_overrides(given: list[str]) -> list[str]:
    """With what the programme takes where nothing else is named: a fleet of PPO agents, and its own name."""
    names = {text.partition("=")[0] for text in given}
    chosen = [] if names & {"task", "agent", "+preset"} else ["task=fleet", "agent=ppo"]
    return [*chosen, *given, *([] if "name" in names else ["name=programme"])]


def _bundle(job: Job, despite_no_go: bool) -> StageResult:
    """The judged policy as a bundle in the store beside the runs, with the decision of the last gates in it."""
    from pacesetter.jobs.pipeline.stages import StageResult, only_run
    from pacesetter.runs import EVALUATION
    from pacesetter.serving.trader.demo import bundle_and_ask

    run = only_run(job.folder("validation"))
    return StageResult(bundle_and_ask(run, _store(job.config.runs), run / EVALUATION, despite_no_go=despite_no_go))


def _store(runs: str | Path) -> Path:
    return Path(runs) / "bundles"


def _show_status(runs: Path) -> None:
    from rich.console import Console

    from pacesetter.evaluation.programme.status import read_status
    from pacesetter.jobs.pipeline.show import section_table

    folder = _latest(runs)
    section = read_status(folder).section()
    console = Console()
    console.print(section_table(section))
    console.print(section.text, highlight=False, markup=False)
    typer.echo(f"Page: {folder / 'status.html'}")


def _write_deliverables(runs: Path, has_reports: bool, has_risks: bool) -> None:
    """The completion report and the risk log of the latest programme, as asked for."""
    from pacesetter.lab.programme.deliverables import write_completion, write_risks

    folder = _latest(runs)
    written = [*(write_completion(folder) if has_reports else ()), *(write_risks(folder) if has_risks else ())]
    typer.echo(f"→ {', '.join(map(str, written))}")


def _latest(runs: Path) -> Path:
    from pacesetter.errors import RunError
    from pacesetter.evaluation.programme.status import latest_status

    folder = latest_status(runs)
    if folder is None:
        raise RunError(f"{runs} has no programme; start one with: pacesetter lab programme +preset=prototype_offline")
    return folder


def _roll_back(runs: Path) -> None:
    """Forget what came after the last good phase; where the bundle was among it, the one before serves again."""
    from pacesetter.evaluation.programme.status import latest_status, read_status
    from pacesetter.lab.programme.programme import roll_back

    programme_folder = latest_status(runs)
    # Read before rolling back, which clears the phase's line.
    served = (
        ""
        if programme_folder is None
        else next(each.line for each in read_status(programme_folder).phases if each.name == "bundle")
    )
    folder, status, phases = roll_back(runs, programme_folder)
    typer.echo(f"{folder.name}: rolled back {', '.join(phases)}. {status.sentence}")
    if "bundle" in phases and served:
        typer.echo(_previous_bundle(runs))


def _previous_bundle(runs: Path) -> str:
    from pacesetter.errors import RunError
    from pacesetter.serving.bundle.signature import SigningKey
    from pacesetter.serving.bundle.store import Store

    try:
        left, taken = Store(_store(runs)).rollback(SigningKey.find())
    except RunError as problem:
        return f"The bundle stays: {problem}"
    return f"{taken.name} serves again instead of {left.name}."
