"""Commands that make runs: the pipeline, lead–lag, training, searches."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pacesetter.cli.overrides import Overrides

if TYPE_CHECKING:
    from pacesetter.jobs.pipeline.stages import Job

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add these commands to the application."""
    for command in (run, leadlag, train, migrate, verify, tag, agents, config):
        app.command()(command)


def run(
    overrides: Overrides = None,
    fast: Annotated[bool, typer.Option(help="Leave out stressed markets, other limits and explanations.")] = False,
) -> None:
    """Run the pipeline: bars → lead–lag → agents → evaluation → report; stage=leadlag runs one stage and its needs."""
    from pacesetter.jobs import resolve, run_job
    from pacesetter.jobs.pipeline.fleet_stage import job_overrides

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
    """
    from pacesetter.jobs.launch.launch import launch_training

    launch_training(overrides or [], resume, launch, groups=groups, seeds=seeds, folds=folds)


def migrate(
    run: Annotated[Path, typer.Argument(help="A run with discrete orders, e.g. runs/<time>-<name>-<hash>.")],
    overrides: Overrides = None,
) -> None:
    """Give a trained agent or fleet continuous orders: encoder and hidden layers are kept, the last one is new.

    The checkpoint is backed up, the new agent is fine-tuned for a tenth of the steps (train.steps=…), and checks are
    printed. Exit 1 if one fails.
    """
    from pacesetter.jobs.launch.migrate import migrate_run

    if not migrate_run(run, overrides or []).passed:
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


def agents(overrides: Overrides = None) -> None:
    """Parameters, latency and memory of each network on the observations of a task, e.g. task=lookback."""
    from pacesetter.jobs import resolve
    from pacesetter.jobs.networks import show_networks

    show_networks(resolve(overrides or ()))


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
