"""Commands on stored episodes and runs: export, freshness, distillation, fine-tuning, adaptation."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pacesetter.cli.overrides import Overrides
from pacesetter.runs import Run

__all__ = ["data_fresh", "register"]


def register(app: typer.Typer) -> None:
    """Add these commands to the application."""
    for command in (export, distill, finetune, adapt, online):
        app.command()(command)


def export(
    source: Annotated[str, typer.Argument(help="A run of task=fleet, a paper folder; or random, expert, oracle.")],
    overrides: Overrides = None,
    out: Annotated[Path, typer.Option(help="HDF5 file to write.")] = Path("data/episodes.h5"),
    episodes: Annotated[int, typer.Option(help="Episodes of each regime, at least.", min=1)] = 500,
    regimes: Annotated[str, typer.Option(help="Of random,medium,expert; default: all.")] = "",
    bars: Annotated[int | None, typer.Option(help="Bars of an episode; default: task.episode_bars.", min=1)] = None,
    seed: Annotated[int, typer.Option(help="Of starts and orders.", min=0)] = 0,
    minari: Annotated[bool, typer.Option("--minari", help="Also write Minari's format beside it, as NAME-v0.")] = False,
) -> None:
    """Store episodes of the training set as an HDF5 dataset for agent=bc, cql and iql."""
    from pacesetter.methods.offline.export import export_episodes

    names = [name for name in regimes.split(",") if name]
    options = {"out": out, "episodes": episodes, "regimes": names, "bars": bars, "seed": seed, "minari": minari}
    typer.echo(str(export_episodes(source, overrides or (), **options)))  # type: ignore[arg-type]


def distill(
    run: Annotated[Path, typer.Argument(help="A finished run of task=fleet: the teacher.")],
    network: Annotated[str, typer.Option(help="Network of the student, see `pacesetter agents`.")] = "mlp_tiny",
    heads: Annotated[int, typer.Option(help="Width of the student's heads.", min=1)] = 32,
    steps: Annotated[int, typer.Option(help="Rows drawn of each symbol.", min=1)] = 40_000,
    episodes: Annotated[int, typer.Option(help="Episodes of each behaviour to learn from.", min=1)] = 200,
    temperature: Annotated[
        float, typer.Option(help="Divides the logits of both while it learns, 1 to 100; discrete orders only.")
    ] = 1.0,
    seed: Annotated[int, typer.Option(help="Of weights, starts and orders.", min=0)] = 0,
    device: Annotated[str, typer.Option(help="Of the gradient steps, e.g. cuda for a large teacher.")] = "cpu",
    store: Annotated[Path | None, typer.Option("--bundle", help="Also bundle the student into this store.")] = None,
) -> None:
    """Train a small student of a run's fleet by KL over visited states; sizes, latency and agreement side by side."""
    from pacesetter.methods.offline.distill import Student
    from pacesetter.methods.offline.distill import distill as train_student

    asked = Student(network=network, heads=heads, steps=steps, episodes=episodes, temperature=temperature)
    student = train_student(run, asked, seed, device=device)
    _show_served(run, student)
    if store is not None:
        from pacesetter.serving.bundle.packaging import bundle_run

        folder, bundle = bundle_run(student.folder, store)
        teacher = bundle.manifest["training"]["teacher"]["weights_hash"]
        typer.echo(f"Bundle: {folder}, teacher {teacher[:12]}")


def _show_served(teacher: Path, student: Run) -> None:
    """Print the graphs side by side, where what serves them is installed."""
    from rich.console import Console

    try:
        from pacesetter.serving.bundle.student import served_table
    except ImportError as problem:
        typer.echo(f"served graphs are not compared, {problem.name} is missing: pip install 'pacesetter[serve]'")
        return
    Console().print(served_table(teacher, student))


def finetune(
    run: Annotated[Path, typer.Argument(help="A finished run of task=fleet to begin with.")],
    overrides: Overrides = None,
) -> None:
    """Let a fleet learn on in another market; reports gain there and forgetting on its own validation set."""
    from pacesetter.methods.offline.fine_tuning import fine_tune

    typer.echo(f"→ {fine_tune(run, overrides or ()).folder}")


def adapt(
    run: Annotated[Path, typer.Argument(help="A finished run of task=fleet agent=meta.")],
    against: Annotated[
        list[Path] | None, typer.Option(help="Another run of task=fleet on the same data, e.g. agent=ppo.")
    ] = None,
    families: Annotated[str, typer.Option(help="Of persistent,mixed,slices,blends.")] = "persistent,mixed",
    tasks: Annotated[int, typer.Option(help="Unseen markets of each family.", min=2)] = 4,
    episodes: Annotated[int, typer.Option(help="Of each symbol in each market.", min=1)] = 4,
    seed: Annotated[int, typer.Option(help="Of markets and starts; another one than training's.", min=0)] = 1_000,
) -> None:
    """Play a run with a context on unseen markets: score against bars seen, with and without context, by regime."""
    from pacesetter.methods.meta.adaptation import adapt_run

    names = tuple(name for name in families.split(",") if name)
    typer.echo(f"Report: {adapt_run(run, tuple(against or ()), names, tasks, episodes, seed)}")


def online(
    run: Annotated[
        Path, typer.Argument(help="A run of task=fleet agent=ppo or sac; or an updater's own run to resume.")
    ],
    options: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="e.g. every_bars=50 steps=2048 data.path=…")
    ] = None,
    first: Annotated[int | None, typer.Option(help="Bar of the first update; default: after the training.")] = None,
    store: Annotated[
        Path | None,
        typer.Option(help="Keep this store, which paper follows, at the fleet in force."),
    ] = None,
    watch: Annotated[float | None, typer.Option(help="Look for new bars every so many seconds, until stopped.")] = None,
    rollback: Annotated[bool, typer.Option("--rollback", help="Undo the latest swap that is in force.")] = False,
) -> None:
    """Update a fleet on new bars beside `pacesetter paper STORE follow=true`: shadow, drift alarms, swap or keep."""
    from pacesetter.jobs.hydra.overrides import nest_options
    from pacesetter.jobs.online.session import update_online

    def keep(updated: Run) -> None:
        if store is not None:
            _promote_run(store, updated)

    if store is not None:
        from pacesetter.serving.bundle.promotion import check_store

        check_store(store)
    if rollback:
        _roll_back(run, store)
        return
    update_online(run, nest_options(options or []), first=first, watch_seconds=watch, taken=keep)


def _roll_back(folder: Path, store: Path | None) -> None:
    """Undo the latest swap in force; or complete the roll-back before, where a kill kept it from the store."""
    from pacesetter.jobs.online.updater import OnlineUpdater
    from pacesetter.serving.bundle.promotion import holds_run

    updater, run = OnlineUpdater(folder), Run.open(folder)
    swaps = updater.swaps()
    if store is not None and swaps.last == "rollback" and not holds_run(store, run):
        typer.echo(f"update {swaps.undone[-1]} is undone already, but not in {store}: completed there, no further back")
        _promote_run(store, run)
        return
    typer.echo(f"back before update {updater.roll_back()['from']}")
    if store is None:
        return
    if holds_run(store, run):
        typer.echo(f"{store} has that fleet already; no bundle is made")
    _promote_run(store, run)


def _promote_run(store: Path, run: Run) -> None:
    from pacesetter.serving.bundle.promotion import promote_run

    folder = promote_run(store, run)
    if folder is not None:
        typer.echo(f"Bundle: {folder}")


def data_fresh(
    dataset: Annotated[Path, typer.Argument(help="A dataset that `pacesetter export` wrote, or a folder of them.")],
    overrides: Overrides = None,
) -> None:
    """Whether a dataset still fits its data, configuration and schema. Exit 0 fresh, 1 stale, 2 not readable."""
    from pacesetter.methods.offline.export import stale_reasons

    reasons = stale_reasons(dataset, overrides or ())
    for reason in reasons:
        typer.echo(f"stale: {reason}")
    if reasons:
        typer.echo("export it again with: pacesetter export …")
        raise typer.Exit(1)
    typer.echo(f"{dataset} is fresh")
