"""ES, the hybrid and IMPALA beside PPO and SAC of a fleet, on the league's planted market beside its yardsticks.

    python benchmarks/fleet_methods.py [--seeds 1+2] [--folder runs/fleet_methods] [--methods es,sac] [--record]

Cells are those of `pacesetter lab league`, kept by configuration and data. All methods but ES have the same samples.
Time is that of the processor, since the machine may be shared; to 80 % is to 80 % of PPO's last validation score.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from record import publish, table

from pacesetter.build import read_plan
from pacesetter.lab.league.cell import Cell, Score, play_cell
from pacesetter.lab.league.ladder import ENTRANTS, MARKETS
from pacesetter.runs import Run

MARKET, MOST = "planted 0.4", 0.8
ABOUT = (
    "League market `planted 0.4`: 10 symbols, 2.5 bps a side, 1,800 bars to train, 600 to choose by, 3,000 to test. "
    "Annualised Sharpe ratio on the test set after costs, all agents in one account; tuning seeds, on which settings "
    "were chosen. Every learner has the network `mlp_tiny`, sees `leadlag_expected`, and uses `task.action=target`."
)
YARDSTICKS = ("oracle", "lasso", "ridge", "hold")
METHODS = {
    "ppo": ENTRANTS["ppo_fleet"],
    "impala": ENTRANTS["impala"],
    "sac": ENTRANTS["sac_fleet"],
    "es": (*ENTRANTS["es"], "train.log_every=81920"),
    "hybrid": ENTRANTS["hybrid"],
}


def cells(options: argparse.Namespace, seed: int) -> list[Cell]:
    folder, market = str(Path(options.folder).resolve()), MARKETS[MARKET]
    chosen = {name: METHODS[name] for name in options.methods.split(",")}
    learners = [Cell(folder, MARKET, name, seed, market, own) for name, own in chosen.items()]
    return [*(Cell(folder, MARKET, name, seed, market, None) for name in YARDSTICKS), *learners]


class Course(NamedTuple):
    """(validation,) steps, processor seconds and scores of a run, and the largest of its logged figures by name."""

    steps: list[int]
    seconds: list[float]
    scores: list[float]
    figures: dict[str, float]

    @property
    def rate(self) -> float:
        """Steps of each agent in a second, between the first validation and the last: those before it also compile."""
        return (self.steps[-1] - self.steps[0]) / max(self.seconds[-1] - self.seconds[0], 1e-9)

    def until(self, score: float) -> tuple[float, float]:
        """Steps until a validation reached the score, and what they take at this rate; NaN where none did."""
        reached = [step for step, own in zip(self.steps, self.scores, strict=True) if own >= score]
        return (reached[0], reached[0] / self.rate) if reached else (float("nan"), float("nan"))


def course_of(cell: Cell) -> Course:
    """What the latest run of a cell logged."""
    wanted = (cell.config.agent.algorithm, cell.seed)
    for folder in sorted((path.parent for path in Path(cell.folder, "runs").glob("*/config.yaml")), reverse=True):
        config = read_plan(Run.open(folder))
        if (config.agent.algorithm, config.seed) == wanted:
            return _read(folder)
    raise FileNotFoundError(f"no run of {wanted} in {cell.folder}; remove its cells and run again")


def _read(folder: Path) -> Course:
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    spent = {line["step"]: line["resources"]["processor_seconds"] for line in lines if "resources" in line}
    scores = {line["step"]: line["validation"]["score"] for line in lines if "score" in line.get("validation", {})}
    figures: dict[str, float] = {}
    for line in lines:
        for name, value in line.items():
            if "/" in name and isinstance(value, float):
                figures[name] = max(figures.get(name, -np.inf), abs(value))
    steps = [step for step in scores if step in spent]
    return Course(steps, [spent[step] for step in steps], [scores[step] for step in steps], figures)


# ---- tables ---------------------------------------------------------------------------------------------------------


def score_rows(scores: list[Score], seeds: list[int]) -> list[list[Any]]:
    rows = []
    mean = {
        name: float(np.mean([one.sharpe for one in scores if one.entrant == name]))
        for name in dict.fromkeys(score.entrant for score in scores)
    }
    for name, average in mean.items():
        own = [one for one in scores if one.entrant == name]
        share = f"{average / mean['sac']:.0%}" if "sac" in mean and name in METHODS else ""
        steps = f"{own[0].steps:,}" if own[0].steps else ""
        rows.append([name, *(f"{one.sharpe:+.2f}" for one in own), f"{average:+.2f}", share, steps])
    return rows


def speed_rows(options: argparse.Namespace, seeds: list[int]) -> list[list[Any]]:
    """Validation scores at the end, and steps and processor seconds until 80 % of PPO's."""
    found = {
        seed: {cell.entrant: course_of(cell) for cell in cells(options, seed) if cell.overrides is not None}
        for seed in seeds
    }
    rows = []
    for name in options.methods.split(","):
        for seed in seeds:
            course, ppo = found[seed][name], found[seed].get("ppo")
            steps, seconds = course.until(MOST * ppo.scores[-1]) if ppo else (float("nan"), float("nan"))
            last = f"{course.scores[-1]:+.2f} ({min(course.scores):+.2f} … {max(course.scores):+.2f})"
            to = ["–" if np.isnan(value) else f"{value:,.0f}" for value in (steps, seconds)]
            rows.append([name, seed, last, *to, 10 * course.rate])
    return rows


def trace_rows(options: argparse.Namespace, seeds: list[int]) -> list[list[Any]]:
    """The largest figures of V-trace over IMPALA's rounds that were logged."""
    names = (
        "vtrace/advantage_mean",
        "vtrace/advantage_std",
        "vtrace/rho_mean",
        "vtrace/clipped_share",
        "impala/policy_lag",
    )
    rows = []
    for seed in seeds:
        impala = next((cell for cell in cells(options, seed) if cell.entrant == "impala"), None)
        if impala is not None:
            figures = course_of(impala).figures
            rows.append([seed, *(figures.get(name, float("nan")) for name in names)])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="1+2")
    parser.add_argument("--folder", default="runs/fleet_methods")
    parser.add_argument("--methods", default=",".join(METHODS))
    options = parser.parse_known_args()[0]
    seeds = [int(seed) for seed in options.seeds.split("+")]
    scores: list[Score] = []
    for seed in seeds:
        for cell in cells(options, seed):
            scores.append(play_cell(cell))
            last = scores[-1]
            print(last.entrant, seed, f"{last.sharpe:+.2f}", last.steps, f"{last.seconds:.0f} s", flush=True)
    body = ABOUT + "\n\n"
    body += table(
        ["entrant", *(f"seed {seed}" for seed in seeds), "mean", "of SAC's", "steps of each agent"],
        score_rows(scores, seeds),
    )
    header = ["method", "seed", "validation score, last (least … most)", "steps to 80 % of PPO's", "processor s to it"]
    body += "\n\n" + table([*header, "agent steps / processor s"], speed_rows(options, seeds))
    header = ["seed", "advantage mean, most", "advantage std, most", "ρ mean, most", "clipped share, most", "lag"]
    body += "\n\nIMPALA, over the rounds that were logged:\n\n" + table(header, trace_rows(options, seeds))
    publish("fleet_methods", body, "ES, the hybrid and IMPALA beside PPO and SAC of a fleet")


if __name__ == "__main__":
    main()
