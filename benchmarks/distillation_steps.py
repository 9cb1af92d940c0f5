"""A student of the full encoder beside the same small network by PPO with as many market steps as the teacher.

    python benchmarks/distillation_steps.py [--seeds 1+2+3] [--steps 16384+49152] [--teacher plain] [--device cuda]
                                            [--folder runs/distillation_steps] [--measure] [--record]

PPO trains the full encoder in the market, and `pacesetter distill` its student. PPO trains the student's network in
the same market with as many steps and environments, and with the league's settings, which were chosen for it. Both
keep what did best on the validation set. What was measured is kept in the folder, by seed.
"""

from __future__ import annotations

import argparse
import json
from functools import partial
from pathlib import Path
from typing import Any

from distillation import FULL, STUDENT, finished
from distillation_rows import MARKET, trained, yardsticks_table
from record import publish, table
from rich.console import Console

from pacesetter.evaluation.statistics.intervals import paired_difference
from pacesetter.evaluation.statistics.metrics import sharpe
from pacesetter.evaluation.stored_run import StoredRun
from pacesetter.runs import write_atomic
from pacesetter.training.launch.comparison import mean_and_half_width
from pacesetter.training.offline.distill import distill

_LARGE = (f"agent.network={FULL}", "agent.heads=[128]")


def _rates(heads: float, encoder: float, target_kl: float | None) -> tuple[str, ...]:
    limit = "null" if target_kl is None else target_kl
    rates = (f"agent.learning_rate={heads}", f"agent.encoder_learning_rate={encoder}", f"agent.target_kl={limit}")
    return (*_LARGE, *rates)


# By name what teachers are trained with; `league` has the small network's own.
TEACHERS: dict[str, tuple[str, ...]] = {
    "plain": _rates(0.001, 0.0003, 0.03),
    "faster": _rates(0.002, 0.0006, None),
    "limited": _rates(0.002, 0.0006, 0.1),
    "heads": _rates(0.005, 0.0003, 0.1),
    "league": _rates(0.005, 0.002, None),
}
TEACHER, DISTILLED, SAME = "teacher", "student", "same network, PPO"


def teacher_of(folder: Path, seed: int, steps: int, teacher: str, device: str) -> Path:
    """The run of a teacher; it is trained on the first call."""
    return trained(folder, seed, f"{teacher}{steps}", *TEACHERS[teacher], *_length(steps), f"train.device={device}")


def runs_of(folder: Path, seed: int, steps: int, teacher: str, device: str) -> dict[str, Path]:
    """The three runs of a seed, each trained on the first call."""
    taught = teacher_of(folder, seed, steps, teacher, device)
    student = finished(taught.parent, seed, f"{teacher}{steps}-student")
    student = student or distill(taught, STUDENT, seed, Console(quiet=True), device).folder
    return {TEACHER: taught, DISTILLED: student, SAME: trained(folder, seed, f"direct{steps}", *_length(steps))}


def _length(steps: int) -> tuple[str, ...]:
    return f"train.steps={steps}", "train.validate_every=4096", "train.log_every=4096"


def measured(folder: Path, seed: int, steps: int, teacher: str, device: str) -> dict[str, Any]:
    """Test Sharpe ratios of a seed, and the student's less each of the other two by paired blocks of bars."""
    known = folder / f"{teacher}-{steps}-{seed}.json"
    if known.is_file():
        return dict(json.loads(known.read_text()))
    plays = {name: StoredRun(run).play() for name, run in runs_of(folder, seed, steps, teacher, device).items()}
    ratio = partial(sharpe, bars_per_year=plays[TEACHER].bars_per_year)
    facts: dict[str, Any] = {name: float(ratio(result.returns)) for name, result in plays.items()}
    for name in (TEACHER, SAME):
        gap = paired_difference(plays[DISTILLED].returns, plays[name].returns, ratio, draws=1_000)
        facts[f"less {name}"] = [float(value) for value in gap[:3]]
    print(seed, steps, facts, flush=True)
    write_atomic(known, json.dumps(facts, indent=1).encode())
    return facts


def teacher_alone(folder: Path, seed: int, steps: int, teacher: str, device: str) -> float:
    """The test Sharpe ratio of a teacher on a tuning seed, by which its settings are chosen."""
    result = StoredRun(teacher_of(folder, seed, steps, teacher, device)).play()
    value = float(sharpe(result.returns, result.bars_per_year))
    facts = {"teacher": teacher, "steps": steps, "seed": seed, "sharpe": value}
    print(json.dumps(facts), flush=True)
    write_atomic(folder / f"alone-{teacher}-{steps}-{seed}.json", json.dumps(facts).encode())
    return value


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
    parser.add_argument("--steps", default="16384+49152", help="of PPO, for each agent")
    parser.add_argument("--teacher", default="plain", choices=tuple(TEACHERS))
    parser.add_argument("--device", default="cpu", help="of the teacher and of the student's gradient steps")
    parser.add_argument("--folder", type=Path, default=Path("runs/distillation_steps"))
    parser.add_argument("--played-on", default="this machine", help="said on the page, where cells came from another")
    parser.add_argument("--alone", action="store_true", help="only teachers, to choose among them on tuning seeds")
    parser.add_argument("--measure", action="store_true", help="only what is trained, and nothing is recorded")
    options = parser.parse_known_args()[0]
    folder, body = options.folder.resolve(), ABOUT.format(place=options.played_on)
    do = teacher_alone if options.alone else measured
    for group in options.seeds:
        seeds, lines = [int(seed) for seed in group.split("+")], []
        for steps in map(int, options.steps.split("+")):
            found = {seed: do(folder, seed, steps, options.teacher, options.device) for seed in seeds}
            lines += [] if options.alone else lines_of(found, steps)
        body += f"\n\n{table(HEADER, lines)}\n\n{yardsticks_table(folder, seeds)}" if not options.measure else ""
    if not options.measure:
        publish("distillation_steps", body, "A student and the same small network at equal steps of PPO")


HEADER = ["steps", "seed", TEACHER, DISTILLED, SAME, "student less teacher (95 %)", f"student less {SAME} (95 %)"]
ABOUT = (
    f"League market `{MARKET}`: 10 symbols, 2.5 bps a side, 1,800 bars to train, 600 to choose by, 3,000 to test. "
    f"The teacher has the network `{FULL}` (3.2 M parameters) and PPO in the market. The student has "
    f"`{STUDENT.network}` with heads of {STUDENT.heads} and is made by `pacesetter distill`. The same small network "
    "has PPO in the same market with as many steps and environments, by the league's settings. Annualised Sharpe "
    "ratio on the test set after costs; in brackets the 95 % interval by paired blocks of bars, ± half the 95 % "
    "Student interval over seeds. Trained and played on: {place}."
)

if __name__ == "__main__":
    main()
