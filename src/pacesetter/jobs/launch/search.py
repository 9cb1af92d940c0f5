"""`pacesetter train --launch tune`: Optuna searches the values of keys, stops poor trials, and writes a preset.

With `tune.sampler=cem` the cross-entropy method searches, without other keys the weights of the reward.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rich.console import Console

from pacesetter.build import Plan
from pacesetter.build.trading import Trading
from pacesetter.errors import ConfigError, RunError, check_range, needs
from pacesetter.evaluation.report.page import Section, write_report
from pacesetter.evaluation.report.pictures import style_figure
from pacesetter.jobs.hydra.overrides import choices, split_varied, stored_overrides, take_options
from pacesetter.jobs.hydra.resolve import resolve, write_preset
from pacesetter.jobs.launch.assignment import Assignment, InterruptedRunError, RunOutcome, run_task
from pacesetter.jobs.launch.samplers import (
    WEIGHTS,
    check_intervals,
    convergence_section,
    cross_entropy_sampler,
    generations_of,
    reward_weights,
    scale_key,
    tpe_sampler,
    value_at,
)
from pacesetter.jobs.launch.workers import Launcher
from pacesetter.jobs.run.interrupts import print_when_stopped
from pacesetter.learning.cross_entropy import CrossEntropy
from pacesetter.runs import Run, check_schema

if TYPE_CHECKING:
    from hydra.core.override_parser.types import Override
    from optuna import Study
    from optuna.distributions import BaseDistribution
    from optuna.samplers import BaseSampler
    from optuna.trial import FrozenTrial, Trial

__all__ = ["Search", "SearchResult", "check_space", "distribution", "tune"]

STUDY = "tune"
HEADER = ("trial", "state", "score", "values")
RATE = "agent.learning_rate=tag(log, interval(1e-5, 3e-3))"
ENTROPY = "agent.ent_coef=tag(log, interval(1e-4, 1e-1))"
DISCOUNT = "agent.gamma=0.9,0.95,0.98,0.99,0.995"
TRACE = "agent.gae_lambda=0.9,0.95,1.0"
ROLLOUT = (RATE, ENTROPY, DISCOUNT, TRACE, "agent.n_epochs=2,4,8", "agent.clip_range=0.1,0.2,0.3")
REPLAY = (RATE, DISCOUNT, "agent.tau=0.005,0.01,0.02", "agent.batch_size=64,128,256")
SPACES = {  # algorithm -> what is searched when no key has several values
    "ppo": ROLLOUT,
    "maskable_ppo": ROLLOUT,
    "recurrent_ppo": ROLLOUT,
    "a2c": (RATE, ENTROPY, DISCOUNT, TRACE),
    "sac": REPLAY,
    "td3": REPLAY,
}


@dataclass(frozen=True)
class Search:
    """How to search.

    trials   trials to finish, those of an earlier part and stopped ones counted
    startup  random trials before the sampler learns from them and poor ones are stopped
    storage  database URL that all workers reach; none is SQLite in the run folder
    sampler  tpe; or cem, the cross-entropy method, which stops no trial early and by default searches reward weights
    cem      its options
    """

    trials: int = 20
    startup: int = 5
    storage: str | None = None
    sampler: Literal["tpe", "cem"] = "tpe"
    cem: CrossEntropy = field(default_factory=CrossEntropy)

    def __post_init__(self) -> None:
        check_range(1, owner="tune", trials=self.trials, startup=self.startup)

    @property
    def is_cem(self) -> bool:
        return self.sampler == "cem"

    @property
    def unpruned(self) -> int:
        """Trials before poor ones are stopped; a refit needs the end of every member of a generation."""
        return self.trials if self.is_cem else self.startup

    def at_once(self, size: int, begun: int) -> int:
        """Trials to run together: as many as there are workers, and none of a generation whose elite is not known."""
        return min(size, self.cem.population - begun % self.cem.population) if self.is_cem else size

    def make_sampler(self, space: dict[str, BaseDistribution], seed: int, begun: int) -> BaseSampler:
        """The sampler of a search in which so many trials were begun."""
        if self.is_cem:
            return cross_entropy_sampler(self.cem, space, seed)
        return tpe_sampler(seed + begun, self.startup)  # a later part draws on, not again


@dataclass(frozen=True)
class SearchResult:
    """The best trial's score and values, and the preset that holds its whole configuration."""

    run: Run
    study: Study
    score: float
    values: dict[str, Any]
    preset: Path


@dataclass(frozen=True)
class Attempt:
    """A trial for a worker: where its study lies, and the run that it asks for."""

    storage: str
    startup: int
    study: str
    trial_id: int
    task: Assignment


def tune(overrides: Sequence[str], *, resume: str | Path | None = None, console: Console | None = None) -> SearchResult:
    """Search over the keys with several values, or the agent's usual ones; `resume` goes on with an earlier search."""
    console = console or Console()
    overrides = [*(stored_overrides(resume) if resume else ()), *overrides]
    launcher, rest = take_options(overrides, "launcher", Launcher)
    search, fixed, distributions, config = check_space(rest)
    run = Run.open(resume) if resume else Run.create(config.runs, "tune", {"overrides": overrides})
    console.print(f"{search.trials} trials over {', '.join(distributions)} → {run.folder}", soft_wrap=True)
    storage = search.storage or f"sqlite:///{run.folder.resolve()}/study.db"
    study = _resumed_study(storage, search.unpruned, run)
    # Made here, not stored: a study in a database keeps trials, not its sampler.
    study.sampler = search.make_sampler(distributions, config.seed, len(study.trials))
    stopped = print_when_stopped(
        run, console, lambda: f"resume with: pacesetter train --launch tune --resume {run.folder}"
    )
    with stopped, launcher.session() as pool:
        while batch := _next_trials(study, distributions, search, pool.size):
            attempts = [
                Attempt(storage, search.unpruned, study.study_name, trial._trial_id, _task(run, fixed, trial))
                for trial in batch
            ]
            for trial, outcome in zip(batch, pool.run(attempt, attempts), strict=True):
                _report_to_study(study, trial, outcome)
                console.print(_trial_line(study.trials[trial.number]), highlight=False, soft_wrap=True)
    return _finish(run, study, fixed, console, search, distributions)


def check_space(overrides: Sequence[str]) -> tuple[Search, list[str], dict[str, BaseDistribution], Plan]:
    """How to search, the fixed overrides, what each key is drawn from, and the configuration with the first values."""
    search, rest = take_options(overrides, "tune", Search)
    fixed, space = _space(rest, search)
    distributions = {key: distribution(override) for key, override in space.items()}
    if search.is_cem:
        check_intervals(distributions)
    return search, fixed, distributions, _check_space(fixed, space)


def attempt(work: Attempt) -> RunOutcome | None:
    """Run a trial in this process, reporting to its study; None where the fail-safe stopped it."""
    from optuna.trial import Trial

    trial = Trial(_study(work.storage, work.startup, work.study), work.trial_id)

    def report(step: int, score: float) -> bool:
        trial.report(score, step)
        return trial.should_prune()

    try:
        return run_task(work.task, report)
    except InterruptedRunError:
        raise
    # The fail-safe's stop is a result of these values, not of the machine: the search goes on without it.
    except RunError:
        return None


# ---- the study -------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=4)
def _study(storage: str, startup: int, name: str = STUDY) -> Study:
    """The stored study, made if there is none; opening it takes longer than a small trial, so it stays open."""
    optuna = _optuna()
    pruner = optuna.pruners.MedianPruner(n_startup_trials=startup)
    study: Study = optuna.create_study(
        storage=storage, study_name=name, direction="maximize", pruner=pruner, load_if_exists=True
    )
    return study


def _resumed_study(storage: str, startup: int, run: Run) -> Study:
    """The study of a search that is resumed."""
    check_schema(run.manifest, str(run.folder))
    return _study(storage, startup)


def _optuna() -> Any:
    with needs("tune", "search"):
        import optuna
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def _next_trials(study: Study, space: dict[str, BaseDistribution], search: Search, workers: int) -> list[Trial]:
    """Trials that an earlier worker left unfinished, then new ones, up to the number wanted."""
    from optuna.trial import Trial

    left = [Trial(study, trial._trial_id) for trial in study.trials if not trial.state.is_finished()]
    begun = len(study.trials) - len(left)
    # Trials that a killed worker left are asked for again first: they have their values already.
    room = min(search.at_once(workers, begun), search.trials - begun)
    return [*left, *(study.ask(space) for _ in range(room - len(left)))][:room]


def _task(run: Run, fixed: Sequence[str], trial: Trial) -> Assignment:
    folder = run.folder.resolve() / "runs" / f"{trial.number:03d}"
    return Assignment(str(folder), (*fixed, *(f"{key}={value}" for key, value in trial.params.items())))


def _report_to_study(study: Study, trial: Trial, outcome: RunOutcome | None) -> None:
    from optuna.trial import TrialState

    if outcome is None:
        study.tell(trial, state=TrialState.FAIL)
    elif outcome.stopped == "report":
        study.tell(trial, state=TrialState.PRUNED)
    else:
        study.tell(trial, outcome.score)


# ---- the space -------------------------------------------------------------------------------------------------------


def _space(overrides: Sequence[str], search: Search) -> tuple[list[str], dict[str, Override]]:
    """Fixed overrides, and the keys to search: those with several values, or else the sampler's or the agent's."""
    fixed, varied = split_varied(overrides)
    if not varied and search.is_cem:
        fixed, intervals = reward_weights(fixed)
        varied = split_varied(intervals)[1]
        if not any(text.startswith("train.best_by=") for text in fixed):
            fixed.append("train.best_by=sharpe")
    elif not varied:
        varied = split_varied(_usual_keys(fixed))[1]
    return fixed, {override.get_key_element(): override for override in varied}


def _usual_keys(fixed: Sequence[str]) -> list[str]:
    """What is searched where no key has several values: the agent's keys that no schedule sets, and the scale of what
    was earned where trials are not compared by their reward."""
    config = resolve(fixed)
    algorithm, scheduled = config.agent.algorithm, _scheduled_keys(config)
    if algorithm not in SPACES:
        raise ConfigError(f"nothing to search for {algorithm}; give several values for a key, {RATE} or {DISCOUNT}")
    keys = [text for text in SPACES[algorithm] if text.partition("=")[0] not in scheduled]
    scale = scale_key(fixed) if isinstance(config.task, Trading) and config.train.best_by != "score" else ""
    return [*keys, scale] if scale else keys


def _scheduled_keys(config: Plan) -> dict[str, str]:
    """Keys whose values a schedule replaces from the first round on, with the schedule's."""
    return {f"agent.{name}": f"train.schedules.{name}" for name in config.train.schedules or {}}


def distribution(override: Override) -> BaseDistribution:
    """`interval(0, 1)`, `tag(log, interval(1e-5, 1e-2))`, `int(interval(1, 9))` or a list, for Optuna."""
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if not override.is_interval_sweep():
        return CategoricalDistribution([text.partition("=")[2] for text in choices(override)])
    value: Any = override.value()
    kind = IntDistribution if isinstance(value.start, int) else FloatDistribution
    try:
        return kind(value.start, value.end, log="log" in value.tags)
    except ValueError as problem:
        raise ConfigError(f"'{override.input_line}' is not an interval to search ({problem})") from problem


def _check_space(fixed: Sequence[str], space: dict[str, Override]) -> Plan:
    """The configuration with the first value of each key; refuses a wrong value of any before there is a trial."""
    values = [_values(override) for override in space.values()]
    first = [each[0] for each in values]
    for place, each in enumerate(values):
        # Each value beside the first of all others: every key is checked without composing every combination.
        for value in each[1:]:
            resolve([*fixed, *first[:place], value, *first[place + 1 :]])
    config = resolve([*fixed, *first])
    if not config.train.validate_every:
        raise ConfigError("a search compares validation scores; set train.validate_every above 0")
    scheduled = _scheduled_keys(config)
    if inert := next((key for key in space if key in scheduled), None):
        raise ConfigError(
            f"{inert} is searched, and {scheduled[inert]} sets it in every trial; search the schedule, or leave it out "
            f"with ~{scheduled[inert]}"
        )
    weights = [key for key in space if key.startswith(WEIGHTS)]
    if weights and config.train.best_by == "score":
        raise ConfigError(f"{weights[0]} changes the score that trials are compared by; set train.best_by=sharpe")
    return config


def _values(override: Override) -> list[str]:
    """Every value, or the ends of an interval, as single overrides."""
    if not override.is_interval_sweep():
        return choices(override)
    value: Any = override.value()
    return [f"{override.get_key_element()}={end}" for end in (value.start, value.end)]


# ---- what is left behind ---------------------------------------------------------------------------------------------


def _finish(
    run: Run,
    study: Study,
    fixed: Sequence[str],
    console: Console,
    search: Search,
    space: dict[str, BaseDistribution],
) -> SearchResult:
    scores = [trial.value for trial in study.trials if trial.state.name == "COMPLETE"]
    if not scores:
        raise RunError(f"none of {len(study.trials)} trials finished; {run.folder}/runs has the reason of each")
    best = study.best_trial
    chosen = [*fixed, *(f"{key}={value}" for key, value in best.params.items())]
    about = f"Trial {best.number} of {len(study.trials)} in {run.folder.name}: validation score {best.value:.6g}"
    preset = write_preset(run.path("conf/preset/best.yaml"), chosen, about)
    sections = _sections(study, scores)
    if search.is_cem:
        proposals = generations_of(search.cem, space, study.trials, -(-len(study.trials) // search.cem.population))
        sections.insert(0, convergence_section(search.cem, space, study.trials, proposals))
        mean = {
            key: value_at(kind, share) for (key, kind), share in zip(space.items(), proposals[-1].mean, strict=True)
        }
        write_preset(
            run.path("conf/preset/mean.yaml"),
            [*fixed, *(f"{key}={value}" for key, value in mean.items())],
            f"Mean of what {run.folder.name} would draw next: where the best trial may be luck",
        )
        first = study.trials[0].value
        console.print(
            f"Where it began: {'' if first is None else f'{first:.6g}'}; +preset=…/mean.yaml: {mean}", soft_wrap=True
        )
    write_report(run.path("report.html"), "tune", sections)
    run.finish(score=best.value, values=best.params)
    console.print(
        f"Best: {_trial_line(best)}\nUse it: +preset={preset}\nReport: {run.path('report.html')}", soft_wrap=True
    )
    return SearchResult(run, study, float(best.value or 0.0), best.params, preset)


def _sections(study: Study, scores: Sequence[float | None]) -> list[Section]:
    from optuna.importance import FanovaImportanceEvaluator
    from optuna.visualization import plot_optimization_history, plot_param_importances

    history = style_figure(plot_optimization_history(study), "Score by trial")
    importance: tuple[object, ...] = ()
    # fANOVA divides by the variance of the scores.
    if len(set(scores)) > 1:
        figure = plot_param_importances(study, evaluator=FanovaImportanceEvaluator(seed=0))
        importance = (style_figure(figure, "Share of the scores' variance"),)
    rows = tuple((trial.number, trial.state.name.lower(), *_cells(trial)) for trial in study.trials)
    return [
        Section("History", "Validation score of every finished trial, and the best so far.", figures=(history,)),
        Section("Importance", "Share of the variance of scores that each key explains (fANOVA).", figures=importance),
        Section("Trials", "Pruned trials were stopped early.", header=HEADER, rows=rows),
    ]


def _cells(trial: FrozenTrial) -> tuple[str, str]:
    score = "" if trial.value is None else f"{trial.value:.6g}"
    return score, " ".join(
        f"{key}={value:.3g}" if isinstance(value, float) else f"{key}={value}" for key, value in trial.params.items()
    )


def _trial_line(trial: FrozenTrial) -> str:
    score, values = _cells(trial)
    return f"trial {trial.number:3d}  {trial.state.name.lower():<9}{score:>12}  {values}"
