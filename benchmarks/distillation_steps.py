"""A student of the full encoder beside the same small network by PPO with as many market steps as the teacher.

    python benchmarks/distillation_steps.py [--seeds 1+2+3] [--steps 49152] [--teacher faster] [--device cuda]
                                            [--folder runs/distillation_steps] [--measure teacher,student] [--record]

PPO trains the full encoder in the market, and `pacesetter distill` its student. PPO trains the student's network in
the same market with as many steps and environments, and with the league's settings, which were chosen for it. Both
keep what did best on the validation set. Returns on the test set are kept in the folder, by seed.
"""

from __future__ import annotations

import argparse
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from distillation import FULL, STUDENT, finished
from distillation_rows import MARKET, trained, yardsticks_table
from numpy.typing import NDArray
from record import publish, table
from rich.console import Console

from pacesetter.evaluation.statistics.intervals import paired_difference
from pacesetter.evaluation.statistics.metrics import sharpe
from pacesetter.evaluation.stored_run import StoredRun
from pacesetter.jobs.launch.comparison import mean_and_half_width
from pacesetter.methods.offline.distill import distill

Array = NDArray[Any]
_LARGE = (f"agent.network={FULL}", "agent.heads=[128]")


def _rates(heads: float, encoder: float, target_kl: float | None) -> tuple[str, ...]:
    limit = "null" if target_kl is None else target_kl
    rates = (f"agent.learning_rate={heads}", f"agent.encoder_learning_rate={encoder}", f"agent.target_kl={limit}")
    return (*_LARGE, *rates)


# By name what teachers are trained with: smaller rates than the league's for a larger network. `faster` was chosen on
# seeds 1 to 3; `limited` had 2.72 and 3.26 on seed 1 at 16,384 and 49,152 steps, `faster` 2.99 and 3.68.
TEACHERS: dict[str, tuple[str, ...]] = {
    "plain": _rates(0.001, 0.0003, 0.03),
    "faster": _rates(0.002, 0.0006, None),
    "limited": _rates(0.002, 0.0006, 0.1),
}
PARTS = TEACHER, DISTILLED, SAME = "teacher", "student", "same network, PPO"
FILES = {TEACHER: "{teacher}", DISTILLED: "{teacher}-student", SAME: "direct"}


def run_of(folder: Path, seed: int, steps: int, part: str, teacher: str, device: str) -> Path:
    """The run of the teacher, of its student, or of the same network; it is trained on the first call."""
    length = (f"train.steps={steps}", "train.validate_every=4096", "train.log_every=4096")
    if part == SAME:
        return trained(folder, seed, f"direct{steps}", *length)
    taught = trained(folder, seed, f"{teacher}{steps}", *TEACHERS[teacher], *length, f"train.device={device}")
    if part == TEACHER:
        return taught
    known = finished(taught.parent, seed, f"{teacher}{steps}-student")
    return known or distill(taught, STUDENT, seed, Console(quiet=True), device).folder


def returns_of(folder: Path, seed: int, steps: int, part: str, teacher: str, device: str) -> tuple[Array, float]:
    """(bar,) returns on the test set and bars of a year; kept, so that parts can come from several machines."""
    known = folder / "returns" / f"{FILES[part].format(teacher=teacher)}-{steps}-{seed}.npz"
    if not known.is_file():
        result = StoredRun(run_of(folder, seed, steps, part, teacher, device)).play()
        known.parent.mkdir(parents=True, exist_ok=True)
        np.savez(known, returns=result.returns, bars_per_year=result.bars_per_year)
        print(known.stem, f"{sharpe(result.returns, result.bars_per_year):+.3f}", flush=True)
    with np.load(known) as stored:
        return stored["returns"], float(stored["bars_per_year"])


def measured(folder: Path, seed: int, steps: int, teacher: str, device: str) -> dict[str, Any]:
    """Test Sharpe ratios of a seed, and the student's less each of the other two by paired blocks of bars."""
    plays = {part: returns_of(folder, seed, steps, part, teacher, device) for part in PARTS}
    ratio = partial(sharpe, bars_per_year=plays[TEACHER][1])
    facts: dict[str, Any] = {part: float(ratio(returns)) for part, (returns, _) in plays.items()}
    for part in (TEACHER, SAME):
        gap = paired_difference(plays[DISTILLED][0], plays[part][0], ratio, draws=1_000)
        facts[f"less {part}"] = [float(value) for value in gap[:3]]
    return facts


def lines_of(found: dict[int, dict[str, Any]], steps: int) -> list[list[str]]:
    """One line of each seed, and means with Student intervals over seeds."""
    lines = []
    for seed, facts in found.items():
        gaps = (_interval(facts[f"less {name}"]) for name in (TEACHER, SAME))
        lines.append([f"{steps:,}", str(seed), *(f"{facts[name]:+.2f}" for name in (TEACHER, DISTILLED, SAME)), *gaps])
    if len(found) > 1:
        means = []
        for name in (TEACHER, SAME):
            mean, half = mean_and_half_width([facts[DISTILLED] - facts[name] for facts in found.values()])
            means.append(f"{mean:+.2f} ± {half:.2f}")
        own = [sum(facts[name] for facts in found.values()) / len(found) for name in (TEACHER, DISTILLED, SAME)]
        lines.append([f"{steps:,}", "mean", *(f"{value:+.2f}" for value in own), *means])
    return lines


def _interval(gap: list[float]) -> str:
    value, low, high = gap
    return f"{value:+.2f} ({low:+.2f} … {high:+.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", nargs="+", default=["1+2+3"], help="a table for each group, such as 1+2+3")
    parser.add_argument("--steps", default="49152", help="of PPO, for each agent")
    parser.add_argument("--teacher", default="faster", choices=tuple(TEACHERS))
    parser.add_argument("--device", default="cpu", help="of the teacher and of the student's gradient steps")
    parser.add_argument("--folder", type=Path, default=Path("runs/distillation_steps"))
    parser.add_argument(
        "--played-on", default="this machine", help="that teacher and student came from, said on the page"
    )
    parser.add_argument("--measure", default="", help="only train and play these parts: teacher,student,direct")
    options = parser.parse_known_args()[0]
    folder, groups = options.folder.resolve(), [[int(seed) for seed in group.split("+")] for group in options.seeds]
    chosen, lengths = (options.teacher, options.device), [int(steps) for steps in options.steps.split("+")]
    if options.measure:
        for word, steps, seeds in product(options.measure.split(","), lengths, groups):
            for seed in seeds:
                returns_of(folder, seed, steps, SAME if word == "direct" else word, *chosen)
        return
    body = ABOUT.format(place=options.played_on)
    for seeds in groups:
        lines = []
        for steps in lengths:
            lines += lines_of({seed: measured(folder, seed, steps, *chosen) for seed in seeds}, steps)
        body += f"\n\n{table(HEADER, lines)}\n\n{yardsticks_table(folder, seeds)}"
    publish("distillation_steps", body, "A student and the same small network at equal steps of PPO")


HEADER = ["steps", "seed", TEACHER, DISTILLED, SAME, "student less teacher (95 %)", f"student less {SAME} (95 %)"]
ABOUT = (
    f"League market `{MARKET}`: 10 symbols, 2.5 bps a side, 1,800 bars to train, 600 to choose by, 3,000 to test. "
    f"The teacher has the network `{FULL}` (3.2 M parameters) and PPO in the market. The student has "
    f"`{STUDENT.network}` with heads of {STUDENT.heads} and is made by `pacesetter distill`. The same small network "
    "has PPO in the same market with as many steps and environments, by the league's settings. Annualised Sharpe "
    "ratio on the test set after costs; in brackets the 95 % interval by paired blocks of bars, ± half the 95 % "
    "Student interval over seeds. Teacher and student: {place}."
)

if __name__ == "__main__":
    main()
