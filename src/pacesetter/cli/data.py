"""`pacesetter data`: sources, checks, processing and splits of bars, and datasets of episodes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pacesetter.cli.overrides import Overrides
from pacesetter.words import escape_controls

if TYPE_CHECKING:
    from pacesetter.data.splits import Splits
    from pacesetter.jobs.large import LargeFiles
    from pacesetter.panel import Panel

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add these commands to the application."""
    group = typer.Typer(
        help="Sources, checks, processing and splits of bars; datasets of episodes.", no_args_is_help=True
    )
    checks = (data_list, data_check, data_verify, data_fresh)
    for command in (*checks, data_fetch, data_process, data_split, data_features, data_export):
        group.command(command.__name__.removeprefix("data_"))(command)
    app.add_typer(group, name="data")


def data_list() -> None:
    """List the registered sources with their options."""
    from rich.console import Console

    from pacesetter.cells import Table
    from pacesetter.data import SOURCES
    from pacesetter.jobs.hydra.groups import source_defaults

    about = {name: (SOURCES[name].__doc__ or "").strip().splitlines()[0] for name in SOURCES}
    options = {name: ", ".join(key for key in source_defaults(name) if key != "source") for name in SOURCES}
    Console().print(
        Table(("source", "what it is", "options"), [(name, about[name], options[name]) for name in SOURCES])
    )


Memory = Annotated[str, typer.Option(help="Memory of all processes together, e.g. 8GB.")]


def data_check(
    overrides: Overrides = None,
    out: Annotated[Path | None, typer.Option("--json", help="Write the report as JSON to this file.")] = None,
    report: Annotated[
        Path | None, typer.Option(help="Page to write of bars and environment; its tables as Markdown are next to it.")
    ] = None,
    memory: Annotated[
        str | None, typer.Option(help="Read some symbols at a time within so much memory, e.g. 4GB.")
    ] = None,
) -> None:
    """Check a source's bars: coverage, gaps, and every broken rule. Exit 0 fine, 1 errors found, 2 not readable.

    With --memory, files of any size are checked, e.g. data=FOLDER --memory 4GB launcher.workers=2.
    """
    from rich.console import Console

    from pacesetter.jobs import resolve_study

    if memory is None:
        readiness = resolve_study(overrides or ()).data.check()
    else:
        large = _open_large_files(overrides, memory)
        readiness = large.check()
    console = Console()
    console.print(readiness.table())
    for line in readiness.lines():
        console.print(line, soft_wrap=True, markup=False, highlight=False)
    if memory is not None:
        typer.echo(f"peak {large.peak_mb:,.0f} MB of --memory {memory}")
    if out is not None:
        out.write_text(json.dumps(readiness.to_json(), indent=2) + "\n", encoding="utf-8")
        typer.echo(f"JSON: {out}")
    if report is not None:
        from pacesetter.evaluation.report.judgement_page import write_pages
        from pacesetter.lab.programme.environment import check_environment, environment_section, readiness_sections

        report.parent.mkdir(parents=True, exist_ok=True)
        sections = [*readiness_sections(readiness), environment_section(check_environment())]
        typer.echo(f"→ {', '.join(map(str, write_pages(report, 'Readiness of data and environment', sections)))}")
    if not readiness.ok:
        raise typer.Exit(1)


def _open_large_files(overrides: list[str] | None, memory: str, at_once: int | None = None) -> LargeFiles:
    """The files to be read in parts, by the launcher that the overrides name."""
    from pacesetter.jobs import resolve
    from pacesetter.jobs.hydra.overrides import take_options
    from pacesetter.jobs.large import LargeFiles
    from pacesetter.jobs.launch.workers import Launcher

    launcher, own = take_options(overrides or (), "launcher", Launcher)
    return LargeFiles(resolve(own), launcher, memory, at_once)


def data_fetch(
    overrides: Overrides = None,
    out: Annotated[Path, typer.Option(help="Parquet file to write.")] = Path("data/raw.parquet"),
) -> None:
    """Load a source, checked, and store it as one Parquet panel with a manifest of hashes."""
    from pacesetter.build import build_panel
    from pacesetter.jobs import resolve_study

    panel = build_panel(resolve_study(overrides or ()))
    _store(panel, out)


def data_process(
    source: Annotated[Path, typer.Argument(help="A stored panel.")],
    out: Annotated[Path, typer.Option(help="Parquet file to write.")] = Path("data/processed.parquet"),
    fill: Annotated[str, typer.Option(help="Repair of missing bars: none, forward, interpolate or drop.")] = "none",
    resolution: Annotated[str | None, typer.Option(help="Coarser bars, e.g. 1W.")] = None,
) -> None:
    """Repair and resample a stored panel into another one."""
    from pacesetter.data import load

    _check_manifest(source)
    _store(load("parquet", path=str(source), fill=fill, resolution=resolution), out)


def data_split(
    source: Annotated[Path, typer.Argument(help="A stored panel.")],
    out: Annotated[Path, typer.Option(help="JSON file to write.")] = Path("data/splits.json"),
    train: Annotated[float, typer.Option(help="Share of bars to train on.")] = 0.6,
    validation: Annotated[float, typer.Option(help="Share of bars to validate on.")] = 0.2,
    purge_bars: Annotated[int, typer.Option(help="Bars dropped before each boundary.")] = 0,
    embargo_bars: Annotated[int, typer.Option(help="Bars dropped after each boundary.")] = 0,
) -> None:
    """Split a stored panel by time into train, validation and test."""
    from pacesetter.data.splits import chronological
    from pacesetter.panel import Panel

    _check_manifest(source)
    # Unrounded, 1 - 0.7 - 0.3 is 6e-17 in binary: a test share above 0, and a split without test bars would be
    # accepted.
    test = round(1 - train - validation, 9)
    splits = chronological(Panel.load(source), train, validation, test, purge_bars, embargo_bars)
    _store(splits, out)


def data_features(
    overrides: Overrides = None,
    out: Annotated[Path, typer.Option(help="Folder to write.")] = Path("data/features"),
    memory: Memory = "4GB",
    at_once: Annotated[
        int | None, typer.Option(help="Symbols in memory of a process; as many as the memory allows.", min=1)
    ] = None,
) -> None:
    """Check the bars of files and store their features, some symbols at a time: for more than fits into memory.

    The folder holds one table on disk, e.g. data=FOLDER --memory 8GB --out data/features launcher.workers=2.
    """
    import time

    large, start = _open_large_files(overrides, memory, at_once), time.perf_counter()
    table = large.features(out)
    typer.echo(
        f"{len(table.symbols):,} symbols × {len(table.index):,} bars × {len(table.names)} features, "
        f"{table.values.nbytes / 1e9:,.1f} GB, {time.perf_counter() - start:,.1f} s, "
        f"peak {large.peak_mb:,.0f} MB of --memory {memory} → {escape_controls(out)}"
    )


def data_verify(
    manifest: Annotated[Path, typer.Argument(help="A manifest, or a folder with manifest.json.")],
) -> None:
    """Compare files with their manifest: size and SHA-256 of each. Exit 0 whole, 2 refused."""
    from pacesetter.data.manifest import verify_manifest

    files = verify_manifest(manifest)
    typer.echo(f"{escape_controls(manifest)}: {len(files)} files are as recorded")


def data_export(
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


def data_fresh(
    dataset: Annotated[
        Path, typer.Argument(help="A dataset that `pacesetter data export` wrote, or a folder of them.")
    ],
    overrides: Overrides = None,
) -> None:
    """Whether a dataset still fits its data, configuration and schema. Exit 0 fresh, 1 stale, 2 not readable."""
    from pacesetter.methods.offline.export import stale_reasons

    reasons = stale_reasons(dataset, overrides or ())
    for reason in reasons:
        typer.echo(f"stale: {reason}")
    if reasons:
        typer.echo("export it again with: pacesetter data export …")
        raise typer.Exit(1)
    typer.echo(f"{dataset} is fresh")


def _check_manifest(source: Path) -> None:
    """Refuse a stored panel that was changed after its manifest was written; one without a manifest passes."""
    from pacesetter.data.manifest import verify_manifest

    manifest = source.with_suffix(".manifest.json")
    if manifest.is_file():
        verify_manifest(manifest)


def _store(thing: Panel | Splits, out: Path) -> None:
    """Save a panel or splits, and the manifest with its hash beside it."""
    from pacesetter.data.manifest import write_manifest

    out.parent.mkdir(parents=True, exist_ok=True)
    thing.save(out)
    write_manifest([out], out.with_suffix(".manifest.json"))
    typer.echo(escape_controls(f"{thing!r} → {out}"))
