"""What a run does while its agent learns: schedules, fail-safe, metrics, validation, checkpoints, in this order.

Every callback is told of all steps and acts between rounds, where nothing is half done. What it must remember across a
resume is in its `state`; the rest follows from the step. A callback ends the run by setting `session.stop`, and the
last one, `Checkpoints`, then stores the run and stops it there.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from gymnasium import spaces
from gymnasium.vector import VectorEnv
from rich.console import Console

from pacesetter.agents.agent import Agent
from pacesetter.arrays import Array
from pacesetter.build import Parts, Plan
from pacesetter.build.actions import action_names
from pacesetter.build.plan import plain_task
from pacesetter.envs.batch.batch import batch_of
from pacesetter.envs.curriculum import course_of
from pacesetter.envs.journal import EpisodeJournal
from pacesetter.errors import RunError
from pacesetter.evaluation.statistics.gates import Gate
from pacesetter.evaluation.statistics.metrics import sharpe
from pacesetter.jobs.run.collapse import (
    BINS,
    Activity,
    action_sizes,
    collapse_gates,
    gate_table,
    histogram,
    play_episodes,
)
from pacesetter.jobs.run.recovery import Recovery
from pacesetter.jobs.run.tracking import Tracker, resources
from pacesetter.learning.learner import Learner, StepRecord, Stop
from pacesetter.learning.randomness import keep_randomness
from pacesetter.learning.state import write_state
from pacesetter.market.parameters import MarketParameters
from pacesetter.panel import Panel
from pacesetter.runs import SCHEMA, Run

__all__ = [
    "Callback",
    "Checkpoints",
    "FailSafeGuard",
    "LiveFigures",
    "Meter",
    "Schedules",
    "Session",
    "Validator",
    "curriculum_figures",
    "observe",
]

log = logging.getLogger(__name__)
ROLLING = 250  # steps of the live Sharpe ratio
LEAST_ABOVE_PRIOR = 2.0  # standard errors of the reward a bar
Report = Callable[[int, float], bool]
LearnerT = TypeVar("LearnerT", bound=Learner, covariant=True)  # a session keeps its learner


@dataclass
class Session(Generic[LearnerT]):
    """A run at work: what its callbacks share."""

    config: Plan
    run: Run
    parts: Parts[object, object]
    learner: LearnerT
    console: Console
    header: dict[str, object]
    trackers: list[Tracker] = field(default_factory=list)
    report: Report | None = None
    bars_per_year: float = 252.0
    stop: str | None = None
    panel: Panel | None = None

    def raise_if_signalled(self) -> None:
        """End what is played where a signal has come meanwhile: two million bars would take minutes."""
        if self.stop == "signal":
            raise Stop(self.stop)

    def log(self, **metrics: object) -> None:
        """Metrics of this step to every tracker."""
        for tracker in self.trackers:
            tracker.log(self.learner.step, metrics)


class Callback(Generic[LearnerT]):
    """One concern; `state` is what a resume must bring back, in plain values and arrays."""

    def __init__(self, session: Session[LearnerT]) -> None:
        self.session = session
        self.state: dict[str, Any] = {}

    def step(self, record: StepRecord) -> None:
        """Take note of what was just collected."""

    def between_rounds(self) -> None:
        """Act between rollouts."""

    def end(self) -> None:
        """Act when all steps are made."""

    def is_due(self, every: int) -> bool:
        """Whether a multiple of `every` steps was passed since this was last asked; never for 0."""
        step, before = self.session.learner.step, self.state.get("asked", 0)
        # By whole multiples: rounds rarely end exactly on one.
        if not every or step // every <= before // every:
            return False
        self.state["asked"] = step
        return True


class LiveFigures(Callback[LearnerT]):
    """Meters the training environments."""

    def figures(self) -> list[str]:
        """What the progress line says; nothing before the first figures."""
        return []


class Schedules(Callback[Learner]):
    """Sets scheduled hyperparameters, which follow from the step alone; reward weights and curricula have their own."""

    def between_rounds(self) -> None:
        learner = self.session.learner
        for name, schedule in (self.session.config.train.schedules or {}).items():
            learner.set(name, schedule.at(learner.step))


class FailSafeGuard(Callback[Learner]):
    """The fail-safe: NaN and divergence stop the run with a dump of diagnostics; the last good checkpoint stays."""

    def step(self, record: StepRecord) -> None:
        rewards = torch.as_tensor(record.rewards)  # a fleet's are on its device, and stay there
        if not bool(torch.isfinite(rewards).all()):
            self.fail("a reward is not finite", {"actions": record.actions, "rewards": record.rewards})

    def between_rounds(self) -> None:
        self._check_losses()
        if self.is_due(self.session.config.train.log_every):  # looking at every weight takes its time
            self._check_weights()

    def check(self) -> None:
        """Look at everything now."""
        self._check_losses()
        self._check_weights()

    def _check_losses(self) -> None:
        most = self.session.config.train.fail_safe.max_loss
        for name, loss in self.session.learner.losses().items():
            if not math.isfinite(loss) and name != "explained_variance":  # that one is NaN where returns are constant
                self.fail(f"{name} is {loss}")
            if name.endswith("loss") and abs(loss) > most:
                self.fail(f"{name}={loss:.3g} is beyond train.fail_safe.max_loss={most:g}")

    def _check_weights(self) -> None:
        most = self.session.config.train.fail_safe.max_weight
        for name, largest in self._largest_weights():
            # Written so that NaN, which is neither above nor below, fails.
            if not largest <= most:
                self.fail(f"weight {name} is {largest:.3g}, train.fail_safe.max_weight={most:g}")

    def _largest_weights(self) -> list[tuple[str, float]]:
        """Name and largest size of every trained tensor."""
        parameters = self.session.learner.parameters()
        return [(name, float(tensor.detach().abs().max())) for name, tensor in parameters if tensor.numel()]

    def fail(self, why: str, more: Mapping[str, object] | None = None) -> None:
        """Write diagnostics and raise `RunError`."""
        session, learner = self.session, self.session.learner
        folder = session.run.folder / "diagnostics"
        # Tensors as they were when it happened; the report beside them is readable without torch.
        state = {"observation": dict(learner.observation), **(more or {})}
        write_state(folder, {"why": why, "step": learner.step}, state)
        facts = {
            "why": why,
            "step": learner.step,
            "losses": dict(learner.losses()),
            "largest_weights": dict(self._largest_weights()),
        }
        session.run.write_json("diagnostics/report.json", facts)
        raise RunError(
            f"the fail-safe stopped the run at step {learner.step}: {why}; see {folder}/report.json, and lower the "
            "learning rate or check rewards and features"
        )


class Meter(LiveFigures[Learner]):
    """Live metrics of the training environments: reward, entropy, action mix, trade rate, rolling Sharpe ratio."""

    def __init__(self, session: Session[Learner]) -> None:
        super().__init__(session)
        train = session.parts.train
        assert isinstance(train, VectorEnv)
        self.space = train.single_action_space
        self.started, self.first = time.perf_counter(), session.learner.step
        self.shown: dict[str, Any] = {}
        self.state = {"recent": [], **self._nothing()}
        space = self.space
        bounds = (float(space.low.min()), float(space.high.max())) if isinstance(space, spaces.Box) else None
        self.action_names = action_names(plain_task(session.config.task), len(self.state["mix"]), bounds)

    def _nothing(self) -> dict[str, object]:
        size = BINS if isinstance(self.space, spaces.Box) else int(action_sizes(self.space).max())
        return {"mix": np.zeros(size), "steps": 0, "trades": 0, "voluntary": 0}

    def step(self, record: StepRecord) -> None:
        state, activity = self.state, Activity.of(record.infos)
        growth = record.rewards if activity.growth is None else activity.growth
        state["recent"] = [*state["recent"][1 - ROLLING :], float(np.mean(growth))]
        state["mix"] = state["mix"] + self._mix(np.asarray(record.actions))
        state["steps"] += len(record.rewards)
        if activity.trades is not None and activity.voluntary is not None:
            state["trades"] += int(activity.trades.sum())
            state["voluntary"] += int(activity.voluntary.sum())

    def _mix(self, actions: Array) -> Array:
        if isinstance(self.space, spaces.Box):
            return histogram(actions, self.space)
        return np.bincount(np.ravel(actions).astype(np.int64), minlength=len(self.state["mix"]))

    def between_rounds(self) -> None:
        if self.state["steps"] and self.is_due(self.session.config.train.log_every):
            self.shown = self.metrics()
            self.session.log(**self.shown, **self.costs())
            # After logging: every line is of the steps since the last.
            self.state |= self._nothing()

    def metrics(self) -> dict[str, object]:
        """What happened since the last line; equal in every repeat of the run."""
        state, learner = self.state, self.session.learner
        ratio = float(sharpe(np.array(state["recent"]), self.session.bars_per_year))
        return {
            **learner.statistics(),
            "action_mix": (state["mix"] / max(state["mix"].sum(), 1)).round(4).tolist(),
            "trade_rate": state["trades"] / state["steps"],
            "voluntary_rate": state["voluntary"] / state["steps"],
            "sharpe": ratio,
            "losses": dict(learner.losses()),
            **curriculum_figures(self.session.parts.train),
        }

    def figures(self) -> list[str]:
        """What the progress line says: reward, entropy, most used action by name, trade rate, rolling Sharpe ratio."""
        shown = self.shown
        if not shown:
            return []
        mix = shown["action_mix"]
        return [
            "no episode yet" if math.isnan(shown["reward"]) else f"reward {shown['reward']:+.3f}",
            f"entropy {shown['entropy']:.2f}",
            f"{max(mix):.0%} {self.action_names[mix.index(max(mix))]}",
            f"trades {shown['trade_rate']:.0%}",
            f"sharpe {shown['sharpe']:+.2f}",
        ]

    def costs(self) -> dict[str, object]:
        """What it took: steps per second, seconds per component, memory."""
        learner = self.session.learner
        passed = time.perf_counter() - self.started
        rate = (learner.step - self.first) / passed
        return {"steps_per_second": rate, "seconds": dict(learner.seconds), "resources": resources()}


def curriculum_figures(environments: object) -> dict[str, object]:
    """Level, stage and episodes so far of a curriculum, where the training environments follow one."""
    course = course_of(environments)
    if course is None:
        return {}
    return {"curriculum": {"level": course.level, "stage": course.stage.name, "episodes": course.episodes}}


class Validator(Callback[LearnerT]):
    """Plays the validation set, keeps the best agent, prints the gates; patience and the report may end the run."""

    def __init__(self, session: Session[LearnerT]) -> None:
        super().__init__(session)
        self.state = {"best": -math.inf, "best_step": 0, "sharpe": None, "since_best": 0, "collapsed": 0, "scores": []}
        self.gates: dict[str, list[Gate]] = {}
        self.paid: Array | None = None  # (time,) mean reward of the latest validation, of agents that act by their best
        batch = batch_of(session.parts.validation)
        self.journal = None if batch is None else EpisodeJournal(batch.bank, batch.components)
        self.hold_zone = (MarketParameters() if batch is None else batch.market).orders.hold_zone
        # None for most runs: tracing plays the validation set once more for each way of acting.
        self.recovery = Recovery.from_config(session.config, session.parts.validation, session.panel)

    def between_rounds(self) -> None:
        every, parts = self.session.config.train.validate_every, self.session.parts
        # Agents with a prior begin at it, and it stays the best until one of them is better.
        is_start = every > 0 and parts.prior is not None and not self.state["scores"]
        asked = self.state.get("asked", 0)
        if self.is_due(every) or is_start:
            try:
                self.validate()
            except Stop:  # on a signal: the run is stored, and begins with this validation when it is resumed
                self.state["asked"] = asked
                return
        self.check_early_stop()  # also when resumed in what follows learning

    def check_early_stop(self) -> None:
        """Ask for a stop where the score has not been better for `train.patience` validations."""
        patience = self.session.config.train.patience
        if patience is not None and self.state["since_best"] >= patience:
            self.session.stop = "patience"

    def validate(self) -> None:
        """One validation, and what follows from it; a signal ends it without a trace."""
        session = self.session
        metrics = self._play()
        score, step = metrics["score"], session.learner.step
        if session.config.train.best_by == "sharpe":
            score = metrics["deterministic"]["sharpe"]
        self.state["scores"] = [*self.state["scores"], [step, score]]
        # Strictly better: of equal scores the earlier, less trained agent stays. NaN is never the best.
        is_best = self._is_above_prior(metrics) and score > self.state["best"]
        if is_best:
            sharpe = metrics["deterministic"]["sharpe"]
            self.state |= {"best": score, "best_step": step, "sharpe": sharpe, "since_best": 0}
            self.keep(session.run.path("checkpoints/best"), {"step": step, "score": score})
            if self.recovery is not None:
                self.recovery.store(session.run, self.gates)
        else:
            self.state["since_best"] += 1
        session.log(validation=metrics | {way: metrics.get(way, {}) | self._describe_gates(way) for way in self.gates})
        self.check_early_stop()
        # After the best was kept: a pruned trial still has an agent.
        if session.report is not None and session.report(step, self._search_score(metrics, score)):
            session.stop = "report"
        self._watch_collapse()

    def _search_score(self, metrics: dict[str, Any], score: float) -> float:
        """What a search hears of a validation, in the measure of the run's score at its end."""
        return score

    def _is_above_prior(self, metrics: dict[str, Any]) -> bool:
        """Whether an agent earns its place beside the prior that it began at: that was validated first.

        A better score by chance would take away from it, so the mean reward a bar must be surely above the prior's.
        """
        if self.session.parts.prior is None or self.paid is None:
            return True
        if "prior" not in self.state:
            self.state["prior"] = self.paid.tolist()
            return True
        gap = self.paid - np.array(self.state["prior"])
        error = float(gap.std(ddof=1)) / math.sqrt(len(gap)) if len(gap) > 1 else 0.0
        metrics["above_prior"] = float(gap.mean()) / error if error > 0 else 0.0
        return bool(metrics["above_prior"] >= LEAST_ABOVE_PRIOR)

    def keep(self, folder: Path, facts: Mapping[str, object]) -> None:
        """Store the agent as the best so far."""
        self.session.learner.save(folder, self.session.header | {"schema": SCHEMA, **facts})
        if self.journal is not None:
            self.journal.save(self.session.run.folder)  # what `pacesetter inspect` replays

    def _describe_gates(self, way: str) -> dict[str, object]:
        """The gates of one way of acting: value, sense and limit of each."""
        return {"gates": {gate.name: _plain_gate(gate) for gate in self.gates[way]}}

    def finish(self) -> None:
        """Do what is left when learning has ended."""

    def _play(self) -> dict[str, Any]:
        """Both ways of acting, without touching any generator that training draws from."""
        session, metrics, agent = self.session, {}, self.session.learner.agent
        assert isinstance(agent, Agent)
        train, validation = session.parts.train, session.parts.validation
        assert isinstance(train, VectorEnv)
        assert isinstance(validation, VectorEnv)
        space = train.single_action_space
        for name, deterministic in (("deterministic", True), ("stochastic", False)):
            # Validation draws actions too; a run with other `validate_every` must train the same weights.
            with keep_randomness():
                journal = self.journal if deterministic else None
                played = play_episodes(
                    agent, validation, deterministic, journal=journal, each_step=session.raise_if_signalled
                )
                self.paid = played.paid if deterministic else self.paid
                entropy = None if deterministic else float(session.learner.statistics()["entropy"])
            self.gates[name] = collapse_gates(played, space, session.config.train.gates, entropy, self.hold_zone)
            metrics[name] = {
                "score": played.score,
                "sharpe": played.sharpe(session.bars_per_year),
                "growth": float(np.prod(1 + played.growth) - 1),
            }
        if self.recovery is not None:
            self.gates = self.recovery.extend(self.gates, agent)
        return {"score": metrics["deterministic"]["score"], **metrics}

    def _watch_collapse(self) -> None:
        *_, last = self.gates.values()
        watched = self.gates.get("stochastic", last)  # of the stochastic policy, where it is played
        failed = [gate.name for gate in watched if gate.is_applicable and not gate.passed]
        # In a row: a single poor validation happens to every run.
        self.state["collapsed"] = self.state["collapsed"] + 1 if failed else 0
        limits = self.session.config.train.fail_safe
        if failed:
            # Into the run's log alone: the table of gates says it to people.
            log.info("step %d: gates failed: %s", self.session.learner.step, ", ".join(failed))
        if limits.collapse == "stop" and self.state["collapsed"] >= limits.patience:
            self.session.console.print(gate_table(self.gates))
            times = f"{self.state['collapsed']} validations in a row"
            FailSafeGuard(self.session).fail(f"the policy has collapsed: {', '.join(failed)} failed in {times}")


def _plain_gate(gate: Gate) -> dict[str, object]:
    """A gate as it is logged; the oracle's value only where it was measured."""
    return {name: value for name, value in asdict(gate).items() if name != "oracle" or value is not None}


class Checkpoints(Callback[Learner]):
    """Stores the run as `last` when due or when it is to stop, and then stops it."""

    def __init__(self, session: Session[Learner], others: list[Callback[Learner]]) -> None:
        super().__init__(session)
        self.others = others

    def between_rounds(self) -> None:
        is_due = self.is_due(self.session.config.train.checkpoint_every)
        if is_due or self.session.stop:
            self.save()
        if self.session.stop:
            raise Stop(self.session.stop)

    def save(self) -> None:
        """Everything an exact resume needs, under `checkpoints/last`."""
        session, step = self.session, self.session.learner.step
        if step:  # before the first step there is nothing that the config does not say
            # By class name, not by position: an option that adds a callback must not shift the others' states.
            remembered = {type(part).__name__: part.state for part in [*self.others, self]}
            header = session.header | {"schema": SCHEMA, "step": step}
            session.learner.save(session.run.path("checkpoints/last"), header, remembered)

    def load(self) -> None:
        """Resume from `checkpoints/last`."""
        stored = self.session.learner.load(self.session.run.folder / "checkpoints" / "last")
        for part in [*self.others, self]:
            part.state = stored[type(part).__name__]


def observe(session: Session[Learner]) -> tuple[Meter, Validator[Learner]]:
    """What meters and validates one agent in vector environments."""
    return Meter(session), Validator(session)
