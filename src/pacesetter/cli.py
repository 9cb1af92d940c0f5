"""The command line: `pacesetter run`, `pacesetter data …`. Heavy imports wait until a command needs them."""

from __future__ import annotations

import json
import logging
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from pacesetter.errors import PacesetterError

__all__ = ["app", "main"]

Overrides = Annotated[
    list[str] | None,
    typer.Argument(metavar="[KEY=VALUE]...", help="e.g. data=synthetic data.symbols=50 +preset=sandbox"),
]
app = typer.Typer(
    help="Find which assets set the pace of others, and train agents that trade on it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
data_app = typer.Typer(help="Sources, checks, processing and splits of bars.", no_args_is_help=True)
app.add_typer(data_app, name="data")


@app.callback(invoke_without_command=True)
def options(
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show what each room logs.")] = False,
) -> None:
    if version:
        from pacesetter import __version__

        typer.echo(f"pacesetter {__version__}")
        raise typer.Exit
    logging.basicConfig(level=logging.INFO if verbose else logging.WARNING, format="%(name)s: %(message)s")


@app.command()
def run(overrides: Overrides = None) -> None:
    """Run the main job: bars → checks → features → lead–lag → report."""
    from pacesetter.training import compose, run_job

    run_job(compose(overrides or ()))


@app.command()
def leadlag(overrides: Overrides = None) -> None:
    """Find who leads whom: ranking with intervals, links, lags and a time line, e.g. lag.method=levy_path."""
    from pacesetter.training import compose, run_job

    run_job(compose(["name=leadlag", *(overrides or ())]), stages=("load", "leadlag", "report"))


@app.command()
def train(
    overrides: Overrides = None,
    resume: Annotated[Path | None, typer.Option(help="Go on with the run in this folder, to the bit.")] = None,
) -> None:
    """Train an agent, e.g. task=trading agent=ppo data=sample train.steps=100000; seeds=5 for five of them."""
    from pacesetter.training.seeds import train_seeds
    from pacesetter.training.train import train as train_agent

    overrides = [f"train.{text}" if text.startswith("seeds=") else text for text in overrides or ()]
    if resume is None and train_seeds(overrides):
        return
    from pacesetter.training import compose

    config = compose(overrides) if overrides or resume is None else None
    if train_agent(config, resume=resume).stopped == "signal":
        raise typer.Exit(143)


@app.command()
def verify(run: Annotated[Path, typer.Argument(help="A finished run folder.")]) -> None:
    """Train a run again from its config and compare hashes. Exit 0 equal, 1 different."""
    from pacesetter.training.verify import verify as verify_run

    if not verify_run(run):
        raise typer.Exit(1)


@app.command()
def agents(overrides: Overrides = None) -> None:
    """Parameters, latency and memory of each network on the observations of a task, e.g. task=lookback."""
    from pacesetter.training import compose
    from pacesetter.training.networks import show_networks

    show_networks(compose(overrides or ()))


# ---- many runs, and where the time goes ---------------------------------------------------------------------------


@app.command()
def tune(
    overrides: Overrides = None,
    resume: Annotated[Path | None, typer.Option(help="Go on with the search in this folder.")] = None,
) -> None:
    """Search settings, e.g. agent=ppo tune.trials=20 'agent.gamma=interval(0.9,0.999)'; the best becomes a preset."""
    from pacesetter.training.search import tune as search

    search(overrides or (), resume=resume)


@app.command()
def sweep(
    overrides: Overrides = None,
    resume: Annotated[Path | None, typer.Option(help="Go on with the sweep in this folder.")] = None,
) -> None:
    """Train and compare variants, e.g. agent=ppo,a2c seed=range(0,5); sweep.design=ablation changes one at a time."""
    from pacesetter.training.sweep import sweep as train_variants

    train_variants(overrides or (), resume=resume)


@app.command()
def profile(overrides: Overrides = None) -> None:
    """Train for a moment and show where the time goes: a flame graph, and microseconds per step and component."""
    from pacesetter.training.profile import profile as profile_training

    profile_training(overrides or ())


@app.command()
def config(overrides: Overrides = None) -> None:
    """Print the resolved configuration and its hash, without running anything."""
    import yaml

    from pacesetter.runs import config_hash
    from pacesetter.training import compose

    resolved = compose(overrides or ()).to_dict()
    plain = json.loads(json.dumps(resolved))
    typer.echo(f"{yaml.safe_dump(plain, sort_keys=False)}# hash {config_hash(resolved)}")


@app.command()
def inspect(
    run: Annotated[Path, typer.Argument(help="A folder with ledger.parquet and fills.parquet.")],
    trades: Annotated[int, typer.Option(help="Trades to print; trades.csv has all.")] = 20,
) -> None:
    """Replay a stored episode: its trades, what it came to, and a chart with entries and exits."""
    from rich.console import Console
    from rich.table import Table

    from pacesetter.evaluation.episode import HEADER, Episode, trade_rows

    episode = Episode.load(run)
    table = Table(*HEADER)
    for row in trade_rows(episode.trades()[:trades]):
        table.add_row(*row)
    Console().print(table)
    typer.echo(episode.verdict())
    for path in episode.save(run):
        typer.echo(f"→ {path}")


@data_app.command("list")
def data_list() -> None:
    """List the registered sources with their options."""
    from rich.console import Console
    from rich.table import Table

    from pacesetter.data import SOURCES
    from pacesetter.training.configuration import source_defaults

    table = Table("source", "what it is", "options")
    for name in SOURCES:
        about = (SOURCES[name].__doc__ or "").strip().splitlines()[0]
        table.add_row(name, about, ", ".join(key for key in source_defaults(name) if key != "source"))
    Console().print(table)


@data_app.command("check")
def data_check(
    overrides: Overrides = None,
    out: Annotated[Path | None, typer.Option("--json", help="Write the report as JSON to this file.")] = None,
) -> None:
    """Check a source's bars: coverage, gaps, and every broken rule. Exit 0 fine, 1 errors found, 2 not readable."""
    from pacesetter.build import build_readiness
    from pacesetter.training import compose

    readiness = build_readiness(compose(overrides or ()))
    _show_readiness(readiness)
    if out is not None:
        out.write_text(json.dumps(readiness.to_json(), indent=2) + "\n", encoding="utf-8")
        typer.echo(f"JSON: {out}")
    if not readiness.ok:
        raise typer.Exit(1)


def _show_readiness(readiness: Any) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    table = Table(title=f"{readiness.bars} bars, {readiness.first} → {readiness.last}, calendar {readiness.calendar}")
    for name in ("symbol", "first", "last", "bars", "missing", "coverage"):
        table.add_column(name, justify="right" if name in ("bars", "missing", "coverage") else "left")
    for row in readiness.coverage:
        values = {**row, "first": row["first"][:10], "last": row["last"][:10], "coverage": f"{row['coverage']:.1%}"}
        table.add_row(*map(str, values.values()))
    console.print(table)
    for finding in readiness.findings:
        console.print(f"{finding.severity}: {finding.sentence()}", soft_wrap=True, markup=False, highlight=False)
    errors = sum(finding.severity == "error" for finding in readiness.findings)
    verdict = "READY" if readiness.ok else "NOT READY"
    console.print(f"{verdict}: {errors} errors, {len(readiness.findings) - errors} warnings", highlight=False)


@data_app.command("fetch")
def data_fetch(
    overrides: Overrides = None,
    out: Annotated[Path, typer.Option(help="Parquet file to write.")] = Path("data/raw.parquet"),
) -> None:
    """Load a source, checked, and store it as one Parquet panel with a manifest of hashes."""
    from pacesetter.build import build_panel
    from pacesetter.training import compose

    panel = build_panel(compose(overrides or ()))
    _store(panel, out)


@data_app.command("process")
def data_process(
    source: Annotated[Path, typer.Argument(help="A stored panel.")],
    out: Annotated[Path, typer.Option(help="Parquet file to write.")] = Path("data/processed.parquet"),
    fill: Annotated[str, typer.Option(help="Repair of missing bars: none, forward, interpolate or drop.")] = "none",
    resolution: Annotated[str | None, typer.Option(help="Coarser bars, e.g. 1W.")] = None,
) -> None:
    """Repair and resample a stored panel into another one."""
    from pacesetter.data import load

    _store(load("parquet", path=str(source), fill=fill, resolution=resolution), out)


@data_app.command("split")
def data_split(
    source: Annotated[Path, typer.Argument(help="A stored panel.")],
    out: Annotated[Path, typer.Option(help="JSON file to write.")] = Path("data/splits.json"),
    train: Annotated[float, typer.Option(help="Share of bars to train on.")] = 0.6,
    validation: Annotated[float, typer.Option(help="Share of bars to validate on.")] = 0.2,
    purge_bars: Annotated[int, typer.Option(help="Bars left out before each boundary.")] = 0,
    embargo_bars: Annotated[int, typer.Option(help="Bars left out behind each boundary.")] = 0,
) -> None:
    """Split a stored panel by time into train, validation and test."""
    from pacesetter.data.splits import chronological
    from pacesetter.panel import Panel

    test = round(1 - train - validation, 9)
    splits = chronological(Panel.load(source), train, validation, test, purge_bars, embargo_bars)
    _store(splits, out)


def _store(thing: Any, out: Path) -> None:
    """Save a panel or splits, and the manifest with its hash beside it."""
    from pacesetter.data.manifest import write_manifest

    out.parent.mkdir(parents=True, exist_ok=True)
    thing.save(out)
    write_manifest([out], out.with_suffix(".manifest.json"))
    typer.echo(f"{thing!r} → {out}")


def main() -> None:
    """Run the command line; what the user can put right is one sentence and exit code 2, never a traceback."""
    try:
        app()
    except PacesetterError as problem:
        typer.echo(f"error: {problem}", err=True)
        sys.exit(2)
    except BrokenPipeError:  # the reader of our output went away, e.g. `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)


if __name__ == "__main__":
    main()
