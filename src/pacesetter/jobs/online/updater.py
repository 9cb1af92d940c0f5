"""A fleet that goes on learning: every so many bars a shadow is trained, judged on the latest bars, and taken or not.

```
bars so far  |----- reservoir of earlier starts -----|-- recent --|-- judged --|
```
A shadow learns from recent bars mixed with the reservoir and never from the bars it is judged on. It replaces the fleet
where it is not worse there and has not forgotten more than allowed on a frozen set. After a drift alarm it learns from
the bars since then alone, and what it forgets of the old regime is reported but does not hold it back.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pacesetter.agents.fleet import Fleet
from pacesetter.build import Parts, Plan, best_fleet, build_learner, build_table, stored_plan
from pacesetter.build.fleet import build_market
from pacesetter.errors import ConfigError, DataError, RunError, check_range
from pacesetter.features import FeatureTable
from pacesetter.jobs.online.drift import DriftMonitor
from pacesetter.jobs.online.reservoir import Reservoir
from pacesetter.jobs.online.starts import use_starts
from pacesetter.jobs.online.swaps import Swaps
from pacesetter.learning.experience.market import FleetMarket
from pacesetter.learning.fleet.storage import load_fleet, save_fleet
from pacesetter.learning.fleet.trainer import FleetTrainer
from pacesetter.learning.fleet.validation import play
from pacesetter.learning.state import tensors_hash
from pacesetter.panel import Panel
from pacesetter.runs import Run, sha256, write_atomic

if TYPE_CHECKING:
    from pacesetter.arrays import Array

__all__ = ["OnlineConfig", "OnlineUpdater", "Update"]

STATE, BEST = "online.json", "checkpoints/best"
EARNED, SHOWN = "earned", "shown"  # series that drift is looked for in: returns of the fleet, size of its features
PAST = "past"  # what the fleet earned on the frozen set, whose deviation is the unit of the first series
TOLD = ("number", "kind", "time", "drift", "gain", "forgotten", "from")  # of an update, in the run's manifest
DEVIATIONS = 8.0  # beyond which a feature counts as this far: one bad value is not a new regime


@dataclass(frozen=True)
class OnlineConfig:
    """How a fleet is updated.

    every_bars          bars between two updates
    recent_bars         latest bars that are learned from, before those that are judged on
    judged_bars         latest bars, on which shadow and fleet are compared
    reservoir           starts of earlier episodes that are kept          reservoir_share   of the starts drawn from it
    steps               environment steps of each agent in an update
    frozen_bars         length of the set on which forgetting is measured: the last bars before the first update
    largest_forgetting  fall of the mean annualised Sharpe ratio there that is allowed without a drift alarm
    alarm_bars          how long an alarm lasts
    confidence          δ of ADWIN
    """

    every_bars: int = 50
    recent_bars: int = 300
    judged_bars: int = 50
    reservoir: int = 500
    reservoir_share: float = 0.5
    steps: int = 2_048
    frozen_bars: int = 200
    largest_forgetting: float = 1.0
    alarm_bars: int = 300
    confidence: float = 0.002
    seed: int = 0

    def __post_init__(self) -> None:
        check_range(
            1,
            owner="online",
            every_bars=self.every_bars,
            recent_bars=self.recent_bars,
            judged_bars=self.judged_bars,
            reservoir=self.reservoir,
            steps=self.steps,
            frozen_bars=self.frozen_bars,
            alarm_bars=self.alarm_bars,
        )
        check_range(0, 1, owner="online", reservoir_share=self.reservoir_share)
        check_range(0, owner="online", largest_forgetting=self.largest_forgetting)


@dataclass(frozen=True)
class Update:
    """What an update came to.

    bar, time       last bar that was known             drift        series with an alarm, none without
    kind            swap or keep                        why          of a shadow that was not taken
    gain            mean return a bar of shadow less fleet on the judged bars
    forgotten       fall of the Sharpe ratio on the frozen set
    """

    number: int
    bar: int
    time: str
    kind: str
    why: str
    drift: list[str]
    gain: float
    forgotten: float
    weights_hash: str


class OnlineUpdater:
    """Updates the fleet of a run into a run of its own, which holds its state after every update.

    folder   of the run to begin with, or of an updater's own run to resume
    taken    is called with the run after every swap, e.g. to bundle it
    """

    def __init__(
        self, folder: str | Path, config: OnlineConfig | None = None, taken: Callable[[Run], None] | None = None
    ) -> None:
        self.origin = Path(folder)
        self.config, self.taken = config or OnlineConfig(), taken
        self.run_config = self._check_config(stored_plan(folder))
        self.fleet: Fleet
        self.run: Run | None = None
        self.drift = DriftMonitor(self.config.confidence)
        self.reservoir = Reservoir(self.config.reservoir, self.config.seed)
        self.bars, self.first, self.updates, self.alarm_until = 0, 0, 0, 0
        self.history: dict[str, list[float]] = {PAST: [], EARNED: [], SHOWN: []}
        if (self.origin / STATE).is_file():
            self._resume()
        else:
            self.fleet = best_fleet(folder)

    @staticmethod
    def _check_config(config: Plan) -> Plan:
        if config.task.problem != "fleet":
            raise ConfigError(f"task={config.task.problem} is not updated online; use a run of task=fleet")
        if config.agent.algorithm not in ("ppo", "sac"):
            raise ConfigError(
                f"agent={config.agent.algorithm} does not learn from new bars; use a run of agent=ppo or sac"
            )
        return replace(config, train=replace(config.train, init_from=None, log_episodes=False))

    # ---- bars -----------------------------------------------------------------------------------------------------

    def check(self, panel: Panel, first: int) -> None:
        """Refuse a `first` bar that updates cannot begin at. A resumed updater has begun."""
        if self.run is not None:
            return
        needed, frozen = self.config.judged_bars + self.config.recent_bars, first - self._window()
        if first > len(panel):
            raise DataError(f"bar {first} is beyond the end of the source, which has {len(panel)} bars; give less")
        if first < needed:
            raise DataError(f"online updates need {needed} bars before the first one, and there are {first}")
        if self.config.frozen_bars > frozen:
            asked = f"online.frozen_bars={self.config.frozen_bars}"
            raise ConfigError(f"{asked}, but only {frozen} bars before the first update can be played; give fewer")

    def begin(self, panel: Panel, first: int) -> None:
        """Take the bars before `first` as the past; refuses too few of them. A resumed updater has begun."""
        self.check(panel, first)
        if self.run is not None:
            return
        self.first = self.bars = first
        # Recent bars enter the reservoir when they are no longer recent, so that none is drawn from both.
        usable = range(self._window(), first - self.config.recent_bars)
        self.reservoir.add(usable)
        table = build_table(self.run_config, panel)
        self.history[SHOWN] = self._feature_sizes(table, panel, 0, first).tolist()
        start = max(first - self.config.frozen_bars, self._window())
        # The frozen set: what the policy earned there is the unit of drift and the reference of forgetting.
        self.history[PAST] = self.returns(self.fleet, panel.rows(0, first), table, start).tolist()
        # Detectors see the past first: the first new bars are compared with it, not with nothing.
        self._watch()
        agent = {"online": asdict(self.config)}
        name = f"{self.run_config.name}-online"
        self.run = Run.create(self.origin.resolve().parent, name, replace(self.run_config, name=name).to_dict())
        self.run.write_json("options.json", agent)
        self._store({"number": 0, "bar": self.bars - 1, "kind": "begin", "origin": self.origin.resolve().name})

    def advance(self, panel: Panel) -> list[Update]:
        """Take note of all bars of `panel`, and update as often as is due; gives the updates."""
        if self.run is None:
            raise RunError("the updater has not begun; call begin with the bars so far")
        events = []
        while self.bars + self.config.every_bars <= len(panel):
            events.append(self._update(panel.rows(0, self.bars + self.config.every_bars)))
        return events

    def _update(self, panel: Panel) -> Update:
        """One round: look for drift, train a shadow, judge it, and store what came of it."""
        table, before = build_table(self.run_config, panel), self.bars
        # By the fleet in force, before it may be replaced: drift is of what was really traded.
        alarms = self._detect_changes(panel, table, before)
        if alarms:
            self.alarm_until = len(panel) + self.config.alarm_bars
        is_alarmed = len(panel) <= self.alarm_until
        self.bars, self.updates = len(panel), self.updates + 1
        shadow = self._train(panel, table, is_alarmed)
        gain = self._gain(shadow, panel, table)
        forgotten = self._measure_forgetting(shadow, panel, table)
        # After a drift the old regime is what should be forgotten.
        is_forgetful = forgotten > self.config.largest_forgetting and not is_alarmed
        # Not worse is enough: on a stationary market most shadows are neither better nor worse.
        is_taken = gain >= 0 and not is_forgetful
        why = "" if is_taken else "worse on the latest bars" if gain < 0 else "forgets too much"
        if is_taken:
            self.fleet = shadow
        # Bars that have just left the recent window.
        self.reservoir.add(range(before - self.config.recent_bars, len(panel) - self.config.recent_bars))
        update = Update(
            self.updates,
            len(panel) - 1,
            str(panel.index[-1]),
            "swap" if is_taken else "keep",
            why,
            alarms,
            gain,
            forgotten,
            tensors_hash(self.fleet.state_dict()),
        )
        self._store(asdict(update))
        if is_taken and self.taken is not None:
            assert self.run is not None
            self.taken(self.run)
        return update

    def _detect_changes(self, panel: Panel, table: FeatureTable, before: int) -> list[str]:
        """Series in whose new values a change was detected."""
        # From the order at the last known bar on: its fill lies in the first new one.
        earned = self.returns(self.fleet, panel, table, before - 1)[-(len(panel) - before) :]
        fresh = {EARNED: earned, SHOWN: self._feature_sizes(table, panel, before, len(panel))}
        units = {EARNED: self._unit(), SHOWN: 1.0}
        alarms = [
            name
            for name, values in fresh.items()
            if self.drift.add(name, np.asarray(values) / units[name], falls_only=name == EARNED)
        ]
        for name, values in fresh.items():
            self.history[name] += [float(value) for value in values]
        return alarms

    def _unit(self) -> float:
        """The deviation of what the fleet earned on the frozen set: ADWIN's bound is for values of about this size."""
        return float(np.std(self.history[PAST])) + 1e-12

    def _watch(self) -> None:
        """Let the detectors see everything that was seen so far."""
        earned = np.array(self.history[PAST] + self.history[EARNED]) / self._unit()
        # Detectors are rebuilt from history, not stored: ADWIN's state follows from its values.
        self.drift.add(EARNED, earned)
        self.drift.add(SHOWN, self.history[SHOWN])

    # ---- learning and judging -------------------------------------------------------------------------------------

    def _train(self, panel: Panel, table: FeatureTable, is_alarmed: bool) -> Fleet:
        """A copy of the fleet after some more steps on recent bars and the reservoir."""
        # The latest bars judge the shadow, so it must not learn from them.
        stop = len(panel) - self.config.judged_bars
        known = panel.rows(0, stop)
        market = self._market(known, table, self.run_config.train.envs, starts="random")
        recent = self.config.recent_bars
        if is_alarmed:
            # ADWIN's window holds what belongs to the new regime; at least one episode must fit.
            recent = min(recent, max(self.drift.width(EARNED) - self.config.judged_bars, self._length() + 1))
        share = 0.0 if is_alarmed else self.config.reservoir_share
        use_starts(market, range(stop - recent, stop), self.reservoir.kept, share, self.config.seed + self.updates)
        # Another seed for each update: the same draws on nearly the same bars would learn little new.
        own = replace(self.run_config, seed=self.config.seed + self.updates)
        learner = build_learner(own, Parts(market, None))
        assert isinstance(learner, FleetTrainer)
        learner.fleet.load_state_dict(self.fleet.state_dict())
        learner.learn(self.config.steps)
        # A copy, so that the learner with its optimisers can be freed.
        return copy.deepcopy(learner.fleet)

    def _gain(self, shadow: Fleet, panel: Panel, table: FeatureTable) -> float:
        first = len(panel) - self.config.judged_bars - 1
        return float((self.returns(shadow, panel, table, first) - self.returns(self.fleet, panel, table, first)).mean())

    def _measure_forgetting(self, shadow: Fleet, panel: Panel, table: FeatureTable) -> float:
        """By how much the mean Sharpe ratio falls on the bars before the first update."""
        # Bars before the first update alone, at every update the same ones.
        known, first = panel.rows(0, self.first), max(self.first - self.config.frozen_bars, self._window())
        ratios = [play(fleet, self._market(known, table, 1, first=first)).sharpe for fleet in (self.fleet, shadow)]
        return float((ratios[0] - ratios[1]).mean())

    def returns(self, fleet: Fleet, panel: Panel, table: FeatureTable, first: int) -> Array:
        """(bar,) mean return of the agents from the order at bar `first` on."""
        returns = play(fleet, self._market(panel, table, 1, first=first)).align_returns(len(panel))
        return np.asarray(np.nan_to_num(returns.nanmean(1).numpy()[first + 1 :]))

    def _market(
        self, panel: Panel, table: FeatureTable, envs: int, *, starts: str = "fixed", first: int = 0
    ) -> FleetMarket:
        # Rows of the table up to the panel's end: features are causal, so cutting equals computing again.
        own = replace(table, index=panel.index, values=table.values[:, : len(panel)])
        options: dict[str, Any] = {"table": own, "supervised": None, "starts": starts, "first_bar": first}
        if starts == "random":
            options["episode_bars"] = self._length()
        return build_market(self.run_config, panel, envs, **options)

    def _length(self) -> int:
        """Bars of an episode: the task's, at most a third of the recent ones."""
        asked = self.run_config.trading.episode_bars or self.config.recent_bars
        return max(min(int(asked), self.config.recent_bars // 3), 2)

    def _window(self) -> int:
        return self.run_config.learned_window_bars

    def _feature_sizes(self, table: FeatureTable, panel: Panel, start: int, stop: int) -> Array:
        """(bar,) mean size of the features in deviations of the bars before the first update."""
        past = table.values[:, : self.first]  # (symbol, bar, feature)
        centre, spread = np.nanmean(past, axis=(0, 1)), np.nanstd(past, axis=(0, 1)) + 1e-12
        distance = np.abs((table.values[:, start:stop] - centre) / spread)
        return np.asarray(np.nanmean(np.minimum(np.nan_to_num(distance), DEVIATIONS), axis=(0, 2)))

    # ---- on disk --------------------------------------------------------------------------------------------------

    def _store(self, event: Mapping[str, object], name: str | None = None) -> None:
        """Weights first, then the state that names them: a kill leaves the update before, or this one.

        `name` is that of a stored fleet to return to, which is not written again.
        """
        assert self.run is not None
        if name is None:
            name = f"fleets/{self.updates:05d}"
            save_fleet(self.fleet, self.run.path(name))
        state = {
            "fleet": name,
            "bars": self.bars,
            "first": self.first,
            "updates": self.updates,
            "alarm_until": self.alarm_until,
            "history": self.history,
            "reservoir": self.reservoir.to_dict(),
            "config": asdict(self.config),
            "events": [*self.events(), {**event, "fleet": name}],
        }
        write_atomic(self.run.path(STATE), json.dumps(state, default=str))
        self._publish()

    def _publish(self) -> None:
        """Put the fleet in force where every other command looks for a run's agent, and then into the manifest."""
        assert self.run is not None
        save_fleet(self.fleet, self.run.path(BEST))
        events = self.events()
        changes = [event for event in events if event["kind"] in ("swap", "rollback")]
        times = [str(event["time"]) for event in events if event.get("time")]
        until = times[-1] if times else str(Run.open(self.origin).manifest.get("fitted_until", ""))
        facts = {"steps": self.updates * self.config.steps, "score": 0.0, "stopped": "online", "fitted_until": until}
        # Of the update that the fleet in force comes from: its bundle and so the trader's journal name them.
        facts["update"] = {name: changes[-1][name] for name in TOLD if name in changes[-1]} if changes else {}
        self.run.finish(weights_hash=tensors_hash(self.fleet.state_dict()), seed=self.config.seed, **facts)

    def events(self) -> list[dict[str, object]]:
        """Everything that happened, oldest first."""
        assert self.run is not None
        path = self.run.folder / STATE
        return list(json.loads(path.read_text(encoding="utf-8"))["events"]) if path.is_file() else []

    @property
    def first_fleet(self) -> Fleet:
        """The fleet as it was before the first update."""
        assert self.run is not None
        # From its own run: after a resume `origin` is that run, whose best fleet is the latest one.
        return load_fleet(self.run.folder / "fleets/00000")

    def _resume(self) -> None:
        """Continue from the state of an updater's own run."""
        self.run = Run.open(self.origin)
        try:
            state = json.loads((self.origin / STATE).read_text(encoding="utf-8"))
            self.config = OnlineConfig(**state["config"])
            self.fleet = load_fleet(self.origin / state["fleet"])
            self.bars, self.first, self.updates = state["bars"], state["first"], state["updates"]
            self.alarm_until, self.history = state["alarm_until"], state["history"]
            self.reservoir = Reservoir.from_dict(state["reservoir"])
        except (ValueError, KeyError, TypeError) as problem:
            raise RunError(f"{self.origin / STATE} cannot be read ({problem!r}); use a copy of the run") from problem
        self.drift = DriftMonitor(self.config.confidence)
        self._watch()
        # The manifest is written last: where it names another state, a kill came before what others read was written.
        if self.run.manifest.get("artefacts", {}).get(STATE) != sha256(self.origin / STATE):
            self._publish()

    def swaps(self) -> Swaps:
        """The swaps in force and those undone; refuses a run that is not an updater's."""
        if self.run is None:
            raise RunError(f"{self.origin} was never updated; give the run that `pacesetter online` made")
        try:
            return Swaps.of(self.events())
        except LookupError as problem:
            raise RunError(f"the events of {self.origin / STATE} are damaged; use a copy of the run") from problem

    def roll_back(self) -> dict[str, object]:
        """Undo the latest swap that is still in force; the event says so. Refuses where there is none."""
        swaps = self.swaps()
        if not swaps.in_force:
            reason = f"all {len(swaps.undone)} are undone" if swaps.undone else "there was none"
            raise RunError(f"{self.origin} has no swap to go back from: {reason}")
        assert self.run is not None
        number, name = swaps.in_force[-1]
        self.fleet = load_fleet(self.run.folder / name)
        event = {"number": self.updates, "bar": self.bars - 1, "kind": "rollback", "from": number}
        self._store(event, name)
        return event
