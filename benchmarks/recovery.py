"""What each part against collapse adds, and what curiosity costs: fleets on the planted market at strength 0.4.

    python benchmarks/recovery.py [--steps 49152] [--seeds 1 2 3] [--only NAME …] [--scores FILE] [--record]

Market and settings are those of the league's fleets, with which they learn: ten agents, trained on 1,800 bars, chosen
on 600 and played in one account on 3,000 later ones. Differences are paired over seeds, with their 95 % Student
interval. Oracle, ridge, lasso and hold on the same bars stand below. With --scores every finished row is kept in a
file, and a stopped benchmark continues from it; seconds are those of the machine that played the row.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from record import publish, table
from rich.console import Console
from scipy.stats import t as student

from pacesetter.agents.encoders import NETWORKS
from pacesetter.build import build_fold, build_panel, build_parts, build_table
from pacesetter.build.learner import build_learner
from pacesetter.evaluation.statistics.metrics import sharpe
from pacesetter.evaluation.stored_run import StoredRun
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.jobs.run.train import train
from pacesetter.lab.league.cell import Cell, play_cell
from pacesetter.lab.league.ladder import MARKETS
from pacesetter.methods.offline.export import export_episodes
from pacesetter.methods.supervised.direction import Direction
from pacesetter.methods.supervised.forecasts import fit_supervised

MARKET = [
    *("+preset=[planted,recovery]", *MARKETS["planted 0.4"][1:], "task=fleet"),
    *("train.envs=32", "task.retrain_share=0", "train.checkpoint_every=0"),
]
QUIET = ["track.mlflow=off", "track.tensorboard=off", "track.progress=false", "train.log_every=8192"]
SMALL = ["agent.network=mlp_tiny", "agent.heads=[32]"]
DISCRETE, CONTINUOUS = "task.action=discrete", "task.action=continuous"
LEARNED = [
    *("agent=ppo", *SMALL, "agent.learning_rate=0.005", "agent.encoder_learning_rate=0.002", "agent.gamma=0.5"),
    *("agent.n_steps=32", "agent.gae_lambda=0.5", "agent.clip_range=0.3", "agent.target_kl=null"),
]
PPO = [*LEARNED, DISCRETE]
SAC = [
    *("agent=sac", *SMALL, "agent.learning_rate=0.003", "agent.encoder_learning_rate=0.003", "agent.gamma=0.3"),
    *("agent.gradient_steps=4", "agent.batch_size=256", "agent.learning_starts=1024", "agent.tau=0.02", CONTINUOUS),
]
ENCODER = "transformer_small"  # that a direction classifier and an agent share
READER = [text.replace("mlp_tiny", ENCODER) for text in PPO]
CURIOUS = "agent.extras.curiosity={}"
TREND = "features.names=[return_1,regime_trend_efficiency]"  # the curriculum chooses starts by it
INDICATORS = "features.names=[return_1,rsi_14,macd,macd_signal,bollinger_position]"  # the expert decides by them
VARIANTS: dict[str, list[str]] = {
    "PPO": PPO,
    "PPO, continuous orders": [*LEARNED, CONTINUOUS],
    "PPO + curiosity": [*PPO, CURIOUS],
    "PPO + potential": [*PPO, "agent.extras.potential={}"],
    "PPO + auxiliary": [*PPO, "agent.extras.auxiliary={expert:0}"],
    "PPO + repetition limit": [*PPO, "task.repetition_limit=20"],
    "PPO + trend feature": [*PPO, TREND],
    "PPO + curriculum": [*PPO, TREND, "task.curriculum=programme"],
    "PPO after cloning the oracle": PPO,
    "PPO + indicators": [*PPO, INDICATORS],
    "PPO after cloning the expert": [*PPO, INDICATORS],
    "PPO, transformer": READER,
    "PPO, transformer of a classifier": READER,
    "SAC": SAC,
    "SAC + curiosity": [*SAC, CURIOUS],
}
# What a row is compared with: the same method, and the same features, without the part.
BASE = {name: "SAC" if name.startswith("SAC") else "PPO" for name in VARIANTS} | {
    "PPO + curriculum": "PPO + trend feature",
    "PPO after cloning the expert": "PPO + indicators",
    "PPO, transformer of a classifier": "PPO, transformer",
}
SUPERVISED = "PPO, transformer of a classifier"
CLONED = {"PPO after cloning the oracle": "oracle", "PPO after cloning the expert": "expert"}  # row -> its teacher
EPISODES, CLONE_STEPS = 60, 8_192  # of a teacher, in each regime; and of cloning it
ACCURACY = "held-out accuracy"  # of a clone: its orders that are the teacher's
REPEATS = 3  # of the measurement of a cost
YARDSTICKS = ("oracle", "ridge", "lasso", "hold")
MEASURES = ("action entropy", "distinct actions", "round trips per 1,000 steps", "states visited")
GATES = {"gates passed": "temperature 2", "gates passed, deterministic": "deterministic"}  # column -> way of playing


def overrides(name: str, seed: int, steps: int, runs: str) -> list[str]:
    """Those of one run."""
    more = [f"seed={seed}", f"train.steps={steps}", f"train.validate_every={steps}", f"runs={runs}"]
    return [*MARKET, *VARIANTS[name], *QUIET, *more]


def play(name: str, seed: int, steps: int, runs: str) -> dict[str, Any]:
    """One fleet: its test Sharpe ratio, and the mean gates of its agents on the validation set."""
    start, more, cloning = time.perf_counter(), [], {}
    if name in CLONED:
        clone = cloned(name, seed, min(steps, CLONE_STEPS), runs)
        more = [f"train.init_from={clone}"]
        cloning = {ACCURACY: json.loads((clone / "offline.json").read_text())["held_out"]["accuracy"]}
    if name == SUPERVISED:
        more = [f"train.init_from={classifier(name, seed, steps, runs)}"]
    result = train(resolve([*overrides(name, seed, steps, runs), *more]), console=Console(quiet=True))
    seconds = time.perf_counter() - start
    tested = StoredRun(result.run.folder).play()
    agents = list(json.loads((result.run.folder / "gates.json").read_text())["agents"].values())
    hot = [agent["temperature 2"] for agent in agents]
    values = {measure: float(np.mean([agent[measure]["value"] for agent in hot])) for measure in MEASURES}
    # A gate that the oracle fails on the same bars does not apply.
    for short, way in GATES.items():
        held = [gate["passed"] for agent in agents for gate in agent[way].values() if gate["applicable"]]
        values[short] = float(np.mean(held))
    ratio = float(sharpe(tested.returns, tested.bars_per_year))
    score = (
        {"name": name, "seed": seed, "sharpe": ratio, "validation": result.score, "seconds": seconds} | values | cloning
    )
    print(json.dumps(score), flush=True)
    return score


def cloned(name: str, seed: int, steps: int, runs: str) -> Path:
    """The run that cloned a teacher on the training bars, with the networks of PPO."""
    market = [*MARKET, *(text for text in VARIANTS[name] if text.startswith(("features.", "task."))), *QUIET]
    dataset = Path(runs) / f"{CLONED[name]}-{seed}.h5"
    own = [*market, f"seed={seed}"]
    export_episodes(CLONED[name], own, out=dataset, episodes=EPISODES, regimes=["expert"], seed=seed)
    network = [text for text in PPO if text.startswith(("agent.network", "agent.heads"))]
    # Held-out episodes choose the best clone: they have a loss, and no Sharpe ratio.
    learned = [f"agent.dataset={dataset}", "train.best_by=score", f"train.steps={steps}"]
    learned += [f"train.validate_every={steps // 2}"]
    result = train(resolve([*own, "agent=bc", *network, *learned, f"runs={runs}"]), console=Console(quiet=True))
    return result.run.folder


def classifier(name: str, seed: int, steps: int, runs: str) -> Path:
    """The folder of a direction classifier of the training bars with the agent's encoder."""
    config = resolve(overrides(name, seed, steps, runs))
    panel, task = build_panel(config), config.trading
    model = Direction(ENCODER, NETWORKS[ENCODER].width, task.window_bars, seed=seed)  # type: ignore[arg-type]
    known = int(build_fold(config, panel).train[-1]) + 1
    fit_supervised(panel, build_table(config, panel), model, train_bars=known, cache=Path(runs) / "supervised")
    (folder,) = (Path(runs) / "supervised").iterdir()
    return folder


def yardstick(name: str, seed: int) -> dict[str, Any]:
    """The test Sharpe ratio of a yardstick on the bars of a seed."""
    with tempfile.TemporaryDirectory() as folder:
        score = play_cell(Cell(folder, "planted", name, seed, tuple(MARKET), None))
    return {"name": name, "seed": seed, "sharpe": score.sharpe}


def half_width(values: Any) -> float:
    """Of the 95 % Student interval of a mean."""
    count = len(values)
    return float(student.ppf(0.975, count - 1) * np.std(values, ddof=1) / count**0.5) if count > 1 else float("nan")


def rows_of(scores: list[dict[str, Any]]) -> list[list[str]]:
    """A row for each variant: means, and paired differences to its method without the part."""
    rows = []
    for name in VARIANTS:
        own = {score["seed"]: score for score in scores if score["name"] == name}
        base = {score["seed"]: score for score in scores if score["name"] == BASE[name]}
        if not own or own.keys() - base.keys():
            continue
        gained = np.array([own[seed]["sharpe"] - base[seed]["sharpe"] for seed in own])
        cells = [f"{np.mean([score['sharpe'] for score in own.values()]):+.2f}"]
        cells.append("" if name == BASE[name] else f"{gained.mean():+.2f} ± {half_width(gained):.2f}")
        cells += [f"{np.mean([score[measure] for score in own.values()]):.2f}" for measure in (*MEASURES, *GATES)]
        rows.append([name, *cells, f"{np.mean([score['seconds'] for score in own.values()]):.0f}"])
    for name in YARDSTICKS:
        ratios = [score["sharpe"] for score in scores if score["name"] == name]
        rows.append([name, f"{np.mean(ratios):+.2f}", *[""] * (len(MEASURES) + len(GATES) + 2)])
    return rows


# ---- what curiosity costs -------------------------------------------------------------------------------------------


def cost(name: str, steps: int) -> dict[str, float]:
    """Seconds and peak memory of learning alone, in a process of its own."""
    line = [sys.executable, __file__, "--cost", name, "--steps", str(steps)]
    done = subprocess.run(line, capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def measure_cost(name: str, steps: int) -> None:
    """Print processor seconds per step of all agents, and the peak of memory."""
    config = resolve(overrides(name, 1, steps, "runs"))
    learner = build_learner(config, build_parts(config, build_panel(config)))
    # Compiled code is warm, and a replay is learned from.
    learner.learn(2 * learner.round_steps + int(getattr(learner.config, "learning_starts", 0)))
    start, first = time.process_time(), learner.step  # of this process, whatever else the machine does
    learner.learn(first + steps)
    seconds = (time.process_time() - start) / (learner.step - first)
    print(json.dumps({"seconds": seconds, "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))


def scored(seeds: list[int], names: list[str], steps: int, store: Path | None) -> list[dict[str, Any]]:
    """Every row and seed; those in the store are read, the others are played and added to it."""
    lines = store.read_text().splitlines() if store and store.is_file() else []
    stored = {(score["name"], score["seed"], score["steps"]): score for score in map(json.loads, lines)}
    scores = []
    for seed in seeds:
        for name in (*names, *YARDSTICKS):
            if (name, seed, steps) not in stored:
                with tempfile.TemporaryDirectory() as runs:
                    new = yardstick(name, seed) if name in YARDSTICKS else play(name, seed, steps, runs)
                stored[name, seed, steps] = new | {"steps": steps}
                if store:
                    with store.open("a") as file:
                        file.write(json.dumps(stored[name, seed, steps]) + "\n")
            scores.append(stored[name, seed, steps])
    return scores


def main() -> None:
    """Play all, print, and record where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=49_152)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--only", nargs="*", default=list(VARIANTS))
    parser.add_argument("--scores", type=Path, help="file of finished rows, a line of JSON each")
    parser.add_argument("--cost", default="")
    parser.add_argument("--costs", nargs="*", default=["PPO", "SAC"], help="methods whose curiosity is timed")
    parser.add_argument("--cost-steps", type=int, default=2_048)
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    if options.cost:
        measure_cost(options.cost, options.steps)
        return
    scores = scored(options.seeds, options.only, options.steps, options.scores)
    header = ["fleet", "test Sharpe ratio", "against without", *MEASURES, *GATES, "seconds"]
    text = table(header, rows_of(scores))
    costs = []
    for base in options.costs:
        # In turn, and the median: another process beside one of them would pass for a cost.
        runs = [[cost(name, options.cost_steps) for name in (base, f"{base} + curiosity")] for _ in range(REPEATS)]
        plain, curious = (
            {key: float(np.median([run[key] for run in own])) for key in own[0]} for own in zip(*runs, strict=True)
        )
        ratios = (curious["seconds"] / plain["seconds"], curious["memory"] / plain["memory"] - 1)
        figures = (f"{1e3 * plain['seconds']:.2f}", f"{ratios[0]:.2f}", f"{plain['memory']:.0f}", f"{ratios[1]:+.1%}")
        costs.append([base, *figures])
    spent = table(["method", "ms a step", "with curiosity, times", "peak memory, MiB", "with curiosity"], costs)
    seeds = ", ".join(map(str, options.seeds))
    note = (
        f"Planted market, strength 0.4, seeds {seeds}, {options.steps} steps of each agent; gates at temperature 2.0."
    )
    clones = {CLONED[score["name"]]: score[ACCURACY] for score in scores if ACCURACY in score}
    exact = "; ".join(f"{ACCURACY} of the cloned {teacher} {share:.1%}" for teacher, share in clones.items())
    publish(Path(__file__).stem, "\n\n".join(part for part in (text, exact, spent if costs else "") if part), note)


if __name__ == "__main__":
    main()
