"""Cures for agents that collapse: which illness each is for, what it gains there, and what it costs a healthy market.

    python benchmarks/cures.py --tune 1 2 3 --workers 2 --folder cures
    python benchmarks/cures.py --play 421 422 423 424 425 --workers 2 --folder cures [--record]

An illness is a market with the settings by which agents collapse there; a cure is what is added to them. Where a cure
has several recipes, the one with the best mean score on the tuning seeds is played on the others, at its illness and
on the healthy market. Each cell (illness, method, cure, recipe, seed) trains one fleet and leaves a file of JSON in
the folder: the same command resumes a stopped run. Figures are of the deterministic policy: gates on the validation
set, agent by agent, and the Sharpe ratio after costs of all agents in one account on the test set. Differences are to
the same agents without a cure, paired by seed.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
from goals import FreshBars
from record import publish, table
from rich.console import Console
from scipy.stats import t as student

from pacesetter.build import build_learner, build_panel, build_parts
from pacesetter.evaluation.stored_run import StoredRun
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.jobs.run.train import train
from pacesetter.lab.league.behaviour import behaviour
from pacesetter.lab.league.cell import Cell, play_cell
from pacesetter.lab.league.ladder import MARKETS
from pacesetter.learning.learner import Between

Overrides = tuple[str, ...]
STEPS = int(os.environ.get("CURES_STEPS", "32768"))  # of each agent; fewer to see whether all of it runs
QUIET = ("track.mlflow=off", "track.tensorboard=off", "track.progress=false")
FLEET = (
    *("task=fleet", "task.retrain_share=0", "train.checkpoint_every=0", "train.envs=32", f"train.steps={STEPS}"),
    *(f"train.validate_every={STEPS // 2}", f"train.log_every={STEPS}"),
    *("agent.network=mlp_tiny", "agent.heads=[32]", "data.symbols=6", "+preset=recovery"),
    # The curriculum chooses starts by the last two: all agents see them, so that nothing else is compared.
    "features.names=[return_1,volatility_20,regime_volatility_rank,regime_trend_efficiency]",
)
DISCRETE, CONTINUOUS, TARGET = "task.action=discrete", "task.action=continuous", "task.action=target"

# ---- illnesses ------------------------------------------------------------------------------------------------------

# As the programme had them: its rates, horizon and entropy; the network is one that learns in minutes.
METHODS: dict[str, Overrides] = {
    "ppo": (
        *("agent=ppo", "agent.learning_rate=3e-4", "agent.encoder_learning_rate=3e-4", "agent.gamma=0.99"),
        *("agent.gae_lambda=0.95", "agent.clip_range=0.2", "agent.ent_coef=0.01", "agent.n_steps=64"),
        *("agent.batch_size=256", "agent.n_epochs=10", "agent.target_kl=null", DISCRETE),
    ),
    "sac": (
        *("agent=sac", "agent.learning_rate=3e-4", "agent.encoder_learning_rate=3e-4", "agent.gamma=0.99"),
        *("agent.batch_size=256", "agent.learning_starts=1024", CONTINUOUS),
    ),
}
OTHERS = ("cost", "time", "differential_sharpe", "drawdown", "sizing")  # parts of the reward beside the money
SEVEN = (
    *("task.reward.components.pnl=0.40", "+task.reward.components.cost=0.15", "+task.reward.components.time=0.15"),
    *("+task.reward.components.differential_sharpe=0.05", "+task.reward.components.drawdown=0.10"),
    "+task.reward.components.sizing=0.05",
)
HEALTHY = "healthy"
ILLNESSES: dict[str, Overrides] = {
    HEALTHY: MARKETS["planted 0.4"],
    "paid at the end": (*MARKETS["planted 0.4"], "task.reward.paid=episode"),
    "high costs": MARKETS["persistent"],
    # 10 bps a side, as the programme has them.
    "seven parts": (*MARKETS["planted 0.4"], *SEVEN, "task.market.costs.commission_bps=8.5"),
    # No illness, but where options should gain.
    "regimes": MARKETS["regime"],
    "impact": MARKETS["impact"],
}
YARDSTICKS = ("oracle_sized", "lasso_sized", "hold")

# ---- cures ----------------------------------------------------------------------------------------------------------

MONEY = (*(f"task.reward.components.{name}=0" for name in OTHERS), "task.reward.components.pnl=300")
MV = (TARGET, "task.aversion=300")
LARGER = {  # larger steps, and a horizon of a few bars
    "ppo": (
        *("agent.learning_rate=0.005", "agent.encoder_learning_rate=0.002", "agent.gamma=0.5"),
        *("agent.gae_lambda=0.5", "agent.clip_range=0.3", "agent.n_steps=32", "agent.batch_size=1024"),
        "agent.n_epochs=5",
    ),
    "sac": (
        *("agent.learning_rate=0.003", "agent.encoder_learning_rate=0.003", "agent.gamma=0.3"),
        *("agent.gradient_steps=4", "agent.tau=0.02"),
    ),
}
# The larger steps alone: a payment at the end is beyond a horizon of a few bars.
FAR = ("agent.learning_rate=0.005", "agent.encoder_learning_rate=0.002", "agent.batch_size=1024", "agent.n_epochs=5")
NONE = "none"
# cure -> recipe -> what it adds; of both methods unless it says for which
CURES: dict[str, dict[str, Overrides]] = {
    NONE: {"": ()},
    "curiosity": {f"share {share}": (f"agent.extras.curiosity={{share:{share}}}",) for share in (0.1, 0.4)},
    "potential earned": {"": ("agent.extras.potential={kind:earned,weight:1.0,adaptive:false}",)},
    "larger steps, far": {"": ()},
    "potential earned, larger steps, far": {"": ()},
    "potential learned": {
        "adaptive": ("agent.extras.potential={kind:learned}",),
        "weight 1": ("agent.extras.potential={kind:learned,weight:1.0,adaptive:false,learning_rate:1e-3}",),
    },
    "entropy": {"": ()},
    "short episodes": {f"{bars} bars": (f"task.episode_bars={bars}",) for bars in (5, 20)},
    "curriculum": {kind: (f"task.curriculum={kind}",) for kind in ("five_stages", "adaptive")},
    "money alone": {"": MONEY},
    "larger steps": {"": ()},
    "span, mean–variance": {"": MV},
    "all of these": {"": ()},
    "prior": {"": (*MV, "agent.prior=direct", "agent.prior_reach=0.25")},
    "prior untrained": {"": (*MV, "agent.prior=direct", "agent.prior_reach=0.25", "train.steps=1")},
    "learned options": {
        f"{count}, deliberation {cost}, entropy {entropy}": (
            *("agent=option_critic", CONTINUOUS, f"agent.deliberation_cost={cost}", f"agent.count={count}"),
            f"agent.ent_coef={entropy}",
        )
        for count, cost, entropy in ((4, 0.1, 0.05), (4, 0.01, 0.01), (2, 0.1, 0.05), (2, 0.3, 0.2))
    },
    "written options": {"": ("agent=options_small", CONTINUOUS)},
    "options around a prior": {
        "": (
            *(*MV, "agent=option_critic", "agent.prior=direct", "agent.prior_reach=0.25", "agent.count=4"),
            *("agent.deliberation_cost=0.1", "agent.ent_coef=0.05"),
        )
    },
    "hindsight": {"": ("agent.hindsight={k:4,strategy:future}",)},
}
ENTROPY = {"ppo": {f"{x}": (f"agent.ent_coef={x}",) for x in (0.03, 0.1)}, "sac": {"0": ("agent.target_entropy=0",)}}
# Options and a prior that is not trained are the same whatever the method.
ONLY = {
    "hindsight": "sac",
    **dict.fromkeys(("learned options", "written options", "options around a prior", "prior untrained"), "ppo"),
}
SICK = ("paid at the end", "high costs", "seven parts")
ALONE = "prior untrained"
PRIORS = ("prior", ALONE)
# Illnesses and markets that a cure is played on.
AT: dict[str, tuple[str, ...]] = {
    NONE: tuple(ILLNESSES),
    "curiosity": (HEALTHY, "paid at the end"),
    "potential earned": ("paid at the end",),  # it is of what the end pays
    **dict.fromkeys(("larger steps, far", "potential earned, larger steps, far"), ("paid at the end",)),
    "potential learned": (),
    "entropy": ("paid at the end", "high costs"),
    "short episodes": (HEALTHY, "paid at the end"),
    "curriculum": ("high costs",),  # it begins without costs
    "money alone": ("seven parts",),
    "larger steps": (HEALTHY, "high costs"),
    "span, mean–variance": (HEALTHY, "high costs"),
    "all of these": (HEALTHY, "high costs", "seven parts", "regimes", "impact"),
    "learned options": (HEALTHY, "high costs", "regimes", "impact"),
    "written options": ("high costs",),
    "options around a prior": ("high costs", "impact"),
    "hindsight": (HEALTHY,),
    **dict.fromkeys(PRIORS, (HEALTHY, "high costs", "impact")),
}
# For time: SAC with the least that says whether it has the same illness and the same cure.
SAC = {NONE: (HEALTHY, "high costs"), "all of these": (HEALTHY, "high costs"), "hindsight": (HEALTHY,)}
WITH_MONEY = ("all of these", *PRIORS)  # where the reward is the illness, these ask for money


def recipes(illness: str, method: str, cure: str) -> dict[str, Overrides]:
    """Recipe -> overrides of a cure; none where it is not for that method or illness."""
    if method != ONLY.get(cure, method) or illness not in (AT[cure] if method == "ppo" else SAC.get(cure, ())):
        return {}
    own = {"entropy": ENTROPY[method], "larger steps": {"": LARGER[method]}}
    own["larger steps, far"] = {"": FAR}
    own["potential earned, larger steps, far"] = {"": (*CURES["potential earned"][""], *FAR)}
    own["all of these"] = {"": (*LARGER[method], *MV)}
    chosen = own.get(cure) or CURES[cure]
    if illness == "seven parts" and cure in WITH_MONEY:
        return {recipe: (*added, *MONEY) for recipe, added in chosen.items()}
    return chosen


@dataclass(frozen=True)
class Job:
    """One cell to be played, and the folder that its line is left in."""

    folder: str
    illness: str
    method: str
    cure: str
    recipe: str
    seed: int

    @property
    def path(self) -> Path:
        """The file of its line."""
        parts = (self.illness, self.method, self.cure, self.recipe, str(self.seed))
        return Path(self.folder) / "cells" / ("-".join(parts).replace(" ", "_").replace(",", "") + ".json")

    def overrides(self) -> list[str]:
        """Those of its run; of two of one key the later one counts."""
        cure = recipes(self.illness, self.method, self.cure)[self.recipe]
        method = () if any(text.startswith("agent=") for text in cure) else METHODS[self.method]
        return [*last_of_each([*ILLNESSES[self.illness], *method, *FLEET, *cure, *QUIET]), f"seed={self.seed}"]


def last_of_each(overrides: Iterable[str]) -> list[str]:
    """Overrides without those that a later one of the same key replaces; presets and removals stay."""
    kept: dict[str, str] = {}
    for text in overrides:
        key = text if text.startswith(("+preset", "~")) else text.split("=")[0].lstrip("+")
        added = "+" if kept.pop(key, text).startswith("+") and not text.startswith("+") else ""
        kept[key] = added + text
    return list(kept.values())


# ---- one cell -------------------------------------------------------------------------------------------------------

GATES = {  # column -> gate, mean over the agents of the deterministic policy
    "one order": "most used action",
    "fills": "trade rate",
    "round trips": "round trips per 1,000 steps",
    "states": "states visited",
}
CONSTANT = "Sharpe ratio above the best constant action"
OPTION_GATES = {
    "smallest option": "smallest option share",
    "largest option": "largest option share",
    "option bars": "mean option duration",
}


def play(job: Job) -> dict[str, Any]:
    """Play one cell and leave its line."""
    start, used = time.perf_counter(), time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        if job.method == "yardstick":
            market = tuple(last_of_each([*ILLNESSES[job.illness], "data.symbols=6", "+preset=recovery"]))
            score = play_cell(Cell(folder, job.illness, job.cure, job.seed, market, None))
            figures: dict[str, Any] = {"sharpe": score.sharpe, "traded": score.traded, "exposure": score.exposure}
        elif job.illness == GOALS:
            figures = goal_cell(job)
        else:
            figures = train_cell(job, folder)
    spent = {"seconds": time.perf_counter() - start, "processor_seconds": time.process_time() - used}
    line = {name: value for name, value in vars(job).items() if name != "folder"} | {"steps": STEPS} | figures | spent
    job.path.parent.mkdir(parents=True, exist_ok=True)
    job.path.write_text(json.dumps(line) + "\n", encoding="utf-8")
    return line


def train_cell(job: Job, runs: str) -> dict[str, Any]:
    """The figures of one fleet."""
    result = train(resolve([*job.overrides(), f"runs={runs}"]), console=Console(quiet=True))
    played = behaviour(StoredRun(result.run.folder).play())
    stored = json.loads((result.run.folder / "gates.json").read_text(encoding="utf-8"))
    agents = [agent["deterministic"] for agent in stored["agents"].values()]
    figures: dict[str, Any] = {"sharpe": played.sharpe, "traded": played.traded, "exposure": played.exposure}
    for column, name in GATES.items():
        values = [agent[name]["value"] for agent in agents if name in agent]
        figures[column] = float(np.mean(values)) if values else None
    applicable = [gate["passed"] for agent in agents for gate in agent.values() if gate["applicable"]]
    figures["gates"] = float(np.mean(applicable))
    figures["constant"] = float(np.mean([agent[CONSTANT]["passed"] for agent in agents]))
    figures["recovered"] = float(np.mean(list(stored["recovered"].values())))
    whole = stored["gates"]["deterministic"]
    return figures | {column: whole[name]["value"] for column, name in OPTION_GATES.items() if name in whole}


# ---- goals ----------------------------------------------------------------------------------------------------------

GOALS = "goals"  # hindsight is judged by goals that are reached, where they are in the agents' power and where not
KINDS = {
    **{
        f"exposure within {width:.1%}, paid at the goal": (
            f"kind:exposure,goal:0.05,cap:0.1,tolerance:{width},scale:{width}"
        )
        for width in (0.002, 0.005, 0.001)
    },
    "exposure, paid by distance": "kind:exposure,goal:0.05,cap:0.1,tolerance:0.005,scale:0.1",
    "return, paid by distance": "kind:return,goal:0.02,cap:0.04",
}
GOAL_STEPS = 2 * STEPS  # of each symbol; after half a STEPS all were still learning
LOOKS, FRESH_ENVS = 16, 64  # looks at the goals reached, evenly over the training, in so many episodes of each symbol
GOAL_MARKET = (
    *(*MARKETS["planted 0.4"], *FLEET, "agent=sac", *LARGER["sac"], "agent.gamma=0.9", "agent.learning_starts=512"),
    *("agent.batch_size=128", CONTINUOUS, "task.episode_bars=50", "train.envs=8", *QUIET),
)


def goal_cell(job: Job) -> dict[str, Any]:
    """Share of fresh episodes that end at their goal, after every sixteenth of the training."""
    k = 4 if job.cure == "hindsight" else 0
    overrides = last_of_each([*GOAL_MARKET, f"agent.hindsight={{k:{k},{KINDS[job.recipe]}}}", f"seed={job.seed}"])
    config = resolve(overrides)
    panel = build_panel(config)
    learner: Any = build_learner(config, build_parts(config, panel))
    fresh, every, curve = FreshBars(config, panel, FRESH_ENVS), GOAL_STEPS // LOOKS, []

    def look() -> None:
        if learner.step >= every * (len(curve) + 1):
            state = torch.get_rng_state()
            curve.append(fresh.judge(learner.fleet)[0])
            torch.set_rng_state(state)

    learner.learn(GOAL_STEPS, Between(look))
    return {"curve": [*curve, fresh.judge(learner.fleet)[0]][:LOOKS], "every": every}


def goal_jobs(folder: str, seeds: Sequence[int]) -> list[Job]:
    """Every kind of goal with hindsight and without."""
    return [
        Job(folder, GOALS, "sac", cure, kind, seed) for seed in seeds for kind in KINDS for cure in (NONE, "hindsight")
    ]


def goal_table(lines: Sequence[dict[str, Any]]) -> str:
    """Success of each kind of goal at the end, and how soon those with hindsight reach what the others end at."""
    rows = []
    for kind in KINDS:
        own = {(x["cure"], x["seed"]): np.array(x["curve"]) for x in lines if x["recipe"] == kind}
        seeds = sorted({seed for _, seed in own if {(NONE, seed), ("hindsight", seed)} <= own.keys()})
        if not seeds:
            continue
        plain, hindsight = (np.array([own[cure, seed] for seed in seeds]) for cure in (NONE, "hindsight"))
        reached = np.flatnonzero(hindsight.mean(0) >= plain[:, -1].mean())
        soon = f"{(reached[0] + 1) / len(plain[0]):.0%}" if len(reached) else "never"
        ends = [f"{curve[:, -1].mean():.1%}" for curve in (plain, hindsight)]
        rows.append([kind, str(len(seeds)), *ends, interval(list(100 * (hindsight[:, -1] - plain[:, -1]))), soon])
    header = ["goal", "seeds", "without", "with hindsight", "points more", "samples to what the others end at"]
    return table(header, rows)


# ---- all of them ----------------------------------------------------------------------------------------------------


def attempt(job: Job) -> dict[str, Any]:
    """`play`, or the sentence by which the product refuses the combination."""
    try:
        return play(job)
    except Exception as problem:
        return {"failed": f"{job.path.stem}: {type(problem).__name__}: {problem}"}


def play_all(jobs: Sequence[Job], workers: int, deadline: float) -> None:
    """Play what is not in the folder yet, in order, until the deadline."""
    known = {tuple(line[name] for name in KEY) for line in read_lines(jobs[0].folder)} if jobs else set()
    todo = [job for job in jobs if (job.illness, job.method, job.cure, job.recipe, job.seed, STEPS) not in known]
    print(f"{len(todo)} of {len(jobs)} cells to play", flush=True)
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        waiting = iter(todo)
        running = {pool.submit(attempt, job) for _, job in zip(range(workers), waiting, strict=False)}
        while running:
            done = next(as_completed(running))
            running.remove(done)
            line = done.result()
            print(line.get("failed") or json.dumps(shorten(line)), flush=True)
            following = next(waiting, None)
            if following is not None and time.time() < deadline:
                running.add(pool.submit(attempt, following))


def shorten(line: dict[str, Any]) -> dict[str, Any]:
    """A line with few digits, to be read while it runs."""
    return {name: round(value, 3) if isinstance(value, float) else value for name, value in line.items()}


def read_lines(folder: str) -> list[dict[str, Any]]:
    """Every line of the folder: of single cells, and of files that hold many."""
    files = sorted([*Path(folder).glob("cells/*.json"), *Path(folder).glob("*.jsonl")])
    lines = [json.loads(text) for file in files for text in file.read_text(encoding="utf-8").splitlines()]
    return list({tuple(line[name] for name in KEY): line for line in lines}.values())


KEY = ("illness", "method", "cure", "recipe", "seed", "steps")


def tuning_jobs(folder: str, seeds: Sequence[int], illnesses: Sequence[str], cures: Sequence[str]) -> list[Job]:
    """The agents without a cure, and at its illness every recipe of each cure that has several."""
    return [
        Job(folder, illness, method, cure, recipe, seed)
        for seed in seeds
        for illness in ILLNESSES
        if illness in illnesses
        for method in METHODS
        for cure in cures
        for recipe in recipes(illness, method, cure)
        if cure == NONE or (illness != HEALTHY and len(recipes(illness, method, cure)) > 1)
    ]


def choose(folder: str, seeds: Sequence[int]) -> dict[tuple[str, str, str], str]:
    """(illness, method, cure) -> the recipe with the best mean Sharpe ratio on the tuning seeds; else the first."""
    lines = [line for line in read_lines(folder) if line["seed"] in seeds and line["steps"] == STEPS]
    chosen = {}
    for illness in [name for name in ILLNESSES if name != HEALTHY]:
        for method in METHODS:
            for cure in CURES:
                own = {
                    recipe: {
                        x["seed"]: x for x in lines if [x[name] for name in KEY[:4]] == [illness, method, cure, recipe]
                    }
                    for recipe in recipes(illness, method, cure)
                }
                if own:
                    common = set.intersection(*(set(played) for played in own.values()))
                    chosen[illness, method, cure] = max(own, key=lambda recipe: merit(cure, own[recipe], common))
    return chosen


def merit(cure: str, played: Mapping[int, dict[str, Any]], seeds: Iterable[int]) -> tuple[int, float]:
    """What recipes are compared by on the seeds that all of them have: for options their use before what they earn."""
    lines = [played[seed] for seed in seeds]
    used = sum(map(uses_options, lines)) if cure == "learned options" else 0
    return used, float(np.mean([line["sharpe"] for line in lines])) if lines else 0.0


def skips_yardsticks() -> bool:
    """Whether scikit-learn, by which the lasso is fitted, is not there."""
    return find_spec("sklearn") is None


def uses_options(line: dict[str, Any]) -> int:
    """How many of the three gates of options a line meets."""
    smallest, largest, bars = (line.get(column) or 0.0 for column in OPTION_GATES)
    return int(smallest > 0.1) + int(largest <= 0.6) + int(bars > 5)


def reporting_jobs(
    folder: str, seeds: Sequence[int], illnesses: Sequence[str], cures: Sequence[str], tuned: Sequence[int]
) -> list[Job]:
    """The chosen recipes at their illness, and each of them once on the healthy market; yardsticks on each market."""
    chosen, jobs = choose(folder, tuned), []
    for seed in seeds:
        own = []
        for illness in [name for name in ILLNESSES if name in illnesses]:
            own += [Job(folder, illness, "yardstick", name, "", seed) for name in YARDSTICKS if not skips_yardsticks()]
            own += [
                Job(folder, illness, method, NONE, "", seed) for method in METHODS if recipes(illness, method, NONE)
            ]
        if HEALTHY in illnesses:  # of those that are played there alone there is one recipe
            own += [
                Job(folder, HEALTHY, method, cure, recipe, seed)
                for method in METHODS
                for cure in cures
                if not any((illness, method, cure) in chosen for illness in SICK)
                for recipe in recipes(HEALTHY, method, cure)
            ]
        for (illness, method, cure), recipe in chosen.items():
            if cure in cures and illness in illnesses:
                own.append(Job(folder, illness, method, cure, recipe, seed))
                if illness in SICK and recipe in recipes(HEALTHY, method, cure):
                    own.append(Job(folder, HEALTHY, method, cure, recipe, seed))
        jobs += list(dict.fromkeys(own))
    return jobs


# ---- tables ---------------------------------------------------------------------------------------------------------


def interval(values: Sequence[float]) -> str:
    """Mean, half-width of the 95 % Student interval, and how many there are."""
    count = len(values)
    if count < 2:
        return f"{np.mean(values):+.2f} ({count})" if count else "–"
    half = student.ppf(0.975, count - 1) * np.std(values, ddof=1) / count**0.5
    return f"{np.mean(values):+.2f} ± {half:.2f} ({count})"


COLUMNS = ("one order", "fills", "round trips", "states", "gates", "constant", *OPTION_GATES)


def rows_of(lines: Sequence[dict[str, Any]], illness: str) -> list[list[str]]:
    """A row for each yardstick, method and cure at an illness: means, and paired differences to agents without it."""
    here = [line for line in lines if line["illness"] == illness]
    rows = []
    for name in YARDSTICKS:
        own = [line["sharpe"] for line in here if line["cure"] == name]
        rows.append([name, "", f"{np.mean(own):+.2f}" if own else "–", *[""] * (2 + len(COLUMNS))])
    for method in METHODS:
        mine = [line for line in here if line["method"] == method]
        base = {line["seed"]: line for line in mine if line["cure"] == NONE}
        for cure in CURES:
            for recipe in dict.fromkeys(line["recipe"] for line in mine if line["cure"] == cure):
                own = {x["seed"]: x for x in mine if x["cure"] == cure and x["recipe"] == recipe}
                gained = [own[seed]["sharpe"] - base[seed]["sharpe"] for seed in own if seed in base]
                states = [own[seed]["states"] / base[seed]["states"] - 1 for seed in own if seed in base]
                cells = [f"{np.mean([line['sharpe'] for line in own.values()]):+.2f}"]
                cells.append("" if cure == NONE else interval(gained))
                cells.append("" if cure == NONE else f"{np.mean(states):+.0%}")
                for column in COLUMNS:
                    values = [line[column] for line in own.values() if line.get(column) is not None]
                    cells.append(f"{np.mean(values):.2f}" if values else "–")
                rows.append([f"{method}, {cure}", recipe, *cells])
    return rows


PRIOR_HEADER = ["market", "agents", "Sharpe ratio", "the prior alone", "less"]


def prior_rows(lines: Sequence[dict[str, Any]]) -> list[list[str]]:
    """Agents that begin at a prior beside the same prior, never trained."""
    rows = []
    for illness in ILLNESSES:
        own = {(x["cure"], x["seed"]): x["sharpe"] for x in lines if x["illness"] == illness and x["method"] == "ppo"}
        for cure in ("prior", "options around a prior"):
            pairs = [
                (own[cure, seed], own[alone, seed]) for alone, seed in own if alone == ALONE and (cure, seed) in own
            ]
            if pairs:
                means = [f"{mean:+.2f}" for mean in np.mean(pairs, axis=0)]
                rows.append([illness, cure, *means, interval([mine - prior for mine, prior in pairs])])
    return rows


def show(folder: str, seeds: Sequence[int]) -> str:
    """The tables of all illnesses."""
    lines = [line for line in read_lines(folder) if line["seed"] in seeds and line["steps"] == STEPS]
    header = ["agents", "recipe", "Sharpe ratio", "less without", "states visited", *COLUMNS]
    parts = [f"## {illness}\n\n{table(header, rows_of(lines, illness))}" for illness in ILLNESSES]
    parts.append(f"## what is gained over the prior alone\n\n{table(PRIOR_HEADER, prior_rows(lines))}")
    parts.append(f"## goals\n\n{goal_table([line for line in lines if line['illness'] == GOALS])}")
    return "\n\n".join(parts)


def main() -> None:
    """Tune, play and print, as asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tune", type=int, nargs="*", default=[])
    parser.add_argument("--tuned", type=int, nargs="*", default=[1, 2, 3], help="seeds that recipes are chosen by")
    parser.add_argument("--play", type=int, nargs="*", default=[])
    parser.add_argument("--only", nargs="*", default=[*ILLNESSES, GOALS])
    parser.add_argument("--cures", nargs="*", default=list(CURES))
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--part", help="3/30: every thirtieth cell from the third on, and no table")
    parser.add_argument("--folder", default="cures")
    parser.add_argument("--limit", type=float, default=1e9, help="seconds after which no further cell begins")
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    deadline = time.time() + options.limit
    cures = [NONE, *(cure for cure in options.cures if cure != NONE)]
    if options.tune:
        play_all(tuning_jobs(options.folder, options.tune, options.only, cures), options.workers, deadline)
    if options.play:
        jobs = reporting_jobs(options.folder, options.play, options.only, cures, options.tuned)
        goals = goal_jobs(options.folder, options.play) if GOALS in options.only else []
        # Seed by seed, so that one that is cut off has few seeds of everything.
        jobs = sorted([*goals, *jobs], key=lambda job: job.seed)
        if options.part:
            number, parts = map(int, options.part.split("/"))
            play_all(jobs[number - 1 :: parts], options.workers, deadline)
            return
        play_all(jobs, options.workers, deadline)
    whole = "".join(json.dumps(line) + "\n" for line in read_lines(options.folder))
    (Path(options.folder) / "cures.jsonl").write_text(whole, encoding="utf-8")
    publish(Path(__file__).stem, show(options.folder, options.play or options.tune), "Cures for agents that collapse")


if __name__ == "__main__":
    main()
