"""`pacesetter evaluate`: a run judged on its own test set, refitted fold by fold, at a stated risk, or elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pacesetter.build import build_panel, stage_run, stored_plan
from pacesetter.errors import ConfigError, did_you_mean
from pacesetter.jobs.hydra.overrides import take_options
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.jobs.pipeline.show import show_sections
from pacesetter.late import load
from pacesetter.runs import EVALUATION, Run

if TYPE_CHECKING:
    from pacesetter.evaluation.lookback.stored import LookbackRun
    from pacesetter.evaluation.stored_run import StoredRun

__all__ = [
    "JudgeOptions",
    "RefitOptions",
    "agents_of",
    "judge_run",
    "open_run",
    "play_at_risk",
    "play_elsewhere",
    "refit_run",
]

Tell = Callable[[str], object]
RUNS = {  # what a task is judged as -> the class that does it
    "account": "pacesetter.evaluation.stored_run:StoredRun",
    "windows": "pacesetter.evaluation.lookback.stored:LookbackRun",
}
RISK_FIGURES = (
    *("annual_return", "volatility", "volatility_21_days", "sharpe", "sharpe_21_days"),
    *("max_drawdown", "turnover", "exposure"),
)


@dataclass(frozen=True)
class JudgeOptions:
    """How a run is judged on its own test set.

    draws      of the bootstrap                       trader     a trading run to feed by a lookback agent's windows
    gate       a stored result to be repeated         tolerance  largest relative difference to it
    is_fast    without stressed markets               explain    with attributions, the reward audit and anomalies
    pdf        the report printed, too                dossier    report, explanations and every set of gates
    """

    draws: int = 1000
    trader: Path | None = None
    gate: Path | None = None
    tolerance: float = 1e-6
    is_fast: bool = False
    explain: bool = False
    pdf: bool = False
    dossier: bool = False


@dataclass(frozen=True)
class RefitOptions:
    """Walk-forward folds: how many, on an expanding or rolling window, refitted every so many, or combinatorial."""

    folds: int
    rolling: bool = False
    refit_every: int = 1
    combinatorial: bool = False


def agents_of(folder: Path) -> Path:
    """The run itself, or inside one of the pipeline that of the fleet or of its master, whichever was judged."""
    from pacesetter.methods.master.page import better_run

    fleet, master = (stage_run(folder, stage) for stage in ("agents", "master"))
    return fleet if folder in (fleet, master) else better_run(fleet, master)


def open_run(run: Path) -> StoredRun | LookbackRun:
    """The run that evaluations of a folder are about, with what evaluate, compare and inspect ask of it."""
    folder = agents_of(Run.open(run).folder)
    task = stored_plan(folder).problem
    task.check("evaluate", folder)
    stored: StoredRun | LookbackRun = load(RUNS[task.judged_as])(folder)
    return stored


def judge_run(stored: StoredRun | LookbackRun, asked: JudgeOptions, tell: Tell, warn: Tell) -> bool:
    """Judge, store and show; whether the stored result is repeated, where one was given: else it is left as it is."""
    from pacesetter.evaluation.report.page import write_pdf, write_report
    from pacesetter.evaluation.statistics.regression import RESULT, read_result

    expected = None if asked.gate is None else read_result(asked.gate)
    judgement: Any = stored.judge(asked.draws, asked.trader, is_fast=asked.is_fast, tell=warn)  # each kind its own
    sections, folder = stored.report(judgement), _results(stored)
    facts = {"run": stored.folder.name, "config hash": Run.open(stored.folder).manifest["config_hash"]}
    is_repeated = expected is None or _repeats(expected, judgement.to_json(), asked.tolerance, tell)
    # A result that fails must not overwrite the very file it is held against: a second attempt would then pass.
    if is_repeated or asked.gate is None or asked.gate.resolve() != (folder / RESULT).resolve():
        stored.store(judgement, folder, facts)
    if asked.explain or asked.dossier:
        sections += stored.insights(judgement)
    facts |= {"data fingerprint": stored.panel.fingerprint, "seed": str(stored.config.seed)}
    notes, header = stored.panel.notes, stored.header()
    page = write_report(folder / "report.html", stored.folder.name, sections, notes, facts, header)
    _track(stored, judgement.to_json(), warn)
    # An idle account's verdict has no table: two lines say all of it.
    show_sections(sections[: stored.printed] if sections[0].rows else sections[:1], stored.brief)
    tell(f"Report: {write_pdf(page) if asked.pdf else page}")
    if asked.dossier:
        from pacesetter.evaluation.programme.dossier import write_dossier

        for line in write_dossier(stored.folder, sections, notes, facts):
            tell(line)
    return is_repeated


def _track(stored: StoredRun | LookbackRun, result: dict[str, object], warn: Tell) -> None:
    """Give the figures to the tracker of the training; what goes wrong there is said, and the evaluation stands."""
    from pacesetter.jobs.run.tracking import log_evaluation

    try:
        log_evaluation(stored.config, stored.folder, result)
    except Exception as problem:  # a server that is away ends in any of a dozen exceptions
        warn(f"the evaluation was not tracked ({type(problem).__name__})")


def _results(stored: StoredRun | LookbackRun) -> Path:
    """The folder of a run that evaluations go to."""
    folder = stored.folder / EVALUATION
    folder.mkdir(exist_ok=True)
    return folder


def has_result(stored: StoredRun | LookbackRun) -> bool:
    """Whether the run was judged on its own test set."""
    from pacesetter.evaluation.statistics.regression import RESULT

    return (stored.folder / EVALUATION / RESULT).is_file()


def _repeats(expected: dict[str, object], measured: dict[str, object], tolerance: float, tell: Tell) -> bool:
    """Whether the stored result is repeated; says what differs."""
    from pacesetter.evaluation.statistics.regression import regression_gates

    gates = regression_gates(expected, measured, tolerance)
    failed = [each for each in gates if not each.passed]
    for each in failed:
        tell(f"differs: {each.name} by {each.value:.3g} (at most {tolerance:g})")
    tell(f"{len(gates) - len(failed)} of {len(gates)} figures are reproduced")
    return not failed


def refit_run(stored: StoredRun | LookbackRun, asked: RefitOptions, overrides: Sequence[str], tell: Tell) -> None:
    """Refit fold by fold, trained as the overrides say; the table is printed and stored."""
    from pacesetter.evaluation.report.judgement_page import markdown
    from pacesetter.jobs.launch.folds import BRIEF, change_config, fold_report
    from pacesetter.jobs.launch.workers import Launcher

    launcher, own = take_options(overrides, "launcher", Launcher)
    with launcher.session() as workers:
        name, section, table = fold_report(
            change_config(stored.config, own),
            stored.panel,
            asked.folds,
            expanding=not asked.rolling,
            refit_every=asked.refit_every,
            is_combinatorial=asked.combinatorial,
            tell=tell,
            each=map if launcher == Launcher() else workers.run,
        )
    target = _results(stored) / f"{name}.csv"
    table.to_csv(target)
    target.with_suffix(".md").write_text(markdown([section]), encoding="utf-8")
    show_sections([section], BRIEF)
    tell(f"→ {target}, {target.with_suffix('.md')}")


def play_at_risk(stored: StoredRun | LookbackRun, overrides: Sequence[str], tell: Tell) -> None:
    """A table of the agent, its base alone and simple baselines at a stated risk, printed and stored."""
    import pandas as pd

    from pacesetter.evaluation.backtest.cuts import describe_cuts, describe_limits
    from pacesetter.evaluation.statistics.metrics import metrics
    from pacesetter.evaluation.stored_run import StoredRun
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
    tell(table[list(RISK_FIGURES)].to_string(float_format=lambda value: f"{value:+.3f}"))
    own = next(iter(played.values()))
    for sentence in (describe_cuts(own, stored.task.market), describe_limits(own, risk)):
        if sentence:
            tell(sentence)
    tell(f"→ {target}")


def play_elsewhere(stored: StoredRun | LookbackRun, overrides: Sequence[str], tell: Tell) -> None:
    """A table of the agent and simple baselines on other markets, printed and stored."""
    from pacesetter.evaluation.backtest.markets import universe_gap
    from pacesetter.evaluation.backtest.scenarios import spread
    from pacesetter.evaluation.stored_run import MARKETS

    name = next((text.removeprefix("data=") for text in overrides if text.startswith("data=")), "")
    if not name:
        raise ConfigError(f"{overrides[0]} does not name a market to evaluate on; give data=…, or --folds to refit")
    if "did you mean" in did_you_mean(name, MARKETS):  # one of them, or nearly: it says which
        table = stored.on(name)
    else:
        table = stored.evaluate_elsewhere(name, build_panel(resolve(overrides)))
    target = _results(stored) / f"{name}.csv"
    table.to_csv(target)
    shown = table[list(stored.shown)].rename(columns=dict(stored.shown))
    tell(shown.to_string(float_format=lambda value: f"{value:+.3f}"))
    spreads, count = spread(table, stored.figure), table.index.unique("scenario").size
    if count > 1:
        title = stored.shown[stored.figure]
        tell(f"\n{title} over {count} scenarios:\n{spreads.to_string(float_format=lambda v: f'{v:+.3f}')}")
    if said := universe_gap(table, stored.figure):
        tell(said)
    tell(f"→ {target}")
