"""Commands on finished runs: evaluation, comparison, baselines, episodes."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pacesetter.cli.overrides import Overrides

if TYPE_CHECKING:
    from pacesetter.data.splits import Fold
    from pacesetter.evaluation.report.page import Section
    from pacesetter.panel import Panel

__all__ = ["agents_of", "register"]

WIDE_LETTERS = 130
RISK_FIGURES = (
    *("annual_return", "volatility", "volatility_21_days", "sharpe", "sharpe_21_days"),
    *("max_drawdown", "turnover", "exposure"),
)
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
    from pacesetter.evaluation.opened import open_run
    from pacesetter.runs import Run

    if dossier and (overrides or folds is not None):
        raise ConfigError("--dossier is of the run's own test set; leave out data=… and --folds")
    if gate is not None and (overrides or folds is not None):
        raise ConfigError("--gate compares the run's own test set; leave out data=… and --folds")
    if folds is None and (rolling or combinatorial or refit_every != 1):
        raise ConfigError("--rolling, --refit-every and --combinatorial apply to refitting only; give --folds too")
    stored = open_run(agents_of(Run.open(run).folder))
    if folds is None and any(text.startswith("risk") for text in overrides or []):
        _evaluate_at_risk(stored, overrides or [])
    elif folds is not None:
        _evaluate_folds(stored, overrides or [], folds, rolling, refit_every, combinatorial)
    elif overrides:
        _evaluate_elsewhere(stored, overrides)
    elif not _judge(stored, draws, explain or dossier, pdf, gate, tolerance, trader, fast, dossier):
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
    from pacesetter.evaluation.opened import open_run
    from pacesetter.evaluation.programme.decision import NO_GO, NOT_APPLICABLE, decide, store_decision
    from pacesetter.evaluation.programme.gate_sets import read_gate_set
    from pacesetter.evaluation.programme.supervised import measure_supervised
    from pacesetter.evaluation.report.page import Section
    from pacesetter.evaluation.statistics.regression import RESULT
    from pacesetter.evaluation.stored_run import StoredRun
    from pacesetter.runs import Run
    from pacesetter.serving.bundle.served import measure_served

    gates = read_gate_set(_gates_named(options or []))
    stored = open_run(agents_of(Run.open(run).folder))
    if not (_results(stored) / RESULT).is_file():
        _judge(stored, draws, False, False, None, 0.0, None, is_fast=False)
    if "agents_above_supervised" in {limit.metric for limit in gates.gates} and isinstance(stored, StoredRun):
        measure_supervised(stored)
    if any(limit.metric.startswith("served_") for limit in gates.gates):
        measure_served(stored.folder)
    decision = decide(stored.folder, gates, None if beside is None else Run.open(beside).folder)
    if decision.name == NOT_APPLICABLE:
        typer.echo(decision.sentence)
        raise typer.Exit(1)
    _show([Section(gates.name, decision.sentence, (), ("gate", "value", "limit", "interval", ""), decision.rows)])
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


def _judge(
    stored: Any,
    draws: int,
    is_explained: bool,
    has_pdf: bool,
    gate: Path | None,
    tolerance: float,
    trader: Path | None,
    is_fast: bool,
    has_dossier: bool = False,
) -> bool:
    """Judge, store and show; whether the stored result is repeated, where one was given: else it is left as it is."""
    from pacesetter.evaluation.report.page import write_pdf, write_report
    from pacesetter.evaluation.statistics.regression import RESULT, read_result
    from pacesetter.runs import Run

    expected = None if gate is None else read_result(gate)
    tell = partial(typer.echo, err=True)
    judgement = stored.judge(draws, trader, is_fast=is_fast, tell=tell)
    manifest = Run.open(stored.folder).manifest
    sections, folder = stored.report(judgement), _results(stored)
    facts = {"run": stored.folder.name, "config hash": manifest["config_hash"]}
    is_repeated = expected is None or _repeats(expected, judgement.to_json(), tolerance)
    # A result that fails must not overwrite the very file it is held against: a second attempt would then pass.
    if is_repeated or gate is None or gate.resolve() != (folder / RESULT).resolve():
        stored.store(judgement, folder, facts)
    if is_explained:
        sections += stored.insights(judgement)
    facts |= {"data fingerprint": stored.panel.fingerprint, "seed": str(stored.config.seed)}
    notes, header = stored.panel.notes, stored.header()
    page = write_report(folder / "report.html", stored.folder.name, sections, notes, facts, header)
    _track(stored, judgement.to_json())
    # An idle account's verdict has no table: two lines say all of it.
    _show(sections[: stored.printed] if sections[0].rows else sections[:1], stored.brief)
    typer.echo(f"Report: {write_pdf(page) if has_pdf else page}")
    if has_dossier:
        from pacesetter.evaluation.programme.dossier import write_dossier

        for line in write_dossier(stored.folder, sections, notes, facts):
            typer.echo(line)
    return is_repeated


def _track(stored: Any, result: dict[str, object]) -> None:
    """Give the figures to the tracker of the training; what goes wrong there is said, and the evaluation stands."""
    from pacesetter.jobs.run.tracking import log_evaluation

    try:
        log_evaluation(stored.config, stored.folder, result)
    except Exception as problem:  # a server that is away ends in any of a dozen exceptions
        typer.echo(f"the evaluation was not tracked ({type(problem).__name__})", err=True)


def _results(stored: Any) -> Path:
    """The folder of a run that evaluations go to."""
    from pacesetter.runs import EVALUATION

    folder: Path = stored.folder / EVALUATION
    folder.mkdir(exist_ok=True)
    return folder


def _evaluate_folds(
    stored: Any, overrides: list[str], folds: int, rolling: bool, refit_every: int, combinatorial: bool
) -> None:
    """Refit fold by fold; the table is printed and stored."""
    from pacesetter.evaluation.report.judgement_page import markdown
    from pacesetter.jobs.hydra.overrides import take_options
    from pacesetter.jobs.launch.folds import BRIEF, change_config, fold_report
    from pacesetter.jobs.launch.workers import Launcher

    launcher, own = take_options(overrides, "launcher", Launcher)
    with launcher.session() as crew:
        name, section, table = fold_report(
            change_config(stored.config, own),
            stored.panel,
            folds,
            expanding=not rolling,
            refit_every=refit_every,
            is_combinatorial=combinatorial,
            tell=typer.echo,
            each=map if launcher == Launcher() else crew.run,
        )
    target = _results(stored) / f"{name}.csv"
    table.to_csv(target)
    target.with_suffix(".md").write_text(markdown([section]), encoding="utf-8")
    _show([section], BRIEF)
    typer.echo(f"→ {target}, {target.with_suffix('.md')}")


def agents_of(folder: Path) -> Path:
    """The run itself, or inside one of the pipeline that of the fleet or of its master, whichever was judged."""
    from pacesetter.build import stage_run
    from pacesetter.methods.master.page import better_run

    fleet, master = (stage_run(folder, stage) for stage in ("agents", "master"))
    return fleet if folder in (fleet, master) else better_run(fleet, master)


def _repeats(expected: dict[str, object], measured: dict[str, object], tolerance: float) -> bool:
    """Whether the stored result is repeated; says what differs."""
    from pacesetter.evaluation.statistics.regression import regression_gates

    gates = regression_gates(expected, measured, tolerance)
    failed = [each for each in gates if not each.passed]
    for each in failed:
        typer.echo(f"differs: {each.name} by {each.value:.3g} (at most {tolerance:g})")
    typer.echo(f"{len(gates) - len(failed)} of {len(gates)} figures are reproduced")
    return not failed


def _evaluate_at_risk(stored: Any, overrides: list[str]) -> None:
    """A table of the agent, its base alone and simple baselines at a stated risk, printed and stored."""
    import pandas as pd

    from pacesetter.errors import ConfigError
    from pacesetter.evaluation.backtest.cuts import describe_cuts, describe_limits
    from pacesetter.evaluation.statistics.metrics import metrics
    from pacesetter.evaluation.stored_run import StoredRun
    from pacesetter.jobs.hydra.overrides import take_options
    from pacesetter.market.risk import RiskOptions

    risk, rest = take_options(overrides, "risk", RiskOptions)
    if rest:
        raise ConfigError(f"{rest[0]} does not go with risk.*, which plays the run's own test set; leave one out")
    risk.check_on()
    if not isinstance(stored, StoredRun):
        raise ConfigError(f"{stored.folder} does not trade an account; give a run that trades")
    played = stored.at_risk(risk)
    table = pd.DataFrame({name: metrics(each) for name, each in played.items()}).T.rename_axis("policy")
    target = _results(stored) / "risk.csv"
    table.to_csv(target)
    typer.echo(table[list(RISK_FIGURES)].to_string(float_format=lambda value: f"{value:+.3f}"))
    own = next(iter(played.values()))
    for sentence in (describe_cuts(own, stored.task.market), describe_limits(own, risk)):
        if sentence:
            typer.echo(sentence)
    typer.echo(f"→ {target}")


def _evaluate_elsewhere(stored: Any, overrides: list[str]) -> None:
    """A table of the agent and simple baselines on other markets, printed and stored."""
    from pacesetter.build import build_panel
    from pacesetter.errors import ConfigError, did_you_mean
    from pacesetter.evaluation.backtest.markets import universe_gap
    from pacesetter.evaluation.backtest.scenarios import spread
    from pacesetter.evaluation.stored_run import MARKETS
    from pacesetter.jobs import resolve

    name = next((text.removeprefix("data=") for text in overrides if text.startswith("data=")), "")
    if not name:
        raise ConfigError(f"{overrides[0]} does not name a market to evaluate on; give data=…, or --folds to refit")
    if "did you mean" in did_you_mean(name, MARKETS):  # one of them, or nearly: it says which
        table = stored.on(name)
    else:
        table = stored.evaluate_elsewhere(name, build_panel(resolve(overrides)))
    target = _results(stored) / f"{name}.csv"
    table.to_csv(target)
    shown = table[list(stored.shown)].rename(columns=stored.shown)
    typer.echo(shown.to_string(float_format=lambda value: f"{value:+.3f}"))
    spreads, count = spread(table, stored.figure), table.index.unique("scenario").size
    if count > 1:
        title = stored.shown[stored.figure]
        typer.echo(f"\n{title} over {count} scenarios:\n{spreads.to_string(float_format=lambda v: f'{v:+.3f}')}")
    if said := universe_gap(table, stored.figure):
        typer.echo(said)
    typer.echo(f"→ {target}")


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
    from pacesetter.methods.offline.page import offline_section

    if not runs and not mlflow:
        raise ConfigError("name the runs to compare: their folders, a folder of runs, or --mlflow STORE")
    wanted = RunFilter(task, name, tag, since, until)
    with TemporaryDirectory(prefix="pacesetter-") as folder:
        stored = judged_in_mlflow(mlflow, wanted, folder) if mlflow else []
        judged = [*(find_matching(runs, wanted) if runs else []), *stored]
        learned_offline = offline_section(judged)
        sections = [compare_section(judged), *([] if learned_offline is None else [learned_offline])]
    _show(sections, BRIEF)
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
    from pacesetter.build import build_fold, build_panel, build_table
    from pacesetter.jobs import resolve

    names = [word for word in words or () if "=" not in word]
    config = resolve([word for word in words or () if "=" in word])
    config.problem.check("baseline")
    panel = build_panel(config)
    market = panel, build_table(config, panel), build_fold(config, panel), config.trading
    if names[:1] == ["sl"]:
        sections = _train_classifiers(*market, Path(config.runs) / "supervised", names[1:], folds)
    else:
        sections = [_play_baselines(*market, [] if names == ["all"] else names)]
    if report is not None:
        from pacesetter.evaluation.report.judgement_page import write_pages

        report.parent.mkdir(parents=True, exist_ok=True)
        facts = {"data fingerprint": panel.fingerprint, "seed": str(config.seed)}
        pages = write_pages(report, "Baselines", sections, panel.notes, facts)
        typer.echo(f"→ {', '.join(map(str, pages))}")


def _train_classifiers(
    panel: Panel, table: Any, fold: Fold, task: Any, folder: Path, networks: list[str], folds: int
) -> list[Section]:
    """The supervised baselines: trained, judged, timed and stored; networks that are named have their own width."""
    from pacesetter.agents.encoders import NETWORKS as OWN
    from pacesetter.methods.supervised.judgement import HIDDEN, NETWORKS, run_supervised

    options: dict[str, object] = {"window_bars": task.window_bars}
    if networks:
        options["width"] = max(OWN[name].width for name in networks)
    chosen = networks or NETWORKS
    supervised = run_supervised(
        panel, table, fold, networks=chosen, market=task.market, cache=folder, options=options, folds=folds
    )
    sections = [finding.section() for finding in supervised.findings()]
    _show(sections, HIDDEN)
    typer.echo(f"→ {folder}")
    return sections


def _play_baselines(panel: Panel, table: Any, fold: Fold, task: Any, names: list[str]) -> Section:
    """The baselines named, or all that are possible, and which are not."""
    from pacesetter.evaluation.baselines.catalogue import drop_equal, evaluate_baselines, left_out_sentence
    from pacesetter.evaluation.report.judgement_page import BRIEF, results_section
    from pacesetter.policies.market_rows import market_bank

    start, bank = time.perf_counter(), market_bank(panel, table)
    results = evaluate_baselines(panel, int(fold.test[0]), names, market=task.market, bank=bank)
    spent, notes = time.perf_counter() - start, []
    if not names:
        results, same = drop_equal(results)
        notes = [sentence for sentence in (same, left_out_sentence(bank)) if sentence]
    section = results_section(results)
    _show([section], BRIEF)
    for sentence in notes:
        typer.echo(sentence)
    symbols = f"{len(panel.symbols)} symbol{'' if len(panel.symbols) == 1 else 's'}"
    typer.echo(f"{len(results)} baselines × {len(fold.test)} bars × {symbols} in {spent:.1f} s")
    return replace(section, text=" ".join([section.text, *notes]))


def inspect(
    run: Annotated[Path, typer.Argument(help="A validated trading run, a pipeline, or an evaluated lookback run.")],
    trades: Annotated[int, typer.Option(help="Trades or windows to print; a CSV file has all.", min=0)] = 20,
) -> None:
    """Replay a stored episode: its trades and a chart, or a lookback agent's windows and what they showed."""
    from pacesetter.evaluation.backtest.episode import BRIEF, HEADER, Episode, episode_folder, trade_rows
    from pacesetter.evaluation.lookback import replay
    from pacesetter.evaluation.report.page import Section

    if replay.has_replay(run):
        windows = replay.LookbackReplay.load(run)
        _show([Section("Windows", windows.verdict(), (), replay.HEADER, windows.rows())], replay.BRIEF, trades)
        for path in windows.save(run):
            typer.echo(f"→ {path}")
        return
    run = episode_folder(run)
    episode = Episode.load(run)
    _show([Section("Trades", episode.verdict(), (), HEADER, tuple(trade_rows(episode.trades())))], BRIEF, trades)
    for path in episode.save(run):
        typer.echo(f"→ {path}")


def _show(sections: Iterable[Section], hidden: Sequence[str] = (), most: int = 25) -> None:
    """Tables, of which the `most` first rows, and texts; the `hidden` columns are left out on a narrow console."""
    from rich.console import Console

    from pacesetter.jobs.pipeline.show import section_table

    console = Console()
    for section in sections:
        if section.headline:
            console.print(f"[bold]{section.headline}[/]")
        if section.rows:
            console.print(section_table(section, hidden if console.width < WIDE_LETTERS else (), most))
        console.print(section.text, highlight=False, markup=False)
