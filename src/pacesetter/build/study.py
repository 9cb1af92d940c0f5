"""The plan of a study: what a command reads that looks at bars and trains nothing."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from pacesetter.data.loading import check, load, source_and_loading
from pacesetter.data.quality import Readiness
from pacesetter.errors import ConfigError, check_range, did_you_mean
from pacesetter.leadlag.study import Study, configure_study, study_defaults
from pacesetter.leadlag.windows import is_span
from pacesetter.panel import Panel
from pacesetter.runs import config_hash

__all__ = ["MainJob", "StudyPlan", "build_panel", "build_readiness", "build_study"]

LARGEST_SEED = 2**32 - 1  # that NumPy's global generator takes, which Stable-Baselines3 seeds


@dataclass(frozen=True)
class MainJob:
    """How long the pipeline trains.

    lookback         run folder of a lookback agent that is trained already; None trains one
    lookback_steps   environment steps of the agent that chooses the window
    direct_steps     bars of accounts in which a direct policy, the default, learns its shape
    fleet_steps      of each trading agent of another method, e.g. agent=ppo
    master_steps     of all portfolios in which the master learns
    folds            tests in a row of the walk-forward account that is judged, with a refit before each, as far as bars
                     allow; a fleet then takes about so many times as long; 1: the single split
    draws            of the bootstrap behind every interval
    memory_mb        budget of the whole job, by which tables are sized; None: none. Less than the bars take is refused
    fast             leave out stressed markets, other limits and explanations; the verdict and its gates stay whole
    """

    lookback: str | None = None
    lookback_steps: int = 20_000
    direct_steps: int = 61_440
    fleet_steps: int = 10_000
    master_steps: int = 10_000
    folds: int = 3
    draws: int = 2_000
    memory_mb: int | None = None
    fast: bool = False

    def __post_init__(self) -> None:
        counts = ("lookback_steps", "direct_steps", "fleet_steps", "master_steps", "folds", "draws")
        check_range(1, owner="job", memory_mb=self.memory_mb or 1, **{name: vars(self)[name] for name in counts})


@dataclass(frozen=True)
class StudyPlan:
    """A job that looks at bars; one that trains has a whole `Plan`.

    name    names the run
    runs    folder that run folders go to
    seed    of everything random; sources with a seed take this one unless they are given another
    data    `source` and its options
    lag     the lead–lag study: its own keys, and those of the engine and its estimator
    """

    name: str = "run"
    runs: str = "runs"
    seed: int = 0
    data: dict[str, Any] = field(default_factory=lambda: {"source": "sample"})
    lag: dict[str, Any] = field(default_factory=dict)
    job: MainJob = field(default_factory=MainJob)

    def __post_init__(self) -> None:
        if not self.name or not all(letter.isalnum() or letter in "_-." for letter in self.name):
            raise ConfigError(f"name='{self.name}' names a folder: letters, digits, '-', '_' and '.' only")
        check_range(0, LARGEST_SEED, seed=self.seed)
        # Everything is built once here, so that a wrong option fails before data is loaded or a folder made.
        if "source" not in self.data:
            raise ConfigError("data needs a source: data=sample, data=synthetic, data=csv …")
        if self.lag and self.lag != study_defaults():
            build_study(self)  # refuses what it cannot do
        source_and_loading(self.data["source"], self.data_options)

    @property
    def data_options(self) -> dict[str, object]:
        """The source's options without `source`, those that are not set left out."""
        return {key: value for key, value in self.data.items() if value is not None and key != "source"}

    @property
    def symbols(self) -> tuple[str, ...]:
        """Symbols to be traded, which the bars must have; a study takes those that there are."""
        return ()

    def to_dict(self) -> dict[str, Any]:
        """Plain nested dictionary, as it is stored and hashed."""
        return dataclasses.asdict(self)

    def __hash__(self) -> int:
        return hash(config_hash(self.to_dict()))


def build_study(plan: StudyPlan, panel: Panel | None = None) -> Study:
    """The lead–lag study a plan asks for.

    Where `lag.lookback` is the folder of a lookback agent, and not a length of time such as 30D, its window is the one
    that the agent has in force at the study's last bar of the panel; without a panel it stays the default.
    """
    lag = dict(plan.lag)
    if isinstance(lag.get("lookback"), str) and not is_span(lag["lookback"]):
        folder = lag.pop("lookback")
        if panel is not None:
            from pacesetter.build.stored import window_at_end

            lag["lookback"] = window_at_end(folder, panel.between(end=lag.get("end")))
    return configure_study(lag, plan.seed)


def build_panel(plan: StudyPlan) -> Panel:
    """The checked panel that a plan asks for; refuses symbols to trade that it lacks."""
    panel = load(plan.data["source"], **plan.data_options)
    missing = [symbol for symbol in plan.symbols if symbol not in panel.symbols]
    if missing:
        raise ConfigError(
            f"the data have no {', '.join(missing)}{did_you_mean(missing[0], panel.symbols)}; name others by "
            "task.symbols, [] for all of them"
        )
    return panel


def build_readiness(plan: StudyPlan) -> Readiness:
    """What is right and wrong with the configured data, without refusing it."""
    return check(plan.data["source"], **plan.data_options)
