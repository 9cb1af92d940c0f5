"""A run from a config to an agent: tracked, resumed bit-exactly, reproducible."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from pacesetter.build import (
    Parts,
    Plan,
    build_learner,
    build_panel,
    build_parts,
    check_device,
    check_unseen,
    fitted_until,
    stored_plan,
    with_lookback,
    with_utility,
)
from pacesetter.build.members import member_config, member_folders, members_of
from pacesetter.build.prior import PRIOR_FOLDER, with_prior
from pacesetter.build.sentence import describe_plan
from pacesetter.build.stored import SCALE
from pacesetter.errors import RunError
from pacesetter.evaluation.statistics.regimes import check_index
from pacesetter.evaluation.statistics.trials import Trial, Trials
from pacesetter.jobs.hydra.label import label_of
from pacesetter.jobs.run.interrupts import on_sigterm, print_when_stopped
from pacesetter.locks import hold
from pacesetter.panel import Panel
from pacesetter.runs import Run, write_atomic

if TYPE_CHECKING:
    import pandas as pd

    from pacesetter.jobs.run.callbacks import Callback, Checkpoints, LiveFigures, Session, Validator
    from pacesetter.learning.learner import Learner, StepRecord

__all__ = ["Report", "TrainingResult", "train"]

Report = Callable[[int, float], bool]  # hears (step, validation score) after each validation; True stops the run
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TrainingResult:
    """What a run came to; `run.folder` holds the rest.

    score    best validation score: mean reward per step of the deterministic policy; −inf without a validation
    stopped  why it ended: steps, patience, report or signal (the manifest of one ended by Ctrl-C says interrupted)
    """

    run: Run
    steps: int
    score: float
    weights_hash: str
    stopped: str


def train(
    config: Plan | None = None,
    *,
    resume: str | Path | None = None,
    console: Console | None = None,
    report: Report | None = None,
) -> TrainingResult:
    """Train the configured agent into a new run folder, or go on with the run in `resume`, whose own config it has.

    Refuses in one sentence: a combination that cannot learn, a folder that is not a run or that another process trains,
    a checkpoint of another config, machine, thread count or library version. A fail-safe stop raises `RunError` after
    its diagnostics are written.
    """
    if resume is None:
        config = config or Plan()
    else:
        from pacesetter.jobs.run.checkpoint import resumed_config

        run = Run.open(resume)
        config = resumed_config(run, config)
        # Two processes that resume one run would write over each other's checkpoints.
        with hold(run.folder):
            if not run.manifest["finished"]:
                return _train_members(_train(config, run, console or Console(), report), config, console)
        result = _stored_result(run)
        if len(_finished_members(run, config)) < members_of(config):
            return _train_members(result, config, console)
        (console or Console()).print(f"nothing to do, the run is finished: {_verdict(result)}", soft_wrap=True)
        return result
    return _train_members(_train(config, None, console or Console(), report), config, console)


def _finished_members(run: Run, config: Plan) -> dict[int, Path]:
    """Seed -> folder of the members that are trained, the run itself among them."""
    folders = member_folders(run.folder, config)
    return {stored_plan(each).seed: each for each in folders if Run.open(each).manifest["finished"]}


def _train_members(first: TrainingResult, config: Plan, console: Console | None) -> TrainingResult:
    """Train the other seeds of `agent.members` inside the run of the first, or finish those that were begun."""
    run = first.run
    if members_of(config) == 1 or first.stopped == "signal":
        return first
    config = stored_plan(run.folder)  # as it was trained: with its window and its rate of utility
    for number in range(1, members_of(config)):
        begun = {stored_plan(each).seed: each for each in member_folders(run.folder, config)}
        (console or Console()).print(f"member {number + 1} of {members_of(config)}, seed {config.seed + number}")
        folder = begun.get(config.seed + number)
        own = None if folder else member_config(config, run.folder, number)
        if train(own, resume=folder, console=console).stopped == "signal":
            break
    return first


def _stored_result(run: Run) -> TrainingResult:
    manifest = run.manifest
    if "weights_hash" not in manifest:
        raise RunError(f"{run.folder} is a finished run of another kind; it has no agent to resume")
    return TrainingResult(
        run, manifest["steps"], float(manifest["score"]), manifest["weights_hash"], manifest["stopped"]
    )


def _train(config: Plan, run: Run | None, console: Console, report: Report | None) -> TrainingResult:
    """Build, learn, store: everything that can be refused is, before a run folder is made."""
    check_device(config.train.device)
    panel, label = build_panel(config), label_of(config)
    check_index(panel, config.evaluation.index)  # read after training only, when the time is spent
    config = with_prior(with_utility(with_lookback(config, panel), panel))
    # In this order: each step refuses what it cannot do, and only then is a folder made.
    parts = build_parts(config, panel)
    learner = build_learner(config, parts)
    until = fitted_until(config, panel)
    _transfer(config, learner, until)
    is_new = run is None
    run = run or Run.create(config.runs, config.name, config.to_dict(), label)
    if parts.prior is not None:
        from pacesetter.methods.prior.prior import save_prior

        save_prior(parts.prior, run.folder / PRIOR_FOLDER)
    with hold(run.folder) if is_new else nullcontext():
        return _train_in_folder(config, run, console, report, panel, parts, learner, until)


def _train_in_folder(
    config: Plan,
    run: Run,
    console: Console,
    report: Report | None,
    panel: Panel,
    parts: Parts[object, object],
    learner: Learner,
    until: pd.Timestamp,
) -> TrainingResult:
    """Learn and store in a folder that is ours."""
    from pacesetter.jobs.run.callbacks import Session
    from pacesetter.jobs.run.checkpoint import identity
    from pacesetter.jobs.run.tracking import make_trackers

    run.write_json("manifest.json", run.manifest | {"fitted_until": str(until)})
    header = identity(config, panel.fingerprint, run)
    session = Session(
        config, run, parts, learner, console, header, report=report, bars_per_year=panel.bars_per_year, panel=panel
    )
    console.print(describe_plan(config), soft_wrap=True, highlight=False, markup=False)
    # Before learning: a run that fails or is thrown away was a trial all the same.
    _count(session)
    with _log_to_file(run), _record_failure(session):
        session.trackers = make_trackers(config, run)
        try:
            return _learn(session)
        finally:
            # A run that fails has trackers too: one that writes by time would go on after its folder is gone.
            _close_trackers(session, is_done=False)


def _close_trackers(session: Session[Learner], is_done: bool) -> None:
    """Close those that are not closed yet."""
    while session.trackers:
        session.trackers.pop(0).close(is_done)


def _transfer(config: Plan, learner: Learner, until: pd.Timestamp) -> None:
    """Start from another run's best weights, or a classifier's encoder, and keep what is to stay.

    A teacher that has seen bars after `until`, on which this run is judged, is refused.
    """
    if config.train.init_from is not None:
        check_unseen("train.init_from: the teacher in", config.train.init_from, until)
        taken = learner.take_weights(_weights(Path(config.train.init_from)))
        log.info("took %d tensors from %s", taken, config.train.init_from)
    learner.freeze(config.train.freeze)


def _weights(teacher: Path) -> Path:
    """Where the weights lie of a stored classifier, or of a run's best agent."""
    if (teacher / "state.json").is_file():
        return teacher
    best = Run.open(teacher).folder / "checkpoints" / "best"
    return best if best.is_dir() else best.with_name("last")


def _count(session: Session[Learner], sharpe: float | None = None) -> None:
    """Record the run as a trial on its data, whatever its outcome; `sharpe` is annualised."""
    config, folder = session.config, session.run.folder
    # Trials are deflated per bar, whatever their bars are.
    per_bar = None if sharpe is None else sharpe / session.bars_per_year**0.5
    trial = Trial(str(session.header["data"]), str(config.task.problem), folder.name, config.seed, per_bar)
    Trials.for_runs(folder.parent).add(trial)


class _Watcher:
    """All callbacks and the progress line as one watcher."""

    def __init__(self, callbacks: list[Callback[Learner]], show: Callable[[], None]) -> None:
        self.callbacks, self.show = callbacks, show

    def step(self, record: StepRecord) -> None:
        for callback in self.callbacks:
            callback.step(record)

    def between_rounds(self) -> None:
        self.show()
        for callback in self.callbacks:
            callback.between_rounds()


def _learn(session: Session[Learner]) -> TrainingResult:
    from pacesetter.jobs.run.callbacks import Checkpoints, FailSafeGuard, Schedules
    from pacesetter.jobs.run.progress import progress
    from pacesetter.late import load
    from pacesetter.learning.learner import Stop

    guard = FailSafeGuard(session)
    observe: Callable[[Session[Learner]], tuple[LiveFigures[Learner], Validator[Learner]]]
    observe = load(session.config.problem.observe)
    meter, validator = observe(session)
    others = [Schedules(session), guard, meter, validator]
    if session.config.train.log_episodes:
        from pacesetter.methods.offline.episode_log import EpisodeLog

        others.append(EpisodeLog(session))
    checkpoints = Checkpoints(session, others)
    _resume_checkpoint(session, checkpoints)
    _print_whole_rollouts(session)
    stopped = "steps"
    with _print_resume_hint(session), progress(session, meter, validator) as show, _stop_on_sigterm(session):
        try:
            session.learner.learn(session.config.train.steps, _Watcher([*others, checkpoints], show))
            # The last update has no round behind it at whose start it would be looked at.
            guard.check()
            try:
                _finish_validation(session, validator)
            except Stop:  # on a signal; a resume validates the agent at the end
                checkpoints.save()
                raise
            for callback in others:
                callback.end()
            checkpoints.save()
        except Stop as reason:
            stopped = str(reason)
        show()
        # After a signal the process is about to be killed: what follows learning is left to the resume.
        if stopped != "signal":
            validator.finish()
            _store_scale(session)
            stopped = session.stop or stopped  # a signal may have come meanwhile
    return _store(session, validator, stopped)


def _store_scale(session: Session[Learner]) -> None:
    """Fit the scale of the best policy's views to training and validation bars, and store it with the run.

    Nothing to do where no risk is stated, its scale is given, or the account is not sized. Members of an ensemble are
    not sized alone; what they come to is measured where it is played.
    """
    config, folder = session.config, session.run.folder
    risk = config.risk
    if not risk.is_on or risk.scale is not None or config.problem.judged_as != "account" or members_of(config) > 1:
        return
    from pacesetter.evaluation.stored_run import StoredRun

    sizing = StoredRun(folder, is_alone=True, bars=session.panel).sizing
    if sizing is not None and sizing.scale is not None:
        write_atomic(folder / SCALE, json.dumps({"scale": sizing.scale}) + "\n")


def _print_whole_rollouts(session: Session[Learner]) -> None:
    """Say so where learning will end behind `train.steps`, with its last round."""
    asked, each = session.config.train.steps, session.learner.round_steps
    whole = -(-asked // each) * each
    if whole != asked:
        sentence = f"train.steps={asked} becomes {whole}: the agent trains in whole rollouts of {each} steps"
        session.console.print(sentence, soft_wrap=True, highlight=False)


def _resume_checkpoint(session: Session[Learner], checkpoints: Checkpoints) -> None:
    """Load the last checkpoint where there is one, if it is of this config, data and machine."""
    from pacesetter.jobs.run.checkpoint import check_same, cut_metrics, last_checkpoint
    from pacesetter.learning.state import read_header

    folder = last_checkpoint(session.run)
    if folder is None:
        # Stopped before its first checkpoint: it starts again, and so do its metrics.
        cut_metrics(session.run, -1)
        return
    stored = read_header(folder)
    check_same(stored, session.header, session.run.folder)
    checkpoints.load()
    cut_metrics(session.run, stored["step"])
    session.console.print(f"resuming from step {stored['step']:,}")


def _finish_validation(session: Session[Learner], validator: Validator[Learner]) -> None:
    """The agent at the end is validated too, unless it was before a stop in what follows learning."""
    scores = validator.state["scores"]
    if session.config.train.validate_every and (not scores or scores[-1][0] != session.learner.step):
        validator.validate()
    else:
        validator.check_early_stop()  # as that validation was, so that a resumed run ends for the same reason


def _store(session: Session[Learner], validator: Validator[Learner], stopped: str) -> TrainingResult:
    """Complete the manifest; a run stopped by a signal stays open for a resume."""
    from pacesetter.jobs.run.collapse import gate_table

    learner, run = session.learner, session.run
    result = TrainingResult(run, learner.step, validator.state["best"], learner.weights_hash(), stopped)
    is_done = stopped != "signal"
    # Before the manifest says finished: what trackers keep is then complete.
    _close_trackers(session, is_done)
    if any(validator.gates.values()):  # an offline agent has none
        session.console.print(gate_table(validator.gates))
    facts = {"steps": result.steps, "score": result.score, "weights_hash": result.weights_hash, "stopped": stopped}
    if is_done:
        run.finish(**facts, seed=session.config.seed, identity=session.header, best_step=validator.state["best_step"])
    else:
        run.write_json("manifest.json", run.manifest | facts)
    _count(session, validator.state["sharpe"])
    session.console.print(_verdict(result), soft_wrap=True, highlight=False)
    return result


def _verdict(result: TrainingResult) -> str:
    if result.stopped == "signal":
        return f"stopped at step {result.steps:,}; resume with: pacesetter train --resume {result.run.folder}"
    return (
        f"{result.steps:,} steps ({result.stopped}), best validation score {result.score:+.6f}, "
        f"weights {result.weights_hash[:12]} → {result.run.folder}"
    )


# ---- around a run ---------------------------------------------------------------------------------------------------


@contextmanager
def _record_failure(session: Session[Learner]) -> Iterator[None]:
    """What stops a run is written into its manifest before it is raised."""
    try:
        yield
    except Exception as problem:
        run = session.run
        run.write_json("manifest.json", run.manifest | {"failed": {"stage": "train", "why": str(problem)}})
        raise


@contextmanager
def _log_to_file(run: Run) -> Iterator[None]:
    """Everything that is logged during the run, as JSON lines in log.jsonl."""
    from pacesetter.jobs.run.tracking import JsonFormatter

    logger = logging.getLogger("pacesetter")
    handler = logging.FileHandler(run.path("log.jsonl"), encoding="utf-8")
    handler.setFormatter(JsonFormatter())
    level = logger.level
    logger.addHandler(handler)
    # At least INFO into the file, whatever the console shows.
    logger.setLevel(min(level, logging.INFO) if level else logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        handler.close()


def _print_resume_hint(session: Session[Learner]) -> AbstractContextManager[None]:
    """Ctrl-C ends the run at once; what came after its last checkpoint is made again."""
    folder = session.run.folder

    def tell() -> str:
        where = "its last checkpoint" if (folder / "checkpoints" / "last").is_dir() else "the start"
        return f"resume from {where} with: pacesetter train --resume {folder}"

    return print_when_stopped(session.run, session.console, tell)


def _stop_on_sigterm(session: Session[Learner]) -> AbstractContextManager[None]:
    """SIGTERM stores the run between rollouts and ends it there."""

    def stop() -> None:
        session.stop = "signal"

    return on_sigterm(stop)
