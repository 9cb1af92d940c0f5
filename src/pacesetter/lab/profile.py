"""`pacesetter lab profile`: a short training run, a flame graph of its calls, and what each component takes."""

from __future__ import annotations

import cProfile
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TypeVar

from rich.console import Console

from pacesetter.cells import Table
from pacesetter.errors import RunError
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.jobs.run.train import train
from pacesetter.runs import Run, write_atomic

__all__ = ["ProfileResult", "TimeShare", "components", "profile"]

SHORT = ("name=profile", "train.steps=8192", "train.log_every=1024")
Value = TypeVar("Value")


@dataclass(frozen=True)
class TimeShare:
    """A part of learning: seconds in all, their share, and microseconds per environment step."""

    name: str
    seconds: float
    share: float
    step_us: float


@dataclass(frozen=True)
class ProfileResult:
    """The profiled run, the file with its calls, and its components; `components.json` in the folder has them too."""

    run: Run
    calls: Path
    components: tuple[TimeShare, ...]


def profile(overrides: Sequence[str] = (), *, console: Console | None = None) -> ProfileResult:
    """Train under a profiler, 8,192 steps unless the overrides say otherwise."""
    console = console or Console()
    config = resolve([*SHORT, *overrides])
    result, write_calls = _watch_calls(lambda: train(config, console=console))
    calls, parts = write_calls(result.run), components(result.run)
    result.run.write_json("components.json", [asdict(part) for part in parts])
    console.print(_table(parts))
    if calls.suffix != ".html":
        console.print("A flame graph needs pyinstrument: pip install pyinstrument, then profile again.")
    console.print(f"Calls: {calls}", soft_wrap=True)
    return ProfileResult(result.run, calls, parts)


def components(run: Run) -> tuple[TimeShare, ...]:
    """What environment, policy and update took up to the last line of metrics.jsonl; refuses a run without one."""
    path = run.folder / "metrics.jsonl"
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.is_file() else []
    timed = [line for line in lines if line.get("seconds") and line["step"]]
    if not timed:
        raise RunError(f"{run.folder} ended before the first rollout was measured; raise train.steps")
    # Components add up over the run: the last line has all of it.
    seconds, step = timed[-1]["seconds"], timed[-1]["step"]
    total = sum(seconds.values())
    return tuple(TimeShare(name, spent, spent / total, 1e6 * spent / step) for name, spent in seconds.items())


def _watch_calls(work: Callable[[], Value]) -> tuple[Value, Callable[[Run], Path]]:
    """What `work` gives, and a function that writes its calls into a run folder."""
    if find_spec("pyinstrument") is None:
        return _count_calls(work)
    from pyinstrument import Profiler

    # Training has no coroutines; following contexts would only slow the sampling.
    sampler = Profiler(async_mode="disabled")
    with sampler:
        value = work()
    return value, lambda run: write_atomic(run.path("profile.html"), sampler.output_html())


def _count_calls(work: Callable[[], Value]) -> tuple[Value, Callable[[Run], Path]]:
    """The same with Python's own profiler, whose file `python -m pstats` reads."""
    counter = cProfile.Profile()
    value = counter.runcall(work)

    def write(run: Run) -> Path:
        path = run.path("profile.pstats")
        counter.dump_stats(path)
        return path

    return value, write


def _table(parts: Sequence[TimeShare]) -> Table:
    rows = [(part.name, f"{part.seconds:.2f}", f"{part.share:.0%}", f"{part.step_us:.1f}") for part in parts]
    return Table(("component", "seconds", "share", "µs per step"), rows, "Time of learning")
