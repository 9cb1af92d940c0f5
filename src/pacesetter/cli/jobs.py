"""Commands that make runs: the pipeline, lead–lag, training, searches, a student, updates while trading."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pacesetter.cli.overrides import Overrides
from pacesetter.runs import Run

if TYPE_CHECKING:
    from pacesetter.jobs.pipeline.stages import Job

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add these commands to the application."""
    for command in (run, leadlag, train, config, verify, tag, distill, online):
        app.command()(command)


def run(
    overrides: Overrides = None,
    fast: Annotated[bool, typer.Option(help="Leave out stressed markets, other limits and explanations.")] = False,
) -> None:
    """Run the pipeline: bars → lead–lag → agents → evaluation → report; stage=leadlag runs one stage and its needs."""
    from pacesetter.jobs import resolve, run_job
    from pacesetter.jobs.pipeline.agents_stage import job_overrides

    stages = [text.removeprefix("stage=") for text in overrides or () if text.startswith("stage=")]
    own = [text for text in overrides or () if not text.startswith("stage=")]
    own += ["job.fast=true"] if fast else []
    job = run_job(resolve(job_overrides(own)), stages=stages[-1] if stages else "report")
    if "judge" in job.findings:
        _print_decision(job)


def _print_decision(job: Job) -> None:
    """The evaluated policy as a bundle, and the last table: what it holds at the next bar; or why there is none."""
    try:
        from pacesetter.serving.trader.demo import bundle_and_decide
    except ModuleNotFoundError as problem:
        typer.echo(f"Bundle: not created, {problem.name} is missing: pip install 'pacesetter[run]'")
        return
    from pacesetter.build.study import share_panel
    from pacesetter.evaluation.stored_run import fitted_risk
    from pacesetter.jobs.pipeline.master_stage import judged_run

    run, store = judged_run(job), Path(job.config.runs) / "bundles"
    with share_panel(job.config.data, job.panel):
        bundle_and_decide(job.console, run, store, job.folder("judge"), job.panel, fitted_risk(run))


def leadlag(overrides: Overrides = None) -> None:
    """Estimate which assets lead: ranking with intervals, links, lags and a timeline, e.g. lag.method=levy_path.

    data=ticks data.path=FOLDER compares trades or quotes of any number of series, each by its own clock.
    """
    if "data=ticks" in (overrides or ()):
        from pacesetter.jobs.ticks import run_ticks

        run_ticks(overrides or ())
        return
    from pacesetter.jobs import resolve_study, run_job

    run_job(resolve_study(["name=leadlag", *(overrides or ())]), stages=("load", "leadlag", "report"))


def train(
    overrides: Overrides = None,
    resume: Annotated[Path | None, typer.Option(help="Resume the run, search or sweep in this folder.")] = None,
    begin: Annotated[Path | None, typer.Option("--from", metavar="RUN", help="Go on learning from this run.")] = None,
    continuous: Annotated[
        bool, typer.Option("--continuous", help="With --from: continuous orders after discrete ones.")
    ] = False,
    launch: Annotated[str | None, typer.Option(metavar="NAME", help="Many runs: tune, sweep or cluster.")] = None,
    groups: Annotated[int, typer.Option(help="Of a cluster: parts that the symbols are split into.")] = 1,
    seeds: Annotated[str, typer.Option(help="Of a cluster: seeds of every group and fold, e.g. 0,1,2.")] = "0",
    folds: Annotated[int, typer.Option(help="Of a cluster: expanding walk-forward folds, one run each.")] = 1,
) -> None:
    """Train an agent, e.g. task=trading agent=ppo data=sample train.steps=100000; seeds=5 for five of them.

    --launch tune searches hyperparameters, e.g. tune.trials=20 'agent.gamma=interval(0.9,0.999)'; the best is a preset.
    --launch sweep trains and compares variants, e.g. agent=ppo,a2c seed=range(0,5); sweep.design=ablation changes one
    at a time. --launch cluster trains every group of symbols in every fold with every seed, on all cores or, with
    launcher=ray, on Ray actors; launcher.address=auto joins a cluster (examples/cluster.yaml). Run again, the same
    command resumes what is not finished.
    --from RUN fine-tunes a fleet in another market: the gain there, and what it forgot on its own validation set. With
    --continuous, an agent or a fleet gets continuous orders: encoder and hidden layers are kept, the last one is new,
    and a tenth of the steps trains it. The checkpoint is backed up; exit 1 if a check fails.
    """
    from pacesetter.jobs.launch.launch import Launch, launch_training

    asked = Launch(resume, begin, continuous, launch, groups, seeds, folds)
    if not launch_training(overrides or [], asked):
        raise typer.Exit(1)


def verify(run: Annotated[Path, typer.Argument(help="A finished run folder.")]) -> None:
    """Train a run again from its config and compare hashes. Exit 0 equal, 1 different."""
    from pacesetter.jobs.run.verify import verify as verify_run

    if not verify_run(run):
        raise typer.Exit(1)


def tag(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    words: Annotated[list[str] | None, typer.Argument(help="Words to add; none shows those it has.")] = None,
    remove: Annotated[list[str] | None, typer.Option(help="A word to take off; may be given again.")] = None,
) -> None:
    """Tag a run, so that the dashboard finds it, e.g. `tag runs/<run> final`."""
    from pacesetter.runs import write_tags

    typer.echo(f"{run.name}: {', '.join(write_tags(run, words or (), remove or ())) or 'no tags'}")


def config(
    overrides: Overrides = None,
    explain: Annotated[
        str | None, typer.Option(metavar="KEY", help="Explain a key or group, e.g. task.market.")
    ] = None,
) -> None:
    """Print what would be trained, in words and as keys with their hash; --explain says what keys mean."""
    import yaml

    from pacesetter.jobs import resolve
    from pacesetter.runs import config_hash

    composed = resolve(overrides or ())
    if explain is not None:
        from pacesetter.jobs.hydra.explain import explain_keys

        for row in explain_keys(composed, explain):
            typer.echo(f"{row.key}={json.dumps(row.value)}" + (f"  # {row.about}" if row.about else ""))
        return
    from pacesetter.build.sentence import describe_plan

    resolved = composed.to_dict()
    plain = json.loads(json.dumps(resolved))
    keys = yaml.dump(plain, sort_keys=False, Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper))
    typer.echo(f"# {describe_plan(composed)}\n{keys}# hash {config_hash(resolved)}")


def distill(
    run: Annotated[Path, typer.Argument(help="A finished run of task=fleet: the teacher.")],
    network: Annotated[str, typer.Option(help="Network of the student, see `pacesetter lab networks`.")] = "mlp_tiny",
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
