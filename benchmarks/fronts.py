"""One network for a whole front beside a network for each of its points: MO-SAC and SAC where money and risk conflict.

    python benchmarks/fronts.py --seeds 421 422 423 --folder fronts [--record]

Fleets of six symbols on two worlds of the league. Objectives are `pnl` and `variance`. MO-SAC trains one network for
all weights; SAC trains one for each of the same weights, its reward weighed as MO-SAC weighs the values of its critics:
by the weights over the deviations of the objectives. Networks are those at the end of training, nothing is chosen by a
validation set. All are played on the test set, each symbol in an account of its own; a point is the mean over symbols,
a year. Hypervolumes are above cash and below the largest variance of all, as shares of the box to the most
money of all without variance. Seeds whose line is in the folder are not played again.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from cures import last_of_each
from record import publish, table
from scipy.stats import t as student

from pacesetter.arrays import Array
from pacesetter.build import build_fold, build_learner, build_panel, build_parts, build_table
from pacesetter.build.fleet import build_market
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.lab.league.ladder import MARKETS
from pacesetter.learning.fleet.validation import play
from pacesetter.methods.objectives.front import hypervolume, is_efficient

OBJECTIVES = ("pnl", "variance")
# Of the variance. In deviations of what agents try at first it is large: even a weight of 0.5 holds next to nothing.
RISK_WEIGHTS = (0.0, 0.03, 0.1, 0.25, 0.5)
WEIGHTS = np.array([[1.0 - weight, weight] for weight in RISK_WEIGHTS])  # (point, objective)
STEPS = 12_288  # of each symbol, of one network
QUIET = ("track.mlflow=off", "track.tensorboard=off", "track.progress=false", "train.checkpoint_every=0")
FLEET = (
    *("task=fleet", "task.action=target", "task.retrain_share=0", "data.symbols=6", "train.envs=32", *QUIET),
    *("agent.network=mlp_tiny", "agent.heads=[32]", "agent.learning_rate=0.003", "agent.encoder_learning_rate=0.003"),
    *("agent.gamma=0.3", "agent.batch_size=256", "agent.learning_starts=1024", "agent.tau=0.02"),
)
WORLDS: dict[str, tuple[str, ...]] = {
    "cushion": (*MARKETS["cushion"], "features.leadlag.lookback=null"),  # a drift, which no other symbol tells
    # Four times the response, as the league's `cushion` has: of the recorded one no network earned more than its costs.
    # The best hold hundredths of equity, since trades move the price, so that orders span a tenth.
    "decay": (*MARKETS["decay"], "data.difficulty=0.25", "task.market.limits.position_cap_fraction=0.1"),
}
LEARNING: dict[str, tuple[str, ...]] = {"decay": ("agent.gamma=0.8", "agent.gradient_steps=4")}
MOSAC = ("agent=mosac", "agent.objectives={pnl:0.5,variance:0.5}", f"agent.preferences={len(WEIGHTS) + 1}")
WHO = {"SAC": "SAC, a network a point", "one": "MO-SAC, samples of one", "all": "MO-SAC, samples of all"}


class World:
    """One world with one seed: what is learned in, and the bars of the test set."""

    def __init__(self, name: str, seed: int, more: Sequence[str] = ()) -> None:
        self.overrides = [*WORLDS[name], *FLEET, *LEARNING.get(name, ()), *more, f"seed={seed}"]
        config = resolve(last_of_each(["agent=sac", *self.overrides]))
        self.panel = build_panel(config)
        self.table = build_table(config, self.panel)
        self.first = int(build_fold(config, self.panel).test[0])

    def train(self, agent: str, *own: str, steps: int = STEPS) -> Network:
        """A fleet trained with these overrides."""
        config = resolve(last_of_each([agent, *self.overrides, *own, f"train.steps={steps}"]))
        learner: Any = build_learner(config, build_parts(config, self.panel))
        learner.learn(steps)
        test: Any = {"table": self.table, "supervised": None, "starts": "fixed", "first_bar": self.first}
        (market,) = config.problem.with_entries(build_market(config, self.panel, 1, **test))
        return Network(learner, market)


class Network:
    """A trained fleet and the test market that it is played in."""

    def __init__(self, learner: Any, market: Any) -> None:
        self.learner, self.market = learner, market

    def point(self, weights: Array | None = None) -> list[float]:
        """Money and less variance, a year, mean over symbols; for these weights where it takes any."""
        if weights is not None:
            self.market.asked = torch.as_tensor(weights, dtype=torch.float32)
        played = play(self.learner.fleet, self.market)
        r = torch.log1p(played.returns.double().clamp(min=-0.999))
        return [float(r.nanmean() * played.bars_per_year), -float(r.square().nanmean() * played.bars_per_year)]

    def factors(self) -> Array:
        """(objective,) one over the deviation that MO-SAC scales each objective by, mean over symbols."""
        variance = self.learner.method.objective_scale.variance.view(len(OBJECTIVES), -1)
        return np.asarray(variance.sqrt().clamp(min=1e-8).reciprocal().mean(1))


def play_seed(name: str, seed: int, more: Sequence[str] = ()) -> dict[str, Any]:
    """The points of all on one world with one seed."""
    start, world = time.process_time(), World(name, seed, more)
    one = world.train(*MOSAC)
    factors = one.factors()
    points = {"one": [one.point(weights) for weights in WEIGHTS], "SAC": []}
    for weights in WEIGHTS:
        money, risk = weights * factors
        own = (f"task.reward.components.pnl={money}", f"+task.reward.components.variance={risk}")
        points["SAC"].append(world.train("agent=sac", *own).point())
    many = world.train(*MOSAC, steps=len(WEIGHTS) * STEPS)
    points["all"] = [many.point(weights) for weights in WEIGHTS]
    return {"world": name, "seed": seed, "factors": factors.tolist(), "cpu": time.process_time() - start} | points


def shares(line: dict[str, Any]) -> dict[str, float]:
    """Hypervolume of each front, as a share of the box."""
    points = {who: np.array(line[who]) for who in WHO}
    every = np.concatenate(list(points.values()))
    worst, best = np.array([0.0, every[:, 1].min()]), np.array([every[:, 0].max(), 0.0])
    box = float(np.prod(best - worst))
    return {who: hypervolume(own, worst) / box for who, own in points.items()}


def interval(values: Sequence[float]) -> str:
    """Mean ± half of the 95 % Student interval."""
    gaps = np.asarray(values)
    if len(gaps) < 2:
        return f"{gaps.mean():+.2f}"
    half = student.ppf(0.975, len(gaps) - 1) * gaps.std(ddof=1) / len(gaps) ** 0.5
    return f"{gaps.mean():+.2f} ± {half:.2f} ({len(gaps)})"


def body(lines: Sequence[dict[str, Any]]) -> str:
    """A table of hypervolumes and one of points, of each world."""
    parts = []
    for world in dict.fromkeys(line["world"] for line in lines):
        own = [line for line in lines if line["world"] == world]
        volumes = [shares(line) for line in own]
        seeds = [f"{line['seed']}" for line in own]
        rows = [
            [
                text,
                *(f"{volume[who]:.2f}" for volume in volumes),
                "" if who == "SAC" else interval([volume[who] - volume["SAC"] for volume in volumes]),
                ", ".join(f"{is_efficient(line[who]).sum()}" for line in own),
            ]
            for who, text in WHO.items()
        ]
        header = ["networks", *(f"hypervolume, {seed}" for seed in seeds), "less SAC", "points not beaten by its own"]
        parts += [f"## {world}", table(header, rows)]
        rows = []
        for place, weight in enumerate(RISK_WEIGHTS):
            means = [np.mean([line[who][place] for line in own], axis=0) for who in WHO]
            rows.append([f"{weight:.2f}", *(f"{money:+.3f}, {(-risk) ** 0.5:.1%}" for money, risk in means)])
        parts.append(table(["weight of variance", *WHO.values()], rows))
    return "\n\n".join(parts)


ABOUT = (
    f"Fleets of six symbols, networks of {STEPS:,} steps of each symbol; *samples of all*: {len(WEIGHTS)} times as "
    "many, as those of SAC's networks together. Hypervolume above cash and below the largest variance of all, as a "
    "share of the box to the most money of all without variance. Points: log growth a year, and annualised volatility; "
    "test set, each symbol in an account of its own, mean over symbols and seeds. ± is the 95 % Student "
    "interval of paired differences, with the number of seeds."
)


def main() -> None:
    """Play all, print, and record where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--worlds", nargs="+", default=list(WORLDS), choices=list(WORLDS))
    parser.add_argument("--folder", type=Path, default=Path("fronts"))
    options = parser.parse_known_args()[0]
    options.folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for name in options.worlds:
        for seed in options.seeds:
            path = options.folder / f"{name}-{seed}.json"
            if not path.is_file():
                path.write_text(json.dumps(play_seed(name, seed)) + "\n", encoding="utf-8")
            lines.append(json.loads(path.read_text(encoding="utf-8")))
            print(name, seed, {who: round(share, 3) for who, share in shares(lines[-1]).items()}, flush=True)
    publish("fronts", f"{ABOUT}\n\n{body(lines)}", "Fronts: one network beside a network for each point")


if __name__ == "__main__":
    main()
