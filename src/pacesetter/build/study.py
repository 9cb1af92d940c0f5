"""The plan of a study: what a command reads that looks at bars and trains nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from typing import Annotated, Any

from pacesetter.data.loading import Data
from pacesetter.errors import ConfigError, check_range, did_you_mean
from pacesetter.leadlag.study import Study, configure_study
from pacesetter.leadlag.windows import is_span
from pacesetter.panel import Panel
from pacesetter.registry import configure
from pacesetter.runs import config_hash

__all__ = ["MainJob", "StudyPlan", "as_mapping", "build_panel", "parse_study", "read_sections", "share_panel"]

LARGEST_SEED = 2**32 - 1  # that NumPy's global generator takes, which Stable-Baselines3 seeds


@dataclass(frozen=True)
class MainJob:
    """How long the pipeline trains."""

    lookback: Annotated[str | None, "run folder of a lookback agent that is trained already; None trains one"] = None
    lookback_steps: Annotated[int, "environment steps of the agent that chooses the window"] = 20_000
    direct_steps: Annotated[int, "bars of accounts in which a direct policy, the default, learns its shape"] = 61_440
    fleet_steps: Annotated[int, "of each trading agent of another method, e.g. agent=ppo"] = 10_000
    master_steps: Annotated[int, "of all portfolios in which the master learns"] = 10_000
    folds: Annotated[
        int,
        "tests in a row of the walk-forward account that is judged, with a refit before each, as far as bars "
        "allow; a fleet then takes about so many times as long; 1: the single split",
    ] = 3
    draws: Annotated[int, "of the bootstrap behind every interval"] = 2_000
    memory_mb: Annotated[
        int | None,
        "budget of the whole job, by which tables are sized; None: none. Less than the bars take is refused",
    ] = None
    fast: Annotated[
        bool,
        "leave out stressed markets, other limits and explanations; the verdict and its gates stay whole",
    ] = False

    def __post_init__(self) -> None:
        check_range(
            1,
            owner="job",
            memory_mb=self.memory_mb or 1,
            lookback_steps=self.lookback_steps,
            direct_steps=self.direct_steps,
            fleet_steps=self.fleet_steps,
            master_steps=self.master_steps,
            folds=self.folds,
            draws=self.draws,
        )


@dataclass(frozen=True)
class StudyPlan:
    """A job that looks at bars; one that trains has a whole `Plan`."""

    name: Annotated[str, "names the run"] = "run"
    runs: Annotated[str, "folder that run folders go to"] = "runs"
    seed: Annotated[int, "of everything random; sources with a seed take this one unless they are given another"] = 0
    data: Annotated[Data, "where bars come from"] = field(default_factory=lambda: Data.configure({"source": "sample"}))
    lag: Annotated[Study, "the lead–lag study, with the engine and its estimator"] = field(default_factory=Study)
    job: MainJob = field(default_factory=MainJob)

    def __post_init__(self) -> None:
        if not self.name or not all(letter.isalnum() or letter in "_-." for letter in self.name):
            raise ConfigError(f"name='{self.name}' names a folder: letters, digits, '-', '_' and '.' only")
        check_range(0, LARGEST_SEED, seed=self.seed)
        if self.lag.seed != self.seed:
            object.__setattr__(self, "lag", replace(self.lag, seed=self.seed))

    @property
    def symbols(self) -> tuple[str, ...]:
        """Symbols to be traded, which the bars must have; a study takes those that there are."""
        return ()

    def to_dict(self) -> dict[str, Any]:
        """Plain nested dictionary, as it is stored and hashed."""
        plain: dict[str, Any] = {}
        for each in fields(self):
            part = getattr(self, each.name)
            if isinstance(part, Data | Study):  # with keys of their own
                plain[each.name] = part.to_dict()
            else:
                plain[each.name] = asdict(part) if is_dataclass(part) and not isinstance(part, type) else part
        return plain

    def __hash__(self) -> int:
        return hash(config_hash(self.to_dict()))


def parse_study(stored: Mapping[str, Any]) -> StudyPlan:
    """A study's plan from plain keys."""
    return configure(StudyPlan, read_sections(stored), "config")


def read_sections(stored: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a plan with `data` and `lag` read, whose keys are of several dataclasses each."""
    plain = dict(stored)
    if "data" in plain:
        plain["data"] = Data.configure(as_mapping(plain["data"], "data"))
    if "lag" in plain:
        lag = dict(as_mapping(plain["lag"], "lag"))
        if isinstance(lag.get("lookback"), str) and not is_span(lag["lookback"]):
            lag["agent"] = lag.pop("lookback")
        plain["lag"] = configure_study(lag)
    return plain


def as_mapping(value: object, where: str) -> Mapping[str, Any]:
    """The keys of a section; refuses what has none."""
    if not isinstance(value, Mapping):
        raise ConfigError(f"{where}={value!r} must be a mapping, e.g. {{key: value}}")
    return value


_shared: ContextVar[tuple[Data, Panel] | None] = ContextVar("shared panel", default=None)


@contextmanager
def share_panel(data: Data, panel: Panel) -> Iterator[None]:
    """Let every plan of the same data have the panel that was read already, as long as a job is at work."""
    token = _shared.set((data, panel))
    try:
        yield
    finally:
        _shared.reset(token)


def build_panel(plan: StudyPlan) -> Panel:
    """The checked panel that a plan asks for; refuses symbols to trade that it lacks."""
    shared = _shared.get()
    panel = shared[1] if shared is not None and shared[0] == plan.data else plan.data.load()
    missing = [symbol for symbol in plan.symbols if symbol not in panel.symbols]
    if missing:
        raise ConfigError(
            f"the data have no {', '.join(missing)}{did_you_mean(missing[0], panel.symbols)}; name others by "
            "task.symbols, [] for all of them"
        )
    return panel
