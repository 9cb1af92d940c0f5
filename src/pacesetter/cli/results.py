"""Commands on finished runs: evaluation, comparison, baselines, episodes, a fleet's agents."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from pacesetter.cli.overrides import Overrides

__all__ = ["register"]

RunFolder = Annotated[Path, typer.Argument(help="A run folder, e.g. runs/<time>-<name>-<hash>.")]


def register(app: typer.Typer) -> None:
    """Add these commands to the application."""
    for command in (evaluate, validate, compare, baseline, inspect):
        app.command()(command)


def evaluate(
    run: RunFolder,
    overrides: Overrides = None,
    draws: Annotated[int, typer.Option(help="Bootstrap draws behind each interval.", min=1)] = 1000,
    explain: Annotated[bool, typer.Option(help="Add attributions, the reward audit and anomalies.")] = False,
    fast: Annotated[bool, typer.Option(help="Leave out stressed markets and limits other than costs.")] = False,
    gate: Annotated[Path | None, typer.Option(help="A stored evaluation.json that must be reproduced.")] = None,
    tolerance: Annotated[float, typer.Option(help="Largest relative difference to --gate.", min=0)] = 1e-6,
    pdf: Annotated[bool, typer.Option(help="Also write report.pdf (needs chromium).")] = False,
    dossier: Annotated[
        bool, typer.Option(help="Also write dossier.html and .pdf: report, explanations and every set of gates.")
    ] = False,
    folds: Annotated[int | None, typer.Option(help="Walk-forward: refit for N consecutive tests.")] = None,
    rolling: Annotated[bool, typer.Option(help="With --folds: train on a rolling window.")] = False,
    refit_every: Annotated[int, typer.Option(help="With --folds: refit every N folds.")] = 1,
    combinatorial: Annotated[bool, typer.Option(help="With --folds: purged blocks, two tested at a time.")] = False,
    trader: Annotated[Path | None, typer.Option(help="A trading run to feed by a lookback agent's windows.")] = None,
) -> None:
    """Evaluate a run out-of-sample; data=montecarlo|adversarial|universes or data=<source> for other markets.

    risk.target_volatility=0.1 risk.base=inverse_volatility plays it, and baselines, through the risk step.
    With --folds the agent is refitted; overrides such as train.steps=20000 shorten it. Exit 1 if
    --gate is given and a figure differs from the stored one.
    """
    from pacesetter.errors import ConfigError
    from pacesetter.jobs.evaluate import (
        JudgeOptions,
        RefitOptions,
        judge_run,
        open_run,
        play_at_risk,
        play_elsewhere,
        refit_run,
    )

    if dossier and (overrides or folds is not None):
        raise ConfigError("--dossier is of the run's own test set; leave out data=… and --folds")
    if gate is not None and (overrides or folds is not None):
        raise ConfigError("--gate compares the run's own test set; leave out data=… and --folds")
    if folds is None and (rolling or combinatorial or refit_every != 1):
        raise ConfigError("--rolling, --refit-every and --combinatorial apply to refitting only; give --folds too")
    stored, given = open_run(run), overrides or []
    if folds is None and any(text.startswith("risk") for text in given):
        play_at_risk(stored, given, typer.echo)
    elif folds is not None:
        refit_run(stored, RefitOptions(folds, rolling, refit_every, combinatorial), given, typer.echo)
    elif overrides:
        play_elsewhere(stored, given, typer.echo)
    else:
        asked = JudgeOptions(draws, trader, gate, tolerance, fast, explain, pdf, dossier)
        if not judge_run(stored, asked, typer.echo, partial(typer.echo, err=True)):
            raise typer.Exit(1)


def validate(
    run: RunFolder,
    options: Annotated[
        list[str] | None, typer.Argument(metavar="gates=NAME", help="A set of gates, or its file.")
    ] = None,
    draws: Annotated[int, typer.Option(help="Bootstrap draws where the run is yet to be evaluated.", min=1)] = 1000,
    beside: Annotated[Path | None, typer.Option(help="An evaluated run that gains are measured over.")] = None,
) -> None:
    """Check a run against acceptance gates: GO, CONDITIONAL or NO-GO, which exits 1; each value beside its limit.

    gates=acceptance|recovery|phase_a … phase_g|prototype|targets|fleet|master|validation|final, or a YAML file. A set
    about what the run was trained without is NOT APPLICABLE, and exits 1 too.
    `repeat within 5 %` of gates=prototype is measured by `pacesetter verify RUN`.
    """
    from pacesetter.evaluation.programme.decision import NO_GO, NOT_APPLICABLE, decide, store_decision
    from pacesetter.evaluation.programme.gate_sets import read_gate_set
    from pacesetter.evaluation.programme.subjects import has_subject
    from pacesetter.evaluation.programme.supervised import measure_supervised
    from pacesetter.evaluation.report.page import Section
    from pacesetter.evaluation.stored_run import StoredRun
    from pacesetter.jobs.evaluate import JudgeOptions, has_result, judge_run, open_run
    from pacesetter.jobs.pipeline.show import show_sections
    from pacesetter.jobs.run.replay_costs import measure_replay
    from pacesetter.runs import Run
    from pacesetter.serving.bundle.served import measure_served

    gates = read_gate_set(_gates_named(options or []))
    stored = open_run(run)
    if not has_result(stored):
        judge_run(stored, JudgeOptions(draws), typer.echo, partial(typer.echo, err=True))
    if "agents_above_supervised" in {limit.metric for limit in gates.gates} and isinstance(stored, StoredRun):
        measure_supervised(stored)
    if any(limit.metric.startswith("served_") for limit in gates.gates):
        measure_served(stored.folder)
    replayed = [limit for limit in gates.gates if limit.metric.startswith("replay_")]
    if any(not limit.subject or has_subject(stored.config, limit.subject) for limit in replayed):
        measure_replay(stored.folder)
    decision = decide(stored.folder, gates, None if beside is None else Run.open(beside).folder)
    if decision.name == NOT_APPLICABLE:
        typer.echo(decision.sentence)
        raise typer.Exit(1)
    show_sections(
        [Section(gates.name, decision.sentence, (), ("gate", "value", "limit", "interval", ""), decision.rows)]
    )
    typer.echo(f"→ {store_decision(decision, stored.folder)}")
    if decision.name == NO_GO:
        raise typer.Exit(1)


def _gates_named(options: list[str]) -> str:
    from pacesetter.errors import ConfigError
    from pacesetter.evaluation.programme.gate_sets import gate_set_names

    named = [text.removeprefix("gates=") for text in options if text.startswith("gates=")]
    if len(named) != 1 or len(options) != 1:
        raise ConfigError(f"name one set of gates: gates={'|'.join(gate_set_names())}, or gates=FILE.yaml")
    return named[0]


def compare(
    runs: Annotated[list[Path] | None, typer.Argument(help="Evaluated run folders, or folders of runs.")] = None,
    out: Annotated[Path, typer.Option(help="Page to write; comparison.md is next to it.")] = Path("comparison.html"),
    task: Annotated[str, typer.Option(help="Only runs of this problem, e.g. lookback.")] = "",
    name: Annotated[str, typer.Option(help="Only runs whose name has this in it.")] = "",
    tag: Annotated[str, typer.Option(help="Only runs with this tag; see pacesetter tag.")] = "",
    since: Annotated[str, typer.Option(help="Only runs started on this day or later, e.g. 2026-11-16.")] = "",
    until: Annotated[str, typer.Option(help="Only runs started on this day or before.")] = "",
    mlflow: Annotated[str, typer.Option(help="Runs of this MLflow store, e.g. runs/mlflow.db.")] = "",
    pdf: Annotated[bool, typer.Option(help="Also write the page as PDF (needs chromium).")] = False,
    latex: Annotated[bool, typer.Option(help="Also write the tables as LaTeX (needs booktabs to print).")] = False,
) -> None:
    """Compare evaluated runs: table, equity curves or cumulated rewards, Markdown."""
    from pacesetter.errors import ConfigError
    from pacesetter.evaluation.report.compare import BRIEF, RunFilter, compare_section, find_matching
    from pacesetter.evaluation.report.judgement_page import markdown
    from pacesetter.evaluation.report.latex import latex_tables
    from pacesetter.evaluation.report.mlflow_source import judged_in_mlflow
    from pacesetter.evaluation.report.page import write_pdf, write_report
    from pacesetter.jobs.pipeline.show import show_sections
    from pacesetter.methods.offline.page import offline_section

    if not runs and not mlflow:
        raise ConfigError("name the runs to compare: their folders, a folder of runs, or --mlflow STORE")
    wanted = RunFilter(task, name, tag, since, until)
    with TemporaryDirectory(prefix="pacesetter-") as folder:
        stored = judged_in_mlflow(mlflow, wanted, folder) if mlflow else []
        judged = [*(find_matching(runs, wanted) if runs else []), *stored]
        learned_offline = offline_section(judged)
        sections = [compare_section(judged), *([] if learned_offline is None else [learned_offline])]
    show_sections(sections, BRIEF)
    out.parent.mkdir(parents=True, exist_ok=True)
    page = write_report(out, "Comparison", sections)
    if pdf:
        typer.echo(f"→ {write_pdf(page)}")
    out.with_suffix(".md").write_text(markdown(sections), encoding="utf-8")
    if latex:
        out.with_suffix(".tex").write_text(latex_tables(sections), encoding="utf-8")
    written = [out, *(out.with_suffix(ending) for ending in (".md", *([".tex"] if latex else [])))]
    typer.echo(f"→ {', '.join(map(str, written))}")


def baseline(
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]... [KEY=VALUE]...", help="e.g. equal_weight momentum data=sample; sl; all"),
    ] = None,
    folds: Annotated[int, typer.Option(help="With sl: out-of-fold parts of the training set.")] = 4,
    report: Annotated[Path | None, typer.Option(help="Page to write; its tables as Markdown are next to it.")] = None,
) -> None:
    """Backtest baselines over the test set with all costs; `sl` trains the supervised ones (MLP, LSTM, GRU) first.

    `sl transformer_small` trains that network in its own width, so that an agent of it can take the whole encoder.
    """
    from pacesetter.jobs import resolve
    from pacesetter.jobs.baselines import JudgedMarket, play_baselines, train_classifiers

    names = [word for word in words or () if "=" not in word]
    config = resolve([word for word in words or () if "=" in word])
    market = JudgedMarket.of(config)
    if names[:1] == ["sl"]:
        sections = train_classifiers(market, Path(config.runs) / "supervised", names[1:], folds, typer.echo)
    else:
        sections = [play_baselines(market, [] if names == ["all"] else names, typer.echo)]
    if report is not None:
        from pacesetter.evaluation.report.judgement_page import write_pages

        report.parent.mkdir(parents=True, exist_ok=True)
        facts = {"data fingerprint": market.panel.fingerprint, "seed": str(config.seed)}
        pages = write_pages(report, "Baselines", sections, market.panel.notes, facts)
        typer.echo(f"→ {', '.join(map(str, pages))}")


def inspect(
    run: Annotated[Path, typer.Argument(help="A validated trading run, a pipeline, or an evaluated lookback run.")],
    trades: Annotated[int, typer.Option(help="Trades or windows to print; a CSV file has all.", min=0)] = 20,
    agents: Annotated[bool, typer.Option("--agents", help="Show a fleet's agents one by one and together.")] = False,
    draws: Annotated[
        int | None, typer.Option(help="With --agents: bootstrap draws; default: enough for all.", min=1)
    ] = None,
) -> None:
    """Replay a stored episode: its trades, or a lookback agent's windows; --agents: a fleet's, one by one and together.

    Agents are shown on the validation set, out-of-sample, and together; fleet.html has all of it.
    """
    from pacesetter.errors import ConfigError

    if agents:
        from pacesetter.jobs.agents import show_agents

        typer.echo(f"Report: {show_agents(run, draws)}")
        return
    if draws is not None:
        raise ConfigError("--draws is for intervals of a fleet's agents; give --agents too, or leave it out")
    from pacesetter.evaluation.backtest.episode import BRIEF, HEADER, Episode, episode_folder, trade_rows
    from pacesetter.evaluation.lookback import replay
    from pacesetter.evaluation.report.page import Section
    from pacesetter.jobs.pipeline.show import show_sections

    if replay.has_replay(run):
        windows = replay.LookbackReplay.load(run)
        show_sections([Section("Windows", windows.verdict(), (), replay.HEADER, windows.rows())], replay.BRIEF, trades)
        for path in windows.save(run):
            typer.echo(f"→ {path}")
        return
    run = episode_folder(run)
    episode = Episode.load(run)
    show_sections(
        [Section("Trades", episode.verdict(), (), HEADER, tuple(trade_rows(episode.trades())))], BRIEF, trades
    )
    for path in episode.save(run):
        typer.echo(f"→ {path}")
