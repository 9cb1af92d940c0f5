"""`train.seeds=5`: the same run with several seeds, their scores one by one, the mean and its interval."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from pacesetter.build import Plan
from pacesetter.cells import Table
from pacesetter.jobs.launch.comparison import LEVEL, mean_and_half_width
from pacesetter.jobs.launch.sweep import SweepResult, sweep

__all__ = ["same_data", "train_seeds"]


def train_seeds(overrides: Sequence[str], config: Plan, console: Console | None = None) -> SweepResult:
    """Train with every seed from `seed` on, on the same data; `config` is what the overrides resolve to."""
    console = console or Console()
    seeds = ",".join(str(config.seed + place) for place in range(config.train.seeds))
    result = sweep([*overrides, "train.seeds=1", *same_data(config), f"seed={seeds}"], console=console)
    console.print(_table(result))
    return result


def same_data(config: Plan) -> list[str]:
    """What keeps made-up data as it is while the seed of the run changes."""
    return [f"data.seed={config.data.options['seed']}"] if "seed" in config.data.options else []


def _table(result: SweepResult) -> Table:
    mean, half = mean_and_half_width(result.runs["score"])
    rows: list[tuple[object, ...]] = [
        (row["seed"], f"{row['score']:+.6f}", f"{row['steps']:,}", row["stopped"])
        for row in result.runs.to_dict("records")
    ]
    rows.append(("mean", f"{mean:+.6f} ± {half:.6f}", "", ""))
    return Table(("seed", "score", "steps", "stopped"), rows, f"Best validation score by seed ({LEVEL:.0%} interval)")
