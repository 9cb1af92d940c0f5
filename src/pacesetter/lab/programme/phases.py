"""The work of each phase. Every one leaves a run, a decision by its gates, and its part of the report in its folder."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pacesetter.build import Plan, build_fold, build_table
from pacesetter.errors import ConfigError
from pacesetter.evaluation.baselines.catalogue import drop_equal, evaluate_baselines
from pacesetter.evaluation.fleet.agents import fleet_sentence, read_agents
from pacesetter.evaluation.fleet.agents_page import agents_section
from pacesetter.evaluation.programme.decision import (
    CONDITIONAL,
    NO_GO,
    GateDecision,
    decide,
    held_gates,
    store_decision,
)
from pacesetter.evaluation.programme.dossier import GATE_HEADER, gate_section
from pacesetter.evaluation.programme.gate_sets import read_gate_set
from pacesetter.evaluation.programme.measured import REPEAT, SUPERVISED, RunRecord
from pacesetter.evaluation.programme.supervised import measure_supervised
from pacesetter.evaluation.report.judgement_page import results_section, store_judgement
from pacesetter.evaluation.report.page import Section
from pacesetter.evaluation.statistics.metrics import metrics
from pacesetter.evaluation.stored_run import StoredRun
from pacesetter.jobs.launch.folds import fold_report
from pacesetter.jobs.pipeline.agents_stage import check_episodes, fleet_config
from pacesetter.jobs.pipeline.lookback_stage import longest_window
from pacesetter.jobs.pipeline.master_stage import master_config
from pacesetter.jobs.pipeline.stages import Job, StageResult, only_run, train_quietly
from pacesetter.lab.programme.environment import check_environment, environment_section, readiness_sections
from pacesetter.lab.programme.tuning import CHOICE, check_search, search_and_retrain
from pacesetter.methods.master.page import allocation_sentence, better_run, read_allocations
from pacesetter.panel import Panel
from pacesetter.policies.market_rows import market_bank
from pacesetter.runs import DECISION, EVALUATION, write_atomic
from pacesetter.words import count_noun

if TYPE_CHECKING:
    from pacesetter.build.trading import Trading
    from pacesetter.data.splits import Fold
    from pacesetter.features.table import FeatureTable

__all__ = [
    "check_data",
    "check_phases",
    "check_tuning",
    "judged_programme_run",
    "phase_decision",
    "run_baselines",
    "run_fleet",
    "run_master",
    "run_prototype",
    "run_tuning",
    "run_validation",
    "standing_decision",
    "without_tuning",
]

DECISIONS = ("validation", "targets", "final")  # of the last judgement, see `standing_decision`


# ---- data and baselines ---------------------------------------------------------------------------------------------


def check_data(job: Job, folder: Path) -> StageResult:
    """Readiness of the bars, and whether the environment is as asked for."""
    readiness, rows = job.plan.data.check(), check_environment(job.plan.runs)
    (folder / "readiness.json").write_text(
        json.dumps(readiness.to_json(), indent=2, default=str) + "\n", encoding="utf-8"
    )
    (folder / "environment.json").write_text(
        json.dumps([row._asdict() for row in rows], indent=2) + "\n", encoding="utf-8"
    )
    poor = sum(not row.is_enough for row in rows)
    line = f"{count_noun(len(readiness.findings), 'warning')} of the data, {poor} of the environment"
    return StageResult(line, (*readiness_sections(readiness), environment_section(rows)))


def check_phases(job: Job) -> None:
    """Refuse a method without agents of its own, and bars that are too few for an episode."""
    if _trading_config(job).problem.allocates:
        method = _trading_config(job).agent.algorithm
        raise ConfigError(
            f"the programme trains an agent for each symbol, and agent={method} has one for all; take task=fleet "
            "agent=ppo"
        )
    check_episodes(job)


def run_baselines(job: Job, folder: Path) -> StageResult:
    """Baselines on the test set, the best supervised one beside the targets of the programme."""
    config, panel = _trading_config(job), job.panel
    task, fold, table = config.trading, build_fold(config, panel), build_table(config, panel)
    bank = market_bank(panel, table)
    results, same = drop_equal(evaluate_baselines(panel, int(fold.test[0]), market=task.market, bank=bank))
    figures = {name: metrics(each) for name, each in results.items()}
    (folder / "baselines.json").write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    sections = [replace(results_section(results), title="Baselines", text=same or "On the test set, after all costs.")]
    record = RunRecord({"policy": "", "figures": figures, "is_evidence": False})
    best = record.best_of(SUPERVISED)
    line = "no supervised baseline could be fitted"
    if best is not None:
        sections.append(_targets(record, best))
        line = f"{best} is the best supervised baseline: Sharpe ratio {figures[best]['sharpe']:+.2f} on the test set"
    sections += _classifiers(job, panel, table, fold, task, folder)
    return StageResult(line, tuple(sections), {"Baselines": ("volatility", "turnover", "costs", "round trips")})


def _targets(record: RunRecord, best: str) -> Section:
    """The targets held against a baseline, so that one sees what is easy and what is not."""
    judged = dict(record.judged) | {"policy": best, "intervals": {best: [record.figure("sharpe", best)] * 3}}
    gates = read_gate_set("targets")
    held = held_gates(replace(record, judged=judged), gates.gates)
    passed = sum(each.holds for each in held)
    text = f"{gates.about} Here of {best}, the best supervised baseline: {passed} of {len(held)} passed."
    return Section("Targets", text, (), GATE_HEADER, tuple(each.row for each in held))


def _classifiers(job: Job, panel: Panel, table: FeatureTable, fold: Fold, task: Trading, folder: Path) -> list[Section]:
    networks = job.plan.programme.networks
    if not networks:
        return []
    from pacesetter.methods.supervised.judgement import run_supervised

    options = {"window_bars": task.window_bars}
    supervised = run_supervised(
        panel, table, fold, networks=networks, market=task.market, cache=folder / "supervised", options=options
    )
    return [finding.section() for finding in supervised.findings()]


# ---- prototype and tuning -------------------------------------------------------------------------------------------


def run_prototype(job: Job, folder: Path) -> StageResult:
    """A fleet of the prototype's symbols, trained twice from the same seed, judged by the gates `prototype`."""
    config = _fleet(prototype_config(job.plan, job.panel), folder)
    job.tell("the prototype")
    run = train_quietly(config)
    job.tell("once more from the same seed")
    # In a folder of its own: beside the first, `only_run` could not tell them apart.
    again = train_quietly(replace(config, runs=str(folder / "repeat")))
    (run / REPEAT).write_text(json.dumps({"difference": repeat_difference(run, again)}) + "\n", encoding="utf-8")
    decision = _judge_run(job, run, ("prototype",), is_fast=True)[-1]
    _store_decision(decision, folder)
    sections = (gate_section(decision), _agents(run))
    return StageResult(decision.sentence, sections, {sections[0].title: ()})


def repeat_difference(first: Path, second: Path) -> float:
    """How far the mean Sharpe ratio of the agents differs, as a share of the first's."""
    one, two = (float(read_agents(run)["sharpe"].astype(float).mean()) for run in (first, second))
    return 0.0 if one == two else abs(two - one) / max(abs(one), 1e-12)


def prototype_config(config: Plan, panel: Panel) -> Plan:
    """The configuration on the prototype's symbols; where the data lacks one, as many of its first ones stand in."""
    named = list(config.programme.symbols)
    has_all = set(named) <= set(panel.symbols)
    return _limit_symbols(config, panel, named if has_all else list(panel.symbols[: len(named)]))


def _limit_symbols(config: Plan, panel: Panel, symbols: Sequence[str]) -> Plan:
    if set(symbols) == set(panel.symbols) or "symbols" not in config.data.to_dict():
        return config
    # A synthetic market counts its symbols, others name them.
    value: object = len(symbols) if config.data.source == "synthetic" else list(symbols)
    return replace(config, data=config.data.with_options(symbols=value))


def without_tuning(job: Job) -> str:
    """Why there is no search: none was asked for; else empty."""
    return "" if job.plan.programme.trials else "no trials were asked for: programme.trials=0"


def check_tuning(job: Job) -> None:
    """Refuse keys that cannot be searched."""
    check_search(_fleet(prototype_config(job.plan, job.panel), Path()), job.plan.programme.search)


def run_tuning(job: Job, folder: Path) -> StageResult:
    """Search on the prototype, retrain the best on all symbols, and choose beside the default."""
    small = _fleet(prototype_config(job.plan, job.panel), folder)
    return search_and_retrain(job, folder, small, _fleet(_scaled_config(job), folder))


# ---- fleet, master, validation --------------------------------------------------------------------------------------


def run_fleet(job: Job, folder: Path) -> StageResult:
    """All symbols, by the configuration that tuning chose; judged by the gates `fleet`."""
    run = _chosen_run(job, folder) or train_quietly(_fleet(_scaled_config(job), folder))
    decision = _judge_run(job, run, ("fleet",), is_fast=True)[-1]
    _store_decision(decision, folder)
    section = gate_section(decision)
    return StageResult(decision.sentence, (section, _agents(run)), {section.title: ()})


def _chosen_run(job: Job, folder: Path) -> Path | None:
    """The run that tuning retrained already, copied here; None where there was no tuning."""
    tuned = job.folder("tuning")
    if not (tuned / CHOICE).is_file():
        return None
    choice = json.loads((tuned / CHOICE).read_text(encoding="utf-8"))
    row = next(each for each in choice["candidates"] if each["name"] == choice["taken"])
    run = tuned / str(choice["taken"]).replace(" ", "-") / row["run"]
    return Path(shutil.copytree(run, folder / run.name))


def run_master(job: Job, folder: Path) -> StageResult:
    """A master over the fleet's frozen agents; judged by the gates `master`, whichever of the two is better."""
    fleet = only_run(job.folder("fleet"))
    run = train_quietly(master_config(job.plan, folder, fleet))
    decision = _judge_run(job, run, ("master",), is_fast=True)[-1]
    _store_decision(decision, folder)
    chosen = "master" if better_run(fleet, run) == run else "fleet"
    line = f"{allocation_sentence(read_allocations(run))}; the {chosen} goes to validation"
    section = gate_section(decision)
    return StageResult(line, (section,), {section.title: ()})


def judged_programme_run(job: Job) -> Path:
    """The run of the fleet or of its master, whichever did better on the validation set."""
    fleet = only_run(job.folder("fleet"))
    has_master = any(job.folder("master").glob("*/manifest.json"))
    return better_run(fleet, only_run(job.folder("master"))) if has_master else fleet


def run_validation(job: Job, folder: Path) -> StageResult:
    """The whole judgement with stress and walk-forward folds, by the gates `validation`, `targets` and `final`."""
    origin = judged_programme_run(job)
    # A copy: judging writes into the run, and what earlier phases left must stay as it was kept.
    run = Path(shutil.copytree(origin, folder / origin.name))
    _walk_forward(job, run)
    decisions = _judge_run(job, run, DECISIONS, is_fast=False)
    stands = standing_decision(decisions)
    store_decision(stands, run)  # which a bundle of the run carries on
    _store_decision(stands, folder)
    for each in decisions:
        if each is not stands:
            write_atomic(folder / f"decision-{each.gates.name}.json", json.dumps(each.to_json(), indent=2) + "\n")
    sections = tuple(gate_section(each) for each in decisions)
    return StageResult(" ".join(each.sentence for each in decisions), sections, {each.title: () for each in sections})


def standing_decision(decisions: Sequence[GateDecision]) -> GateDecision:
    """The last one; before it a NO-GO of the phase's own gates. `targets` are aims, and stop nothing."""
    own = next(each for each in decisions if each.gates.name == DECISIONS[0])
    return own if own.name == NO_GO else decisions[-1]


def _walk_forward(job: Job, run: Path) -> None:
    """Fold by fold, where folds are asked for; a master is not refitted, and its fleet's folds stand for it."""
    folds = job.plan.programme.folds
    if not folds:
        return
    stored = StoredRun(run)
    config = stored.config
    if config.task.problem == "master":
        config = StoredRun(only_run(job.folder("fleet"))).config
    name, _, table = fold_report(config, stored.panel, folds, tell=job.tell)
    (run / EVALUATION).mkdir(exist_ok=True)
    table.to_csv(run / EVALUATION / f"{name}.csv")


# ---- together -------------------------------------------------------------------------------------------------------


def phase_decision(folder: Path) -> str:
    """GO, CONDITIONAL or NO-GO of a phase by what it left; empty where it has no gates."""
    path = folder / DECISION
    return str(json.loads(path.read_text(encoding="utf-8"))["decision"]) if path.is_file() else ""


def _trading_config(job: Job) -> Plan:
    return fleet_config(job.plan, Path(), _window(job.plan))


def _fleet(config: Plan, folder: Path) -> Plan:
    return fleet_config(config, folder, _window(config))


def _window(config: Plan) -> str | int:
    """Bars of the lead–lag features: those of the agent of `job.lookback`, else the longest window it could choose."""
    return longest_window(config) if config.job.lookback is None else config.job.lookback


def _scaled_config(job: Job) -> Plan:
    """All symbols, or the first of them after a prototype that is CONDITIONAL."""
    most = job.plan.programme.most_symbols
    if phase_decision(job.folder("prototype")) != CONDITIONAL or len(job.panel.symbols) <= most:
        return job.plan
    return _limit_symbols(job.plan, job.panel, job.panel.symbols[:most])


def _agents(run: Path) -> Section:
    return replace(agents_section(run), text=fleet_sentence(read_agents(run)))


def _judge_run(job: Job, run: Path, names: Sequence[str], is_fast: bool) -> list[GateDecision]:
    """Judge a run on the test set and hold each set of gates against it; the last decision is kept in the run."""
    stored = StoredRun(run)
    facts: Mapping[str, str] = {"run": run.name}
    (run / EVALUATION).mkdir(exist_ok=True)
    store_judgement(stored.judge(job.plan.job.draws, is_fast=is_fast, tell=job.tell), run / EVALUATION, facts)
    measure_supervised(stored)
    decisions = [decide(run, read_gate_set(name)) for name in names]
    for each in decisions:
        store_decision(each, run)
    return decisions


def _store_decision(decision: GateDecision, folder: Path) -> None:
    """Leave the decision of a phase in its folder, beside that of its run."""
    write_atomic(folder / DECISION, json.dumps(decision.to_json(), indent=2) + "\n")
