"""The tuning phase: the best trials of a search on the prototype, retrained on all symbols beside the default.

One is taken only where it is clearly better there: by mean Sharpe ratio, spread and crash rate of the agents.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd
import yaml
from rich.console import Console

from pacesetter.build import Plan
from pacesetter.errors import ConfigError, RunError
from pacesetter.evaluation.fleet.agents import read_agents
from pacesetter.evaluation.programme.measured import LARGE_LOSS
from pacesetter.evaluation.report.page import Section, number
from pacesetter.jobs.launch.assignment import InterruptedRunError
from pacesetter.jobs.launch.folds import change_config
from pacesetter.jobs.launch.search import SPACES, check_space, tune
from pacesetter.jobs.pipeline.stages import Job, StageResult, train_quietly
from pacesetter.jobs.run.interrupts import exit_on_sigterm
from pacesetter.runs import SCHEMA, write_atomic

__all__ = ["CHOICE", "Candidate", "Choice", "check_search", "choose_candidate", "config_preset", "search_and_retrain"]

CHOICE = "choice.json"
DEFAULT = "default"
HEADER = ("configuration", "mean Sharpe ratio", "spread", "crash rate", "")
OWN_KEYS = ("name", "runs", "seed")


@dataclass(frozen=True)
class Candidate:
    """A configuration retrained on all symbols: mean and standard deviation of its agents' Sharpe ratios on the
    validation set, and the share that lost more than half."""

    name: str
    mean: float
    spread: float
    crash_rate: float
    values: Mapping[str, Any]
    run: str = ""

    @classmethod
    def of(cls, name: str, values: Mapping[str, object], run: Path) -> Candidate:
        """By the agents that a run left."""
        table: pd.DataFrame = read_agents(run)
        ratios = table["sharpe"].astype(float)
        crashed = float((table["drawdown"].astype(float) > LARGE_LOSS).mean())
        spread = float(ratios.std(ddof=0))
        return cls(name, float(ratios.mean()), spread, crashed, dict(values), run.name)


@dataclass(frozen=True)
class Choice:
    """What was taken, and why, in words."""

    taken: Candidate
    reason: str


def choose_candidate(default: Candidate, others: Sequence[Candidate], gain: float = 0.1) -> Choice:
    """The best of the others where it is `gain` above the default, as a share of its mean; else the default.

    A candidate with a higher crash rate than the default is out. The rest are ranked by mean, and equal means by the
    smaller spread.
    """
    # Crashes first: a higher mean must not be bought with agents that lose more than half.
    safe = [each for each in others if each.crash_rate <= default.crash_rate]
    if not safe:
        out = "no trial finished" if not others else "every candidate crashes more often than the default"
        return Choice(default, f"the default is kept: {out}")
    best = max(safe, key=lambda each: (each.mean, -each.spread))
    # Of a negative default ten percent is ten percent of its size, and the candidate must be above it.
    needed = default.mean + gain * abs(default.mean)
    if best.mean > default.mean and best.mean >= needed:
        return Choice(best, f"{best.name} is taken: mean {best.mean:+.2f} against {default.mean:+.2f} of the default")
    return Choice(
        default,
        f"the default is kept: {best.name} has a mean of {best.mean:+.2f}, and {needed:+.2f} is needed, "
        f"{gain:.0%} above the default's {default.mean:+.2f}",
    )


def search_and_retrain(job: Job, folder: Path, small: Plan, whole: Plan) -> StageResult:
    """Search on the prototype's configuration, retrain the best on the whole one, and choose."""
    options = job.plan.programme
    trials = _best_trials(small, folder, options.trials, options.search, options.top)
    job.tell(f"the default and {len(trials)} best trials on all symbols")
    default = Candidate.of(DEFAULT, {}, train_quietly(replace(whole, runs=str(folder / DEFAULT))))
    others = []
    for number_, values in trials:
        name = f"trial {number_}"
        config = change_config(whole, [f"{key}={value}" for key, value in values.items()])
        others.append(Candidate.of(name, values, train_quietly(replace(config, runs=str(folder / f"trial-{number_}")))))
    choice = choose_candidate(default, others, options.gain)
    rows = [default, *others]
    stored = {"reason": choice.reason, "taken": choice.taken.name, "candidates": [asdict(each) for each in rows]}
    write_atomic(folder / CHOICE, json.dumps(stored, indent=2) + "\n")
    return StageResult(choice.reason, (_section(choice, rows),), {"Tuning": ()})


def check_search(config: Plan, keys: Sequence[str]) -> None:
    """Refuse what cannot be searched: the prototype would be trained before it is noticed."""
    agent = config.agent.algorithm
    if not keys and agent not in SPACES:
        raise ConfigError(
            f'nothing to search for agent={agent}; give programme.search=["agent.…=a,b"], or programme.trials=0'
        )
    with TemporaryDirectory() as folder:
        preset = config_preset(config, Path(folder) / "preset" / "searched-prototype.yaml")
        check_space([f"+preset={preset}", *keys])


def config_preset(config: Plan, path: Path) -> Path:
    """A whole configuration as a preset that a search can start from."""
    plain = json.loads(json.dumps(config.to_dict()))
    groups = [
        {"override /data": plain["data"]["source"]},
        {"override /task": plain["task"]["problem"]},
        {"override /agent": plain["agent"]["algorithm"]},
    ]
    kept = {key: value for key, value in plain.items() if key not in OWN_KEYS}
    text = yaml.safe_dump({"defaults": groups, "schema": SCHEMA} | kept, sort_keys=False, allow_unicode=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    return write_atomic(path, f"# @package _global_\n{text}")


def _best_trials(
    config: Plan, folder: Path, trials: int, keys: Sequence[str], top: int
) -> list[tuple[int, dict[str, object]]]:
    """(number, values) of the best trials of a search, the best first; none where no trial finished."""
    preset = config_preset(config, folder / "preset" / "searched-prototype.yaml")
    given = [f"+preset={preset}", f"runs='{folder}'", f"seed={config.seed}", "name=tune", f"tune.trials={trials}"]
    try:
        study = tune([*given, f"tune.startup={max(min(5, trials), 1)}", *keys], console=Console(quiet=True))
    # Told to stop, it ends here: with no trial it would retrain the default, and call the phase done.
    except InterruptedRunError:
        exit_on_sigterm()
    except RunError:
        return []
    done = [trial for trial in study.study.trials if trial.state.name == "COMPLETE"]
    done.sort(key=lambda trial: -float(trial.value or 0.0))
    # A sampler may draw the same values again: retrained twice they would say the same twice.
    different = [one for place, one in enumerate(done) if all(one.params != other.params for other in done[:place])]
    return [(trial.number, dict(trial.params)) for trial in different[:top]]


def _section(choice: Choice, rows: Sequence[Candidate]) -> Section:
    table = tuple(
        (
            each.name,
            number(each.mean, "+.2f"),
            number(each.spread, ".2f"),
            number(each.crash_rate, ".0%"),
            "taken" if each.name == choice.taken.name else "",
        )
        for each in rows
    )
    text = (
        f"The best trials of the search on the prototype, retrained on all symbols: {choice.reason}. Figures are of "
        "the validation set, which also chose."
    )
    return Section("Tuning", text, (), HEADER, table)
